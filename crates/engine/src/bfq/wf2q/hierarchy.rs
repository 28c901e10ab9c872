//! Hierarchy of service trees: operations on a flow at every level above it (spec/bfq 2.3 to 2.8).

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::entity::{Entities, Entity, EntityId, State};
use super::sched_data::{Prio, SchedData};
use super::service_tree::Return;
use crate::bfq::flow::Owner;
use crate::tree::{ROOT, Tree};
use crate::types::Instant;

/// All entities, and the service trees of each cgroup.
///
/// The entity in service and the cgroups above it are in no heap: changes beside them go no further up until the slot
/// ends. All others have valid tags and budgets at all times.
#[derive(Default)]
pub(crate) struct Hierarchy {
    pub(crate) entities: Entities,
    /// By cgroup.
    pub(crate) sched_data: Vec<SchedData>,
}

impl Hierarchy {
    pub(crate) fn state(&self, id: EntityId) -> State {
        self.entities.get(id).map_or(State::Off, |entity| entity.state)
    }

    /// Adds the flow of `owner` in `cgroup`.
    pub(crate) fn open(&mut self, id: EntityId, owner: Owner, cgroup: u32, prio: Prio) {
        self.entities.ensure(id);
        let entity = &mut self.entities[id];
        (entity.parent, entity.owner) = (cgroup, owner);
        self.set_prio(id, prio);
    }

    /// Owner of a flow.
    pub(crate) fn owner(&self, id: EntityId) -> Owner {
        self.entities[id].owner
    }

    /// Cgroup of a flow.
    pub(crate) fn cgroup(&self, id: EntityId) -> u32 {
        self.entities[id].parent
    }

    /// Sets class and weight of a flow from its next activation on. Sums of merged weights saturate.
    pub(crate) fn set_prio(&mut self, id: EntityId, prio: Prio) {
        let weight = u16::try_from(prio.weight).unwrap_or(u16::MAX);
        let entity = &mut self.entities[id];
        (entity.next_class, entity.next_weight) = (prio.class, weight);
    }

    /// Sets the weight raising factor of a flow from its next activation on, never within a slot (spec/bfq D-19).
    pub(crate) fn set_wr_coeff(&mut self, id: EntityId, wr_coeff: u16) {
        self.entities[id].next_wr_coeff = wr_coeff;
    }

    /// Activates a flow at its first backlog.
    pub(crate) fn activate(
        &mut self,
        now: Instant,
        tree: &Tree,
        id: EntityId,
        budget: u64,
        how: Return,
    ) {
        let cgroup = self.cgroup(id);
        self.place_in(now, tree, id, cgroup, budget, how);
        self.refresh(now, tree, cgroup, how);
    }

    /// Re-inserts a waiting flow with another budget, and its next class and weight.
    pub(crate) fn reposition(&mut self, now: Instant, tree: &Tree, id: EntityId, budget: u64) {
        let (parent, prio) = (self.entities[id].parent, self.prio(tree, id));
        self.sched_data[parent as usize].reposition(now, &mut self.entities, id, prio, budget);
        self.refresh(now, tree, parent, Return::Afresh);
    }

    /// Deactivates a waiting flow that has lost its backlog.
    pub(crate) fn deactivate(&mut self, now: Instant, tree: &Tree, id: EntityId) {
        let parent = self.entities[id].parent;
        self.sched_data[parent as usize].deactivate(&mut self.entities, id);
        self.refresh(now, tree, parent, Return::Afresh);
    }

    /// Selects the next flow for service.
    pub(crate) fn select(&mut self, now: Instant) -> Option<EntityId> {
        let mut cgroup = ROOT;
        loop {
            let id = self.sched_data.get_mut(cgroup as usize)?.select(now, &mut self.entities)?;
            match id.as_group() {
                Some(group) => cgroup = group,
                None => return Some(id),
            }
        }
    }

    /// Whether a waiting flow is due before the one in service, decided where their paths meet (spec/bfq D-24): by
    /// class if it is the next of its class, else if it is eligible there with the smaller finish.
    pub(crate) fn is_ahead(&mut self, id: EntityId) -> bool {
        let (mut mine, mut meets) = (id, self.entities[id].parent);
        let theirs = loop {
            if let Some(theirs) = self.sched_data[meets as usize].in_service() {
                break theirs;
            }
            if meets == ROOT {
                return false;
            }
            mine = EntityId::group(meets);
            meets = self.entities[mine].parent;
        };
        let (my_class, their_class) = (self.entities[mine].class, self.entities[theirs].class);
        let sched_data = &mut self.sched_data[meets as usize];
        match my_class.cmp(&their_class) {
            // No sibling of its class is in service: the next of the class would be selected, with V at its start.
            Ordering::Less => sched_data.peek(&mut self.entities) == Some(mine),
            Ordering::Equal => {
                sched_data.eligible(&mut self.entities) == Some(mine)
                    && self.entities[theirs].finish.is_after(self.entities[mine].finish)
            }
            Ordering::Greater => false,
        }
    }

