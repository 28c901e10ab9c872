//! Vocabulary of workloads: patterns, block sizes, engines, distributions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One value each for reads, writes and trims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerDirection<T> {
    /// For reads.
    pub read: T,
    /// For writes.
    pub write: T,
    /// For trims.
    pub trim: T,
}

impl<T> PerDirection<T> {
    /// The same for all three.
    pub fn all(value: T) -> PerDirection<T>
    where
        T: Clone,
    {
        PerDirection { read: value.clone(), write: value.clone(), trim: value }
    }

    /// Reads, writes, trims.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.read, &self.write, &self.trim].into_iter()
    }
}

/// A size or a place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent of the file's or device's size, 1 to 100.
    Percent(u8),
}

impl Amount {
    /// Bytes of a file of `whole` bytes, rounded down.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => {
                u64::try_from(u128::from(whole) * u128::from(percent) / 100).unwrap_or(u64::MAX)
            }
        }
    }
}

/// Operations and order: fio's `rw` with its `:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Reads, writes, trims or a mix.
    pub mix: Mix,
    /// Order of the offsets.
    pub order: Order,
}

/// The operations of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Trims.
    Trim,
    /// Reads and writes, in the proportion of [`super::Options::read_percent`].
    ReadWrite,
    /// Each block trimmed, then written.
    TrimWrite,
}

/// Order of the offsets of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Each request where the last one ended.
    Sequential {
        /// Bytes added to each offset (`rw=write:4k`): holes, or a walk backwards. 0 by default.
        skip: i64,
    },
    /// Random offsets.
    Random {
        /// Requests before a new offset is drawn (`rw=randread:8`), at least 1; those between follow
        /// [`RwSequencer`].
        requests_per_offset: u32,
    },
}

/// Offsets between two that are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RwSequencer {
    /// One after the other.
    Sequential,
    /// All at the same offset.
    Identical,
}

/// Sizes of the requests of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockSize {
    /// One size, in bytes.
    Fixed(u64),
    /// Between two sizes in bytes, both included: multiples of the smaller, unless
    /// [`super::Options::block_unaligned`].
    Range {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// Several sizes with their shares; the last one also has the rest of shares below 100.
    Split(Arc<[Split]>),
}

impl BlockSize {
    /// The smallest, in bytes.
    pub fn min(&self) -> u64 {
        match self {
            BlockSize::Fixed(bytes) => *bytes,
            BlockSize::Range { min, .. } => *min,
            BlockSize::Split(splits) => splits.iter().map(|split| split.bytes).min().unwrap_or(1),
        }
    }

    /// The largest, in bytes.
    pub fn max(&self) -> u64 {
        match self {
            BlockSize::Fixed(bytes) => *bytes,
            BlockSize::Range { max, .. } => *max,
            BlockSize::Split(splits) => splits.iter().map(|split| split.bytes).max().unwrap_or(1),
        }
    }
}

/// One size of a [`BlockSize::Split`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Bytes of a request, at least 1.
    pub bytes: u64,
    /// Percent of the requests.
    pub percent: u8,
}

/// Engine, by which requests reach the kernel or a server. Engines without block I/O are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoEngine {
    /// `read` and `write` after a seek.
    Sync,
    /// `pread` and `pwrite`: fio's default on Linux.
    Psync,
    /// `readv` and `writev`, adjacent requests gathered.
    Vsync,
    /// `preadv` and `pwritev`.
    Pvsync,
    /// `preadv2` and `pwritev2`.
    Pvsync2,
    /// Memory mapping.
    Mmap,
    /// `splice`.
    Splice,
    /// Linux native asynchronous I/O.
    Libaio,
    /// POSIX asynchronous I/O.
    Posixaio,
    /// io_uring.
    IoUring,
    /// SCSI generic.
    Sg,
    /// An NBD client.
    Nbd,
    /// Requests that end at once, without a device.
    Null,
    /// A client library or driver in user space (RBD, SPDK, ...): straight to the disk.
    Userspace {
        /// fio's name of the engine.
        name: &'static str,
        /// A request must end before the next is made.
        is_synchronous: bool,
    },
}

impl IoEngine {
    /// Whether a request must end before the next is made, whatever `iodepth` is.
    pub fn is_synchronous(self) -> bool {
        matches!(
            self,
            IoEngine::Sync
                | IoEngine::Psync
                | IoEngine::Vsync
                | IoEngine::Pvsync
                | IoEngine::Pvsync2
                | IoEngine::Mmap
                | IoEngine::Splice
                | IoEngine::Userspace { is_synchronous: true, .. }
        )
    }
}

/// How submitted requests are served, whatever `iodepth` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submission {
    /// All together.
    Parallel,
    /// The submitting call returns when its request has ended.
    Blocking,
    /// Requests of one file one at a time, in order.
    OnePerFile,
}

/// Advice to the kernel on access to the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FadviseHint {
    /// None.
    None,
    /// Random for random patterns, else sequential.
    Pattern,
    /// Random.
    Random,
    /// Sequential.
    Sequential,
}

