//! Reconfiguration under load: limits, weights, moves and removals of cgroups, and withdrawn requests.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::core::Core;
use crate::limits::Limits;
use crate::request::Direction;
use crate::requests::Stage;
use crate::throttle::fair_queue::{Order, Source, SourceState};
use crate::throttle::limiter::{Arrival, Cost};
use crate::throttle::rate_limiter::RateLimiter;
use crate::time::Instant;
use crate::tree::{Cgroup, NO_CGROUP, WaitingTurns};
use crate::weight::Weight;

impl Core {
    /// Replaces the limits of `cgroup`, which have been checked.
    pub(crate) fn set_limits(&mut self, now: Instant, cgroup: u32, limits: Limits) {
        self.sync_with_watermark(cgroup);
        let units = self.config.prices.units_per_io();
        let time = self.limit_time(cgroup, now);
        let mut presence_changed = false;
        let rw_limit = limits.rw_rates(units);
        self.tree.cgroups[cgroup].set_limits(limits);
        self.tree.cgroups[cgroup].set_rw_limit(time, limits.limiter, rw_limit);
        for direction in Direction::BOTH {
            let rates = limits.rates(direction, units);
            let node = &mut self.tree.cgroups[cgroup];
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
            self.relimit(cgroup);
        }
        self.limits_changed(now, cgroup);
    }

    /// Sets the deadlines of `cgroup` anew: what they wait for may be gone, or wait differently. What may go then, goes.
    pub(crate) fn limits_changed(&mut self, now: Instant, cgroup: u32) {
        self.disarm(cgroup, Direction::Read);
        self.disarm(cgroup, Direction::Write);
        Direction::BOTH
            .iter()
            .for_each(|&direction| self.deactivate_ineligible(now, cgroup, direction));
        for direction in Direction::BOTH {
            if self.is_hierarchical(cgroup, direction) {
                self.schedule_next_dispatch(now, cgroup);
            }
            self.update_eligibility(now, cgroup, direction, Arrival::Queued);
        }
    }

    /// Requests from below `cgroup` that were dispatched to ancestors return to it: they are past its limit, and
    /// wait for those of its new ancestors, before any that come later. O(requests held at ancestors).
    fn requeue_from_ancestors(&mut self, now: Instant, cgroup: u32, direction: Direction) {
        let mut back: Vec<u32> = Vec::new();
        let mut holders = Vec::new();
        let mut at = self.tree.cgroups[cgroup].parent;
        while at != NO_CGROUP {
            if let Some(queue) = self.tree.cgroups[at].queue(direction) {
                let held: Vec<u32> = queue.to_parent.iter(&mut self.requests).collect();
                let is_below = |index: &u32| {
                    let task = self.requests[*index].task;
                    self.tree.is_within(self.tree.tasks[task].cgroup, cgroup)
                };
                // Further up is older.
                let mut older: Vec<u32> = held.into_iter().filter(is_below).collect();
                let queue = self.tree.cgroups[at].queue_mut(direction);
                for &index in &older {
                    queue.to_parent.remove(&mut self.requests, index);
                }
                if !older.is_empty() {
                    holders.push(at);
                    older.append(&mut back);
                    back = older;
                }
            }
            at = self.tree.cgroups[at].parent;
        }
        for &index in back.iter().rev() {
            self.requests[index].stage = Stage::DispatchedToParent(cgroup);
            let queue = self.tree.cgroups[cgroup].queue_mut(direction);
            queue.to_parent.push_front(&mut self.requests, index);
        }
        for holder in holders {
            self.update_upwards(now, holder, direction);
        }
    }

    /// The weight of `cgroup` was `old`; the new one counts from its next request on, also where it waits.
    pub(crate) fn weight_changed(&mut self, cgroup: u32, old: Weight) {
        let Cgroup { weight, parent, .. } = self.tree.cgroups[cgroup];
        for direction in Direction::BOTH {
            let queue = self.tree.cgroups[cgroup].queue(direction);
            if queue.is_some_and(|queue| queue.source_state.is_active()) {
                let above = self.tree.cgroups[parent].queue_mut(direction);
                above.fair_queue.reweigh(u64::from(old.get()), u64::from(weight.get()));
            }
        }
    }

