//! A limit for reads and writes together, and how the two share it.
//!
//! Reads and writes of a cgroup wait apart, each in their own order, and each may have limits of their own. What they
//! have in common is one more limiter, which both are asked about and charged to. While both wait for it they are two
//! sources of it, shared as others are ([`super::fair_queue`]): by the time of it that they have had, over the sum of the
//! weights of those that wait in them. So a client counts as much against one of the other direction as against one of
//! its own, neither direction can keep the other out, and what one does not use is the other's.

use alloc::boxed::Box;
use core::cmp::Ordering;

use crate::core::Core;
use crate::limits::{Dimension, LimiterKind};
use crate::request::Direction;
use crate::throttle::fair_queue::vtime_of;
use crate::throttle::limiter::{Arrival, Cost, Rates, Verdict};
use crate::throttle::rate_limiter::RateLimiter;
use crate::time::Instant;
use crate::tree::{Cgroup, NO_CGROUP};

/// One limit on both directions of one cgroup.
pub(crate) struct RwLimit {
    limiter: RateLimiter,
    /// By how much virtual time reads have had more of it than writes.
    reads_ahead: i64,
}

impl RwLimit {
    pub(crate) fn new(now: Instant, kind: LimiterKind, rates: Rates) -> RwLimit {
        RwLimit { limiter: RateLimiter::new(now, kind, rates), reads_ahead: 0 }
    }

    pub(crate) fn limiter(&self) -> &RateLimiter {
        &self.limiter
    }

    pub(crate) fn limiter_mut(&mut self) -> &mut RateLimiter {
        &mut self.limiter
    }

    /// Who goes first if both may: who has had less, and reads if both have had the same.
    fn first(&self) -> Direction {
        match self.reads_ahead.cmp(&0) {
            Ordering::Greater => Direction::Write,
            Ordering::Less | Ordering::Equal => Direction::Read,
        }
    }

    /// Books a request of `cost` in `direction`, where sources of `weight` in all wait. If nothing of the other direction
    /// `waits` for this limit, it has no claim to what it has had less.
    fn charge_turn(&mut self, direction: Direction, cost: Cost, weight: u64, waits: bool) {
        let sign = if direction == Direction::Read { 1 } else { -1 };
        let ahead = sign * self.reads_ahead;
        let ahead = if waits { ahead } else { ahead.min(0) };
        let time = i64::try_from(vtime_of(self.limiter.time_of(cost), weight.max(1)));
        // Far from where it would overflow, which is nine years of the limit's time.
        self.reads_ahead = sign * ahead.saturating_add(time.unwrap_or(AHEAD_MAX)).min(AHEAD_MAX);
    }
}

const AHEAD_MAX: i64 = 1 << 62;

/// What either direction of a cgroup asks of the limit that it has for both.
impl Cgroup {
    /// Sets, replaces or removes the limit on both directions.
    pub(crate) fn set_rw_limit(&mut self, now: Instant, kind: LimiterKind, rates: Rates) {
        let queued = !Direction::BOTH.iter().all(|&direction| self.is_clear(direction));
        match (&mut self.rw_limit, rates.is_unlimited()) {
            (rw_limit, true) => *rw_limit = None,
            (Some(rw_limit), false) => rw_limit.limiter.set(now, kind, rates, queued),
            (rw_limit @ None, false) => *rw_limit = Some(Box::new(RwLimit::new(now, kind, rates))),
        }
        Direction::BOTH.iter().for_each(|&direction| {
            self.dir_mut(direction).has_rw_limit = !rates.is_unlimited();
        });
    }

    /// Whether `direction` waits for nothing but the limit on both.
    fn waits_for_rw_limit(&self, direction: Direction) -> bool {
        let dir = self.dir(direction);
        dir.throttled_by.is_rw()
            && !self.is_clear(direction)
            && self.queue(direction).is_some_and(|queue| !queue.source_state.is_active())
    }

    /// Whether a request that comes now in `direction` has to wait because the other one waits for the limit on both: then
    /// it takes its turn, as if it had come behind others of its own.
    pub(crate) fn waits_behind_other_direction(&self, direction: Direction) -> bool {
        self.dir(direction).has_rw_limit && self.waits_for_rw_limit(direction.other())
    }

    /// What the limit on both adds to what that of `direction` alone says about a head of `cost`.
    pub(crate) fn check_rw_limit(
        &mut self,
        now: Instant,
        direction: Direction,
        cost: Cost,
        arrival: Arrival,
        own: Verdict<Dimension>,
    ) -> Verdict<Dimension> {
        let arrival = if self.is_clear(direction.other()) { arrival } else { Arrival::Queued };
        let turn = self.turn(now, direction);
        let Some(rw_limit) = &mut self.rw_limit else { return own };
        let both = rw_limit.limiter.check(now, cost, arrival).by(Dimension::rw);
        both.later_of(own).later_of(turn)
    }

    /// The same for any head, where the answer is the same for all.
    pub(crate) fn check_any_rw(
        &self,
        now: Instant,
        direction: Direction,
        own: Verdict<Dimension>,
    ) -> Option<Verdict<Dimension>> {
        let Some(rw_limit) = &self.rw_limit else { return Some(own) };
        let both = rw_limit.limiter.check_any(now)?.by(Dimension::rw);
        Some(both.later_of(own).later_of(self.turn(now, direction)))
    }

