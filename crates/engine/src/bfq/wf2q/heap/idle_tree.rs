//! Idle tree: entities without requests, ordered by finish (`bfq_service_tree.idle`).
//!
//! A list through the entities, and a heap for entities far out of order. Entities mostly become idle in the order in
//! which V passes them, so insertion at the end and removal at the front need no search. An entity that would go far
//! forward in the list goes to the heap, so no step is more than O(log n).
//!
//! The list's ends lie in the slot next to the first eligible entity. The heap grows towards it from the far end, and
//! does not need it while the list has a member.

use super::{Entry, Heaps, IDLE};
use crate::bfq::wf2q::entity::Vtime;
use crate::bfq::wf2q::entity::{Entities, EntityId, IdleLinks};

/// Longest search from the end of the list. Each step may load a cache line, and the heap costs less than many of
/// them.
const STEPS_MAX: u32 = 4;

/// Ends of the list.
#[derive(Clone, Copy)]
struct Ends {
    /// Finish of the first.
    key: Vtime,
    first: EntityId,
    last: EntityId,
}

impl Heaps {
    /// Number of idle entities.
    #[inline]
    pub(crate) fn idle_len(&self) -> usize {
        self.listed as usize + self.len::<IDLE>()
    }

    /// Whether V, at `now`, has passed the finish of an idle entity.
    #[inline]
    pub(crate) fn has_passed(&self, now: Vtime) -> bool {
        let is_past = |key: Vtime| !key.is_after(now);
        (self.listed > 0 && is_past(self.ends().key))
            || self.first::<IDLE>().is_some_and(|first| is_past(first.key))
    }

    /// Inserts `id`, whose finish is `key`.
    pub(crate) fn insert_idle(&mut self, entities: &mut Entities, key: Vtime, id: EntityId) {
        let order = self.order();
        if self.listed == 0 {
            self.set_ends(Ends { key, first: id, last: id });
            self.link(entities, id, order, IdleLinks::NONE);
            return;
        }
        let ends = self.ends();
        let last = &mut entities[ends.last];
        if last.finish.is_after(key) {
            self.insert_idle_before(entities, key, id, order);
            return;
        }
        last.idle_links.behind = id;
        self.set_ends(Ends { last: id, ..ends });
        self.link(entities, id, order, IdleLinks { before: ends.last, behind: EntityId::NONE });
    }

    /// Inserts it before the last in the list.
    #[inline(never)]
    fn insert_idle_before(
        &mut self,
        entities: &mut Entities,
        key: Vtime,
        id: EntityId,
        order: u32,
    ) {
        let ends = self.ends();
        let (mut before, mut behind) = (ends.last, EntityId::NONE);
        let mut steps = 0;
        while before != EntityId::NONE && entities[before].finish.is_after(key) {
            if steps == STEPS_MAX {
                entities[id].idle_links = IdleLinks { before: id, behind: id };
                self.push::<IDLE>(entities, Entry::new(key, order, id));
                return;
            }
            steps += 1;
            (before, behind) = (entities[before].idle_links.before, before);
        }
        match before {
            EntityId::NONE => self.set_ends(Ends { key, first: id, ..ends }),
            before => entities[before].idle_links.behind = id,
        }
        entities[behind].idle_links.before = id;
        self.link(entities, id, order, IdleLinks { before, behind });
    }

    /// Takes out the idle entity with the least finish, of equal ones the oldest.
    pub(crate) fn pop_idle(&mut self, entities: &mut Entities) -> Option<EntityId> {
        let heaped = self.first::<IDLE>().copied();
        if self.listed == 0 {
            return self.pop::<IDLE>(entities).map(|entry| entry.id());
        }
        let Ends { key, first, .. } = self.ends();
        if let Some(heaped) = heaped {
            let oldest = self.oldest();
            let listed = Entry::new(key, entities[first].place, first);
            if heaped.sort_key(oldest).is_before(listed.sort_key(oldest)) {
                return self.pop::<IDLE>(entities).map(|entry| entry.id());
            }
        }
        self.unlink(entities, first);
        Some(first)
    }

    /// Takes out `id`, which is idle.
    pub(crate) fn remove_idle(&mut self, entities: &mut Entities, id: EntityId) {
        let entity = &entities[id];
        if entity.idle_links.before == id {
            self.remove::<IDLE>(entities, entity.place);
        } else {
            self.unlink(entities, id);
        }
    }

