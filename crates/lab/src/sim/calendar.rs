//! Calendar of planned events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Planned {
    Wake(u32),
    /// A request is back from the path delay, the page cache or the null engine.
    Deliver(u32),
    /// A stream of a trace continues: the number of its actor.
    Stream(u32),
    /// A request of a playback is due: its number.
    Play(u32),
    /// A timed change: its index.
    Change(u32),
    /// The governor looks.
    Govern,
    /// Sample of the rate of a row with `steadystate`.
    Rate(u32),
}

/// Planned events by time, then in the order of planning. O(log n) each.
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

    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Planned> {
        self.next_ns().filter(|&at_ns| at_ns <= now_ns)?;
        self.heap.pop().map(|Reverse((_, _, what))| what)
    }
}
