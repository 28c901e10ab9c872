//! The children of one cgroup by class: a service tree for each, served in their order (spec/bfq 1.6, 2.6).

use alloc::boxed::Box;

use super::entity::{Entities, EntityId, State};
use super::service_tree::{Return, ServiceTree};
use crate::priority::PriorityClass;
use crate::time::Instant;

/// How an entity is placed: everything but its tags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prio {
    pub(crate) class: PriorityClass,
    pub(crate) weight: u32,
}

/// Time after which the idle class gets a turn although others wait (spec/bfq 0.2).
const IDLE_CLASS_TIMEOUT_NS: u64 = 200_000_000;

/// One service tree a class. Nearly everybody is best effort, so the others are in a box that most cgroups never need:
/// it is a line of cache.
#[repr(align(64))]
pub(crate) struct SchedData {
    best_effort: ServiceTree,
    others: Option<Box<Others>>,
}

const _: () = assert!(size_of::<SchedData>() == 64);

struct Others {
    real_time: ServiceTree,
    idle: ServiceTree,
    /// When the idle class was last served, or got its first backlog since.
    idle_since: Instant,
}

impl SchedData {
    pub(crate) fn new() -> SchedData {
        SchedData { best_effort: ServiceTree::new(), others: None }
    }

    /// The child that holds the device, or through which it is held.
    #[inline]
    pub(crate) fn in_service(&self) -> Option<EntityId> {
        let in_service = self.best_effort.in_service();
        let Some(others) = &self.others else { return in_service };
        in_service.or(others.real_time.in_service()).or(others.idle.in_service())
    }

    /// See [`ServiceTree::activate`].
    // In place on the way of each request, though a change of class calls it too.
    #[inline(always)]
    pub(crate) fn activate(
        &mut self,
        now: Instant,
        entities: &mut Entities,
        id: EntityId,
        prio: Prio,
        budget: u64,
        how: Return,
    ) {
        if prio.class == PriorityClass::BestEffort && entities[id].class == prio.class {
            self.best_effort.activate(entities, id, prio.weight, budget, how);
        } else {
            self.activate_in_class(now, entities, id, prio, budget, how);
        }
    }

    #[inline(never)]
    fn activate_in_class(
        &mut self,
        now: Instant,
        entities: &mut Entities,
        id: EntityId,
        prio: Prio,
        budget: u64,
        how: Return,
    ) {
        if entities[id].class != prio.class {
            if entities[id].state == State::Idle {
                self.forget(entities, id);
            }
            entities[id].class = prio.class;
        }
        if prio.class == PriorityClass::Idle {
            let others = self.others_mut(now);
            if others.idle.is_inactive() {
                others.idle_since = now;
            }
        }
        self.tree_mut(now, prio.class).activate(entities, id, prio.weight, budget, how);
    }

    /// See [`ServiceTree::reposition`]. A new class counts from here, too.
    pub(crate) fn reposition(
        &mut self,
        now: Instant,
        entities: &mut Entities,
        id: EntityId,
        prio: Prio,
        budget: u64,
    ) {
        let class = entities[id].class;
        if class == prio.class {
            self.tree_mut(now, class).reposition(entities, id, prio.weight, budget);
        } else {
            self.deactivate(entities, id);
            self.activate(now, entities, id, prio, budget, Return::Afresh);
        }
    }

    /// See [`ServiceTree::reweigh`].
    pub(crate) fn reweigh(&mut self, entities: &mut Entities, id: EntityId, weight: u32) {
        self.tree_of(entities, id).reweigh(entities, id, weight);
    }

    /// See [`ServiceTree::deactivate`].
    pub(crate) fn deactivate(&mut self, entities: &mut Entities, id: EntityId) {
        self.tree_of(entities, id).deactivate(entities, id);
    }

