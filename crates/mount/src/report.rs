//! Counters of a mount, told at its end.

use weir_engine::Engine;

/// Counters of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each cgroup, parents first; a cgroup's counters have those of all below it.
    pub cgroups: Vec<CgroupReport>,
    /// Requests that were interrupted while they waited.
    pub interrupted: u64,
    /// Bytes written by the kernel for programs that are not known any more; they are the root cgroup's.
    pub unknown_bytes: u64,
}

/// Counters of one cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupReport {
    /// Where it is.
    pub path: String,
    /// Bytes read.
    pub read_bytes: u64,
    /// Read requests.
    pub reads: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Requests that had to wait for a limit.
    pub throttled: u64,
    /// How long requests waited for limits, all together, in nanoseconds.
    pub throttled_ns: u64,
}

impl Report {
    /// Adds the counters of an engine.
    pub(crate) fn with_cgroups(mut self, engine: &Engine) -> Report {
        let rows = engine.tree_stats().into_iter().map(|row| CgroupReport {
            path: row.path,
            read_bytes: row.counters.read.bytes,
            reads: row.counters.read.ios,
            write_bytes: row.counters.write.bytes,
            writes: row.counters.write.ios,
            throttled: row.counters.throttled.iter().sum(),
            throttled_ns: row.counters.blame.limits_ns(),
        });
        self.cgroups = rows.collect();
        self
    }
}
