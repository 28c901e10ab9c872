//! Merge and split of flows: the schedule's side of [`crate::merge`] (spec/bfq 7).

use crate::bfq::Bfq;
use crate::bfq::budget::Expiry;
use crate::bfq::counters::Count;
use crate::bfq::data::prio_of;
use crate::bfq::flow::{FlowState, Flows};
use crate::bfq::idling::boosts_throughput;
use crate::bfq::in_service::InService;
use crate::bfq::low_latency;
use crate::bfq::saved_state::SavedState;
use crate::bfq::schedule::Schedule;
use crate::bfq::wf2q::Prio;
use crate::bfq::wf2q::State;
use crate::merge::cooperation::{Device, QueueFacts, ServedQueue};
use crate::merge::sets::Departure;
use crate::merge::stable::Evidence;
use crate::merge::{Ask, Check, Merge, MergeWindow, Merging, Position, QueueId, Rules, Traits};
use crate::requests::Requests;
use crate::tree::Tree;
use crate::types::{Op, PriorityClass, Request};

impl Bfq {
    /// Opens a client's flow, which may merge with one created just before it.
    pub(in crate::bfq) fn open_queue(&mut self, tree: &Tree, requests: &Requests, at: u32) {
        let traits = traits(&self.data.flows, &self.data.schedule, tree, at);
        let queueing_flash = self.data.tunables().queueing_flash();
        let opened =
            self.merging.open(self.data.now, self.data.flows.id(at), traits, queueing_flash);
        self.data.flows[at].set_alone(true);
        if let Some(merge) = opened.merge {
            self.carry_out_merge(tree, requests, merge);
        }
    }

    /// Whether a flow is alone, or shared by flows of one task, so that its weight may be raised.
    pub(in crate::bfq) fn is_of_one_task(&self, at: u32) -> bool {
        let flow = &self.data.flows[at];
        flow.is_alone() || (flow.sync && self.merging.may_be_raised(self.data.flows.id(at)))
    }

    /// The flow that serves `request` of `own_flow`'s client: `own_flow`, the flow it has merged into, or merges into
    /// now.
    pub(in crate::bfq) fn flow_for_request(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        own_flow: u32,
        request: &Request,
    ) -> u32 {
        if !self.data.flows[own_flow].sync {
            return own_flow;
        }
        let as_weir = self.merging.settings().rules == Rules::Weir;
        if !as_weir {
            self.leave_if_parting(tree, own_flow);
        }
        let at = self.effective_flow(own_flow);
        // On queueing flash flows merge at creation only. A flush has no position.
        if (as_weir && self.data.tunables().queueing_flash()) || request.op == Op::Flush {
            return at;
        }
        self.flow_by_position(tree, requests, own_flow, at, request)
    }

    /// Checks cooperation of flow `at`, which serves `own_flow`, by the request's position.
    #[inline(never)]
    fn flow_by_position(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        own_flow: u32,
        at: u32,
        request: &Request,
    ) -> u32 {
        let position = Position(request.extent.offset);
        let (flows, schedule, pos_tree) = (&self.data.flows, &self.data.schedule, &self.pos_tree);
        let as_weir = self.merging.settings().rules == Rules::Weir;
        let facts = |at| facts(flows, schedule, tree, at, as_weir);
        let asker = facts(at);
        let insertions = flows.stats(at).insertions;
        let boosts_throughput = boosts_throughput(&self.data, self.in_service.as_ref(), at);
        let just_created = insertions == 0;
        let evidence = Evidence { just_created, insertions, boosts_throughput };
        let ask = Ask { queue: self.data.flows.id(own_flow), facts: asker, at: position, evidence };
        let in_service = |in_service: &InService| ServedQueue {
            facts: facts(in_service.flow()),
            last_end: in_service.last_end(),
        };
        let device = Device {
            queueing_flash: self.data.tunables().queueing_flash(),
            busy_queues: self.data.schedule.busy(),
            in_service: self.in_service.as_ref().map(in_service),
        };
        let (group, close_bytes) = (asker.traits.group, self.merging.settings().close_bytes);
        let nearest = || {
            let queue = pos_tree.nearest(asker.queue, group, position, close_bytes)?;
            Some(facts(queue.index))
        };
        match self.merging.check(self.data.now, &ask, &device, nearest) {
            Check::Stay(reason) => {
                self.data.counters.count(group, Count::Refusals, u64::from(reason.is_some()));
                at
            }
            Check::Follow(to) => {
                self.update_shared(tree, requests, at);
                self.update_shared(tree, requests, to.index);
                to.index
            }
            Check::Merge(merge) => self.carry_out_merge(tree, requests, merge),
        }
    }

    /// Effective flow of `own_flow`'s client.
    fn effective_flow(&self, own_flow: u32) -> u32 {
        if self.data.flows[own_flow].is_alone() {
            return own_flow;
        }
        self.merging
            .representative(self.data.flows.id(own_flow))
            .map_or(own_flow, |queue| queue.index)
    }

