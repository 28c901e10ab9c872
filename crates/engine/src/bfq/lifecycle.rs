//! Life cycle of flows: creation, counting while they are busy, removal.

use super::Bfq;
use super::flow::{Kind, Owner};
use super::wf2q::Hierarchy;
use super::wf2q::Prio;
use super::wf2q::{Entity, EntityId, State};
use crate::priority::{Priority, PriorityClass};
use crate::requests::Requests;
use crate::tree::Tree;

/// Time after which what is known of a client may be forgotten: as long as a flow is remembered to have begun among many
/// (spec/bfq 6.4).
const STALE_NS: u64 = 10_000_000_000;

impl Bfq {
    /// Forgets a client that is going away; it has no request left.
    pub(crate) fn forget(&mut self, tree: &Tree, requests: &Requests, client: u32) {
        self.close(tree, requests, Owner::client(client));
    }

    /// Forgets a cgroup that is going away; nothing is below it.
    pub(crate) fn forget_cgroup(&mut self, tree: &Tree, requests: &Requests, cgroup: u32) {
        let parent = tree.cgroups[cgroup].parent;
        self.counters.fold(cgroup, parent);
        self.inherit_destage(cgroup, parent);
        self.close(tree, requests, Owner::writeback(cgroup));
        self.hierarchy.forget_group(cgroup);
        self.merging.remove_group(cgroup);
    }

    /// The priority of a client, or what its cgroup makes of it, has changed. Counts from its next placing on.
    pub(crate) fn reprioritize(&mut self, tree: &Tree, client: u32) {
        let owner = Owner::client(client);
        if let Some(at) = self.flows.of(owner) {
            self.update_traits(tree, at);
        }
    }

    /// The same, for the writeback of a cgroup.
    pub(crate) fn reprioritize_writeback(&mut self, tree: &Tree, cgroup: u32) {
        let owner = Owner::writeback(cgroup);
        if let Some(at) = self.flows.of(owner) {
            self.set_prio(at, prio_of(tree, owner, cgroup));
        }
    }

    /// The flow of `owner`, who sent the request at `index`; made now if there is none.
    // In place on the way of each request, though a switch of schedulers calls it too.
    #[inline(always)]
    pub(super) fn own_flow(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        index: u32,
        owner: Owner,
    ) -> u32 {
        let own_flow = self.flows.of(owner);
        own_flow.unwrap_or_else(|| {
            let cgroup = tree.tasks[requests[index].task].cgroup;
            self.open(tree, requests, owner, cgroup)
        })
    }

    /// Makes a flow for `owner`.
    #[cold]
    pub(super) fn open(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        owner: Owner,
        cgroup: u32,
    ) -> u32 {
        self.evict_stale(tree, requests);
        let at = self.flows.open(self.now, owner, &self.tunables);
        self.hierarchy.open(EntityId::flow(at), owner, cgroup, prio_of(tree, owner, cgroup));
        self.counters.make_room(cgroup);
        if !self.is_cooperation_off() {
            self.pos_tree.make_room(self.flows.id(at));
        }
        if owner.as_client().is_some() {
            self.note_creation(tree, at);
            self.open_queue(tree, requests, at);
        }
        at
    }

    /// Forgets flows of clients that have been away for so long that what is known of them says little: they are new
    /// when they come back. Two are looked at for each that is made, so that there are never many more than twice those
    /// who came in that time, however many clients are connected. O(1), and nothing for a request.
    pub(super) fn evict_stale(&mut self, tree: &Tree, requests: &Requests) {
        for _ in 0..2 {
            let Some(at) = self.flows.advance_clock_hand() else { return };
            // Who has merged is served as another.
            let shared = self.merging.representative(self.flows.id(at)).map(|queue| queue.index);
            let is_away = |at: u32| {
                let is_counted = self.hierarchy.entities.flow(at).is_counted;
                !is_counted && self.now.nanos_since(self.flows[at].last_end) > STALE_NS
            };
            if shared.is_some_and(|shared| is_away(at) && is_away(shared)) {
                self.close(tree, requests, self.hierarchy.owner(EntityId::flow(at)));
            }
        }
    }

    /// Nobody uses the flow of `owner` any more.
    pub(super) fn close(&mut self, tree: &Tree, requests: &Requests, owner: Owner) {
        let Some(at) = self.flows.close(owner) else { return };
        self.burst.forget(at);
        if owner.as_client().is_some() {
            self.close_queue(tree, at);
        }
        self.abandon(tree, requests, at);
    }

    /// What a flow is placed with next.
    pub(super) fn prio(&self, at: u32) -> Prio {
        let entity = self.hierarchy.entities.flow(at);
        Prio { class: entity.next_class, weight: entity.next_weight.into() }
    }

    pub(super) fn set_prio(&mut self, at: u32, prio: Prio) {
        let id = EntityId::flow(at);
        self.with_recount(at, |hierarchy| hierarchy.set_prio(id, prio));
    }

    /// Where a flow is counted and what it is placed with change in one place (spec/bfq D-17).
    pub(super) fn with_recount(&mut self, at: u32, change: impl FnOnce(&mut Hierarchy)) {
        let is_counted = self.hierarchy.entities.flow(at).is_counted;
        if is_counted {
            self.leave(at);
        }
        change(&mut self.hierarchy);
        if is_counted {
            self.enter(at);
        }
    }

    pub(super) fn enter(&mut self, at: u32) {
        let (cgroup, class, weight) = counted_as(self.hierarchy.entities.flow(at));
        self.scenario.enter(cgroup, class, weight);
    }

    pub(super) fn leave(&mut self, at: u32) {
        let (cgroup, class, weight) = counted_as(self.hierarchy.entities.flow(at));
        self.scenario.leave(cgroup, class, weight);
    }

    /// Counts a flow that is busy.
    pub(super) fn count(&mut self, at: u32) {
        if !core::mem::replace(&mut self.hierarchy.entities.flow_mut(at).is_counted, true) {
            self.enter(at);
        }
    }

    /// Counts a flow no longer that is neither busy nor at the device, and frees it if nobody uses it either.
    #[inline]
    pub(super) fn uncount_if_idle(&mut self, at: u32) {
        if self.flows[at].in_flight > 0 {
            return;
        }
        if matches!(self.hierarchy.entities.flow(at).state, State::Off | State::Idle) {
            self.uncount(at);
        }
    }

    /// A flow is neither busy nor at the device.
    #[inline(never)]
    fn uncount(&mut self, at: u32) {
        let id = EntityId::flow(at);
        if core::mem::take(&mut self.hierarchy.entities[id].is_counted) {
            self.leave(at);
            self.note_emptied(at);
        }
        if self.flows[at].is_orphaned() {
            self.end_weight_raising(at);
            self.hierarchy.forget(id);
            self.flows.release(at);
        }
    }
}

/// A flow's cgroup, class and weight, none while that is raised.
pub(super) fn counted_as(entity: &Entity) -> (u32, PriorityClass, Option<u32>) {
    let weight = (entity.next_wr_coeff == 1).then_some(entity.next_weight.into());
    (entity.parent, entity.next_class, weight)
}

/// What the flow of `owner`, in `cgroup`, is placed with.
pub(super) fn prio_of(tree: &Tree, owner: Owner, cgroup: u32) -> Prio {
    let priority = match owner.kind() {
        Kind::Client(client) => tree.clients[client].priority,
        Kind::Writeback(_) => Priority::default(),
    };
    let priority = tree.cgroups[cgroup].prio_class.apply(priority);
    Prio { class: priority.class(), weight: priority.weight().get() }
}
