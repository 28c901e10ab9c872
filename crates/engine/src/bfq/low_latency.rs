//! Low latency in the schedule: what [`super::raising`] and [`super::burst`] are told, and what follows
//! (spec/bfq 6).

use super::Bfq;
use super::budget::Expiry;
use super::slot::InService;
use super::weight_raising::{Activation, Created, LowLatency, WeightRaising, WrParams, WrState};
use super::wf2q::{Entity, EntityId};
use crate::merge::QueueId;
use crate::merge::split::{Raising, Resume};
use crate::time::Instant;
use crate::tree::Tree;

const MS: u64 = 1_000_000;

/// How long the device waits for a raised flow at least: one that starts also computes.
const RAISED_IDLE_NS: u64 = 20 * MS;

/// How long a slot of somebody who is not raised may last beside a raised flow that is due.
///
/// A start on the idle `hdd7200` takes 0.85 s, and a tenth of it is all that there is for others if it is to take 1.1
/// times as long: three or four visits, with the way there and back.
const MIN_SLOT_NS: u64 = 20 * MS;

/// How long the device may still be kept for raised flows, beyond what it is kept for others (spec/bfq D-20, D-29).
///
/// It costs everybody else the device, so it is half of all time at most, over about a second: a wait takes from what
/// is left, and time gives half of itself back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RaisedIdleBudget {
    /// What is left, as it was at `since`.
    left_ns: u64,
    since: Instant,
}

impl RaisedIdleBudget {
    const MAX_NS: u64 = 500 * MS;
    pub(crate) const NEW: RaisedIdleBudget =
        RaisedIdleBudget { left_ns: RaisedIdleBudget::MAX_NS, since: Instant::ZERO };

    fn left(&self, now: Instant) -> u64 {
        self.left_ns.saturating_add(now.nanos_since(self.since) / 2).min(RaisedIdleBudget::MAX_NS)
    }

    /// The device was kept for `ns`.
    fn take(&mut self, now: Instant, ns: u64) {
        *self = RaisedIdleBudget { left_ns: self.left(now).saturating_sub(ns), since: now };
    }
}

impl Bfq {
    pub(super) fn wr_params(&self) -> WrParams {
        WrParams {
            enabled: self.tunables.low_latency,
            interactive_ms: self.interactive_ms,
            slice_idle_ns: self.tunables.slice_idle_ns,
        }
    }

    /// What the weight of a flow is multiplied with.
    pub(super) fn wr_coeff(&self, at: u32) -> u16 {
        self.hierarchy.entities.flow(at).next_wr_coeff
    }

    /// The weight of a flow, unless it is raised.
    pub(super) fn unraised_weight(&self, at: u32) -> Option<u32> {
        (self.wr_coeff(at) == 1).then(|| self.prio(at).weight)
    }

    /// Whether a flow is raised above somebody. Where everybody who is busy is raised, nobody is: small slots that cost
    /// no time would only make a disk seek.
    pub(super) fn is_raised_above_siblings(&self, at: u32) -> bool {
        self.wr_coeff(at) > 1
            && self.scenario.has_unraised_in(self.hierarchy.cgroup(EntityId::flow(at)))
    }

    /// Whether a flow is not raised, and some of its siblings are: what it has of the device are visits.
    pub(super) fn has_raised_siblings(&self, at: u32) -> bool {
        let id = EntityId::flow(at);
        !self.hierarchy.is_raised(id) && self.scenario.has_raised_in(self.hierarchy.cgroup(id))
    }

    /// Whether shares need the device to wait for this flow.
    pub(super) fn is_asymmetric(&self, at: u32) -> bool {
        self.scenario.is_asymmetric(self.unraised_weight(at))
    }

    /// Whether a raised flow in service would lose time to others that are not, here or at the device, if it were not
    /// waited for. Nobody waits for it who is raised as much: the device is kept for all of those together.
    pub(super) fn is_raised_beside_others(&mut self, at: u32) -> bool {
        /// As many requests of others at the device delay the next of a flow by what counts.
        const OTHERS_MANY: u32 = 4;
        let wr_coeff = self.wr_coeff(at);
        if wr_coeff == 1 {
            return false;
        }
        let raised = self.scenario.raised();
        let are_others = self.is_raised_above_siblings(at)
            || self.in_device >= self.flows[at].in_flight + OTHERS_MANY;
        if !are_others || raised == 1 {
            return are_others;
        }
        let next = self.hierarchy.runner_up(EntityId::flow(at));
        next.is_none_or(|next| self.wr_coeff(next) < wr_coeff)
    }

    /// Whether the slot of the flow in service ends because a raised sibling is due before it.
    ///
    /// A raised flow whose small slot has ended is eligible again after a request or so of the next flow; up to ten
    /// others with 125 ms each would come before it otherwise, once each of them is eligible. Not after each request
    /// either: what that costs is the way, and with more in one go the raised flow is due that much longer afterwards.
    /// O(depth).
    pub(super) fn should_preempt_for_raised(&mut self) -> bool {
        if self.scenario.raised() == 0 {
            return false;
        }
        let Some(in_service) = &self.in_service else { return false };
        let id = EntityId::flow(in_service.flow);
        if self.wr_coeff(in_service.flow) > 1 || self.in_min_slot(in_service) {
            return false;
        }
        let Some(next) = self.hierarchy.runner_up(id) else { return false };
        let next_id = EntityId::flow(next);
        self.wr_coeff(next) > 1
            && self.hierarchy.cgroup(next_id) == self.hierarchy.cgroup(id)
            && self.hierarchy.is_ahead(next_id)
    }

