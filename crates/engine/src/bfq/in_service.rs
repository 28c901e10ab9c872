//! Flow in service: its slot from selection to expiration, and idling for it (spec/bfq 4.5 to 4.7).

use alloc::format;
use alloc::string::String;

use super::budget::{EndedSlot, Expiry};
use super::counters::IdlingCause;
use super::data::BfqData;
use super::flow::is_far;
use super::low_latency::{self, LowLatency};
use super::wf2q::Entity;
use crate::ensure::ensure;
use crate::merge::Position;
use crate::requests::Requests;
use crate::tree::Tree;
use crate::types::{Instant, Op, Request};

/// Shortest slot of a non-raised flow beside a raised one that is due.
///
/// A start on the idle `hdd7200` takes 0.85 s. A tenth of that is all there is for others if it is to take 1.1 times
/// as long: three or four such slots with their seeks.
const MIN_SLOT_NS: u64 = 20_000_000;

/// A closed-loop client returns within this time: reply, wake-up, next request.
pub(super) const AT_ONCE_NS: u64 = 1_000_000;

/// What idling saves if the next request is near, on a rotational device. For a read, a seek and half a turn. A write
/// goes to the disk's cache, which the disk orders by itself.
const NEAR_READ_NS: u64 = 8_000_000;
const NEAR_WRITE_NS: u64 = 1_000_000;

/// The flow in service and its slot.
#[derive(Debug)]
pub(super) struct InService {
    flow: u32,
    since: Instant,
    /// Budget timeout: the slot may end from here on, whatever is left of the budget.
    deadline: Instant,
    /// Present while the device idles for the flow's next request.
    idle: Option<Idle>,
    /// End of its last request in this slot.
    last_end: Option<Position>,
    /// Requests of other flows injected since its last dispatch.
    injected: u32,
    /// Requests dispatched in this slot.
    sent: u32,
    /// Whether requests of other flows were at the device in this slot.
    is_shared: bool,
    /// Whether it returned within [`AT_ONCE_NS`] when the device last idled for it in this slot.
    returns: bool,
    /// When it returned after idling. Its service since then counts as gain of that idling.
    back: Option<Instant>,
}

/// Idling for the flow in service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    since: Instant,
    until: Instant,
    /// From here on other flows' requests may be injected.
    inject_from: Instant,
    cause: IdlingCause,
    /// Time that the device was empty while requests of other flows waited, without the period from `lost_since`.
    lost_ns: u64,
    /// Begin of such a period, while it lasts.
    lost_since: Option<Instant>,
}

/// What is left to do for a flow whose slot has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expired {
    pub(super) flow: u32,
    /// Whether it is merged and seeky.
    pub(super) may_part: bool,
    /// Whether it has requests at the device.
    pub(super) is_in_flight: bool,
}

impl Idle {
    /// Starts idling for `length_ns`; after `inject_after_ns` requests of other flows may be injected.
    pub(super) fn start(
        data: &BfqData,
        length_ns: u64,
        inject_after_ns: u64,
        cause: IdlingCause,
    ) -> Idle {
        let since = data.now;
        let [until, inject_from] = [length_ns, inject_after_ns].map(|ns| since.plus_nanos(ns));
        let lost_since = is_lost(data).then_some(since);
        Idle { since, until, inject_from, cause, lost_ns: 0, lost_since }
    }

    pub(super) fn since(&self) -> Instant {
        self.since
    }

    #[inline]
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Whether requests of other flows may be injected.
    pub(super) fn admits_others(&self, now: Instant) -> bool {
        now >= self.inject_from
    }

    /// When it ends, or other flows' requests may be injected.
    pub(super) fn deadline(&self, now: Instant) -> Instant {
        if self.admits_others(now) { self.until } else { self.inject_from.min(self.until) }
    }
}

/// Whether idling keeps other flows from an empty device.
fn is_lost(data: &BfqData) -> bool {
    data.device.in_flight() == 0 && data.waiting > 0
}

impl InService {
    /// Selects the next flow for service.
    pub(super) fn select(data: &mut BfqData) -> Option<InService> {
        let flow = data.schedule.select(data.now)?;
        data.counters.selected();
        data.device.selected();
        let deadline = data.now.plus_nanos(slot_ns(data, flow));
        low_latency::selected(data, flow);
        Some(InService {
            flow,
            since: data.now,
            deadline,
            idle: None,
            last_end: None,
            injected: 0,
            sent: 0,
            is_shared: false,
            returns: false,
            back: None,
        })
    }

    #[inline]
    pub(super) fn flow(&self) -> u32 {
        self.flow
    }

    pub(super) fn since(&self) -> Instant {
        self.since
    }

    #[inline]
    pub(super) fn idle(&self) -> Option<&Idle> {
        self.idle.as_ref()
    }

