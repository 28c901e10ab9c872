//! A flow's hold on the device: from its selection to its expiration (spec/bfq 4.5 to 4.7).

use super::budget::{Expiry, SHORT_NS, Slot, time_charge};
use super::counters::IdlingCause;
use super::wf2q::{Entity, EntityId};
use super::{Bfq, State};
use crate::merge::Position;
use crate::priority::PriorityClass;
use crate::requests::Requests;
use crate::time::Instant;
use crate::tree::Tree;

/// Who holds the device, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InService {
    pub(crate) flow: u32,
    pub(crate) since: Instant,
    /// From here on it may be ended, whatever is left of the budget.
    pub(crate) deadline: Instant,
    /// While the device waits for its next request.
    pub(crate) idle: Option<Idle>,
    /// Where its last request of this slot ended.
    pub(crate) last_end: Option<Position>,
    /// Requests of others that were sent since it last sent one.
    pub(crate) injected: u32,
    /// Requests it has sent in this slot.
    pub(crate) sent: u32,
    /// Whether requests of others were at the device with them.
    pub(crate) is_shared: bool,
    /// Whether it returned at once when it was last waited for, in this slot.
    pub(crate) returns: bool,
    /// When it returned, since when it has used the device because of that wait.
    pub(crate) back: Option<Instant>,
}

/// The device waits for the flow in service, which has nothing left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    pub(crate) since: Instant,
    pub(crate) until: Instant,
    /// From here on it does not return at once, and others may go meanwhile.
    pub(crate) inject_from: Instant,
    pub(crate) cause: IdlingCause,
    /// For how long the device did nothing, although others had requests; without what `lost_since` tells of.
    pub(crate) lost_ns: u64,
    /// Since when that is so, while it is.
    pub(crate) lost_since: Option<Instant>,
}