    /// Whether a flow that is in service beside raised ones has had too little of the device to be worth the way there
    /// and back.
    pub(super) fn in_min_slot(&self, in_service: &InService) -> bool {
        let served = self.hierarchy.entities.flow(in_service.flow).service;
        let is_soon = self.now < in_service.since.plus_nanos(MIN_SLOT_NS);
        served == 0 || (is_soon && served < u64::from(self.tunables.min_slot_budget()))
    }

    /// Why the slot of the flow in service ends, which has nothing left and is not waited for.
    ///
    /// As a rule it has had what it wanted, and gets a budget of that. In a visit it was interrupted: with a budget of a
    /// visit it would be back, by its finish, before the raised flow is.
    pub(super) fn rest_expiry(&self, at: u32) -> Expiry {
        let is_min_slot_over =
            || self.in_service.is_some_and(|in_service| !self.in_min_slot(&in_service));
        match self.has_raised_siblings(at) && is_min_slot_over() {
            true => Expiry::Preempted,
            false => Expiry::NoMoreRequests,
        }
    }

    /// How long the device waits for a raised flow.
    pub(super) fn raised_idle_ns(&mut self) -> u64 {
        let slice_idle_ns = self.tunables.slice_idle_ns;
        let more_ns = RAISED_IDLE_NS.saturating_sub(slice_idle_ns);
        slice_idle_ns + more_ns.min(self.raised_idle_budget.left(self.now))
    }

    /// The device was kept for a flow, for `ns`.
    pub(super) fn note_idling(&mut self, at: u32, ns: u64) {
        if self.wr_coeff(at) > 1 {
            self.raised_idle_budget.take(self.now, ns.saturating_sub(self.tunables.slice_idle_ns));
        }
    }

    /// A client has its first request: it may be one of many that begin together.
    pub(super) fn note_creation(&mut self, tree: &Tree, at: u32) {
        if !self.tunables.low_latency || self.policy(tree, at) != LowLatency::Auto {
            return;
        }
        let cgroup = self.hierarchy.cgroup(EntityId::flow(at));
        let mark = |bfq: &mut Bfq, at| {
            bfq.flows.detection_mut(at).set_in_large_burst(true);
            // Whoever waits for the device need not be served first to be one of many.
            bfq.end_weight_raising(at);
        };
        match self.burst.created(self.now, at, cgroup, self.busy > 0) {
            Created::Alone => {}
            Created::AmongMany => mark(self, at),
            Created::MadeMany(others) => {
                others.into_iter().for_each(|other| mark(self, other));
                mark(self, at);
            }
        }
    }

    /// A flow begins; whether its weight is raised from here on (spec/bfq 6.5).
    pub(super) fn arrive(&mut self, tree: &Tree, at: u32) -> bool {
        let (now, wr_params) = (self.now, self.wr_params());
        let queue = self.flows.id(at);
        let (flow, stats) = self.flows.record_mut(at);
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
        let policy = self.policy(tree, at);
        self.change_raising(at, |raising| raising.begin(now, trigger, &wr_params, policy))
    }

    /// A flow has got the device.
    pub(super) fn note_selection(&mut self, at: u32) {
        if self.wr_coeff(at) == Raising::SOFT_REAL_TIME {
            let (now, last_end) = (self.now, self.flows[at].last_end);
            self.change_raising(at, |raising| raising.select(now, last_end));
        }
    }

    /// A raised flow has sent a request: its raising may be over.
    ///
    /// Those that began together with one that turns out to be a stream are what it is a part of: a copy, a service, a
    /// benchmark. Otherwise whoever reads least of them would have the device for the rest of the period, against those
    /// that began with it.
    #[inline(never)]
    pub(super) fn update_weight_raising(&mut self, tree: &Tree, at: u32) {
        let (now, wr_params) = (self.now, self.wr_params());
        let &Entity { service, parent: cgroup, .. } = self.hierarchy.entities.flow(at);
        let raising = self.flows.raising(at);
        let since = raising.interactive_since();
        if raising.needs_update(now, service, &wr_params)
            && self.change_raising(at, |raising| raising.update(now, service, &wr_params))
            && let Some(since) = since
        {
            self.scenario.note_stream(cgroup, since);
            return;
        }
        if since.is_some_and(|since| self.scenario.is_with_stream(cgroup, since))
            && self.policy(tree, at) == LowLatency::Auto
        {
            self.end_weight_raising(at);
        }
    }

    /// All of the last requests of a soft real-time flow were far from each other.
    #[inline(never)]
    pub(super) fn demote_seeky(&mut self, at: u32) {
        let (now, wr_params) = (self.now, self.wr_params());
        self.change_raising(at, |raising| raising.demote_seeky(now, &wr_params));
    }

