//! Heaps of a service tree: waiting, eligible and idle entities in one block of memory, and the idle list. Members
//! know their places, so any can leave.

mod idle_tree;

use alloc::boxed::Box;
use core::hint::select_unpredictable;

use super::entity::Vtime;
use super::entity::{Entities, EntityId};

/// Children of an inner node. Four fill a cache line, and the heap is half as high as with two.
const FAN_OUT: usize = 4;

/// Number of a heap: a constant argument, so that each heap has its own code.
pub(crate) type Part = usize;
/// Active entities that V had not reached, by start.
pub(crate) const WAITING: Part = 0;
/// Active entities that V has reached, by finish.
pub(crate) const ELIGIBLE: Part = 1;
/// Idle entities outside the idle list, by finish.
pub(crate) const IDLE: Part = 2;

/// Entities by virtual time, and by order of insertion where that is equal. O(log n) in and out, no allocation once grown.
///
/// ```text
///  0                            room                                2 × room
///  ├─ waiting ─►        ◄─ eligible ┼─ ends of the idle list       ◄─ idle ┤
/// ```
///
/// A waiting entity is not eligible, so both heaps share the room of one. What each request looks at lies side by side.
pub(crate) struct Heaps {
    entries: Box<[Entry]>,
    len: [u32; 3],
    /// Length of the idle list.
    listed: u32,
    /// Member in none of these; [`EntityId::NONE`] for none.
    pub(super) in_service: EntityId,
    /// Number of insertions, wrapping.
    order: u32,
}

/// Member and key together, so that comparing does not load entities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Vtime,
    /// Order of insertion in the upper half, id in the lower, loaded and compared as one.
    stamp: u64,
}

/// Key and stamp as one number, the stamp relative to the oldest possible. One subtraction compares two, without a
/// branch that could not be predicted.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SortKey(u128);

impl Entry {
    /// Unused room.
    const NONE: Entry = Entry { key: Vtime::ZERO, stamp: u64::MAX };

    /// `order` comes from [`Heaps::order`]: equal keys are served in its order.
    #[inline]
    pub(crate) fn new(key: Vtime, order: u32, id: EntityId) -> Entry {
        Entry { key, stamp: u64::from(order) << 32 | u64::from(id.bits()) }
    }

    #[inline]
    pub(crate) fn id(&self) -> EntityId {
        EntityId::from_bits(self.stamp as u32)
    }

    /// Order of insertion.
    #[cfg(test)]
    pub(crate) fn order(&self) -> u32 {
        (self.stamp >> 32) as u32
    }

    /// The same member with another key.
    #[inline]
    pub(crate) fn with_key(self, key: Vtime) -> Entry {
        Entry { key, ..self }
    }

    #[inline]
    fn sort_key(&self, oldest: u64) -> SortKey {
        SortKey(u128::from(self.key.bits()) << 64 | u128::from(self.stamp.wrapping_sub(oldest)))
    }

    /// The opposite of [`Entry::sort_key`].
    #[inline]
    fn of(sort_key: SortKey, oldest: u64) -> Entry {
        let key = Vtime::from_bits((sort_key.0 >> 64) as u64);
        Entry { key, stamp: (sort_key.0 as u64).wrapping_add(oldest) }
    }
}

impl SortKey {
    /// Keys wrap: the upper half of the circle is the past.
    #[inline]
    fn is_before(self, other: SortKey) -> bool {
        (self.0.wrapping_sub(other.0) as i128) < 0
    }
}

impl Heaps {
    pub(crate) fn new() -> Heaps {
        Heaps {
            entries: Box::new([]),
            len: [0; 3],
            listed: 0,
            in_service: EntityId::NONE,
            order: 0,
        }
    }

    /// Number of members, the one in service included.
    #[inline]
    pub(crate) fn members(&self) -> usize {
        let in_service = u32::from(self.in_service != EntityId::NONE);
        (self.len.iter().sum::<u32>() + self.listed + in_service) as usize
    }

