//! The three heaps of a service tree in one block of memory, whose members know their places, so that any of them can
//! leave.

use alloc::boxed::Box;
use core::hint::select_unpredictable;

use super::entity::{Entities, EntityId};
use super::vtime::Vtime;

/// Children of an inner node. Four are as long as a cache line, and the heap is half as high as with two.
const FAN_OUT: usize = 4;

/// Which of the heaps: a constant argument, so that each has code of its own.
pub(crate) type Part = usize;
/// Active ones that V had not reached, by start.
pub(crate) const WAITING: Part = 0;
/// Active ones that V has reached, by finish.
pub(crate) const ELIGIBLE: Part = 1;
/// Idle ones, by finish.
pub(crate) const IDLE: Part = 2;

/// Entities by virtual time, and by order of insertion where that is equal; each in one of three heaps. O(log n) in and
/// out, no allocation once grown. Only the first of each can be seen: that is all a service tree asks, and a whole order
/// would cost more.
///
/// ```text
///  0                            room                                2 × room
///  ├─ waiting ─►        ◄─ eligible ┼─ idle ─►                             ┤
/// ```
///
/// Whoever waits is not eligible, so that the two share the room of one. The firsts of those that somebody is found in
/// with each request lie side by side.
pub(crate) struct Heaps {
    entries: Box<[Entry]>,
    len: [u32; 3],
    /// Orders given so far, around a circle.
    order: u32,
}

/// A member and its key; together, so that comparing does not fetch entities from all over memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Vtime,
    /// From [`Heaps::order`]: equal keys are served in its order.
    pub(crate) order: u32,
    pub(crate) id: EntityId,
}

impl Entry {
    /// What is in room that nobody has.
    const NONE: Entry = Entry { key: Vtime::ZERO, order: 0, id: EntityId::NOBODY };

    #[inline]
    pub(crate) fn is_before(&self, other: &Entry) -> bool {
        self.rank(other) < Entry::LEVEL
    }

    /// How far this one is behind another, by key and then by order, in one number: who is first is found without a
    /// branch then, for nobody could foresee which way that goes.
    #[inline]
    fn rank(&self, other: &Entry) -> i128 {
        // Both go around a circle, whose upper half is the past: of orders it comes first once it is turned by half.
        let order = self.order.wrapping_sub(other.order) ^ 1 << 31;
        i128::from(self.key.ahead_of(other.key)) << 64 | i128::from(order)
    }

    /// The rank of whoever is level with the other.
    const LEVEL: i128 = 1 << 31;
}

impl Heaps {
    pub(crate) fn new() -> Heaps {
        Heaps { entries: Box::new([]), len: [0; 3], order: 0 }
    }

