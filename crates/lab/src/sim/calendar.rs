//! Calendar of planned events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Planned {
    /// A process goes on.
    Wake(u32),
    /// What was asked of the page cache, or of a disk that is some way off, is with whoever asked.
    Deliver(u32),
    /// A stream of a trace goes on: the number of its actor.
    Stream(u32),
    /// A setting changes: its number among those that do.
    Change(u32),
    /// The rate of a row is taken, which may be steady.
    Rate(u32),
}

/// Planned events by time, those of one time in the order in which they were planned. O(log n) each.
#[derive(Debug, Default)]
pub(super) struct Calendar {
    heap: BinaryHeap<Reverse<(u64, u64, Planned)>>,
    planned: u64,
}

impl Calendar {
    pub(super) fn plan(&mut self, at_ns: u64, what: Planned) {
        self.heap.push(Reverse((at_ns, self.planned, what)));
        self.planned += 1;
    }

    pub(super) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    /// What is due at `now_ns`; ask until it answers None.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Planned> {
        self.next_ns().filter(|&at_ns| at_ns <= now_ns)?;
        self.heap.pop().map(|Reverse((_, _, what))| what)
    }
}
