//! Scenario of a run: a disk, cgroups with limits, and work.

use std::num::NonZeroU32;
use std::path::PathBuf;

use thiserror::Error;
use weir_engine::settings::{BfqSettings, LowLatency, PrioClass};
use weir_engine::{Limits, Path, SchedulerKind, Watermark, Weight};
use weir_fio::{JobFile, ReplaySkip};
use weir_units::{Bytes, Nanos};

/// A run, ready to begin. [`crate::sim::run`] checks its jobs before the first request.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Title of reports.
    pub title: String,
    /// The disk.
    pub disk: weir_disk::Spec,
    /// The engine: device window and prices. Its bounds are raised to what the jobs need.
    pub engine: weir_engine::Config,
    /// Cgroups with limits or a weight, a parent before its children. Others are created as jobs name them.
    pub cgroups: Vec<CgroupSetting>,
    /// The cgroup of jobs that name none.
    pub home: Home,
    /// The page cache, for buffered jobs.
    pub cache: weir_pagecache::Settings,
    /// Lateness of the machine.
    pub machine: Machine,
    /// Time between disk and process.
    pub path_delay: PathDelay,
    /// Seed of all random choices.
    pub seed: u64,
    /// Names of sections whose processes fork a new child for each loop, one after the other: programs that are
    /// started again and again.
    pub forks: Vec<String>,
    /// When to stop, whatever is in flight; nanoseconds of virtual time.
    pub until_ns: Option<u64>,
    /// Changes during the run, in order of time.
    pub timed_changes: Vec<TimedChange>,
    /// A governor over the limits; None for limits that always bind, or those of a watermark.
    pub govern: Option<Govern>,
    /// Source of the requests.
    pub work: Work,
}

/// A governor: raises limits of a kernel while the disk has room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Govern {
    /// Up to which utilisation, and how.
    pub watermark: Watermark,
    /// The same for some cgroups and those below them.
    pub below: Vec<(Path, Watermark)>,
    /// What the kernel counts, and how limits are written.
    pub version: CgroupVersion,
}

/// Version of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CgroupVersion {
    /// A file for each kind of limit, so that two writes follow each other; no `io.pressure`; requests are counted before
    /// they wait for a limit.
    V1,
    /// `io.max`, `io.pressure`, `io.stat`.
    #[default]
    V2,
}

/// Lateness of a machine. By default sleeps and timers end when they should.
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
    /// Mean number of pauses from one hiccup to the next.
    pub const HICCUP_EVERY: u64 = 10;
}

/// Time of a request besides engine and disk: system calls, sockets, wake-ups, the client's own work. None by
/// default.
///
/// All of it comes after the disk: the latency is the same, and so is the pause that the engine sees before the next
/// request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathDelay {
    /// Possible times in nanoseconds, each with the same probability.
    pub times_ns: Vec<u64>,
    /// The serial part, as in a server with one thread: at most one request comes through in this time. At most
    /// [`PathDelay::mean_ns`].
    pub each_ns: u64,
}

impl PathDelay {
    /// Most [`PathDelay::times_ns`].
    pub const TIMES_MAX: usize = 1000;

    /// Mean time, rounded down.
    pub fn mean_ns(&self) -> u64 {
        let sum: u128 = self.times_ns.iter().map(|&time| u128::from(time)).sum();
        let count = self.times_ns.len().max(1) as u128;
        u64::try_from(sum / count).unwrap_or(u64::MAX)
    }
}

/// Settings of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupSetting {
    /// Its path.
    pub path: Path,
    /// `io.weight`; None leaves it as it is.
    pub weight: Option<Weight>,
    /// `io.prio.class`; None leaves it as it is.
    pub prio_class: Option<PrioClass>,
    /// `io.bfq.low_latency`; None inherits.
    pub low_latency: Option<LowLatency>,
    /// `io.watermark`, of the root the disk's; None inherits.
    pub watermark: Option<Watermark>,
    /// `io.max` and its relatives; valid.
    pub limits: Limits,
}

