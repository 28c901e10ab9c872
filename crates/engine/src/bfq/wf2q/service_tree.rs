//! Service tree: B-WF2Q+ among the children of one cgroup and class (spec/bfq 2.1 to 2.8).

use alloc::format;
use alloc::string::String;

use super::entity::Vtime;
use super::entity::{Entities, Entity, EntityId, State};
use super::heap::{ELIGIBLE, Entry, Heaps, WAITING};
use crate::ensure::ensure;

/// Active, in-service and idle children of one cgroup, and their virtual time V.
///
/// The eligible child with the smallest finish is next; a child is eligible once V has reached its start. V never
/// runs back (spec/bfq D-8), so each activation crosses from `waiting` to `eligible` at most once. Two heaps do the
/// work of the kernel's augmented tree in half the time. A step is O(log children).
pub(crate) struct ServiceTree {
    vtime: Vtime,
    /// Sum of the weights of active, in-service and idle children.
    weights: u64,
    heaps: Heaps,
}

/// How long an activated child has been empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Return {
    /// It starts at V.
    Afresh,
    /// It resumes where its last slot ended, although V has passed that (spec/bfq 2.10).
    InTime,
}

impl ServiceTree {
    pub(crate) fn new() -> ServiceTree {
        ServiceTree { vtime: Vtime::ZERO, weights: 0, heaps: Heaps::new() }
    }

    /// The child in service, or above the flow in service.
    #[inline]
    pub(crate) fn in_service(&self) -> Option<EntityId> {
        (self.heaps.in_service != EntityId::NONE).then_some(self.heaps.in_service)
    }

    /// Activates a child, for `budget` bytes at `weight`.
    // Inline on the hot path, although rare classes call it too.
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
            // It missed more than a budget, and may catch up one budget at most.
            entity.start = entity.start.shifted(entity.finish, self.vtime);
            entity.finish = self.vtime;
        }
        let entry = self.enter(entity, id);
        self.sift_up(entities, entry);
    }

    /// Re-inserts an active child with another budget.
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

    /// Changes the weight of a child that is not in service. Its lag in bytes stays: a distance in virtual time
    /// shrinks as the weight grows.
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

    /// Deactivates a child that is not in service.
    pub(crate) fn deactivate(&mut self, entities: &mut Entities, id: EntityId) {
        self.take(entities, id);
        // Its service is what was injected from it.
        let entity = &mut entities[id];
        entity.finish = entity.start.after(entity.service, u64::from(entity.weight));
        entity.service = 0;
        self.make_idle(entities, id);
    }

    /// Expires the child in service. `placing` has weight and budget of a backlogged child.
    // Inline, as `activate` is.
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

    /// The next active child. V jumps to the least start if no child is eligible.
    #[inline]
    pub(crate) fn next(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.promote(entities);
        if self.heaps.is_empty::<ELIGIBLE>() {
            self.vtime = self.heaps.first::<WAITING>()?.key;
            self.promote(entities);
        }
        self.heaps.first::<ELIGIBLE>().map(Entry::id)
    }

    /// The eligible child with the least finish, without advancing V.
    #[inline]
    pub(crate) fn eligible(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.promote(entities);
        self.heaps.first::<ELIGIBLE>().map(Entry::id)
    }

    /// The next active child, without advancing V.
    #[inline]
    pub(crate) fn peek(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.promote(entities);
        let first = self.heaps.first::<ELIGIBLE>().or_else(|| self.heaps.first::<WAITING>());
        first.map(Entry::id)
    }

    /// Selects the next child for service.
    // Inline, as `activate` is.
    #[inline(always)]
    pub(crate) fn select(&mut self, entities: &mut Entities) -> Option<EntityId> {
        debug_assert_eq!(self.in_service(), None);
        self.next(entities)?;
        let id = self.heaps.pop::<ELIGIBLE>(entities)?.id();
        entities[id].state = State::InService;
        self.heaps.in_service = id;
        Some(id)
    }

    /// Charges a child that is in service or active: V advances. Injected service is accounted with the child's next
    /// slot (spec/bfq 2.8).
    #[inline]
    pub(crate) fn charge(&mut self, entities: &mut Entities, bytes: u64) {
        self.vtime = self.vtime.after(bytes, self.weights);
        if self.heaps.has_passed(self.vtime) {
            self.forget_first(entities);
        }
    }

    /// Removes the first idle child, whose finish V has passed. One only, so that a charge stays O(log children).
    #[inline(never)]
    fn forget_first(&mut self, entities: &mut Entities) {
        if let Some(first) = self.heaps.pop_idle(entities) {
            self.leave(&mut entities[first]);
        }
    }

    /// Number of active children.
    pub(crate) fn active(&self) -> usize {
        self.heaps.len::<WAITING>() + self.heaps.len::<ELIGIBLE>()
    }

    /// Whether no child is active or in service.
    pub(crate) fn is_inactive(&self) -> bool {
        self.in_service().is_none() && self.active() == 0
    }

    /// Removes an idle child.
    pub(crate) fn forget(&mut self, entities: &mut Entities, id: EntityId) {
        self.heaps.remove_idle(entities, id);
        self.leave(&mut entities[id]);
    }

    /// Allocates when a child joins, and never on a request's path: a quarter more each time.
    #[cold]
    fn make_room(&mut self, members: usize) {
        self.heaps.make_room(members + members / 4);
    }

    /// Computes a child's tags from its start, and applies its weight.
    #[inline]
    fn place(&mut self, entity: &mut Entity, weight: u32, budget: u64) {
        self.weights = self.weights - u64::from(entity.weight) + u64::from(weight);
        entity.weight = weight;
        entity.budget = budget;
        entity.finish = entity.start.after(budget, u64::from(weight));
    }

    /// Appends a child with tags to its heap.
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

    /// Sifts it up from there.
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

    /// Makes a child without backlog idle, or removes it if V has passed its finish.
    // Inline, as `activate` is.
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

    /// Moves children that V has reached to the eligible ones.
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
    /// Checks heaps, tags and the sum of weights. O(children).
    ///
    /// # Errors
    ///
    /// A text that says what does not hold.
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

    /// Number of idle children.
    pub(crate) fn idle_len(&self) -> usize {
        self.heaps.idle_len()
    }
}

#[cfg(test)]
#[path = "service_tree_tests.rs"]
mod tests;
