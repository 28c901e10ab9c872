//! Life cycle of flows: creation, counting while busy, removal.

use crate::bfq::Bfq;
use crate::bfq::data::prio_of;
use crate::bfq::flow::Owner;
use crate::bfq::low_latency;
use crate::bfq::wf2q::State;
use crate::requests::Requests;
use crate::tree::Tree;

/// Time without requests after which a flow may be evicted: as long as membership in a large burst lasts
/// (spec/bfq 6.4).
const STALE_NS: u64 = 10_000_000_000;

impl Bfq {
    /// Removes a client without requests.
    pub(crate) fn forget(&mut self, tree: &Tree, requests: &Requests, client: u32) {
        self.close(tree, requests, Owner::client(client));
    }

    /// Removes a cgroup with nothing below it.
    pub(crate) fn forget_cgroup(&mut self, tree: &Tree, requests: &Requests, cgroup: u32) {
        let parent = tree.cgroups[cgroup].parent;
        self.data.counters.fold(cgroup, parent);
        self.destage.cgroup_removed(cgroup, parent);
        self.close(tree, requests, Owner::writeback(cgroup));
        self.data.schedule.forget_group(cgroup);
        self.merging.remove_group(cgroup);
    }

    /// Applies a client's new priority, from its flow's next activation on.
    pub(crate) fn reprioritize(&mut self, tree: &Tree, client: u32) {
        let owner = Owner::client(client);
        if let Some(at) = self.data.flows.of(owner) {
            self.update_traits(tree, at);
        }
    }

    /// Applies the new priority of a cgroup's writeback.
    pub(crate) fn reprioritize_writeback(&mut self, tree: &Tree, cgroup: u32) {
        let owner = Owner::writeback(cgroup);
        if let Some(at) = self.data.flows.of(owner) {
            self.data.schedule.set_prio(at, prio_of(tree, owner, cgroup));
        }
    }

    /// The own flow of `owner`, which sent the request at `index`. Opened if it has none.
    // Inline on the hot path, although a switch of schedulers calls it too.
    #[inline(always)]
    pub(in crate::bfq) fn own_flow(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        index: u32,
        owner: Owner,
    ) -> u32 {
        let own_flow = self.data.flows.of(owner);
        own_flow.unwrap_or_else(|| {
            let cgroup = tree.tasks[requests[index].task].cgroup;
            self.open(tree, requests, owner, cgroup)
        })
    }

    /// Opens a flow for `owner`.
    #[cold]
    pub(in crate::bfq) fn open(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        owner: Owner,
        cgroup: u32,
    ) -> u32 {
        self.evict_stale(tree, requests);
        let at = self.data.flows.open(self.data.now, owner, self.data.device.tunables());
        self.data.schedule.open(at, owner, cgroup, prio_of(tree, owner, cgroup));
        self.data.counters.make_room(cgroup);
        if !self.is_cooperation_off() {
            self.pos_tree.make_room(self.data.flows.id(at));
        }
        if owner.as_client().is_some() {
            self.low_latency.opened(&mut self.data, tree, at);
            self.open_queue(tree, requests, at);
        }
        at
    }

    /// Evicts flows without requests for [`STALE_NS`], whose clients start anew when they come back. Each creation
    /// looks at two, so flows are never many more than twice the clients of that time. O(1), and nothing for a
    /// request.
    pub(in crate::bfq) fn evict_stale(&mut self, tree: &Tree, requests: &Requests) {
        for _ in 0..2 {
            let Some(at) = self.data.flows.advance_clock_hand() else { return };
            // A merged flow is stale only with its effective flow.
            let shared =
                self.merging.representative(self.data.flows.id(at)).map(|queue| queue.index);
            let is_away = |at: u32| {
                let is_counted = self.data.schedule.entity(at).is_counted;
                !is_counted && self.data.now.nanos_since(self.data.flows[at].last_end) > STALE_NS
            };
            if shared.is_some_and(|shared| is_away(at) && is_away(shared)) {
                self.close(tree, requests, self.data.schedule.owner(at));
            }
        }
    }

    /// The owner of a flow is gone.
    pub(in crate::bfq) fn close(&mut self, tree: &Tree, requests: &Requests, owner: Owner) {
        let Some(at) = self.data.flows.close(owner) else { return };
        self.low_latency.closed(at);
        if owner.as_client().is_some() {
            self.close_queue(tree, at);
        }
        self.abandon(tree, requests, at);
    }

    /// Stops counting a flow that is neither busy nor at the device, and frees it if it has no client.
    #[inline]
    pub(in crate::bfq) fn uncount_if_idle(&mut self, at: u32) {
        if self.data.flows[at].in_flight > 0 {
            return;
        }
        if matches!(self.data.schedule.entity(at).state, State::Off | State::Idle) {
            self.uncount(at);
        }
    }

    /// A flow is neither busy nor at the device.
    #[inline(never)]
    fn uncount(&mut self, at: u32) {
        if self.data.schedule.uncount(at) {
            low_latency::emptied(&mut self.data, at);
        }
        if self.data.flows[at].is_orphaned() {
            low_latency::end(&mut self.data, at);
            self.data.schedule.forget(at);
            self.data.flows.release(at);
        }
    }
}
