//! Choice of the next request: the slot goes on, or expires and the next flow is selected.

use crate::bfq::Bfq;
use crate::bfq::budget::Expiry;
use crate::requests::Requests;
use crate::tree::Tree;

impl Bfq {
    /// Fast path: flow in service, its next request and charge, if the slot clearly goes on. Any other case is left
    /// to [`Bfq::choose`].
    #[inline(always)]
    pub(in crate::bfq) fn goes_on(&self, requests: &Requests) -> Option<(u32, u32, u64)> {
        let in_service = self.in_service.as_ref()?;
        let at = in_service.flow;
        let is_busy = self.device.tunables().strict_guarantees && self.device.in_flight() > 0;
        let may_stay = self.now < in_service.deadline && !self.leaves_long_destage();
        if is_busy || !may_stay || self.is_shared_stream(at) {
            return None;
        }
        let flow = &self.flows[at];
        let index = flow.pick(self.now, requests, self.device.tunables())?;
        let charge = self.charge_of(flow, at, &requests[index]);
        let entity = self.schedule.entity(at);
        let may_be_preempted = entity.next_wr_coeff == 1 && self.schedule.raised() > 0;
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
        if self.device.tunables().strict_guarantees && self.device.in_flight() > 0 {
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
                    let charge = self.charge(requests, at, index);
                    let entity = self.schedule.entity(at);
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
