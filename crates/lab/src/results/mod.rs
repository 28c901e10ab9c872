//! Results of a run, as plain data.
//!
//! All times are nanoseconds of virtual time. The same scenario and seed give equal [`Results`] on every machine.

mod govern;
mod latency;
mod latency_series;
mod latency_target;
mod series;
mod steadiness;
mod waits;

pub use govern::{FactorChange, GovernResults, GovernedResults, State};
pub use latency::Latency;
pub use latency_series::{COLUMNS_MAX, LatencySeries};
pub use latency_target::LatencyTargetResult;
pub use series::{POINTS_MAX, Series};
pub use steadiness::Steadiness;
pub use waits::CauseLatency;

use weir_engine::Limits;
use weir_engine::settings::BfqSettings;
use weir_engine::stats::{BfqCgroupStats, BfqStats, Blame, Counters};

/// One run of a scenario.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Results {
    /// Name of the job file or trace.
    pub title: String,
    /// The disk's line, as [`weir_disk::Spec`] prints it.
    pub disk: String,
    /// The scheduler at the beginning: `none` or `bfq`.
    pub scheduler: String,
    /// The device window at the beginning: requests that may be at the disk at once.
    pub depth: u32,
    /// Seed of all random choices.
    pub seed: u64,
    /// Mean path delay of a request.
    pub way_ns: u64,
    /// Its serial part.
    pub way_each_ns: u64,
    /// From the first start to the last end.
    pub elapsed_ns: u64,
    /// Requests that the engine took in.
    pub requests: u64,
    /// One for each job, or group of jobs with `group_reporting`, in the order of the file.
    pub rows: Vec<Row>,
    /// All cgroups, a parent before its children. Figures include those of the cgroups below.
    pub cgroups: Vec<CgroupResults>,
    /// The disk.
    pub device: DeviceResults,
    /// Counters of the scheduler `bfq`, and its settings at the end; None where it never was in use.
    pub bfq: Option<BfqResults>,
    /// What a governor did; None without one.
    pub governed: Option<GovernResults>,
    /// Timed changes that were made, in order.
    pub changes: Vec<Changed>,
    /// Notes for the reader: options without effect, trace lines skipped.
    pub notes: Vec<String>,
}

/// A timed change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changed {
    /// Its time.
    pub at_ns: u64,
    /// As given: `max=/vm1 rbps=4M`.
    pub setting: String,
}

/// One job, or several that are reported together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Its name. Not unique: clones share one.
    pub name: String,
    /// fio's `groupid`.
    pub group: u32,
    /// Number of the clone; 0 for rows of several.
    pub clone: u32,
    /// The path of its cgroup; of the lowest common one if there are several.
    pub cgroup: String,
    /// Number of jobs.
    pub processes: u32,
    /// Why it ended before its time; None if it did not.
    pub error: Option<String>,
    /// From the first start (after `ramp_time`) to the last end.
    pub runtime_ns: u64,
    /// fio's `job_runtime`: the sum of its jobs' run times.
    pub processes_ns: u64,
    /// Its reads.
    pub read: Transfers,
    /// Its writes.
    pub write: Transfers,
    /// Its trims.
    pub trim: Transfers,
    /// All of these together, with `unified_rw_reporting`.
    pub mixed: Option<Transfers>,
    /// Whether `mixed` replaces the three (`unified_rw_reporting=mixed`).
    pub is_unified: bool,
    /// Latencies of `fsync` and `fdatasync`.
    pub sync: Latency,
    /// Result of `steadystate`.
    pub steady: Option<Steadiness>,
    /// Result of `latency_target`.
    pub latency_target: Option<LatencyTargetResult>,
    /// Most requests in flight that it was allowed.
    pub depth: u32,
    /// fio's `job options`: keys and values of its section, for tools that group runs by `rw`, `bs` and the like.
    /// Empty for traces.
    pub options: Vec<(String, String)>,
    /// What was moved over time; empty for rows beyond the first 64.
    pub series: RowSeries,
}

impl Row {
    /// Adds the cgroup `path` of one of its jobs: its own becomes the lowest common one.
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

    pub(crate) fn directions_mut(&mut self) -> [&mut Transfers; 3] {
        [&mut self.read, &mut self.write, &mut self.trim]
    }

    /// The directions that are reported: the three, `mixed`, or both.
    pub fn moved(&self) -> impl Iterator<Item = (&'static str, &Transfers)> {
        let directions = self.directions().into_iter().filter(|_| !self.is_unified);
        directions.chain(self.mixed.as_ref().map(|mixed| ("mixed", mixed)))
    }
}

/// What a row has moved over time, each request at its end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RowSeries {
    /// Bytes read.
    pub read: Series,
    /// Bytes written.
    pub write: Series,
    /// Reads.
    pub read_ios: Series,
    /// Writes.
    pub write_ios: Series,
}

/// Requests of a row in one direction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transfers {
    /// Requests.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// From issue to completion, as the process sees it.
    pub latency: Latency,
    /// Time over which `ios` and `bytes` are rates. As in fio, the longest of the row's jobs in this direction.
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
    /// Counters of the scheduler `bfq`, of it and all below.
    pub bfq: BfqCgroupStats,
    /// Waits for limits: those of [`Counters::blame`], by the path of the limiting cgroup.
    pub limit_waits: Vec<LimitWaits>,
    /// From submission to the engine to completion, of it and all below.
    pub latency: Latency,
    /// Single waits, by cause and direction, those that there were.
    pub latency_by_cause: Vec<CauseLatency>,
    /// Bytes read over time; empty for cgroups beyond the first 64.
    pub read_series: Series,
    /// Bytes written, as `read_series`.
    pub write_series: Series,
    /// Reads over time, each at its end, as `read_series`.
    pub read_ios_series: Series,
    /// Writes, as `read_ios_series`.
    pub write_ios_series: Series,
    /// Latencies over time, as `read_series`.
    pub latency_series: LatencySeries,
}

impl CgroupResults {
    /// Causes of its waits. Limits have ids of cgroups here, and paths in [`CgroupResults::limit_waits`].
    pub fn blame(&self) -> &Blame {
        &self.counters.blame
    }
}

/// The scheduler `bfq` during the run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BfqResults {
    /// Its settings at the end.
    pub settings: BfqSettings,
    /// Its counters.
    pub stats: BfqStats,
}

/// Time that requests of a cgroup waited for the limits of one cgroup on their path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitWaits {
    /// Path of the limiting cgroup.
    pub path: String,
    /// Summed over requests, by dimension in the order of [`weir_engine::Dimension::ALL`].
    pub wait_ns: [u64; weir_engine::Dimension::COUNT],
}

/// The disk during the run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceResults {
    /// Time with at least one request at the disk.
    pub busy_ns: u64,
    /// Completed requests.
    pub ios: u64,
    /// Bytes moved.
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