    /// Members that there is room for, whichever heaps they are in.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.entries.len() / 2
    }

    /// Allocates what `members` need. O(members).
    pub(crate) fn make_room(&mut self, members: usize) {
        let entries = alloc::vec![Entry::NONE; 2 * members].into();
        let old = core::mem::replace(self, Heaps { entries, ..*self });
        self.take_over::<WAITING>(&old);
        self.take_over::<ELIGIBLE>(&old);
        self.take_over::<IDLE>(&old);
    }

    fn take_over<const PART: Part>(&mut self, old: &Heaps) {
        for (place, entry) in old.entries::<PART>().enumerate() {
            let slot = self.slot::<PART>(place);
            self.entries[slot] = *entry;
        }
    }

    /// The order of who comes now: after all before it.
    #[inline]
    pub(crate) fn order(&mut self) -> u32 {
        self.order = self.order.wrapping_add(1);
        self.order
    }

    #[inline]
    pub(crate) fn first<const PART: Part>(&self) -> Option<&Entry> {
        if self.is_empty::<PART>() { None } else { self.entries.get(self.slot::<PART>(0)) }
    }

    #[inline]
    pub(crate) fn len<const PART: Part>(&self) -> usize {
        self.len[PART] as usize
    }

    #[inline]
    pub(crate) fn is_empty<const PART: Part>(&self) -> bool {
        self.len[PART] == 0
    }

    /// Every member of a heap, by place.
    pub(crate) fn entries<const PART: Part>(&self) -> impl Iterator<Item = &Entry> + Clone {
        (0..self.len::<PART>()).map(|place| &self.entries[self.slot::<PART>(place)])
    }

    #[inline]
    pub(crate) fn push<const PART: Part>(&mut self, entities: &mut Entities, entry: Entry) {
        let place = self.len::<PART>();
        self.len[PART] += 1;
        self.rise::<PART>(entities, place, entry);
    }

    /// Takes out the first, if there is one.
    #[inline]
    pub(crate) fn pop<const PART: Part>(&mut self, entities: &mut Entities) -> Option<Entry> {
        let first = *self.first::<PART>()?;
        let last = self.pop_last::<PART>();
        if !self.is_empty::<PART>() {
            self.sink::<PART>(entities, 0, last);
        }
        Some(first)
    }

    /// Takes out the member that `entities` has at `place`.
    pub(crate) fn remove<const PART: Part>(
        &mut self,
        entities: &mut Entities,
        place: u32,
    ) -> Entry {
        let (last, place) = (self.pop_last::<PART>(), place as usize);
        if place == self.len::<PART>() {
            return last;
        }
        // The last one stands where somebody is gone, and belongs above or below.
        let gone = self.at::<PART>(place);
        match parent(place) {
            Some(parent) if last.is_before(&self.at::<PART>(parent)) => {
                self.rise::<PART>(entities, place, last);
            }
            _ => self.sink::<PART>(entities, place, last),
        }
        gone
    }

    /// Whether every member is behind its parent, and knows its place.
    pub(crate) fn is_sound<const PART: Part>(&self, entities: &Entities) -> bool {
        self.entries::<PART>().enumerate().all(|(place, entry)| {
            entities[entry.id].place as usize == place
                && parent(place).is_none_or(|parent| !entry.is_before(&self.at::<PART>(parent)))
        })
    }

    /// Takes out who is at the last place, which there is.
    #[inline]
    fn pop_last<const PART: Part>(&mut self) -> Entry {
        self.len[PART] -= 1;
        self.at::<PART>(self.len::<PART>())
    }

    /// Puts `entry`, for which `place` is free, there or higher up.
    #[inline]
    fn rise<const PART: Part>(&mut self, entities: &mut Entities, mut place: usize, entry: Entry) {
        while let Some(parent) = parent(place) {
            let above = self.at::<PART>(parent);
            if !entry.is_before(&above) {
                break;
            }
            self.put::<PART>(entities, place, above);
            place = parent;
        }
        self.put::<PART>(entities, place, entry);
    }

    /// Puts `entry`, for which `place` is free, there or further down.
    fn sink<const PART: Part>(&mut self, entities: &mut Entities, mut place: usize, entry: Entry) {
        loop {
            let first = place * FAN_OUT + 1;
            if first >= self.len::<PART>() {
                break;
            }
            let (least, child) = self.least_child::<PART>(first, &entry);
            if !least.is_before(&entry) {
                break;
            }
            self.put::<PART>(entities, place, least);
            place = child;
        }
        self.put::<PART>(entities, place, entry);
    }

    /// The first of the children from the place `first` on, of whom there is one at least, and its place.
    #[inline]
    fn least_child<const PART: Part>(&self, first: usize, beside: &Entry) -> (Entry, usize) {
        let last = (self.len::<PART>() - 1).min(first + FAN_OUT - 1);
        let is_mirrored = PART == ELIGIBLE;
        let slots = if is_mirrored {
            self.slot::<PART>(last)..=self.slot::<PART>(first)
        } else {
            self.slot::<PART>(first)..=self.slot::<PART>(last)
        };
        let children = &self.entries[slots];
        let (_, least) = match children {
            [a, b, c, d] => {
                let [a, b, c, d] = [a, b, c, d].map(|child| child.rank(beside));
                earlier(earlier((a, 0), (b, 1)), earlier((c, 2), (d, 3)))
            }
            few => {
                few.iter().map(|child| child.rank(beside)).zip(0..).fold((i128::MAX, 0), earlier)
            }
        };
        (children[least], if is_mirrored { last - least } else { first + least })
    }

    #[inline]
    fn put<const PART: Part>(&mut self, entities: &mut Entities, place: usize, entry: Entry) {
        let slot = self.slot::<PART>(place);
        self.entries[slot] = entry;
        // Ids are of 32 bits, so places are.
        entities[entry.id].place = place as u32;
    }

    #[inline]
    fn at<const PART: Part>(&self, place: usize) -> Entry {
        self.entries[self.slot::<PART>(place)]
    }

    /// Where the place of a heap is.
    #[inline]
    fn slot<const PART: Part>(&self, place: usize) -> usize {
        match PART {
            WAITING => place,
            ELIGIBLE => self.room() - 1 - place,
            _ => self.room() + place,
        }
    }
}

