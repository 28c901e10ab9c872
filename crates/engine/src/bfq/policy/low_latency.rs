//! Low latency in the schedule: calls of weight raising and burst detection, and what follows from them (spec/bfq 6).

use crate::bfq::Bfq;
use crate::bfq::budget::Expiry;
use crate::bfq::in_service::InService;
use crate::bfq::weight_raising::{Activation, Created, WeightRaising, WrParams, WrState};
use crate::bfq::wf2q::Entity;
use crate::merge::QueueId;
use crate::merge::split::{Raising, Resume};
use crate::tree::Tree;
use crate::types::{Instant, LowLatency};

const MS: u64 = 1_000_000;

/// Least idling for a raised flow. A starting application also computes.
const RAISED_IDLE_NS: u64 = 20 * MS;

/// Shortest slot of a non-raised flow beside a raised one that is due.
///
/// A start on the idle `hdd7200` takes 0.85 s. A tenth of that is all there is for others if it is to take 1.1 times
/// as long: three or four such slots with their seeks.
const MIN_SLOT_NS: u64 = 20 * MS;

impl Bfq {
    pub(in crate::bfq) fn wr_params(&self) -> WrParams {
        WrParams {
            enabled: self.data.tunables().low_latency,
            interactive_ms: self.data.device.interactive_ms(),
            slice_idle_ns: self.data.tunables().slice_idle_ns,
        }
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

    /// Length of idling for a raised flow.
    pub(in crate::bfq) fn raised_idle_ns(&mut self) -> u64 {
        let slice_idle_ns = self.data.tunables().slice_idle_ns;
        let more_ns = RAISED_IDLE_NS.saturating_sub(slice_idle_ns);
        slice_idle_ns + more_ns.min(self.raised_idle_budget.left(self.data.now))
    }

    /// Takes extra idling for a raised flow from its budget.
    pub(in crate::bfq) fn note_idling(&mut self, at: u32, ns: u64) {
        if self.data.schedule.wr_coeff(at) > 1 {
            self.raised_idle_budget
                .take(self.data.now, ns.saturating_sub(self.data.tunables().slice_idle_ns));
        }
    }

    /// Notes a client's first request: the flow may belong to a large burst.
    pub(in crate::bfq) fn note_creation(&mut self, tree: &Tree, at: u32) {
        if !self.data.tunables().low_latency
            || self.data.low_latency_of(tree, at) != LowLatency::Auto
        {
            return;
        }
        let cgroup = self.data.schedule.cgroup(at);
        let mark = |bfq: &mut Bfq, at| {
            bfq.data.flows.detection_mut(at).set_in_large_burst(true);
            // Remove weight raising immediately when the flow joins a large burst, even if it has not been served
            // yet.
            bfq.end_weight_raising(at);
        };
        match self.burst.created(self.data.now, at, cgroup, self.data.schedule.busy() > 0) {
            Created::Alone => {}
            Created::AmongMany => mark(self, at),
            Created::MadeMany(others) => {
                others.into_iter().for_each(|other| mark(self, other));
                mark(self, at);
            }
        }
    }

    /// Notes a flow that becomes backlogged; returns whether it is raised from now on (spec/bfq 6.5).
    pub(in crate::bfq) fn arrive(&mut self, tree: &Tree, at: u32) -> bool {
        let (now, wr_params) = (self.data.now, self.wr_params());
        let queue = self.data.flows.id(at);
        let (flow, stats) = self.data.flows.record_mut(at);
        let activation = Activation {
            last_end: flow.last_end,
            is_in_flight: flow.in_flight > 0,
            is_sync: flow.sync,
            is_all_seeks: flow.is_all_seeks(),
            is_of_one_task: flow.is_alone() || (flow.sync && self.merging.may_be_raised(queue)),
        };
        let Some(trigger) = stats.detection_mut().arrive(now, &activation, &wr_params) else {
            return false;
        };
        let policy = self.data.low_latency_of(tree, at);
        self.change_raising(at, |raising| raising.begin(now, trigger, &wr_params, policy))
    }

    pub(in crate::bfq) fn note_selection(&mut self, at: u32) {
        if self.data.schedule.wr_coeff(at) == Raising::SOFT_REAL_TIME {
            let (now, last_end) = (self.data.now, self.data.flows[at].last_end);
            self.change_raising(at, |raising| raising.select(now, last_end));
        }
    }

    /// Updates weight raising after a dispatch.
    ///
    /// Flows that began together with one that turns out to be a stream are part of the same: a copy, a service, a
    /// benchmark. Otherwise the one that reads least would stay raised against the others for the rest of the period.
    #[inline(never)]
    pub(in crate::bfq) fn update_weight_raising(&mut self, tree: &Tree, at: u32) {
        let (now, wr_params) = (self.data.now, self.wr_params());
        let &Entity { service, parent: cgroup, .. } = self.data.schedule.entity(at);
        let raising = self.data.flows.raising(at);
        let since = raising.interactive_since();
        if raising.needs_update(now, service, &wr_params)
            && self.change_raising(at, |raising| raising.update(now, service, &wr_params))
            && let Some(since) = since
        {
            self.data.schedule.note_stream(cgroup, since);
            return;
        }
        if since.is_some_and(|since| self.data.schedule.is_with_stream(cgroup, since))
            && self.data.low_latency_of(tree, at) == LowLatency::Auto
        {
            self.end_weight_raising(at);
        }
    }

    /// Ends soft real-time raising of a flow whose last 32 requests were all far apart.
    #[inline(never)]
    pub(in crate::bfq) fn demote_seeky(&mut self, at: u32) {
        let (now, wr_params) = (self.data.now, self.wr_params());
        self.change_raising(at, |raising| raising.demote_seeky(now, &wr_params));
    }

    /// A flow is empty and has nothing in flight.
    pub(in crate::bfq) fn note_emptied(&mut self, at: u32) {
        if self.data.tunables().low_latency && self.data.flows[at].sync {
            let (now, wr_params) = (self.data.now, self.wr_params());
            self.data.flows.detection_mut(at).update_soft_rt_next_start(now, &wr_params);
        }
    }

    /// Ends weight raising of a flow.
    pub(in crate::bfq) fn end_weight_raising(&mut self, at: u32) {
        if self.data.schedule.wr_coeff(at) > 1 {
            let now = self.data.now;
            self.change_raising(at, |raising| raising.end(now));
        }
    }

    /// Ends weight raising of all flows. O(flows).
    pub(in crate::bfq) fn end_all_weight_raising(&mut self) {
        self.data.flows.live().into_iter().for_each(|at| self.end_weight_raising(at));
    }

    /// Ends weight raising that the settings no longer allow. O(flows).
    pub(crate) fn review_policies(&mut self, now: Instant, tree: &Tree) {
        self.data.now = self.data.now.max(now);
        for at in self.data.flows.live() {
            let is_off = || {
                !self.data.tunables().low_latency
                    || self.data.low_latency_of(tree, at) == LowLatency::Never
            };
            if self.data.schedule.wr_coeff(at) > 1 && is_off() {
                let now = self.data.now;
                self.change_raising(at, |raising| raising.end(now));
            }
        }
    }

    /// Saved state of a flow that merges (spec/bfq 7.6).
    pub(in crate::bfq) fn raising_of(&self, queue: QueueId) -> Raising {
        let raising = self.data.flows.raising(queue.index);
        // A flow that merges again before any request was raised already, or was not to be.
        if raising.is_newborn() && !raising.is_in_large_burst() && self.data.tunables().low_latency
        {
            Raising::newborn(self.data.now, u64::from(self.wr_params().interactive_ms) * MS)
        } else {
            raising.saved()
        }
    }

    /// Moves raising along with a merge.
    pub(in crate::bfq) fn join_raising(&mut self, from: u32, to: u32) {
        let [mut giving, mut taking] = [from, to].map(|at| self.data.flows.raising(at).saved());
        taking.inherit(&mut giving);
        let now = self.data.now;
        self.change_raising(from, |raising| raising.restore(now, &giving));
        self.change_raising(to, |raising| raising.restore(now, &taking));
    }

    /// Restores the raising of a flow that was split off (spec/bfq 7.7).
    pub(in crate::bfq) fn resume_raising(&mut self, tree: &Tree, at: u32, saved_state: Raising) {
        let (now, wr_params) = (self.data.now, self.wr_params());
        let resume = Resume {
            low_latency: wr_params.enabled
                && self.data.low_latency_of(tree, at) != LowLatency::Never,
            interactive_ns: u64::from(wr_params.interactive_ms) * MS,
        };
        self.change_raising(at, |raising| {
            raising.restore(now, &saved_state.resume(now, raising.is_in_large_burst(), &resume));
            raising.note_split(now);
        });
        // Its client was not idle; its requests went to another flow.
        self.data.flows[at].last_end = now;
    }

    fn change_raising<T>(&mut self, at: u32, change: impl FnOnce(&mut WeightRaising) -> T) -> T {
        let mut raising = self.data.flows.raising(at);
        let before = WrStateSince::of(&raising);
        let answer = change(&mut raising);
        self.data.flows.set_raising(at, raising);
        let state = raising.state();
        if state != before.state {
            self.count_change(at, before, state);
        }
        answer
    }

    /// A new state counts from the flow's next activation on.
    fn count_change(&mut self, at: u32, before: WrStateSince, after: WrState) {
        let cgroup = self.data.schedule.cgroup(at);
        if let Some(kind) = before.state.kind() {
            self.data.counters.lowered(kind, self.data.now.nanos_since(before.since));
        }
        if let Some(kind) = after.kind() {
            self.data.counters.raised(cgroup, kind);
        }
        self.data.schedule.set_wr_coeff(at, after.wr_coeff());
    }
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
