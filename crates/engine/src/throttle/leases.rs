//! Leases of limits: the limits that each ends with, in the order of their ends.

use alloc::collections::BTreeMap;

use crate::types::{Instant, Lease, Limits};

/// Leases of all cgroups, at most one each.
#[derive(Default)]
pub(super) struct Leases {
    /// By cgroup.
    ends: BTreeMap<u32, Instant>,
    /// Limits that follow, by end and then by cgroup.
    then: BTreeMap<(Instant, u32), Limits>,
}

impl Leases {
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Replaces the lease of `cgroup`. O(log leases).
    pub(super) fn set(&mut self, cgroup: u32, lease: Option<Lease>) {
        if let Some(end) = self.ends.remove(&cgroup) {
            self.then.remove(&(end, cgroup));
        }
        if let Some(Lease { until, then }) = lease {
            self.ends.insert(cgroup, until);
            self.then.insert((until, cgroup), then);
        }
    }

    pub(super) fn of(&self, cgroup: u32) -> Option<Lease> {
        let &until = self.ends.get(&cgroup)?;
        self.then.get(&(until, cgroup)).map(|&then| Lease { until, then })
    }

    /// The first end. O(log leases).
    pub(super) fn first_end(&self) -> Option<Instant> {
        self.then.first_key_value().map(|(&(end, _), _)| end)
    }

    /// Removes the lease that ends first, if it has ended by `now`. Of those that end together the lower slot is first.
    pub(super) fn pop_ended(&mut self, now: Instant) -> Option<(u32, Lease)> {
        let first = self.then.first_entry().filter(|first| first.key().0 <= now)?;
        let ((until, cgroup), then) = first.remove_entry();
        self.ends.remove(&cgroup);
        Some((cgroup, Lease { until, then }))
    }

    /// Cgroups that have a lease.
    pub(super) fn cgroups(&self) -> impl Iterator<Item = u32> {
        self.ends.keys().copied()
    }

    /// Whether both tables have the same leases.
    pub(super) fn is_consistent(&self) -> bool {
        self.ends.len() == self.then.len()
            && self.ends.iter().all(|(&cgroup, &end)| self.then.contains_key(&(end, cgroup)))
    }
}