    /// Number of members that fit, in any of the heaps.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.entries.len() / 2
    }

    /// Allocates room for `members`. O(members).
    pub(crate) fn make_room(&mut self, members: usize) {
        let entries = alloc::vec![Entry::NONE; 2 * members].into();
        let old = core::mem::replace(self, Heaps { entries, ..*self });
        self.take_over::<WAITING>(&old);
        self.take_over::<ELIGIBLE>(&old);
        self.take_over::<IDLE>(&old);
        self.take_over_list(&old);
    }

    fn take_over<const PART: Part>(&mut self, old: &Heaps) {
        for (place, entry) in old.entries::<PART>().enumerate() {
            let slot = self.slot::<PART>(place);
            self.entries[slot] = *entry;
        }
    }

    /// Order of the next insertion, after all before it.
    #[inline]
    pub(crate) fn order(&mut self) -> u32 {
        self.order = self.order.wrapping_add(1);
        self.order
    }

    /// The oldest possible stamp: orders wrap, and the next one would go to the oldest.
    #[inline]
    fn oldest(&self) -> u64 {
        u64::from(self.order.wrapping_add(1)) << 32
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

    /// Members of a heap, by place.
    pub(crate) fn entries<const PART: Part>(&self) -> impl Iterator<Item = &Entry> + Clone {
        (0..self.len::<PART>()).map(|place| &self.entries[self.slot::<PART>(place)])
    }

    #[inline]
    pub(crate) fn push<const PART: Part>(&mut self, entities: &mut Entities, entry: Entry) {
        entities[entry.id()].place = self.append::<PART>(entry);
        self.sift_up_last::<PART>(entities, entry);
    }

    /// Appends `entry` and returns its place. To be stored in the entity and followed by [`Heaps::sift_up_last`];
    /// both together are [`Heaps::push`].
    #[inline]
    pub(crate) fn append<const PART: Part>(&mut self, entry: Entry) -> u32 {
        let place = self.len[PART];
        self.len[PART] += 1;
        let slot = self.slot::<PART>(place as usize);
        self.entries[slot] = entry;
        place
    }

    /// Sifts up `entry`, which was just appended.
    #[inline]
    pub(crate) fn sift_up_last<const PART: Part>(&mut self, entities: &mut Entities, entry: Entry) {
        let (place, oldest) = (self.len::<PART>() - 1, self.oldest());
        if let Some(parent) = parent(place)
            && entry.sort_key(oldest).is_before(self.at::<PART>(parent).sort_key(oldest))
        {
            self.sift_up::<PART>(entities, place, entry);
        }
    }

    /// Takes out the first member.
    #[inline]
    pub(crate) fn pop<const PART: Part>(&mut self, entities: &mut Entities) -> Option<Entry> {
        let first = *self.first::<PART>()?;
        let last = self.pop_last::<PART>();
        if !self.is_empty::<PART>() {
            self.sift_down::<PART>(entities, 0, last);
        }
        Some(first)
    }

    /// Takes out the member at `place`.
    pub(crate) fn remove<const PART: Part>(
        &mut self,
        entities: &mut Entities,
        place: u32,
    ) -> Entry {
        let (last, place) = (self.pop_last::<PART>(), place as usize);
        if place == self.len::<PART>() {
            return last;
        }
        // The last member fills the gap, and belongs above or below it.
        let (gone, oldest) = (self.at::<PART>(place), self.oldest());
        let is_behind = |above: Entry| last.sort_key(oldest).is_before(above.sort_key(oldest));
        match parent(place) {
            Some(parent) if is_behind(self.at::<PART>(parent)) => {
                self.sift_up::<PART>(entities, place, last);
            }
            _ => self.sift_down::<PART>(entities, place, last),
        }
        gone
    }

    /// Whether every member is behind its parent and knows its place.
    pub(crate) fn is_sound<const PART: Part>(&self, entities: &Entities) -> bool {
        let oldest = self.oldest();
        self.entries::<PART>().enumerate().all(|(place, entry)| {
            let above = parent(place).map(|parent| self.at::<PART>(parent).sort_key(oldest));
            entities[entry.id()].place as usize == place
                && above.is_none_or(|above| !entry.sort_key(oldest).is_before(above))
        })
    }

    /// Takes out the member at the last place.
    #[inline]
    fn pop_last<const PART: Part>(&mut self) -> Entry {
        self.len[PART] -= 1;
        self.at::<PART>(self.len::<PART>())
    }

    /// Sifts `entry` up from `place`, which is free.
    #[inline(never)]
    fn sift_up<const PART: Part>(
        &mut self,
        entities: &mut Entities,
        mut place: usize,
        entry: Entry,
    ) {
        let oldest = self.oldest();
        let sort_key = entry.sort_key(oldest);
        while let Some(parent) = parent(place) {
            let above = self.at::<PART>(parent);
            if !sort_key.is_before(above.sort_key(oldest)) {
                break;
            }
            self.put::<PART>(entities, place, above);
            place = parent;
        }
        self.put::<PART>(entities, place, entry);
    }

    /// Sifts `entry` down from `place`, which is free.
    fn sift_down<const PART: Part>(
        &mut self,
        entities: &mut Entities,
        mut place: usize,
        entry: Entry,
    ) {
        let oldest = self.oldest();
        let sort_key = entry.sort_key(oldest);
        loop {
            let first = place * FAN_OUT + 1;
            if first >= self.len::<PART>() {
                break;
            }
            let (least, child) = self.least_child::<PART>(first, oldest);
            if !least.is_before(sort_key) {
                break;
            }
            self.put::<PART>(entities, place, Entry::of(least, oldest));
            place = child;
        }
        self.put::<PART>(entities, place, entry);
    }

    /// First of the children from place `first` on, and its place.
    #[inline]
    fn least_child<const PART: Part>(&self, first: usize, oldest: u64) -> (SortKey, usize) {
        let last = (self.len::<PART>() - 1).min(first + FAN_OUT - 1);
        let is_mirrored = PART != WAITING;
        let slots = if is_mirrored {
            self.slot::<PART>(last)..=self.slot::<PART>(first)
        } else {
            self.slot::<PART>(first)..=self.slot::<PART>(last)
        };
        let (sort_key, least) = match &self.entries[slots] {
            [a, b, c, d] => {
                let [a, b, c, d] = [a, b, c, d].map(|child| child.sort_key(oldest));
                earlier(earlier((a, 0), (b, 1)), earlier((c, 2), (d, 3)))
            }
            few => {
                let mut ranks = few.iter().map(|child| child.sort_key(oldest)).zip(0..);
                let first = ranks.next().unwrap_or((SortKey(0), 0));
                ranks.fold(first, earlier)
            }
        };
        (sort_key, if is_mirrored { last - least } else { first + least })
    }

    #[inline]
    fn put<const PART: Part>(&mut self, entities: &mut Entities, place: usize, entry: Entry) {
        let slot = self.slot::<PART>(place);
        self.entries[slot] = entry;
        // Ids have 32 bits, so places do.
        entities[entry.id()].place = place as u32;
    }

    #[inline]
    fn at<const PART: Part>(&self, place: usize) -> Entry {
        self.entries[self.slot::<PART>(place)]
    }

    /// Slot of a place.
    #[inline]
    fn slot<const PART: Part>(&self, place: usize) -> usize {
        match PART {
            WAITING => place,
            ELIGIBLE => self.room() - 1 - place,
            _ => self.entries.len() - 1 - place,
        }
    }
}

