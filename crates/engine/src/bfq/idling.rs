//! Idling: the device waits for the flow in service, which has nothing left, instead of serving another (spec/bfq 5),
//! and flows that preempt it all the same.

use core::cmp::Ordering;

use super::Bfq;
use super::counters::IdlingCause;
use super::flow::is_far;
use super::slot::{Idle, InService};
use super::wf2q::Prio;
use super::wf2q::Return;
use super::wf2q::{EntityId, State};
use crate::merge::Position;
use crate::priority::PriorityClass;
use crate::request::{Op, Request};
use crate::requests::Requests;
use crate::tree::Tree;

/// Longest wait for a flow whose next request is far away anyway, where nobody's share depends on it.
const SEEKY_IDLE_NS: u64 = 2_000_000;

/// Who returns at once has returned by then: an answer, a wake-up, a question.
const AT_ONCE_NS: u64 = 1_000_000;

/// What is saved by a read that goes on where the last one ended, on a disk that seeks: the way there after others, which
/// is a seek and half a turn. A write goes to the disk's cache, which orders it by itself.
const NEAR_READ_NS: u64 = 8_000_000;
const NEAR_WRITE_NS: u64 = 1_000_000;

impl Bfq {
    /// A request comes for a flow in this state: how long did it think, and does it do anything else? Whether it returns,
    /// so that [`Bfq::update_injection`] is to hear of it.
    #[inline(always)]
    pub(super) fn note_arrival(
        &mut self,
        at: u32,
        state: State,
        is_idle_class: bool,
        is_flush: bool,
    ) -> bool {
        let (now, slice_idle_ns) = (self.now, self.tunables.slice_idle_ns);
        let (flow, stats) = self.flows.record_mut(at);
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
            self.flows.inject_limit_mut(at).think_changed(now, briefly);
        }
        // Without idling there are no gaps to fill.
        idle_since.is_some() && slice_idle_ns > 0
    }

    /// Whether the flow in service, which has nothing left, keeps the device.
    pub(super) fn is_waited_for(&mut self, requests: &Requests) -> bool {
        let Some(InService { flow, idle, .. }) = &self.in_service else { return false };
        idle.is_some()
            || (self.flows[*flow].in_flight > 0 && self.is_better_to_idle(requests, *flow))
    }

    /// Whether waiting for this flow is better than serving another (spec/bfq 5.2).
    pub(super) fn is_better_to_idle(&mut self, requests: &Requests, at: u32) -> bool {
        let flow = &self.flows[at];
        if !flow.is_live() {
            return false;
        }
        if self.tunables.strict_guarantees {
            return true;
        }
        if self.tunables.slice_idle_ns == 0
            || !flow.sync
            || self.prio(at).class == PriorityClass::Idle
        {
            return false;
        }
        // Alone it keeps nobody waiting.
        self.scenario.flows() == 1
            || (!self.has_room_for_all(requests)
                && self.flows.pays(at, self.now)
                && (self.is_raised_beside_others(at)
                    || self.boosts_throughput(at)
                    || self.is_asymmetric(at)))
    }

    /// Whether the device is faster if it waits for this flow: a stream on a disk that seeks, or anybody's next request
    /// on a disk that has no queue of its own to order it into.
    pub(super) fn boosts_throughput(&self, at: u32) -> bool {
        let (rotational, queueing) = (self.tunables.rotational, self.tunables.queueing);
        // Whoever is raised should not have to wait for that, unless it was left for a stream anyway.
        let in_min_slot = || {
            self.flows[at].is_known()
                && self.in_service.is_some_and(|in_service| {
                    in_service.flow == at && self.in_min_slot(&in_service)
                })
        };
        if self.has_raised_siblings(at) && !in_min_slot() {
            return false;
        }
        if rotational && !queueing {
            return true;
        }
        let think_time = &self.flows.stats(at).think_time;
        (rotational || !queueing)
            && !self.flows[at].is_seeky()
            && think_time.is_io_bound()
            && think_time.thinks_briefly()
    }

    /// The flow in service has nothing left, here or at the device: waits for it.
    pub(super) fn start_idling(&mut self, at: u32) {
        self.book_use();
        let slice_idle_ns = self.tunables.slice_idle_ns;
        let length_ns = if self.hierarchy.is_raised(EntityId::flow(at)) {
            self.raised_idle_ns()
        } else if self.flows[at].is_seeky() && !self.is_asymmetric(at) {
            slice_idle_ns.min(SEEKY_IDLE_NS)
        } else {
            slice_idle_ns
        };
        let cause = match self.boosts_throughput(at) {
            true => IdlingCause::Throughput,
            false => IdlingCause::Guarantees,
        };
        let returns =
            self.in_service.is_some_and(|in_service| in_service.returns) || self.costs_shares(at);
        let returns_ns = if self.tunables.rotational && returns { AT_ONCE_NS } else { 0 };
        let [until, inject_from] = [length_ns, returns_ns].map(|ns| self.now.plus_nanos(ns));
        let lost_since = (self.in_device == 0 && self.len > 0).then_some(self.now);
        let idle = Idle { since: self.now, until, inject_from, cause, lost_ns: 0, lost_since };
        if let Some(in_service) = &mut self.in_service {
            in_service.idle = Some(idle);
        }
    }

    /// The wait for the flow in service is over.
    #[inline]
    pub(super) fn stop_idling(&mut self) {
        if let Some(in_service) = &mut self.in_service
            && let Some(idle) = in_service.idle.take()
        {
            in_service.returns = self.now.nanos_since(idle.since) < AT_ONCE_NS;
            let flow = in_service.flow;
            self.note_idled(flow, &idle);
        }
    }

    /// A flow that was waited for returns with the request at `index`: what the wait cost, and what it saved.
    pub(super) fn note_waited_for(&mut self, requests: &Requests, at: u32, index: u32) {
        let Some(&InService { idle: Some(idle), last_end, .. }) = self.in_service.as_ref() else {
            return;
        };
        let cost_ns = self.book_wait(at, &idle);
        let Request { op, extent, .. } = requests[index].request;
        let is_near = last_end.is_some_and(|Position(end)| !is_far(end, extent, &self.tunables));
        // A write saves the wait for what was written before it, which is about as long.
        let saved_ns = match op {
            Op::Read if is_near && self.tunables.rotational => NEAR_READ_NS,
            Op::Write if is_near && self.destage.is_pending(self.now) => cost_ns.min(NEAR_WRITE_NS),
            _ => 0,
        };
        if saved_ns > 0 {
            self.flows.change_payback(at, |payback| payback.brought(saved_ns));
        }
        // What takes long because others are at the device, or because it flushes what was written before, would take as long
        // without the wait.
        if op != Op::Flush
            && self.in_device == 0
            && let Some(in_service) = &mut self.in_service
        {
            in_service.back = Some(self.now);
        }
    }

    /// The slot of the flow in service is over while it is waited for.
    pub(super) fn note_waited_in_vain(&mut self) {
        if let Some(&InService { flow, idle: Some(idle), .. }) = self.in_service.as_ref() {
            self.book_wait(flow, &idle);
        }
    }

    /// The device was kept free for a flow until now, and maybe from others: for how long.
    fn book_wait(&mut self, at: u32, idle: &Idle) -> u64 {
        let now = self.now;
        let ns = idle.lost_ns + idle.lost_since.map_or(0, |since| now.nanos_since(since));
        if ns > 0 {
            self.flows.change_payback(at, |payback| payback.cost(now, ns));
        }
        ns
    }

    /// Something came, went to the device or is back from it: whether the device does nothing now, although it could.
    #[inline]
    pub(super) fn note_lost(&mut self) {
        let is_lost = self.in_device == 0 && self.len > 0;
        if let Some(InService { idle: Some(idle), .. }) = &mut self.in_service {
            match (is_lost, idle.lost_since) {
                (true, None) => idle.lost_since = Some(self.now),
                (false, Some(since)) => {
                    idle.lost_ns += self.now.nanos_since(since);
                    idle.lost_since = None;
                }
                _ => {}
            }
        }
    }

    /// The flow in service has nothing left, or its slot is over: what it did since it returned was brought by the wait
    /// for it.
    pub(super) fn book_use(&mut self) {
        if let Some(in_service) = &mut self.in_service
            && let Some(back) = in_service.back.take()
        {
            let ns = self.now.nanos_since(back);
            let flow = in_service.flow;
            self.flows.change_payback(flow, |payback| payback.brought(ns));
        }
    }

    /// The device was kept for a flow until now.
    fn note_idled(&mut self, flow: u32, idle: &Idle) {
        let ns = self.now.nanos_since(idle.since);
        self.counters.idled(self.hierarchy.cgroup(EntityId::flow(flow)), idle.cause, ns);
        self.note_idling(flow, ns);
    }

    /// Whether a flow that has just become busy is served at once, and the slot of the one in service ends
    /// (spec/bfq 6.6): because it goes on where it was interrupted, matters more, or waits for nothing but a wait.
    pub(super) fn preempts(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        at: u32,
        how: Return,
    ) -> bool {
        let Some(in_service) = self.in_service else { return false };
        let is_worth_waiting_for = self.is_better_to_idle(requests, in_service.flow);
        if in_service.idle.is_some() && !is_worth_waiting_for {
            // Whoever is next, the one in service is not, for it has nothing.
            return true;
        }
        // Those that are raised alike have small slots anyway, and all of them read here and there.
        let goes_on = how == Return::InTime
            && match self.wr_coeff(at) {
                1 => self.wr_coeff(in_service.flow) == 1,
                mine => mine > self.wr_coeff(in_service.flow),
            };
        // Where an interruption costs no way there and back, the one that is due goes first.
        let is_free = self.tunables.queueing_flash() && !self.tunables.strict_guarantees;
        let matters = !is_worth_waiting_for
            || goes_on
            || is_free
            || self.matters_more(tree, at, in_service.flow);
        matters && self.hierarchy.is_ahead(EntityId::flow(at))
    }

    /// Whether a flow has a better class than another, or more weight among its siblings.
    fn matters_more(&self, tree: &Tree, at: u32, other: u32) -> bool {
        let (mine, theirs) = (self.prio(at), self.prio(other));
        if mine.class != theirs.class {
            return mine.class < theirs.class;
        }
        let [my_group, their_group] =
            [at, other].map(|flow| self.hierarchy.cgroup(EntityId::flow(flow)));
        if my_group == their_group {
            let weight = |flow, prio: Prio| prio.weight * u32::from(self.wr_coeff(flow));
            return weight(at, mine) > weight(other, theirs);
        }
        // One that starts comes first where its cgroup is due and matters as much as the other.
        let weight = |cgroup: u32| tree.cgroups[cgroup].weight;
        match weight(my_group).cmp(&weight(their_group)) {
            Ordering::Less => false,
            Ordering::Equal => self.wr_coeff(at) > self.wr_coeff(other),
            Ordering::Greater => true,
        }
    }
}
