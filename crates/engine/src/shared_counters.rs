//! Counters of a cgroup for other threads.

use alloc::sync::Arc;

use weir_counters::Histogram;

use crate::account::SharedAccount;
use crate::bfq::BfqCgroupStats;
use crate::latencies::Latencies;
use crate::stats::Counters;
use crate::types::CgroupId;

/// Counters of one cgroup, without cgroups below it, that any thread may read while the engine counts.
///
/// They stay what they were when the cgroup is gone. Counters that change together are of one moment.
#[derive(Clone)]
pub struct SharedCounters {
    cgroup: CgroupId,
    account: Arc<SharedAccount>,
}

impl SharedCounters {
    pub(crate) fn new(cgroup: CgroupId, account: Arc<SharedAccount>) -> SharedCounters {
        SharedCounters { cgroup, account }
    }

    /// Of which cgroup.
    pub fn cgroup(&self) -> CgroupId {
        self.cgroup
    }

    /// Whether there ever was a request.
    pub fn is_used(&self) -> bool {
        self.account.get().is_some()
    }

    /// Its counters. O(limits that it waited for).
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        if let Some(account) = self.account.get() {
            account.add_traffic_to(&mut counters);
            account.waits().add_to(self.cgroup, &mut counters);
            counters.blame.tidy();
        }
        counters
    }

    /// What BFQ has done for it. Flows that are raised now are not counted.
    pub fn bfq(&self) -> BfqCgroupStats {
        self.account.get().map_or_else(BfqCgroupStats::default, |account| account.bfq().stats())
    }

    /// Times of its requests. O(octaves).
    pub fn latencies(&self) -> Latencies {
        let mut latencies = Latencies::default();
        if let Some(account) = self.account.get() {
            account.add_latencies_to(&mut latencies);
        }
        latencies
    }

    /// The whole times of its requests alone: of reads, and of all others. O(octaves).
    pub fn whole_times(&self) -> [Histogram; 2] {
        let mut times = <[Histogram; 2]>::default();
        if let Some(account) = self.account.get() {
            account.add_whole_times_to(&mut times);
        }
        times
    }
}

impl core::fmt::Debug for SharedCounters {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SharedCounters").field("cgroup", &self.cgroup).finish_non_exhaustive()
    }
}