    /// Before `cgroup` is moved: it takes back what was dispatched to its ancestors, and is no source of its parent.
    pub(crate) fn detach(&mut self, now: Instant, cgroup: u32) {
        let parent = self.tree.cgroups[cgroup].parent;
        Direction::BOTH
            .iter()
            .for_each(|&direction| self.requeue_from_ancestors(now, cgroup, direction));
        for direction in Direction::BOTH {
            let queue = self.tree.cgroups[cgroup].queue(direction);
            if queue.is_some_and(|queue| queue.source_state.is_active()) {
                self.deactivate(parent, direction, Source::Cgroup(cgroup));
                self.deactivate_ineligible(now, parent, direction);
            }
        }
    }

    /// After `cgroup` was moved away from its parent `old`.
    pub(crate) fn attach(&mut self, now: Instant, cgroup: u32, old: u32) {
        self.relimit(cgroup);
        for direction in Direction::BOTH {
            if let Some(queue) = &mut self.tree.cgroups[cgroup].dir_mut(direction).queue {
                // What it received among its old siblings says nothing about its new ones.
                queue.source_state = SourceState::new();
            }
        }
        for direction in Direction::BOTH {
            self.update_eligibility(now, old, direction, Arrival::Queued);
            self.update_eligibility(now, cgroup, direction, Arrival::Queued);
        }
        self.review_clock(now, cgroup);
    }

    /// Takes out a request that waits for a limit. What it has paid in instalments stays charged, and is the answer.
    pub(crate) fn withdraw_waiting(&mut self, now: Instant, index: u32) -> Option<Cost> {
        let paid = self.requests[index].is_part_paid.then(|| self.end_instalments(index));
        let record = &self.requests[index];
        let (task, direction, stage) = (record.task, record.request.op.direction(), record.stage);
        self.throttled -= 1;
        match stage {
            Stage::DispatchedToParent(holder) => {
                let queue = self.tree.cgroups[holder].queue_mut(direction);
                queue.to_parent.remove(&mut self.requests, index);
                self.update_upwards(now, holder, direction);
            }
            Stage::Waiting => self.leave_task(now, task, direction, index),
            Stage::Ready | Stage::Dispatched => panic!("a request past the limits does not wait"),
        }
        paid
    }

    fn leave_task(&mut self, now: Instant, task: u32, direction: Direction, index: u32) {
        let (client_index, cgroup) = (self.tree.tasks[task].client, self.tree.tasks[task].cgroup);
        let waiting = &mut self.tree.tasks[task].dir_mut(direction).waiting;
        waiting.remove(&mut self.requests, index);
        if waiting.is_empty() {
            let client = self.tree.clients[client_index].dir_mut(direction);
            let mut turns = WaitingTurns { tasks: &mut self.tree.tasks, direction };
            client.turns.remove(&mut turns, task);
            if client.turns.is_empty() {
                self.deactivate(cgroup, direction, Source::Client(client_index));
            }
        }
        self.update_upwards(now, cgroup, direction);
    }

    /// After a request left `cgroup` out of turn: the head may be another one for every limit above.
    fn update_upwards(&mut self, now: Instant, cgroup: u32, direction: Direction) {
        self.deactivate_ineligible(now, cgroup, direction);
        let mut at = cgroup;
        while at != NO_CGROUP {
            let parent = self.tree.cgroups[at].parent;
            self.update_eligibility(now, at, direction, Arrival::Queued);
            at = parent;
        }
    }

    /// Recomputes depth and nearest limits of `top` and all below it. O(cgroups below).
    fn relimit(&mut self, top: u32) {
        for at in self.tree.subtree(top) {
            let parent = self.tree.cgroups[at].parent;
            if parent == NO_CGROUP {
                continue;
            }
            self.tree.cgroups[at].depth = self.tree.cgroups[parent].depth + 1;
            for direction in Direction::BOTH {
                let above = self.tree.nearest_limit(parent, direction);
                self.tree.cgroups[at].dir_mut(direction).parent_limit = above;
            }
        }
    }
}