/// The earlier pair.
#[inline]
fn earlier(a: (SortKey, usize), b: (SortKey, usize)) -> (SortKey, usize) {
    let is_second = b.0.is_before(a.0);
    let sort_key = select_unpredictable(is_second, b.0.0, a.0.0);
    (SortKey(sort_key), select_unpredictable(is_second, b.1, a.1))
}

/// Parent of `place`; none for the first.
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

    /// Reference model of one heap.
    #[derive(Default)]
    struct Model(Vec<Entry>);

    impl Model {
        fn least(&self) -> Option<Entry> {
            // No key wraps here.
            self.0.iter().copied().min_by_key(|entry| (entry.key.bits(), entry.stamp))
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

    /// Takes out the member that came at `turn`, or the first.
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
        let place = entities[gone.id()].place;
        heaps.remove::<PART>(entities, place) == gone
    }

    /// Keys and orders wrap.
    #[test]
    fn order_holds_when_keys_and_orders_wrap() {
        let (mut heaps, mut entities) = (Heaps::new(), Entities::default());
        heaps.make_room(8);
        heaps.order = u32::MAX - 4;
        let late = Vtime::from_bits(u64::MAX - 1);
        let entries = (0..8).map(|number| {
            let id = EntityId::flow(number);
            entities.ensure(id);
            // Two of each key, in order of insertion.
            Entry::new(late.after(u64::from(number / 2), 1 << 29), heaps.order(), id)
        });
        let entries: Vec<Entry> = entries.collect();
        for number in [7, 2, 5, 0, 4, 6, 1, 3] {
            heaps.push::<ELIGIBLE>(&mut entities, entries[number]);
        }
        let out: Vec<Entry> =
            core::iter::from_fn(|| heaps.pop::<ELIGIBLE>(&mut entities)).collect();
        assert_eq!(out, entries);
    }

    proptest! {
        /// After any insertions, removals and growth the first of each heap is its least.
        #[test]
        fn the_first_is_the_least(
            steps in prop::collection::vec((0..3_usize, 0..40_u64, 0..8_usize), 1..200),
        ) {
            let (mut heaps, mut entities) = (Heaps::new(), Entities::default());
            let mut models = [Model::default(), Model::default(), Model::default()];
            for (number, (part, bytes, turn)) in (0..).zip(steps) {
                let id = EntityId::flow(number);
                entities.ensure(id);
                let members: usize = models.iter().map(|model| model.0.len()).sum();
                if members == heaps.room() {
                    // As little as possible, so that the heaps meet.
                    heaps.make_room(members + 1);
                }
                let entry = Entry::new(Vtime::ZERO.after(bytes, 1), heaps.order(), id);
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
