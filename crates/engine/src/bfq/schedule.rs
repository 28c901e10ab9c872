//! Schedule: order of service of the flows, by B-WF2Q+, and the counts of busy flows that shares and idling depend on.

use alloc::format;
use alloc::string::String;

use super::flow::Owner;
use super::scenario::Scenario;
use super::wf2q::{Entity, EntityId, Hierarchy, Prio, Return, ServiceTree, State};
use crate::ensure::ensure;
use crate::tree::{ROOT, Tree};
use crate::types::{Instant, PriorityClass};

/// Entities and service trees of all flows and cgroups, with counts of the busy flows. Flows are named by index.
#[derive(Default)]
pub(crate) struct Schedule {
    hierarchy: Hierarchy,
    scenario: Scenario,
    /// Flows that are backlogged or in service.
    busy: u32,
}

/// Life cycle.
impl Schedule {
    /// Adds the flow of `owner` in `cgroup`.
    pub(crate) fn open(&mut self, at: u32, owner: Owner, cgroup: u32, prio: Prio) {
        self.hierarchy.open(EntityId::flow(at), owner, cgroup, prio);
    }

    /// Removes a flow that has no backlog and is not in service.
    pub(crate) fn forget(&mut self, at: u32) {
        self.hierarchy.forget(EntityId::flow(at));
    }

    /// Removes a cgroup with nothing below it.
    pub(crate) fn forget_group(&mut self, cgroup: u32) {
        self.hierarchy.forget_group(cgroup);
    }

    /// Applies a new weight or class of a cgroup from `tree`. The cgroup is not in service.
    pub(crate) fn update_group_prio(&mut self, now: Instant, tree: &Tree, cgroup: u32) {
        self.hierarchy.update_group_prio(now, tree, cgroup);
    }

    /// Applies a new parent of a cgroup from `tree`. The cgroup is not in service.
    pub(crate) fn move_group(&mut self, now: Instant, tree: &Tree, cgroup: u32) {
        self.hierarchy.move_group(now, tree, cgroup);
    }
}

/// Properties of a flow.
impl Schedule {
    #[inline]
    pub(crate) fn entity(&self, at: u32) -> &Entity {
        self.hierarchy.entities.flow(at)
    }

    pub(crate) fn state(&self, at: u32) -> State {
        self.hierarchy.state(EntityId::flow(at))
    }

    pub(crate) fn owner(&self, at: u32) -> Owner {
        self.hierarchy.owner(EntityId::flow(at))
    }

    #[inline]
    pub(crate) fn cgroup(&self, at: u32) -> u32 {
        self.entity(at).parent
    }

    /// Class and weight of a flow from its next activation on.
    pub(crate) fn prio(&self, at: u32) -> Prio {
        let entity = self.entity(at);
        Prio { class: entity.next_class, weight: entity.next_weight.into() }
    }

    /// Factor of a flow's weight (`wr_coeff`).
    #[inline]
    pub(crate) fn wr_coeff(&self, at: u32) -> u16 {
        self.entity(at).next_wr_coeff
    }

    pub(crate) fn set_prio(&mut self, at: u32, prio: Prio) {
        self.with_recount(at, |hierarchy| hierarchy.set_prio(EntityId::flow(at), prio));
    }

    pub(crate) fn set_wr_coeff(&mut self, at: u32, wr_coeff: u16) {
        self.with_recount(at, |hierarchy| hierarchy.set_wr_coeff(EntityId::flow(at), wr_coeff));
    }

    /// True if some busy sibling is not weight-raised. If all are raised, none counts as raised: short slots would only
    /// add seeks.
    pub(crate) fn is_raised_above_siblings(&self, at: u32) -> bool {
        self.wr_coeff(at) > 1 && self.scenario.has_unraised_in(self.cgroup(at))
    }

    /// Whether a flow is not raised and a busy sibling is.
    pub(crate) fn has_raised_siblings(&self, at: u32) -> bool {
        self.wr_coeff(at) == 1 && self.scenario.has_raised_in(self.cgroup(at))
    }

    /// Whether other cgroups than the flow's have busy flows that are not raised.
    pub(crate) fn has_unraised_beside(&self, at: u32) -> bool {
        self.scenario.has_unraised_beside(self.cgroup(at))
    }

    /// Whether the flow's share requires idling for it.
    pub(crate) fn is_asymmetric(&self, at: u32) -> bool {
        let unraised_weight = (self.wr_coeff(at) == 1).then(|| self.prio(at).weight);
        self.scenario.is_asymmetric(unraised_weight)
    }
}

/// Counts of busy flows.
impl Schedule {
    /// Flows that are backlogged or in service.
    pub(crate) fn busy(&self) -> u32 {
        self.busy
    }

    /// Flows that are busy or have requests at the device.
    #[inline]
    pub(crate) fn flows(&self) -> u32 {
        self.scenario.flows()
    }

    /// Those of them that are raised.
    #[inline]
    pub(crate) fn raised(&self) -> u32 {
        self.scenario.raised()
    }

