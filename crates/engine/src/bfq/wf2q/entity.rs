//! Entities: flows and cgroups as their parent's service tree sees them (`bfq_entity`), and the virtual time of both.

use alloc::vec::Vec;

use crate::bfq::flow::Owner;
use crate::tree::NO_CGROUP;
use crate::types::PriorityClass;

/// Id of a flow or a cgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntityId(u32);

const GROUP_BIT: u32 = 1 << 31;

impl EntityId {
    /// No entity.
    pub(crate) const NONE: EntityId = EntityId(u32::MAX);

    pub(crate) fn flow(flow: u32) -> EntityId {
        assert!(flow < GROUP_BIT, "fewer than 2^31 flows");
        EntityId(flow)
    }

    pub(crate) fn group(cgroup: u32) -> EntityId {
        assert!(cgroup < GROUP_BIT - 1, "fewer than 2^31 - 1 cgroups");
        EntityId(cgroup | GROUP_BIT)
    }

    /// The id as a number.
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

/// Neighbours in the idle list; [`EntityId::NONE`] at its ends. An entity in the heap has itself before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdleLinks {
    pub(crate) before: EntityId,
    pub(crate) behind: EntityId,
}

impl IdleLinks {
    pub(crate) const NONE: IdleLinks = IdleLinks { before: EntityId::NONE, behind: EntityId::NONE };
}

/// State of an entity in its parent's service tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum State {
    /// In no tree: no backlog, and V has passed its finish.
    #[default]
    Off,
    /// Backlogged; V had not reached its start when last looked at.
    Waiting,
    /// Backlogged; V has reached its start.
    Eligible,
    /// In service, or a flow below it is. In no heap.
    InService,
    /// No backlog, but V has not passed its finish, so it may not start at V.
    Idle,
}

impl State {
    /// Whether it waits for service.
    pub(crate) fn is_active(self) -> bool {
        matches!(self, State::Waiting | State::Eligible)
    }
}

/// Flow or cgroup in its parent's service tree (spec/bfq 1.5). A cache line: there may be a million.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Entity {
    pub(crate) start: Vtime,
    pub(crate) finish: Vtime,
    /// Bytes charged in this slot.
    pub(crate) service: u64,
    /// Budget in bytes; a cgroup's is that of its next child.
    pub(crate) budget: u64,
    /// Weight it was activated with.
    pub(crate) weight: u32,
    /// Index in the heap of `state`; order of insertion in the idle list.
    pub(crate) place: u32,
    /// Neighbours in the idle list.
    pub(crate) idle_links: IdleLinks,
    pub(crate) parent: u32,
    /// Owner of a flow; [`Owner::NONE`] for a cgroup.
    pub(crate) owner: Owner,
    /// Weight of a flow from its next activation on; a cgroup's is in the tree.
    pub(crate) next_weight: u16,
    /// Weight raising factor of a flow from its next activation on.
    pub(crate) next_wr_coeff: u16,
    pub(crate) state: State,
    /// Class it was activated with.
    pub(crate) class: PriorityClass,
    /// Class of a flow from its next activation on.
    pub(crate) next_class: PriorityClass,
    /// Whether the flow is counted as busy: backlogged, in service, or with requests at the device.
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

    /// Whether a request of this charge fits into the budget. The first of a slot always does, since it may be older
    /// than the one the budget was made for.
    #[inline]
    pub(crate) fn has_room(&self, charge: u64) -> bool {
        self.service == 0 || self.service + charge <= self.budget
    }
}

/// All entities, by id.
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

    /// Resets an entity that is in no tree.
    pub(crate) fn reset(&mut self, id: EntityId) {
        debug_assert_eq!(self[id].state, State::Off);
        self[id] = Entity::NEW;
    }

    /// The entity, if there is room for it.
    pub(crate) fn get(&self, id: EntityId) -> Option<&Entity> {
        match id.as_group() {
            Some(_) => self.groups.get(id.index()),
            None => self.flows.get(id.index()),
        }
    }

    /// The entity of a flow, without a look at the kind of id.
    #[inline]
    pub(crate) fn flow(&self, flow: u32) -> &Entity {
        &self.flows[flow as usize]
    }

    #[inline]
    pub(crate) fn flow_mut(&mut self, flow: u32) -> &mut Entity {
        &mut self.flows[flow as usize]
    }

    /// The entity of a cgroup. Makes room for it.
    #[inline]
    pub(crate) fn ensure_group(&mut self, cgroup: u32) -> &mut Entity {
        if self.groups.len() <= cgroup as usize {
            make_room(&mut self.groups, cgroup as usize + 1);
        }
        &mut self.groups[cgroup as usize]
    }

    /// The entity of a cgroup that has room.
    #[inline]
    pub(crate) fn group_mut(&mut self, cgroup: u32) -> &mut Entity {
        &mut self.groups[cgroup as usize]
    }

    /// Ids of all entities with room.
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

