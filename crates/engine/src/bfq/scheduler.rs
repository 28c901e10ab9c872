//! Scheduler: requests in and out, in the order in which the parts of BFQ have a say.

use alloc::string::String;
use alloc::sync::Arc;
use core::num::NonZeroU32;

use super::budget::Expiry;
use super::coalescing::CoalescedRun;
use super::counters::{BfqCgroupStats, BfqStats, CgroupCounts, Counters};
use super::data::{BfqData, prio_of};
use super::destage::Destage;
use super::flow::Owner;
use super::in_service::{Expired, InService};
use super::injection::Injection;
use super::low_latency::LowLatency;
use super::merger::{Merger, Placement};
use super::settings::BfqSettings;
use super::shared_stream::SharedStream;
use super::wf2q::{Entity, State};
use super::{budget, check, idling, low_latency};
use crate::merge::{QueueId, split};
use crate::requests::{Arriving, Requests};
use crate::tree::Tree;
use crate::types::{Instant, Op, PriorityClass, Request};

/// Time without requests after which a flow may be evicted: as long as membership in a large burst lasts
/// (spec/bfq 6.4).
const STALE_NS: u64 = 10_000_000_000;

/// BFQ scheduler of one device. A step is O(depth × log siblings + log requests of the flow), without allocation once
/// grown.
pub(crate) struct Bfq {
    data: BfqData,
    in_service: Option<InService>,
    /// Members of the shared stream of the flow in service.
    shared_stream: SharedStream,
    /// The last dispatch, while other requests may coalesce with it.
    run: Option<CoalescedRun>,
    merger: Merger,
    injection: Injection,
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
            merger: Merger::new(settings.merging()),
            injection: Injection::new(),
            low_latency: LowLatency::new(),
            destage: Destage::NEW,
        }
    }

    /// Changes the settings. Slots under way keep their budgets.
    pub(crate) fn set_tunables(&mut self, settings: &BfqSettings) {
        self.data.device.set_settings(settings);
        self.merger.reconfigure(settings.merging());
        if !settings.low_latency() {
            low_latency::end_all(&mut self.data);
        }
    }

    /// Changes the queue depth of the device.
    pub(crate) fn set_depth(&mut self, depth: NonZeroU32) {
        self.data.device.set_depth(depth);
    }

    /// Requests waiting.
    pub(crate) fn len(&self) -> u32 {
        self.data.waiting
    }

    /// Counters of the device.
    pub(crate) fn stats(&self) -> BfqStats {
        self.data.counters.device(self.merger.counters(), self.data.schedule.raised())
    }

    /// Counters of one cgroup, without those below it.
    pub(crate) fn cgroup_stats(&self, cgroup: u32) -> BfqCgroupStats {
        self.data.counters.cgroup(cgroup, self.data.schedule.raised_of(cgroup))
    }

    /// Counters of a cgroup, for other threads to read.
    pub(crate) fn share_counts(&mut self, cgroup: u32) -> Arc<CgroupCounts> {
        self.data.counters.share(cgroup)
    }

    /// Gives the counters to the next scheduler.
    pub(crate) fn into_counters(mut self) -> Counters {
        low_latency::end_all(&mut self.data);
        self.data.counters.close(self.merger.counters());
        self.data.counters
    }

    /// Checks flows, their requests and their entities. O(everything).
    ///
    /// # Errors
    ///
    /// A text that says what does not hold.
    pub(crate) fn check(&mut self, tree: &Tree, requests: &Requests) -> Result<(), String> {
        check::check(&mut self.data, self.in_service.as_ref(), &self.merger, tree, requests)
    }
}

