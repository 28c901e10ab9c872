//! Idling for the next request of the flow in service (spec/bfq 5), and preemption by other flows (spec/bfq 6.6).

use core::cmp::Ordering;

use crate::bfq::Bfq;
use crate::bfq::counters::IdlingCause;
use crate::bfq::flow::is_far;
use crate::bfq::in_service::{Idle, InService};
use crate::bfq::wf2q::Prio;
use crate::bfq::wf2q::Return;
use crate::bfq::wf2q::State;
use crate::merge::Position;
use crate::requests::Requests;
use crate::tree::Tree;
use crate::types::{Op, PriorityClass, Request};

/// Longest idling for a seeky flow in a symmetric scenario.
const SEEKY_IDLE_NS: u64 = 2_000_000;

/// A closed-loop client returns within this time: reply, wake-up, next request.
const AT_ONCE_NS: u64 = 1_000_000;

/// What idling saves if the next request is near, on a rotational device. For a read, a seek and half a turn. A write
/// goes to the disk's cache, which the disk orders by itself.
const NEAR_READ_NS: u64 = 8_000_000;
const NEAR_WRITE_NS: u64 = 1_000_000;

impl Bfq {
    /// Updates think time and I/O-boundness with a request that comes for a flow in this state. Returns whether
    /// [`Bfq::update_injection`] is due.
    #[inline(always)]
    pub(in crate::bfq) fn note_arrival(
        &mut self,
        at: u32,
        state: State,
        is_idle_class: bool,
        is_flush: bool,
    ) -> bool {
        let (now, slice_idle_ns) = (self.data.now, self.data.tunables().slice_idle_ns);
        let (flow, stats) = self.data.flows.record_mut(at);
        if !flow.sync {
            return false;
        }
        let (in_flight, last_end) = (flow.in_flight, flow.last_end);
        let is_busy = !matches!(state, State::Off | State::Idle);
        let is_new = stats.insertions == 0;
        stats.insertions = stats.insertions.saturating_add(1);
        let think_time = &mut stats.think_time;
        think_time.note_request(is_flush);
        if in_flight == 0 && !is_busy && !is_new && slice_idle_ns > 0 {
            think_time.add_sample(now, last_end, slice_idle_ns);
        }
        let is_judged = !is_idle_class && slice_idle_ns > 0;
        let flips = if is_judged {
            think_time.update_is_short(slice_idle_ns, flow.is_live())
        } else {
            None
        };
        let idle_since = flow.is_empty().then_some(last_end);
        think_time.arrived(now, idle_since, is_new);
        if let Some(briefly) = flips {
            self.data.flows.inject_limit_mut(at).think_changed(now, briefly);
        }
        // Without idling there is nothing to inject into.
        idle_since.is_some() && slice_idle_ns > 0
    }

    /// Whether the device idles for the flow in service, which is empty, or will.
    pub(in crate::bfq) fn is_waited_for(&mut self, requests: &Requests) -> bool {
        let Some(InService { flow, idle, .. }) = &self.in_service else { return false };
        idle.is_some()
            || (self.data.flows[*flow].in_flight > 0 && self.is_better_to_idle(requests, *flow))
    }

    /// Whether idling for this flow is better than serving another (spec/bfq 5.2).
    pub(in crate::bfq) fn is_better_to_idle(&mut self, requests: &Requests, at: u32) -> bool {
        let flow = &self.data.flows[at];
        if !flow.is_live() {
            return false;
        }
        if self.data.tunables().strict_guarantees {
            return true;
        }
        if self.data.tunables().slice_idle_ns == 0
            || !flow.sync
            || self.data.schedule.prio(at).class == PriorityClass::Idle
        {
            return false;
        }
        // A sole flow delays no other.
        self.data.schedule.flows() == 1
            || (!self.has_room_for_all(requests)
                && self.data.flows.pays(at, self.data.now)
                && (self.is_raised_beside_others(at)
                    || self.boosts_throughput(at)
                    || self.data.schedule.is_asymmetric(at)))
    }

