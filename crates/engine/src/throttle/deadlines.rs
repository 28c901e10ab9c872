//! Pending deadlines; the earliest is what [`crate::Engine::poll_timeout`] answers.

use alloc::collections::VecDeque;

use crate::tree::{Heap, Keyed};
use crate::types::{Direction, Instant};

/// Timer of one cgroup and direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Timer {
    /// The stamp of the one live entry in the heap, which is the one at `at`; 0 while disarmed.
    stamp: u64,
    at: Instant,
}

impl Timer {
    /// Instant at which it fires, if armed.
    pub(crate) fn fires_at(self) -> Option<Instant> {
        (self.stamp != 0).then_some(self.at)
    }

    /// Place among timers of one instant, if armed.
    pub(crate) fn stamp(self) -> Option<u64> {
        (self.stamp != 0).then_some(self.stamp)
    }

    /// Voids the deadline.
    pub(crate) fn disarm(&mut self) {
        self.stamp = 0;
    }
}

/// One deadline.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    /// Place among entries of one instant: the deepest cgroup first, so that a parent sees what its children
    /// dispatched, then the one armed first. In the high bits [`DEPTH_MAX`] less the depth, below them the stamp.
    rank: u64,
    due: Due,
}

const STAMP_BITS: u32 = 56;
/// Below this depth, only the order of arming counts.
const DEPTH_MAX: u32 = u8::MAX as u32;

impl Entry {
    fn new(at: Instant, depth: u32, due: Due, stamp: u64) -> Entry {
        // At ten million a second they last 228 years.
        assert!(stamp >> STAMP_BITS == 0, "more than 2^56 deadlines");
        let rank = u64::from(DEPTH_MAX - depth.min(DEPTH_MAX)) << STAMP_BITS | stamp;
        Entry { at, rank, due }
    }

    fn stamp(&self) -> u64 {
        self.rank & ((1 << STAMP_BITS) - 1)
    }
}

impl Keyed for Entry {
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at.as_nanos()) << 64 | u128::from(self.rank)
    }
}

/// A deadline that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    pub(crate) cgroup: u32,
    pub(crate) direction: Direction,
}

/// Deadlines of all cgroups. O(log armed) a step, O(1) for those armed in order; no allocation once grown. A disarmed
/// deadline stays behind, void, until it comes to the top or is swept.
pub(crate) struct Deadlines {
    /// Entries armed in order: nearly all where cgroups have one limit or few have one, since a cgroup served first is
    /// armed behind all others.
    fifo: VecDeque<Entry>,
    /// All others.
    heap: Heap<Entry>,
}

impl Deadlines {
    pub(crate) fn new() -> Deadlines {
        // Room from the start, so that an empty queue is not full.
        let fifo = VecDeque::with_capacity(4);
        Deadlines { fifo, heap: Heap::with_capacity(4) }
    }

    /// Whether [`Deadlines::sweep`] is due before the next is armed.
    pub(crate) fn is_full(&self) -> bool {
        self.fifo.len() == self.fifo.capacity() || self.heap.is_full()
    }

    /// Drops void entries, and grows if that does not make enough room. Otherwise void entries would pile up behind
    /// one early deadline. O(entries), due after half as many steps at least.
    pub(crate) fn sweep(&mut self, timer_of: impl Fn(Due) -> Option<Timer>) {
        self.heap.retain(|entry| is_live(entry, &timer_of));
        self.fifo.retain(|entry| is_live(entry, &timer_of));
        // Each lane has room for all.
        let live = self.heap.len() + self.fifo.len();
        self.heap.make_room(2 * live);
        if self.fifo.capacity() < 2 * live {
            self.fifo.reserve(2 * live.max(self.fifo.capacity()) - self.fifo.len());
        }
    }

    /// Arms `timer` to fire at `at`. `stamp` is not 0, and new or the timer's own.
    pub(crate) fn arm(&mut self, timer: &mut Timer, at: Instant, depth: u32, due: Due, stamp: u64) {
        debug_assert_ne!(stamp, 0);
        *timer = Timer { stamp, at };
        let entry = Entry::new(at, depth, due, stamp);
        match self.fifo.back() {
            Some(last) if entry.key() < last.key() => self.heap.push(entry),
            _ => self.fifo.push_back(entry),
        }
    }

    /// Drops void entries from the top. `timer_of` finds a cgroup's timer, if the cgroup still exists.
    pub(crate) fn settle(&mut self, timer_of: impl Fn(Due) -> Option<Timer>) {
        while let Some((entry, lane)) = self.first() {
            if is_live(entry, &timer_of) {
                return;
            }
            self.drop(lane);
        }
    }

