//! Decisions about idling for the flow in service (spec/bfq 5), and about preemption by other flows (spec/bfq 6.6).

use core::cmp::Ordering;

use super::counters::IdlingCause;
use super::data::BfqData;
use super::device::LONG_ON_FLASH;
use super::in_service::{AT_ONCE_NS, Idle, InService};
use super::low_latency::LowLatency;
use super::wf2q::{Prio, Return, State};
use crate::requests::Requests;
use crate::tree::Tree;
use crate::types::PriorityClass;

/// Longest idling for a seeky flow in a symmetric scenario.
const SEEKY_IDLE_NS: u64 = 2_000_000;

/// Updates think time and I/O-boundness with a request that comes for a flow in this state. Returns whether its
/// injection is to be updated.
#[inline(always)]
pub(super) fn note_arrival(
    data: &mut BfqData,
    at: u32,
    state: State,
    is_idle_class: bool,
    is_flush: bool,
) -> bool {
    let (now, slice_idle_ns) = (data.now, data.tunables().slice_idle_ns);
    let (flow, stats) = data.flows.record_mut(at);
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
    let flips =
        if is_judged { think_time.update_is_short(slice_idle_ns, flow.is_live()) } else { None };
    let idle_since = flow.is_empty().then_some(last_end);
    think_time.arrived(now, idle_since, is_new);
    if let Some(briefly) = flips {
        data.flows.inject_limit_mut(at).think_changed(now, briefly);
    }
    // Without idling there is nothing to inject into.
    idle_since.is_some() && slice_idle_ns > 0
}

/// Whether the device idles for the flow in service, which is empty, or will.
pub(super) fn is_waited_for(
    data: &mut BfqData,
    in_service: &InService,
    requests: &Requests,
) -> bool {
    in_service.idle().is_some()
        || (data.flows[in_service.flow()].in_flight > 0
            && is_better_to_idle(data, in_service, requests))
}

/// Whether idling for the flow in service is better than serving another (spec/bfq 5.2).
pub(super) fn is_better_to_idle(
    data: &mut BfqData,
    in_service: &InService,
    requests: &Requests,
) -> bool {
    let at = in_service.flow();
    let flow = &data.flows[at];
    if !flow.is_live() {
        return false;
    }
    if data.tunables().strict_guarantees {
        return true;
    }
    if data.tunables().slice_idle_ns == 0
        || !flow.sync
        || data.schedule.prio(at).class == PriorityClass::Idle
    {
        return false;
    }
    // A sole flow delays no other.
    data.schedule.flows() == 1
        || (!has_room_for_all(data, in_service, requests)
            && data.flows.pays(at, data.now)
            && (is_raised_beside_others(data, at)
                || boosts_throughput(data, Some(in_service), at)
                || data.schedule.is_asymmetric(at)))
}

/// Whether a raised flow in service would lose time to requests of non-raised flows without idling. Not if another
/// flow with the same factor is backlogged.
fn is_raised_beside_others(data: &mut BfqData, at: u32) -> bool {
    /// So many requests of others at the device delay the flow's next one noticeably.
    const OTHERS_MANY: u32 = 4;
    let wr_coeff = data.schedule.wr_coeff(at);
    if wr_coeff == 1 {
        return false;
    }
    let raised = data.schedule.raised();
    let are_others = data.schedule.is_raised_above_siblings(at)
        || data.device.in_flight() >= data.flows[at].in_flight + OTHERS_MANY;
    if !are_others || raised == 1 {
        return are_others;
    }
    let next = data.schedule.runner_up(at);
    next.is_none_or(|next| data.schedule.wr_coeff(next) < wr_coeff)
}

/// Whether queueing flash has room for all waiting requests, few and small ones, so that their order does not matter.
/// O(depth).
fn has_room_for_all(data: &mut BfqData, in_service: &InService, requests: &Requests) -> bool {
    let here = u64::from(data.waiting) + u64::from(data.device.in_flight());
    if !data.tunables().queueing_flash() || here * 4 > u64::from(data.tunables().depth) {
        return false;
    }
    let next = data.schedule.runner_up(in_service.flow());
    let next = next.and_then(|at| data.flows[at].next());
    let is_small = next.is_none_or(|next| requests[next].request.extent.len < LONG_ON_FLASH);
    is_small && !data.device.is_quarter_full()
}

