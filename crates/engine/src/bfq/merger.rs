//! Merger: merge and split of flows in the schedule, by the rules of [`crate::merge`] (spec/bfq 7).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::counters::Count;
use super::data::{BfqData, prio_of};
use super::flow::{FlowState, ThinkTime};
use super::idling::boosts_throughput;
use super::in_service::InService;
use super::inject_limit::PackedInjectLimit;
use super::low_latency;
use super::wf2q::{Prio, State};
use crate::ensure::ensure;
use crate::merge::cooperation::{Device, QueueFacts, ServedQueue};
use crate::merge::sets::Departure;
use crate::merge::split::Raising;
use crate::merge::stable::Evidence;
use crate::merge::{
    Ask, Check, Counters, Merge, MergeWindow, Merging, Position, PositionTree, QueueId, Rules,
    Settings, Traits,
};
use crate::tree::Tree;
use crate::types::{Op, PriorityClass, Request};

/// Merged flows of a device, and what splits them.
pub(super) struct Merger {
    merging: Merging<SavedState>,
    /// Next positions of the flows that may still merge.
    pos_tree: PositionTree,
    /// Flows restored by a split. Kept to reuse its memory.
    alone: Vec<(u32, SavedState)>,
}

/// State of a flow saved at a merge and restored at a split (`bic->saved_*`; spec/bfq 7.6). Its weight is its client's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SavedState {
    think_time: ThinkTime,
    raising: Raising,
    inject_limit: PackedInjectLimit,
}

/// Flow for a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    pub(super) flow: u32,
    /// The flow that has merged into it. Both need [`Merger::update`].
    pub(super) merged: Option<u32>,
}

impl Placement {
    const fn stay(flow: u32) -> Placement {
        Placement { flow, merged: None }
    }
}

/// Settings and questions.
impl Merger {
    pub(super) fn new(settings: Settings) -> Merger {
        Merger { merging: Merging::new(settings), pos_tree: PositionTree::new(), alone: Vec::new() }
    }

    pub(super) fn reconfigure(&mut self, settings: Settings) {
        self.merging.reconfigure(settings);
    }

    pub(super) fn counters(&self) -> &Counters {
        self.merging.counters()
    }

    /// Effective flow of the owner of flow `at`; `None` for a flow that cannot merge.
    pub(super) fn representative(&self, data: &BfqData, at: u32) -> Option<u32> {
        self.merging.representative(data.flows.id(at)).map(|queue| queue.index)
    }

    /// Whether flow `at` is alone, or shared by flows of one task, so that its weight may be raised.
    pub(super) fn is_of_one_task(&self, data: &BfqData, at: u32) -> bool {
        let flow = &data.flows[at];
        flow.is_alone() || (flow.sync && self.merging.may_be_raised(data.flows.id(at)))
    }

    /// Whether flow `at` is a shared stream, on a rotational device.
    #[inline]
    pub(super) fn is_shared_stream(&self, data: &BfqData, at: u32) -> bool {
        if !data.tunables().rotational {
            return false;
        }
        let flow = &data.flows[at];
        !flow.is_alone() && !flow.is_seeky() && self.merging.sets().members(data.flows.id(at)) > 1
    }

    /// Whether flows merge at creation only.
    fn is_cooperation_off(&self, data: &BfqData) -> bool {
        let window = self.merging.settings().merge_window;
        window == MergeWindow::Closed || data.tunables().queueing_flash()
    }

    /// Checks what it knows of flow `at`.
    ///
    /// # Errors
    ///
    /// A text that says what does not hold.
    pub(super) fn check(&self, data: &BfqData, at: u32) -> Result<(), String> {
        let (flow, queue) = (&data.flows[at], data.flows.id(at));
        let members = self.merging.sets().members(queue);
        ensure(flow.is_alone() == (members == 1), || format!("alone, of {members}"))?;
        let shown = self.pos_tree.place_of(queue);
        let next = flow.next().map(|next| Position(data.flows.position_of(next)));
        ensure(shown.is_none() || shown == next, || format!("shown at {shown:?}, next {next:?}"))
    }

    /// Checks the sets of merged flows.
    pub(super) fn check_sets(&self) {
        self.merging.sets().check();
    }
}