    /// The instant of the earliest deadline. Right after [`Deadlines::settle`].
    #[inline]
    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.first().map(|(entry, _)| entry.at)
    }

    /// Takes out the first live deadline that has come by `now`.
    #[inline]
    pub(crate) fn pop_due(
        &mut self,
        now: Instant,
        timer_of: impl Fn(Due) -> Option<Timer>,
    ) -> Option<Due> {
        while let Some((entry, lane)) = self.first() {
            let live = is_live(entry, &timer_of);
            if live && entry.at > now {
                return None;
            }
            let due = entry.due;
            self.drop(lane);
            if live {
                return Some(due);
            }
        }
        None
    }

    /// First entry, and its lane.
    #[inline]
    fn first(&self) -> Option<(&Entry, Lane)> {
        match (self.fifo.front(), self.heap.first()) {
            (Some(a), Some(b)) if b.key() < a.key() => Some((b, Lane::Heap)),
            (Some(a), _) => Some((a, Lane::Fifo)),
            (None, b) => b.map(|b| (b, Lane::Heap)),
        }
    }

    // Not inlined, so that a call that finds nothing due does not pay for it.
    #[inline(never)]
    fn drop_from_heap(&mut self) {
        self.heap.drop_first();
    }

    #[inline]
    fn drop(&mut self, lane: Lane) {
        match lane {
            Lane::Heap => self.drop_from_heap(),
            Lane::Fifo => {
                self.fifo.pop_front();
            }
        }
    }
}

/// Lane of an entry.
#[derive(Clone, Copy)]
enum Lane {
    Fifo,
    Heap,
}

fn is_live(entry: &Entry, timer_of: &impl Fn(Due) -> Option<Timer>) -> bool {
    timer_of(entry.due).is_some_and(|timer| timer.stamp == entry.stamp() && timer.at == entry.at)
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
        let entries = deadlines.fifo.len() + deadlines.heap.len();
        assert!(entries <= 16, "{entries} entries for two deadlines");
        assert_eq!(deadlines.earliest(), Some(Instant::from_millis(1)));
        timers[0].disarm();
        deadlines.settle(|due| Some(timers[due.cgroup as usize]));
        assert_eq!(deadlines.earliest(), Some(Instant::from_millis(19_999)), "the live one");
    }

    /// The order is the one that comparing instant, depth and stamp gives, whatever was armed, voided and swept.
    #[test]
    fn deadlines_fire_in_order_whatever_happened_before() {
        const CGROUPS: u32 = 50;
        let depth = |cgroup: u32| cgroup % 3;
        let mut deadlines = Deadlines::new();
        let mut timers = [[Timer::default(); 2]; CGROUPS as usize];
        let find = |timers: &[[Timer; 2]], due: Due| {
            Some(timers[due.cgroup as usize][due.direction.index()])
        };
        let (mut state, mut now, mut fired) = (1u64, 0u64, 0);
        let mut word = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32
        };
        for stamp in 1..20_000 {
            let direction = Direction::BOTH[(word() % 2) as usize];
            let due = Due { cgroup: word() % CGROUPS, direction };
            let timer = &mut timers[due.cgroup as usize][direction.index()];
            if word() % 4 == 0 {
                timer.disarm();
            } else {
                // Few instants, so that many are the same.
                let at = Instant::from_nanos(now + 1 + u64::from(word() % 20));
                deadlines.arm(timer, at, depth(due.cgroup), due, stamp);
            }
            if word() % 100 == 0 {
                deadlines.sweep(|due| find(&timers, due));
            }
            if word() % 10 > 0 {
                continue;
            }
            now += u64::from(word() % 10);
            let mut last = None;
            while let Some(due) =
                deadlines.pop_due(Instant::from_nanos(now), |due| find(&timers, due))
            {
                let timer = &mut timers[due.cgroup as usize][due.direction.index()];
                let key = (timer.at, core::cmp::Reverse(depth(due.cgroup)), timer.stamp);
                assert!(timer.at.as_nanos() <= now && last.is_none_or(|last| last < key));
                (last, fired) = (Some(key), fired + 1);
                timer.disarm();
            }
            let earliest = timers.iter().flatten().filter_map(|timer| timer.fires_at()).min();
            assert_eq!(deadlines.earliest(), earliest);
            assert!(earliest.is_none_or(|at| at.as_nanos() > now), "all that were due have fired");
        }
        assert!(fired > 1000, "{fired}");
    }
}