    /// Whether a raised flow in service would lose time to requests of non-raised flows without idling. Not if
    /// another flow with the same factor is backlogged.
    pub(in crate::bfq) fn is_raised_beside_others(&mut self, at: u32) -> bool {
        /// So many requests of others at the device delay the flow's next one noticeably.
        const OTHERS_MANY: u32 = 4;
        let wr_coeff = self.data.schedule.wr_coeff(at);
        if wr_coeff == 1 {
            return false;
        }
        let raised = self.data.schedule.raised();
        let are_others = self.data.schedule.is_raised_above_siblings(at)
            || self.data.device.in_flight() >= self.data.flows[at].in_flight + OTHERS_MANY;
        if !are_others || raised == 1 {
            return are_others;
        }
        let next = self.data.schedule.runner_up(at);
        next.is_none_or(|next| self.data.schedule.wr_coeff(next) < wr_coeff)
    }

    /// Whether idling raises throughput: for a stream on a rotational device, or for any flow on a rotational device
    /// without a queue.
    pub(in crate::bfq) fn boosts_throughput(&self, at: u32) -> bool {
        let (rotational, queueing) =
            (self.data.tunables().rotational, self.data.tunables().queueing);
        // A raised flow should not wait for throughput, unless the device went to a stream anyway.
        let in_min_slot = || {
            self.data.flows[at].is_known()
                && self.in_service.is_some_and(|in_service| {
                    in_service.flow == at && self.in_min_slot(&in_service)
                })
        };
        if self.data.schedule.has_raised_siblings(at) && !in_min_slot() {
            return false;
        }
        if rotational && !queueing {
            return true;
        }
        let think_time = &self.data.flows.stats(at).think_time;
        (rotational || !queueing)
            && !self.data.flows[at].is_seeky()
            && think_time.is_io_bound()
            && think_time.thinks_briefly()
    }

    /// The flow in service is empty and has nothing in flight: starts idling.
    pub(in crate::bfq) fn start_idling(&mut self, at: u32) {
        self.book_use();
        let slice_idle_ns = self.data.tunables().slice_idle_ns;
        let length_ns = if self.data.schedule.wr_coeff(at) > 1 {
            self.low_latency.idle_ns(&self.data)
        } else if self.data.flows[at].is_seeky() && !self.data.schedule.is_asymmetric(at) {
            slice_idle_ns.min(SEEKY_IDLE_NS)
        } else {
            slice_idle_ns
        };
        let cause = match self.boosts_throughput(at) {
            true => IdlingCause::Throughput,
            false => IdlingCause::Guarantees,
        };
        let returns = self.in_service.is_some_and(|in_service| in_service.returns)
            || self.data.costs_shares(at);
        let returns_ns = if self.data.tunables().rotational && returns { AT_ONCE_NS } else { 0 };
        let [until, inject_from] = [length_ns, returns_ns].map(|ns| self.data.now.plus_nanos(ns));
        let lost_since =
            (self.data.device.in_flight() == 0 && self.data.waiting > 0).then_some(self.data.now);
        let idle = Idle { since: self.data.now, until, inject_from, cause, lost_ns: 0, lost_since };
        if let Some(in_service) = &mut self.in_service {
            in_service.idle = Some(idle);
        }
    }

    /// Ends idling.
    #[inline]
    pub(in crate::bfq) fn stop_idling(&mut self) {
        if let Some(in_service) = &mut self.in_service
            && let Some(idle) = in_service.idle.take()
        {
            in_service.returns = self.data.now.nanos_since(idle.since) < AT_ONCE_NS;
            let flow = in_service.flow;
            self.note_idled(flow, &idle);
        }
    }

    /// The flow in service returns with the request at `index`: books the cost of idling and what it saved.
    pub(in crate::bfq) fn note_waited_for(&mut self, requests: &Requests, at: u32, index: u32) {
        let Some(&InService { idle: Some(idle), last_end, .. }) = self.in_service.as_ref() else {
            return;
        };
        let cost_ns = self.book_wait(at, &idle);
        let Request { op, extent, .. } = requests[index].request;
        let is_near =
            last_end.is_some_and(|Position(end)| !is_far(end, extent, self.data.tunables()));
        // A near write saves waiting for the destage of earlier writes, which takes about as long.
        let saved_ns = match op {
            Op::Read if is_near && self.data.tunables().rotational => NEAR_READ_NS,
            Op::Write if is_near && self.destage.is_pending(self.data.now) => {
                cost_ns.min(NEAR_WRITE_NS)
            }
            _ => 0,
        };
        if saved_ns > 0 {
            self.data.flows.change_payback(at, |payback| payback.brought(saved_ns));
        }
        // Time behind other requests, or in a flush of earlier writes, would have passed without idling too.
        if op != Op::Flush
            && self.data.device.in_flight() == 0
            && let Some(in_service) = &mut self.in_service
        {
            in_service.back = Some(self.data.now);
        }
    }