impl Bfq {
    /// Hands the device to the flow that is next.
    pub(super) fn select(&mut self) -> Option<u32> {
        let flow = self.hierarchy.select(self.now)?.as_flow();
        self.counters.selected();
        if !self.peak.is_trusted() {
            self.peak.selected();
            self.follow_speed();
        }
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

    /// How long a flow may have the device at most. Who jumps about gains nothing from a long slot, and where shares
    /// depend on slots, many small ones are closer to what is due. Who has more requests than one would leave some at the
    /// device after each, to be served in others' slots.
    fn slot_ns(&mut self, at: u32) -> u64 {
        if self.costs_shares(at) && self.flows[at].queued == 1 {
            self.counters.shortened();
            return self.tunables.short_slot_ns();
        }
        self.tunables.timeout_ns
    }

    /// Whether the slot of the flow in service has lasted long enough, or leaves the disk enough to do after it. After
    /// idling, whoever has used most of the budget may use the rest (spec/bfq 3.6).
    #[inline]
    pub(super) fn has_timed_out(&self) -> bool {
        if self.leaves_long_destage() {
            return true;
        }
        let Some(in_service) =
            self.in_service.as_ref().filter(|in_service| self.now >= in_service.deadline)
        else {
            return false;
        };
        let entity = self.hierarchy.entities.flow(in_service.flow);
        let left = entity.budget.saturating_sub(entity.service);
        in_service.idle.is_none() || left >= entity.budget / 3
    }

    /// The flow in service has sent a request. One of the idle class does that one at a time, if others wait.
    #[inline(always)]
    pub(super) fn after_dispatch(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        at: u32,
        in_flight: u32,
    ) {
        self.stop_idling();
        if let Some(in_service) = &mut self.in_service {
            in_service.last_end = Some(Position(self.position));
            in_service.injected = 0;
            in_service.sent += 1;
            in_service.is_shared |= self.in_device > in_flight;
        }
        let &Entity { class, next_wr_coeff, .. } = self.hierarchy.entities.flow(at);
        if next_wr_coeff > 1 {
            self.update_weight_raising(tree, at);
        }
        if class == PriorityClass::Idle && self.scenario.flows() > 1 {
            self.expire(tree, requests, Expiry::BudgetExhausted);
        }
    }

    /// A request of flow `at`, which is in service, is back: it goes on, is waited for, or ends its slot.
    pub(super) fn after_completion(&mut self, tree: &Tree, requests: &Requests, at: u32) {
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

    /// The device has waited long enough, if it has.
    pub(crate) fn handle_timeout(&mut self, now: Instant, tree: &Tree, requests: &Requests) {
        if let Some(InService { deadline, idle: Some(idle), .. }) = self.in_service
            && idle.until <= now
        {
            // Nobody wakes up for it while nothing waits: it has ended by itself then.
            self.now = if self.len == 0 { self.now.max(idle.until) } else { now };
            let is_over = self.now >= deadline;
            let expiry = if is_over { Expiry::BudgetTimeout } else { Expiry::TooIdle };
            self.expire_at(tree, requests, expiry, idle.since);
        }
        self.now = now;
    }

    /// Something happens now. If the device was kept for somebody until before that, this comes first.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant, tree: &Tree, requests: &Requests) {
        let idle = self.in_service.as_ref().and_then(|in_service| in_service.idle.as_ref());
        if idle.is_some_and(|idle| idle.until < now) {
            self.handle_timeout(now, tree, requests);
        }
        self.now = now;
    }

    /// A slot in which nobody else's requests were at the device, as if each of the `sent` of a flow that jumps about had
    /// taken what such requests take. Not where the flow was not waited for: then it is not known what they took.
    fn at_seek_price(&mut self, slot: Slot, sent: u32) -> Slot {
        let is_known = slot.length_ns > SHORT_NS && slot.in_flight == 0;
        if !(is_known && slot.is_seeky && slot.sync && self.tunables.rotational) {
            return slot;
        }
        let length_ns = self.seek_price.of(sent).unwrap_or(slot.length_ns);
        self.seek_price.learn(sent, slot.length_ns);
        Slot { length_ns, ..slot }
    }

    /// Ends the slot of the flow in service, if there is one.
    pub(super) fn expire(&mut self, tree: &Tree, requests: &Requests, expiry: Expiry) {
        self.expire_at(tree, requests, expiry, self.now);
    }

    /// The same, of a slot that counts until `end` (spec/bfq 4.7).
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
        let id = EntityId::flow(at);
        let &Entity { service, budget, parent: cgroup, next_wr_coeff, .. } =
            self.hierarchy.entities.flow(at);
        let is_raised = next_wr_coeff > 1 && self.is_raised_above_siblings(at);
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
            self.peak.leave_out(self.now, self.now.nanos_since(since));
        }
        let paid = if is_shared { slot } else { self.at_seek_price(slot, sent) };
        let mut extra = time_charge(paid, expiry, &self.tunables);
        if slot.is_raised {
            // Its requests are far apart because it starts, and it is not to wait for that. But it is raised among its
            // siblings only: other cgroups get for its time what they would get for anybody's.
            self.hierarchy.charge_above(id, core::mem::take(&mut extra));
        } else if extra > 0 {
            self.hierarchy.charge_flow(at, extra);
        }
        self.counters.expired(cgroup, expiry.into(), extra);
        let charged = service + extra;
        let charge = self.next_charge(requests, at);
        let (flow, stats) = self.flows.record_mut(at);
        let max_budget = expiry.next_budget(flow.max_budget, slot, charged, &self.tunables);
        stats.detection_mut().charge(service);
        flow.max_budget = max_budget;
        let next_budget =
            (charge > 0).then(|| self.flash_bound.bound(self.now, max_budget).max(charge));
        let may_return = !matches!(expiry, Expiry::BudgetTimeout | Expiry::BudgetExhausted);
        flow.budget_left = match next_budget {
            None if may_return && flow.sync => {
                u32::try_from(budget.saturating_sub(charged)).unwrap_or(u32::MAX)
            }
            _ => 0,
        };
        self.busy -= u32::from(next_budget.is_none());
        self.hierarchy.expire(self.now, tree, id, next_budget);
        debug_assert_ne!(self.hierarchy.state(id), State::InService);
        if may_part {
            self.part_if_shared(tree, at);
        }
        if slot.in_flight == 0 {
            self.uncount_if_idle(at);
        }
    }
}