    /// See [`ServiceTree::expire`], of a child that has had the device with `class`. A new class counts from here, too.
    #[inline]
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        entities: &mut Entities,
        id: EntityId,
        class: PriorityClass,
        placing: Option<(Prio, u64)>,
    ) {
        let stays = placing.filter(|(prio, _)| prio.class == class);
        let tree = self.tree_of_class(class);
        tree.expire(entities, id, stays.map(|(prio, budget)| (prio.weight, budget)));
        if let Some((prio, budget)) = placing
            && prio.class != class
        {
            self.activate_in_class(now, entities, id, prio, budget, Return::Afresh);
        }
    }

    /// The active child that is next by class and tags. Not in the middle of a slot's way up: see [`ServiceTree::next`].
    #[inline]
    pub(crate) fn next(&mut self, entities: &mut Entities) -> Option<EntityId> {
        if self.others.is_none() {
            return self.best_effort.next(entities);
        }
        self.first(|tree| tree.next(entities))
    }

    /// The eligible child that is first by class and tags, while another is in service: V stays where it is.
    pub(crate) fn eligible(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.first(|tree| tree.eligible(entities))
    }

    /// Who would be next, by class, with everybody's V where it is.
    pub(crate) fn peek(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.first(|tree| tree.peek(entities))
    }

    /// The answer of the first class that has one.
    fn first(
        &mut self,
        mut ask: impl FnMut(&mut ServiceTree) -> Option<EntityId>,
    ) -> Option<EntityId> {
        let Some(others) = &mut self.others else { return ask(&mut self.best_effort) };
        let next = ask(&mut others.real_time);
        let next = next.or_else(|| ask(&mut self.best_effort));
        next.or_else(|| ask(&mut others.idle))
    }

    /// Hands the device to the child that is next; to one of the idle class, if that has waited for too long.
    #[inline]
    pub(crate) fn select(&mut self, now: Instant, entities: &mut Entities) -> Option<EntityId> {
        if self.others.is_none() {
            return self.best_effort.select(entities);
        }
        self.select_by_class(now, entities)
    }

    #[inline(never)]
    fn select_by_class(&mut self, now: Instant, entities: &mut Entities) -> Option<EntityId> {
        let others = self.others.as_mut()?;
        if others.idle.active() > 0 && now.nanos_since(others.idle_since) > IDLE_CLASS_TIMEOUT_NS {
            others.idle_since = now;
            return others.idle.select(entities);
        }
        let chosen = self.first(|tree| tree.select(entities))?;
        if let Some(others) = &mut self.others
            && entities[chosen].class == PriorityClass::Idle
        {
            others.idle_since = now;
        }
        Some(chosen)
    }

    /// A child of that class was charged, in service or not.
    #[inline]
    pub(crate) fn charge(&mut self, entities: &mut Entities, class: PriorityClass, bytes: u64) {
        self.tree_of_class(class).charge(entities, bytes);
    }

    /// Forgets a child that is idle.
    pub(crate) fn forget(&mut self, entities: &mut Entities, id: EntityId) {
        self.tree_of(entities, id).forget(entities, id);
    }

    /// Every tree there is.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &ServiceTree> {
        let others = self.others.iter().flat_map(|others| [&others.real_time, &others.idle]);
        core::iter::once(&self.best_effort).chain(others)
    }

    /// How many children are active.
    pub(crate) fn active(&self) -> usize {
        self.trees().map(ServiceTree::active).sum()
    }

    fn others_mut(&mut self, now: Instant) -> &mut Others {
        self.others.get_or_insert_with(|| {
            let [real_time, idle] = [ServiceTree::new(), ServiceTree::new()];
            Box::new(Others { real_time, idle, idle_since: now })
        })
    }

    #[inline]
    fn tree_mut(&mut self, now: Instant, class: PriorityClass) -> &mut ServiceTree {
        match class {
            PriorityClass::BestEffort => &mut self.best_effort,
            PriorityClass::RealTime => &mut self.others_mut(now).real_time,
            PriorityClass::Idle => &mut self.others_mut(now).idle,
        }
    }

    /// The tree that an entity is in.
    #[inline]
    fn tree_of(&mut self, entities: &Entities, id: EntityId) -> &mut ServiceTree {
        self.tree_of_class(entities[id].class)
    }

    /// The tree of a class that there is somebody of.
    #[inline]
    fn tree_of_class(&mut self, class: PriorityClass) -> &mut ServiceTree {
        match (&mut self.others, class) {
            (None, _) | (_, PriorityClass::BestEffort) => &mut self.best_effort,
            (Some(others), PriorityClass::RealTime) => &mut others.real_time,
            (Some(others), PriorityClass::Idle) => &mut others.idle,
        }
    }
}
