//! Reconfiguration under load: limits, weights, moves and removals of cgroups, and withdrawn requests.

use alloc::boxed::Box;

use crate::requests::Stage;
use crate::throttle::client::WaitingTurns;
use crate::throttle::fair_queue::{Order, Source, SourceState};
use crate::throttle::limiter::Arrival;
use crate::throttle::rate_limiter::RateLimiter;
use crate::throttle::{Context, Throttle};
use crate::tree::{Cgroup, NO_CGROUP, Tree};
use crate::types::{Cost, Direction, Lease, Limits, Weight};

impl Throttle {
    /// Replaces the limits of `cgroup`, which have been checked.
    pub(crate) fn set_limits(&mut self, cx: &mut Context<'_>, cgroup: u32, limits: Limits) {
        let units = self.prices.units_per_io();
        let time = self.limit_time(cgroup, cx.now).at;
        let mut presence_changed = false;
        let rw_limit = limits.rw_rates(units);
        self.cgroups[cgroup].set_limits(limits);
        self.cgroups[cgroup].set_rw_limit(time, limits.limiter, rw_limit);
        for direction in Direction::BOTH {
            let rates = limits.rates(direction, units);
            let node = &mut self.cgroups[cgroup];
            let queued = !node.is_clear(direction);
            let dir = node.dir_mut(direction);
            // A limit on both directions needs both limiters: cgroups below ask the nearest of their direction.
            match (&mut dir.limiter, rates.is_unlimited() && rw_limit.is_unlimited()) {
                (None, true) => {}
                (Some(_), true) => {
                    dir.limiter = None;
                    presence_changed = true;
                }
                (None, false) => {
                    dir.limiter = Some(Box::new(RateLimiter::new(time, limits.limiter, rates)));
                    presence_changed = true;
                }
                (Some(limiter), false) => limiter.set(time, limits.limiter, rates, queued),
            }
            let order = dir.limiter.as_deref().map_or(Order::Shares, RateLimiter::order);
            if let Some(queue) = &mut dir.queue {
                queue.fair_queue.set_order(order);
            }
        }
        if presence_changed {
            self.relimit(cx, cgroup);
        }
        self.limits_changed(cx, cgroup);
    }

    /// Sets when the limits of `cgroup` end, if they do.
    pub(crate) fn set_lease(&mut self, cgroup: u32, lease: Option<Lease>) {
        self.leases.set(cgroup, lease);
        self.review_time_tracking();
    }

    /// Ends the first lease that has ended by `now`, and answers its cgroup.
    pub(crate) fn end_lease(&mut self, cx: &mut Context<'_>) -> Option<u32> {
        let (cgroup, lease) = self.leases.pop_ended(cx.now)?;
        self.review_time_tracking();
        self.set_limits(cx, cgroup, lease.then);
        Some(cgroup)
    }

    /// Updates `cgroup` after a change of limits or clock: timers are set anew, and what may go passes.
    pub(crate) fn limits_changed(&mut self, cx: &mut Context<'_>, cgroup: u32) {
        self.disarm(cgroup, Direction::Read);
        self.disarm(cgroup, Direction::Write);
        Direction::BOTH
            .iter()
            .for_each(|&direction| self.deactivate_ineligible(cx, cgroup, direction));
        for direction in Direction::BOTH {
            self.slice_limits_changed(cx, cgroup, direction);
            self.update_eligibility(cx, cgroup, direction, Arrival::Queued);
        }
    }

    /// Applies a change of weight, which was `old`, where `cgroup` waits. It counts from the next request on.
    pub(crate) fn weight_changed(&mut self, tree: &Tree, cgroup: u32, old: Weight) {
        let Cgroup { weight, parent, .. } = tree.cgroups[cgroup];
        for direction in Direction::BOTH {
            let queue = self.cgroups[cgroup].queue(direction);
            if queue.is_some_and(|queue| queue.source_state.is_active()) {
                let above = self.cgroups[parent].queue_mut(direction);
                above.fair_queue.reweigh(u64::from(old.get()), u64::from(weight.get()));
            }
        }
    }