    /// Idle entities: those in the list, in order, then those in the heap.
    pub(crate) fn idle<'a>(&'a self, entities: &'a Entities) -> impl Iterator<Item = EntityId> {
        let first = (self.listed > 0).then(|| self.ends().first);
        let listed = core::iter::successors(first, |&id| {
            Some(entities[id].idle_links.behind).filter(|&behind| behind != EntityId::NONE)
        });
        // One more than there should be, so that a cycle shows and ends.
        let listed = listed.take(self.listed as usize + 1);
        listed.chain(self.entries::<IDLE>().map(Entry::id))
    }

    /// Whether idle entities are in order and know their places.
    pub(crate) fn is_idle_sound(&self, entities: &Entities) -> bool {
        let oldest = self.oldest();
        let sort_key = |id: EntityId| {
            let entity = &entities[id];
            Entry::new(entity.finish, entity.place, id).sort_key(oldest)
        };
        let (mut before, mut listed) = (EntityId::NONE, 0);
        let in_list = self.idle(entities).take_while(|&id| entities[id].idle_links.before != id);
        for id in in_list {
            let is_behind = before == EntityId::NONE || sort_key(before).is_before(sort_key(id));
            if entities[id].idle_links.before != before || !is_behind {
                return false;
            }
            (before, listed) = (id, listed + 1);
        }
        let is_whole = listed == self.listed && (listed == 0 || self.ends().last == before);
        let is_first = listed == 0 || self.ends().key == entities[self.ends().first].finish;
        let mut heaped = self.entries::<IDLE>();
        let are_told = heaped.all(|heaped| heaped.key == entities[heaped.id()].finish);
        is_whole && is_first && are_told && self.is_sound::<IDLE>(entities)
    }

    /// Links `id` into the list, inserted as `order` says.
    #[inline]
    fn link(&mut self, entities: &mut Entities, id: EntityId, order: u32, idle_links: IdleLinks) {
        self.listed += 1;
        let entity = &mut entities[id];
        (entity.place, entity.idle_links) = (order, idle_links);
    }

    /// Unlinks `id` from the list.
    #[inline]
    fn unlink(&mut self, entities: &mut Entities, id: EntityId) {
        let IdleLinks { before, behind } = entities[id].idle_links;
        self.listed -= 1;
        if self.listed == 0 {
            return;
        }
        let mut ends = self.ends();
        match behind {
            EntityId::NONE => ends.last = before,
            behind => {
                let entity = &mut entities[behind];
                entity.idle_links.before = before;
                if before == EntityId::NONE {
                    (ends.key, ends.first) = (entity.finish, behind);
                }
            }
        }
        if before != EntityId::NONE {
            entities[before].idle_links.behind = behind;
        }
        self.set_ends(ends);
    }

    #[inline]
    fn ends(&self) -> Ends {
        let Entry { key, stamp } = self.entries[self.room()];
        let [first, last] = [stamp as u32, (stamp >> 32) as u32].map(EntityId::from_bits);
        Ends { key, first, last }
    }

    #[inline]
    fn set_ends(&mut self, Ends { key, first, last }: Ends) {
        let stamp = u64::from(last.bits()) << 32 | u64::from(first.bits());
        let room = self.room();
        self.entries[room] = Entry { key, stamp };
    }

    /// Takes over the list's ends from `old`.
    pub(super) fn take_over_list(&mut self, old: &Heaps) {
        if old.listed > 0 {
            self.set_ends(old.ends());
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// In any order of insertion and removal, the first has the least finish, of equal ones it is the oldest.
        #[test]
        fn the_first_is_the_least(
            steps in prop::collection::vec((0..3_u8, 0..12_u64, 0..8_usize), 1..300),
            // Keys grow by so much a step, so that few, some or all are in the list.
            growth in 0..4_u64,
        ) {
            let (mut heaps, mut entities) = (Heaps::new(), Entities::default());
            let mut model: Vec<(u64, u32)> = Vec::new();
            // The circle's end is passed on the way.
            let begin = Vtime::from_bits(u64::MAX - (50 << 29));
            for (number, (what, ahead, turn)) in (0..).zip(steps) {
                let id = EntityId::flow(number);
                entities.ensure(id);
                if heaps.members() == heaps.room() {
                    heaps.make_room(heaps.members() + 1);
                }
                let at = u64::from(number) * growth + ahead;
                let key = begin.after(at, 1);
                entities[id].finish = key;
                heaps.insert_idle(&mut entities, key, id);
                model.push((at, number));
                let least = model.iter().copied().min();
                let first = least.map(|(at, _)| begin.after(at, 1));
                if let Some(first) = first {
                    prop_assert!(heaps.has_passed(first) && !heaps.has_passed(Vtime::from_bits(first.bits() - 1)));
                }
                match what {
                    0 => {
                        model.retain(|&member| Some(member) != least);
                        let id = heaps.pop_idle(&mut entities);
                        prop_assert_eq!(id, least.map(|(_, number)| EntityId::flow(number)));
                    }
                    1 => {
                        let (_, number) = model.remove(turn % model.len());
                        heaps.remove_idle(&mut entities, EntityId::flow(number));
                    }
                    _ => {}
                }
                prop_assert!(heaps.is_idle_sound(&entities));
                let mut idle: Vec<u32> = heaps.idle(&entities).map(EntityId::as_flow).collect();
                idle.sort_unstable();
                let mut expected: Vec<u32> = model.iter().map(|&(_, number)| number).collect();
                expected.sort_unstable();
                prop_assert_eq!(idle, expected);
                prop_assert_eq!(heaps.idle_len(), model.len());
            }
            while !model.is_empty() {
                let least = model.iter().copied().min();
                model.retain(|&member| Some(member) != least);
                let id = heaps.pop_idle(&mut entities);
                prop_assert_eq!(id, least.map(|(_, number)| EntityId::flow(number)));
            }
            prop_assert!(heaps.pop_idle(&mut entities).is_none());
        }
    }
}
