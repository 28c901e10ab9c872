//! `scheduler = "bfq"`: budget fair queueing. Shares by weight, in a tree of cgroups, by slots of service.
//!
//! ```text
//!  insert ─► flow: by position, by age ─┐                    ┌─► budget used up, time out, no more requests
//!                                       ├─► slot ─► dispatch ┤
//!  hierarchy: who is next, by B-WF2Q+ ──┘                    └─► charge, on every level above
//! ```
//!
//! A flow is a client's, not a task's: eight connections of one client get what one connection of another gets, as in
//! the throttle, and a stream that a client spreads over its connections is seen as the stream it is. Written from
//! `spec/bfq.md`, whose section numbers the comments give; `docs/bfq.md` has what is not there yet.

mod budget;
mod check;
mod counters;
mod entity;
mod flow;
mod heap;
mod hierarchy;
mod position;
mod service_tree;
mod settings;
mod tunables;
mod vtime;

use alloc::vec::Vec;

use self::budget::{Expiry, Slot, time_charge};
pub(crate) use self::counters::Counters;
pub use self::counters::{BfqCgroupStats, BfqStats, Expiration, IdlingCause, Injection, Raising};
use self::entity::{EntityId, State};
use self::flow::Flow;
use self::hierarchy::Hierarchy;
use self::position::Places;
use self::service_tree::Return;
pub use self::settings::{BfqEdit, BfqError, BfqKey, BfqSettings};
use self::tunables::Tunables;
use crate::merge;
use crate::request::Op;
use crate::requests::Requests;
use crate::time::Instant;
use crate::tree::Tree;

/// The least that a request is charged, whatever it is: a sector.
const CHARGE_MIN: u64 = 512;

/// Requests past every limit, and who among their clients is next. O(depth × log siblings + log requests of the flow)
/// a step, no allocation once grown.
pub(crate) struct Bfq {
    tunables: Tunables,
    hierarchy: Hierarchy,
    /// By client.
    flows: Vec<Flow>,
    places: Places,
    turn: Option<Turn>,
    /// Where the last request for the device ended.
    position: u64,
    len: u32,
    /// The last instant heard of.
    now: Instant,
    counters: Counters,
}

/// A flow's hold on the device.
#[derive(Clone, Copy)]
struct Turn {
    client: u32,
    since: Instant,
}

impl Bfq {
    /// Knows no flow yet, and goes on counting where `counters` is.
    pub(crate) fn new(settings: &BfqSettings, rotational: bool, counters: Counters) -> Bfq {
        Bfq {
            tunables: Tunables::from(settings, rotational),
            hierarchy: Hierarchy::default(),
            flows: Vec::new(),
            places: Places::default(),
            turn: None,
            position: 0,
            len: 0,
            now: Instant::ZERO,
            counters,
        }
    }

    /// Decides by other settings from now on; slots under way keep their budgets.
    pub(crate) fn set_tunables(&mut self, settings: &BfqSettings) {
        self.tunables = Tunables::from(settings, self.tunables.rotational);
    }

    /// What was counted so far.
    pub(crate) fn stats(&self) -> BfqStats {
        self.counters.device(&merge::Counters::new())
    }

    /// What was counted of a cgroup itself.
    pub(crate) fn cgroup_stats(&self, cgroup: u32) -> BfqCgroupStats {
        self.counters.cgroup(cgroup)
    }

    /// Another scheduler takes over: the books, for a successor.
    pub(crate) fn into_counters(mut self) -> Counters {
        self.counters.close(&merge::Counters::new());
        self.counters
    }

    /// A request of `client` is at the device that another scheduler has sent there; [`Bfq::complete`] will hear of it.
    pub(crate) fn adopt(&mut self, client: u32) {
        self.make_room(client);
        self.flows[client as usize].in_flight += 1;
    }

    /// The client has a flow from now on.
    fn make_room(&mut self, client: u32) {
        let tunables = &self.tunables;
        if self.flows.len() <= client as usize {
            self.flows.resize_with(client as usize + 1, || Flow::new(tunables));
        }
    }