    /// Prepares a move of `cgroup`: requests held at its ancestors return to it, and it leaves its parent's queue.
    pub(crate) fn detach(&mut self, cx: &mut Context<'_>, cgroup: u32) {
        let parent = cx.tree.cgroups[cgroup].parent;
        for direction in Direction::BOTH {
            for holder in self.requeue_from_ancestors(cx, cgroup, direction) {
                self.update_upwards(cx, holder, direction);
            }
        }
        for direction in Direction::BOTH {
            let queue = self.cgroups[cgroup].queue(direction);
            if queue.is_some_and(|queue| queue.source_state.is_active()) {
                self.deactivate(cx, parent, direction, Source::Cgroup(cgroup));
                self.deactivate_ineligible(cx, parent, direction);
            }
        }
    }

    /// Completes a move of `cgroup` away from `old`.
    pub(crate) fn attach(&mut self, cx: &mut Context<'_>, cgroup: u32, old: u32) {
        self.relimit(cx, cgroup);
        for direction in Direction::BOTH {
            if let Some(queue) = &mut self.cgroups[cgroup].dir_mut(direction).queue {
                // Service received among old siblings does not count among new ones.
                queue.source_state = SourceState::new();
            }
        }
        for direction in Direction::BOTH {
            self.update_eligibility(cx, old, direction, Arrival::Queued);
            self.update_eligibility(cx, cgroup, direction, Arrival::Queued);
        }
        self.review_clock(cx, cgroup);
    }

    /// Removes a request that waits for a limit. Answers the instalments paid, which stay charged.
    pub(crate) fn withdraw_waiting(&mut self, cx: &mut Context<'_>, index: u32) -> Option<Cost> {
        let paid = cx.requests[index].is_part_paid.then(|| self.end_instalments(cx, index));
        let record = &cx.requests[index];
        let (task, direction, stage) = (record.task(), record.request.op.direction(), record.stage);
        self.throttled -= 1;
        match stage {
            Stage::DispatchedToParent(holder) => {
                self.slices.remove(cx.requests, holder, direction, index);
                self.update_upwards(cx, holder, direction);
            }
            Stage::Waiting => self.leave_task(cx, task, direction, index),
            Stage::Ready | Stage::Dispatched => panic!("a request past the limits does not wait"),
        }
        paid
    }

    fn leave_task(&mut self, cx: &mut Context<'_>, task: u32, direction: Direction, index: u32) {
        let (client_index, cgroup) = (cx.tree.tasks[task].client, cx.tree.tasks[task].cgroup);
        let waiting = &mut self.tasks[task].dir_mut(direction).waiting;
        waiting.remove(cx.requests, index);
        if waiting.is_empty() {
            let client = self.clients[client_index].dir_mut(direction);
            let mut turns = WaitingTurns { tasks: &mut self.tasks, direction };
            client.turns.remove(&mut turns, task);
            if client.turns.is_empty() {
                self.deactivate(cx, cgroup, direction, Source::Client(client_index));
            }
        }
        self.update_upwards(cx, cgroup, direction);
    }

    /// Updates `cgroup` and all ancestors after a request left out of turn: their heads may differ.
    fn update_upwards(&mut self, cx: &mut Context<'_>, cgroup: u32, direction: Direction) {
        self.deactivate_ineligible(cx, cgroup, direction);
        let mut at = cgroup;
        while at != NO_CGROUP {
            let parent = cx.tree.cgroups[at].parent;
            self.update_eligibility(cx, at, direction, Arrival::Queued);
            at = parent;
        }
    }

    /// Recomputes the nearest limits of `top` and all below it. O(cgroups below).
    fn relimit(&mut self, cx: &mut Context<'_>, top: u32) {
        for at in cx.tree.subtree(top) {
            let parent = cx.tree.cgroups[at].parent;
            if parent == NO_CGROUP {
                continue;
            }
            for direction in Direction::BOTH {
                let above = self.nearest_limit(parent, direction);
                self.cgroups[at].dir_mut(direction).parent_limit = above;
            }
        }
    }
}
