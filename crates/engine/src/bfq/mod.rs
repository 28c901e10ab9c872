//! BFQ: budget fair queueing, shares by weight in a tree of cgroups (`scheduler = "bfq"`).
//!
//! ```text
//!  insert ─► flow: by position, by age ─┐                    ┌─► budget used up, time out, no more requests
//!                                       ├─► slot ─► dispatch ┤
//!  hierarchy: next flow, by B-WF2Q+ ────┘     └─► idle: wait for the flow's next request
//! ```
//!
//! A flow is a client's, not a task's: eight connections of one client get what one connection of another gets, as in the
//! throttle, and a stream spread over a client's connections is seen as one. Writeback of a cgroup is one flow. `docs/bfq.md`
//! has the differences to docs/spec/bfq.md.

mod budget;
mod coalescing;
mod counters;
mod data;
mod destage;
mod device;
mod flow;
mod idling;
mod in_service;
mod inject_limit;
mod low_latency;
mod peak_rate;
mod policy;
mod saved_state;
mod scenario;
mod schedule;
mod settings;
mod shared_stream;
mod tunables;
mod weight_raising;
mod wf2q;

use alloc::vec::Vec;
use core::num::NonZeroU32;

use self::budget::Expiry;
use self::coalescing::CoalescedRun;
pub(crate) use self::counters::Counters;
pub use self::counters::{BfqCgroupStats, BfqStats, Expiration, IdlingCause, Injection, Raising};
use self::data::BfqData;
use self::destage::Destage;
use self::flow::Owner;
use self::in_service::{Expired, InService};
use self::inject_limit::Probe;
use self::low_latency::LowLatency;
use self::saved_state::SavedState;
pub use self::settings::BfqSettings;
use self::shared_stream::SharedStream;
use self::wf2q::{Entity, Return, State};
use crate::merge::{Merging, PositionTree, QueueId, split};
use crate::requests::Arriving;
use crate::requests::Requests;
use crate::tree::Tree;
use crate::types::{Instant, Op, PriorityClass};

/// BFQ scheduler of one device. A step is O(depth × log siblings + log requests of the flow), without allocation once
/// grown.
pub(crate) struct Bfq {
    data: BfqData,
    in_service: Option<InService>,
    /// Members of the shared stream of the flow in service.
    shared_stream: SharedStream,
    /// The last dispatch, while other requests may coalesce with it.
    run: Option<CoalescedRun>,
    /// Merged flows.
    merging: Merging<SavedState>,
    /// Next positions of the flows that may still merge.
    pos_tree: PositionTree,
    /// Flows restored by a split. Kept to reuse its memory.
    alone: Vec<(u32, SavedState)>,
    /// Flow and instant of the last completion.
    last_completed: Option<(QueueId, Instant)>,
    /// Measurement of injection for the flow in service.
    probe: Probe,
    low_latency: LowLatency,
    /// Written data that the disk has not destaged.
    destage: Destage,
}

impl Bfq {
    /// Starts without flows, and continues to count in `counters`.
    pub(crate) fn new(
        settings: &BfqSettings,
        rotational: bool,
        depth: NonZeroU32,
        counters: Counters,
    ) -> Bfq {
        Bfq {
            data: BfqData::new(settings, rotational, depth, counters),
            in_service: None,
            shared_stream: SharedStream::NONE,
            run: None,
            merging: Merging::new(settings.merging()),
            pos_tree: PositionTree::new(),
            alone: Vec::new(),
            last_completed: None,
            probe: Probe::default(),
            low_latency: LowLatency::new(),
            destage: Destage::NEW,
        }
    }

    /// Changes the settings. Slots under way keep their budgets.
    pub(crate) fn set_tunables(&mut self, settings: &BfqSettings) {
        self.data.device.set_settings(settings);
        self.merging.reconfigure(settings.merging());
        if !settings.low_latency() {
            low_latency::end_all(&mut self.data);
        }
    }

    /// Counters of the device.
    pub(crate) fn stats(&self) -> BfqStats {
        self.data.counters.device(self.merging.counters(), self.data.schedule.raised())
    }

    /// Counters of one cgroup, without those below it.
    pub(crate) fn cgroup_stats(&self, cgroup: u32) -> BfqCgroupStats {
        self.data.counters.cgroup(cgroup, self.data.schedule.raised_of(cgroup))
    }

    /// Gives the counters to the next scheduler.
    pub(crate) fn into_counters(mut self) -> Counters {
        low_latency::end_all(&mut self.data);
        self.data.counters.close(self.merging.counters());
        self.data.counters
    }

