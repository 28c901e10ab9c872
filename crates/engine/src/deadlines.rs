//! Every pending "not before"; the least of them is what [`crate::Engine::poll_timeout`] answers.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::request::Direction;
use crate::time::Instant;

/// A cgroup's side: whether it waits for an instant, and for which.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Timer {
    /// The stamp of the one live entry in the heap, which is the one at `at`; 0 while disarmed.
    stamp: u64,
    at: Instant,
}

impl Timer {
    /// When it fires, if it is armed.
    pub(crate) fn fires_at(self) -> Option<Instant> {
        (self.stamp != 0).then_some(self.at)
    }

    /// Its place among those that fire at the same instant, if it is armed.
    pub(crate) fn stamp(self) -> Option<u64> {
        (self.stamp != 0).then_some(self.stamp)
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
/// until it comes to the top or is swept out.
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

    /// Whether [`Deadlines::sweep`] is due, which is before one is armed that there is no room for.
    pub(crate) fn is_full(&self) -> bool {
        self.heap.len() == self.heap.capacity()
    }

    /// Drops every void entry, and grows if that does not make enough room: behind one early deadline, void ones
    /// would pile up for ever. O(entries), due after half as many steps at least.
    pub(crate) fn sweep(&mut self, timer_of: impl Fn(Due) -> Option<Timer>) {
        self.heap.retain(|Reverse(entry)| is_live(entry, &timer_of));
        if self.heap.len() > self.heap.capacity() / 2 {
            self.heap.reserve(self.heap.capacity());
        }
    }

    /// Arms `timer`, whichever state it was in, to fire at `at`. `stamp` is not 0, and new or the timer's own.
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
    timer_of(entry.due).is_some_and(|timer| timer.stamp == entry.stamp && timer.at == entry.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voided_deadlines_do_not_pile_up_behind_an_early_one() {
        let mut deadlines = Deadlines::new();
        let mut timers = [Timer::default(); 2];
        let due = |cgroup| Due { cgroup, direction: Direction::Read };
        deadlines.arm(&mut timers[0], Instant::from_millis(1), 1, due(0), 1);
        for stamp in 2..10_000 {
            if deadlines.is_full() {
                deadlines.sweep(|due| Some(timers[due.cgroup as usize]));
            }
            let at = Instant::from_millis(10_000 + stamp);
            deadlines.arm(&mut timers[1], at, 1, due(1), stamp);
            deadlines.settle(|due| Some(timers[due.cgroup as usize]));
        }
        assert!(deadlines.heap.len() <= 8, "{} entries for two deadlines", deadlines.heap.len());
        assert_eq!(deadlines.earliest(), Some(Instant::from_millis(1)));
        timers[0].disarm();
        deadlines.settle(|due| Some(timers[due.cgroup as usize]));
        assert_eq!(deadlines.earliest(), Some(Instant::from_millis(19_999)), "the live one");
    }
}
