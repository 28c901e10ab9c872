//! The way in: straight through where nothing is in the way, else into a queue.

use crate::core::Core;
use crate::limits::Dimension;
use crate::request::{Class, Direction, Request};
use crate::requests::{Served, Stage};
use crate::throttle::fair_queue::Source;
use crate::throttle::limiter::{Arrival, Cost, Verdict};
use crate::time::Instant;
use crate::tree::{NO_CGROUP, WaitingTurns};

/// What became of a request that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It is past every limit, and the scheduler's.
    Admitted,
    /// It waits for a limit.
    Queued,
}

impl Core {
    /// Takes in the `request` of `task` in slot `index`, which costs `cost`: it passes, or waits. O(limited ancestors) where
    /// nothing waits.
    // In place in its only caller, which has all of this at hand.
    #[inline(always)]
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        request: &Request,
        task: u32,
        cost: Cost,
        index: u32,
    ) -> Admission {
        let (class, direction) = (request.class, request.op.direction());
        let cgroup = self.tree.tasks[task].cgroup;
        let mut at = self.tree.nearest_limit(cgroup, direction);
        if at == NO_CGROUP {
            self.clocks.note_unlimited_demand();
            self.requests[index].stage = Stage::Ready;
            return Admission::Admitted;
        }
        if self.clocks.is_steered() {
            self.note_return(at);
        }
        let overtakes = match class {
            Class::Data => false,
            Class::Metadata => self.may_overtake(at, direction),
            Class::Owed => true,
        };
        if overtakes {
            self.charge_path_as_debt(now, at, direction, cost);
            self.note_if_unlimited(cgroup, direction);
            self.requests[index].stage = Stage::Ready;
            self.recheck_path(now, at, direction);
            return Admission::Admitted;
        }
        // Limits passed but not charged yet: a request that stays with its task pays all of them when it goes.
        self.path.clear();
        let mut holder = None;
        let (nearest, mut owed, mut arrival) = (at, cost, Arrival::Fresh);
        let mut instalment = self.first_instalment(now, cgroup, direction, cost);
        let mut pays = instalment.unwrap_or(cost);
        let throttled_by = loop {
            let node = &mut self.tree.cgroups[at];
            if !node.is_clear(direction) {
                break node.dir(direction).throttled_by;
            }
            if node.waits_behind_other_direction(direction) {
                break node.dir(direction.other()).throttled_by;
            }
            if let Verdict::Wait { throttled_by, .. } =
                self.check_limit(now, at, direction, pays, arrival)
            {
                self.tree.cgroups[at].dir_mut(direction).throttled_by = throttled_by;
                break throttled_by;
            }
            self.path.push(at);
            if self.tree.cgroups[at].limit(direction).is_hierarchical() {
                self.charge_path(now, direction, pays, None);
                holder = Some(at);
            }
            at = self.tree.parent_limit(at, direction);
            if at == NO_CGROUP {
                let is_instalment = instalment.is_some() || arrival == Arrival::Queued;
                self.charge_path(now, direction, pays, is_instalment.then_some(owed));
                if instalment.is_none() {
                    if arrival == Arrival::Queued {
                        self.end_instalments(index);
                    }
                    self.note_if_unlimited(cgroup, direction);
                    self.requests[index].stage = Stage::Ready;
                    return Admission::Admitted;
                }
                self.pay_in_part(direction, index, pays);
                owed = owed.less(pays);
                instalment = self.instalment(cgroup, direction, owed);
                pays = instalment.unwrap_or(owed);
                (at, arrival) = (nearest, Arrival::Queued);
            }
        };
        if arrival == Arrival::Queued {
            self.note_part_paid(cgroup, direction);
        }
        self.tree.cgroups[cgroup].account_mut().throttled(throttled_by);
        match holder {
            Some(holder) => {
                self.tree.tasks[task].waits_mut(direction, throttled_by).throttled += 1;
                self.queue_at_parent(now, holder, direction, index);
            }
            None => self.wait(now, direction, throttled_by, task, index),
        }
        Admission::Queued
    }

    /// Puts the request in slot `index` at the end of the list of its task, for that has to wait `throttled_by` of a limit.
    // In place in its only caller.
    #[inline(always)]
    fn wait(
        &mut self,
        now: Instant,
        direction: Direction,
        throttled_by: Dimension,
        task_index: u32,
        index: u32,
    ) {
        self.throttled += 1;
        let task = &mut self.tree.tasks[task_index];
        task.waits_mut(direction, throttled_by).throttled += 1;
        let (client_index, cgroup) = (task.client, task.cgroup);
        let client = self.tree.clients[client_index].dir_mut(direction);
        let own = &self.tree.cgroups[cgroup];
        let nearest = match own.limiter(direction) {
            Some(limiter) => limiter,
            None => self.tree.cgroups[own.dir(direction).parent_limit].limit(direction),
        };
        let record = &mut self.requests[index];
        record.stage = Stage::Waiting;
        record.served_before =
            Served { to_all_ns: nearest.served_ns, to_client_ns: client.served_ns };
        let waiting = &mut task.dir_mut(direction).waiting;
        let is_first = waiting.is_empty();
        waiting.push_back(&mut self.requests, index);
        if !is_first {
            return;
        }
        let mut turns = WaitingTurns { tasks: &mut self.tree.tasks, direction };
        client.turns.push_back(&mut turns, task_index);
        if !client.source_state.is_active() {
            self.activate(now, Source::Client(client_index), cgroup, direction);
        }
    }

    /// Keeps a request that `holder` has let go and a limit further up has not.
    pub(crate) fn queue_at_parent(
        &mut self,
        now: Instant,
        holder: u32,
        direction: Direction,
        index: u32,
    ) {
        self.requests[index].stage = Stage::DispatchedToParent(holder);
        self.throttled += 1;
        let queue = self.tree.cgroups[holder].queue_mut(direction);
        queue.to_parent.push_back(&mut self.requests, index);
        if !queue.source_state.is_active() {
            let parent = self.tree.cgroups[holder].parent;
            self.activate(now, Source::Cgroup(holder), parent, direction);
        }
    }

    /// Whether metadata need not wait at `at` nor at any limit above it.
    fn may_overtake(&self, mut at: u32, direction: Direction) -> bool {
        while at != NO_CGROUP {
            if !self.tree.cgroups[at].limit(direction).lets_metadata_overtake() {
                return false;
            }
            at = self.tree.parent_limit(at, direction);
        }
        true
    }

    /// A debt was made from `at` on upwards: what waits there and might have gone may not go any more.
    fn recheck_path(&mut self, now: Instant, cgroup: u32, direction: Direction) {
        let mut at = cgroup;
        while at != NO_CGROUP {
            self.deactivate_ineligible(now, at, direction);
            if self.tree.cgroups[at].rw_limit.is_some() {
                self.deactivate_ineligible(now, at, direction.other());
            }
            at = self.tree.parent_limit(at, direction);
        }
        let mut at = cgroup;
        while at != NO_CGROUP {
            if !self.tree.cgroups[at].is_clear(direction) {
                self.update_eligibility(now, at, direction, Arrival::Queued);
            }
            at = self.tree.parent_limit(at, direction);
        }
    }

    /// The request in slot `index`, which waits for limits, passes those that it has not paid yet at once; it is charged
    /// to them as debt. O(depth × log sources).
    pub(crate) fn pass_as_debt(&mut self, now: Instant, index: u32) {
        let record = &self.requests[index];
        let direction = record.request.op.direction();
        let unpaid = match record.stage {
            Stage::Waiting => {
                self.tree.nearest_limit(self.tree.tasks[record.task].cgroup, direction)
            }
            Stage::DispatchedToParent(holder) => self.tree.parent_limit(holder, direction),
            Stage::Ready | Stage::Dispatched => return,
        };
        // Without what it has paid in instalments.
        let owed = record.cost;
        if record.is_part_paid {
            self.end_instalments(index);
        }
        self.withdraw_waiting(now, index);
        self.charge_path_as_debt(now, unpaid, direction, owed);
        self.pass(index);
        self.recheck_path(now, unpaid, direction);
    }

    /// Charges every limit from `at` on upwards for a request that goes whether or not they allow it.
    fn charge_path_as_debt(&mut self, now: Instant, mut at: u32, direction: Direction, cost: Cost) {
        while at != NO_CGROUP {
            let is_clear = self.tree.cgroups[at].is_clear(direction);
            // Where nothing waits it is a request like others, if the limit lets it.
            let arrival = if is_clear { Arrival::Fresh } else { Arrival::Queued };
            if is_clear && self.check_limit(now, at, direction, cost, arrival) == Verdict::Go {
                self.charge_limit(now, at, direction, cost, None);
            } else {
                self.sync_with_watermark(at);
                let time = self.limit_time(at, now);
                let node = &mut self.tree.cgroups[at];
                node.limit_mut(direction).charge_debt(time, cost, arrival);
                if let Some(rw_limit) = &mut node.rw_limit {
                    rw_limit.limiter_mut().charge_debt(time, cost, arrival);
                }
            }
            at = self.tree.parent_limit(at, direction);
        }
    }

    /// Charges every limit on `path`, which is empty afterwards.
    fn charge_path(&mut self, now: Instant, direction: Direction, cost: Cost, owed: Option<Cost>) {
        let mut path = core::mem::take(&mut self.path);
        for at in path.drain(..) {
            self.charge_limit(now, at, direction, cost, owed);
        }
        self.path = path;
    }

    /// The request in slot `index` is past every limit, and waits for the device.
    pub(crate) fn pass(&mut self, index: u32) {
        let cgroup = self.tree.tasks[self.requests[index].task].cgroup;
        self.pass_from(cgroup, index);
    }

    /// The same for a request of a task in `cgroup`.
    #[inline]
    pub(crate) fn pass_from(&mut self, cgroup: u32, index: u32) {
        let record = &mut self.requests[index];
        record.stage = Stage::Ready;
        let direction = record.request.op.direction();
        self.note_if_unlimited(cgroup, direction);
        self.ready.push_back(&mut self.requests, index);
    }

    /// What the head at `cgroup` waits for, as a dimension.
    pub(crate) fn throttled_by(&self, cgroup: u32, direction: Direction) -> Dimension {
        self.tree.cgroups[cgroup].dir(direction).throttled_by
    }
}