    /// Requests waiting.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn insert(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
        task: u32,
        index: u32,
    ) {
        self.now = now;
        self.len += 1;
        let flow_of = &mut tree.tasks[task];
        flow_of.ready.push_back(requests, index);
        let (client, cgroup) = (flow_of.client, flow_of.cgroup);
        self.make_room(client);
        let (tunables, flow) = (&self.tunables, &mut self.flows[client as usize]);
        flow.insert(&mut self.places, requests, index, self.position, tunables);
        match self.hierarchy.state(EntityId::flow(client)) {
            State::Off | State::Idle => self.activate(tree, requests, client, cgroup),
            State::Waiting | State::Eligible => self.refresh_budget(tree, requests, client),
            State::InService => {}
        }
    }

    /// The request that goes to the device now.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
    ) -> Option<u32> {
        self.now = now;
        loop {
            let turn = match self.turn {
                Some(turn) => turn,
                None => self.select(now)?,
            };
            let flow = &self.flows[turn.client as usize];
            let entity = &self.hierarchy.entities[EntityId::flow(turn.client)];
            let has_time = now.nanos_since(turn.since) < self.tunables.timeout_ns;
            let expiry = match flow.pick(now, requests, &self.tunables) {
                None => Expiry::NoMoreRequests,
                Some(_) if !has_time => Expiry::BudgetTimeout,
                Some(index) => {
                    let charge = charge(requests, index);
                    // The first of a slot always goes: it may be older than the one the budget was made for.
                    if entity.service == 0 || entity.service + charge <= entity.budget {
                        self.dispatch(now, tree, requests, turn.client, index);
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
        let flow_of = &mut tree.tasks[task];
        flow_of.ready.remove(requests, index);
        let client = flow_of.client;
        let flow = &mut self.flows[client as usize];
        flow.remove(&mut self.places, index, &self.tunables);
        let id = EntityId::flow(client);
        if !self.hierarchy.state(id).is_active() {
            return;
        }
        if flow.queued == 0 {
            self.hierarchy.deactivate(tree, id);
        } else {
            self.refresh_budget(tree, requests, client);
        }
    }

    /// A request of `client` is back from the device.
    pub(crate) fn complete(&mut self, now: Instant, client: u32) {
        self.now = now;
        let flow = &mut self.flows[client as usize];
        flow.in_flight -= 1;
        flow.last_end = now;
    }

    /// Forgets a client that is going away; it has no request left.
    pub(crate) fn forget(&mut self, tree: &Tree, requests: &Requests, client: u32) {
        if self.flows.len() <= client as usize {
            return;
        }
        if self.turn.is_some_and(|turn| turn.client == client) {
            self.expire(tree, requests, Expiry::NoMoreRequests);
        }
        self.hierarchy.forget(EntityId::flow(client));
        self.flows[client as usize] = Flow::new(&self.tunables);
    }

    /// Forgets a cgroup that is going away; nothing is below it.
    pub(crate) fn forget_cgroup(&mut self, cgroup: u32, parent: u32) {
        self.counters.fold(cgroup, parent);
        self.hierarchy.forget_group(cgroup);
    }

    /// A cgroup has got another parent, in `tree`.
    pub(crate) fn move_cgroup(&mut self, tree: &Tree, requests: &Requests, cgroup: u32) {
        let is_in_service = self.hierarchy.state(EntityId::group(cgroup)) == State::InService;
        if is_in_service {
            self.expire(tree, requests, Expiry::Preempted);
        }
        self.hierarchy.move_group(tree, cgroup);
    }

    /// Gives the flow a place for its first request (specification 2.3, 2.10, 3.1).
    fn activate(&mut self, tree: &Tree, requests: &Requests, client: u32, cgroup: u32) {
        let flow = &mut self.flows[client as usize];
        let charge = flow.next().map_or(0, |next| charge(requests, next));
        let away_ns = self.now.nanos_since(flow.last_end);
        let is_in_time = away_ns <= 3 * self.tunables.slice_idle_ns;
        let left = core::mem::take(&mut flow.budget_left);
        let (budget, how) = match left {
            1.. if is_in_time => (left.min(flow.max_budget), Return::InTime),
            _ => (flow.max_budget, Return::Afresh),
        };
        let id = EntityId::flow(client);
        self.hierarchy.activate(tree, id, cgroup, u64::from(budget).max(charge), how);
    }

    /// A budget has room for the flow's next request, which may be another than it was (specification 3.5).
    fn refresh_budget(&mut self, tree: &Tree, requests: &Requests, client: u32) {
        let (id, flow) = (EntityId::flow(client), &self.flows[client as usize]);
        let charge = flow.next().map_or(0, |next| charge(requests, next));
        let budget = u64::from(flow.max_budget).max(charge);
        if charge > self.hierarchy.entities[id].budget {
            self.hierarchy.reposition(tree, id, budget);
        }
    }

    fn select(&mut self, now: Instant) -> Option<Turn> {
        let client = self.hierarchy.select()?.client();
        self.turn = Some(Turn { client, since: now });
        self.counters.selected();
        self.turn
    }

    fn dispatch(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
        client: u32,
        index: u32,
    ) {
        self.len -= 1;
        self.hierarchy.charge(EntityId::flow(client), charge(requests, index));
        let flow = &mut self.flows[client as usize];
        flow.dispatch(now, &mut self.places, requests, index, &self.tunables);
        let record = &requests[index];
        let (request, task) = (&record.request, record.task);
        if request.op != Op::Flush {
            self.position = request.extent.offset.saturating_add(u64::from(request.extent.len));
        }
        tree.tasks[task].ready.remove(requests, index);
    }

    /// Ends the slot of the flow in service (specification 4.7).
    fn expire(&mut self, tree: &Tree, requests: &Requests, expiry: Expiry) {
        let Some(turn) = self.turn.take() else { return };
        let (id, flow) = (EntityId::flow(turn.client), &mut self.flows[turn.client as usize]);
        let entity = self.hierarchy.entities[id];
        let slot = Slot {
            length_ns: self.now.nanos_since(turn.since),
            service: entity.service,
            budget: entity.budget,
            is_seeky: flow.is_seeky(),
        };
        let extra = time_charge(slot, expiry, &self.tunables);
        if extra > 0 {
            self.hierarchy.charge(id, extra);
        }
        self.counters.expired(tree.clients[turn.client].cgroup, expiry.into(), extra);
        let service = entity.service + extra;
        flow.max_budget = expiry.next_budget(flow.max_budget, service, &self.tunables);
        let next = flow.next().map(|next| u64::from(flow.max_budget).max(charge(requests, next)));
        let may_return = matches!(expiry, Expiry::NoMoreRequests | Expiry::Preempted);
        flow.budget_left = match next {
            None if may_return => {
                u32::try_from(entity.budget.saturating_sub(service)).unwrap_or(u32::MAX)
            }
            _ => 0,
        };
        self.hierarchy.settle(tree, id, next);
    }
}

/// What a request is charged: its bytes, those of its price where that is fixed, and never nothing. A piece of a
/// request that was split moves its bytes too, although the throttle has had them.
fn charge(requests: &Requests, index: u32) -> u64 {
    let record = &requests[index];
    let bytes = match record.cost.is_remainder {
        true => u64::from(record.request.extent.len),
        false => record.cost.bytes,
    };
    bytes.max(CHARGE_MIN)
}
