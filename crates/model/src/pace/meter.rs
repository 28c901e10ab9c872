//! One limit: a level that charges raise and time lowers.

use super::Nanos;

/// Which promises hold a cgroup's limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Limiter {
    /// Even spacing after a burst, to the nanosecond.
    #[default]
    Pace,
    /// Another limiter, of which only the window bound is promised: rate x time plus this much and the largest
    /// request.
    Bounded {
        /// Bytes.
        bytes: u64,
        /// I/Os, in the unit of the limit.
        ios: u64,
    },
}

/// One limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Units a second, at least 1.
    pub per_second: u64,
    /// How far above zero the level may be for a request to go: the burst for bytes, the burst less one I/O for I/Os.
    pub tolerance: u64,
    /// The rate inside a burst, if there is one.
    pub peak: Option<Peak>,
}

/// A limit on how fast a burst may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peak {
    /// Units a second.
    pub per_second: u64,
    /// As [`Rate::tolerance`].
    pub tolerance: u64,
}

/// The limits of one cgroup in one direction, or in both together; `None` is unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rates {
    /// Bytes.
    pub bytes: Option<Rate>,
    /// I/Os.
    pub ios: Option<Rate>,
    /// How they are enforced.
    pub limiter: Limiter,
}

impl Rate {
    /// A byte limit, which passes a request while less than `burst` bytes (or exactly so many) are owed.
    pub fn bytes(per_second: u64, burst: u64) -> Rate {
        Rate { per_second, tolerance: burst, peak: None }
    }

    /// An I/O limit, which passes `burst` requests of one I/O (of `io` units) at once.
    pub fn ios(per_second: u64, burst: u64, io: u64) -> Rate {
        Rate { per_second, tolerance: burst - io, peak: None }
    }
}

impl Rates {
    /// Whether there is neither.
    pub fn is_unlimited(&self) -> bool {
        self.bytes.is_none() && self.ios.is_none()
    }

    /// The time a request takes of these limits, in picoseconds: the longer of the two.
    pub(super) fn time(&self, bytes: u64, ios: u64) -> i128 {
        let time = |rate: Option<Rate>, amount: u64| {
            rate.map_or(0, |rate| {
                i128::from(amount) * 1_000_000_000_000 / i128::from(rate.per_second)
            })
        };
        time(self.bytes, bytes).max(time(self.ios, ios))
    }
}

/// The level of one limit, in units x nanoseconds: a charge of one unit raises it by 10^9, each nanosecond lowers it by
/// the rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    level: i128,
    at: Nanos,
}

const SECOND: i128 = 1_000_000_000;

impl Meter {
    fn level(&self, per_second: u64, now: Nanos) -> i128 {
        (self.level - i128::from(per_second) * i128::from(now - self.at)).max(0)
    }

    pub(super) fn charge(&mut self, per_second: u64, tolerance: u64, now: Nanos, amount: u64) {
        let rate = i128::from(per_second);
        let unbounded = self.level - rate * i128::from(now - self.at);
        // Without a tolerance a request waits for the level to be zero, which mostly is so between two nanoseconds. It
        // goes at the later one; that it could not go earlier must not cost it anything.
        let rounded_up = i128::from(tolerance) * SECOND < rate && -rate < unbounded;
        let level = if rounded_up { unbounded } else { unbounded.max(0) };
        self.level = level + i128::from(amount) * SECOND;
        self.at = now;
    }

    /// The first instant, not before `now`, at which the level is not above `tolerance`.
    pub(super) fn ready_at(&self, per_second: u64, tolerance: u64, now: Nanos) -> Nanos {
        let above = self.level(per_second, now) - i128::from(tolerance) * SECOND;
        if above <= 0 {
            return now;
        }
        let wait = (above + i128::from(per_second) - 1) / i128::from(per_second);
        Nanos::try_from(i128::from(now) + wait).unwrap_or(Nanos::MAX)
    }
}

/// The levels of one cgroup in one direction, or in both together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meters {
    pub(super) rates: Rates,
    bytes: [Meter; 2],
    ios: [Meter; 2],
}

