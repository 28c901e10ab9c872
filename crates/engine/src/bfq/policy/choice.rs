//! Choice of the next request: the slot goes on, or expires and the next flow is selected; and what the device has room for.

use crate::bfq::Bfq;
use crate::bfq::budget::Expiry;
use crate::bfq::coalescing::CoalescedRun;
use crate::bfq::idling;
use crate::bfq::in_service::InService;
use crate::requests::Requests;
use crate::tree::Tree;
use crate::types::{Instant, Request};

impl Bfq {
    /// Fast path: flow in service, its next request and charge, if the slot clearly goes on. Any other case is left
    /// to [`Bfq::choose`].
    #[inline(always)]
    pub(in crate::bfq) fn goes_on(&self, requests: &Requests) -> Option<(u32, u32, u64)> {
        let in_service = self.in_service.as_ref()?;
        let at = in_service.flow();
        let is_busy = self.data.tunables().strict_guarantees && self.data.device.in_flight() > 0;
        let may_stay = !in_service.is_over(self.data.now) && !self.leaves_long_destage();
        if is_busy || !may_stay || self.is_shared_stream(at) {
            return None;
        }
        let flow = &self.data.flows[at];
        let index = flow.pick(self.data.now, requests, self.data.tunables())?;
        let charge = self.data.charge_of(flow, at, &requests[index]);
        let entity = self.data.schedule.entity(at);
        let may_be_preempted = entity.next_wr_coeff == 1 && self.data.schedule.raised() > 0;
        let stays = entity.has_room(charge) && !may_be_preempted;
        (stays && !self.is_full_for(requests, index)).then_some((at, index, charge))
    }

    /// Chooses and dispatches the next request of any flow.
    #[inline(never)]
    pub(in crate::bfq) fn choose(
        &mut self,
        tree: &mut Tree,
        requests: &mut Requests,
    ) -> Option<u32> {
        if self.data.tunables().strict_guarantees && self.data.device.in_flight() > 0 {
            return None;
        }
        loop {
            let at = match &self.in_service {
                Some(in_service) => in_service.flow(),
                None => {
                    if self.waits_for_destage(tree, requests) {
                        return None;
                    }
                    let in_service = self.in_service.insert(InService::select(&mut self.data)?);
                    self.shared_stream.begin();
                    in_service.flow()
                }
            };
            let picked = self.pick(tree, requests, at);
            let in_service = self.in_service.as_ref()?;
            let expiry = match picked {
                None if idling::is_waited_for(&mut self.data, in_service, requests) => {
                    return self.inject(tree, requests);
                }
                None => in_service.rest_expiry(&self.data),
                Some(_) if self.has_timed_out() => Expiry::BudgetTimeout,
                Some(_) if in_service.should_preempt_for_raised(&mut self.data) => {
                    Expiry::Preempted
                }
                Some(index) if self.waits_for_straggler(tree, requests, at, index) => return None,
                Some(index) => {
                    let charge = self.data.charge(requests, at, index);
                    let entity = self.data.schedule.entity(at);
                    if entity.has_room(charge) {
                        if self.is_full_for(requests, index) {
                            return None;
                        }
                        self.dispatch(tree, requests, at, index, charge);
                        return Some(index);
                    }
                    Expiry::BudgetExhausted
                }
            };
            self.expire(tree, requests, expiry);
        }
    }
}

/// Coalescing: adjacent requests of one flow are dispatched as one command (spec/bfq 4.3).
///
/// Requests coalesce at dispatch, not on arrival: until then each waits, ages and is withdrawn by itself. The sort
/// list finds neighbours on both sides.
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
        let at = Some(run.flow()).filter(|&at| self.is_in_service(at))?;
        // All requests waiting with the first, divided by the room at its dispatch.
        let shares = || (u64::from(self.data.waiting) + 1).div_ceil(u64::from(room) + 1) as u32 - 1;
        let left = run.left(shares)?;
        let index = self.data.flows[at].pick(now, requests, self.data.tunables())?;
        if self.is_full_for(requests, index) {
            return None;
        }
        let request = &requests[index].request;
        let bytes = run.bytes_with(request);
        let entity = self.data.schedule.entity(at);
        let charge = self.data.charge(requests, at, index);
        let fits = entity.service + charge <= entity.budget;
        let bytes = bytes.filter(|_| fits && !self.has_timed_out())?;
        self.dispatch(tree, requests, at, index, charge);
        self.data.counters.coalesced();
        self.run = self.run.map(|run| run.continued(bytes, left));
        Some(index)
    }
}

/// Room at the device.
impl Bfq {
    /// A flow becomes busy: others may share the device with it.
    #[inline]
    pub(in crate::bfq) fn extend_flash_bound(&mut self, at: u32) {
        if self.data.tunables().queueing_flash()
            && self.data.tunables().slice_idle_ns > 0
            && self.data.schedule.is_asymmetric(at)
        {
            self.data.device.extend_flash_bound(self.data.now);
        }
    }

    /// Whether the request at `index` waits for room.
    #[inline]
    pub(in crate::bfq) fn is_full_for(&self, requests: &Requests, index: u32) -> bool {
        self.data.device.is_full(self.data.now, requests[index].request.data_len())
    }
}