    /// Charges a flow, in service or not, and all cgroups above it.
    // Inline on the hot path.
    #[inline(always)]
    pub(crate) fn charge_flow(&mut self, flow: u32, bytes: u64) {
        let entity = self.entities.flow_mut(flow);
        entity.service += bytes;
        let (parent, class) = (entity.parent, entity.class);
        self.sched_data[parent as usize].charge(&mut self.entities, class, bytes);
        self.charge_group(parent, bytes);
    }

    /// Charges a cgroup and all above it.
    #[inline(always)]
    fn charge_group(&mut self, cgroup: u32, bytes: u64) {
        let mut at = cgroup;
        while at != ROOT {
            let entity = self.entities.group_mut(at);
            entity.service += bytes;
            let (parent, class) = (entity.parent, entity.class);
            self.sched_data[parent as usize].charge(&mut self.entities, class, bytes);
            at = parent;
        }
    }

    /// Updates the cgroups above a charged flow that is not in service: V has advanced, so their next child and
    /// budget may differ. O(depth × log siblings).
    pub(crate) fn review_charged(&mut self, now: Instant, tree: &Tree, id: EntityId) {
        let mut cgroup = self.cgroup(id);
        while cgroup != ROOT && self.sched_data[cgroup as usize].in_service().is_none() {
            self.refresh(now, tree, cgroup, Return::Afresh);
            cgroup = self.entities[EntityId::group(cgroup)].parent;
        }
    }

    /// The next flow if the one in service were empty: among its siblings, else among those of its cgroup, and so on.
    pub(crate) fn runner_up(&mut self, in_service: EntityId) -> Option<u32> {
        let mut at = in_service;
        loop {
            let parent = self.entities[at].parent;
            let next = self.first_below(parent);
            if next.is_some() || parent == ROOT {
                return next;
            }
            at = EntityId::group(parent);
        }
    }

    /// The next flow while none is in service, without advancing V. A flow of the idle class may still come first by
    /// its timeout.
    pub(crate) fn upcoming(&mut self) -> Option<u32> {
        if self.sched_data.is_empty() { None } else { self.first_below(ROOT) }
    }

    fn first_below(&mut self, cgroup: u32) -> Option<u32> {
        let mut next = self.sched_data[cgroup as usize].peek(&mut self.entities);
        while let Some(group) = next.and_then(EntityId::as_group) {
            next = self.sched_data[group as usize].peek(&mut self.entities);
        }
        next.map(EntityId::as_flow)
    }

    /// Charges the cgroups above a flow, without the flow.
    pub(crate) fn charge_above(&mut self, id: EntityId, bytes: u64) {
        if bytes > 0 {
            self.charge_group(self.cgroup(id), bytes);
        }
    }

    /// Charges a cgroup and those above it, without a flow. O(depth × log siblings).
    pub(crate) fn charge_cgroup(&mut self, now: Instant, tree: &Tree, cgroup: u32, bytes: u64) {
        let is_active = |at: u32| self.state(EntityId::group(at)).is_active();
        if cgroup == ROOT || !is_active(cgroup) {
            return;
        }
        self.charge_group(cgroup, bytes);
        let mut at = self.entities[EntityId::group(cgroup)].parent;
        while at != ROOT && self.sched_data[at as usize].in_service().is_none() {
            self.refresh(now, tree, at, Return::Afresh);
            at = self.entities[EntityId::group(at)].parent;
        }
    }

    /// Expires the flow in service, at every level. With a backlog it is activated with `budget`.
    pub(crate) fn expire(&mut self, now: Instant, tree: &Tree, id: EntityId, budget: Option<u64>) {
        let (mut at, mut budget) = (id, budget);
        loop {
            let &Entity { parent, class, .. } = &self.entities[at];
            let placing = budget.map(|budget| (self.prio(tree, at), budget));
            let sched_data = &mut self.sched_data[parent as usize];
            sched_data.expire(now, &mut self.entities, at, class, placing);
            // V jumps to the next child if needed, also at the root.
            let next = sched_data.next(&mut self.entities);
            if parent == ROOT {
                return;
            }
            budget = next.map(|next| self.entities[next].budget);
            at = EntityId::group(parent);
        }
    }

    /// Removes a flow that has no backlog and is not in service.
    pub(crate) fn forget(&mut self, id: EntityId) {
        let Some(entity) = self.entities.get(id) else { return };
        if entity.state == State::Idle {
            let parent = entity.parent as usize;
            self.sched_data[parent].forget(&mut self.entities, id);
        }
        self.entities.reset(id);
    }

