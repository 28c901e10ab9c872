//! Coalescing: adjacent requests of one flow are dispatched as one command (spec/bfq 4.3).
//!
//! Requests coalesce at dispatch, not on arrival: until then each waits, ages and is withdrawn by itself. The sort
//! list finds neighbours on both sides.

use crate::bfq::Bfq;
use crate::bfq::coalesced_run::CoalescedRun;
use crate::requests::Requests;
use crate::tree::Tree;
use crate::types::{Instant, Request};

impl Bfq {
    /// Starts a command with a request of flow `at`, to which others may be added.
    pub(in crate::bfq) fn begin_coalescing(&mut self, request: &Request, at: u32, is_stream: bool) {
        self.run = CoalescedRun::start(request, at, is_stream);
    }

    /// The next request of the flow in service, if it continues the last one. `room`: how many requests the device
    /// has room for besides.
    ///
    /// No more coalesce than needed to bring all waiting requests to the device: while there is room for each, more
    /// commands at once are faster.
    pub(crate) fn next_coalesced(
        &mut self,
        now: Instant,
        room: u32,
        tree: &mut Tree,
        requests: &mut Requests,
    ) -> Option<u32> {
        let run = self.run.take()?;
        let in_service = self.in_service.filter(|in_service| in_service.flow == run.flow())?;
        // All requests waiting with the first, divided by the room at its dispatch.
        let shares = || (u64::from(self.len) + 1).div_ceil(u64::from(room) + 1) as u32 - 1;
        let left = run.left(shares)?;
        let index = self.flows[in_service.flow].pick(now, requests, self.device.tunables())?;
        if self.is_full_for(requests, index) {
            return None;
        }
        let request = &requests[index].request;
        let bytes = run.bytes_with(request);
        let entity = self.schedule.entity(in_service.flow);
        let charge = self.charge(requests, in_service.flow, index);
        let fits = entity.service + charge <= entity.budget;
        let bytes = bytes.filter(|_| fits && !self.has_timed_out())?;
        self.dispatch(tree, requests, in_service.flow, index, charge);
        self.counters.coalesced();
        self.run = self.run.map(|run| run.continued(bytes, left));
        Some(index)
    }
}
