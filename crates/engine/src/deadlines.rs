//! Every pending "not before"; the least of them is what [`crate::Engine::poll_timeout`] answers.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::request::Direction;
use crate::time::Instant;

/// A cgroup's side: whether it waits for an instant, and for which.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Timer {
    /// The stamp of the one live entry in the heap; 0 while disarmed.
    stamp: u64,
    at: Instant,
}

impl Timer {
    /// When it fires, if it is armed.
    pub(crate) fn fires_at(self) -> Option<Instant> {
        (self.stamp != 0).then_some(self.at)
    }

    /// Voids the deadline.
    pub(crate) fn disarm(&mut self) {
        self.stamp = 0;
    }
}

/// One deadline, in the order in which deadlines fire: earliest first; of those at one instant the deepest
/// cgroup first (so that a parent sees what its children let go), then the one armed first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    at: Instant,
    depth: Reverse<u32>,
    stamp: u64,
    due: Due,
}

/// Deadlines of all cgroups. O(log armed) a step, no allocation once grown; a disarmed deadline stays behind, void,
/// until it comes to the top.
pub(crate) struct Deadlines {
    heap: BinaryHeap<Reverse<Entry>>,
}

/// A deadline that has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Due {
    pub(crate) cgroup: u32,
    pub(crate) direction: Direction,
}

impl Deadlines {
    pub(crate) fn new() -> Deadlines {
        Deadlines { heap: BinaryHeap::new() }
    }

    /// Arms `timer`, whichever state it was in, to fire at `at`. `stamp` is new and not 0.
    pub(crate) fn arm(&mut self, timer: &mut Timer, at: Instant, depth: u32, due: Due, stamp: u64) {
        debug_assert_ne!(stamp, 0);
        *timer = Timer { stamp, at };
        self.heap.push(Reverse(Entry { at, depth: Reverse(depth), stamp, due }));
    }

    /// Drops void entries from the top. `timer_of` finds a cgroup's timer, if the cgroup still exists.
    pub(crate) fn settle(&mut self, timer_of: impl Fn(Due) -> Option<Timer>) {
        while let Some(Reverse(entry)) = self.heap.peek() {
            if is_live(entry, &timer_of) {
                return;
            }
            self.heap.pop();
        }
    }

    /// The instant of the earliest deadline. Right after [`Deadlines::settle`].
    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes out the first live deadline that has come by `now`.
    pub(crate) fn pop_due(
        &mut self,
        now: Instant,
        timer_of: impl Fn(Due) -> Option<Timer>,
    ) -> Option<Due> {
        while let Some(&Reverse(entry)) = self.heap.peek() {
            let live = is_live(&entry, &timer_of);
            if live && entry.at > now {
                return None;
            }
            self.heap.pop();
            if live {
                return Some(entry.due);
            }
        }
        None
    }
}

fn is_live(entry: &Entry, timer_of: &impl Fn(Due) -> Option<Timer>) -> bool {
    timer_of(entry.due).is_some_and(|timer| timer.stamp == entry.stamp)
}
