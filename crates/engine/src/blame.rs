//! Causes of waits, added up per cgroup.
//!
//! A request's time inside the engine is cut at its stages and every piece is blamed on one thing: a limit of its
//! path (which cgroup's, which dimension), other clients under its nearest limit, the full device window, or the
//! device itself. The pieces add up to the whole, to the nanosecond.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::types::{CgroupId, Dimension};

/// Time spent waiting, by cause, in nanoseconds summed over requests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LimitBlame {
    /// Whose limit. The cgroup may have been removed since; what was waited for limits of several that were, by those that
    /// were removed, is added up as of one of them.
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

    /// Adds what others waited for.
    pub(crate) fn absorb(&mut self, other: &Blame) {
        for limit in &other.limits {
            for dimension in Dimension::ALL {
                self.add_limit(limit.cgroup, dimension, limit.wait_ns[dimension as usize]);
            }
        }
        self.add_all_but_limits(other);
    }

    /// The same, but what was waited for the limits of one cgroup is in several places until [`Blame::tidy`]: to look for each
    /// among those of 10,000 cgroups, 10,000 times, would be quadratic. O(its limits).
    pub(crate) fn gather(&mut self, other: &Blame) {
        self.limits.extend_from_slice(&other.limits);
        self.add_all_but_limits(other);
    }

    /// The same of waits for the limits of one cgroup, by dimension.
    pub(crate) fn gather_limit(&mut self, cgroup: CgroupId, wait_ns: [u64; Dimension::COUNT]) {
        if wait_ns.iter().any(|&ns| ns > 0) {
            self.limits.push(LimitBlame { cgroup, wait_ns });
        }
    }

    fn add_all_but_limits(&mut self, other: &Blame) {
        self.others_ns += other.others_ns;
        self.lifted_ns += other.lifted_ns;
        self.window_ns += other.window_ns;
        self.device_ns += other.device_ns;
    }

    /// Adds up what was waited for the limits of cgroups that are not there any more, as one of them, and of each that is:
    /// removed cgroups cannot be told apart, and where cgroups come and go there would be ever more. O(n²) of those
    /// that are left, which are cgroups above.
    pub(crate) fn forget(&mut self, is_there: impl Fn(CgroupId) -> bool) {
        let mut gone = None;
        for LimitBlame { cgroup, wait_ns } in core::mem::take(&mut self.limits) {
            let known_as = if is_there(cgroup) { cgroup } else { *gone.get_or_insert(cgroup) };
            for dimension in Dimension::ALL {
                self.add_limit(known_as, dimension, wait_ns[dimension as usize]);
            }
        }
    }

    /// Adds up what was waited for the limits of one cgroup, in the first place in which that is. O(n log n).
    pub(crate) fn tidy(&mut self) {
        if self.limits.len() < 2 {
            return;
        }
        let mut places = BTreeMap::new();
        let mut kept = 0;
        for at in 0..self.limits.len() {
            let LimitBlame { cgroup, wait_ns } = self.limits[at];
            let place = *places.entry(cgroup).or_insert(kept);
            if place < kept {
                let first = &mut self.limits[place].wait_ns;
                first.iter_mut().zip(wait_ns).for_each(|(sum, more)| *sum += more);
            } else {
                self.limits[kept] = LimitBlame { cgroup, wait_ns };
                kept += 1;
            }
        }
        self.limits.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gathered_and_tidied_is_what_is_absorbed_one_by_one() {
        let id = |index| CgroupId { index, generation: index % 3 };
        let dimension = |number: u32| Dimension::ALL[number as usize % Dimension::COUNT];
        // Each of 100 waited at a limit of its own, at one of ten above it and at one above all.
        let parts = (0..100u32).map(|number| {
            let mut part = Blame { device_ns: 1, others_ns: 2, ..Blame::default() };
            for (cgroup, wait_ns) in [(1000 + number % 10, 7), (number, number), (5000, 3)] {
                part.add_limit(id(cgroup), dimension(number), u64::from(wait_ns));
            }
            part
        });
        let (mut one_by_one, mut at_once) = (Blame::default(), Blame::default());
        for part in parts {
            one_by_one.absorb(&part);
            at_once.gather(&part);
        }
        assert_eq!(at_once.total_ns(), one_by_one.total_ns());
        at_once.tidy();
        // The first waited at no limit of its own.
        assert_eq!((at_once.limits.len(), at_once.device_ns), (99 + 10 + 1, 100));
        assert_eq!(at_once, one_by_one, "also in what comes before what");
    }
}