/// Fractional bits. Sixteen more than in the kernel, which counts sectors: there 512 bytes among 100,000 cgroups of
/// weight 1,000 are 0.02 units, and V would stand still. Here they are 2,748, and 274 at weight 10,000.
const FRACTION_BITS: u32 = 29;

/// Instant of a service tree's virtual time, on a circle of 2^64.
///
/// Two instants are comparable within half the circle, 16 GiB of service at weight 1. All that is compared lies
/// within two budgets of V, and a budget is at most 4 GiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Vtime(u64);

impl Vtime {
    pub(crate) const ZERO: Vtime = Vtime(0);

    /// The instant as a number.
    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The opposite of [`Vtime::bits`].
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Vtime {
        Vtime(bits)
    }

    pub(crate) fn is_after(self, other: Vtime) -> bool {
        self.ahead_of(other) > 0
    }

    /// Distance after another instant; negative if before, which is the upper half of the circle.
    pub(crate) fn ahead_of(self, other: Vtime) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    pub(crate) fn latest(self, other: Vtime) -> Vtime {
        if other.is_after(self) { other } else { self }
    }

    /// This instant after `bytes` of service at `weight`, at least 1. Rounds down: V lags by less than a unit a
    /// request, which at 4 KiB and a weight sum of 10,000,000 is one in 200,000, and of 1,000,000,000 one in 2,000.
    pub(crate) fn after(self, bytes: u64, weight: u64) -> Vtime {
        debug_assert!(bytes < 1 << (64 - FRACTION_BITS), "{bytes} bytes in one slot");
        Vtime(self.0.wrapping_add((bytes << FRACTION_BITS) / weight))
    }

    /// This instant, `old / new` times as far from `center`.
    pub(crate) fn scaled_about(self, center: Vtime, old: u32, new: u32) -> Vtime {
        let ahead = i128::from(self.ahead_of(center)) * i128::from(old) / i128::from(new.max(1));
        // A quarter of the circle is more than any two budgets.
        let ahead = ahead.clamp(-(1 << 62), 1 << 62) as i64;
        Vtime(center.0.wrapping_add_signed(ahead))
    }

    /// This instant, later by the distance from `from` to `to`.
    pub(crate) fn shifted(self, from: Vtime, to: Vtime) -> Vtime {
        Vtime(self.0.wrapping_add(to.0.wrapping_sub(from.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_counts_by_weight() {
        // spec/bfq EX-4: 1,200 sectors at weight 40 are 30 sectors at weight 1.
        let zero = Vtime::ZERO;
        assert_eq!(zero.after(1200 * 512, 40), zero.after(30 * 512, 1));
        assert_eq!(zero.after(30 * 512, 1), Vtime((30 << 22) << 16));
    }

    #[test]
    fn time_goes_on_past_the_end_of_the_circle() {
        let late = Vtime(u64::MAX - 5);
        let later = late.after(1, 1);
        assert!(later.is_after(late) && !late.is_after(later) && !late.is_after(late));
        assert_eq!(late.latest(later), later);
        assert_eq!(later.latest(late), later);
        assert_eq!(Vtime(7).shifted(late, later), Vtime(7 + (1 << FRACTION_BITS)));
    }

    #[test]
    fn a_distance_is_as_many_bytes_at_another_weight() {
        let center = Vtime(u64::MAX - 5);
        for (old, new) in [(1, 1000), (1000, 1), (40, 80)] {
            let bytes = 1000 << 10;
            let (ahead, wanted) =
                (center.after(bytes, old.into()), center.after(bytes, new.into()));
            assert_eq!(ahead.scaled_about(center, old, new), wanted);
            let behind = |at: Vtime| Vtime(center.0.wrapping_sub(at.0.wrapping_sub(center.0)));
            assert_eq!(behind(ahead).scaled_about(center, old, new), behind(wanted));
        }
        let far = center.after(8 << 30, 1);
        assert_eq!(far.scaled_about(center, 1000, 1).ahead_of(center), 1 << 62);
    }
}
