//! Slot of the flow in service: from its selection to its expiration, and what is charged to it (spec/bfq 4.5 to 4.7).

use crate::bfq::Bfq;
use crate::bfq::budget::{Expiry, SHORT_NS, Slot, time_charge};
use crate::bfq::in_service::InService;
use crate::bfq::low_latency;
use crate::bfq::wf2q::Entity;
use crate::merge::Position;
use crate::requests::Requests;
use crate::tree::Tree;
use crate::types::{Instant, PriorityClass};

/// Shortest slot of a non-raised flow beside a raised one that is due.
///
/// A start on the idle `hdd7200` takes 0.85 s. A tenth of that is all there is for others if it is to take 1.1 times
/// as long: three or four such slots with their seeks.
const MIN_SLOT_NS: u64 = 20_000_000;

impl Bfq {
    /// Selects the next flow for service.
    pub(in crate::bfq) fn select(&mut self) -> Option<u32> {
        let flow = self.data.schedule.select(self.data.now)?;
        self.data.counters.selected();
        self.data.device.selected();
        let deadline = self.data.now.plus_nanos(self.slot_ns(flow));
        low_latency::selected(&mut self.data, flow);
        let in_service = InService {
            flow,
            since: self.data.now,
            deadline,
            idle: None,
            last_end: None,
            injected: 0,
            sent: 0,
            is_shared: false,
            returns: false,
            back: None,
        };
        self.in_service = Some(in_service);
        self.shared_stream.begin();
        Some(flow)
    }

    /// Longest slot of a flow.
    ///
    /// A seeky flow gains nothing from a long slot, and where shares depend on slots, short ones are fairer. A flow
    /// with more than one request keeps the full slot: it would leave requests at the device after each slot, served
    /// in those of others.
    fn slot_ns(&mut self, at: u32) -> u64 {
        if self.data.costs_shares(at) && self.data.flows[at].queued == 1 {
            self.data.counters.shortened();
            return self.data.tunables().short_slot_ns();
        }
        self.data.tunables().timeout_ns
    }

    /// Whether the slot is over by time, or leaves the disk enough to destage. After idling a flow may use the last
    /// third of its budget (spec/bfq 3.6).
    #[inline]
    pub(in crate::bfq) fn has_timed_out(&self) -> bool {
        if self.leaves_long_destage() {
            return true;
        }
        let Some(in_service) =
            self.in_service.as_ref().filter(|in_service| self.data.now >= in_service.deadline)
        else {
            return false;
        };
        let entity = self.data.schedule.entity(in_service.flow);
        let left = entity.budget.saturating_sub(entity.service);
        in_service.idle.is_none() || left >= entity.budget / 3
    }

    /// The flow in service has dispatched a request. In the idle class that ends the slot if other flows are busy.
    #[inline(always)]
    pub(in crate::bfq) fn after_dispatch(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        at: u32,
        in_flight: u32,
    ) {
        self.stop_idling();
        if let Some(in_service) = &mut self.in_service {
            in_service.last_end = Some(Position(self.data.device.position()));
            in_service.injected = 0;
            in_service.sent += 1;
            in_service.is_shared |= self.data.device.in_flight() > in_flight;
        }
        let &Entity { class, next_wr_coeff, .. } = self.data.schedule.entity(at);
        if next_wr_coeff > 1 {
            low_latency::update(&mut self.data, tree, at);
        }
        if class == PriorityClass::Idle && self.data.schedule.flows() > 1 {
            self.expire(tree, requests, Expiry::BudgetExhausted);
        }
    }

    /// A request of flow `at`, in service, has completed: the slot goes on, idles or ends.
    pub(in crate::bfq) fn after_completion(&mut self, tree: &Tree, requests: &Requests, at: u32) {
        let flow = &self.data.flows[at];
        let (is_empty, in_flight) = (flow.queued == 0, flow.in_flight);
        if is_empty && self.is_better_to_idle(requests, at) {
            if in_flight == 0 {
                self.start_idling(at);
            }
        } else if self.has_timed_out() {
            self.expire(tree, requests, Expiry::BudgetTimeout);
        } else if is_empty {
            self.expire(tree, requests, self.rest_expiry(at));
        }
    }

    /// Ends idling that is over.
    pub(crate) fn handle_timeout(&mut self, now: Instant, tree: &Tree, requests: &Requests) {
        if let Some(InService { deadline, idle: Some(idle), .. }) = self.in_service
            && idle.until <= now
        {
            // Without a waiting request there was no timer: idling ended at its own instant.
            self.data.now =
                if self.data.waiting == 0 { self.data.now.max(idle.until) } else { now };
            let is_over = self.data.now >= deadline;
            let expiry = if is_over { Expiry::BudgetTimeout } else { Expiry::TooIdle };
            self.expire_at(tree, requests, expiry, idle.since);
        }
        self.data.now = now;
    }

    /// Advances the clock, after ending idling that was over before `now`.
    #[inline]
    pub(in crate::bfq) fn advance(&mut self, now: Instant, tree: &Tree, requests: &Requests) {
        let idle = self.in_service.as_ref().and_then(|in_service| in_service.idle.as_ref());
        if idle.is_some_and(|idle| idle.until < now) {
            self.handle_timeout(now, tree, requests);
        }
        self.data.now = now;
    }