impl CgroupSetting {
    /// A cgroup without settings.
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

    /// Changes from `old` to these settings. Only differences, for a limiter begins anew when it is given its limits
    /// again.
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

/// A setting that changes during a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedChange {
    /// Virtual time of the change.
    pub at_ns: u64,
    /// As given: `max=/vm1 rbps=4M`.
    pub text: String,
    /// Its changes; none if the setting has that value already.
    pub changes: Vec<Change>,
}

/// One change of the engine's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Limits of a cgroup, with their limiter; valid.
    Limits(Path, Limits),
    /// Weight of a cgroup.
    Weight(Path, Weight),
    /// `io.prio.class` of a cgroup.
    PrioClass(Path, PrioClass),
    /// `io.bfq.low_latency` of a cgroup; None inherits.
    LowLatency(Path, Option<LowLatency>),
    /// `io.watermark` of a cgroup; None inherits.
    Watermark(Path, Option<Watermark>),
    /// Requests that may be at the disk at once.
    Depth(NonZeroU32),
    /// The scheduler.
    Scheduler(SchedulerKind),
    /// Settings of the scheduler bfq.
    Bfq(BfqSettings),
}

/// The cgroup of a job that names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// This one for all.
    Shared(Path),
    /// One for each name of a job, below the root.
    PerJob,
}

/// Source of the requests.
#[derive(Debug, Clone)]
pub enum Work {
    /// The jobs of a fio job file.
    Jobs(JobFile),
    /// A block trace: each of its streams (a volume, a disk, a process) is a client.
    Trace(Trace),
}

/// A block trace and its replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Path of the file.
    pub path: PathBuf,
    /// Its format; detected if not given.
    pub format: Option<weir_trace::Format>,
    /// The device, volume or file whose requests are taken; those of all if not given.
    pub device: Option<String>,
    /// When requests are due.
    pub timing: Timing,
    /// With [`Timing::Asap`], requests of a stream in flight at most.
    pub depth: u32,
    /// Rounds of the replay, one after the other; at least one.
    pub repeat: u32,
    /// Offsets are divided by it (`replay_scale`).
    pub offset_divisor: u32,
    /// Offsets are rounded down to multiples of it (`replay_align`).
    pub align: Option<u64>,
    /// Operations that are left out (`replay_skip`).
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
    /// At the trace's times; dependent requests after their pause.
    Original,
    /// The same at so many percent of the trace's speed: 200 is twice as fast.
    Percent(u32),
    /// As soon as the stream's depth and dependencies allow.
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
    /// A cgroup that cannot be created or set.
    #[error("cgroup {path:?}: {reason}")]
    Cgroup {
        /// As written.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A timed change that the engine refuses.
    #[error("at {}, {setting}: {reason}", Nanos(*at_ns))]
    Change {
        /// Its time.
        at_ns: u64,
        /// The setting.
        setting: String,
        /// Why not.
        reason: String,
    },
    /// A trace that cannot be read.
    #[error("{file}: {reason}")]
    Trace {
        /// Its path.
        file: String,
        /// Why not.
        reason: String,
    },
    /// A trace of unknown format.
    #[error(
        "{file}: its first lines are of no known format of traces; the first is {first_line:?}"
    )]
    TraceFormat {
        /// Its path.
        file: String,
        /// Its first line, cut.
        first_line: String,
    },
    /// Events without end that take no time.
    #[error(
        "virtual time stands still at {now_ns} ns: after {events} events nothing has taken any time"
    )]
    Standstill {
        /// Virtual time.
        now_ns: u64,
        /// Events without progress.
        events: u64,
    },
}

/// ` (line 3)`; nothing for a job of a command line.
fn at_line(line: usize) -> String {
    if line == 0 { String::new() } else { format!(" (line {line})") }
}

impl ScenarioError {
    /// How to mend it.
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
