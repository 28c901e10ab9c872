//! `scheduler = "bfq"`: budget fair queueing. Shares by weight, in a tree of cgroups, by slots of service.
//!
//! ```text
//!  insert ─► flow: by position, by age ─┐                    ┌─► budget used up, time out, no more requests
//!                                       ├─► slot ─► dispatch ┤
//!  hierarchy: who is next, by B-WF2Q+ ──┘     └─► idle: wait a little for the flow's next request
//! ```
//!
//! A flow is a client's, not a task's: eight connections of one client get what one connection of another gets, as in
//! the throttle, and a stream that a client spreads over its connections is seen as the stream it is. What nobody waits
//! for, writeback, is one flow a cgroup. Written from `spec/bfq.md`, whose section numbers the comments give;
//! `docs/bfq.md` has what is not there yet.

mod budget;
mod burst;
mod calm;
mod check;
mod convoy;
mod cooperate;
mod counters;
mod entity;
mod flow;
mod flows;
mod gaps;
mod heap;
mod hierarchy;
mod idling;
mod inject;
mod join;
mod low_latency;
mod members;
mod node;
mod owner;
mod peak_rate;
mod position;
mod raising;
mod relations;
mod scenario;
mod seek_price;
mod service_tree;
mod settings;
mod settling;
mod shelf;
mod slot;
mod think;
mod tunables;
mod vtime;

use alloc::vec::Vec;
use core::num::NonZeroU32;

use self::budget::Expiry;
use self::burst::Burst;
use self::convoy::Convoy;
use self::cooperate::Aside;
pub(crate) use self::counters::Counters;
pub use self::counters::{BfqCgroupStats, BfqStats, Expiration, IdlingCause, Injection, Raising};
use self::entity::{EntityId, State};
use self::flow::{Flow, is_far};
use self::flows::Flows;
use self::hierarchy::Hierarchy;
use self::inject::Probe;
use self::join::Run;
use self::low_latency::Patience;
use self::owner::Owner;
use self::peak_rate::{PeakRate, PeakSettings};
use self::position::Places;
pub use self::raising::LowLatency;
use self::scenario::Scenario;
use self::seek_price::SeekPrice;
use self::service_tree::Return;
pub use self::settings::{BfqEdit, BfqError, BfqKey, BfqSettings};
use self::settling::Settling;
use self::slot::Turn;
use self::tunables::Tunables;
use crate::merge::{Merging, Positions, QueueId, split};
use crate::priority::PriorityClass;
use crate::request::Op;
use crate::requests::{Record, Requests};
use crate::scheduler::Arriving;
use crate::time::Instant;
use crate::tree::{Task, Tree};

/// The least that a request is charged, whatever it is: a sector.
const CHARGE_MIN: u64 = 512;

/// What so many flows need, some 600 bytes each with their client, task and cgroup, is in a processor's caches.
const FLOWS_NEAR: usize = 1 << 12;

/// Requests past every limit, and who among their clients is next. O(depth × log siblings + log requests of the flow)
/// a step, no allocation once grown.
pub(crate) struct Bfq {
    settings: BfqSettings,
    tunables: Tunables,
    peak: PeakRate,
    hierarchy: Hierarchy,
    flows: Flows,
    places: Places,
    scenario: Scenario,
    turn: Option<Turn>,
    /// Who reads the stream of the flow in service, if several do.
    convoy: Convoy,
    /// What went to the device last, while others may be joined to it.
    run: Option<Run>,
    /// Where the last request for the device ended.
    position: u64,
    len: u32,
    /// Requests at the device.
    in_device: u32,
    /// Flows with a backlog, or in service.
    busy: u32,
    /// Which flows are one.
    merging: Merging<Aside>,
    /// Where those go on that may still merge.
    positions: Positions,
    /// Flows that are alone again; kept to reuse its memory.
    alone: Vec<(u32, Aside)>,
    /// The flow that had a request back last, and when.
    last_completed: Option<(QueueId, Instant)>,
    /// What others cost the flow in service.
    probe: Probe,
    /// Flows that were made shortly after each other.
    burst: Burst,
    /// How much longer the device may be kept for raised flows.
    patience: Patience,
    /// See [`raising::interactive_ms`].
    interactive_ms: u16,
    /// What the device still has to write down.
    settling: Settling,
    /// What flows that jump about pay for a request.
    seek_price: SeekPrice,
    /// The last instant heard of.
    now: Instant,
    counters: Counters,
}