    /// Those of a cgroup that are raised.
    pub(crate) fn raised_of(&self, cgroup: u32) -> u32 {
        self.scenario.raised_of(cgroup)
    }

    /// Notes that a flow of `cgroup` raised at `since` is a stream and no application.
    pub(crate) fn note_stream(&mut self, cgroup: u32, since: Instant) {
        self.scenario.note_stream(cgroup, since);
    }

    /// Whether a flow of `cgroup` raised at `since` began together with such a stream.
    pub(crate) fn is_with_stream(&self, cgroup: u32, since: Instant) -> bool {
        self.scenario.is_with_stream(cgroup, since)
    }

    /// Counts a flow that is busy or has requests at the device.
    pub(crate) fn count(&mut self, at: u32) {
        if !core::mem::replace(&mut self.hierarchy.entities.flow_mut(at).is_counted, true) {
            self.enter(at);
        }
    }

    /// Stops counting a flow. Returns whether it was counted.
    pub(crate) fn uncount(&mut self, at: u32) -> bool {
        let was_counted = core::mem::take(&mut self.hierarchy.entities.flow_mut(at).is_counted);
        if was_counted {
            self.leave(at);
        }
        was_counted
    }

    /// Changes what a flow is counted by, and the counts with it (spec/bfq D-17).
    fn with_recount(&mut self, at: u32, change: impl FnOnce(&mut Hierarchy)) {
        let is_counted = self.entity(at).is_counted;
        if is_counted {
            self.leave(at);
        }
        change(&mut self.hierarchy);
        if is_counted {
            self.enter(at);
        }
    }

    fn enter(&mut self, at: u32) {
        let (cgroup, class, weight) = counted_as(self.entity(at));
        self.scenario.enter(cgroup, class, weight);
    }

    fn leave(&mut self, at: u32) {
        let (cgroup, class, weight) = counted_as(self.entity(at));
        self.scenario.leave(cgroup, class, weight);
    }
}

/// Order of service.
impl Schedule {
    /// Activates a flow at its first backlog.
    pub(crate) fn activate(
        &mut self,
        now: Instant,
        tree: &Tree,
        at: u32,
        budget: u64,
        how: Return,
    ) {
        self.busy += 1;
        self.hierarchy.activate(now, tree, EntityId::flow(at), budget, how);
    }

    /// Re-inserts a waiting flow with another budget.
    pub(crate) fn reposition(&mut self, now: Instant, tree: &Tree, at: u32, budget: u64) {
        self.hierarchy.reposition(now, tree, EntityId::flow(at), budget);
    }

    /// Deactivates a waiting flow that has lost its backlog.
    pub(crate) fn deactivate(&mut self, now: Instant, tree: &Tree, at: u32) {
        self.busy -= 1;
        self.hierarchy.deactivate(now, tree, EntityId::flow(at));
    }

    /// Selects the next flow for service.
    pub(crate) fn select(&mut self, now: Instant) -> Option<u32> {
        self.hierarchy.select(now).map(EntityId::as_flow)
    }

    /// Expires the flow in service. With a backlog it is activated with `budget`.
    pub(crate) fn expire(&mut self, now: Instant, tree: &Tree, at: u32, budget: Option<u64>) {
        self.busy -= u32::from(budget.is_none());
        self.hierarchy.expire(now, tree, EntityId::flow(at), budget);
        debug_assert_ne!(self.state(at), State::InService);
    }

    /// Whether a flow of `cgroup` or below is in service.
    pub(crate) fn is_group_in_service(&self, cgroup: u32) -> bool {
        self.hierarchy.state(EntityId::group(cgroup)) == State::InService
    }

    /// Whether a waiting flow is due before the one in service.
    pub(crate) fn is_ahead(&mut self, at: u32) -> bool {
        self.hierarchy.is_ahead(EntityId::flow(at))
    }

    /// The next flow if `in_service` were empty.
    pub(crate) fn runner_up(&mut self, in_service: u32) -> Option<u32> {
        self.hierarchy.runner_up(EntityId::flow(in_service))
    }

    /// The next flow while none is in service.
    pub(crate) fn upcoming(&mut self) -> Option<u32> {
        self.hierarchy.upcoming()
    }

    /// Charges a flow, in service or not, and all cgroups above it.
    #[inline(always)]
    pub(crate) fn charge_flow(&mut self, at: u32, bytes: u64) {
        self.hierarchy.charge_flow(at, bytes);
    }

    /// Charges the cgroups above a flow, without the flow.
    pub(crate) fn charge_above(&mut self, at: u32, bytes: u64) {
        self.hierarchy.charge_above(EntityId::flow(at), bytes);
    }

    /// Charges a cgroup and those above it, without a flow.
    pub(crate) fn charge_cgroup(&mut self, now: Instant, tree: &Tree, cgroup: u32, bytes: u64) {
        self.hierarchy.charge_cgroup(now, tree, cgroup, bytes);
    }

