//! What each request waited for, added up per cgroup.
//!
//! A request's time inside the engine is cut at its stages and every piece is blamed on one thing: a limit of its
//! path (which cgroup's, which dimension), other clients under its nearest limit, the full device window, or the
//! device itself. The pieces add up to the whole, to the nanosecond.

use alloc::vec::Vec;

use crate::limits::Dimension;
use crate::tree::CgroupId;

/// Time spent waiting, by cause, in nanoseconds summed over requests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Blame {
    /// Time at the device.
    pub device_ns: u64,
    /// Waits for room at the device (`depth`).
    pub window_ns: u64,
    /// Waits for limits that were lifted, or whose cgroup was moved away, while the request waited.
    pub lifted_ns: u64,
    /// Waits while the nearest limit's rate went to requests of other clients.
    pub others_ns: u64,
    /// Waits for limits, by the cgroup that has the limit: the request's own or an ancestor.
    pub limits: Vec<LimitBlame>,
}

/// Waits for the limits of one cgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitBlame {
    /// Whose limit. The cgroup may have been removed since.
    pub cgroup: CgroupId,
    /// Nanoseconds by dimension, in the order of [`Dimension::ALL`].
    pub wait_ns: [u64; Dimension::COUNT],
}

impl Blame {
    /// Adds a wait for `cgroup`'s limit. O(ancestors with limits); allocates the first time each is blamed.
    pub(crate) fn add_limit(&mut self, cgroup: CgroupId, dimension: Dimension, wait_ns: u64) {
        if wait_ns == 0 {
            return;
        }
        let known = self.limits.iter().position(|limit| limit.cgroup == cgroup);
        let at = known.unwrap_or_else(|| {
            self.limits.push(LimitBlame { cgroup, wait_ns: [0; Dimension::COUNT] });
            self.limits.len() - 1
        });
        self.limits[at].wait_ns[dimension as usize] += wait_ns;
    }

    /// Everything waited for, the device included, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.limits_ns() + self.others_ns + self.lifted_ns + self.window_ns + self.device_ns
    }

    /// Waits for limits of the path, in nanoseconds.
    pub fn limits_ns(&self) -> u64 {
        self.limits.iter().flat_map(|limit| limit.wait_ns).sum()
    }

    pub(crate) fn absorb(&mut self, other: &Blame) {
        for limit in &other.limits {
            for dimension in Dimension::ALL {
                self.add_limit(limit.cgroup, dimension, limit.wait_ns[dimension as usize]);
            }
        }
        self.others_ns += other.others_ns;
        self.lifted_ns += other.lifted_ns;
        self.window_ns += other.window_ns;
        self.device_ns += other.device_ns;
    }
}
