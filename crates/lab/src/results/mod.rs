//! Results of a run, as plain data: the simulator fills it, reports show it.
//!
//! All times are nanoseconds of virtual time. Nothing here depends on the machine that ran the simulation: the same
//! scenario and seed give equal [`Results`].

mod latency;
mod latency_target;
mod series;
mod steadiness;

pub use latency::Latency;
pub use latency_target::LatencyTargetResult;
pub use series::{POINTS_MAX, Series};
pub use steadiness::Steadiness;

use weir_engine::Limits;
use weir_engine::settings::BfqSettings;
use weir_engine::stats::{BfqCgroupStats, BfqStats, Blame, Counters};

/// One run of a scenario.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Results {
    /// What ran: a job file's or a trace's name.
    pub title: String,
    /// The disk's line, as [`weir_disk::Spec`] prints it.
    pub disk: String,
    /// The scheduler's name, at the beginning: `none` or `bfq`.
    pub scheduler: String,
    /// The device window, at the beginning: requests that may be at the disk at once.
    pub depth: u32,
    /// What all random choices came from.
    pub seed: u64,
    /// What a request took besides engine and disk on average, and which part of that was for one at a time.
    pub way_ns: u64,
    /// See [`Results::way_ns`].
    pub way_each_ns: u64,
    /// From the first start to the last end.
    pub elapsed_ns: u64,
    /// Requests that the engine took in.
    pub requests: u64,
    /// One for each job, or group of jobs that asked to be reported together, in the order of the file.
    pub rows: Vec<Row>,
    /// All cgroups, a parent before its children. Figures include those of the cgroups below.
    pub cgroups: Vec<CgroupResults>,
    /// The disk.
    pub device: DeviceResults,
    /// What the scheduler `bfq` did, and its settings at the end; None where it never was.
    pub bfq: Option<BfqResults>,
    /// Settings that changed while it ran, in order.
    pub changes: Vec<Changed>,
    /// What a reader should know: options without effect, trace lines skipped.
    pub notes: Vec<String>,
}

/// A setting that counted from then on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changed {
    /// When.
    pub at_ns: u64,
    /// As it was asked for: `max=/vm1 rbps=4M`.
    pub setting: String,
}

/// One job, or several that are reported together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Its name. Not unique: clones share one.
    pub name: String,
    /// fio's `groupid`.
    pub group: u32,
    /// Which clone; 0 for rows of several.
    pub clone: u32,
    /// The path of its cgroup; of the lowest that all its jobs are in, where there are several.
    pub cgroup: String,
    /// How many jobs are in it.
    pub processes: u32,
    /// Why it ended before its time; None if it did not.
    pub error: Option<String>,
    /// From the first start (after `ramp_time`) to the last end.
    pub runtime_ns: u64,
    /// fio's `job_runtime`: how long each of its jobs ran, summed.
    pub processes_ns: u64,
    /// What it read.
    pub read: Transfers,
    /// What it wrote.
    pub write: Transfers,
    /// What it trimmed.
    pub trim: Transfers,
    /// All of these together, where `unified_rw_reporting` asks for it.
    pub mixed: Option<Transfers>,
    /// Whether that is told in the place of the three (`unified_rw_reporting=mixed`), and not beside them.
    pub is_unified: bool,
    /// How long its `fsync`s and `fdatasync`s took.
    pub sync: Latency,
    /// Whether its rate was steady, where it was to end then (`steadystate`).
    pub steady: Option<Steadiness>,
    /// The depth that it found, where it was to look for one (`latency_target`).
    pub latency_target: Option<LatencyTargetResult>,
    /// The largest number of requests in flight that it was allowed.
    pub depth: u32,
    /// fio's `job options`: what its section says, key and value, for tools that group runs by `rw`, `bs` and the like.
    /// Empty where nothing is known.
    pub options: Vec<(String, String)>,
}

impl Row {
    /// One of its jobs is in the cgroup `path`: its own becomes the lowest that has both in it.
    pub(crate) fn widen_to(&mut self, path: String) {
        if self.cgroup.is_empty() {
            self.cgroup = path;
            return;
        }
        let both = self.cgroup.split('/').zip(path.split('/'));
        let common = both.take_while(|(one, other)| one == other).map(|(name, _)| name);
        self.cgroup = match common.collect::<Vec<_>>().join("/") {
            root if root.is_empty() => "/".into(),
            path => path,
        };
    }