    /// Removes a cgroup with nothing below it.
    pub(crate) fn forget_group(&mut self, cgroup: u32) {
        self.forget(EntityId::group(cgroup));
        if let Some(sched_data) = self.sched_data.get_mut(cgroup as usize) {
            *sched_data = SchedData::new();
        }
    }

    /// Applies a new weight or class of a cgroup from `tree`. The cgroup is not in service.
    pub(crate) fn update_group_prio(&mut self, now: Instant, tree: &Tree, cgroup: u32) {
        let id = EntityId::group(cgroup);
        let Some(&Entity { state, parent, class, budget, .. }) = self.entities.get(id) else {
            return;
        };
        if state == State::Off {
            return;
        }
        let (prio, sched_data) = (self.prio(tree, id), &mut self.sched_data[parent as usize]);
        if prio.class == class {
            sched_data.reweigh(&mut self.entities, id, prio.weight);
        } else if state.is_active() {
            sched_data.reposition(now, &mut self.entities, id, prio, budget);
        }
        self.refresh(now, tree, parent, Return::Afresh);
    }

    /// Applies a new parent of a cgroup from `tree`. The cgroup is not in service.
    pub(crate) fn move_group(&mut self, now: Instant, tree: &Tree, cgroup: u32) {
        let id = EntityId::group(cgroup);
        let Some(&entity) = self.entities.get(id) else { return };
        let old = &mut self.sched_data;
        match entity.state {
            State::Off => {}
            State::Idle => old[entity.parent as usize].forget(&mut self.entities, id),
            State::InService => unreachable!("its slot is to end first"),
            State::Waiting | State::Eligible => {
                old[entity.parent as usize].deactivate(&mut self.entities, id);
                if self.entities[id].state == State::Idle {
                    self.sched_data[entity.parent as usize].forget(&mut self.entities, id);
                }
                self.refresh(now, tree, entity.parent, Return::Afresh);
                // Its service among its old siblings says nothing about the new ones.
                self.refresh(now, tree, cgroup, Return::Afresh);
            }
        }
    }

    /// Propagates a change among the children of `cgroup` upwards, as far as it matters.
    fn refresh(&mut self, now: Instant, tree: &Tree, cgroup: u32, how: Return) {
        let mut at = cgroup;
        loop {
            let sched_data = &mut self.sched_data[at as usize];
            if sched_data.in_service().is_some() {
                return;
            }
            let next = sched_data.next(&mut self.entities);
            if at == ROOT {
                return;
            }
            let id = EntityId::group(at);
            let &mut Entity { state, parent, budget: old, .. } = self.entities.ensure_group(at);
            at = match next {
                None if !state.is_active() => return,
                None => {
                    self.sched_data[parent as usize].deactivate(&mut self.entities, id);
                    parent
                }
                Some(next) => {
                    let budget = self.entities[next].budget;
                    if !state.is_active() {
                        let parent = tree.cgroups[at].parent;
                        self.place_in(now, tree, id, parent, budget, how);
                        parent
                    } else if old == budget {
                        return;
                    } else {
                        let prio = self.prio(tree, id);
                        let sched_data = &mut self.sched_data[parent as usize];
                        sched_data.reposition(now, &mut self.entities, id, prio, budget);
                        parent
                    }
                }
            };
        }
    }

    /// Activates `id` below `parent`.
    #[inline(never)]
    fn place_in(
        &mut self,
        now: Instant,
        tree: &Tree,
        id: EntityId,
        parent: u32,
        budget: u64,
        how: Return,
    ) {
        if self.sched_data.len() <= parent as usize {
            self.make_room(parent);
        }
        let entity = &mut self.entities[id];
        entity.parent = parent;
        let prio = prio_of(tree, id, entity);
        let sched_data = &mut self.sched_data[parent as usize];
        sched_data.activate(now, &mut self.entities, id, prio, budget, how);
    }

    /// Makes room for the first children of `parent`.
    #[cold]
    fn make_room(&mut self, parent: u32) {
        self.sched_data.resize_with(parent as usize + 1, SchedData::new);
    }

    /// Class and weight to activate an entity with.
    #[inline]
    fn prio(&self, tree: &Tree, id: EntityId) -> Prio {
        prio_of(tree, id, &self.entities[id])
    }
}

/// As [`Hierarchy::prio`], for an entity at hand.
#[inline]
fn prio_of(tree: &Tree, id: EntityId, entity: &Entity) -> Prio {
    match id.as_group() {
        Some(cgroup) => {
            let cgroup = &tree.cgroups[cgroup];
            let weight = u32::from(cgroup.weight.get());
            Prio { class: cgroup.prio_class.of_cgroup(), weight }
        }
        None => {
            let weight = u32::from(entity.next_weight) * u32::from(entity.next_wr_coeff);
            Prio { class: entity.next_class, weight }
        }
    }
}