    /// Whether cooperation is off.
    pub(in crate::bfq) fn is_cooperation_off(&self) -> bool {
        let window = self.merging.settings().merge_window;
        window == MergeWindow::Closed || self.data.tunables().queueing_flash()
    }

    /// Updates a flow in [`Bfq::pos_tree`], when its next request changes or its merge window closes.
    #[inline]
    pub(in crate::bfq) fn update_pos_tree(&mut self, at: u32) {
        let is_cooperation_off = self.is_cooperation_off();
        if !is_cooperation_off || !self.pos_tree.is_empty() {
            self.set_pos_tree(at, is_cooperation_off);
        }
    }

    fn set_pos_tree(&mut self, at: u32, is_cooperation_off: bool) {
        let window = self.merging.settings().merge_window;
        let (flow, queue) = (&self.data.flows[at], self.data.flows.id(at));
        let is_listed = !is_cooperation_off
            && flow.sync
            && !flow.start.is_late(self.data.now, window)
            && self.data.schedule.prio(at).class != PriorityClass::Idle;
        match flow.next().filter(|_| is_listed) {
            Some(next) => {
                let place = Position(self.data.flows.position_of(next));
                self.pos_tree.place(queue, self.data.schedule.cgroup(at), place);
            }
            None => self.pos_tree.remove(queue),
        }
    }

    /// Splits a shared flow that is seeky when it expires.
    #[inline(never)]
    pub(in crate::bfq) fn part_if_shared(&mut self, tree: &Tree, at: u32) {
        let (queue, sets) = (self.data.flows.id(at), self.merging.sets());
        let is_shared = sets.members(queue) > 1 && sets.representative(queue) == Some(queue);
        if !is_shared {
            return;
        }
        let now = self.data.now;
        let departure = self.leave_set(tree, |merging, restore| merging.part(now, queue, restore));
        let splits = u64::from(departure.restored > 0);
        self.data.counters.count(self.data.schedule.cgroup(at), Count::Splits, splits);
        self.update_flow_state(at);
    }

    /// The client of a flow is gone.
    pub(in crate::bfq) fn close_queue(&mut self, tree: &Tree, at: u32) {
        let queue = self.data.flows.id(at);
        let representative = self.merging.representative(queue);
        self.data.flows[at].set_alone(false);
        self.leave_set(tree, |merging, restore| merging.close(queue, restore));
        self.pos_tree.remove(queue);
        if let Some(representative) = representative.filter(|&other| other != queue) {
            self.update_prio(tree, representative.index);
        }
    }

    /// With the kernel's rules a client leaves a seeky set with its next request.
    fn leave_if_parting(&mut self, tree: &Tree, own_flow: u32) {
        let queue = self.data.flows.id(own_flow);
        let (now, before) = (self.data.now, self.merging.representative(queue));
        let departure = self.leave_set(tree, |merging, restore| {
            merging.part_if_due(now, queue, restore).unwrap_or_default()
        });
        if let Some(before) = before.filter(|_| departure.restored > 0) {
            self.update_flow_state(before.index);
            self.update_prio(tree, before.index);
        }
    }

    /// State to save at a merge.
    fn saved_state(&self, queue: QueueId) -> SavedState {
        let stats = self.data.flows.stats(queue.index);
        let raising = low_latency::saved(&self.data, queue);
        SavedState {
            think_time: stats.think_time,
            raising,
            inject_limit: self.data.flows.inject_limit(queue.index),
        }
    }

    /// Carries out a merge. Returns the effective flow of the client that asked.
    fn carry_out_merge(&mut self, tree: &Tree, requests: &Requests, merge: Merge) -> u32 {
        // Either flow may have been alone.
        let [from, to] = [merge.from, merge.to].map(|queue| (queue, self.saved_state(queue)));
        let save = |queue: QueueId| if queue == from.0 { from.1 } else { to.1 };
        let to = self.merging.merge(merge, save).index;
        for queue in [merge.from, merge.to] {
            self.data.flows[queue.index].set_alone(false);
        }
        self.data.counters.count(self.data.schedule.cgroup(to), Count::Merges, 1);
        let from = merge.from.index;
        let mut giving = self.data.flows.stats(from).think_time;
        self.data.flows.stats_mut(to).think_time.inherit(&mut giving);
        self.data.flows.stats_mut(from).think_time = giving;
        let mut waker = self.data.flows.sparse(to).waker;
        waker.inherit(self.data.flows.id(to), &self.data.flows.sparse(from).waker);
        self.data.flows.set_waker(to, waker);
        low_latency::inherit(&mut self.data, from, to);
        self.update_shared(tree, requests, from);
        self.update_shared(tree, requests, to);
        to
    }