impl Bfq {
    /// Knows no flow yet, and goes on counting where `counters` is.
    pub(crate) fn new(
        settings: &BfqSettings,
        rotational: bool,
        depth: NonZeroU32,
        counters: Counters,
    ) -> Bfq {
        let tunables = Tunables::from(settings, rotational, depth);
        let peak = PeakSettings::new(rotational, tunables.timeout_ns);
        let peak = PeakRate::new(PeakSettings { max_budget: settings.max_budget(), ..peak });
        Bfq {
            settings: *settings,
            tunables,
            interactive_ms: raising::interactive_ms(peak.rate(), rotational),
            peak,
            hierarchy: Hierarchy::default(),
            flows: Flows::default(),
            places: Places::default(),
            scenario: Scenario::default(),
            turn: None,
            convoy: Convoy::NONE,
            run: None,
            position: 0,
            len: 0,
            in_device: 0,
            busy: 0,
            merging: Merging::new(settings.merging()),
            positions: Positions::new(),
            alone: Vec::new(),
            last_completed: None,
            probe: Probe::default(),
            burst: Burst::new(),
            patience: Patience::NEW,
            settling: Settling::NEW,
            seek_price: SeekPrice::default(),
            now: Instant::ZERO,
            counters,
        }
    }

    /// Decides by other settings from now on; slots under way keep their budgets.
    pub(crate) fn set_tunables(&mut self, settings: &BfqSettings) {
        self.settings = *settings;
        self.tunables = self.tunables.with(settings);
        self.peak.retune(self.tunables.timeout_ns, settings.max_budget());
        self.follow_speed();
        self.merging.reconfigure(settings.merging());
        if !settings.low_latency() {
            self.lower_all();
        }
    }

    /// Takes over what is known of the device's speed.
    fn follow_speed(&mut self) {
        self.tunables.follow(&self.peak, &self.settings);
        self.interactive_ms = raising::interactive_ms(self.peak.rate(), self.tunables.rotational);
    }

    /// What was counted so far.
    pub(crate) fn stats(&self) -> BfqStats {
        self.counters.device(self.merging.counters(), self.scenario.raised())
    }

    /// What was counted of a cgroup itself.
    pub(crate) fn cgroup_stats(&self, cgroup: u32) -> BfqCgroupStats {
        self.counters.cgroup(cgroup, self.scenario.raised_of(cgroup))
    }

    /// Another scheduler takes over: the books, for a successor.
    pub(crate) fn into_counters(mut self) -> Counters {
        self.lower_all();
        self.counters.close(self.merging.counters());
        self.counters
    }

    /// The request at `index` is at the device, where another scheduler has sent it; [`Bfq::complete`] will hear of it.
    pub(crate) fn adopt(&mut self, tree: &Tree, requests: &Requests, index: u32) {
        let at = self.home(tree, requests, index, Owner::of(tree, requests, index));
        self.places.adopt(index, at);
        self.flows[at].in_flight += 1;
        self.in_device += 1;
        self.count(at);
    }

    /// Requests waiting.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The device takes `depth` requests at a time from now on.
    pub(crate) fn set_depth(&mut self, depth: NonZeroU32) {
        self.tunables.set_depth(depth);
    }

    /// Fetches what a request of `task` is going to need, all at once: with a million flows it comes from memory, and each
    /// step would wait for what the one before it has led to. Nothing is decided. Of fewer flows all is near.
    #[inline(always)]
    pub(crate) fn foresee(&self, task: &Task) {
        if self.flows.places() < FLOWS_NEAR {
            return;
        }
        self.hierarchy.fetch_group(task.cgroup);
        if let Some(flow) = self.flows.of(Owner::client(task.client)) {
            self.flows.fetch(flow);
            self.hierarchy.fetch_flow(flow);
        }
    }

