//! Slot of the flow in service: from its selection to its expiration, and what is charged to it (spec/bfq 4.5 to 4.7).

use crate::bfq::Bfq;
use crate::bfq::budget::{Expiry, SHORT_NS, Slot, time_charge};
use crate::bfq::flow::Flow;
use crate::bfq::in_service::InService;
use crate::bfq::wf2q::Entity;
use crate::merge::Position;
use crate::requests::{Record, Requests};
use crate::tree::Tree;
use crate::types::{Instant, PriorityClass};

impl Bfq {
    /// Selects the next flow for service.
    pub(in crate::bfq) fn select(&mut self) -> Option<u32> {
        let flow = self.schedule.select(self.now)?;
        self.counters.selected();
        self.device.selected();
        let deadline = self.now.plus_nanos(self.slot_ns(flow));
        self.note_selection(flow);
        let in_service = InService {
            flow,
            since: self.now,
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
        if self.costs_shares(at) && self.flows[at].queued == 1 {
            self.counters.shortened();
            return self.device.tunables().short_slot_ns();
        }
        self.device.tunables().timeout_ns
    }

    /// Whether the slot is over by time, or leaves the disk enough to destage. After idling a flow may use the last
    /// third of its budget (spec/bfq 3.6).
    #[inline]
    pub(in crate::bfq) fn has_timed_out(&self) -> bool {
        if self.leaves_long_destage() {
            return true;
        }
        let Some(in_service) =
            self.in_service.as_ref().filter(|in_service| self.now >= in_service.deadline)
        else {
            return false;
        };
        let entity = self.schedule.entity(in_service.flow);
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
            in_service.last_end = Some(Position(self.device.position()));
            in_service.injected = 0;
            in_service.sent += 1;
            in_service.is_shared |= self.device.in_flight() > in_flight;
        }
        let &Entity { class, next_wr_coeff, .. } = self.schedule.entity(at);
        if next_wr_coeff > 1 {
            self.update_weight_raising(tree, at);
        }
        if class == PriorityClass::Idle && self.schedule.flows() > 1 {
            self.expire(tree, requests, Expiry::BudgetExhausted);
        }
    }