    /// Books the cost of idling that ends with the slot.
    pub(in crate::bfq) fn note_waited_in_vain(&mut self) {
        if let Some(&InService { flow, idle: Some(idle), .. }) = self.in_service.as_ref() {
            self.book_wait(flow, &idle);
        }
    }

    /// Books the time that idling kept other flows from an empty device. Returns it in nanoseconds.
    fn book_wait(&mut self, at: u32, idle: &Idle) -> u64 {
        let now = self.data.now;
        let ns = idle.lost_ns + idle.lost_since.map_or(0, |since| now.nanos_since(since));
        if ns > 0 {
            self.data.flows.change_payback(at, |payback| payback.cost(now, ns));
        }
        ns
    }

    /// Updates whether idling keeps other flows from an empty device, after a request came, was dispatched or
    /// completed.
    #[inline]
    pub(in crate::bfq) fn note_lost(&mut self) {
        let is_lost = self.data.device.in_flight() == 0 && self.data.waiting > 0;
        if let Some(InService { idle: Some(idle), .. }) = &mut self.in_service {
            match (is_lost, idle.lost_since) {
                (true, None) => idle.lost_since = Some(self.data.now),
                (false, Some(since)) => {
                    idle.lost_ns += self.data.now.nanos_since(since);
                    idle.lost_since = None;
                }
                _ => {}
            }
        }
    }

    /// Books the service since the flow returned as gain of idling.
    pub(in crate::bfq) fn book_use(&mut self) {
        if let Some(in_service) = &mut self.in_service
            && let Some(back) = in_service.back.take()
        {
            let ns = self.data.now.nanos_since(back);
            let flow = in_service.flow;
            self.data.flows.change_payback(flow, |payback| payback.brought(ns));
        }
    }

    /// Counts idling that has ended.
    fn note_idled(&mut self, flow: u32, idle: &Idle) {
        let ns = self.data.now.nanos_since(idle.since);
        self.data.counters.idled(self.data.schedule.cgroup(flow), idle.cause, ns);
        self.low_latency.idled(&self.data, flow, ns);
    }

    /// Whether a newly backlogged flow preempts the one in service (spec/bfq 6.6): because it resumes its previous
    /// slot, has a better class or weight, or the device is only idling.
    pub(in crate::bfq) fn preempts(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        at: u32,
        how: Return,
    ) -> bool {
        let Some(in_service) = self.in_service else { return false };
        let is_worth_waiting_for = self.is_better_to_idle(requests, in_service.flow);
        if in_service.idle.is_some() && !is_worth_waiting_for {
            // The flow in service is empty, so it cannot be the next choice.
            return true;
        }
        // Equally raised flows have short slots anyway, and all of them are seeky.
        let goes_on = how == Return::InTime
            && match self.data.schedule.wr_coeff(at) {
                1 => self.data.schedule.wr_coeff(in_service.flow) == 1,
                mine => mine > self.data.schedule.wr_coeff(in_service.flow),
            };
        // Flash that queues loses nothing by preemption, so the flow with the earlier finish goes first.
        let is_free =
            self.data.tunables().queueing_flash() && !self.data.tunables().strict_guarantees;
        let matters = !is_worth_waiting_for
            || goes_on
            || is_free
            || self.matters_more(tree, at, in_service.flow);
        matters && self.data.schedule.is_ahead(at)
    }

    /// Whether a flow has a better class than another, or a larger weight among its siblings.
    fn matters_more(&self, tree: &Tree, at: u32, other: u32) -> bool {
        let (mine, theirs) = (self.data.schedule.prio(at), self.data.schedule.prio(other));
        if mine.class != theirs.class {
            return mine.class < theirs.class;
        }
        let [my_group, their_group] = [at, other].map(|flow| self.data.schedule.cgroup(flow));
        if my_group == their_group {
            let weight =
                |flow, prio: Prio| prio.weight * u32::from(self.data.schedule.wr_coeff(flow));
            return weight(at, mine) > weight(other, theirs);
        }
        // Between cgroups of equal weight the more raised flow matters more.
        let weight = |cgroup: u32| tree.cgroups[cgroup].weight;
        match weight(my_group).cmp(&weight(their_group)) {
            Ordering::Less => false,
            Ordering::Equal => self.data.schedule.wr_coeff(at) > self.data.schedule.wr_coeff(other),
            Ordering::Greater => true,
        }
    }
}
