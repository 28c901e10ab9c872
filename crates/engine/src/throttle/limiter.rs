//! Trait of the four limiters, and its arguments.

use core::num::NonZeroU64;

use crate::types::{Cost, Dimension, Direction, Instant, Limits, Resource};

/// One limit as a limiter sees it. All amounts are in the unit of [`Cost`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rate {
    /// Units per second, at least 1.
    pub(crate) per_second: u64,
    /// Units that may go at once after a pause, at least 1; the default is filled in already.
    pub(crate) burst: u64,
    /// Units per second inside a burst; more than `per_second`.
    pub(crate) peak: Option<u64>,
    /// The smallest amount that a conforming request may cost: 1 byte, or one I/O in units (`iops_size` or 1).
    pub(crate) quantum: u64,
}

impl Rate {
    /// Largest instalment.
    pub(crate) fn instalment(&self, resource: Resource) -> u64 {
        Limits::instalment(resource, self.per_second, self.burst, self.quantum)
    }
}

/// The limits of one cgroup in one direction, or in both together; `None` is unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) bps: Option<Rate>,
    pub(crate) iops: Option<Rate>,
}

impl Rates {
    pub(crate) fn is_unlimited(&self) -> bool {
        self.bps.is_none() && self.iops.is_none()
    }
}

impl Limits {
    /// The limits of `direction` alone as its limiter sees them, with bursts filled in. `units_per_io` is what one I/O
    /// costs: `iops_size`, or 1 where there is none.
    pub(crate) fn rates(&self, direction: Direction, units_per_io: u64) -> Rates {
        self.rates_in(units_per_io, |resource| Dimension::of(direction, resource))
    }

    /// The limits of both directions together.
    pub(crate) fn rw_rates(&self, units_per_io: u64) -> Rates {
        self.rates_in(units_per_io, Dimension::rw)
    }

    fn rates_in(&self, units_per_io: u64, dimension: impl Fn(Resource) -> Dimension) -> Rates {
        Rates {
            bps: self.rate(dimension(Resource::Bytes), 1),
            iops: self.rate(dimension(Resource::Ios), units_per_io),
        }
    }

    fn rate(&self, dimension: Dimension, unit: u64) -> Option<Rate> {
        let in_units = |value: NonZeroU64| value.get().saturating_mul(unit);
        let per_second = in_units(self.max.get(dimension)?);
        let burst = self.burst.get(dimension).map(in_units);
        let default = Limits::default_burst(dimension.resource(), per_second, unit);
        Some(Rate {
            per_second,
            burst: burst.unwrap_or(default),
            peak: self.peak.get(dimension).map(in_units),
            quantum: unit,
        })
    }
}

/// Arrival of the head that a limiter judges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// The head has just arrived and nothing waits in this direction of this cgroup.
    Fresh,
    /// The head has been waiting, or came up behind one that was.
    Queued,
}

/// Answer of a limiter about the head of a queue. Its cause is a resource, or the dimension of a cgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict<Cause = Resource> {
    /// It conforms now.
    Go,
    /// Not before `until`, which is after `now`.
    Wait { until: Instant, throttled_by: Cause },
}

impl Verdict<Dimension> {
    /// The later of two, this one if they are equal.
    pub(crate) fn later_of(self, other: Verdict<Dimension>) -> Verdict<Dimension> {
        match (self, other) {
            (Verdict::Wait { until: own, .. }, Verdict::Wait { until, .. }) if until > own => other,
            (Verdict::Go, _) => other,
            _ => self,
        }
    }
}

/// Limiter of one cgroup in one direction, or in both together.
///
/// Contract, kept by the throttle: `check` is called for the head of the queue when it arrives, when it comes up, and
/// when the instant last answered has come. More or later calls never make a request go earlier. Except for slices, a
/// `cost` is at most one instalment. `charge` follows a `Go` at the same instant and cost. `charge_debt` follows a
/// `Wait`, or no `check` where others wait: metadata overtakes, and leaves a debt.
pub(crate) trait Limiter {
    /// Rates of bytes and of I/Os, in units per second; `None` is unlimited.
    fn per_second(&self) -> [Option<NonZeroU64>; 2];

    /// Whether a head of `cost` may go at `now`.
    fn check(&mut self, now: Instant, cost: Cost, arrival: Arrival) -> Verdict;

    /// Charges `cost` at `now`.
    fn charge(&mut self, now: Instant, cost: Cost);