    /// A request of flow `at`, in service, has completed: the slot goes on, idles or ends.
    pub(in crate::bfq) fn after_completion(&mut self, tree: &Tree, requests: &Requests, at: u32) {
        let flow = &self.flows[at];
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
            self.now = if self.len == 0 { self.now.max(idle.until) } else { now };
            let is_over = self.now >= deadline;
            let expiry = if is_over { Expiry::BudgetTimeout } else { Expiry::TooIdle };
            self.expire_at(tree, requests, expiry, idle.since);
        }
        self.now = now;
    }

    /// Advances the clock, after ending idling that was over before `now`.
    #[inline]
    pub(in crate::bfq) fn advance(&mut self, now: Instant, tree: &Tree, requests: &Requests) {
        let idle = self.in_service.as_ref().and_then(|in_service| in_service.idle.as_ref());
        if idle.is_some_and(|idle| idle.until < now) {
            self.handle_timeout(now, tree, requests);
        }
        self.now = now;
    }

    /// Replaces the slot's length by the mean time of `sent` requests of a seeky flow. Only for slots without
    /// requests of other flows and without requests left in flight, since otherwise their time is not known.
    fn at_seek_price(&mut self, slot: Slot, sent: u32) -> Slot {
        let is_known = slot.length_ns > SHORT_NS && slot.in_flight == 0;
        if !(is_known && slot.is_seeky && slot.sync && self.device.tunables().rotational) {
            return slot;
        }
        let length_ns = self.device.mean_seek_ns(sent, slot.length_ns);
        Slot { length_ns, ..slot }
    }

    /// Expires the flow in service, if any.
    pub(in crate::bfq) fn expire(&mut self, tree: &Tree, requests: &Requests, expiry: Expiry) {
        self.expire_at(tree, requests, expiry, self.now);
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
            self.schedule.entity(at);
        let is_raised = next_wr_coeff > 1 && self.schedule.is_raised_above_siblings(at);
        let flow = &self.flows[at];
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
            self.device.leave_out(self.now, self.now.nanos_since(since));
        }
        let paid = if is_shared { slot } else { self.at_seek_price(slot, sent) };
        let mut extra = time_charge(paid, expiry, self.device.tunables());
        if slot.is_raised {
            // A starting flow is seeky by nature and should not wait for that. Raising holds among its siblings only,
            // so its cgroup pays for the time.
            self.schedule.charge_above(at, core::mem::take(&mut extra));
        } else if extra > 0 {
            self.schedule.charge_flow(at, extra);
        }
        self.counters.expired(cgroup, expiry.into(), extra);
        let charged = service + extra;
        let charge = self.next_charge(requests, at);
        let (flow, stats) = self.flows.record_mut(at);
        let max_budget = expiry.next_budget(flow.max_budget, slot, charged, self.device.tunables());
        stats.detection_mut().charge(service);
        flow.max_budget = max_budget;
        let next_budget =
            (charge > 0).then(|| self.device.bounded(self.now, max_budget).max(charge));
        let may_return = !matches!(expiry, Expiry::BudgetTimeout | Expiry::BudgetExhausted);
        flow.budget_left = match next_budget {
            None if may_return && flow.sync => {
                u32::try_from(budget.saturating_sub(charged)).unwrap_or(u32::MAX)
            }
            _ => 0,
        };
        self.schedule.expire(self.now, tree, at, next_budget);
        if may_part {
            self.part_if_shared(tree, at);
        }
        if slot.in_flight == 0 {
            self.uncount_if_idle(at);
        }
    }
}

/// Least charge of a request, in bytes: a sector.
const CHARGE_MIN: u64 = 512;

/// Charge of a request, and budgets that cover it.
impl Bfq {
    /// Enlarges the budget of a waiting flow to cover its next request, which may have changed (spec/bfq 3.5).
    pub(in crate::bfq) fn refresh_budget(&mut self, tree: &Tree, requests: &Requests, at: u32) {
        let charge = self.next_charge(requests, at);
        let entity = self.schedule.entity(at);
        if charge > entity.budget {
            let budget = u64::from(self.flows[at].max_budget).max(charge).max(entity.service);
            self.schedule.reposition(self.now, tree, at, budget);
        }
    }

    /// Charge of a flow's next request; 0 without one.
    #[inline]
    pub(in crate::bfq) fn next_charge(&self, requests: &Requests, at: u32) -> u64 {
        self.flows[at].next().map_or(0, |next| self.charge(requests, at, next))
    }

    /// Charge of a request of flow `at`, in bytes: those of its price where that is fixed, at least a sector. An
    /// instalment moves its bytes too, although the throttle has charged them. Writeback is charged more in symmetric
    /// scenarios (spec/bfq 3.4).
    #[inline]
    pub(in crate::bfq) fn charge(&self, requests: &Requests, at: u32, index: u32) -> u64 {
        self.charge_of(&self.flows[at], at, &requests[index])
    }

    /// As [`Bfq::charge`], for a flow and record at hand.
    #[inline]
    pub(in crate::bfq) fn charge_of(&self, flow: &Flow, at: u32, record: &Record) -> u64 {
        let bytes = match record.cost.is_remainder {
            true => u64::from(record.request.extent.len),
            false => record.cost.bytes,
        };
        let bytes = bytes.max(CHARGE_MIN);
        if flow.sync { bytes } else { self.async_charge(at, bytes) }
    }

    #[inline(never)]
    fn async_charge(&self, at: u32, bytes: u64) -> u64 {
        if self.schedule.is_asymmetric(at) {
            return bytes;
        }
        bytes.saturating_mul(u64::from(self.device.tunables().async_charge))
    }
}