/// Requests.
impl Bfq {
    /// Accounts for the request at `index`, which another scheduler has dispatched. [`Bfq::complete`] follows.
    pub(crate) fn adopt(&mut self, tree: &Tree, requests: &Requests, index: u32) {
        let at = self.own_flow(tree, requests, index, Owner::of(tree, requests, index));
        self.data.flows.adopt(at, index);
        self.data.device.dispatched(requests[index].request.data_len());
        self.data.schedule.count(at);
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
        let at = self.place(tree, requests, own_flow, request);
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
            let is_in_service = self.is_in_service(at);
            self.injection.arrived(&mut self.data, at, is_in_service);
        }
        match state {
            State::Off | State::Idle => {
                let data = &mut self.data;
                let is_of_one_task = self.merger.is_of_one_task(data, at);
                let is_raised = low_latency::arrive(data, tree, at, is_of_one_task);
                let how = budget::activate(data, tree, requests, at, is_raised);
                self.note_lost();
                if let Some(in_service) = &self.in_service
                    && idling::preempts(&mut self.data, in_service, tree, requests, at, how)
                {
                    self.expire(tree, requests, Expiry::Preempted);
                }
            }
            State::Waiting | State::Eligible => {
                if self.data.flows[at].next() == Some(index) {
                    budget::refresh(&mut self.data, tree, requests, at);
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
        self.merger.update_pos_tree(&self.data, at);
    }

    /// The flow that serves `request` of `own_flow`'s client.
    #[inline]
    fn place(&mut self, tree: &Tree, requests: &Requests, own_flow: u32, request: &Request) -> u32 {
        let in_service = self.in_service.as_ref();
        let placement = self.merger.place(&mut self.data, in_service, tree, own_flow, request);
        if placement.merged.is_some() {
            self.update_merged(tree, requests, placement);
        }
        placement.flow
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
            self.injection.reset();
        }
        if self.data.schedule.state(at).is_active() {
            if self.data.flows[at].queued == 0 {
                self.data.schedule.deactivate(self.data.now, tree, at);
            } else {
                budget::refresh(&mut self.data, tree, requests, at);
            }
        }
        self.merger.update_pos_tree(&self.data, at);
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
        self.injection.completed(&mut self.data, self.in_service.as_ref(), index);
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
            self.injection
                .set_last_completed(is_one.then_some((QueueId { index: at, generation }, now)));
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

    /// Fast path: flow in service, its next request and charge, if the slot clearly goes on. Any other case is left
    /// to [`Bfq::choose`].
    #[inline(always)]
    fn goes_on(&self, requests: &Requests) -> Option<(u32, u32, u64)> {
        let (data, in_service) = (&self.data, self.in_service.as_ref()?);
        let at = in_service.flow();
        let is_busy = data.tunables().strict_guarantees && data.device.in_flight() > 0;
        let is_over = in_service.is_over(data.now) || self.destage.ends_slot(data, in_service);
        if is_busy || is_over || self.merger.is_shared_stream(data, at) {
            return None;
        }
        let flow = &data.flows[at];
        let index = flow.pick(data.now, requests, data.tunables())?;
        let charge = budget::charge(data, requests, at, index);
        let entity = data.schedule.entity(at);
        let may_be_preempted = entity.next_wr_coeff == 1 && data.schedule.raised() > 0;
        let stays = entity.has_room(charge) && !may_be_preempted;
        (stays && !data.is_full_for(requests, index)).then_some((at, index, charge))
    }

    /// Chooses and dispatches the next request of any flow.
    #[inline(never)]
    fn choose(&mut self, tree: &mut Tree, requests: &mut Requests) -> Option<u32> {
        if self.data.tunables().strict_guarantees && self.data.device.in_flight() > 0 {
            return None;
        }
        loop {
            if self.in_service.is_none() {
                if self.destage.waits(&mut self.data, tree, requests) {
                    return None;
                }
                self.in_service = Some(InService::select(&mut self.data)?);
                self.shared_stream.begin();
            }
            let in_service = self.in_service.as_ref()?;
            let at = in_service.flow();
            let (data, merger) = (&mut self.data, &self.merger);
            let expiry = match self.shared_stream.pick(data, merger, in_service, tree, requests) {
                None if idling::is_waited_for(data, in_service, requests) => {
                    return self.inject(tree, requests);
                }
                None => in_service.rest_expiry(data),
                Some(_) if self.has_timed_out() => Expiry::BudgetTimeout,
                Some(_) if in_service.should_preempt_for_raised(&mut self.data) => {
                    Expiry::Preempted
                }
                Some(index) => {
                    let (data, stream) = (&mut self.data, &mut self.shared_stream);
                    if stream.waits(data, merger, in_service, tree, requests, index) {
                        return None;
                    }
                    let charge = budget::charge(data, requests, at, index);
                    if data.schedule.entity(at).has_room(charge) {
                        if data.is_full_for(requests, index) {
                            return None;
                        }
                        self.dispatch(tree, requests, at, index, charge);
                        return Some(index);
                    }
                    Expiry::BudgetExhausted
                }
            };
            self.expire(tree, requests, expiry);
        }
    }

    /// Dispatches a request of another flow while the flow in service has none.
    fn inject(&mut self, tree: &mut Tree, requests: &mut Requests) -> Option<u32> {
        let in_service = self.in_service.as_ref()?;
        let (at, kind) = self.injection.choose(&mut self.data, in_service, tree, requests)?;
        let index = self.data.flows[at].pick(self.data.now, requests, self.data.tunables())?;
        let charge = budget::charge(&self.data, requests, at, index);
        self.dispatch(tree, requests, at, index, charge);
        let data = &mut self.data;
        if data.flows[at].queued == 0 {
            data.schedule.deactivate(data.now, tree, at);
        } else {
            budget::refresh(data, tree, requests, at);
        }
        data.schedule.review_charged(data.now, tree, at);
        data.counters.injected(data.schedule.cgroup(at), kind);
        if let Some(in_service) = &mut self.in_service {
            in_service.note_injected();
        }
        Some(index)
    }

    /// The next request of the flow in service, if it continues the last one. `room`: how many requests the device
    /// has room for besides.
    pub(crate) fn next_coalesced(
        &mut self,
        now: Instant,
        room: u32,
        tree: &mut Tree,
        requests: &mut Requests,
    ) -> Option<u32> {
        let run = self.run.take()?;
        if !self.is_in_service(run.flow()) || self.has_timed_out() {
            return None;
        }
        let next = run.next(&self.data, now, room, requests)?;
        self.dispatch(tree, requests, run.flow(), next.index, next.charge);
        self.data.counters.coalesced();
        self.run = self.run.map(|run| run.continued(next));
        Some(next.index)
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
        self.injection.dispatched(&self.data, index, is_own);
        if is_own {
            let (data, merger) = (&self.data, &self.merger);
            self.shared_stream.dispatched(data, merger, tree, requests, [at, index]);
        } else {
            self.note_lost();
        }
        self.data.schedule.charge_flow(at, charge);
        let record = &requests[index];
        let (request, task) = (&record.request, record.task());
        let tunables = self.data.device.tunables();
        let flow = self.data.flows.dispatch(self.data.now, at, index, record.since, tunables);
        flow.start.serve(self.data.now);
        let (is_of_stream, in_flight) = (!flow.is_seeky(), flow.in_flight);
        self.run = CoalescedRun::start(request, at, is_of_stream);
        self.destage.dispatched(&self.data, self.in_service.as_ref(), at, index, request);
        if request.op != Op::Flush {
            self.data.device.moved(self.data.now, request.extent, is_of_stream);
        }
        tree.tasks[task].ready.remove(requests, index);
        self.merger.update_pos_tree(&self.data, at);
        if is_own {
            self.after_dispatch(tree, requests, at, in_flight);
        }
    }
}

/// The slot, and time.
impl Bfq {
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
        self.in_service.as_ref().is_some_and(|served| {
            self.destage.ends_slot(&self.data, served) || served.has_timed_out(&self.data)
        })
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

    /// Advances the clock, after ending idling that was over before `now`.
    #[inline]
    fn advance(&mut self, now: Instant, tree: &Tree, requests: &Requests) {
        let idle = self.in_service.as_ref().and_then(InService::idle);
        if idle.is_some_and(|idle| idle.until() < now) {
            self.handle_timeout(now, tree, requests);
        }
        self.data.now = now;
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
        self.injection.reset();
        if may_part {
            self.merger.part_if_shared(&mut self.data, tree, flow);
        }
        if !is_in_flight {
            self.uncount_if_idle(flow);
        }
    }
}

/// Flows, from the first request of their owner until they are evicted or it is gone.
impl Bfq {
    /// The own flow of `owner`, which sent the request at `index`. Opened if it has none.
    // Inline on the hot path, although a switch of schedulers calls it too.
    #[inline(always)]
    fn own_flow(&mut self, tree: &Tree, requests: &Requests, index: u32, owner: Owner) -> u32 {
        let own_flow = self.data.flows.of(owner);
        own_flow.unwrap_or_else(|| {
            let cgroup = tree.tasks[requests[index].task()].cgroup;
            self.open(tree, requests, owner, cgroup)
        })
    }

    /// Opens a flow for `owner`.
    #[cold]
    fn open(&mut self, tree: &Tree, requests: &Requests, owner: Owner, cgroup: u32) -> u32 {
        self.evict_stale(tree, requests);
        let data = &mut self.data;
        let at = data.flows.open(data.now, owner, data.device.tunables());
        data.schedule.open(at, owner, cgroup, prio_of(tree, owner, cgroup));
        data.counters.make_room(cgroup);
        self.merger.make_room(data, at);
        if owner.as_client().is_some() {
            self.low_latency.opened(data, tree, at);
            let placement = self.merger.open(data, tree, at);
            self.update_merged(tree, requests, placement);
        }
        at
    }

    /// Updates the flows of a merge, if there was one.
    fn update_merged(&mut self, tree: &Tree, requests: &Requests, placement: Placement) {
        let Some(from) = placement.merged else { return };
        for at in [from, placement.flow] {
            self.merger.update(&mut self.data, tree, at);
            if !self.data.flows[at].is_live() {
                self.abandon(tree, requests, at);
            }
        }
    }

    /// Evicts flows without requests for [`STALE_NS`], whose clients start anew when they come back. Each creation
    /// looks at two, so flows are never many more than twice the clients of that time. O(1), and nothing for a
    /// request.
    fn evict_stale(&mut self, tree: &Tree, requests: &Requests) {
        for _ in 0..2 {
            let Some(at) = self.data.flows.advance_clock_hand() else { return };
            let data = &self.data;
            // A merged flow is stale only with its effective flow.
            let shared = self.merger.representative(data, at);
            let is_away = |at: u32| {
                let is_counted = data.schedule.entity(at).is_counted;
                !is_counted && data.now.nanos_since(data.flows[at].last_end) > STALE_NS
            };
            if shared.is_some_and(|shared| is_away(at) && is_away(shared)) {
                self.close(tree, requests, data.schedule.owner(at));
            }
        }
    }

    /// The owner of a flow is gone.
    fn close(&mut self, tree: &Tree, requests: &Requests, owner: Owner) {
        let Some(at) = self.data.flows.close(owner) else { return };
        self.low_latency.closed(at);
        if owner.as_client().is_some() {
            self.merger.close(&mut self.data, tree, at);
        }
        self.abandon(tree, requests, at);
    }

    /// A flow has no client left. In service and empty it would keep the device idle for none (spec/bfq D-9).
    fn abandon(&mut self, tree: &Tree, requests: &Requests, at: u32) {
        if self.is_in_service(at) && self.data.flows[at].is_empty() {
            self.expire(tree, requests, Expiry::NoMoreRequests);
        }
        self.uncount_if_idle(at);
    }

    /// Stops counting a flow that is neither busy nor at the device, and frees it if it has no client.
    #[inline]
    fn uncount_if_idle(&mut self, at: u32) {
        if self.data.flows[at].in_flight > 0 {
            return;
        }
        if matches!(self.data.schedule.entity(at).state, State::Off | State::Idle) {
            uncount(&mut self.data, at);
        }
    }

    /// Removes a client without requests.
    pub(crate) fn forget(&mut self, tree: &Tree, requests: &Requests, client: u32) {
        self.close(tree, requests, Owner::client(client));
    }

    /// Removes a cgroup with nothing below it. Answers what was counted of it.
    pub(crate) fn forget_cgroup(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        cgroup: u32,
    ) -> BfqCgroupStats {
        let stats = self.data.counters.forget(cgroup);
        self.destage.cgroup_removed(cgroup, tree.cgroups[cgroup].parent);
        self.close(tree, requests, Owner::writeback(cgroup));
        self.data.schedule.forget_group(cgroup);
        self.merger.remove_group(cgroup);
        stats
    }
}

/// Changes to clients and cgroups.
impl Bfq {
    /// Applies a client's new priority, from its flow's next activation on.
    pub(crate) fn reprioritize(&mut self, tree: &Tree, client: u32) {
        if let Some(at) = self.data.flows.of(Owner::client(client)) {
            self.merger.update_traits(&mut self.data, tree, at);
        }
    }

    /// Applies the new priority of a cgroup's writeback.
    pub(crate) fn reprioritize_writeback(&mut self, tree: &Tree, cgroup: u32) {
        let owner = Owner::writeback(cgroup);
        if let Some(at) = self.data.flows.of(owner) {
            self.data.schedule.set_prio(at, prio_of(tree, owner, cgroup));
        }
    }

    /// Applies changed settings of low latency. O(flows).
    pub(crate) fn review_policies(&mut self, now: Instant, tree: &Tree) {
        self.data.now = self.data.now.max(now);
        low_latency::end_where_off(&mut self.data, tree);
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
}

/// A flow is neither busy nor at the device.
#[inline(never)]
fn uncount(data: &mut BfqData, at: u32) {
    if data.schedule.uncount(at) {
        low_latency::emptied(data, at);
    }
    if data.flows[at].is_orphaned() {
        low_latency::end(data, at);
        data.schedule.forget(at);
        data.flows.release(at);
    }
}
