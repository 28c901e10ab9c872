//! The way between processes and the disk, where it takes time.

use crate::scenario::Machine;

/// Requests come back in the order in which the disk has finished them: each passes the one that handles one at a time,
/// and is under way for the rest.
#[derive(Debug)]
pub(super) struct Way {
    each_ns: u64,
    rest_ns: u64,
    /// When the one that handles one at a time is free again.
    free_ns: u64,
}

impl Way {
    pub(super) fn new(machine: Machine) -> Way {
        let Machine { way_ns, way_each_ns, .. } = machine;
        Way { each_ns: way_each_ns, rest_ns: way_ns.saturating_sub(way_each_ns), free_ns: 0 }
    }

    /// Whether there is anything to wait for.
    #[inline]
    pub(super) fn takes_time(&self) -> bool {
        self.each_ns | self.rest_ns != 0
    }

    /// When a request that the disk has finished now is back.
    pub(super) fn arrival_ns(&mut self, now_ns: u64) -> u64 {
        self.free_ns = self.free_ns.max(now_ns).saturating_add(self.each_ns);
        self.free_ns.saturating_add(self.rest_ns)
    }
}
