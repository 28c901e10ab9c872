//! Scenario of a run: a disk, cgroups with limits, and work.

use std::num::NonZeroU32;
use std::path::PathBuf;

use thiserror::Error;
use weir_engine::settings::{BfqSettings, LowLatency, PrioClass};
use weir_engine::{Limits, Path, SchedulerKind, Watermark, Weight};
use weir_fio::{JobFile, ReplaySkip};
use weir_units::{Bytes, Nanos};

/// A run, ready to begin. What is wrong with its jobs comes up in [`crate::sim::run`], before the first request.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What reports call it.
    pub title: String,
    /// The disk.
    pub disk: weir_disk::Spec,
    /// The engine: device window and prices. What it may hold is raised to what the jobs need.
    pub engine: weir_engine::Config,
    /// Cgroups with limits or a weight, a parent before its children. Others are made as jobs name them.
    pub cgroups: Vec<CgroupSetting>,
    /// Where jobs go that name no cgroup.
    pub home: Home,
    /// The page cache, for jobs that do not go around it.
    pub cache: weir_pagecache::Settings,
    /// How late the machine is.
    pub machine: Machine,
    /// What lies between processes and disk.
    pub path_delay: PathDelay,
    /// What all random choices come from.
    pub seed: u64,
    /// Jobs whose processes let a new child make each of their loops, one after the other: programs that are started
    /// again and again. Names of sections.
    pub forks: Vec<String>,
    /// When to stop, whatever is still under way; nanoseconds of virtual time.
    pub until_ns: Option<u64>,
    /// What changes while the run goes on, in order of time.
    pub timed_changes: Vec<TimedChange>,
    /// Who asks for what.
    pub work: Work,
}

/// How a machine differs from one whose sleeps and timers end when they should. The default is that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Machine {
    /// A pause of a process (`thinktime`) is longer by this.
    pub pause_late_ns: u64,
    /// One pause in [`Machine::HICCUP_EVERY`], by chance, is longer by this as well.
    pub hiccup_ns: u64,
    /// A limiter's timer rings later by this.
    pub timer_late_ns: u64,
}

impl Machine {
    /// One pause in ten has a hiccup.
    pub const HICCUP_EVERY: u64 = 10;
}

/// What a request takes besides engine and disk: system calls, sockets, wake-ups, the client's own work. Nothing by
/// default.
///
/// It comes after the disk, all of it: to those who wait for the request it is the same, and what the engine sees of it
/// is the pause before the next request either way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathDelay {
    /// So long, in nanoseconds: each as likely as the others.
    pub times_ns: Vec<u64>,
    /// The part of it that is for one request at a time, as with a server of one thread: no more than one request in this
    /// time comes through. At most [`PathDelay::mean_ns`].
    pub each_ns: u64,
}

impl PathDelay {
    /// Most [`PathDelay::times_ns`].
    pub const TIMES_MAX: usize = 1000;

    /// How long it is on average, rounded down.
    pub fn mean_ns(&self) -> u64 {
        let sum: u128 = self.times_ns.iter().map(|&time| u128::from(time)).sum();
        let count = self.times_ns.len().max(1) as u128;
        u64::try_from(sum / count).unwrap_or(u64::MAX)
    }
}

/// What a cgroup is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupSetting {
    /// Which.
    pub path: Path,
    /// `io.weight`; None leaves it as it is.
    pub weight: Option<Weight>,
    /// `io.prio.class`; None leaves it as it is.
    pub prio_class: Option<PrioClass>,
    /// `io.bfq.low_latency`; None goes by what is set above.
    pub low_latency: Option<LowLatency>,
    /// `io.watermark`, of the root the disk's; None goes by what is set above.
    pub watermark: Option<Watermark>,
    /// `io.max` and its relatives; valid.
    pub limits: Limits,
}

impl CgroupSetting {
    /// A cgroup that nothing is set of.
    pub fn untouched(path: Path) -> CgroupSetting {
        CgroupSetting {
            path,
            weight: None,
            prio_class: None,
            low_latency: None,
            watermark: None,
            limits: Limits::default(),
        }
    }

    /// What is to be done with a cgroup that is set to `old`. Only what differs: a limiter that is told its limits again
    /// begins anew.
    pub fn since(&self, old: &CgroupSetting) -> Vec<Change> {
        let path = || self.path.clone();
        let limits = (self.limits != old.limits).then(|| Change::Limits(path(), self.limits));
        let weight = self.weight.filter(|_| self.weight != old.weight);
        let prio_class = self.prio_class.filter(|_| self.prio_class != old.prio_class);
        let low_latency = (self.low_latency != old.low_latency)
            .then(|| Change::LowLatency(path(), self.low_latency));
        let watermark =
            (self.watermark != old.watermark).then(|| Change::Watermark(path(), self.watermark));
        let weight = weight.map(|weight| Change::Weight(path(), weight));
        let prio_class = prio_class.map(|prio_class| Change::PrioClass(path(), prio_class));
        [limits, low_latency, watermark, weight, prio_class].into_iter().flatten().collect()
    }
}

/// Something that is set while the run goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedChange {
    /// When; virtual time.
    pub at_ns: u64,
    /// As it was asked for: `max=/vm1 rbps=4M`.
    pub text: String,
    /// What that changes; nothing, where it was so before.
    pub changes: Vec<Change>,
}