    /// End of its last request in this slot.
    pub(super) fn last_end(&self) -> Option<Position> {
        self.last_end
    }

    /// Requests of other flows injected since its last dispatch.
    pub(super) fn injected(&self) -> u32 {
        self.injected
    }

    /// Requests dispatched in this slot.
    #[inline]
    pub(super) fn sent(&self) -> u32 {
        self.sent
    }

    /// Whether it came back at once when the device last idled for it in this slot.
    pub(super) fn returns(&self) -> bool {
        self.returns
    }

    /// A request of another flow is injected.
    pub(super) fn note_injected(&mut self) {
        self.injected += 1;
        self.is_shared = true;
    }

    /// The flow has dispatched a request, and has `in_flight` at the device.
    #[inline]
    pub(super) fn dispatched(&mut self, data: &BfqData, in_flight: u32) {
        self.last_end = Some(Position(data.device.position()));
        self.injected = 0;
        self.sent += 1;
        self.is_shared |= data.device.in_flight() > in_flight;
    }

    /// Whether the slot may end, whatever is left of the budget.
    #[inline]
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.deadline
    }

    /// Whether the slot is over by time. After idling a flow may use the last third of its budget (spec/bfq 3.6).
    #[inline]
    pub(super) fn has_timed_out(&self, data: &BfqData) -> bool {
        if !self.is_over(data.now) {
            return false;
        }
        let entity = data.schedule.entity(self.flow);
        let left = entity.budget.saturating_sub(entity.service);
        self.idle.is_none() || left >= entity.budget / 3
    }

    /// Whether the slot ends because a raised sibling is due before the flow.
    ///
    /// A raised flow is eligible again after about one request of the next flow, but up to ten others with 125 ms
    /// each would come first. The flow in service keeps a least slot, since preemption after each request would cost
    /// two seeks each. O(depth).
    pub(super) fn should_preempt_for_raised(&self, data: &mut BfqData) -> bool {
        if data.schedule.raised() == 0
            || data.schedule.wr_coeff(self.flow) > 1
            || self.in_min_slot(data)
        {
            return false;
        }
        let Some(next) = data.schedule.runner_up(self.flow) else { return false };
        data.schedule.wr_coeff(next) > 1
            && data.schedule.cgroup(next) == data.schedule.cgroup(self.flow)
            && data.schedule.is_ahead(next)
    }

    /// Whether a flow beside raised ones has had too little service to be worth its seeks.
    pub(super) fn in_min_slot(&self, data: &BfqData) -> bool {
        let served = data.schedule.entity(self.flow).service;
        let is_soon = data.now < self.since.plus_nanos(MIN_SLOT_NS);
        served == 0 || (is_soon && served < u64::from(data.tunables().min_slot_budget()))
    }

    /// Reason of expiration while the flow is empty and not idled for.
    ///
    /// As a rule it is satisfied, and its budget shrinks to its service. After a least slot it was interrupted: with
    /// so small a budget its finish would come before that of the raised flow.
    pub(super) fn rest_expiry(&self, data: &BfqData) -> Expiry {
        match data.schedule.has_raised_siblings(self.flow) && !self.in_min_slot(data) {
            true => Expiry::Preempted,
            false => Expiry::NoMoreRequests,
        }
    }

    /// Checks that it is within its budget, and idled for only while it is empty.
    ///
    /// # Errors
    ///
    /// A text that says what does not hold.
    pub(super) fn check(&self, data: &BfqData) -> Result<(), String> {
        let (flow, entity) = (&data.flows[self.flow], data.schedule.entity(self.flow));
        ensure(self.since <= self.deadline, || format!("{self:?} ends before it begins"))?;
        ensure(self.idle.is_none() || flow.is_empty(), || {
            format!("{self:?}, with {} waiting and {} out", flow.queued, flow.in_flight)
        })?;
        // The first request of a slot is dispatched whatever its charge.
        ensure(entity.service <= entity.budget || self.sent <= 1, || {
            format!("{} served of a budget of {}, {self:?}", entity.service, entity.budget)
        })
    }
}

/// Longest slot of a flow.
///
/// A seeky flow gains nothing from a long slot, and where shares depend on slots, short ones are fairer. A flow with
/// more than one request keeps the full slot: it would leave requests at the device after each slot, served in those of
/// others.
fn slot_ns(data: &mut BfqData, at: u32) -> u64 {
    if data.costs_shares(at) && data.flows[at].queued == 1 {
        data.counters.shortened();
        return data.tunables().short_slot_ns();
    }
    data.tunables().timeout_ns
}

/// Idling.
impl InService {
    /// The flow is empty and has nothing in flight: the device idles for it.
    pub(super) fn start_idling(&mut self, data: &mut BfqData, idle: Idle) {
        self.note_gain(data);
        self.idle = Some(idle);
    }

