//! Dirty queues: one for each owner, each in its order; the one with the earliest deadline comes first.
//!
//! A queue is never reordered: deadlines do not decrease from front to back (spec/throttle P21). Releasing a queue makes
//! its items due now, from the front. An item with an `earliest` time in the future keeps those behind it waiting.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use weir_engine::Instant;

/// Item of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Deferred {
    pub(super) item: u64,
    /// Serial number of the push, over all queues.
    pub(super) turn: u64,
    /// Time before which neither a release nor pressure makes it due.
    earliest: Instant,
    deadline: Instant,
}

/// All dirty queues, by the index of their owner. O(log owners) for each call unless stated otherwise.
#[derive(Debug, Default)]
pub(super) struct DirtyQueues {
    queues: Vec<DirtyQueue>,
    /// Owners whose queue is not held, by the time at which its front is due.
    order: BTreeSet<(Instant, u32)>,
}

#[derive(Debug, Default)]
struct DirtyQueue {
    items: VecDeque<Deferred>,
    /// The latest deadline given.
    last: Instant,
    /// Turn up to which items are released, and when they were.
    released: (u64, Instant),
    /// Since when all items are due.
    pressed: Option<Instant>,
    is_held: bool,
    /// Its key in `order`.
    key: Option<Instant>,
}

impl DirtyQueue {
    /// When an item is due.
    fn due(&self, deferred: &Deferred) -> Instant {
        let (turn, at) = self.released;
        let released = (deferred.turn <= turn).then_some(at);
        let early = [released, self.pressed].into_iter().flatten().min();
        early.map_or(deferred.deadline, |at| deferred.deadline.min(at.max(deferred.earliest)))
    }
}

impl DirtyQueues {
    /// Creates the queue of an owner.
    pub(super) fn open(&mut self, owner: u32) {
        let count = self.queues.len().max(owner as usize + 1);
        self.queues.resize_with(count, DirtyQueue::default);
    }

    /// Appends an item, due at `when.end` or with its predecessor if that is later, and not before `when.start`, which
    /// is not in the past. `turn` grows from call to call.
    pub(super) fn push(&mut self, owner: u32, when: Range<Instant>, turn: u64, item: u64) {
        let queue = &mut self.queues[owner as usize];
        queue.last = queue.last.max(when.end);
        queue.items.push_back(Deferred { item, turn, earliest: when.start, deadline: queue.last });
        self.reorder(owner);
    }

    /// Returns the item that was popped last to the front.
    pub(super) fn push_back_in(&mut self, owner: u32, deferred: Deferred) {
        self.queues[owner as usize].items.push_front(deferred);
        self.reorder(owner);
    }

    /// Makes the items up to `turn` due.
    pub(super) fn release(&mut self, owner: u32, now: Instant, turn: u64) {
        let queue = &mut self.queues[owner as usize];
        if queue.released.0 < turn {
            // Items of an earlier release that are still queued keep its time.
            let (before, at) = queue.released;
            let still = queue.items.front().is_some_and(|front| front.turn <= before);
            queue.released = (turn, if still { at } else { now });
            self.reorder(owner);
        }
    }

    /// Makes all items due now, also those with a later `earliest`. O(items).
    pub(super) fn hasten(&mut self, owner: u32, now: Instant, turn: u64) {
        for item in &mut self.queues[owner as usize].items {
            item.earliest = item.earliest.min(now);
        }
        self.release(owner, now, turn);
        self.reorder(owner);
    }

    /// Sets whether present and future items are due at once.
    pub(super) fn press(&mut self, owner: u32, now: Instant, is_pressed: bool) {
        let queue = &mut self.queues[owner as usize];
        if queue.pressed.is_some() != is_pressed {
            queue.pressed = is_pressed.then_some(now);
            self.reorder(owner);
        }
    }

    /// Sets whether the queue is held: its items do not leave even if due.
    pub(super) fn hold(&mut self, owner: u32, is_held: bool) {
        let queue = &mut self.queues[owner as usize];
        if std::mem::replace(&mut queue.is_held, is_held) != is_held {
            self.reorder(owner);
        }
    }

