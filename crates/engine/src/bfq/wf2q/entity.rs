//! Entities: flows and cgroups, as their parent's service tree sees them.

use alloc::vec::Vec;

use super::heap::IdleLinks;
use super::vtime::Vtime;
use crate::bfq::flow::Owner;
use crate::priority::PriorityClass;
use crate::tree::NO_CGROUP;

/// Names a flow or a cgroup, by its index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntityId(u32);

const GROUP_BIT: u32 = 1 << 31;

impl EntityId {
    /// The name of none.
    pub(crate) const NONE: EntityId = EntityId(u32::MAX);

    pub(crate) fn flow(flow: u32) -> EntityId {
        assert!(flow < GROUP_BIT, "fewer than 2^31 flows");
        EntityId(flow)
    }

    pub(crate) fn group(cgroup: u32) -> EntityId {
        assert!(cgroup < GROUP_BIT - 1, "fewer than 2^31 - 1 cgroups");
        EntityId(cgroup | GROUP_BIT)
    }

    /// The name as a number, for who keeps it together with others.
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// The opposite of [`EntityId::bits`].
    #[inline]
    pub(crate) const fn from_bits(bits: u32) -> EntityId {
        EntityId(bits)
    }

    /// The index of a flow.
    pub(crate) fn as_flow(self) -> u32 {
        debug_assert_eq!(self.as_group(), None);
        self.0
    }

    /// The cgroup's index, if it is one.
    pub(crate) fn as_group(self) -> Option<u32> {
        (self.0 & GROUP_BIT != 0).then_some(self.0 & !GROUP_BIT)
    }

    fn index(self) -> usize {
        (self.0 & !GROUP_BIT) as usize
    }
}

/// Where an entity stands with its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum State {
    /// Forgotten: it has no backlog, and V has passed its finish.
    #[default]
    Off,
    /// Backlogged, and V has not reached its start, or had not when it was last looked at.
    Waiting,
    /// Backlogged, and V has reached its start.
    Eligible,
    /// It holds the device, or a flow below it does. In none of its parent's heaps then.
    InService,
    /// No backlog, but V has not passed its finish: it may not start afresh at V.
    Idle,
}

impl State {
    /// Whether it waits for its turn.
    pub(crate) fn is_active(self) -> bool {
        matches!(self, State::Waiting | State::Eligible)
    }
}

/// A flow or a cgroup in its parent's service tree (spec/bfq 1.5). A line of cache: there may be a million.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Entity {
    pub(crate) start: Vtime,
    pub(crate) finish: Vtime,
    /// Bytes charged in this slot.
    pub(crate) service: u64,
    /// Bytes it may have in a slot; a cgroup's is that of its next child.
    pub(crate) budget: u64,
    /// The weight it is placed with.
    pub(crate) weight: u32,
    /// Index in the heap that `state` says; in the list of the idle, which one came before which.
    pub(crate) place: u32,
    /// Who is beside it in the list of the idle.
    pub(crate) idle_links: IdleLinks,
    pub(crate) parent: u32,
    /// Whose flow it is; [`Owner::NONE`] of a cgroup.
    pub(crate) owner: Owner,
    /// The weight of a flow from its next placing on; a cgroup's is in the tree.
    pub(crate) next_weight: u16,
    /// What a flow's weight is multiplied with from its next placing on.
    pub(crate) next_wr_coeff: u16,
    pub(crate) state: State,
    /// The class it is placed with.
    pub(crate) class: PriorityClass,
    /// The class of a flow from its next placing on.
    pub(crate) next_class: PriorityClass,
    /// Whether [`crate::bfq::scenario::Scenario`] counts it: a flow, while it is busy or has requests at the device.
    pub(crate) is_counted: bool,
}

const _: () = assert!(size_of::<Entity>() == 64);

impl Entity {
    const NEW: Entity = Entity {
        start: Vtime::ZERO,
        finish: Vtime::ZERO,
        service: 0,
        budget: 0,
        weight: 0,
        place: 0,
        idle_links: IdleLinks::NONE,
        parent: NO_CGROUP,
        owner: Owner::NONE,
        next_weight: 0,
        next_wr_coeff: 1,
        state: State::Off,
        class: PriorityClass::BestEffort,
        next_class: PriorityClass::BestEffort,
        is_counted: false,
    };

    /// Whether a request charged that goes in this slot. The first always does: it may be older than the one the budget
    /// was made for.
    #[inline]
    pub(crate) fn has_room(&self, charge: u64) -> bool {
        self.service == 0 || self.service + charge <= self.budget
    }
}

/// Every entity, by id.
#[derive(Default)]
pub(crate) struct Entities {
    flows: Vec<Entity>,
    groups: Vec<Entity>,
}

impl Entities {
    /// Makes room for `id`.
    pub(crate) fn ensure(&mut self, id: EntityId) {
        let entities = match id.as_group() {
            Some(_) => &mut self.groups,
            None => &mut self.flows,
        };
        if entities.len() <= id.index() {
            make_room(entities, id.index() + 1);
        }
    }

    /// Forgets all about `id`, which must be in no heap.
    pub(crate) fn reset(&mut self, id: EntityId) {
        debug_assert_eq!(self[id].state, State::Off);
        self[id] = Entity::NEW;
    }

    /// The entity, if there has been room made for it.
    pub(crate) fn get(&self, id: EntityId) -> Option<&Entity> {
        match id.as_group() {
            Some(_) => self.groups.get(id.index()),
            None => self.flows.get(id.index()),
        }
    }

    /// The entity of a flow: [`EntityId::flow`] need not be asked what it names.
    #[inline]
    pub(crate) fn flow(&self, flow: u32) -> &Entity {
        &self.flows[flow as usize]
    }

    #[inline]
    pub(crate) fn flow_mut(&mut self, flow: u32) -> &mut Entity {
        &mut self.flows[flow as usize]
    }

    /// The entity of a cgroup, for which room is made now if there is none.
    #[inline]
    pub(crate) fn ensure_group(&mut self, cgroup: u32) -> &mut Entity {
        if self.groups.len() <= cgroup as usize {
            make_room(&mut self.groups, cgroup as usize + 1);
        }
        &mut self.groups[cgroup as usize]
    }

    /// The entity of a cgroup that there has been room made for.
    #[inline]
    pub(crate) fn group_mut(&mut self, cgroup: u32) -> &mut Entity {
        &mut self.groups[cgroup as usize]
    }

    /// Everyone there has been room made for.
    pub(crate) fn ids(&self) -> impl Iterator<Item = EntityId> {
        // Indices fit: `ensure` took them from ids.
        let groups = (0..self.groups.len()).map(|index| EntityId::group(index as u32));
        (0..self.flows.len()).map(|index| EntityId::flow(index as u32)).chain(groups)
    }
}

#[cold]
fn make_room(entities: &mut Vec<Entity>, len: usize) {
    entities.resize(len, Entity::NEW);
}

impl core::ops::Index<EntityId> for Entities {
    type Output = Entity;

    fn index(&self, id: EntityId) -> &Entity {
        match id.as_group() {
            Some(_) => &self.groups[id.index()],
            None => &self.flows[id.index()],
        }
    }
}

impl core::ops::IndexMut<EntityId> for Entities {
    fn index_mut(&mut self, id: EntityId) -> &mut Entity {
        match id.as_group() {
            Some(_) => &mut self.groups[id.index()],
            None => &mut self.flows[id.index()],
        }
    }
}