/// The pair with the lesser rank.
#[inline]
fn earlier(a: (i128, usize), b: (i128, usize)) -> (i128, usize) {
    let is_second = b.0 < a.0;
    (select_unpredictable(is_second, b.0, a.0), select_unpredictable(is_second, b.1, a.1))
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

    /// What one heap is to hold.
    #[derive(Default)]
    struct Model(Vec<Entry>);

    impl Model {
        fn least(&self) -> Option<Entry> {
            self.0.iter().copied().reduce(|a, b| if b.is_before(&a) { b } else { a })
        }
    }

    fn is_as<const PART: Part>(heaps: &Heaps, entities: &Entities, model: &Model) -> bool {
        heaps.is_sound::<PART>(entities)
            && heaps.len::<PART>() == model.0.len()
            && heaps.first::<PART>().copied() == model.least()
    }

    fn push<const PART: Part>(
        heaps: &mut Heaps,
        entities: &mut Entities,
        model: &mut Model,
        entry: Entry,
    ) {
        heaps.push::<PART>(entities, entry);
        model.0.push(entry);
    }

    /// Takes out who came at `turn`, or the first.
    fn take<const PART: Part>(
        heaps: &mut Heaps,
        entities: &mut Entities,
        model: &mut Model,
        turn: usize,
    ) -> bool {
        if model.0.is_empty() {
            return heaps.pop::<PART>(entities).is_none();
        }
        if turn == 0 {
            let least = model.least();
            model.0.retain(|entry| Some(*entry) != least);
            return heaps.pop::<PART>(entities) == least;
        }
        let gone = model.0.swap_remove(turn % model.0.len());
        let place = entities[gone.id].place;
        heaps.remove::<PART>(entities, place) == gone
    }

    proptest! {
        /// Whoever comes and leaves, and however often room is made, the first of each heap is the least of those in it.
        #[test]
        fn the_first_is_the_least(
            steps in prop::collection::vec((0..3_usize, 0..40_u64, 0..8_usize), 1..200),
        ) {
            let (mut heaps, mut entities) = (Heaps::new(), Entities::default());
            let mut models = [Model::default(), Model::default(), Model::default()];
            for (order, (part, bytes, turn)) in steps.into_iter().enumerate() {
                let id = EntityId::flow(order as u32);
                entities.ensure(id);
                let members: usize = models.iter().map(|model| model.0.len()).sum();
                if members == heaps.room() {
                    // As little as can be, so that the heaps meet.
                    heaps.make_room(members + 1);
                }
                let entry = Entry { key: Vtime::ZERO.after(bytes, 1), order: order as u32, id };
                let model = &mut models[part];
                match part {
                    WAITING => push::<WAITING>(&mut heaps, &mut entities, model, entry),
                    ELIGIBLE => push::<ELIGIBLE>(&mut heaps, &mut entities, model, entry),
                    _ => push::<IDLE>(&mut heaps, &mut entities, model, entry),
                }
                if turn < 5 {
                    let model = &mut models[(part + turn) % 3];
                    let is_least = match (part + turn) % 3 {
                        WAITING => take::<WAITING>(&mut heaps, &mut entities, model, turn),
                        ELIGIBLE => take::<ELIGIBLE>(&mut heaps, &mut entities, model, turn),
                        _ => take::<IDLE>(&mut heaps, &mut entities, model, turn),
                    };
                    prop_assert!(is_least);
                }
                prop_assert!(is_as::<WAITING>(&heaps, &entities, &models[WAITING]));
                prop_assert!(is_as::<ELIGIBLE>(&heaps, &entities, &models[ELIGIBLE]));
                prop_assert!(is_as::<IDLE>(&heaps, &entities, &models[IDLE]));
            }
        }
    }
}