/// Merge.
impl Merger {
    /// Makes room for a flow in the position tree.
    pub(super) fn make_room(&mut self, data: &BfqData, at: u32) {
        if !self.is_cooperation_off(data) {
            self.pos_tree.make_room(data.flows.id(at));
        }
    }

    /// Opens a client's flow, which may merge with one created just before it.
    pub(super) fn open(&mut self, data: &mut BfqData, tree: &Tree, at: u32) -> Placement {
        let traits = traits(data, tree, at);
        let queueing_flash = data.tunables().queueing_flash();
        let opened = self.merging.open(data.now, data.flows.id(at), traits, queueing_flash);
        data.flows[at].set_alone(true);
        opened.merge.map_or(Placement::stay(at), |merge| self.merge(data, merge))
    }

    /// The flow that serves `request` of `own_flow`'s client: `own_flow`, the flow it has merged into, or merges into
    /// now.
    pub(super) fn place(
        &mut self,
        data: &mut BfqData,
        in_service: Option<&InService>,
        tree: &Tree,
        own_flow: u32,
        request: &Request,
    ) -> Placement {
        if !data.flows[own_flow].sync {
            return Placement::stay(own_flow);
        }
        let as_weir = self.merging.settings().rules == Rules::Weir;
        if !as_weir {
            self.leave_if_parting(data, tree, own_flow);
        }
        let at = self.effective_flow(data, own_flow);
        // On queueing flash flows merge at creation only. A flush has no position.
        if (as_weir && data.tunables().queueing_flash()) || request.op == Op::Flush {
            return Placement::stay(at);
        }
        self.place_by_position(data, in_service, tree, [own_flow, at], request)
    }

    /// Checks cooperation of flow `at`, which serves `own_flow`, by the request's position.
    #[inline(never)]
    fn place_by_position(
        &mut self,
        data: &mut BfqData,
        in_service: Option<&InService>,
        tree: &Tree,
        [own_flow, at]: [u32; 2],
        request: &Request,
    ) -> Placement {
        let position = Position(request.extent.offset);
        let as_weir = self.merging.settings().rules == Rules::Weir;
        let facts = |at| facts(data, tree, at, as_weir);
        let asker = facts(at);
        let insertions = data.flows.stats(at).insertions;
        let boosts_throughput = boosts_throughput(data, in_service, at);
        let just_created = insertions == 0;
        let evidence = Evidence { just_created, insertions, boosts_throughput };
        let ask = Ask { queue: data.flows.id(own_flow), facts: asker, at: position, evidence };
        let served = |in_service: &InService| ServedQueue {
            facts: facts(in_service.flow()),
            last_end: in_service.last_end(),
        };
        let device = Device {
            queueing_flash: data.tunables().queueing_flash(),
            busy_queues: data.schedule.busy(),
            in_service: in_service.map(served),
        };
        let (group, close_bytes) = (asker.traits.group, self.merging.settings().close_bytes);
        let pos_tree = &self.pos_tree;
        let nearest = || {
            let queue = pos_tree.nearest(asker.queue, group, position, close_bytes)?;
            Some(facts(queue.index))
        };
        match self.merging.check(data.now, &ask, &device, nearest) {
            Check::Stay(reason) => {
                data.counters.count(group, Count::Refusals, u64::from(reason.is_some()));
                Placement::stay(at)
            }
            Check::Follow(to) => Placement { flow: to.index, merged: Some(at) },
            Check::Merge(merge) => self.merge(data, merge),
        }
    }

    /// Effective flow of `own_flow`'s client.
    fn effective_flow(&self, data: &BfqData, own_flow: u32) -> u32 {
        if data.flows[own_flow].is_alone() {
            return own_flow;
        }
        self.representative(data, own_flow).unwrap_or(own_flow)
    }