    /// Accounts for the request at `index`, which another scheduler has dispatched. [`Bfq::complete`] follows.
    pub(crate) fn adopt(&mut self, tree: &Tree, requests: &Requests, index: u32) {
        let at = self.own_flow(tree, requests, index, Owner::of(tree, requests, index));
        self.data.flows.adopt(at, index);
        self.data.device.dispatched(requests[index].request.data_len());
        self.data.schedule.count(at);
    }

    /// Requests waiting.
    pub(crate) fn len(&self) -> u32 {
        self.data.waiting
    }

    /// Changes the queue depth of the device.
    pub(crate) fn set_depth(&mut self, depth: NonZeroU32) {
        self.data.device.set_depth(depth);
    }

    pub(crate) fn insert(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
        Arriving { request, task, index }: Arriving,
    ) {
        self.advance(now, tree, requests);
        self.data.waiting += 1;
        let of = &mut tree.tasks[task];
        of.ready.push_back(requests, index);
        let (owner, cgroup) = (Owner::of_task(of, request), of.cgroup);
        let own_flow = match self.data.flows.of(owner) {
            Some(own_flow) => own_flow,
            None => self.open(tree, requests, owner, cgroup),
        };
        self.shared_stream.returned(owner);
        let at = self.flow_for_request(tree, requests, own_flow, request);
        let entity = self.data.schedule.entity(at);
        let (state, wr_coeff) = (entity.state, entity.next_wr_coeff);
        let is_idle_class = entity.next_class == PriorityClass::Idle;
        let returns =
            idling::note_arrival(&mut self.data, at, state, is_idle_class, request.op == Op::Flush);
        let (from, tunables) = (self.data.device.position(), self.data.device.tunables());
        let flow = self.data.flows.insert(at, request, index, from, tunables);
        if wr_coeff == split::Raising::SOFT_REAL_TIME && flow.is_all_seeks() {
            low_latency::demote_seeky(&mut self.data, at);
        }
        if returns {
            self.update_injection(at);
        }
        match state {
            State::Off | State::Idle => {
                let how = self.activate(tree, requests, at);
                self.data.schedule.count(at);
                self.note_lost();
                self.extend_flash_bound(at);
                if let Some(in_service) = &self.in_service
                    && idling::preempts(&mut self.data, in_service, tree, requests, at, how)
                {
                    self.expire(tree, requests, Expiry::Preempted);
                }
            }
            State::Waiting | State::Eligible => {
                if self.data.flows[at].next() == Some(index) {
                    self.data.refresh_budget(tree, requests, at);
                }
            }
            State::InService => {
                if let Some(in_service) = &mut self.in_service {
                    let is_destaging = self.destage.is_pending(self.data.now);
                    in_service.returned(&mut self.data, requests, index, is_destaging);
                    in_service.stop_idling(&mut self.data, &mut self.low_latency);
                }
            }
        }
        self.update_pos_tree(at);
    }

