//! Choice of the next request: the slot goes on, or expires and the next flow is selected; and what the device has room for.

use crate::bfq::Bfq;
use crate::bfq::budget::Expiry;
use crate::bfq::device::LONG_ON_FLASH;
use crate::bfq::in_service::CoalescedRun;
use crate::requests::Requests;
use crate::tree::Tree;
use crate::types::{Instant, Request};

impl Bfq {
    /// Fast path: flow in service, its next request and charge, if the slot clearly goes on. Any other case is left
    /// to [`Bfq::choose`].
    #[inline(always)]
    pub(in crate::bfq) fn goes_on(&self, requests: &Requests) -> Option<(u32, u32, u64)> {
        let in_service = self.in_service.as_ref()?;
        let at = in_service.flow;
        let is_busy = self.data.tunables().strict_guarantees && self.data.device.in_flight() > 0;
        let may_stay = self.data.now < in_service.deadline && !self.leaves_long_destage();
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
                Some(in_service) => in_service.flow,
                None => {
                    if self.waits_for_destage(tree, requests) {
                        return None;
                    }
                    self.select()?
                }
            };
            let expiry = match self.pick(tree, requests, at) {
                None if self.is_waited_for(requests) => return self.inject(tree, requests),
                None => self.rest_expiry(at),
                Some(_) if self.has_timed_out() => Expiry::BudgetTimeout,
                Some(_) if self.should_preempt_for_raised() => Expiry::Preempted,
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
        let in_service = self.in_service.filter(|in_service| in_service.flow == run.flow())?;
        // All requests waiting with the first, divided by the room at its dispatch.
        let shares = || (u64::from(self.data.waiting) + 1).div_ceil(u64::from(room) + 1) as u32 - 1;
        let left = run.left(shares)?;
        let index = self.data.flows[in_service.flow].pick(now, requests, self.data.tunables())?;
        if self.is_full_for(requests, index) {
            return None;
        }
        let request = &requests[index].request;
        let bytes = run.bytes_with(request);
        let entity = self.data.schedule.entity(in_service.flow);
        let charge = self.data.charge(requests, in_service.flow, index);
        let fits = entity.service + charge <= entity.budget;
        let bytes = bytes.filter(|_| fits && !self.has_timed_out())?;
        self.dispatch(tree, requests, in_service.flow, index, charge);
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

    /// Whether queueing flash has room for all waiting requests, few and small ones, so that their order does not
    /// matter. O(depth).
    pub(in crate::bfq) fn has_room_for_all(&mut self, requests: &Requests) -> bool {
        let here = u64::from(self.data.waiting) + u64::from(self.data.device.in_flight());
        if !self.data.tunables().queueing_flash()
            || here * 4 > u64::from(self.data.tunables().depth)
        {
            return false;
        }
        let next =
            self.in_service.and_then(|in_service| self.data.schedule.runner_up(in_service.flow));
        let next = next.and_then(|at| self.data.flows[at].next());
        let is_small = next.is_none_or(|next| requests[next].request.extent.len < LONG_ON_FLASH);
        is_small && !self.data.device.is_quarter_full()
    }

    /// Whether the request at `index` waits for room.
    #[inline]
    pub(in crate::bfq) fn is_full_for(&self, requests: &Requests, index: u32) -> bool {
        self.data.device.is_full(self.data.now, requests[index].request.data_len())
    }
}