    /// A flow has nothing left, here or at the device.
    pub(super) fn note_emptied(&mut self, at: u32) {
        if self.tunables.low_latency && self.flows[at].sync {
            let (now, wr_params) = (self.now, self.wr_params());
            self.flows.detection_mut(at).update_soft_rt_next_start(now, &wr_params);
        }
    }

    /// Ends all raising of a flow.
    pub(super) fn end_weight_raising(&mut self, at: u32) {
        if self.wr_coeff(at) > 1 {
            let now = self.now;
            self.change_raising(at, |raising| raising.end(now));
        }
    }

    /// Ends all raising. O(flows).
    pub(super) fn end_all_weight_raising(&mut self) {
        self.flows.live().into_iter().for_each(|at| self.end_weight_raising(at));
    }

    /// Ends what settings do not allow any more. O(flows).
    pub(crate) fn review_policies(&mut self, now: Instant, tree: &Tree) {
        self.now = self.now.max(now);
        for at in self.flows.live() {
            let is_off =
                || !self.tunables.low_latency || self.policy(tree, at) == LowLatency::Never;
            if self.wr_coeff(at) > 1 && is_off() {
                let now = self.now;
                self.change_raising(at, |raising| raising.end(now));
            }
        }
    }

    /// What is put aside of a flow that joins others (spec/bfq 7.6).
    pub(super) fn raising_of(&self, queue: QueueId) -> Raising {
        let raising = self.flows.raising(queue.index);
        // One that is alone again, and joins others before anything came, has been raised already, or was not to be.
        if raising.is_newborn() && !raising.is_in_large_burst() && self.tunables.low_latency {
            Raising::newborn(self.now, u64::from(self.wr_params().interactive_ms) * MS)
        } else {
            raising.saved()
        }
    }

    /// Raising moves along with a flow that joins another.
    pub(super) fn join_raising(&mut self, from: u32, to: u32) {
        let [mut giving, mut taking] = [from, to].map(|at| self.flows.raising(at).saved());
        taking.inherit(&mut giving);
        let now = self.now;
        self.change_raising(from, |raising| raising.restore(now, &giving));
        self.change_raising(to, |raising| raising.restore(now, &taking));
    }

    /// Gives back what a flow that is alone again had put aside (spec/bfq 7.7).
    pub(super) fn resume_raising(&mut self, tree: &Tree, at: u32, saved_state: Raising) {
        let (now, wr_params) = (self.now, self.wr_params());
        let resume = Resume {
            low_latency: wr_params.enabled && self.policy(tree, at) != LowLatency::Never,
            interactive_ns: u64::from(wr_params.interactive_ms) * MS,
        };
        self.change_raising(at, |raising| {
            raising.restore(now, &saved_state.resume(now, raising.is_in_large_burst(), &resume));
            raising.note_split(now);
        });
        // Its client was not away, although nothing came here.
        self.flows[at].last_end = now;
    }

    /// The setting that is nearest to the owner of a flow.
    fn policy(&self, tree: &Tree, at: u32) -> LowLatency {
        let id = EntityId::flow(at);
        let Some(client) = self.hierarchy.owner(id).as_client() else { return LowLatency::Never };
        tree.low_latency_of(client, self.hierarchy.cgroup(id))
    }

    fn change_raising<T>(&mut self, at: u32, change: impl FnOnce(&mut WeightRaising) -> T) -> T {
        let mut raising = self.flows.raising(at);
        let before = WrStateSince::of(&raising);
        let answer = change(&mut raising);
        self.flows.set_raising(at, raising);
        let state = raising.state();
        if state != before.state {
            self.count_change(at, before, state);
        }
        answer
    }

    /// A new level counts from the flow's next placing on.
    fn count_change(&mut self, at: u32, before: WrStateSince, after: WrState) {
        let id = EntityId::flow(at);
        let cgroup = self.hierarchy.cgroup(id);
        if let Some(kind) = before.state.kind() {
            self.counters.lowered(kind, self.now.nanos_since(before.since));
        }
        if let Some(kind) = after.kind() {
            self.counters.raised(cgroup, kind);
        }
        self.with_recount(at, |hierarchy| hierarchy.set_wr_coeff(id, after.wr_coeff()));
    }
}

/// The level that a flow was at, and since when.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_half_of_all_time() {
        let mut raised_idle_budget = RaisedIdleBudget::NEW;
        let mut kept = 0;
        // Asked for 20 ms, 5 ms after each wait, for ten seconds.
        let mut now = Instant::ZERO;
        while now < Instant::from_millis(10_000) {
            let wait = raised_idle_budget.left(now).min(20 * MS);
            now = now.plus_nanos(wait);
            raised_idle_budget.take(now, wait);
            kept += wait;
            now = now.plus_nanos(5 * MS);
        }
        let most = 10_000 * MS / 2 + RaisedIdleBudget::MAX_NS;
        assert!((most - 600 * MS..most + 20 * MS).contains(&kept), "{kept} ns");
    }
}
