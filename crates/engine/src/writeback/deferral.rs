//! Dirty queues: one for each owner, each in its order; the one with the earliest deadline comes first.
//!
//! Within a row nothing is ever reordered: what comes later never has an earlier deadline than what came before it
//! (spec/throttle P21). To release a row is to make what stands in it due now, from the front; what must not go before
//! a certain time keeps what is behind it waiting.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use crate::time::Instant;

/// Something that waits in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Deferred {
    pub(super) item: u64,
    /// Its place among all that was ever pushed.
    pub(super) turn: u64,
    /// Not before this, whoever wants it.
    earliest: Instant,
    deadline: Instant,
}

/// The rows. O(log owners) for each call that says nothing else.
#[derive(Debug, Default)]
pub(super) struct Deferral {
    rows: Vec<Row>,
    /// The front of each row that is not held, by its deadline.
    order: BTreeSet<(Instant, u32)>,
}

#[derive(Debug, Default)]
struct Row {
    items: VecDeque<Deferred>,
    /// The latest deadline given.
    last: Instant,
    /// What stands up to this turn is due since then.
    released: (u64, Instant),
    /// Everything is due since then.
    pressed: Option<Instant>,
    is_held: bool,
    /// Its key in `order`.
    standing: Option<Instant>,
}

impl Row {
    /// When an item is due.
    fn due(&self, deferred: &Deferred) -> Instant {
        let (turn, at) = self.released;
        let released = (deferred.turn <= turn).then_some(at);
        let early = [released, self.pressed].into_iter().flatten().min();
        early.map_or(deferred.deadline, |at| deferred.deadline.min(at.max(deferred.earliest)))
    }
}

impl Deferral {
    /// Makes row `row` exist.
    pub(super) fn open(&mut self, row: u32) {
        let count = self.rows.len().max(row as usize + 1);
        self.rows.resize_with(count, Row::default);
    }

    /// Puts an item at the end of a row, due at the end of `when` or with the one before it, whichever is later; never
    /// before the beginning of `when`, which is not in the past. `turn` grows from call to call.
    pub(super) fn push(&mut self, row: u32, when: Range<Instant>, turn: u64, item: u64) {
        let place = &mut self.rows[row as usize];
        place.last = place.last.max(when.end);
        place.items.push_back(Deferred { item, turn, earliest: when.start, deadline: place.last });
        self.stand(row);
    }

    /// Puts an item back that was popped just now.
    pub(super) fn push_back_in(&mut self, row: u32, deferred: Deferred) {
        self.rows[row as usize].items.push_front(deferred);
        self.stand(row);
    }

    /// Makes what stands in a row up to `turn` due.
    pub(super) fn release(&mut self, row: u32, now: Instant, turn: u64) {
        let place = &mut self.rows[row as usize];
        if place.released.0 < turn {
            // What was released before and still stands is due since then.
            let (before, at) = place.released;
            let still = place.items.front().is_some_and(|front| front.turn <= before);
            place.released = (turn, if still { at } else { now });
            self.stand(row);
        }
    }

    /// Makes what stands in a row due now, also what must not go before a certain time. O(items).
    pub(super) fn hasten(&mut self, row: u32, now: Instant, turn: u64) {
        for item in &mut self.rows[row as usize].items {
            item.earliest = item.earliest.min(now);
        }
        self.release(row, now, turn);
        self.stand(row);
    }

    /// Whether all that is and comes in a row is due at once.
    pub(super) fn press(&mut self, row: u32, now: Instant, is_pressed: bool) {
        let place = &mut self.rows[row as usize];
        if place.pressed.is_some() != is_pressed {
            place.pressed = is_pressed.then_some(now);
            self.stand(row);
        }
    }

    /// Whether nothing of a row may go, due or not.
    pub(super) fn hold(&mut self, row: u32, is_held: bool) {
        let place = &mut self.rows[row as usize];
        if core::mem::replace(&mut place.is_held, is_held) != is_held {
            self.stand(row);
        }
    }