    /// Carries out a merge.
    fn merge(&mut self, data: &mut BfqData, merge: Merge) -> Placement {
        // Either flow may have been alone.
        let [from, to] = [merge.from, merge.to].map(|queue| (queue, saved_state(data, queue)));
        let save = |queue: QueueId| if queue == from.0 { from.1 } else { to.1 };
        let to = self.merging.merge(merge, save).index;
        for queue in [merge.from, merge.to] {
            data.flows[queue.index].set_alone(false);
        }
        data.counters.count(data.schedule.cgroup(to), Count::Merges, 1);
        let from = merge.from.index;
        let mut giving = data.flows.stats(from).think_time;
        data.flows.stats_mut(to).think_time.inherit(&mut giving);
        data.flows.stats_mut(from).think_time = giving;
        let mut waker = data.flows.sparse(to).waker;
        waker.inherit(data.flows.id(to), &data.flows.sparse(from).waker);
        data.flows.set_waker(to, waker);
        low_latency::inherit(data, from, to);
        Placement { flow: to, merged: Some(from) }
    }

    /// Updates a flow after a merge or a change of its members.
    pub(super) fn update(&self, data: &mut BfqData, tree: &Tree, at: u32) {
        self.update_flow_state(data, at);
        self.update_prio(data, tree, at);
    }

    /// Updates whether a flow is live or merged.
    fn update_flow_state(&self, data: &mut BfqData, at: u32) {
        let users = self.merging.sets().users(data.flows.id(at));
        let flow = &mut data.flows[at];
        if !flow.is_orphaned() {
            flow.state = if users > 0 { FlowState::Live } else { FlowState::Merged };
        }
    }

    /// Gives a flow the sum of its members' weights, so that merging neither wins nor loses (spec/bfq D-27).
    fn update_prio(&self, data: &mut BfqData, tree: &Tree, at: u32) {
        let (queue, owner) = (data.flows.id(at), data.schedule.owner(at));
        if data.flows[at].is_orphaned() {
            return;
        }
        let cgroup = data.schedule.cgroup(at);
        let own = prio_of(tree, owner, cgroup);
        let sets = self.merging.sets();
        let is_shared = sets.members(queue) > 1 && sets.representative(queue) == Some(queue);
        let weight = match is_shared {
            false => own.weight,
            true => {
                let owner = |member: QueueId| data.schedule.owner(member.index);
                sets.iter(queue).map(|member| prio_of(tree, owner(member), cgroup).weight).sum()
            }
        };
        data.schedule.set_prio(at, Prio { weight, ..own });
    }
}

/// Position tree.
impl Merger {
    /// Updates a flow in the position tree, when its next request changes or its merge window closes.
    #[inline]
    pub(super) fn update_pos_tree(&mut self, data: &BfqData, at: u32) {
        let is_cooperation_off = self.is_cooperation_off(data);
        if !is_cooperation_off || !self.pos_tree.is_empty() {
            self.set_pos_tree(data, at, is_cooperation_off);
        }
    }

    fn set_pos_tree(&mut self, data: &BfqData, at: u32, is_cooperation_off: bool) {
        let window = self.merging.settings().merge_window;
        let (flow, queue) = (&data.flows[at], data.flows.id(at));
        let is_listed = !is_cooperation_off
            && flow.sync
            && !flow.start.is_late(data.now, window)
            && data.schedule.prio(at).class != PriorityClass::Idle;
        match flow.next().filter(|_| is_listed) {
            Some(next) => {
                let place = Position(data.flows.position_of(next));
                self.pos_tree.place(queue, data.schedule.cgroup(at), place);
            }
            None => self.pos_tree.remove(queue),
        }
    }
}

/// Split.
impl Merger {
    /// Splits a shared flow that is seeky when it expires.
    #[inline(never)]
    pub(super) fn part_if_shared(&mut self, data: &mut BfqData, tree: &Tree, at: u32) {
        let (queue, sets) = (data.flows.id(at), self.merging.sets());
        let is_shared = sets.members(queue) > 1 && sets.representative(queue) == Some(queue);
        if !is_shared {
            return;
        }
        let now = data.now;
        let departure =
            self.leave_set(data, tree, |merging, restore| merging.part(now, queue, restore));
        let splits = u64::from(departure.restored > 0);
        data.counters.count(data.schedule.cgroup(at), Count::Splits, splits);
        self.update_flow_state(data, at);
    }