    /// Whether it is the turn of `direction`: not while the other one goes first and waits until it can. Where small requests
    /// conform before large ones do, they would keep those out for ever.
    fn turn(&self, now: Instant, direction: Direction) -> Verdict<Dimension> {
        let other = direction.other();
        let is_others = self.rw_limit.as_ref().is_some_and(|rw_limit| rw_limit.first() == other);
        if !is_others || !self.waits_for_rw_limit(other) {
            return Verdict::Go;
        }
        let dir = self.dir(other);
        match dir.timer.fires_at().filter(|&until| until > now) {
            Some(until) => Verdict::Wait { until, throttled_by: dir.throttled_by },
            None => Verdict::Go,
        }
    }

    /// How long `cost` takes at the limits of `direction`, in nanoseconds: by whichever takes longest.
    pub(crate) fn time_of(&self, direction: Direction, cost: Cost) -> u64 {
        let own = self.limit(direction).time_of(cost);
        match &self.rw_limit {
            None => own,
            Some(rw_limit) => own.max(rw_limit.limiter.time_of(cost)),
        }
    }
}

impl Core {
    /// Books a request of `direction` that had waited at `cgroup`, which has a limit on both.
    pub(crate) fn account_rw_dispatch(&mut self, cgroup: u32, direction: Direction, cost: Cost) {
        let node = &mut self.tree.cgroups[cgroup];
        let waits = node.waits_for_rw_limit(direction.other());
        let weight = node.queue(direction).map_or(0, |queue| queue.fair_queue.weight());
        if let Some(rw_limit) = &mut node.rw_limit {
            rw_limit.charge_turn(direction, cost, weight, waits);
        }
    }

    /// As [`Core::update_eligibility`] for a cgroup with a limit on both directions while the other one waits: what may go, goes by
    /// turns.
    pub(crate) fn update_rw(
        &mut self,
        now: Instant,
        cgroup: u32,
        direction: Direction,
        arrival: Arrival,
    ) {
        let is_topmost = |direction| self.tree.parent_limit(cgroup, direction) == NO_CGROUP;
        if Direction::BOTH.into_iter().all(is_topmost) {
            self.drain_rw(now, cgroup, direction, arrival);
            return;
        }
        // Each is activated above if it is eligible and goes if it can; the first one has then had its chance at what there is.
        let first = self.first_of_rw(cgroup);
        for turn in [first, first.other()] {
            let arrival = if turn == direction { arrival } else { Arrival::Queued };
            if let Some((parent, arrival)) = self.update_one(now, cgroup, turn, arrival) {
                self.update_eligibility(now, parent, turn, arrival);
            }
        }
    }

    /// Lets go whatever may go from `cgroup`, which no limit is above, and of each two requests of different directions the
    /// one first whose turn it is; sets the deadlines of the rest.
    fn drain_rw(&mut self, now: Instant, cgroup: u32, direction: Direction, mut arrival: Arrival) {
        Direction::BOTH.iter().for_each(|&direction| self.drain_to_parent(cgroup, direction));
        loop {
            let first = self.first_of_rw(cgroup);
            let ready = [first, first.other()].into_iter().find(|&turn| {
                let arrival = if turn == direction { arrival } else { Arrival::Queued };
                self.is_eligible(now, cgroup, turn, arrival)
            });
            let Some(ready) = ready else { return };
            if ready == direction {
                arrival = Arrival::Queued;
            }
            if let Some(index) = self.dequeue(now, cgroup, ready) {
                self.throttled -= 1;
                self.pass(index);
            }
        }
    }

    fn first_of_rw(&self, cgroup: u32) -> Direction {
        self.tree.cgroups[cgroup]
            .rw_limit
            .as_ref()
            .map_or(Direction::Read, |rw_limit| rw_limit.first())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Resource;
    use crate::throttle::limiter::Rate;

    fn rw_limit() -> RwLimit {
        let rate = Rate { per_second: 1000, burst: 1, peak: None, quantum: 1 };
        let rates = Rates { bps: None, iops: Some(rate) };
        RwLimit::new(Instant::ZERO, LimiterKind::Pace, rates)
    }

    /// Who goes, of `rounds`, where both always wait: costs and weights of reads, then writes.
    fn shares(costs: [u64; 2], weights: [u64; 2], rounds: usize) -> [usize; 2] {
        let mut rw_limit = rw_limit();
        let mut went = [0; 2];
        for _ in 0..rounds {
            let first = rw_limit.first();
            let d = first.index();
            rw_limit.charge_turn(first, Cost::whole(0, costs[d]), weights[d], true);
            went[d] += 1;
        }
        went
    }

    #[test]
    fn both_get_the_same_time_for_the_same_weight() {
        assert_eq!(shares([1, 1], [100, 100], 100), [50, 50]);
        assert_eq!(shares([4, 1], [100, 100], 100), [20, 80]);
        assert_eq!(shares([1, 1], [100, 900], 100), [10, 90]);
    }

    #[test]
    fn who_did_not_wait_has_no_claim() {
        use Direction::{Read, Write};
        let mut rw_limit = rw_limit();
        for _ in 0..1000 {
            rw_limit.charge_turn(Read, Cost::whole(0, 1), 100, false);
        }
        let mut went = alloc::vec::Vec::new();
        for _ in 0..4 {
            let first = rw_limit.first();
            rw_limit.charge_turn(first, Cost::whole(0, 1), 100, true);
            went.push(first);
        }
        assert_eq!(went, [Write, Read, Write, Read]);
    }

    #[test]
    fn the_longest_request_does_not_overflow() {
        let mut rw_limit = rw_limit();
        for _ in 0..4 {
            rw_limit.charge_turn(Direction::Write, Cost::whole(0, u64::MAX), 1, true);
        }
        assert_eq!(rw_limit.first(), Direction::Read);
        assert_eq!(rw_limit.limiter().credit_left(Instant::ZERO, Resource::Ios), Some(1));
    }
}
