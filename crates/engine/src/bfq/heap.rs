//! A heap whose members know their places in it, so that any of them can leave.

use alloc::vec::Vec;

use super::entity::{Entities, EntityId};
use super::vtime::Vtime;

/// Children of an inner node. Four share a cache line, and the heap is half as high as with two.
const FAN_OUT: usize = 4;

/// Entities by virtual time, and by order of insertion where that is equal. O(log n) in and out, no allocation once
/// grown. Only the first can be seen: that is all a service tree asks, and a whole order would cost more.
pub(crate) struct Heap(Vec<Entry>);

/// A member and its key; together, so that comparing does not fetch entities from all over memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Vtime,
    /// Grows by one with each insertion, around a circle.
    pub(crate) order: u32,
    pub(crate) id: EntityId,
}

impl Entry {
    #[inline]
    pub(crate) fn is_before(&self, other: &Entry) -> bool {
        // Both go around a circle, whose upper half is the past.
        let order = || other.order.wrapping_sub(self.order) as i32;
        match other.key.ahead_of(self.key) {
            0 => order() > 0,
            ahead => ahead > 0,
        }
    }
}

impl Heap {
    pub(crate) const fn new() -> Heap {
        Heap(Vec::new())
    }

    pub(crate) fn first(&self) -> Option<&Entry> {
        self.0.first()
    }

    /// Allocates now what `members` need.
    pub(crate) fn make_room(&mut self, members: u32) {
        self.0.reserve_exact((members as usize).saturating_sub(self.0.len()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(crate) fn push(&mut self, entities: &mut Entities, entry: Entry) {
        let place = self.0.len();
        self.0.push(entry);
        match parent(place) {
            Some(parent) if entry.is_before(&self.0[parent]) => self.rise(entities, place, entry),
            // Ids are of 32 bits, so places are.
            _ => entities[entry.id].place = place as u32,
        }
    }

    /// Takes out the first, if there is one.
    pub(crate) fn pop(&mut self, entities: &mut Entities) -> Option<Entry> {
        let last = self.0.pop()?;
        let Some(&first) = self.0.first() else { return Some(last) };
        self.sink(entities, 0, last);
        Some(first)
    }

    /// Takes out the member that `entities` has at `place`.
    pub(crate) fn remove(&mut self, entities: &mut Entities, place: u32) -> Entry {
        let last = self.0.pop().expect("a heap with a member");
        let place = place as usize;
        let Some(&gone) = self.0.get(place) else {
            debug_assert_eq!(place, self.0.len());
            return last;
        };
        // The last one stands where `gone` stood, and belongs above or below.
        match parent(place) {
            Some(parent) if last.is_before(&self.0[parent]) => self.rise(entities, place, last),
            _ => self.sink(entities, place, last),
        }
        gone
    }

    /// Whether every member is behind its parent, and knows its place.
    pub(crate) fn is_sound(&self, entities: &Entities) -> bool {
        self.0.iter().enumerate().all(|(place, entry)| {
            entities[entry.id].place as usize == place
                && (place == 0 || !entry.is_before(&self.0[(place - 1) / FAN_OUT]))
        })
    }

    /// Puts `entry`, for which `place` is free, there or higher up.
    fn rise(&mut self, entities: &mut Entities, mut place: usize, entry: Entry) {
        while let Some(parent) = parent(place) {
            let above = self.0[parent];
            if !entry.is_before(&above) {
                break;
            }
            self.put(entities, place, above);
            place = parent;
        }
        self.put(entities, place, entry);
    }

    /// Puts `entry`, for which `place` is free, there or further down.
    fn sink(&mut self, entities: &mut Entities, mut place: usize, entry: Entry) {
        loop {
            let first = place * FAN_OUT + 1;
            let Some(children) = self.0.get(first..) else { break };
            let Some((&child, others)) = children.split_first() else { break };
            let (mut least, mut at) = (child, first);
            for (other, place) in others.iter().take(FAN_OUT - 1).zip(first + 1..) {
                if other.is_before(&least) {
                    (least, at) = (*other, place);
                }
            }
            if !least.is_before(&entry) {
                break;
            }
            self.put(entities, place, least);
            place = at;
        }
        self.put(entities, place, entry);
    }

    fn put(&mut self, entities: &mut Entities, place: usize, entry: Entry) {
        self.0[place] = entry;
        entities[entry.id].place = place as u32;
    }
}

/// Where the parent is of who is at `place`; the first has none.
const fn parent(place: usize) -> Option<usize> {
    match place.checked_sub(1) {
        Some(before) => Some(before / FAN_OUT),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whoever leaves, the first is the least of those that stay.
        #[test]
        fn the_first_is_the_least(steps in prop::collection::vec((0..40_u64, 0..8_u32), 1..200)) {
            let (mut heap, mut entities) = (Heap::new(), Entities::default());
            let mut inside: Vec<Entry> = Vec::new();
            for (order, (bytes, leave)) in steps.into_iter().enumerate() {
                let id = EntityId::flow(order as u32);
                entities.ensure(id);
                let entry = Entry { key: Vtime::ZERO.after(bytes, 1), order: order as u32, id };
                heap.push(&mut entities, entry);
                inside.push(entry);
                if leave < 4 {
                    let gone = inside.swap_remove(leave as usize % inside.len());
                    let place = entities[gone.id].place;
                    prop_assert_eq!(heap.remove(&mut entities, place), gone);
                }
                prop_assert!(heap.is_sound(&entities));
                let least = inside.iter().copied().reduce(|a, b| if b.is_before(&a) { b } else { a });
                prop_assert_eq!(heap.first().copied(), least);
            }
        }
    }
}