    /// The client of a flow is gone.
    pub(super) fn close(&mut self, data: &mut BfqData, tree: &Tree, at: u32) {
        let queue = data.flows.id(at);
        let representative = self.representative(data, at);
        data.flows[at].set_alone(false);
        self.leave_set(data, tree, |merging, restore| merging.close(queue, restore));
        self.pos_tree.remove(queue);
        if let Some(representative) = representative.filter(|&other| other != at) {
            self.update_prio(data, tree, representative);
        }
    }

    /// A cgroup without clients is gone.
    pub(super) fn remove_group(&mut self, cgroup: u32) {
        self.merging.remove_group(cgroup);
    }

    /// Applies the new priority of a flow's client, which may not allow its merge any more.
    pub(super) fn update_traits(&mut self, data: &mut BfqData, tree: &Tree, at: u32) {
        let queue = data.flows.id(at);
        let traits = traits(data, tree, at);
        self.leave_set(data, tree, |merging, restore| merging.change(queue, traits, restore));
        let representative = self.representative(data, at);
        self.update_prio(data, tree, representative.unwrap_or(at));
    }

    /// With the kernel's rules a client leaves a seeky set with its next request.
    fn leave_if_parting(&mut self, data: &mut BfqData, tree: &Tree, own_flow: u32) {
        let queue = data.flows.id(own_flow);
        let (now, before) = (data.now, self.representative(data, own_flow));
        let departure = self.leave_set(data, tree, |merging, restore| {
            merging.part_if_due(now, queue, restore).unwrap_or_default()
        });
        if let Some(before) = before.filter(|_| departure.restored > 0) {
            self.update(data, tree, before);
        }
    }

    /// Lets flows leave a set. Restores the flows that are alone then, and updates the successor of a representative.
    /// `leave` calls its second argument for each flow that is alone.
    fn leave_set(
        &mut self,
        data: &mut BfqData,
        tree: &Tree,
        leave: impl FnOnce(&mut Merging<SavedState>, &mut dyn FnMut(QueueId, SavedState)) -> Departure,
    ) -> Departure {
        let mut alone = core::mem::take(&mut self.alone);
        let departure = leave(&mut self.merging, &mut |queue, saved_state| {
            alone.push((queue.index, saved_state));
        });
        for (at, saved_state) in alone.drain(..) {
            data.flows[at].set_alone(true);
            let stats = data.flows.stats_mut(at);
            stats.think_time = saved_state.think_time;
            stats.insertions = 0;
            *data.flows.inject_limit_mut(at) = saved_state.inject_limit;
            low_latency::resume(data, tree, at, saved_state.raising);
            self.update(data, tree, at);
        }
        self.alone = alone;
        if let Some(successor) = departure.successor {
            self.update(data, tree, successor.index);
        }
        departure
    }
}

/// State to save at a merge.
fn saved_state(data: &BfqData, queue: QueueId) -> SavedState {
    SavedState {
        think_time: data.flows.stats(queue.index).think_time,
        raising: low_latency::saved(data, queue.index),
        inject_limit: data.flows.inject_limit(queue.index),
    }
}

/// Properties that must be equal in flows that merge.
fn traits(data: &BfqData, tree: &Tree, at: u32) -> Traits {
    let group = data.schedule.cgroup(at);
    let client = data.schedule.owner(at).as_client();
    let priority = client.and_then(|client| tree.clients.get(client)).map(|client| client.priority);
    let priority = tree.cgroups[group].prio_class.apply(priority.unwrap_or_default());
    Traits { group, class: priority.class(), level: priority.level(), sync: data.flows[at].sync }
}

/// By Weir's rules a flow that flushes counts as seeky: merged, its flushes would wait for other clients' writes.
fn facts(data: &BfqData, tree: &Tree, at: u32, as_weir: bool) -> QueueFacts {
    let flow = &data.flows[at];
    let flushes = as_weir && data.flows.stats(at).think_time.flushes();
    let state = data.schedule.state(at);
    QueueFacts {
        queue: data.flows.id(at),
        traits: traits(data, tree, at),
        seeky: flow.is_seeky() || flushes,
        busy: !matches!(state, State::Off | State::Idle),
        start: flow.start,
    }
}