/// One change of the engine's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Limits of a cgroup, with their limiter; valid.
    Limits(Path, Limits),
    /// Its weight.
    Weight(Path, Weight),
    /// Its `io.prio.class`.
    PrioClass(Path, PrioClass),
    /// Its `io.bfq.low_latency`; None goes by what is set above.
    LowLatency(Path, Option<LowLatency>),
    /// Its `io.watermark`; None goes by what is set above.
    Watermark(Path, Option<Watermark>),
    /// Requests that may be at the disk at once.
    Depth(NonZeroU32),
    /// Who chooses the next.
    Scheduler(SchedulerKind),
    /// How the scheduler bfq does.
    Bfq(BfqSettings),
}

/// The cgroup of a job that does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// This one for all.
    Shared(Path),
    /// One for each name of a job, below the root.
    PerJob,
}

/// Who asks for what.
#[derive(Debug, Clone)]
pub enum Work {
    /// The jobs of a fio job file.
    Jobs(JobFile),
    /// A block trace: each of its streams (a volume, a disk, a process) is a client of its own.
    Trace(Trace),
}

/// A block trace and how it is replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Where it is.
    pub path: PathBuf,
    /// What it is; found out by its looks if not given.
    pub format: Option<weir_trace::Format>,
    /// The device, volume or file whose requests are taken; those of all if not given.
    pub device: Option<String>,
    /// When requests are due.
    pub timing: Timing,
    /// With [`Timing::Asap`], requests of a stream in flight at most.
    pub depth: u32,
    /// How often it is replayed, one after the other; at least once.
    pub repeat: u32,
    /// Offsets are divided by it (`replay_scale`).
    pub offset_divisor: u32,
    /// Offsets are rounded down to multiples of it (`replay_align`).
    pub align: Option<u64>,
    /// What is left out (`replay_skip`).
    pub skip: ReplaySkip,
}

impl Trace {
    /// A trace as it is: once, with its own times.
    pub fn new(path: impl Into<PathBuf>) -> Trace {
        Trace {
            path: path.into(),
            format: None,
            device: None,
            timing: Timing::Original,
            depth: 32,
            repeat: 1,
            offset_divisor: 1,
            align: None,
            skip: ReplaySkip::default(),
        }
    }
}

/// When the requests of a trace are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// When the trace has them; those that depend on the one before, their pause after that.
    Original,
    /// Likewise at so many percent of the trace's speed: 200 is twice as fast.
    Percent(u32),
    /// As soon as the stream's depth and what they depend on let them.
    Asap,
}

/// A trace format by columns, for messages.
pub const COLUMNS: &str = "trace.format=csv:time_us=6,op=4,lba512=5,bytes=2";

/// Why a scenario cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScenarioError {
    /// Files that are larger than the disk.
    #[error(
        "the jobs' files take {} ({files_bytes} bytes), and the disk has {} ({disk_bytes} bytes)",
        Bytes(*files_bytes).rounded(),
        Bytes(*disk_bytes).rounded()
    )]
    FilesTooLarge {
        /// All together.
        files_bytes: u64,
        /// The disk.
        disk_bytes: u64,
    },
    /// A job that cannot make requests.
    #[error("job `{job}`{}: {reason}", at_line(*line))]
    Job {
        /// Its name.
        job: String,
        /// Line of its section; 0 on a command line.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A cgroup that cannot be.
    #[error("cgroup {path:?}: {reason}")]
    Cgroup {
        /// As written.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A setting that cannot change then.
    #[error("at {}, {setting}: {reason}", Nanos(*at_ns))]
    Change {
        /// When.
        at_ns: u64,
        /// What was to be set.
        setting: String,
        /// Why not.
        reason: String,
    },
    /// A trace that cannot be read.
    #[error("{file}: {reason}")]
    Trace {
        /// Which.
        file: String,
        /// Why not.
        reason: String,
    },
    /// A trace whose format its looks do not tell.
    #[error(
        "{file}: its first lines are of no known format of traces; the first is {first_line:?}"
    )]
    TraceFormat {
        /// Which.
        file: String,
        /// What it begins with, cut.
        first_line: String,
    },
    /// Something takes no time, for ever.
    #[error(
        "virtual time stands still at {now_ns} ns: after {events} events nothing has taken any time"
    )]
    Standstill {
        /// When.
        now_ns: u64,
        /// How many were tried.
        events: u64,
    },
}

/// ` (line 3)`; nothing for a job of a command line.
fn at_line(line: usize) -> String {
    if line == 0 { String::new() } else { format!(" (line {line})") }
}

impl ScenarioError {
    /// What would be right.
    pub fn hint(&self) -> Option<String> {
        match self {
            ScenarioError::FilesTooLarge { files_bytes, .. } => {
                let gib = files_bytes.div_ceil(1 << 30);
                Some(format!(
                    "make the disk larger (`--disk MODEL,size={gib}G`) or the jobs' `size` smaller"
                ))
            }
            ScenarioError::Standstill { .. } => {
                Some("give the disk a latency or the job a `thinktime` or a `rate`".into())
            }
            ScenarioError::TraceFormat { .. } => {
                let names = weir_trace::Format::names();
                Some(format!(
                    "`--set trace.format=NAME` says it: {names}; or by columns: {COLUMNS}"
                ))
            }
            ScenarioError::Job { .. }
            | ScenarioError::Cgroup { .. }
            | ScenarioError::Change { .. }
            | ScenarioError::Trace { .. } => None,
        }
    }
}
