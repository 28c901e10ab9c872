//! B-WF2Q+ among the children of one cgroup (spec/bfq 2.1 to 2.8).

use alloc::format;
use alloc::string::String;

use super::entity::{Entities, Entity, EntityId, State};
use super::heap::{ELIGIBLE, Entry, Heaps, WAITING};
use super::vtime::Vtime;
use crate::check::ensure;

/// The children of one cgroup that are active, in service, or idle and not yet forgotten, and their virtual time.
///
/// Whoever has the smallest finish among those whose start V has reached is next. V never runs back (spec/bfq D-8), so
/// a child crosses from `waiting` to `eligible` once a placing: two heaps do what an augmented tree does in the kernel,
/// in half the time. Every step is O(log children).
pub(crate) struct ServiceTree {
    vtime: Vtime,
    /// Sum of the weights of all that is counted.
    weights: u64,
    /// The children.
    heaps: Heaps,
}

/// How long a child that becomes active has been away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Return {
    /// So long that it starts at V.
    Afresh,
    /// So shortly that it goes on where its last slot ended, although V has passed that (spec/bfq 2.10).
    InTime,
}

impl ServiceTree {
    pub(crate) fn new() -> ServiceTree {
        ServiceTree { vtime: Vtime::ZERO, weights: 0, heaps: Heaps::new() }
    }

    /// The child that holds the device, or through which it is held.
    #[inline]
    pub(crate) fn in_service(&self) -> Option<EntityId> {
        (self.heaps.in_service != EntityId::NONE).then_some(self.heaps.in_service)
    }

    /// Places a child with its first backlog, for `budget` bytes at `weight`.
    // In place on the way of each request, though classes that hardly anybody has call it too.
    #[inline(always)]
    pub(crate) fn activate(
        &mut self,
        entities: &mut Entities,
        id: EntityId,
        weight: u32,
        budget: u64,
        how: Return,
    ) {
        let state = entities[id].state;
        match state {
            State::Idle => self.heaps.remove_idle(entities, id),
            State::Off => {
                let others = self.heaps.members();
                if others == self.heaps.room() {
                    self.make_room(others + 1);
                }
            }
            state => unreachable!("activated while {state:?}"),
        }
        let entity = &mut entities[id];
        let old = entity.finish;
        let goes_back = how == Return::InTime && self.vtime.is_after(old);
        let floor = if goes_back { old } else { self.vtime };
        entity.start = if state == State::Idle { floor.latest(old) } else { floor };
        if state == State::Off {
            self.weights += u64::from(weight);
            entity.weight = weight;
        }
        self.place(entity, weight, budget);
        if goes_back && self.vtime.is_after(entity.finish) {
            // It missed more than a budget: that much it may catch up at most.
            entity.start = entity.start.shifted(entity.finish, self.vtime);
            entity.finish = self.vtime;
        }
        let entry = self.enter(entity, id);
        self.sift_up(entities, entry);
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
        let entity = &mut entities[id];
        self.place(entity, weight, budget);
        let entry = self.enter(entity, id);
        self.sift_up(entities, entry);
    }

    /// The weight of a child that is not in service is another from now on. As many bytes as it was ahead of its share, or
    /// behind, it still is: a distance in virtual time that was long at a small weight is short at a large one.
    pub(crate) fn reweigh(&mut self, entities: &mut Entities, id: EntityId, weight: u32) {
        let (state, old) = (entities[id].state, entities[id].weight);
        match state {
            State::Off => return,
            State::Idle => self.heaps.remove_idle(entities, id),
            State::Waiting | State::Eligible => self.take(entities, id),
            State::InService => unreachable!("its slot is to end first"),
        }
        let vtime = self.vtime;
        let entity = &mut entities[id];
        entity.start = entity.start.scaled_about(vtime, old, weight);
        if state == State::Idle {
            entity.finish = entity.finish.scaled_about(vtime, old, weight);
            self.weights = self.weights - u64::from(old) + u64::from(weight);
            entity.weight = weight;
            self.make_idle(entities, id);
            return;
        }
        self.place(entity, weight, entity.budget);
        let entry = self.enter(entity, id);
        self.sift_up(entities, entry);
    }

    /// Takes out a child that has lost its backlog, or is to go elsewhere, while it was not in service.
    pub(crate) fn deactivate(&mut self, entities: &mut Entities, id: EntityId) {
        self.take(entities, id);
        // What was injected from it is all that it was served.
        let entity = &mut entities[id];
        entity.finish = entity.start.after(entity.service, u64::from(entity.weight));
        entity.service = 0;
        self.make_idle(entities, id);
    }