/// Whether idling for flow `at` raises throughput: for a stream on a rotational device, or for any flow on a rotational
/// device without a queue.
pub(super) fn boosts_throughput(data: &BfqData, in_service: Option<&InService>, at: u32) -> bool {
    let (rotational, queueing) = (data.tunables().rotational, data.tunables().queueing);
    // A raised flow should not wait for throughput, unless the device went to a stream anyway.
    let in_min_slot = || {
        data.flows[at].is_known()
            && in_service
                .is_some_and(|in_service| in_service.flow() == at && in_service.in_min_slot(data))
    };
    if data.schedule.has_raised_siblings(at) && !in_min_slot() {
        return false;
    }
    if rotational && !queueing {
        return true;
    }
    let think_time = &data.flows.stats(at).think_time;
    (rotational || !queueing)
        && !data.flows[at].is_seeky()
        && think_time.is_io_bound()
        && think_time.thinks_briefly()
}

/// How the device idles for the flow in service from now on.
pub(super) fn idle(data: &BfqData, low_latency: &LowLatency, in_service: &InService) -> Idle {
    let at = in_service.flow();
    let slice_idle_ns = data.tunables().slice_idle_ns;
    let length_ns = if data.schedule.wr_coeff(at) > 1 {
        low_latency.idle_ns(data)
    } else if data.flows[at].is_seeky() && !data.schedule.is_asymmetric(at) {
        slice_idle_ns.min(SEEKY_IDLE_NS)
    } else {
        slice_idle_ns
    };
    let cause = match boosts_throughput(data, Some(in_service), at) {
        true => IdlingCause::Throughput,
        false => IdlingCause::Guarantees,
    };
    let returns = in_service.returns() || data.costs_shares(at);
    let inject_after_ns = if data.tunables().rotational && returns { AT_ONCE_NS } else { 0 };
    Idle::start(data, length_ns, inject_after_ns, cause)
}

/// Whether a newly backlogged flow preempts the one in service (spec/bfq 6.6): because it resumes its previous slot,
/// has a better class or weight, or the device is only idling.
pub(super) fn preempts(
    data: &mut BfqData,
    in_service: &InService,
    tree: &Tree,
    requests: &Requests,
    at: u32,
    how: Return,
) -> bool {
    let is_worth_waiting_for = is_better_to_idle(data, in_service, requests);
    if in_service.idle().is_some() && !is_worth_waiting_for {
        // The flow in service is empty, so it cannot be the next choice.
        return true;
    }
    let served = in_service.flow();
    // Equally raised flows have short slots anyway, and all of them are seeky.
    let goes_on = how == Return::InTime
        && match data.schedule.wr_coeff(at) {
            1 => data.schedule.wr_coeff(served) == 1,
            mine => mine > data.schedule.wr_coeff(served),
        };
    // Flash that queues loses nothing by preemption, so the flow with the earlier finish goes first.
    let is_free = data.tunables().queueing_flash() && !data.tunables().strict_guarantees;
    let matters =
        !is_worth_waiting_for || goes_on || is_free || matters_more(data, tree, at, served);
    matters && data.schedule.is_ahead(at)
}

/// Whether a flow has a better class than another, or a larger weight among its siblings.
fn matters_more(data: &BfqData, tree: &Tree, at: u32, other: u32) -> bool {
    let schedule = &data.schedule;
    let (mine, theirs) = (schedule.prio(at), schedule.prio(other));
    if mine.class != theirs.class {
        return mine.class < theirs.class;
    }
    let [my_group, their_group] = [at, other].map(|flow| schedule.cgroup(flow));
    if my_group == their_group {
        let weight = |flow, prio: Prio| prio.weight * u32::from(schedule.wr_coeff(flow));
        return weight(at, mine) > weight(other, theirs);
    }
    // Between cgroups of equal weight the more raised flow matters more.
    let weight = |cgroup: u32| tree.cgroups[cgroup].weight;
    match weight(my_group).cmp(&weight(their_group)) {
        Ordering::Less => false,
        Ordering::Equal => schedule.wr_coeff(at) > schedule.wr_coeff(other),
        Ordering::Greater => true,
    }
}