    /// Ends idling, if there is any.
    // Inline on the hot path, where mostly there is none.
    #[inline(always)]
    pub(super) fn stop_idling(&mut self, data: &mut BfqData, low_latency: &mut LowLatency) {
        if let Some(idle) = self.idle.take() {
            self.note_idled(data, low_latency, &idle);
        }
    }

    /// Counts idling that has ended.
    #[inline(never)]
    fn note_idled(&mut self, data: &mut BfqData, low_latency: &mut LowLatency, idle: &Idle) {
        let ns = data.now.nanos_since(idle.since);
        self.returns = ns < AT_ONCE_NS;
        data.counters.idled(data.schedule.cgroup(self.flow), idle.cause, ns);
        low_latency.idled(data, self.flow, ns);
    }

    /// The flow returns with the request at `index`: books the cost of idling and what it saved.
    pub(super) fn returned(
        &mut self,
        data: &mut BfqData,
        requests: &Requests,
        index: u32,
        is_destaging: bool,
    ) {
        let Some(idle) = &self.idle else { return };
        let cost_ns = note_cost(data, self.flow, idle);
        let Request { op, extent, .. } = requests[index].request;
        let is_near =
            self.last_end.is_some_and(|Position(end)| !is_far(end, extent, data.tunables()));
        // A near write saves waiting for the destage of earlier writes, which takes about as long.
        let saved_ns = match op {
            Op::Read if is_near && data.tunables().rotational => NEAR_READ_NS,
            Op::Write if is_near && is_destaging => cost_ns.min(NEAR_WRITE_NS),
            _ => 0,
        };
        if saved_ns > 0 {
            data.flows.change_payback(self.flow, |payback| payback.brought(saved_ns));
        }
        // Time behind other requests, or in a flush of earlier writes, would have passed without idling too.
        if op != Op::Flush && data.device.in_flight() == 0 {
            self.back = Some(data.now);
        }
    }

    /// Updates whether idling keeps other flows from an empty device, after a request came, was dispatched or
    /// completed.
    #[inline]
    pub(super) fn note_lost(&mut self, data: &BfqData) {
        if let Some(idle) = &mut self.idle {
            match (is_lost(data), idle.lost_since) {
                (true, None) => idle.lost_since = Some(data.now),
                (false, Some(since)) => {
                    idle.lost_ns += data.now.nanos_since(since);
                    idle.lost_since = None;
                }
                _ => {}
            }
        }
    }

    /// Books the service since the flow returned as gain of idling.
    fn note_gain(&mut self, data: &mut BfqData) {
        if let Some(back) = self.back.take() {
            let ns = data.now.nanos_since(back);
            data.flows.change_payback(self.flow, |payback| payback.brought(ns));
        }
    }
}

/// Books the time that idling kept other flows from an empty device. Returns it in nanoseconds.
fn note_cost(data: &mut BfqData, at: u32, idle: &Idle) -> u64 {
    let now = data.now;
    let ns = idle.lost_ns + idle.lost_since.map_or(0, |since| now.nanos_since(since));
    if ns > 0 {
        data.flows.change_payback(at, |payback| payback.cost(now, ns));
    }
    ns
}

/// Expiration.
impl InService {
    /// Expires the flow, with a slot that counts until `end` (spec/bfq 4.7).
    pub(super) fn expire(
        &mut self,
        data: &mut BfqData,
        low_latency: &mut LowLatency,
        tree: &Tree,
        requests: &Requests,
        expiry: Expiry,
        end: Instant,
    ) -> Expired {
        let at = self.flow;
        if let Some(idle) = &self.idle {
            note_cost(data, at, idle);
        }
        self.stop_idling(data, low_latency);
        self.note_gain(data);
        let &Entity { service, budget, next_wr_coeff, .. } = data.schedule.entity(at);
        let is_raised = next_wr_coeff > 1 && data.schedule.is_raised_above_siblings(at);
        let flow = &data.flows[at];
        let may_part = flow.is_seeky() && !flow.is_alone();
        let slot = EndedSlot {
            length_ns: end.nanos_since(self.since),
            service,
            budget,
            is_seeky: flow.is_seeky(),
            sync: flow.sync,
            is_raised,
            in_flight: flow.in_flight,
        };
        if slot.is_seeky {
            data.device.leave_out(data.now, data.now.nanos_since(self.since));
        }
        let sent = (!self.is_shared).then_some(self.sent);
        let next_budget = slot.settle(data, requests, at, expiry, sent);
        data.schedule.expire(data.now, tree, at, next_budget);
        Expired { flow: at, may_part, is_in_flight: slot.in_flight > 0 }
    }
}