    /// Ends the slot of the child in service. With a backlog it is placed by its weight for so many bytes, without it
    /// rests.
    // In place, as `activate` is.
    #[inline(always)]
    pub(crate) fn expire(
        &mut self,
        entities: &mut Entities,
        id: EntityId,
        placing: Option<(u32, u64)>,
    ) {
        assert_eq!(core::mem::replace(&mut self.heaps.in_service, EntityId::NONE), id);
        let entity = &mut entities[id];
        entity.finish = entity.start.after(entity.service, u64::from(entity.weight));
        entity.service = 0;
        match placing {
            Some((weight, budget)) => {
                entity.start = entity.finish;
                self.place(entity, weight, budget);
                let entry = self.enter(entity, id);
                self.sift_up(entities, entry);
            }
            None => self.make_idle(entities, id),
        }
    }

    /// The active child that is next. V jumps to the least start, if it has reached none: somebody is to be served.
    #[inline]
    pub(crate) fn next(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.promote(entities);
        if self.heaps.is_empty::<ELIGIBLE>() {
            self.vtime = self.heaps.first::<WAITING>()?.key;
            self.promote(entities);
        }
        self.heaps.first::<ELIGIBLE>().map(Entry::id)
    }

    /// The active child that V has reached and that has the least finish of those; V stays where it is.
    #[inline]
    pub(crate) fn eligible(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.promote(entities);
        self.heaps.first::<ELIGIBLE>().map(Entry::id)
    }

    /// Who would be next, without V going anywhere: it does not while somebody is in service.
    #[inline]
    pub(crate) fn peek(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.promote(entities);
        let first = self.heaps.first::<ELIGIBLE>().or_else(|| self.heaps.first::<WAITING>());
        first.map(Entry::id)
    }

    /// Hands the device to the child that is next.
    // In place, as `activate` is.
    #[inline(always)]
    pub(crate) fn select(&mut self, entities: &mut Entities) -> Option<EntityId> {
        debug_assert_eq!(self.in_service(), None);
        self.next(entities)?;
        let id = self.heaps.pop::<ELIGIBLE>(entities)?.id();
        entities[id].state = State::InService;
        self.heaps.in_service = id;
        Some(id)
    }

    /// A child that is in service or active was charged: what is injected from one that waits is settled with its next
    /// slot (spec/bfq 2.8).
    #[inline]
    pub(crate) fn charge(&mut self, entities: &mut Entities, bytes: u64) {
        self.vtime = self.vtime.after(bytes, self.weights);
        if self.heaps.has_passed(self.vtime) {
            self.forget_first(entities);
        }
    }

    /// V has passed the first of those that are idle. One only, so that a charge stays O(log children).
    #[inline(never)]
    fn forget_first(&mut self, entities: &mut Entities) {
        if let Some(first) = self.heaps.pop_idle(entities) {
            self.leave(&mut entities[first]);
        }
    }

    /// How many children are active.
    pub(crate) fn active(&self) -> usize {
        self.heaps.len::<WAITING>() + self.heaps.len::<ELIGIBLE>()
    }

    /// Whether nobody is active or in service.
    pub(crate) fn is_inactive(&self) -> bool {
        self.in_service().is_none() && self.active() == 0
    }

    /// Forgets a child that is idle.
    pub(crate) fn forget(&mut self, entities: &mut Entities, id: EntityId) {
        self.heaps.remove_idle(entities, id);
        self.leave(&mut entities[id]);
    }

    /// Allocates here, where somebody joins, and nowhere on a request's way afterwards: by a quarter more each time, which
    /// is often enough to cost a member little, and little enough where most cgroups have few.
    #[cold]
    fn make_room(&mut self, members: usize) {
        self.heaps.make_room(members + members / 4);
    }

    /// Gives a child tags from its start, and the weight it has from now on.
    #[inline]
    fn place(&mut self, entity: &mut Entity, weight: u32, budget: u64) {
        self.weights = self.weights - u64::from(entity.weight) + u64::from(weight);
        entity.weight = weight;
        entity.budget = budget;
        entity.finish = entity.start.after(budget, u64::from(weight));
    }

    /// Puts a child that has tags at the end of its heap, from where it is to be raised.
    #[inline]
    fn enter(&mut self, entity: &mut Entity, id: EntityId) -> (State, Entry) {
        let order = self.heaps.order();
        if entity.start.is_after(self.vtime) {
            let entry = Entry::new(entity.start, order, id);
            (entity.state, entity.place) = (State::Waiting, self.heaps.append::<WAITING>(entry));
            (State::Waiting, entry)
        } else {
            let entry = Entry::new(entity.finish, order, id);
            (entity.state, entity.place) = (State::Eligible, self.heaps.append::<ELIGIBLE>(entry));
            (State::Eligible, entry)
        }
    }