    pub(crate) fn insert(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
        Arriving { request, task, index }: Arriving,
    ) {
        self.advance(now, tree, requests);
        self.len += 1;
        let of = &mut tree.tasks[task];
        of.ready.push_back(requests, index);
        let (owner, cgroup) = (Owner::of_task(of, request), of.cgroup);
        let home = match self.flows.of(owner) {
            Some(home) => home,
            None => self.open(tree, requests, owner, cgroup),
        };
        self.convoy.returned(owner);
        let at = self.destination(tree, requests, home, request);
        let entity = self.hierarchy.entities.flow(at);
        let (state, factor) = (entity.state, entity.next_factor);
        let is_idle_class = entity.next_class == PriorityClass::Idle;
        let returns = self.note_arrival(at, state, is_idle_class);
        let flow = &mut self.flows[at];
        flow.insert(&mut self.places, request, index, at, self.position, &self.tunables);
        if factor == split::Raising::SOFT_REAL_TIME && flow.is_all_seeks() {
            self.note_stray(at);
        }
        if returns {
            self.note_return(at);
        }
        match state {
            State::Off | State::Idle => {
                let how = self.activate(tree, requests, at);
                self.count(at);
                if self.preempts(tree, at, how) {
                    self.expire(tree, requests, Expiry::Preempted);
                }
            }
            State::Waiting | State::Eligible => {
                if self.flows[at].next() == Some(index) {
                    self.refresh_budget(tree, requests, at);
                }
            }
            State::InService => self.stop_idling(),
        }
        self.show_place(at);
    }

