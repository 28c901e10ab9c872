//! Admission of requests: straight through where nothing is in the way, else into a queue.

use crate::requests::{Served, Stage};
use crate::throttle::client::WaitingTurns;
use crate::throttle::fair_queue::Source;
use crate::throttle::limiter::{Arrival, Verdict};
use crate::throttle::{Context, Throttle};
use crate::tree::{NO_CGROUP, Task};
use crate::types::{Class, Cost, Dimension, Direction, Request};

/// Result of an admission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// Past every limit; the scheduler takes it.
    Admitted,
    /// Waits for a limit.
    Queued,
}

impl Throttle {
    /// Admits the `request` of `task` in slot `index`, at the price `cost`. O(limited ancestors) where nothing waits.
    // Inlined into its only caller, which has all arguments at hand.
    #[inline(always)]
    pub(crate) fn admit(
        &mut self,
        cx: &mut Context<'_>,
        request: &Request,
        task: u32,
        cost: Cost,
        index: u32,
    ) -> Admission {
        let (class, direction) = (request.class, request.op.direction());
        let cgroup = cx.tree.tasks[task].cgroup;
        let mut at = self.nearest_limit(cgroup, direction);
        if at == NO_CGROUP {
            self.watermarks.note_unlimited_demand();
            cx.requests[index].stage = Stage::Ready;
            return Admission::Admitted;
        }
        if self.watermarks.is_steered() {
            self.note_return(at);
        }
        let overtakes = match class {
            Class::Data => false,
            Class::Metadata => self.may_overtake(at, direction),
            Class::Owed => true,
        };
        if overtakes {
            self.charge_path_as_debt(cx, at, direction, cost);
            self.note_if_unlimited(cgroup, direction);
            cx.requests[index].stage = Stage::Ready;
            self.recheck_path(cx, at, direction);
            return Admission::Admitted;
        }
        // Limits passed, not charged yet: a request that stays with its task pays all of them when it goes.
        self.path.clear();
        let mut holder = None;
        let (nearest, mut owed, mut arrival) = (at, cost, Arrival::Fresh);
        let mut instalment = self.first_instalment(cx, cgroup, direction, cost);
        let mut pays = instalment.unwrap_or(cost);
        let throttled_by = loop {
            let node = &mut self.cgroups[at];
            if !node.is_clear(direction) {
                break node.dir(direction).throttled_by;
            }
            if node.waits_behind_other_direction(direction) {
                break node.dir(direction.other()).throttled_by;
            }
            if let Verdict::Wait { throttled_by, .. } =
                self.check_limit(cx, at, direction, pays, arrival)
            {
                self.cgroups[at].dir_mut(direction).throttled_by = throttled_by;
                break throttled_by;
            }
            self.path.push(at);
            holder = self.charge_slice(cx, at, direction, pays).or(holder);
            at = self.parent_limit(at, direction);
            if at == NO_CGROUP {
                let is_instalment = instalment.is_some() || arrival == Arrival::Queued;
                self.charge_path(cx, direction, pays, is_instalment.then_some(owed));
                if instalment.is_none() {
                    if arrival == Arrival::Queued {
                        self.end_instalments(cx, index);
                    }
                    self.note_if_unlimited(cgroup, direction);
                    cx.requests[index].stage = Stage::Ready;
                    return Admission::Admitted;
                }
                self.pay_in_part(cx, direction, index, pays);
                owed = owed.less(pays);
                instalment = self.instalment(cgroup, direction, owed);
                pays = instalment.unwrap_or(owed);
                (at, arrival) = (nearest, Arrival::Queued);
            }
        };
        if arrival == Arrival::Queued {
            self.note_part_paid(cx, cgroup, direction);
        }
        self.cgroups[cgroup].account().throttled(throttled_by);
        match holder {
            Some(holder) => {
                self.tasks[task].waits_mut(direction, throttled_by).throttled += 1;
                self.queue_at_parent(cx, holder, direction, index);
            }
            None => self.wait(cx, direction, throttled_by, task, index),
        }
        Admission::Queued
    }

    /// Appends the request in slot `index` to its task's wait list; `throttled_by` is the limiting dimension.
    // In place in its only caller.
    #[inline(always)]
    fn wait(
        &mut self,
        cx: &mut Context<'_>,
        direction: Direction,
        throttled_by: Dimension,
        task_index: u32,
        index: u32,
    ) {
        self.throttled += 1;
        let &Task { client: client_index, cgroup, .. } = &cx.tree.tasks[task_index];
        let task = &mut self.tasks[task_index];
        task.waits_mut(direction, throttled_by).throttled += 1;
        let client = self.clients[client_index].dir_mut(direction);
        let own = &self.cgroups[cgroup];
        let nearest = match own.limiter(direction) {
            Some(limiter) => limiter,
            None => self.cgroups[own.dir(direction).parent_limit].limit(direction),
        };
        let record = &mut cx.requests[index];
        record.stage = Stage::Waiting;
        record.served_before =
            Served { to_all_ns: nearest.served_ns, to_client_ns: client.served_ns };
        let waiting = &mut task.dir_mut(direction).waiting;
        let is_first = waiting.is_empty();
        waiting.push_back(cx.requests, index);
        if !is_first {
            return;
        }
        let mut turns = WaitingTurns { tasks: &mut self.tasks, direction };
        client.turns.push_back(&mut turns, task_index);
        if !client.source_state.is_active() {
            self.activate(cx, Source::Client(client_index), cgroup, direction);
        }
    }

