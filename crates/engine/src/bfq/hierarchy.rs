//! The tree of service trees: what happens to a flow, on every level above it (specification 2.3 to 2.8).

use alloc::vec::Vec;

use super::entity::{Entities, EntityId, State};
use super::service_tree::{Return, ServiceTree};
use crate::tree::{ROOT, Tree};
use crate::weight::Weight;

/// All entities, and the service tree of each cgroup.
///
/// The entity that holds the device is in no heap, and neither is any cgroup above it: what happens beside it changes
/// nothing further up until its slot ends. Everyone else is placed with tags and budgets that hold at all times.
#[derive(Default)]
pub(crate) struct Hierarchy {
    pub(crate) entities: Entities,
    /// By cgroup.
    pub(crate) trees: Vec<ServiceTree>,
}

impl Hierarchy {
    pub(crate) fn state(&self, id: EntityId) -> State {
        self.entities.get(id).map_or(State::Off, |entity| entity.state)
    }

    /// A flow of `cgroup` has a backlog now.
    pub(crate) fn activate(
        &mut self,
        tree: &Tree,
        id: EntityId,
        cgroup: u32,
        budget: u64,
        how: Return,
    ) {
        self.place_in(tree, id, cgroup, budget, how);
        self.refresh(tree, cgroup, how);
    }

    /// A flow that waits gets another budget.
    pub(crate) fn reposition(&mut self, tree: &Tree, id: EntityId, budget: u64) {
        let parent = self.entities[id].parent;
        let weight = weight(tree, id);
        self.trees[parent as usize].reposition(&mut self.entities, id, weight, budget);
        self.refresh(tree, parent, Return::Afresh);
    }

    /// A flow that waited has no backlog any more.
    pub(crate) fn deactivate(&mut self, tree: &Tree, id: EntityId) {
        let parent = self.entities[id].parent;
        self.trees[parent as usize].deactivate(&mut self.entities, id);
        self.refresh(tree, parent, Return::Afresh);
    }

    /// The client of the flow that is next, which holds the device from now on.
    pub(crate) fn select(&mut self) -> Option<EntityId> {
        let mut cgroup = ROOT;
        loop {
            let tree = self.trees.get_mut(cgroup as usize)?;
            let id = tree.select(&mut self.entities)?;
            match id.as_group() {
                Some(group) => cgroup = group,
                None => return Some(id),
            }
        }
    }

    /// Charges the flow in service, and everyone above it.
    pub(crate) fn charge(&mut self, id: EntityId, bytes: u64) {
        let mut at = id;
        loop {
            let parent = self.entities[at].parent;
            self.trees[parent as usize].charge(&mut self.entities, bytes);
            if parent == ROOT {
                return;
            }
            at = EntityId::group(parent);
        }
    }

    /// Ends the slot of the flow in service, on every level. With a backlog it gets `budget`.
    pub(crate) fn settle(&mut self, tree: &Tree, id: EntityId, budget: Option<u64>) {
        let (mut at, mut budget) = (id, budget);
        loop {
            let parent = self.entities[at].parent;
            let service_tree = &mut self.trees[parent as usize];
            service_tree.settle(&mut self.entities, at, weight(tree, at), budget);
            // V goes on to whoever is there, also at the root.
            let next = service_tree.next(&mut self.entities);
            if parent == ROOT {
                return;
            }
            budget = next.map(|next| self.entities[next].budget);
            at = EntityId::group(parent);
        }
    }

    /// A flow is gone; it has no backlog and is not in service.
    pub(crate) fn forget(&mut self, id: EntityId) {
        let Some(entity) = self.entities.get(id) else { return };
        if entity.state == State::Idle {
            let parent = entity.parent as usize;
            self.trees[parent].forget(&mut self.entities, id);
        }
        self.entities.reset(id);
    }

    /// A cgroup is gone; nothing is left below it.
    pub(crate) fn forget_group(&mut self, cgroup: u32) {
        self.forget(EntityId::group(cgroup));
        if let Some(service_tree) = self.trees.get_mut(cgroup as usize) {
            *service_tree = ServiceTree::new();
        }
    }

    /// A cgroup that is not in service has another parent in `tree` than it had.
    pub(crate) fn move_group(&mut self, tree: &Tree, cgroup: u32) {
        let id = EntityId::group(cgroup);
        let Some(&entity) = self.entities.get(id) else { return };
        let old = &mut self.trees;
        match entity.state {
            State::Off => {}
            State::Idle => old[entity.parent as usize].forget(&mut self.entities, id),
            State::InService => unreachable!("its slot is to end first"),
            State::Waiting | State::Eligible => {
                old[entity.parent as usize].deactivate(&mut self.entities, id);
                if self.entities[id].state == State::Idle {
                    self.trees[entity.parent as usize].forget(&mut self.entities, id);
                }
                self.refresh(tree, entity.parent, Return::Afresh);
                // What it received among its old siblings says nothing about its new ones.
                self.refresh(tree, cgroup, Return::Afresh);
            }
        }
    }

    /// Carries a change among the children of `cgroup` upwards, as far as it changes anything.
    fn refresh(&mut self, tree: &Tree, cgroup: u32, how: Return) {
        let mut at = cgroup;
        while self.trees[at as usize].in_service().is_none() {
            let next = self.trees[at as usize].next(&mut self.entities);
            if at == ROOT {
                return;
            }
            let id = EntityId::group(at);
            self.entities.ensure(id);
            let entity = self.entities[id];
            let parent = match next {
                None if !entity.state.is_active() => return,
                None => {
                    self.trees[entity.parent as usize].deactivate(&mut self.entities, id);
                    entity.parent
                }
                Some(next) => {
                    let budget = self.entities[next].budget;
                    if !entity.state.is_active() {
                        let parent = tree.cgroups[at].parent;
                        self.place_in(tree, id, parent, budget, how);
                        parent
                    } else if entity.budget == budget {
                        return;
                    } else {
                        let (parent, weight) = (entity.parent as usize, weight(tree, id));
                        self.trees[parent].reposition(&mut self.entities, id, weight, budget);
                        entity.parent
                    }
                }
            };
            at = parent;
        }
    }

    fn place_in(&mut self, tree: &Tree, id: EntityId, parent: u32, budget: u64, how: Return) {
        self.entities.ensure(id);
        if self.trees.len() <= parent as usize {
            self.trees.resize_with(parent as usize + 1, ServiceTree::new);
        }
        self.entities[id].parent = parent;
        let service_tree = &mut self.trees[parent as usize];
        service_tree.activate(&mut self.entities, id, weight(tree, id), budget, how);
    }
}

/// The weight to place an entity with: its cgroup's, or that of a client.
pub(crate) fn weight(tree: &Tree, id: EntityId) -> u32 {
    let weight = id.as_group().map_or(Weight::DEFAULT, |cgroup| tree.cgroups[cgroup].weight);
    u32::from(weight.get())
}