    /// The request that goes to the device now. None although some wait, while the device idles for somebody.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
    ) -> Option<u32> {
        self.now = now;
        match self.goes_on(requests) {
            Some((at, index, charge)) => {
                self.dispatch(tree, requests, at, index, charge);
                Some(index)
            }
            None => self.choose(tree, requests),
        }
    }

    /// The flow in service, its next request and what that is charged, if it is plain that the slot goes on with it: as
    /// most do. Whatever [`Bfq::choose`] has to look at more closely is not plain.
    #[inline(always)]
    fn goes_on(&self, requests: &Requests) -> Option<(u32, u32, u64)> {
        let turn = self.turn.as_ref()?;
        let at = turn.flow;
        let is_busy = self.tunables.strict_guarantees && self.in_device > 0;
        let may_stay = self.now < turn.deadline && !self.owes_much();
        if is_busy || !may_stay || self.is_convoy(at) {
            return None;
        }
        let flow = &self.flows[at];
        let index = flow.pick(self.now, requests, &self.tunables)?;
        let charge = self.charge_of(flow, at, &requests[index]);
        let entity = self.hierarchy.entities.flow(at);
        let may_give_way = entity.next_factor == 1 && self.scenario.raised() > 0;
        (entity.has_room(charge) && !may_give_way).then_some((at, index, charge))
    }

    /// The request that goes to the device now, whoever's it is.
    #[inline(never)]
    fn choose(&mut self, tree: &mut Tree, requests: &mut Requests) -> Option<u32> {
        if self.tunables.strict_guarantees && self.in_device > 0 {
            return None;
        }
        loop {
            let at = match &self.turn {
                Some(turn) => turn.flow,
                None => {
                    if self.settles(requests) {
                        return None;
                    }
                    self.select()?
                }
            };
            let expiry = match self.pick(tree, requests, at) {
                None if self.is_waited_for() => return self.fill_gap(tree, requests),
                None => Expiry::NoMoreRequests,
                Some(_) if self.has_timed_out() => Expiry::BudgetTimeout,
                Some(_) if self.gives_way() => Expiry::Preempted,
                Some(index) if self.waits_for_hindmost(tree, requests, at, index) => return None,
                Some(index) => {
                    let charge = self.charge(requests, at, index);
                    let entity = self.hierarchy.entities.flow(at);
                    if entity.has_room(charge) {
                        self.dispatch(tree, requests, at, index, charge);
                        return Some(index);
                    }
                    Expiry::BudgetExhausted
                }
            };
            self.expire(tree, requests, expiry);
        }
    }

    /// Takes out a request that waits.
    pub(crate) fn remove(
        &mut self,
        tree: &mut Tree,
        requests: &mut Requests,
        task: u32,
        index: u32,
    ) {
        self.len -= 1;
        tree.tasks[task].ready.remove(requests, index);
        let at = self.places[index].flow;
        self.flows[at].remove(&mut self.places, index, &self.tunables);
        if self.turn.is_some_and(|turn| turn.flow == at) {
            self.probe.reset();
        }
        let id = EntityId::flow(at);
        if self.hierarchy.state(id).is_active() {
            if self.flows[at].queued == 0 {
                self.busy -= 1;
                self.hierarchy.deactivate(self.now, tree, id);
            } else {
                self.refresh_budget(tree, requests, at);
            }
        }
        self.show_place(at);
        self.recount(at);
    }

    /// The request that was at `index` is back from the device.
    pub(crate) fn complete(&mut self, now: Instant, tree: &Tree, requests: &Requests, index: u32) {
        self.advance(now, tree, requests);
        if self.probe.measures(index)
            && let Some(turn) = &self.turn
        {
            let injection = self.flows.injection_mut(turn.flow);
            self.probe.completed(injection, now, self.in_device);
        }
        self.in_device -= 1;
        if self.peak.completed(now) {
            self.follow_speed();
        }
        let at = self.places[index].flow;
        let (flow, generation) = self.flows.flow_mut(at);
        flow.in_flight -= 1;
        flow.last_end = now;
        let is_last = flow.in_flight == 0;
        if self.tunables.slice_idle_ns > 0 {
            // A shared flow stands for nobody.
            let is_one = flow.is_alone();
            self.last_completed = is_one.then_some((QueueId { index: at, generation }, now));
        }
        self.convoy.completed(now, at, index);
        if self.turn.as_ref().is_some_and(|turn| turn.flow == at) {
            self.after_completion(tree, requests, at);
        }
        if is_last {
            self.recount(at);
        }
    }

    /// When [`Bfq::handle_timeout`] is due, or [`Bfq::next`] may have another answer.
    ///
    /// While nothing waits nobody need wake up because the device was kept for long enough: a server that has one client at
    /// a time would set a timer whenever that thinks. [`Bfq::advance`] has it end when it would have.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.turn.and_then(|turn| turn.idle) {
            Some(_) if self.len == 0 => None,
            Some(idle) if self.now < idle.fill_from => Some(idle.fill_from),
            Some(idle) => Some(idle.until),
            None => {
                let held = self.convoy.deadline(self.now);
                held.or_else(|| self.settling.deadline(self.now))
            }
        }
    }

    /// A cgroup has got another parent, in `tree`.
    pub(crate) fn move_cgroup(&mut self, tree: &Tree, requests: &Requests, cgroup: u32) {
        let is_in_service = self.hierarchy.state(EntityId::group(cgroup)) == State::InService;
        if is_in_service {
            self.expire(tree, requests, Expiry::Preempted);
        }
        self.hierarchy.move_group(self.now, tree, cgroup);
        // What is set nearest for its clients may be something else now.
        self.review_policies(self.now, tree);
    }

    /// Gives the flow a place for its first request (specification 2.3, 2.10, 3.1).
    fn activate(&mut self, tree: &Tree, requests: &Requests, at: u32) -> Return {
        if self.arrive(tree, at) && self.is_preferred(at) {
            let flow = &mut self.flows[at];
            flow.max_budget = flow.max_budget.min(self.tunables.raised_budget());
        }
        let charge = self.next_charge(requests, at);
        let (flow, ways) = self.flows.record_mut(at);
        let away_ns = self.now.nanos_since(flow.last_end);
        let is_in_time = away_ns <= 3 * self.tunables.slice_idle_ns;
        let left = core::mem::take(&mut flow.budget_left);
        let (budget, how) = match left {
            1.. if is_in_time => (left.min(flow.max_budget), Return::InTime),
            _ => (flow.max_budget, Return::Afresh),
        };
        let budget = u64::from(budget).max(charge);
        flow.start.restart();
        if ways.has_relations() {
            self.flows.rouse(at);
        }
        self.busy += 1;
        self.hierarchy.activate(self.now, tree, EntityId::flow(at), budget, how);
        how
    }

    /// A budget has room for the flow's next request, which may be another than it was (specification 3.5).
    fn refresh_budget(&mut self, tree: &Tree, requests: &Requests, at: u32) {
        let charge = self.next_charge(requests, at);
        let id = EntityId::flow(at);
        let entity = &self.hierarchy.entities[id];
        if charge > entity.budget {
            let budget = u64::from(self.flows[at].max_budget).max(charge).max(entity.service);
            self.hierarchy.reposition(self.now, tree, id, budget);
        }
    }

    /// Sends the request at `index`, of flow `at`, for which that is charged `charge`.
    #[inline(never)]
    fn dispatch(
        &mut self,
        tree: &mut Tree,
        requests: &mut Requests,
        at: u32,
        index: u32,
        charge: u64,
    ) {
        self.len -= 1;
        self.in_device += 1;
        let is_own = self.turn.as_ref().is_some_and(|turn| turn.flow == at);
        self.probe.dispatched(index, is_own, self.in_device);
        if is_own {
            self.note_member(tree, requests, at, index);
        }
        self.hierarchy.charge_flow(at, charge);
        let record = &requests[index];
        let (request, task) = (&record.request, record.task);
        let flow = &mut self.flows[at];
        flow.dispatch(self.now, &mut self.places, record.since, index, &self.tunables);
        flow.start.serve(self.now);
        let (is_of_stream, in_flight) = (!flow.is_seeky(), flow.in_flight);
        self.begin_run(request, at, is_of_stream);
        self.note_write(at, request);
        if request.op != Op::Flush {
            let extent = request.extent;
            if is_of_stream {
                let is_near = !is_far(self.position, extent, &self.tunables);
                let before = self.in_device - 1;
                if self.peak.dispatched(self.now, extent.len, is_near, before) {
                    self.follow_speed();
                }
            }
            self.position = extent.offset.saturating_add(u64::from(extent.len));
        }
        tree.tasks[task].ready.remove(requests, index);
        self.show_place(at);
        if is_own {
            self.after_dispatch(tree, requests, at, in_flight);
        }
    }

    /// What the next request of a flow is charged; 0 without one.
    #[inline]
    fn next_charge(&self, requests: &Requests, at: u32) -> u64 {
        self.flows[at].next().map_or(0, |next| self.charge(requests, at, next))
    }

    /// What a request of flow `at` is charged: its bytes, those of its price where that is fixed, and never nothing. A piece of a
    /// request that was split moves its bytes too, although the throttle has had them. Writeback counts for more, as
    /// long as nobody needs an exact share (specification 3.4).
    #[inline]
    fn charge(&self, requests: &Requests, at: u32, index: u32) -> u64 {
        self.charge_of(&self.flows[at], at, &requests[index])
    }

    /// The same, for who has looked them up.
    #[inline]
    fn charge_of(&self, flow: &Flow, at: u32, record: &Record) -> u64 {
        let bytes = match record.cost.is_remainder {
            true => u64::from(record.request.extent.len),
            false => record.cost.bytes,
        };
        let bytes = bytes.max(CHARGE_MIN);
        if flow.sync { bytes } else { self.async_charge(at, bytes) }
    }

    #[inline(never)]
    fn async_charge(&self, at: u32, bytes: u64) -> u64 {
        if self.is_asymmetric(at) {
            return bytes;
        }
        bytes.saturating_mul(u64::from(self.tunables.async_charge))
    }
}
