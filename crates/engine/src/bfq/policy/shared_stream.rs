//! Choice among the requests of a shared stream, and the wait for its straggler.

use crate::bfq::Bfq;
use crate::bfq::flow::Owner;
use crate::bfq::in_service::InService;
use crate::merge::Position;
use crate::requests::Requests;
use crate::tree::Tree;

impl Bfq {
    /// Whether flow `at` is a shared stream, on a rotational device.
    #[inline]
    pub(in crate::bfq) fn is_shared_stream(&self, at: u32) -> bool {
        if !self.data.tunables().rotational {
            return false;
        }
        let flow = &self.data.flows[at];
        !flow.is_alone()
            && !flow.is_seeky()
            && self.merging.sets().members(self.data.flows.id(at)) > 1
    }

    /// The next request of flow `at`, in service: of a shared stream that of the straggler.
    #[inline]
    pub(in crate::bfq) fn pick(&self, tree: &Tree, requests: &Requests, at: u32) -> Option<u32> {
        let flow = &self.data.flows[at];
        let picked = flow.pick(self.data.now, requests, self.data.tunables())?;
        if !self.is_shared_stream(at) || flow.queued == 1 || self.is_held_for_long(requests, picked)
        {
            return Some(picked);
        }
        let first = self.data.flows.first_of(at)?;
        let is_near = self.data.flows.position_of(picked) - self.data.flows.position_of(first)
            <= self.data.tunables().back_seek_max;
        let is_member = || self.shared_stream.is_strided(at, Owner::of(tree, requests, first));
        Some(if is_near && is_member() { first } else { picked })
    }

    /// Whether the request at `index`, next of the flow in service, waits for a straggler behind it.
    ///
    /// If the others went on without it, a disk that serves the nearest request first would leave it ever further
    /// behind.
    #[inline]
    pub(in crate::bfq) fn waits_for_straggler(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        at: u32,
        index: u32,
    ) -> bool {
        if !self.is_shared_stream(at) {
            return false;
        }
        let Some(Position(end)) = self.in_service.as_ref().and_then(InService::last_end) else {
            return false;
        };
        let place = self.data.flows.position_of(index);
        let is_ahead = place > end && place - end <= self.data.tunables().back_seek_max;
        let is_member = || self.shared_stream.is_strided(at, Owner::of(tree, requests, index));
        if !is_ahead || !is_member() || self.is_held_for_long(requests, index) {
            return false;
        }
        let waits = self.data.flows[at].in_flight > 0
            || self.shared_stream.awaits(self.data.now, place).is_some();
        if waits && self.shared_stream.hold() {
            self.data.counters.held();
        }
        waits
    }

    /// Whether a request of the flow in service has waited too long: the straggler may be gone for good.
    fn is_held_for_long(&self, requests: &Requests, index: u32) -> bool {
        let since = requests[index].since;
        let from =
            self.in_service.as_ref().map_or(since, |in_service| in_service.since().max(since));
        self.data.now.nanos_since(from) >= self.data.tunables().fifo_expire_sync_ns
    }

    /// Notes that flow `at`, in service, dispatches the request at `index`.
    #[inline]
    pub(in crate::bfq) fn note_member(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        at: u32,
        index: u32,
    ) {
        self.shared_stream.go_on();
        if self.is_shared_stream(at) {
            let owner = Owner::of(tree, requests, index);
            let most = self.data.tunables().back_seek_max;
            self.shared_stream.sent(at, owner, index, requests[index].request.extent, most);
        }
    }
}
