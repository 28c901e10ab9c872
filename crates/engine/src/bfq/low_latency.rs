//! Low latency: weight raising of scheduled flows, bursts of new ones, and longer idling for raised ones (spec/bfq 6).

use super::data::BfqData;
use super::weight_raising::{Activation, Burst, Created, RaisedIdleBudget, WeightRaising, WrState};
use super::wf2q::Entity;
use crate::merge::split::{Raising, Resume};
use crate::tree::Tree;
use crate::types::{Instant, LowLatency as Policy};

const MS: u64 = 1_000_000;

/// Least idling for a raised flow. A starting application also computes.
const RAISED_IDLE_NS: u64 = 20 * MS;

/// What low latency keeps beside the weight raising of each flow.
pub(super) struct LowLatency {
    /// Flows created shortly after each other.
    burst: Burst,
    raised_idle_budget: RaisedIdleBudget,
}

impl LowLatency {
    pub(super) fn new() -> LowLatency {
        LowLatency { burst: Burst::new(), raised_idle_budget: RaisedIdleBudget::NEW }
    }

    /// A client has its first request: the flow may belong to a large burst.
    pub(super) fn opened(&mut self, data: &mut BfqData, tree: &Tree, at: u32) {
        if !data.tunables().low_latency || policy(data, tree, at) != Policy::Auto {
            return;
        }
        let cgroup = data.schedule.cgroup(at);
        match self.burst.created(data.now, at, cgroup, data.schedule.busy() > 0) {
            Created::Alone => {}
            Created::AmongMany => note_large_burst(data, at),
            Created::MadeMany(others) => {
                others.into_iter().for_each(|other| note_large_burst(data, other));
                note_large_burst(data, at);
            }
        }
    }

    /// The owner of a flow is gone.
    pub(super) fn closed(&mut self, at: u32) {
        self.burst.forget(at);
    }

    /// Length of idling for a raised flow.
    pub(super) fn idle_ns(&self, data: &BfqData) -> u64 {
        let slice_idle_ns = data.tunables().slice_idle_ns;
        let more_ns = RAISED_IDLE_NS.saturating_sub(slice_idle_ns);
        slice_idle_ns + more_ns.min(self.raised_idle_budget.left(data.now))
    }

    /// The device has idled for a flow. Extra idling for a raised one is taken from its budget.
    pub(super) fn idled(&mut self, data: &BfqData, at: u32, ns: u64) {
        if data.schedule.wr_coeff(at) > 1 {
            let slice_idle_ns = data.tunables().slice_idle_ns;
            self.raised_idle_budget.take(data.now, ns.saturating_sub(slice_idle_ns));
        }
    }
}

/// A flow in a large burst is not raised, also if it was before and has not been served yet.
fn note_large_burst(data: &mut BfqData, at: u32) {
    data.flows.detection_mut(at).set_in_large_burst(true);
    end(data, at);
}

/// A flow becomes backlogged; returns whether it is raised from now on (spec/bfq 6.5). `is_of_one_task`: it is alone, or
/// shared by flows of one task.
pub(super) fn arrive(data: &mut BfqData, tree: &Tree, at: u32, is_of_one_task: bool) -> bool {
    let (now, wr_params) = (data.now, data.device.wr_params());
    let (flow, stats) = data.flows.record_mut(at);
    let activation = Activation {
        last_end: flow.last_end,
        is_in_flight: flow.in_flight > 0,
        is_sync: flow.sync,
        is_all_seeks: flow.is_all_seeks(),
        is_of_one_task,
    };
    let Some(trigger) = stats.detection_mut().arrive(now, &activation, &wr_params) else {
        return false;
    };
    let policy = policy(data, tree, at);
    change(data, at, |raising| raising.begin(now, trigger, &wr_params, policy))
}

/// A flow is selected for service.
pub(super) fn selected(data: &mut BfqData, at: u32) {
    if data.schedule.wr_coeff(at) == Raising::SOFT_REAL_TIME {
        let (now, last_end) = (data.now, data.flows[at].last_end);
        change(data, at, |raising| raising.select(now, last_end));
    }
}

/// Updates weight raising after a dispatch.
///
/// Flows that began together with one that turns out to be a stream are part of the same: a copy, a service, a
/// benchmark. Otherwise the one that reads least would stay raised against the others for the rest of the period.
#[inline(never)]
pub(super) fn update(data: &mut BfqData, tree: &Tree, at: u32) {
    let (now, wr_params) = (data.now, data.device.wr_params());
    let &Entity { service, parent: cgroup, .. } = data.schedule.entity(at);
    let raising = data.flows.raising(at);
    let since = raising.interactive_since();
    if raising.needs_update(now, service, &wr_params)
        && change(data, at, |raising| raising.update(now, service, &wr_params))
        && let Some(since) = since
    {
        data.schedule.note_stream(cgroup, since);
        return;
    }
    if since.is_some_and(|since| data.schedule.is_with_stream(cgroup, since))
        && policy(data, tree, at) == Policy::Auto
    {
        end(data, at);
    }
}