    /// Updates the cgroups above a charged flow that is not in service.
    pub(crate) fn review_charged(&mut self, now: Instant, tree: &Tree, at: u32) {
        self.hierarchy.review_charged(now, tree, EntityId::flow(at));
    }
}

/// Invariants (spec/bfq 11).
impl Schedule {
    /// Checks counts and service trees, with the existing flows in `live`. O(everything).
    ///
    /// # Errors
    /// A text that says what does not hold.
    pub(crate) fn check(&mut self, tree: &Tree, live: &[u32]) -> Result<(), String> {
        self.check_counts(live)?;
        for (cgroup, _) in tree.cgroups.iter() {
            self.check_group(tree, cgroup).map_err(|what| format!("cgroup {cgroup}: {what}"))?;
        }
        self.check_members(tree)
    }

    /// Each busy flow is counted once.
    fn check_counts(&self, live: &[u32]) -> Result<(), String> {
        let live = || live.iter().copied();
        let counted = live().filter(|&at| self.entity(at).is_counted).count();
        let flows = self.scenario.flows();
        ensure(counted == flows as usize, || format!("{flows} flows counted, not {counted}"))?;
        let mut fresh = Scenario::default();
        for at in live() {
            let entity = self.entity(at);
            if entity.is_counted {
                let (cgroup, class, weight) = counted_as(entity);
                fresh.enter(cgroup, class, weight);
            }
        }
        ensure(self.scenario.counts_alike(&fresh), || {
            format!("counted by weight, class and cgroup are {:?}, not {fresh:?}", self.scenario)
        })?;
        let is_raised = |at: u32| self.entity(at).is_counted && self.wr_coeff(at) > 1;
        let raised = live().filter(|&at| is_raised(at)).count();
        let told = self.scenario.raised();
        ensure(raised == told as usize, || format!("{told} flows raised, not {raised}"))?;
        let is_busy = |at| !matches!(self.state(at), State::Off | State::Idle);
        let busy = live().filter(|&at| is_busy(at)).count();
        ensure(busy == self.busy as usize, || format!("{} flows busy, not {busy}", self.busy))
    }

    /// A cgroup is active exactly while a child is, with the budget of the next child; in service while a child is.
    fn check_group(&mut self, tree: &Tree, cgroup: u32) -> Result<(), String> {
        let entities = &mut self.hierarchy.entities;
        let Some(sched_data) = self.hierarchy.sched_data.get_mut(cgroup as usize) else {
            return Ok(());
        };
        sched_data.trees().try_for_each(|tree| tree.check(entities))?;
        if cgroup == ROOT {
            return Ok(());
        }
        let Some(&entity) = entities.get(EntityId::group(cgroup)) else {
            return ensure(sched_data.active() == 0, || "children without a parent".into());
        };
        let in_service = sched_data.in_service().is_some();
        ensure(in_service == (entity.state == State::InService), || {
            format!("{:?}, a child in service: {in_service}", entity.state)
        })?;
        if in_service {
            return Ok(());
        }
        let active = sched_data.active();
        ensure(entity.state.is_active() == (active > 0), || {
            format!("{:?} with {active} active children", entity.state)
        })?;
        let next = sched_data.next(entities);
        let budget = next.map_or(entity.budget, |next| entities[next].budget);
        ensure(entity.budget == budget, || {
            format!("its budget is {}, that of its next child {budget}", entity.budget)
        })?;
        ensure(tree.cgroups[cgroup].parent == entity.parent || entity.state == State::Off, || {
            format!("it stands in cgroup {}", entity.parent)
        })
    }

    /// Each entity is counted once, by its own parent.
    fn check_members(&self, tree: &Tree) -> Result<(), String> {
        let mut counted = alloc::vec![0; self.hierarchy.sched_data.len()];
        for id in self.hierarchy.entities.ids() {
            let entity = &self.hierarchy.entities[id];
            if entity.state != State::Off {
                counted[entity.parent as usize] += 1;
            }
        }
        for (cgroup, (sched_data, counted)) in
            self.hierarchy.sched_data.iter().zip(counted).enumerate()
        {
            let idle: usize = sched_data.trees().map(ServiceTree::idle_len).sum();
            let members =
                sched_data.active() + idle + usize::from(sched_data.in_service().is_some());
            ensure(members == counted, || {
                format!("cgroup {cgroup} has {members} members, of whom {counted} know")
            })?;
            let exists = tree.cgroups.get(cgroup as u32).is_some();
            ensure(exists || members == 0, || format!("cgroup {cgroup} is gone, with {members}"))?;
        }
        Ok(())
    }
}

/// Cgroup, class and weight of a flow; no weight while it is raised.
fn counted_as(entity: &Entity) -> (u32, PriorityClass, Option<u32>) {
    let weight = (entity.next_wr_coeff == 1).then_some(entity.next_weight.into());
    (entity.parent, entity.next_class, weight)
}