    /// Whether metadata may overtake at `at` and at each limit above.
    fn may_overtake(&self, mut at: u32, direction: Direction) -> bool {
        while at != NO_CGROUP {
            if !self.cgroups[at].limit(direction).lets_metadata_overtake() {
                return false;
            }
            at = self.parent_limit(at, direction);
        }
        true
    }

    /// Re-checks eligibility from `cgroup` upwards after a debt was charged.
    fn recheck_path(&mut self, cx: &mut Context<'_>, cgroup: u32, direction: Direction) {
        let mut at = cgroup;
        while at != NO_CGROUP {
            self.deactivate_ineligible(cx, at, direction);
            if self.cgroups[at].rw_limit.is_some() {
                self.deactivate_ineligible(cx, at, direction.other());
            }
            at = self.parent_limit(at, direction);
        }
        let mut at = cgroup;
        while at != NO_CGROUP {
            if !self.cgroups[at].is_clear(direction) {
                self.update_eligibility(cx, at, direction, Arrival::Queued);
            }
            at = self.parent_limit(at, direction);
        }
    }

    /// Lets the waiting request in slot `index` pass all unpaid limits now, charged as debt. O(depth × log sources).
    pub(crate) fn pass_as_debt(&mut self, cx: &mut Context<'_>, index: u32) {
        let record = &cx.requests[index];
        let direction = record.request.op.direction();
        let unpaid = match record.stage {
            Stage::Waiting => self.nearest_limit(cx.tree.tasks[record.task()].cgroup, direction),
            Stage::DispatchedToParent(holder) => self.parent_limit(holder, direction),
            Stage::Ready | Stage::Dispatched => return,
        };
        // Reduced by the instalments paid.
        let owed = record.cost;
        if record.is_part_paid {
            self.end_instalments(cx, index);
        }
        self.withdraw_waiting(cx, index);
        self.charge_path_as_debt(cx, unpaid, direction, owed);
        self.pass(cx, index);
        self.recheck_path(cx, unpaid, direction);
    }

    /// Charges every limit from `at` upwards for a request that passes whether or not they allow it.
    fn charge_path_as_debt(
        &mut self,
        cx: &mut Context<'_>,
        mut at: u32,
        direction: Direction,
        cost: Cost,
    ) {
        while at != NO_CGROUP {
            let is_clear = self.cgroups[at].is_clear(direction);
            // Not a debt where nothing waits and the limit allows it.
            let arrival = if is_clear { Arrival::Fresh } else { Arrival::Queued };
            if is_clear && self.check_limit(cx, at, direction, cost, arrival) == Verdict::Go {
                self.charge_limit(cx, at, direction, cost, None);
            } else {
                let time = self.limit_time(at, cx.now).at;
                let node = &mut self.cgroups[at];
                node.limit_mut(direction).charge_debt(time, cost, arrival);
                if let Some(rw_limit) = &mut node.rw_limit {
                    rw_limit.limiter_mut().charge_debt(time, cost, arrival);
                }
            }
            at = self.parent_limit(at, direction);
        }
    }

    /// Charges every limit on `path`, and clears it.
    pub(super) fn charge_path(
        &mut self,
        cx: &mut Context<'_>,
        direction: Direction,
        cost: Cost,
        owed: Option<Cost>,
    ) {
        let mut path = core::mem::take(&mut self.path);
        for at in path.drain(..) {
            self.charge_limit(cx, at, direction, cost, owed);
        }
        self.path = path;
    }

    /// Marks the request in slot `index` as past every limit.
    pub(crate) fn pass(&mut self, cx: &mut Context<'_>, index: u32) {
        let cgroup = cx.tree.tasks[cx.requests[index].task()].cgroup;
        self.pass_from(cx, cgroup, index);
    }

    /// As [`Throttle::pass`], for a request of a task in `cgroup`.
    #[inline]
    pub(crate) fn pass_from(&mut self, cx: &mut Context<'_>, cgroup: u32, index: u32) {
        let record = &mut cx.requests[index];
        record.stage = Stage::Ready;
        let direction = record.request.op.direction();
        self.note_if_unlimited(cgroup, direction);
        self.ready.push_back(cx.requests, index);
    }

    /// Dimension that throttles the head at `cgroup`.
    pub(crate) fn throttled_by(&self, cgroup: u32, direction: Direction) -> Dimension {
        self.cgroups[cgroup].dir(direction).throttled_by
    }
}
