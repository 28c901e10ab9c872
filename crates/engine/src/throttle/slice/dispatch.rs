//! Dispatch from level to level: one timer for both directions, a quantum of requests each time (spec/throttle 1.4 and
//! 1.7).

use alloc::vec::Vec;

use crate::requests::Stage;
use crate::throttle::fair_queue::Source;
use crate::throttle::limiter::{Arrival, Verdict};
use crate::throttle::slice::Slice;
use crate::throttle::{Context, Throttle};
use crate::tree::NO_CGROUP;
use crate::types::{Cost, Direction, Instant};

/// Quantum of one visit: six reads, then two writes.
const QUANTUM: [(Direction, u32); 2] = [(Direction::Read, 6), (Direction::Write, 2)];

/// A re-check is due after this many slices even if the limiter asks for more.
const RECHECK_SLICES: u64 = 8;

impl Throttle {
    /// Charges the limits on the path, where the last of them, that of `cgroup`, is one of slices: it does not wait for
    /// those above. Answers the cgroup then.
    #[inline]
    pub(in crate::throttle) fn charge_slice(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        cost: Cost,
    ) -> Option<u32> {
        if !self.is_slice(cgroup, direction) {
            return None;
        }
        self.charge_path(cx, direction, cost, None);
        Some(cgroup)
    }

    /// Queues at the parent a request that passed the limit of `holder` and not yet one further up.
    pub(in crate::throttle) fn queue_at_parent(
        &mut self,
        cx: &mut Context<'_>,
        holder: u32,
        direction: Direction,
        index: u32,
    ) {
        cx.requests[index].stage = Stage::DispatchedToParent(holder);
        self.throttled += 1;
        self.slices.push(cx.requests, holder, direction, index);
        if !self.cgroups[holder].queue_mut(direction).source_state.is_active() {
            let parent = cx.tree.cgroups[holder].parent;
            self.activate(cx, Source::Cgroup(holder), parent, direction);
        }
    }

    /// Whether `cgroup` has requests for its parent, where that depends on slices: on those that were dispatched
    /// there, and on no other that waits for a limit of slices.
    #[inline]
    pub(in crate::throttle) fn is_slice_eligible(
        &self,
        cgroup: u32,
        direction: Direction,
    ) -> Option<bool> {
        if self.slices.head(cgroup, direction).is_some() {
            return Some(true);
        }
        self.is_slice(cgroup, direction).then_some(false)
    }

    /// The first source of a cgroup, or its first request, may be another. A new head makes the waits of both directions
    /// stale (spec/throttle 1.4).
    #[inline]
    pub(in crate::throttle) fn slice_head_changed(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        arrival: Arrival,
    ) {
        if self.is_slice(cgroup, direction) {
            let armed = self.cgroups[cgroup].dir(Direction::Read).timer.fires_at().is_some();
            if arrival == Arrival::Fresh || !armed || self.cgroups[cgroup].is_clear(direction) {
                self.schedule_next_dispatch(cx, cgroup);
            }
        }
    }

    /// The limits of `cgroup`, or its clock, may be others.
    pub(in crate::throttle) fn slice_limits_changed(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
    ) {
        if self.is_slice(cgroup, direction) {
            self.schedule_next_dispatch(cx, cgroup);
        }
    }

    /// Handles the timer of `cgroup`, if its limit is one of slices.
    #[inline]
    pub(in crate::throttle) fn slice_timer_fired(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
    ) -> bool {
        // Both directions have one kind of limiter; the other direction is in another line of cache.
        let node = &self.cgroups[cgroup];
        let limiter = node.limiter(direction).or_else(|| node.limiter(direction.other()));
        let is_slice = limiter.is_some_and(|limiter| limiter.as_slice().is_some());
        if is_slice {
            self.pending_timer_fired(cx, cgroup);
        }
        is_slice
    }