    /// Pops the front that was due first, if one is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(u32, Deferred)> {
        let &(due, owner) = self.order.first()?;
        if due > now {
            return None;
        }
        let deferred = self.queues[owner as usize].items.pop_front()?;
        self.reorder(owner);
        Some((owner, deferred))
    }

    /// When the first front of a queue that is not held is due.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.order.first().map(|&(due, _)| due)
    }

    /// Items in order, with the time at which each is due.
    pub(super) fn iter(&self, owner: u32) -> impl Iterator<Item = (&Deferred, Instant)> {
        let queue = self.queues.get(owner as usize).into_iter();
        queue.flat_map(|queue| queue.items.iter().map(|item| (item, queue.due(item))))
    }

    /// Number of items.
    pub(super) fn len(&self, owner: u32) -> usize {
        self.queues[owner as usize].items.len()
    }

    /// Drops the items that are not wanted any more. O(items).
    pub(super) fn retain(&mut self, owner: u32, mut is_wanted: impl FnMut(&Deferred) -> bool) {
        self.queues[owner as usize].items.retain(|deferred| is_wanted(deferred));
        self.reorder(owner);
    }

    /// Updates the queue's key in `order`.
    fn reorder(&mut self, owner: u32) {
        let queue = &mut self.queues[owner as usize];
        let front = queue.items.front().filter(|_| !queue.is_held);
        let key = front.map(|front| queue.due(front));
        let old = std::mem::replace(&mut queue.key, key);
        if old != key {
            if let Some(due) = old {
                self.order.remove(&(due, owner));
            }
            if let Some(due) = key {
                self.order.insert((due, owner));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Call {
        Push { owner: u32, delay: u64 },
        Release { owner: u32 },
        Press { owner: u32, on: bool },
        Pass { nanos: u64 },
    }

    fn call() -> impl Strategy<Value = Call> {
        let owner = 0..3u32;
        prop_oneof![
            6 => (owner.clone(), 0..50u64).prop_map(|(owner, delay)| Call::Push { owner, delay }),
            1 => owner.clone().prop_map(|owner| Call::Release { owner }),
            1 => (owner, any::<bool>()).prop_map(|(owner, on)| Call::Press { owner, on }),
            4 => (0..40u64).prop_map(|nanos| Call::Pass { nanos }),
        ]
    }

    proptest! {
        /// spec/throttle P21: out in non-decreasing order of deadlines, none before its own unless released, first in
        /// first out within a queue; after a release nothing is left in it.
        #[test]
        fn each_queue_is_first_in_first_out(calls in prop::collection::vec(call(), 1..200)) {
            let mut dirty_queues = DirtyQueues::default();
            (0..3).for_each(|owner| dirty_queues.open(owner));
            let (mut now, mut turn) = (Instant::ZERO, 0);
            let mut asked: BTreeMap<u64, (u32, Instant)> = BTreeMap::new();
            let mut freed = [0u64; 3];
            let mut pressed = [false; 3];
            let mut last_out = [0u64; 3];
            let mut last_due = Instant::ZERO;
            for call in calls {
                match call {
                    Call::Push { owner, delay } => {
                        turn += 1;
                        dirty_queues.push(owner, now..now.plus_nanos(delay), turn, turn * 10);
                        asked.insert(turn, (owner, now.plus_nanos(delay)));
                    }
                    Call::Release { owner } => {
                        dirty_queues.release(owner, now, turn);
                        freed[owner as usize] = turn;
                    }
                    Call::Press { owner, on } => {
                        dirty_queues.press(owner, now, on);
                        pressed[owner as usize] = on;
                    }
                    Call::Pass { nanos } => now = now.plus_nanos(nanos),
                }
                while let Some(due) = dirty_queues.earliest().filter(|&due| due <= now) {
                    let (owner, out) = dirty_queues.pop_due(now).expect("its deadline has come");
                    prop_assert!(due >= last_due, "{due:?} after {last_due:?}");
                    last_due = due;
                    let (pushed_to, at) = asked.remove(&out.turn).expect("pushed once");
                    prop_assert_eq!((owner, out.item), (pushed_to, out.turn * 10));
                    prop_assert!(out.turn > last_out[owner as usize], "out of order in its queue");
                    last_out[owner as usize] = out.turn;
                    let is_free = pressed[owner as usize] || out.turn <= freed[owner as usize];
                    prop_assert!(is_free || at <= now, "before its deadline");
                }
                for (turn, (owner, _)) in &asked {
                    let is_free = pressed[*owner as usize] || *turn <= freed[*owner as usize];
                    prop_assert!(!is_free, "released and still there");
                }
            }
            while let Some(due) = dirty_queues.earliest() {
                dirty_queues.pop_due(due).expect("the earliest is due then");
            }
            prop_assert_eq!((0..3).map(|owner| dirty_queues.len(owner)).sum::<usize>(), 0);
        }
    }

    #[test]
    fn a_held_queue_pops_nothing() {
        let mut dirty_queues = DirtyQueues::default();
        dirty_queues.open(0);
        dirty_queues.open(1);
        dirty_queues.push(0, Instant::ZERO..Instant::from_nanos(1), 1, 7);
        dirty_queues.push(1, Instant::ZERO..Instant::from_nanos(2), 2, 8);
        dirty_queues.hold(0, true);
        let late = Instant::from_nanos(9);
        assert_eq!(dirty_queues.pop_due(late).map(|(_, out)| out.item), Some(8));
        assert_eq!(dirty_queues.pop_due(late), None);
        dirty_queues.hold(0, false);
        let (owner, out) = dirty_queues.pop_due(late).unwrap();
        assert_eq!((owner, out.item), (0, 7));
        dirty_queues.push_back_in(owner, out);
        assert_eq!(dirty_queues.earliest(), Some(Instant::from_nanos(1)));
    }

    #[test]
    fn pressure_does_not_override_the_earliest_time() {
        let mut dirty_queues = DirtyQueues::default();
        dirty_queues.open(0);
        let (soon, late) = (Instant::from_nanos(5), Instant::from_nanos(9));
        dirty_queues.push(0, soon..late, 1, 7);
        dirty_queues.press(0, Instant::ZERO, true);
        dirty_queues.release(0, Instant::ZERO, 1);
        assert_eq!(dirty_queues.earliest(), Some(soon));
        assert_eq!(dirty_queues.pop_due(Instant::from_nanos(4)), None);
        assert!(dirty_queues.pop_due(soon).is_some());
    }
}