    /// Updates a flow after a merge or a change of its members.
    fn update_shared(&mut self, tree: &Tree, requests: &Requests, at: u32) {
        self.update_flow_state(at);
        self.update_prio(tree, at);
        if !self.data.flows[at].is_live() {
            self.abandon(tree, requests, at);
        }
    }

    /// Updates whether a flow is live or merged.
    fn update_flow_state(&mut self, at: u32) {
        let users = self.merging.sets().users(self.data.flows.id(at));
        let flow = &mut self.data.flows[at];
        if !flow.is_orphaned() {
            flow.state = if users > 0 { FlowState::Live } else { FlowState::Merged };
        }
    }

    /// A flow has no client left. In service and empty it would keep the device idle for none (spec/bfq D-9).
    pub(in crate::bfq) fn abandon(&mut self, tree: &Tree, requests: &Requests, at: u32) {
        if self.is_in_service(at) && self.data.flows[at].is_empty() {
            self.expire(tree, requests, Expiry::NoMoreRequests);
        }
        self.uncount_if_idle(at);
    }

    /// Lets flows leave a set. Restores the flows that are alone then, and updates the successor of a representative.
    /// `leave` calls its second argument for each flow that is alone.
    fn leave_set(
        &mut self,
        tree: &Tree,
        leave: impl FnOnce(&mut Merging<SavedState>, &mut dyn FnMut(QueueId, SavedState)) -> Departure,
    ) -> Departure {
        let mut alone = core::mem::take(&mut self.alone);
        let departure = leave(&mut self.merging, &mut |queue, saved_state| {
            alone.push((queue.index, saved_state));
        });
        for (at, saved_state) in alone.drain(..) {
            self.data.flows[at].set_alone(true);
            let stats = self.data.flows.stats_mut(at);
            stats.think_time = saved_state.think_time;
            stats.insertions = 0;
            *self.data.flows.inject_limit_mut(at) = saved_state.inject_limit;
            low_latency::resume(&mut self.data, tree, at, saved_state.raising);
            self.update_flow_state(at);
            self.update_prio(tree, at);
        }
        self.alone = alone;
        if let Some(successor) = departure.successor {
            self.update_flow_state(successor.index);
            self.update_prio(tree, successor.index);
        }
        departure
    }

    /// Gives a flow the sum of its members' weights, so that merging neither wins nor loses (spec/bfq D-27).
    pub(in crate::bfq) fn update_prio(&mut self, tree: &Tree, at: u32) {
        let (queue, owner) = (self.data.flows.id(at), self.data.schedule.owner(at));
        if self.data.flows[at].is_orphaned() {
            return;
        }
        let cgroup = self.data.schedule.cgroup(at);
        let own = prio_of(tree, owner, cgroup);
        let sets = self.merging.sets();
        let is_shared = sets.members(queue) > 1 && sets.representative(queue) == Some(queue);
        let weight = match is_shared {
            false => own.weight,
            true => {
                let owner = |member: QueueId| self.data.schedule.owner(member.index);
                sets.iter(queue).map(|member| prio_of(tree, owner(member), cgroup).weight).sum()
            }
        };
        self.data.schedule.set_prio(at, Prio { weight, ..own });
    }

    /// Applies a client's new priority, which may not allow its merge any more.
    pub(in crate::bfq) fn update_traits(&mut self, tree: &Tree, at: u32) {
        let queue = self.data.flows.id(at);
        let traits = traits(&self.data.flows, &self.data.schedule, tree, at);
        self.leave_set(tree, |merging, restore| merging.change(queue, traits, restore));
        let representative = self.merging.representative(queue);
        self.update_prio(tree, representative.map_or(at, |queue| queue.index));
    }
}

/// Properties that must be equal in flows that merge.
fn traits(flows: &Flows, schedule: &Schedule, tree: &Tree, at: u32) -> Traits {
    let group = schedule.cgroup(at);
    let client = schedule.owner(at).as_client();
    let priority = client.and_then(|client| tree.clients.get(client)).map(|client| client.priority);
    let priority = tree.cgroups[group].prio_class.apply(priority.unwrap_or_default());
    Traits { group, class: priority.class(), level: priority.level(), sync: flows[at].sync }
}

/// By Weir's rules a flow that flushes counts as seeky: merged, its flushes would wait for other clients' writes.
fn facts(flows: &Flows, schedule: &Schedule, tree: &Tree, at: u32, as_weir: bool) -> QueueFacts {
    let flow = &flows[at];
    let flushes = as_weir && flows.stats(at).think_time.flushes();
    let state = schedule.state(at);
    QueueFacts {
        queue: flows.id(at),
        traits: traits(flows, schedule, tree, at),
        seeky: flow.is_seeky() || flushes,
        busy: !matches!(state, State::Off | State::Idle),
        start: flow.start,
    }
}