    fn pending_timer_fired(&mut self, cx: &mut Context<'_>, cgroup: u32) {
        let time = self.limit_time(cgroup, cx.now);
        if !time.is_lifted && time.at < self.slices.disptime(cgroup) {
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
    fn schedule_next_dispatch(&mut self, cx: &mut Context<'_>, cgroup: u32) {
        let heads = Direction::BOTH.map(|direction| self.head_may_go(cx, cgroup, direction));
        match heads.into_iter().flatten().min() {
            None => self.disarm(cgroup, Direction::Read),
            Some(disptime) => {
                let old = self.slices.set_disptime(cgroup, disptime);
                self.schedule_pending_timer(cx, cgroup, old == disptime);
            }
        }
    }

    /// Arms the timer for the instant at which a head may go, or for the re-check before it. With `stays` the instant
    /// is unchanged, and the place among timers of that instant is kept.
    fn schedule_pending_timer(&mut self, cx: &mut Context<'_>, cgroup: u32, stays: bool) {
        let time = self.limit_time(cgroup, cx.now);
        let node = &self.cgroups[cgroup];
        let slices =
            Direction::BOTH.iter().filter_map(|&direction| node.limiter(direction)?.as_slice());
        // A virtual clock needs no re-check.
        let slice_ns = slices.map(Slice::slice_ns).min().filter(|_| time.is_real);
        let recheck_ns = slice_ns.map_or(u64::MAX, |ns| ns.saturating_mul(RECHECK_SLICES));
        let at = self.slices.disptime(cgroup).min(time.at.plus_nanos(recheck_ns));
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

    /// Instant, by its clock, at which the head of `direction` may leave a cgroup with a limit of slices; `None` if
    /// nothing waits at its limit.
    fn head_may_go(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
    ) -> Option<Instant> {
        if !self.is_slice(cgroup, direction) || self.cgroups[cgroup].is_clear(direction) {
            return None;
        }
        let cost = self.head_cost(cx, cgroup, direction)?;
        match self.check_limit(cx, cgroup, direction, cost, Arrival::Queued) {
            Verdict::Go => Some(self.limit_time(cgroup, cx.now).at),
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
            let time = self.limit_time(cgroup, cx.now).at;
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

    /// Lets requests pass that `cgroup` holds for a limit of an ancestor that has since been removed.
    #[inline]
    pub(in crate::throttle) fn drain_to_parent(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
    ) {
        while let Some(index) = self.slices.pop(cx.requests, cgroup, direction) {
            self.throttled -= 1;
            self.pass(cx, index);
        }
    }

    /// Credits service that a limit below has begun to `parent`, where nothing waited (spec/throttle 1.5).
    #[inline]
    pub(in crate::throttle) fn credit_slice(
        &mut self,
        cx: &mut Context<'_>,
        child: u32,
        parent: u32,
        direction: Direction,
    ) {
        let nearest = self.nearest_limit(parent, direction);
        if nearest == NO_CGROUP || !self.is_slice(nearest, direction) {
            return;
        }
        let [below, above] = [child, nearest].map(|at| self.limit_time(at, cx.now).at);
        let child_limiter = self.cgroups[child].limiter(direction);
        let start = child_limiter.and_then(|limiter| limiter.as_slice()).map(Slice::slice_start);
        let start = start.unwrap_or(below).moved(below, above);
        if let Some(slice) = self.cgroups[nearest].limit_mut(direction).as_slice_mut() {
            slice.credit(above, start);
        }
    }

    /// Requeues at `cgroup` the requests from below it that were dispatched to ancestors: they are past its limit, and
    /// wait for its new ancestors before later ones. Answers the ancestors that held some. O(requests held at ancestors).
    pub(in crate::throttle) fn requeue_from_ancestors(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
    ) -> Vec<u32> {
        let mut back: Vec<u32> = Vec::new();
        let mut holders = Vec::new();
        let mut at = cx.tree.cgroups[cgroup].parent;
        while at != NO_CGROUP {
            // Requests further up are older.
            let mut older = self.slices.all(cx.requests, at, direction);
            older.retain(|&index| {
                let task = cx.requests[index].task();
                cx.tree.is_within(cx.tree.tasks[task].cgroup, cgroup)
            });
            for &index in &older {
                self.slices.remove(cx.requests, at, direction, index);
            }
            if !older.is_empty() {
                holders.push(at);
                older.append(&mut back);
                back = older;
            }
            at = cx.tree.cgroups[at].parent;
        }
        for &index in back.iter().rev() {
            cx.requests[index].stage = Stage::DispatchedToParent(cgroup);
            self.slices.push_front(cx.requests, cgroup, direction, index);
        }
        holders
    }

    /// Whether the limit of `cgroup` is one of slices.
    #[inline]
    pub(in crate::throttle) fn is_slice(&self, cgroup: u32, direction: Direction) -> bool {
        let limiter = self.cgroups[cgroup].limiter(direction);
        limiter.is_some_and(|limiter| limiter.as_slice().is_some())
    }
}