    /// The three directions, by fio's names.
    pub fn directions(&self) -> [(&'static str, &Transfers); 3] {
        [("read", &self.read), ("write", &self.write), ("trim", &self.trim)]
    }

    /// Reads, writes and trims.
    pub(crate) fn directions_mut(&mut self) -> [&mut Transfers; 3] {
        [&mut self.read, &mut self.write, &mut self.trim]
    }

    /// What it is to be told of as: its directions, or all of them together, or both.
    pub fn moved(&self) -> impl Iterator<Item = (&'static str, &Transfers)> {
        let directions = self.directions().into_iter().filter(|_| !self.is_unified);
        directions.chain(self.mixed.as_ref().map(|mixed| ("mixed", mixed)))
    }
}

/// What a row moved in one direction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transfers {
    /// Requests.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// From issue to completion, as the process sees it.
    pub latency: Latency,
    /// Time over which `ios` and `bytes` are rates, as in fio: the longest that one of the row's jobs took for what it
    /// does in this direction.
    pub runtime_ns: u64,
}

impl Transfers {
    /// Bytes a second; 0 if there was no time.
    pub fn bytes_per_sec(&self) -> f64 {
        per_second(self.bytes, self.runtime_ns)
    }

    /// Requests a second; 0 if there was no time.
    pub fn iops(&self) -> f64 {
        per_second(self.ios, self.runtime_ns)
    }

    /// Adds a request.
    #[inline]
    pub(crate) fn add(&mut self, len: u32, took_ns: u64) {
        self.ios += 1;
        self.bytes += u64::from(len);
        self.latency.record(took_ns);
    }

    /// Adds another's; the runtime is the longer of the two, as in fio's `group_reporting`.
    pub fn absorb(&mut self, other: &Transfers) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.latency.absorb(&other.latency);
        self.runtime_ns = self.runtime_ns.max(other.runtime_ns);
    }
}

/// One cgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct CgroupResults {
    /// From the root, which is `/`.
    pub path: String,
    /// Its limits at the end.
    pub limits: Limits,
    /// Its share relative to its siblings.
    pub weight: u16,
    /// Of it and all below.
    pub counters: Counters,
    /// What the scheduler `bfq` did for it and all below.
    pub bfq: BfqCgroupStats,
    /// What it waited for, with names: [`Counters::blame`]'s limits by the path of the cgroup that has them.
    pub limit_waits: Vec<LimitWaits>,
    /// From submission to the engine to completion, of its own requests and of those below.
    pub latency: Latency,
    /// Bytes read and written over time; empty for cgroups beyond the first 64.
    pub read_series: Series,
    /// Likewise.
    pub write_series: Series,
    /// Reads and writes over time, each when it ends; likewise.
    pub read_ios_series: Series,
    /// Likewise.
    pub write_ios_series: Series,
}

impl CgroupResults {
    /// What it waited for. Its `limits` name cgroups by id; [`CgroupResults::limit_waits`] by path.
    pub fn blame(&self) -> &Blame {
        &self.counters.blame
    }
}

/// The scheduler `bfq` during the run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BfqResults {
    /// How it decided.
    pub settings: BfqSettings,
    /// What it did.
    pub stats: BfqStats,
}

/// Time that requests of a cgroup waited for the limits of one cgroup on their path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitWaits {
    /// Whose limits.
    pub path: String,
    /// Summed over requests, by dimension in the order of [`weir_engine::Dimension::ALL`].
    pub wait_ns: [u64; weir_engine::Dimension::COUNT],
}

/// The disk during the run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceResults {
    /// Time with at least one request at the disk.
    pub busy_ns: u64,
    /// Requests that it completed.
    pub ios: u64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// From dispatch to completion.
    pub latency: Latency,
    /// Busy nanoseconds over time.
    pub busy_series: Series,
    /// Most requests at the disk at once.
    pub in_flight_max: u32,
    /// Share of time busy, in percent, above which limits bind; None where they always do.
    pub watermark_percent: Option<u8>,
}

impl DeviceResults {
    /// Share of `elapsed_ns` with a request at the disk, 0 to 1.
    pub fn utilisation(&self, elapsed_ns: u64) -> f64 {
        if elapsed_ns == 0 { 0.0 } else { self.busy_ns as f64 / elapsed_ns as f64 }
    }
}

fn per_second(amount: u64, time_ns: u64) -> f64 {
    if time_ns == 0 { 0.0 } else { amount as f64 * 1e9 / time_ns as f64 }
}