    /// Takes the front of the row whose deadline came first, if one has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(u32, Deferred)> {
        let &(due, row) = self.order.first()?;
        if due > now {
            return None;
        }
        let deferred = self.rows[row as usize].items.pop_front()?;
        self.stand(row);
        Some((row, deferred))
    }

    /// The first deadline of the rows that are not held.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.order.first().map(|&(due, _)| due)
    }

    /// The items of a row in their order, and when each is due.
    pub(super) fn iter(&self, row: u32) -> impl Iterator<Item = (&Deferred, Instant)> {
        let place = self.rows.get(row as usize).into_iter();
        place.flat_map(|place| place.items.iter().map(|item| (item, place.due(item))))
    }

    /// Items in a row.
    pub(super) fn len(&self, row: u32) -> usize {
        self.rows[row as usize].items.len()
    }

    /// Drops the items of a row that are not wanted any more. O(items).
    pub(super) fn retain(&mut self, row: u32, mut is_wanted: impl FnMut(&Deferred) -> bool) {
        self.rows[row as usize].items.retain(|deferred| is_wanted(deferred));
        self.stand(row);
    }

    /// Gives a row its place among the others.
    fn stand(&mut self, row: u32) {
        let place = &mut self.rows[row as usize];
        let front = place.items.front().filter(|_| !place.is_held);
        let standing = front.map(|front| place.due(front));
        let old = core::mem::replace(&mut place.standing, standing);
        if old != standing {
            if let Some(due) = old {
                self.order.remove(&(due, row));
            }
            if let Some(due) = standing {
                self.order.insert((due, row));
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
        Push { row: u32, delay: u64 },
        Release { row: u32 },
        Press { row: u32, on: bool },
        Pass { nanos: u64 },
    }

    fn call() -> impl Strategy<Value = Call> {
        let row = 0..3u32;
        prop_oneof![
            6 => (row.clone(), 0..50u64).prop_map(|(row, delay)| Call::Push { row, delay }),
            1 => row.clone().prop_map(|row| Call::Release { row }),
            1 => (row, any::<bool>()).prop_map(|(row, on)| Call::Press { row, on }),
            4 => (0..40u64).prop_map(|nanos| Call::Pass { nanos }),
        ]
    }

    proptest! {
        /// spec/throttle P21: out in non-decreasing order of deadlines, none before its own unless released, first in
        /// first out within a row; after a release nothing of that row is left.
        #[test]
        fn rows_keep_their_order(calls in prop::collection::vec(call(), 1..200)) {
            let mut deferral = Deferral::default();
            (0..3).for_each(|row| deferral.open(row));
            let (mut now, mut turn) = (Instant::ZERO, 0);
            let mut asked: BTreeMap<u64, (u32, Instant)> = BTreeMap::new();
            let mut freed = [0u64; 3];
            let mut pressed = [false; 3];
            let mut last_out = [0u64; 3];
            let mut last_due = Instant::ZERO;
            for call in calls {
                match call {
                    Call::Push { row, delay } => {
                        turn += 1;
                        deferral.push(row, now..now.plus_nanos(delay), turn, turn * 10);
                        asked.insert(turn, (row, now.plus_nanos(delay)));
                    }
                    Call::Release { row } => {
                        deferral.release(row, now, turn);
                        freed[row as usize] = turn;
                    }
                    Call::Press { row, on } => {
                        deferral.press(row, now, on);
                        pressed[row as usize] = on;
                    }
                    Call::Pass { nanos } => now = now.plus_nanos(nanos),
                }
                while let Some(due) = deferral.earliest().filter(|&due| due <= now) {
                    let (row, out) = deferral.pop_due(now).expect("its deadline has come");
                    prop_assert!(due >= last_due, "{due:?} after {last_due:?}");
                    last_due = due;
                    let (owner, at) = asked.remove(&out.turn).expect("pushed once");
                    prop_assert_eq!((row, out.item), (owner, out.turn * 10));
                    prop_assert!(out.turn > last_out[row as usize], "out of order in its row");
                    last_out[row as usize] = out.turn;
                    let is_free = pressed[row as usize] || out.turn <= freed[row as usize];
                    prop_assert!(is_free || at <= now, "before its deadline");
                }
                for (turn, (row, _)) in &asked {
                    let is_free = pressed[*row as usize] || *turn <= freed[*row as usize];
                    prop_assert!(!is_free, "released and still there");
                }
            }
            while let Some(due) = deferral.earliest() {
                deferral.pop_due(due).expect("the earliest is due then");
            }
            prop_assert_eq!((0..3).map(|row| deferral.len(row)).sum::<usize>(), 0);
        }
    }

    #[test]
    fn what_is_held_stays() {
        let mut deferral = Deferral::default();
        deferral.open(0);
        deferral.open(1);
        deferral.push(0, Instant::ZERO..Instant::from_nanos(1), 1, 7);
        deferral.push(1, Instant::ZERO..Instant::from_nanos(2), 2, 8);
        deferral.hold(0, true);
        let late = Instant::from_nanos(9);
        assert_eq!(deferral.pop_due(late).map(|(_, out)| out.item), Some(8));
        assert_eq!(deferral.pop_due(late), None);
        deferral.hold(0, false);
        let (row, out) = deferral.pop_due(late).unwrap();
        assert_eq!((row, out.item), (0, 7));
        deferral.push_back_in(row, out);
        assert_eq!(deferral.earliest(), Some(Instant::from_nanos(1)));
    }

    #[test]
    fn what_must_not_go_yet_is_not_pressed_out() {
        let mut deferral = Deferral::default();
        deferral.open(0);
        let (soon, late) = (Instant::from_nanos(5), Instant::from_nanos(9));
        deferral.push(0, soon..late, 1, 7);
        deferral.press(0, Instant::ZERO, true);
        deferral.release(0, Instant::ZERO, 1);
        assert_eq!(deferral.earliest(), Some(soon));
        assert_eq!(deferral.pop_due(Instant::from_nanos(4)), None);
        assert!(deferral.pop_due(soon).is_some());
    }
}