impl Meters {
    /// The first instant, not before `now`, at which a request that pays bytes and I/Os may go.
    pub(super) fn ready_at(&self, now: Nanos) -> Nanos {
        self.ready_for(now, 1, 1)
    }

    /// The same for a request of `bytes` and `ios`: what it does not pay, it does not wait for.
    pub(super) fn ready_for(&self, now: Nanos, bytes: u64, ios: u64) -> Nanos {
        let ready = |rate: Option<Rate>, meters: &[Meter; 2]| {
            let Some(rate) = rate else { return now };
            let long_run = meters[0].ready_at(rate.per_second, rate.tolerance, now);
            rate.peak.map_or(long_run, |peak| {
                long_run.max(meters[1].ready_at(peak.per_second, peak.tolerance, now))
            })
        };
        let bytes = if bytes > 0 { ready(self.rates.bytes, &self.bytes) } else { now };
        let ios = if ios > 0 { ready(self.rates.ios, &self.ios) } else { now };
        bytes.max(ios)
    }

    pub(super) fn charge(&mut self, now: Nanos, bytes: u64, ios: u64) {
        let charge = |rate: Option<Rate>, meters: &mut [Meter; 2], amount: u64| {
            let Some(rate) = rate else { return };
            meters[0].charge(rate.per_second, rate.tolerance, now, amount);
            if let Some(peak) = rate.peak {
                meters[1].charge(peak.per_second, peak.tolerance, now, amount);
            }
        };
        charge(self.rates.bytes, &mut self.bytes, bytes);
        charge(self.rates.ios, &mut self.ios, ios);
    }

    /// What is owed stays owed, and falls at the new rate from now on; a limit that goes takes its level along.
    pub(super) fn change(&mut self, now: Nanos, rates: Rates) {
        let change = |old: Option<Rate>, new: Option<Rate>, meters: &mut [Meter; 2]| {
            let settle = |meter: &Meter, old: Option<u64>, new: Option<u64>| match (old, new) {
                (Some(old), Some(_)) => Meter { level: meter.level(old, now), at: now },
                _ => Meter { level: 0, at: now },
            };
            meters[0] = settle(&meters[0], old.map(|r| r.per_second), new.map(|r| r.per_second));
            let peak = |rate: Option<Rate>| Some(rate?.peak?.per_second);
            meters[1] = settle(&meters[1], peak(old), peak(new));
        };
        if self.rates.limiter != rates.limiter {
            // Another limiter starts afresh.
            self.rates = Rates::default();
        }
        change(self.rates.bytes, rates.bytes, &mut self.bytes);
        change(self.rates.ios, rates.ios, &mut self.ios);
        self.rates = rates;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_falls_at_its_rate_and_never_below_zero() {
        let mut meter = Meter::default();
        meter.charge(100, 0, 0, 1);
        assert_eq!(meter.ready_at(100, 0, 0), 10_000_000);
        assert_eq!(meter.ready_at(100, 1, 0), 0);
        meter.charge(100, 0, 50_000_000, 1);
        assert_eq!(meter.ready_at(100, 0, 50_000_000), 60_000_000);
    }

    #[test]
    fn an_instant_between_nanoseconds_is_rounded_up() {
        let mut meter = Meter::default();
        meter.charge(3, 0, 0, 1);
        assert_eq!(meter.ready_at(3, 0, 0), 333_333_334);
        meter.charge(3, 0, 333_333_334, 1);
        // The third of a second is not lost: the second request could have gone two thirds of a nanosecond earlier.
        assert_eq!(meter.ready_at(3, 0, 333_333_334), 666_666_667);
    }

    #[test]
    fn a_debt_survives_a_change_of_the_rate() {
        let rates =
            |per_second| Rates { bytes: Some(Rate::bytes(per_second, 0)), ..Rates::default() };
        let mut meters = Meters::default();
        meters.change(0, rates(1000));
        meters.charge(0, 1000, 1);
        // After half a second 500 bytes are owed, which take a second at 500 a second.
        meters.change(500_000_000, rates(500));
        assert_eq!(meters.ready_at(500_000_000), 1_500_000_000);
    }
}
