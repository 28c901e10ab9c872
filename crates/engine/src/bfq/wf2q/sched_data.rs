//! Scheduling node of a cgroup: a service tree for each class, served in class order (`bfq_sched_data`; spec/bfq 1.6,
//! 2.6).

use alloc::boxed::Box;

use super::entity::{Entities, EntityId, State};
use super::service_tree::{Return, ServiceTree};
use crate::types::{Instant, PriorityClass};

/// Class and weight of an entity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prio {
    pub(crate) class: PriorityClass,
    pub(crate) weight: u32,
}

/// Time after which the idle class is served although others wait (spec/bfq 0.2).
const IDLE_CLASS_TIMEOUT_NS: u64 = 200_000_000;

/// Service trees of the children of one cgroup. Nearly all are best effort, so the other classes are boxed: a cache
/// line for most cgroups.
#[repr(align(64))]
pub(crate) struct SchedData {
    best_effort: ServiceTree,
    others: Option<Box<Others>>,
}

const _: () = assert!(size_of::<SchedData>() == 64);

struct Others {
    real_time: ServiceTree,
    idle: ServiceTree,
    /// Last service of the idle class, or its first backlog since.
    idle_since: Instant,
}

impl SchedData {
    pub(crate) fn new() -> SchedData {
        SchedData { best_effort: ServiceTree::new(), others: None }
    }

    /// The child in service, or above the flow in service.
    #[inline]
    pub(crate) fn in_service(&self) -> Option<EntityId> {
        let in_service = self.best_effort.in_service();
        let Some(others) = &self.others else { return in_service };
        in_service.or(others.real_time.in_service()).or(others.idle.in_service())
    }

    /// See [`ServiceTree::activate`].
    // Inline on the hot path, although a change of class calls it too.
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

    /// See [`ServiceTree::reposition`]. Applies a new class.
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

    /// See [`ServiceTree::expire`], of a child that was served with `class`. Applies a new class.
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

    /// The next active child by class and tags. Only when no child is in service: see [`ServiceTree::next`].
    #[inline]
    pub(crate) fn next(&mut self, entities: &mut Entities) -> Option<EntityId> {
        if self.others.is_none() {
            return self.best_effort.next(entities);
        }
        self.first(|tree| tree.next(entities))
    }

    /// The eligible child that is first by class and tags, without advancing V.
    pub(crate) fn eligible(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.first(|tree| tree.eligible(entities))
    }

    /// The next active child by class, without advancing V.
    pub(crate) fn peek(&mut self, entities: &mut Entities) -> Option<EntityId> {
        self.first(|tree| tree.peek(entities))
    }

    /// First answer of the classes, in order.
    fn first(
        &mut self,
        mut ask: impl FnMut(&mut ServiceTree) -> Option<EntityId>,
    ) -> Option<EntityId> {
        let Some(others) = &mut self.others else { return ask(&mut self.best_effort) };
        let next = ask(&mut others.real_time);
        let next = next.or_else(|| ask(&mut self.best_effort));
        next.or_else(|| ask(&mut others.idle))
    }

    /// Selects the next child; one of the idle class if that has waited too long.
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

    /// Charges a child of this class, in service or not.
    #[inline]
    pub(crate) fn charge(&mut self, entities: &mut Entities, class: PriorityClass, bytes: u64) {
        self.tree_of_class(class).charge(entities, bytes);
    }

    /// Removes an idle child.
    pub(crate) fn forget(&mut self, entities: &mut Entities, id: EntityId) {
        self.tree_of(entities, id).forget(entities, id);
    }

    /// All service trees.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &ServiceTree> {
        let others = self.others.iter().flat_map(|others| [&others.real_time, &others.idle]);
        core::iter::once(&self.best_effort).chain(others)
    }

    /// Number of active children.
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

    /// Service tree of an entity.
    #[inline]
    fn tree_of(&mut self, entities: &Entities, id: EntityId) -> &mut ServiceTree {
        self.tree_of_class(entities[id].class)
    }

    /// Service tree of a class that has an entity.
    #[inline]
    fn tree_of_class(&mut self, class: PriorityClass) -> &mut ServiceTree {
        match (&mut self.others, class) {
            (None, _) | (_, PriorityClass::BestEffort) => &mut self.best_effort,
            (Some(others), PriorityClass::RealTime) => &mut others.real_time,
            (Some(others), PriorityClass::Idle) => &mut others.idle,
        }
    }
}