    /// Charges at `now` an instalment of `cost`, of a request that had `owed` to pay. It may use what a limiter with a
    /// burst saved within [`Limits::INSTALMENT_SAVINGS_NANOS`].
    fn charge_instalment(&mut self, now: Instant, cost: Cost, owed: Cost) {
        let _ = owed;
        self.charge(now, cost);
    }

    /// Charges `cost` as debt (metadata). `arrival` is [`Arrival::Fresh`] where nothing waits and a check has just
    /// refused it.
    fn charge_debt(&mut self, now: Instant, cost: Cost, arrival: Arrival) {
        let _ = arrival;
        self.charge(now, cost);
    }

    /// Replaces the rates at `now`, keeping credit and debt as the limiter defines it. `queued`: requests wait in this
    /// direction.
    fn set_rates(&mut self, now: Instant, rates: Rates, queued: bool);

    /// Reduces debt at `now` to one burst: the limit did not bind.
    fn forgive(&mut self, now: Instant);

    /// Rebases times: the new clock shows `after` when the old one shows `before`. Credit and debt stay.
    fn shift(&mut self, before: Instant, after: Instant);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::PerDimension;

    fn rates(max: PerDimension, burst: PerDimension, units_per_io: u64) -> Rates {
        let peak = PerDimension::NONE.with(Dimension::Wiops, 3000);
        let limits = Limits { max, burst, peak, ..Limits::default() };
        limits.rates(Direction::Write, units_per_io)
    }

    #[test]
    fn a_burst_that_nobody_asked_for_is_four_requests_or_an_instalment_and_ten_milliseconds() {
        let slow = PerDimension::NONE.with(Dimension::Wbps, 1 << 20).with(Dimension::Wiops, 100);
        let Rates { bps: Some(bps), iops: Some(iops) } = rates(slow, PerDimension::NONE, 1) else {
            panic!("both are limited")
        };
        assert_eq!((bps.burst, iops.burst), (16_384, 4));
        let fast = PerDimension::NONE.with(Dimension::Wbps, 1 << 30).with(Dimension::Wiops, 5000);
        let Rates { bps: Some(bps), iops: Some(iops) } = rates(fast, PerDimension::NONE, 1) else {
            panic!("both are limited")
        };
        assert_eq!((bps.burst, iops.burst), ((1 << 30) / 1000 + 10_737_418, 50));
        let least = PerDimension::NONE.with(Dimension::Wbps, 4096).with(Dimension::Wiops, 5);
        let Rates { bps: Some(bps), iops: Some(iops) } = rates(least, PerDimension::NONE, 1) else {
            panic!("both are limited")
        };
        assert_eq!((bps.burst, iops.burst), (4136, 2), "half a second, but a request at least");
    }

    #[test]
    fn an_instalment_is_five_milliseconds_of_bytes_within_bounds() {
        let of = |per_second, burst| Limits::instalment(Resource::Bytes, per_second, burst, 1);
        assert_eq!(of(1, u64::MAX), 4096);
        assert_eq!(of(50 << 20, u64::MAX), (50 << 20) / 200);
        assert_eq!(of(1 << 29, u64::MAX), 1 << 20, "a mebibyte at most");
        assert_eq!(of(10 << 30, u64::MAX), (10 << 30) / 1000, "but a millisecond at least");
        assert_eq!(of(50 << 20, 100_000), 50_000, "and half of a small burst");
        assert_eq!(of(50 << 20, 512), 4096);
    }

    #[test]
    fn an_instalment_is_one_io_unless_large_requests_count_by_size() {
        let of = |per_second, units| Limits::instalment(Resource::Ios, per_second, u64::MAX, units);
        assert_eq!(of(1_000_000, 1), 1);
        assert_eq!(of(100 * 4096, 4096), 4096);
        assert_eq!(of(10_000 * 4096, 4096), 10 * 4096, "a millisecond");
    }

    #[test]
    fn ios_are_counted_in_units_where_large_ones_count_by_size() {
        let max = PerDimension::NONE.with(Dimension::Wiops, 100);
        let burst = PerDimension::NONE.with(Dimension::Wiops, 10);
        let default =
            Rate { per_second: 409_600, burst: 16_384, peak: Some(12_288_000), quantum: 4096 };
        assert_eq!(rates(max, PerDimension::NONE, 4096), Rates { bps: None, iops: Some(default) });
        let asked = Rate { burst: 40_960, ..default };
        assert_eq!(rates(max, burst, 4096), Rates { bps: None, iops: Some(asked) });
    }

    #[test]
    fn directions_are_apart() {
        let max = PerDimension::NONE.with(Dimension::Rbps, 100);
        assert!(rates(max, PerDimension::NONE, 1).is_unlimited());
    }
}
