//! Hierarchical dispatch, as in the kernel: one timer for both directions, a quantum of requests each time
//! (spec/throttle 1.4 and 1.7).

use crate::throttle::deadlines::Due;
use crate::throttle::limiter::{Arrival, Verdict};
use crate::throttle::rate_limiter::RateLimiter;
use crate::throttle::{Context, Throttle};
use crate::tree::NO_CGROUP;
use crate::types::{Direction, Instant};

/// Quantum of one visit: six reads, then two writes.
const QUANTUM: [(Direction, u32); 2] = [(Direction::Read, 6), (Direction::Write, 2)];

impl Throttle {
    /// Handles a deadline that has come.
    pub(crate) fn fire(&mut self, cx: &mut Context<'_>, due: Due) {
        let cgroup = &mut self.cgroups[due.cgroup];
        // Both directions have one kind of limiter; the other direction is in another line of cache.
        let limiter =
            cgroup.limiter(due.direction).or_else(|| cgroup.limiter(due.direction.other()));
        if limiter.is_some_and(RateLimiter::is_hierarchical) {
            self.pending_timer_fired(cx, due.cgroup);
        } else {
            let dir = cgroup.dir_mut(due.direction);
            dir.timer.disarm();
            if dir.parent_limit == NO_CGROUP && !dir.has_rw_limit {
                // All that an update does where no other limit has a say.
                self.drain(cx, due.cgroup, due.direction, Arrival::Queued);
            } else {
                self.update_eligibility(cx, due.cgroup, due.direction, Arrival::Queued);
            }
        }
    }

    /// Handles the pending timer of a cgroup with hierarchical dispatch.
    fn pending_timer_fired(&mut self, cx: &mut Context<'_>, cgroup: u32) {
        let is_open = self.clocks.get(self.cgroups[cgroup].clock).is_open();
        if !is_open && self.limit_time(cgroup, cx.now) < self.cgroups[cgroup].disptime {
            // A re-check before a far deadline: nothing is due, nothing is recomputed.
            self.schedule_pending_timer(cx, cgroup, true);
            return;
        }
        self.disarm(cgroup, Direction::Read);
        for (direction, quantum) in QUANTUM {
            self.dispatch_quantum(cx, cgroup, direction, quantum);
        }
        self.schedule_next_dispatch(cx, cgroup);
    }

    /// Arms the timer for the earlier head of both directions; disarms it if nothing waits.
    pub(crate) fn schedule_next_dispatch(&mut self, cx: &mut Context<'_>, cgroup: u32) {
        let heads = Direction::BOTH.map(|direction| self.head_may_go(cx, cgroup, direction));
        match heads.into_iter().flatten().min() {
            None => self.disarm(cgroup, Direction::Read),
            Some(disptime) => {
                let old = core::mem::replace(&mut self.cgroups[cgroup].disptime, disptime);
                self.schedule_pending_timer(cx, cgroup, old == disptime);
            }
        }
    }

    /// Arms the timer for the instant at which a head may go, or for the re-check before it. With `stays` the instant
    /// is unchanged, and the place among timers of that instant is kept.
    fn schedule_pending_timer(&mut self, cx: &mut Context<'_>, cgroup: u32, stays: bool) {
        let limiters =
            Direction::BOTH.iter().filter_map(|&direction| self.cgroups[cgroup].limiter(direction));
        // A virtual clock needs no re-check.
        let rechecks = self.clocks.get(self.cgroups[cgroup].clock).is_real();
        let recheck =
            limiters.map(RateLimiter::recheck_ns).min().filter(|_| rechecks).unwrap_or(u64::MAX);
        let time = self.limit_time(cgroup, cx.now);
        let at = self.cgroups[cgroup].disptime.min(time.plus_nanos(recheck));
        let timer = self.cgroups[cgroup].dir(Direction::Read).timer;
        match timer.stamp().filter(|_| stays) {
            Some(stamp) => self.arm_as(cx, cgroup, Direction::Read, at, stamp),
            None => {
                // A re-check at this instant belongs to another deadline now.
                self.disarm(cgroup, Direction::Read);
                self.arm(cx, cgroup, Direction::Read, at);
            }
        }
    }

    /// Instant, by its clock, at which the head of `direction` may leave a cgroup with hierarchical dispatch; `None`
    /// if nothing waits at its limit.
    fn head_may_go(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
    ) -> Option<Instant> {
        if !self.is_hierarchical(cgroup, direction) || self.cgroups[cgroup].is_clear(direction) {
            return None;
        }
        let cost = self.head_cost(cx, cgroup, direction)?;
        match self.check_limit(cx, cgroup, direction, cost, Arrival::Queued) {
            Verdict::Go => Some(self.limit_time(cgroup, cx.now)),
            Verdict::Wait { until, throttled_by } => {
                self.cgroups[cgroup].dir_mut(direction).throttled_by = throttled_by;
                Some(until)
            }
        }
    }

    fn dispatch_quantum(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        quantum: u32,
    ) {
        for _ in 0..quantum {
            let time = self.limit_time(cgroup, cx.now);
            if self.head_may_go(cx, cgroup, direction) != Some(time) {
                return;
            }
            // Below slices there are no instalments.
            let Some(index) = self.dequeue(cx, cgroup, direction) else { continue };
            self.throttled -= 1;
            if self.parent_limit(cgroup, direction) == NO_CGROUP {
                self.pass(cx, index);
            } else {
                self.queue_at_parent(cx, cgroup, direction, index);
            }
        }
    }
}
