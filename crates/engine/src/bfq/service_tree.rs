//! B-WF2Q+ among the children of one cgroup (specification 2.1 to 2.8).

use alloc::format;
use alloc::string::String;

use super::entity::{Entities, Entity, EntityId, State};
use super::heap::{Entry, Heap};
use super::vtime::Vtime;
use crate::check::ensure;

/// The children of one cgroup that are active, in service, or idle and not yet forgotten, and their virtual time.
///
/// Whoever has the smallest finish among those whose start V has reached is next. V never runs back (specification
/// D-8), so a child crosses from `waiting` to `eligible` once a placing: two heaps do what an augmented tree does in
/// the kernel, in half the time. Every step is O(log children).
pub(crate) struct ServiceTree {
    vtime: Vtime,
    /// Sum of the weights of all that is counted.
    weights: u64,
    /// How many are counted.
    members: u32,
    /// How many each heap has room for.
    room: u32,
    /// Active ones that V had not reached, by start.
    waiting: Heap,
    /// Active ones that V has reached, by finish.
    eligible: Heap,
    /// Idle ones, by finish.
    idle: Heap,
    in_service: Option<EntityId>,
    /// Placings so far, around a circle: equal tags are served in their order.
    order: u32,
}

/// How long a child that becomes active has been away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Return {
    /// So long that it starts at V.
    Afresh,
    /// So shortly that it goes on where its last slot ended, although V has passed that (specification 2.10).
    InTime,
}

impl ServiceTree {
    pub(crate) const fn new() -> ServiceTree {
        ServiceTree {
            vtime: Vtime::ZERO,
            weights: 0,
            members: 0,
            room: 0,
            waiting: Heap::new(),
            eligible: Heap::new(),
            idle: Heap::new(),
            in_service: None,
            order: 0,
        }
    }

    /// The child that holds the device, or through which it is held.
    #[inline]
    pub(crate) fn in_service(&self) -> Option<EntityId> {
        self.in_service
    }

    /// Places a child with its first backlog, for `budget` bytes at `weight`.
    #[inline]
    pub(crate) fn activate(
        &mut self,
        entities: &mut Entities,
        id: EntityId,
        weight: u32,
        budget: u64,
        how: Return,
    ) {
        let entity = &mut entities[id];
        let (old, state, place) = (entity.finish, entity.state, entity.place);
        let goes_back = how == Return::InTime && self.vtime.is_after(old);
        let floor = if goes_back { old } else { self.vtime };
        match state {
            State::Idle => {
                entity.start = floor.latest(old);
                self.idle.remove(entities, place);
            }
            State::Off => {
                entity.start = floor;
                entity.weight = weight;
                self.weights += u64::from(weight);
                self.members += 1;
                if self.members > self.room {
                    self.make_room();
                }
            }
            state => unreachable!("activated while {state:?}"),
        }
        let entity = &mut entities[id];
        self.place(entity, weight, budget);
        if goes_back && self.vtime.is_after(entity.finish) {
            // It missed more than a budget: that much it may catch up at most.
            entity.start = entity.start.shifted(entity.finish, self.vtime);
            entity.finish = self.vtime;
        }
        self.insert(entities, id);
    }

    /// Places an active child anew, for another budget.
    pub(crate) fn reposition(
        &mut self,
        entities: &mut Entities,
        id: EntityId,
        weight: u32,
        budget: u64,
    ) {
        self.take(entities, id);
        self.place(&mut entities[id], weight, budget);
        self.insert(entities, id);
    }

    /// Takes out a child that has lost its backlog, or is to go elsewhere, while it was not in service.
    pub(crate) fn deactivate(&mut self, entities: &mut Entities, id: EntityId) {
        self.take(entities, id);
        // What was injected from it is all that it was served.
        let entity = &mut entities[id];
        entity.finish = entity.start.after(entity.service, u64::from(entity.weight));
        entity.service = 0;
        self.rest(entities, id);
    }