/// Ends soft real-time raising of a flow whose last 32 requests were all far apart.
#[inline(never)]
pub(super) fn demote_seeky(data: &mut BfqData, at: u32) {
    let (now, wr_params) = (data.now, data.device.wr_params());
    change(data, at, |raising| raising.demote_seeky(now, &wr_params));
}

/// A flow is empty and has nothing in flight.
pub(super) fn emptied(data: &mut BfqData, at: u32) {
    if data.tunables().low_latency && data.flows[at].sync {
        let (now, wr_params) = (data.now, data.device.wr_params());
        data.flows.detection_mut(at).update_soft_rt_next_start(now, &wr_params);
    }
}

/// Ends weight raising of a flow.
pub(super) fn end(data: &mut BfqData, at: u32) {
    if data.schedule.wr_coeff(at) > 1 {
        let now = data.now;
        change(data, at, |raising| raising.end(now));
    }
}

/// Ends weight raising of all flows. O(flows).
pub(super) fn end_all(data: &mut BfqData) {
    data.flows.live().into_iter().for_each(|at| end(data, at));
}

/// Ends weight raising that the settings no longer allow. O(flows).
pub(super) fn end_where_off(data: &mut BfqData, tree: &Tree) {
    for at in data.flows.live() {
        if !data.tunables().low_latency || policy(data, tree, at) == Policy::Never {
            end(data, at);
        }
    }
}

/// Saved state of a flow that merges (spec/bfq 7.6).
pub(super) fn saved(data: &BfqData, at: u32) -> Raising {
    let raising = data.flows.raising(at);
    // A flow that merges again before any request was raised already, or was not to be.
    if raising.is_newborn() && !raising.is_in_large_burst() && data.tunables().low_latency {
        Raising::newborn(data.now, u64::from(data.device.wr_params().interactive_ms) * MS)
    } else {
        raising.saved()
    }
}

/// Moves raising along with a merge.
pub(super) fn inherit(data: &mut BfqData, from: u32, to: u32) {
    let [mut giving, mut taking] = [from, to].map(|at| data.flows.raising(at).saved());
    taking.inherit(&mut giving);
    let now = data.now;
    change(data, from, |raising| raising.restore(now, &giving));
    change(data, to, |raising| raising.restore(now, &taking));
}

/// Restores the raising of a flow that was split off (spec/bfq 7.7).
pub(super) fn resume(data: &mut BfqData, tree: &Tree, at: u32, saved: Raising) {
    let (now, wr_params) = (data.now, data.device.wr_params());
    let resume = Resume {
        low_latency: wr_params.enabled && policy(data, tree, at) != Policy::Never,
        interactive_ns: u64::from(wr_params.interactive_ms) * MS,
    };
    change(data, at, |raising| {
        raising.restore(now, &saved.resume(now, raising.is_in_large_burst(), &resume));
        raising.note_split(now);
    });
    // Its client was not idle; its requests went to another flow.
    data.flows[at].last_end = now;
}

/// The nearest setting for the owner of a flow.
fn policy(data: &BfqData, tree: &Tree, at: u32) -> Policy {
    let Some(client) = data.schedule.owner(at).as_client() else { return Policy::Never };
    tree.low_latency_of(client, data.schedule.cgroup(at))
}

fn change<T>(data: &mut BfqData, at: u32, change: impl FnOnce(&mut WeightRaising) -> T) -> T {
    let mut raising = data.flows.raising(at);
    let before = WrStateSince::of(&raising);
    let answer = change(&mut raising);
    data.flows.set_raising(at, raising);
    let state = raising.state();
    if state != before.state {
        count_change(data, at, before, state);
    }
    answer
}

/// A new state counts from the flow's next activation on.
fn count_change(data: &mut BfqData, at: u32, before: WrStateSince, after: WrState) {
    let cgroup = data.schedule.cgroup(at);
    if let Some(kind) = before.state.kind() {
        data.counters.lowered(kind, data.now.nanos_since(before.since));
    }
    if let Some(kind) = after.kind() {
        data.counters.raised(cgroup, kind);
    }
    data.schedule.set_wr_coeff(at, after.wr_coeff());
}

/// State of a flow, and since when.
#[derive(Clone, Copy)]
struct WrStateSince {
    state: WrState,
    since: Instant,
}

impl WrStateSince {
    fn of(raising: &WeightRaising) -> WrStateSince {
        WrStateSince { state: raising.state(), since: raising.state_since() }
    }
}