/// `O_SYNC` and its like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Neither.
    None,
    /// Each write is on the medium, with its metadata, before it ends.
    Sync,
    /// Each write is on the medium before it ends.
    Dsync,
}

/// Spacing of requests under a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateProcess {
    /// Evenly.
    Linear,
    /// As a Poisson process of that rate.
    Poisson,
}

/// Events that count towards `thinktime_blocks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkBlocks {
    /// Requests that ended.
    Complete,
    /// Requests that were issued.
    Issue,
}

/// Distribution of random offsets.
#[derive(Debug, Clone, PartialEq)]
pub enum RandomDistribution {
    /// Uniform.
    Random,
    /// Zipf's law.
    Zipf {
        /// Its exponent, not 1; 1.1 by default.
        theta: f64,
        /// Centre, 0 to 1 of the file; random if not given.
        center: Option<f64>,
    },
    /// Pareto's law.
    Pareto {
        /// Its power, above 0 and below 1; 0.2 by default.
        power: f64,
        /// As for Zipf.
        center: Option<f64>,
    },
    /// Normal distribution.
    Normal {
        /// Standard deviation in percent of the file, 0 to 100.
        deviation: f64,
        /// Centre, 0 to 1 of the file; 0.5 by default.
        center: f64,
    },
    /// Shares of the requests to parts of the file, in percent of it.
    Zoned(PerDirection<Arc<[Zone]>>),
    /// Shares of the requests to parts of the file, in bytes.
    ZonedAbsolute(PerDirection<Arc<[Zone]>>),
}

/// One part of a zoned distribution, right after the part before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// Percent of the requests.
    pub access_percent: u8,
    /// Length of the part: percent of the file, or bytes.
    pub length: u64,
}

/// The kernel's I/O priority classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrioClass {
    /// Not set.
    None,
    /// Before all others.
    RealTime,
    /// As usual.
    BestEffort,
    /// Only when there is nothing else.
    Idle,
}

/// Thread that makes the system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitMode {
    /// The job.
    Inline,
    /// Threads of their own, so that a slow device does not delay the arrivals.
    Offload,
}

/// Choice of the next of several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileService {
    /// Each in turn.
    RoundRobin,
    /// Each until it is done.
    Sequential,
    /// Any.
    Random,
}

/// Jobs that end with the first one, after `exitall`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitWhat {
    /// Those of its reporting group.
    Group,
    /// Those of its stage.
    Stonewall,
    /// All, later stages included.
    All,
}

/// Whether directions are reported apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnifiedReporting {
    /// Apart.
    None,
    /// Summed.
    Mixed,
    /// Both.
    Both,
}

/// Target of the search for the largest depth (`latency_target`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyTarget {
    /// `latency_target`; 0 is none.
    pub time: Duration,
    /// `latency_window`: time at each depth.
    pub window: Duration,
    /// `latency_percentile`: share of requests within the target.
    pub percentile: f64,
    /// `latency_run`: the job does not end where the depth is found, but follows it.
    pub runs_on: bool,
}

impl LatencyTarget {
    /// No target: fio's defaults.
    pub const NONE: LatencyTarget = LatencyTarget {
        time: Duration::ZERO,
        window: Duration::ZERO,
        percentile: 100.0,
        runs_on: false,
    };

    /// Whether no request may take longer.
    pub fn is_for_all(&self) -> bool {
        self.percentile >= 100.0
    }
}

/// Rule for a steady rate (`steadystate`), at which a job ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyState {
    /// Sampled once a second.
    pub of: SteadyRate,
    /// The criterion is the slope of the least-squares line, in units a second for each second; else the largest
    /// distance from the mean.
    pub by_slope: bool,
    /// The criterion must be below.
    pub limit: f64,
    /// Whether the limit is in percent of the mean.
    pub in_percent: bool,
}

/// A rate that may become steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SteadyRate {
    /// Requests a second.
    Iops,
    /// Bytes a second.
    Bandwidth,
}

impl fmt::Display for SteadyState {
    /// In fio's notation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.of {
            SteadyRate::Iops => "iops",
            SteadyRate::Bandwidth => "bw",
        };
        let slope = if self.by_slope { "_slope" } else { "" };
        let percent = if self.in_percent { "%" } else { "" };
        write!(f, "{of}{slope}:{}{percent}", self.limit)
    }
}

/// Operations of a trace that are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplaySkip {
    /// Reads.
    pub read: bool,
    /// Writes.
    pub write: bool,
    /// Trims.
    pub trim: bool,
    /// Syncs.
    pub sync: bool,
}

/// The files of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Files {
    /// `filename`: these, shared by all clones.
    Named(Arc<[String]>),
    /// `nrfiles` of its own, named by fio's `filename_format`, with `$jobname`, `$jobnum` and `$filenum`.
    Made {
        /// The pattern.
        format: Arc<str>,
        /// How many, at least 1.
        count: u32,
    },
}