    /// Ends the slot of the child in service. With a backlog it is placed by its weight for so many bytes, without it
    /// rests.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        entities: &mut Entities,
        id: EntityId,
        placing: Option<(u32, u64)>,
    ) {
        assert_eq!(self.in_service.take(), Some(id));
        let entity = &mut entities[id];
        entity.finish = entity.start.after(entity.service, u64::from(entity.weight));
        entity.service = 0;
        match placing {
            Some((weight, budget)) => {
                entity.start = entity.finish;
                self.place(entity, weight, budget);
                self.insert(entities, id);
            }
            None => self.rest(entities, id),
        }
    }

    /// The active child that is next. V jumps to the least start, if it has reached none: somebody is to be served.
    #[inline]
    pub(crate) fn next(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.promote(entities);
        if self.eligible.is_empty() {
            self.vtime = self.waiting.first()?.key;
            self.promote(entities);
        }
        self.eligible.first().map(|entry| entry.id)
    }

    /// The active child that V has reached and that has the least finish of those; V stays where it is.
    #[inline]
    pub(crate) fn eligible(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.promote(entities);
        self.eligible.first().map(|entry| entry.id)
    }

    /// Who would be next, without V going anywhere: it does not while somebody is in service.
    #[inline]
    pub(crate) fn peek(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.promote(entities);
        let first = self.eligible.first().or_else(|| self.waiting.first());
        first.map(|entry| entry.id)
    }

    /// Hands the device to the child that is next.
    #[inline]
    pub(crate) fn select(&mut self, entities: &mut Entities) -> Option<EntityId> {
        debug_assert_eq!(self.in_service, None);
        self.next(entities)?;
        let id = self.eligible.pop(entities)?.id;
        entities[id].state = State::InService;
        self.in_service = Some(id);
        Some(id)
    }

    /// Charges a child that is in service or active: what is injected from one that waits is settled with its next
    /// slot (specification 2.8).
    #[inline]
    pub(crate) fn charge(&mut self, entities: &mut Entities, id: EntityId, bytes: u64) {
        entities[id].service += bytes;
        self.vtime = self.vtime.after(bytes, self.weights);
        // One only, so that a charge stays O(log children).
        if self.idle.first().is_some_and(|first| !first.key.is_after(self.vtime))
            && let Some(first) = self.idle.pop(entities)
        {
            self.leave(&mut entities[first.id]);
        }
    }

    /// How many children are active.
    pub(crate) fn active(&self) -> usize {
        self.waiting.entries().len() + self.eligible.entries().len()
    }

    /// Whether nobody is active or in service.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.in_service.is_none() && self.active() == 0
    }

    /// Forgets a child that is idle.
    pub(crate) fn forget(&mut self, entities: &mut Entities, id: EntityId) {
        self.idle.remove(entities, entities[id].place);
        self.leave(&mut entities[id]);
    }

    /// Allocates here, where somebody joins, and nowhere on a request's way afterwards: by a quarter more each time, which
    /// is often enough to cost a member little, and little enough where most cgroups have few.
    #[cold]
    fn make_room(&mut self) {
        self.room = self.members + self.members / 4;
        for heap in [&mut self.waiting, &mut self.eligible, &mut self.idle] {
            heap.make_room(self.room);
        }
    }

    /// Gives a child tags from its start, and the weight it has from now on.
    #[inline]
    fn place(&mut self, entity: &mut Entity, weight: u32, budget: u64) {
        self.weights = self.weights - u64::from(entity.weight) + u64::from(weight);
        entity.weight = weight;
        entity.budget = budget;
        entity.finish = entity.start.after(budget, u64::from(weight));
    }

    #[inline]
    fn insert(&mut self, entities: &mut Entities, id: EntityId) {
        self.order = self.order.wrapping_add(1);
        let (entity, order) = (&mut entities[id], self.order);
        let (heap, state, key) = match entity.start.is_after(self.vtime) {
            true => (&mut self.waiting, State::Waiting, entity.start),
            false => (&mut self.eligible, State::Eligible, entity.finish),
        };
        entity.state = state;
        heap.push(entities, Entry { key, order, id });
    }

    /// Takes an active child out of its heap.
    fn take(&mut self, entities: &mut Entities, id: EntityId) {
        let Entity { place, state, .. } = entities[id];
        match state {
            State::Waiting => self.waiting.remove(entities, place),
            State::Eligible => self.eligible.remove(entities, place),
            state => unreachable!("taken while {state:?}"),
        };
    }

    /// A child without backlog counts until V has passed its finish.
    #[inline]
    fn rest(&mut self, entities: &mut Entities, id: EntityId) {
        let entity = &mut entities[id];
        let key = entity.finish;
        if !key.is_after(self.vtime) {
            self.leave(entity);
            return;
        }
        entity.state = State::Idle;
        self.order = self.order.wrapping_add(1);
        self.idle.push(entities, Entry { key, order: self.order, id });
    }

    fn leave(&mut self, entity: &mut Entity) {
        self.weights -= u64::from(entity.weight);
        self.members -= 1;
        entity.state = State::Off;
    }

    /// Moves whoever V has reached.
    #[inline]
    fn promote(&mut self, entities: &mut Entities) {
        if self.waiting.first().is_some_and(|first| !first.key.is_after(self.vtime)) {
            self.promote_reached(entities);
        }
    }

    fn promote_reached(&mut self, entities: &mut Entities) {
        while self.waiting.first().is_some_and(|first| !first.key.is_after(self.vtime))
            && let Some(Entry { order, id, .. }) = self.waiting.pop(entities)
        {
            let entity = &mut entities[id];
            entity.state = State::Eligible;
            let entry = Entry { key: entity.finish, order, id };
            self.eligible.push(entities, entry);
        }
    }
}

/// For tests, the lab and fuzzers.
impl ServiceTree {
    /// Whether heaps, tags and the sum of weights fit together. O(children).
    ///
    /// # Errors
    /// A text that says what does not.
    pub(crate) fn check(&self, entities: &Entities) -> Result<(), String> {
        let heaps = [&self.waiting, &self.eligible, &self.idle];
        let states = [State::Waiting, State::Eligible, State::Idle];
        let mut weights = 0;
        for (heap, state) in heaps.into_iter().zip(states) {
            ensure(heap.is_sound(entities), || format!("the {state:?} are not in order"))?;
            for entry in heap.entries() {
                let entity = &entities[entry.id];
                ensure(entity.state == state, || format!("{entity:?} is among the {state:?}"))?;
                ensure(!entity.start.is_after(entity.finish), || format!("{entity:?} runs back"))?;
                let key = if state == State::Waiting { entity.start } else { entity.finish };
                ensure(key == entry.key, || format!("{entity:?} is at {:?}", entry.key))?;
                ensure(state != State::Eligible || !entity.start.is_after(self.vtime), || {
                    format!("{entity:?} is eligible at {:?}", self.vtime)
                })?;
                weights += u64::from(entity.weight);
            }
        }
        let members = self.active() + self.resting() + usize::from(self.in_service.is_some());
        ensure(members == self.members as usize, || format!("{members}, not {}", self.members))?;
        weights += self.in_service.map_or(0, |id| u64::from(entities[id].weight));
        ensure(weights == self.weights, || format!("weights add up to {weights}: {}", self.weights))
    }

    /// How many children are idle.
    pub(crate) fn resting(&self) -> usize {
        self.idle.entries().len()
    }
}

#[cfg(test)]
#[path = "service_tree_tests.rs"]
mod tests;