    /// Whether the slot of the flow in service ends because a raised sibling is due before it.
    ///
    /// A raised flow is eligible again after about one request of the next flow, but up to ten others with 125 ms
    /// each would come first. The flow in service keeps a least slot, since preemption after each request would cost
    /// two seeks each. O(depth).
    pub(in crate::bfq) fn should_preempt_for_raised(&mut self) -> bool {
        if self.data.schedule.raised() == 0 {
            return false;
        }
        let Some(in_service) = &self.in_service else { return false };
        let at = in_service.flow;
        if self.data.schedule.wr_coeff(in_service.flow) > 1 || self.in_min_slot(in_service) {
            return false;
        }
        let Some(next) = self.data.schedule.runner_up(at) else { return false };
        self.data.schedule.wr_coeff(next) > 1
            && self.data.schedule.cgroup(next) == self.data.schedule.cgroup(at)
            && self.data.schedule.is_ahead(next)
    }

    /// Whether a flow in service beside raised ones has had too little service to be worth its seeks.
    pub(in crate::bfq) fn in_min_slot(&self, in_service: &InService) -> bool {
        let served = self.data.schedule.entity(in_service.flow).service;
        let is_soon = self.data.now < in_service.since.plus_nanos(MIN_SLOT_NS);
        served == 0 || (is_soon && served < u64::from(self.data.tunables().min_slot_budget()))
    }

    /// Reason of expiration for a flow in service that is empty and not idled for.
    ///
    /// As a rule it is satisfied, and its budget shrinks to its service. After a least slot it was interrupted: with
    /// so small a budget its finish would come before that of the raised flow.
    pub(in crate::bfq) fn rest_expiry(&self, at: u32) -> Expiry {
        let is_min_slot_over =
            || self.in_service.is_some_and(|in_service| !self.in_min_slot(&in_service));
        match self.data.schedule.has_raised_siblings(at) && is_min_slot_over() {
            true => Expiry::Preempted,
            false => Expiry::NoMoreRequests,
        }
    }

    /// Replaces the slot's length by the mean time of `sent` requests of a seeky flow. Only for slots without
    /// requests of other flows and without requests left in flight, since otherwise their time is not known.
    fn at_seek_price(&mut self, slot: Slot, sent: u32) -> Slot {
        let is_known = slot.length_ns > SHORT_NS && slot.in_flight == 0;
        if !(is_known && slot.is_seeky && slot.sync && self.data.tunables().rotational) {
            return slot;
        }
        let length_ns = self.data.device.mean_seek_ns(sent, slot.length_ns);
        Slot { length_ns, ..slot }
    }

    /// Expires the flow in service, if any.
    pub(in crate::bfq) fn expire(&mut self, tree: &Tree, requests: &Requests, expiry: Expiry) {
        self.expire_at(tree, requests, expiry, self.data.now);
    }

    /// Expires it, with a slot that counts until `end` (spec/bfq 4.7).
    fn expire_at(&mut self, tree: &Tree, requests: &Requests, expiry: Expiry, end: Instant) {
        self.note_waited_in_vain();
        self.stop_idling();
        self.book_use();
        let Some(&InService { flow: at, since, sent, is_shared, .. }) = self.in_service.as_ref()
        else {
            return;
        };
        self.in_service = None;
        self.probe.reset();
        let &Entity { service, budget, parent: cgroup, next_wr_coeff, .. } =
            self.data.schedule.entity(at);
        let is_raised = next_wr_coeff > 1 && self.data.schedule.is_raised_above_siblings(at);
        let flow = &self.data.flows[at];
        let may_part = flow.is_seeky() && !flow.is_alone();
        let slot = Slot {
            length_ns: end.nanos_since(since),
            service,
            budget,
            is_seeky: flow.is_seeky(),
            sync: flow.sync,
            is_raised,
            in_flight: flow.in_flight,
        };
        if slot.is_seeky {
            self.data.device.leave_out(self.data.now, self.data.now.nanos_since(since));
        }
        let paid = if is_shared { slot } else { self.at_seek_price(slot, sent) };
        let mut extra = time_charge(paid, expiry, self.data.tunables());
        if slot.is_raised {
            // A starting flow is seeky by nature and should not wait for that. Raising holds among its siblings only,
            // so its cgroup pays for the time.
            self.data.schedule.charge_above(at, core::mem::take(&mut extra));
        } else if extra > 0 {
            self.data.schedule.charge_flow(at, extra);
        }
        self.data.counters.expired(cgroup, expiry.into(), extra);
        let charged = service + extra;
        let charge = self.data.next_charge(requests, at);
        let (flow, stats) = self.data.flows.record_mut(at);
        let max_budget =
            expiry.next_budget(flow.max_budget, slot, charged, self.data.device.tunables());
        stats.detection_mut().charge(service);
        flow.max_budget = max_budget;
        let next_budget =
            (charge > 0).then(|| self.data.device.bounded(self.data.now, max_budget).max(charge));
        let may_return = !matches!(expiry, Expiry::BudgetTimeout | Expiry::BudgetExhausted);
        flow.budget_left = match next_budget {
            None if may_return && flow.sync => {
                u32::try_from(budget.saturating_sub(charged)).unwrap_or(u32::MAX)
            }
            _ => 0,
        };
        self.data.schedule.expire(self.data.now, tree, at, next_budget);
        if may_part {
            self.part_if_shared(tree, at);
        }
        if slot.in_flight == 0 {
            self.uncount_if_idle(at);
        }
    }
}