    /// Takes it from there to where it belongs.
    #[inline]
    fn sift_up(&mut self, entities: &mut Entities, (state, entry): (State, Entry)) {
        match state {
            State::Waiting => self.heaps.sift_up_last::<WAITING>(entities, entry),
            _ => self.heaps.sift_up_last::<ELIGIBLE>(entities, entry),
        }
    }

    /// Takes an active child out of its heap.
    fn take(&mut self, entities: &mut Entities, id: EntityId) {
        let Entity { place, state, .. } = entities[id];
        match state {
            State::Waiting => self.heaps.remove::<WAITING>(entities, place),
            State::Eligible => self.heaps.remove::<ELIGIBLE>(entities, place),
            state => unreachable!("taken while {state:?}"),
        };
    }

    /// A child without backlog counts until V has passed its finish.
    // In place, as `activate` is.
    #[inline(always)]
    fn make_idle(&mut self, entities: &mut Entities, id: EntityId) {
        let entity = &mut entities[id];
        let key = entity.finish;
        if key.is_after(self.vtime) {
            entity.state = State::Idle;
            self.heaps.insert_idle(entities, key, id);
        } else {
            self.leave(entity);
        }
    }

    #[inline]
    fn leave(&mut self, entity: &mut Entity) {
        self.weights -= u64::from(entity.weight);
        entity.state = State::Off;
    }

    /// Moves whoever V has reached.
    #[inline]
    fn promote(&mut self, entities: &mut Entities) {
        if self.heaps.first::<WAITING>().is_some_and(|first| !first.key.is_after(self.vtime)) {
            self.promote_reached(entities);
        }
    }

    #[inline(never)]
    fn promote_reached(&mut self, entities: &mut Entities) {
        while self.heaps.first::<WAITING>().is_some_and(|first| !first.key.is_after(self.vtime))
            && let Some(entry) = self.heaps.pop::<WAITING>(entities)
        {
            let entity = &mut entities[entry.id()];
            entity.state = State::Eligible;
            let key = entity.finish;
            self.heaps.push::<ELIGIBLE>(entities, entry.with_key(key));
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
        let heaps = &self.heaps;
        let mut weights = 0;
        let is_sound = [
            (State::Waiting, heaps.is_sound::<WAITING>(entities)),
            (State::Eligible, heaps.is_sound::<ELIGIBLE>(entities)),
            (State::Idle, heaps.is_idle_sound(entities)),
        ];
        for (state, is_sound) in is_sound {
            ensure(is_sound, || format!("the {state:?} are not in order"))?;
        }
        let waiting = heaps.entries::<WAITING>().map(|entry| (State::Waiting, entry));
        let eligible = heaps.entries::<ELIGIBLE>().map(|entry| (State::Eligible, entry));
        for id in heaps.idle(entities) {
            let entity = &entities[id];
            ensure(entity.state == State::Idle, || format!("{entity:?} is among the idle"))?;
            ensure(!entity.start.is_after(entity.finish), || format!("{entity:?} runs back"))?;
            weights += u64::from(entity.weight);
        }
        for (state, entry) in waiting.chain(eligible) {
            let entity = &entities[entry.id()];
            ensure(entity.state == state, || format!("{entity:?} is among the {state:?}"))?;
            ensure(!entity.start.is_after(entity.finish), || format!("{entity:?} runs back"))?;
            let key = if state == State::Waiting { entity.start } else { entity.finish };
            ensure(key == entry.key, || format!("{entity:?} is at {:?}", entry.key))?;
            ensure(state != State::Eligible || !entity.start.is_after(self.vtime), || {
                format!("{entity:?} is eligible at {:?}", self.vtime)
            })?;
            weights += u64::from(entity.weight);
        }
        let members = heaps.members();
        ensure(members <= heaps.room(), || format!("{members} in room for {}", heaps.room()))?;
        weights += self.in_service().map_or(0, |id| u64::from(entities[id].weight));
        ensure(weights == self.weights, || format!("weights add up to {weights}: {}", self.weights))
    }

    /// How many children are idle.
    pub(crate) fn idle_len(&self) -> usize {
        self.heaps.idle_len()
    }
}

#[cfg(test)]
#[path = "service_tree_tests.rs"]
mod tests;