    /// Takes out the next request for the device. `None` while the device idles for a flow, although requests may
    /// wait.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
    ) -> Option<u32> {
        self.data.now = now;
        match self.goes_on(requests) {
            Some((at, index, charge)) => {
                self.dispatch(tree, requests, at, index, charge);
                Some(index)
            }
            None => self.choose(tree, requests),
        }
    }

    /// Takes out a waiting request.
    pub(crate) fn remove(
        &mut self,
        tree: &mut Tree,
        requests: &mut Requests,
        task: u32,
        index: u32,
    ) {
        self.data.waiting -= 1;
        tree.tasks[task].ready.remove(requests, index);
        let at = self.data.flows.remove(index, self.data.device.tunables());
        if self.is_in_service(at) {
            self.probe.reset();
        }
        if self.data.schedule.state(at).is_active() {
            if self.data.flows[at].queued == 0 {
                self.data.schedule.deactivate(self.data.now, tree, at);
            } else {
                self.data.refresh_budget(tree, requests, at);
            }
        }
        self.update_pos_tree(at);
        self.uncount_if_idle(at);
    }

    /// The device has completed the request at `index`, of `data_len` bytes of data.
    pub(crate) fn complete(
        &mut self,
        now: Instant,
        tree: &Tree,
        requests: &Requests,
        index: u32,
        data_len: u32,
    ) {
        self.advance(now, tree, requests);
        if self.probe.measures(index)
            && let Some(in_service) = &self.in_service
        {
            let injection = self.data.flows.inject_limit_mut(in_service.flow());
            self.probe.completed(injection, now, self.data.device.in_flight());
        }
        self.data.device.completed(now, data_len);
        self.note_lost();
        let at = self.data.flows.flow_of(index);
        let (flow, generation) = self.data.flows.flow_mut(at);
        flow.in_flight -= 1;
        flow.last_end = now;
        let is_last = flow.in_flight == 0;
        if self.data.device.tunables().slice_idle_ns > 0 {
            // A merged flow is no waker: it stands for several clients.
            let is_one = flow.is_alone();
            self.last_completed = is_one.then_some((QueueId { index: at, generation }, now));
        }
        self.shared_stream.completed(now, at, index);
        self.destage.completed(now, index);
        if self.is_in_service(at) {
            self.after_completion(tree, requests, at);
        }
        if is_last {
            self.uncount_if_idle(at);
        }
    }

    /// Instant at which [`Bfq::handle_timeout`] is due, or [`Bfq::next`] may give another answer.
    ///
    /// Idling needs no timer while no request waits: with one client at a time, a server would set one at each pause.
    /// [`Bfq::advance`] then ends it at its proper instant.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.in_service.as_ref().and_then(InService::idle) {
            Some(_) if self.data.waiting == 0 => None,
            Some(idle) => Some(idle.deadline(self.data.now)),
            None => {
                let held = self.shared_stream.deadline(self.data.now);
                held.or_else(|| self.destage.deadline(self.data.now))
            }
        }
    }

    /// Applies a cgroup's new weight or class from `tree`. The cgroup is not in service.
    pub(crate) fn update_cgroup_prio(&mut self, tree: &Tree, cgroup: u32) {
        self.data.schedule.update_group_prio(self.data.now, tree, cgroup);
    }

    /// Expires the flow in service if it is in `cgroup` or below, charged at the weights in `tree`.
    pub(crate) fn take_device_from(&mut self, tree: &Tree, requests: &Requests, cgroup: u32) {
        if self.data.schedule.is_group_in_service(cgroup) {
            self.expire(tree, requests, Expiry::Preempted);
        }
    }

    /// Applies a cgroup's new parent from `tree`.
    pub(crate) fn move_cgroup(&mut self, tree: &Tree, requests: &Requests, cgroup: u32) {
        self.take_device_from(tree, requests, cgroup);
        self.data.schedule.move_group(self.data.now, tree, cgroup);
        // The nearest setting of its clients may have changed.
        self.review_policies(self.data.now, tree);
    }

    /// Applies changed settings of low latency. O(flows).
    pub(crate) fn review_policies(&mut self, now: Instant, tree: &Tree) {
        self.data.now = self.data.now.max(now);
        low_latency::end_where_off(&mut self.data, tree);
    }

    /// Activates a flow at its first request (spec/bfq 2.3, 2.10, 3.1).
    fn activate(&mut self, tree: &Tree, requests: &Requests, at: u32) -> Return {
        let is_of_one_task = self.is_of_one_task(at);
        if low_latency::arrive(&mut self.data, tree, at, is_of_one_task)
            && self.data.schedule.is_raised_above_siblings(at)
        {
            let flow = &mut self.data.flows[at];
            flow.max_budget = flow.max_budget.min(self.data.device.tunables().raised_budget());
        }
        let charge = self.data.next_charge(requests, at);
        let starts_apart = self.data.schedule.wr_coeff(at) > 1
            && self.data.flows.stats(at).has_just_started()
            && self.data.schedule.has_unraised_beside(at);
        let most = if starts_apart { self.data.tunables().raised_budget() } else { u32::MAX };
        let (flow, stats) = self.data.flows.record_mut(at);
        let away_ns = self.data.now.nanos_since(flow.last_end);
        let is_in_time = away_ns <= 3 * self.data.device.tunables().slice_idle_ns;
        let left = core::mem::take(&mut flow.budget_left);
        let (budget, how) = match left {
            1.. if is_in_time => (left.min(flow.max_budget), Return::InTime),
            _ => (flow.max_budget, Return::Afresh),
        };
        // A starting flow is due soon also if it is alone in its cgroup.
        let budget = budget.min(most);
        let budget = self.data.device.bounded(self.data.now, budget).max(charge);
        flow.start.restart();
        if stats.has_sparse() {
            self.data.flows.touch_woken(at);
        }
        self.data.schedule.activate(self.data.now, tree, at, budget, how);
        how
    }

    /// Dispatches the request at `index` of flow `at`, charged `charge`.
    #[inline(never)]
    fn dispatch(
        &mut self,
        tree: &mut Tree,
        requests: &mut Requests,
        at: u32,
        index: u32,
        charge: u64,
    ) {
        self.data.waiting -= 1;
        self.data.device.dispatched(requests[index].request.data_len());
        let is_own = self.is_in_service(at);
        self.probe.dispatched(index, is_own, self.data.device.in_flight());
        if is_own {
            self.note_member(tree, requests, at, index);
        } else {
            self.note_lost();
        }
        self.data.schedule.charge_flow(at, charge);
        let record = &requests[index];
        let (request, task) = (&record.request, record.task);
        let tunables = self.data.device.tunables();
        let flow = self.data.flows.dispatch(self.data.now, at, index, record.since, tunables);
        flow.start.serve(self.data.now);
        let (is_of_stream, in_flight) = (!flow.is_seeky(), flow.in_flight);
        self.begin_coalescing(request, at, is_of_stream);
        self.note_destage(at, index, request);
        if request.op != Op::Flush {
            self.data.device.moved(self.data.now, request.extent, is_of_stream);
        }
        tree.tasks[task].ready.remove(requests, index);
        self.update_pos_tree(at);
        if is_own {
            self.after_dispatch(tree, requests, at, in_flight);
        }
    }

    fn is_in_service(&self, at: u32) -> bool {
        self.in_service.as_ref().is_some_and(|in_service| in_service.flow() == at)
    }

    /// Updates whether idling keeps other flows from an empty device.
    #[inline]
    fn note_lost(&mut self) {
        if let Some(in_service) = &mut self.in_service {
            in_service.note_lost(&self.data);
        }
    }

    /// Whether the slot is over by time, or leaves the disk enough to destage.
    #[inline]
    fn has_timed_out(&self) -> bool {
        self.leaves_long_destage()
            || self.in_service.as_ref().is_some_and(|served| served.has_timed_out(&self.data))
    }

    /// The flow in service has dispatched a request. In the idle class that ends the slot if other flows are busy.
    #[inline(always)]
    fn after_dispatch(&mut self, tree: &Tree, requests: &Requests, at: u32, in_flight: u32) {
        if let Some(in_service) = &mut self.in_service {
            in_service.stop_idling(&mut self.data, &mut self.low_latency);
            in_service.dispatched(&self.data, in_flight);
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
    fn after_completion(&mut self, tree: &Tree, requests: &Requests, at: u32) {
        let Some(in_service) = &mut self.in_service else { return };
        let flow = &self.data.flows[at];
        let (is_empty, in_flight) = (flow.queued == 0, flow.in_flight);
        if is_empty && idling::is_better_to_idle(&mut self.data, in_service, requests) {
            if in_flight == 0 {
                let idle = idling::idle(&self.data, &self.low_latency, in_service);
                in_service.start_idling(&mut self.data, idle);
            }
        } else if self.has_timed_out() {
            self.expire(tree, requests, Expiry::BudgetTimeout);
        } else if is_empty && let Some(in_service) = &self.in_service {
            self.expire(tree, requests, in_service.rest_expiry(&self.data));
        }
    }

    /// Ends idling that is over.
    pub(crate) fn handle_timeout(&mut self, now: Instant, tree: &Tree, requests: &Requests) {
        if let Some(in_service) = &self.in_service
            && let Some(idle) = in_service.idle()
            && idle.until() <= now
        {
            // Without a waiting request there was no timer: idling ended at its own instant.
            let is_timed = self.data.waiting > 0;
            self.data.now = if is_timed { now } else { self.data.now.max(idle.until()) };
            let is_over = in_service.is_over(self.data.now);
            let expiry = if is_over { Expiry::BudgetTimeout } else { Expiry::TooIdle };
            self.expire_at(tree, requests, expiry, idle.since());
        }
        self.data.now = now;
    }

    /// Advances the clock, after ending idling that was over before `now`.
    #[inline]
    fn advance(&mut self, now: Instant, tree: &Tree, requests: &Requests) {
        let idle = self.in_service.as_ref().and_then(InService::idle);
        if idle.is_some_and(|idle| idle.until() < now) {
            self.handle_timeout(now, tree, requests);
        }
        self.data.now = now;
    }

    /// Expires the flow in service, if any.
    fn expire(&mut self, tree: &Tree, requests: &Requests, expiry: Expiry) {
        self.expire_at(tree, requests, expiry, self.data.now);
    }

    /// Expires it, with a slot that counts until `end`.
    fn expire_at(&mut self, tree: &Tree, requests: &Requests, expiry: Expiry, end: Instant) {
        let Some(in_service) = &mut self.in_service else { return };
        let (data, low_latency) = (&mut self.data, &mut self.low_latency);
        let Expired { flow, may_part, is_in_flight } =
            in_service.expire(data, low_latency, tree, requests, expiry, end);
        self.in_service = None;
        self.probe.reset();
        if may_part {
            self.part_if_shared(tree, flow);
        }
        if !is_in_flight {
            self.uncount_if_idle(flow);
        }
    }
}
