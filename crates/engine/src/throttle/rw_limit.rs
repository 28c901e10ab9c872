//! Limit on reads and writes together, and its division between the two.
//!
//! Reads and writes of a cgroup wait apart, each in their own order, and each may have limits of their own. What they
//! have in common is one more limiter, which both are asked about and charged to. While both wait for it they are two
//! sources of it, shared as others are ([`super::fair_queue`]): by the time of it that they have had, over the sum of the
//! weights of those that wait in them. So a client counts as much against one of the other direction as against one of
//! its own, neither direction can keep the other out, and what one does not use is the other's.

use core::cmp::Ordering;

use crate::throttle::fair_queue::vtime_of;
use crate::throttle::limiter::Rates;
use crate::throttle::rate_limiter::RateLimiter;
use crate::types::{Cost, Direction, Instant, LimiterKind};

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

    /// The direction that goes first if both may: the one that had less, and reads if both had the same.
    pub(super) fn first(&self) -> Direction {
        match self.reads_ahead.cmp(&0) {
            Ordering::Greater => Direction::Write,
            Ordering::Less | Ordering::Equal => Direction::Read,
        }
    }

    /// Books a request of `cost` in `direction`, where sources of `weight` in all wait. If nothing of the other direction
    /// `waits` for this limit, it has no claim to what it has had less.
    pub(super) fn charge_turn(
        &mut self,
        direction: Direction,
        cost: Cost,
        weight: u64,
        waits: bool,
    ) {
        let sign = if direction == Direction::Read { 1 } else { -1 };
        let ahead = sign * self.reads_ahead;
        let ahead = if waits { ahead } else { ahead.min(0) };
        let time = i64::try_from(vtime_of(self.limiter.time_of(cost), weight.max(1)));
        // Far from where it would overflow, which is nine years of the limit's time.
        self.reads_ahead = sign * ahead.saturating_add(time.unwrap_or(AHEAD_MAX)).min(AHEAD_MAX);
    }
}

const AHEAD_MAX: i64 = 1 << 62;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throttle::limiter::Rate;
    use crate::types::Resource;

    fn rw_limit() -> RwLimit {
        let rate = Rate { per_second: 1000, burst: 1, peak: None, quantum: 1 };
        let rates = Rates { bps: None, iops: Some(rate) };
        RwLimit::new(Instant::ZERO, LimiterKind::Pace, rates)
    }

    /// Requests served of each direction in `rounds`, where both always wait: costs and weights of reads, then writes.
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
