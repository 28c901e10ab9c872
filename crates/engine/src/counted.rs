//! Counters of an engine, and its device as it is: calls that change nothing.

use alloc::vec::Vec;

use crate::bfq::{BfqCgroupStats, BfqSettings, BfqStats};
use crate::engine::Engine;
use crate::latencies::Latencies;
use crate::shared_counters::SharedCounters;
use crate::stats::{Audit, CgroupStats, Counters, DeviceStats, TaskStats};
use crate::throttle::WatermarkStats;
use crate::tree_stats::tree_stats;
use crate::types::{CgroupId, Dimension, TaskId};

impl Engine {
    /// Counters of a cgroup alone, or recursive, with removed cgroups. O(1) or O(cgroups below).
    pub fn counters(&self, cgroup: CgroupId, recursive: bool) -> Option<Counters> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        let mut sum = Counters::default();
        if !recursive {
            self.core.add_own_counters(index, &mut sum);
            return Some(sum);
        }
        for at in self.core.tree.subtree(index) {
            self.core.add_counters(at, &mut sum);
        }
        sum.blame.tidy();
        Some(sum)
    }

    /// Counters of a cgroup alone, which other threads may read while the engine goes on. O(1).
    pub fn shared_counters(&mut self, cgroup: CgroupId) -> Option<SharedCounters> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        Some(SharedCounters::new(cgroup, self.core.accounts.shared(index)))
    }

    /// Latencies of a cgroup and all below it, with removed cgroups. O(cgroups below).
    pub fn latencies(&self, cgroup: CgroupId) -> Option<Latencies> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        let mut sum = Latencies::default();
        for at in self.core.tree.subtree(index) {
            self.core.add_latencies(at, &mut sum);
        }
        Some(sum)
    }

    /// Waits of a task for limits; `None` once it is gone.
    pub fn task_stats(&self, task: TaskId) -> Option<TaskStats> {
        let index = self.core.tree.task_index(task)?;
        Some(self.core.throttle.task_stats(index))
    }

    /// Path and recursive counters of every cgroup that has not been removed; parents before children. O(cgroups).
    pub fn tree_stats(&self) -> Vec<CgroupStats> {
        tree_stats(&self.core)
    }

    /// Burst left in `dimension`, in bytes or I/O units (see [`crate::stats::Charge::io_units`]); `None` without a
    /// limit or a burst.
    pub fn burst_left(&self, cgroup: CgroupId, dimension: Dimension) -> Option<u64> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        self.core.throttle.burst_left(self.now, index, dimension)
    }

    /// The device as it is now.
    pub fn device(&self) -> DeviceStats {
        let core = &self.core;
        let busy_since = if core.in_flight > 0 { core.busy_since } else { self.now };
        DeviceStats {
            in_flight: core.in_flight,
            depth: core.config.depth.get(),
            scheduler: core.config.scheduler,
            ready: core.scheduler.len(),
            throttled: core.throttle.len(),
            busy_ns: core.busy_ns + self.now.nanos_since(busy_since),
            utilisation: core.utilisation(),
        }
    }

    /// Each watermark in use, as it is now; none where limits always bind. O(watermarks).
    pub fn watermarks(&self) -> Vec<WatermarkStats> {
        self.core.throttle.watermarks(self.now)
    }

    /// Settings of BFQ, active or not.
    pub fn bfq_settings(&self) -> BfqSettings {
        self.core.config.bfq
    }

    /// Counters of BFQ on this device.
    pub fn bfq_stats(&self) -> BfqStats {
        self.core.scheduler.stats()
    }

    /// Counters of BFQ for a cgroup and all below it, with removed cgroups. O(cgroups below).
    pub fn bfq_cgroup_stats(&self, cgroup: CgroupId) -> Option<BfqCgroupStats> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        let mut sum = BfqCgroupStats::default();
        for at in self.core.tree.subtree(index) {
            sum.absorb(&self.core.bfq_stats(at));
        }
        Some(sum)
    }

    /// Amounts charged and dispatched; [`Audit::balances`] holds at every moment.
    pub fn audit(&self) -> Audit {
        self.core.audit()
    }
}
