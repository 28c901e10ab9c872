//! One limit: a level that charges raise and time lowers.

use super::Nanos;

/// Promises that apply to a cgroup's limits.
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
    /// How far above zero the level may be for a request to pay.
    pub tolerance: u64,
    /// How much may go at once.
    pub burst: u64,
    /// The most that a request pays at once.
    pub instalment: u64,
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
    /// Whether everything below pays at once, not in instalments.
    pub whole: bool,
}

impl Rate {
    /// A byte limit, which passes what is no larger than an `instalment` so that no more than `burst` bytes go at once.
    pub fn bytes(per_second: u64, burst: u64, instalment: u64) -> Rate {
        Rate::new(per_second, burst, instalment)
    }

    /// An I/O limit, which passes `burst` requests of one I/O (of `io` units) at once.
    pub fn ios(per_second: u64, burst: u64, io: u64) -> Rate {
        Rate::new(per_second, burst, io)
    }

    fn new(per_second: u64, burst: u64, instalment: u64) -> Rate {
        let tolerance = burst.saturating_sub(instalment);
        Rate { per_second, tolerance, burst, instalment, peak: None }
    }

    /// For how long before now an instalment of a request that owes `owed` may use what was not used, in ns: for as long as
    /// the request takes, or 100 ms if that is less, but for what the burst stands for.
    fn saved_ns(&self, owed: u64) -> i128 {
        let time = |amount: u64| i128::from(amount) * SECOND / i128::from(self.per_second);
        (time(owed).min(SECOND / 10) - time(self.burst)).max(0)
    }

    /// By how much that may exceed the burst, in units.
    pub(super) fn saved(&self, owed: u64) -> u64 {
        let saved = self.saved_ns(owed) * i128::from(self.per_second);
        u64::try_from((saved + SECOND - 1) / SECOND).unwrap_or(u64::MAX)
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
    /// What it may be instead: which of those that paid at one instant paid first, and so whether what was saved was used, is
    /// not recorded.
    most: i128,
    at: Nanos,
}

const SECOND: i128 = 1_000_000_000;

impl Meter {
    fn level(&self, per_second: u64, now: Nanos) -> i128 {
        (self.level - i128::from(per_second) * i128::from(now - self.at)).max(0)
    }

    fn most(&self, per_second: u64, now: Nanos) -> i128 {
        (self.most - i128::from(per_second) * i128::from(now - self.at)).max(0)
    }

    /// Time goes on to `now`, when something is paid. The level falls no lower than zero, or than what `saved_ns` before now
    /// allow, at most.
    pub(super) fn settle(&mut self, per_second: u64, tolerance: u64, now: Nanos, saved_ns: i128) {
        let rate = i128::from(per_second);
        let elapsed = i128::from(now - self.at);
        let settled = |level: i128, saved_ns: i128, is_certain: bool| {
            let unbounded = level - rate * elapsed;
            let least = -rate * saved_ns.min(i128::from(now));
            // Without a tolerance a request waits for the level to be zero, which mostly is so between two nanoseconds.
            // It goes at the later one; that it could not go earlier must not cost it anything.
            let has_tolerance = i128::from(tolerance) * SECOND >= rate;
            match (has_tolerance, is_certain) {
                (true, _) => unbounded.max(least),
                (false, true) if least - rate < unbounded => unbounded,
                (false, true) => least,
                // The request may have waited.
                (false, false) => unbounded.max(least - rate + 1),
            }
        };
        let is_certain = self.level == self.most;
        let level = settled(self.level, saved_ns, is_certain);
        (self.level, self.most) = (level, settled(self.most, 0, true));
        self.at = now;
    }

    /// `amount` is paid at the instant to which it was settled.
    fn add(&mut self, amount: u64) {
        self.level += i128::from(amount) * SECOND;
        self.most += i128::from(amount) * SECOND;
    }

    /// Both at once, where it is known that nothing else was paid before at the instant, or in which order.
    fn charge(&mut self, per_second: u64, tolerance: u64, now: Nanos, amount: u64, saved_ns: i128) {
        self.settle(per_second, tolerance, now, saved_ns);
        self.add(amount);
        self.most = self.level;
    }

    /// The first instant, not before `now`, at which the level may be as low as `tolerance`.
    fn ready_at(&self, per_second: u64, tolerance: u64, now: Nanos) -> Nanos {
        Meter::falls_to(self.level(per_second, now), per_second, tolerance, now)
    }

    /// The first instant, not before `now`, at which it is as low for sure.
    fn surely_ready_at(&self, per_second: u64, tolerance: u64, now: Nanos) -> Nanos {
        Meter::falls_to(self.most(per_second, now), per_second, tolerance, now)
    }

    fn falls_to(level: i128, per_second: u64, tolerance: u64, now: Nanos) -> Nanos {
        let above = level - i128::from(tolerance) * SECOND;
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
    /// The first instant, not before `now`, at which a request that pays bytes and I/Os may go for sure.
    pub(super) fn ready_at(&self, now: Nanos) -> Nanos {
        self.ready(now, (1, 1), Meter::surely_ready_at)
    }

    /// The same for a request of `bytes` and `ios`, if it may be so early: what it does not pay, it does not wait for.
    pub(super) fn ready_for(&self, now: Nanos, bytes: u64, ios: u64) -> Nanos {
        self.ready(now, (bytes, ios), Meter::ready_at)
    }

    /// By how much what pays in instalments may be early: where one takes less than a nanosecond, which of several of the
    /// same instant waited for the next one depends on their order.
    pub(super) fn rounding_ns(&self) -> Nanos {
        let is_short =
            |rate: Rate| i128::from(rate.instalment) * SECOND < i128::from(rate.per_second);
        Nanos::from([self.rates.bytes, self.rates.ios].into_iter().flatten().any(is_short))
    }

    /// Whether it is known when a request may go.
    pub(super) fn is_certain(&self, now: Nanos) -> bool {
        let is_certain = |rate: Option<Rate>, meter: &Meter| {
            rate.is_none_or(|rate| {
                meter.level(rate.per_second, now) == meter.most(rate.per_second, now)
            })
        };
        is_certain(self.rates.bytes, &self.bytes[0]) && is_certain(self.rates.ios, &self.ios[0])
    }

    fn ready(
        &self,
        now: Nanos,
        (bytes, ios): (u64, u64),
        ready_at: impl Fn(&Meter, u64, u64, Nanos) -> Nanos,
    ) -> Nanos {
        let ready = |rate: Option<Rate>, meters: &[Meter; 2]| {
            let Some(rate) = rate else { return now };
            let long_run = ready_at(&meters[0], rate.per_second, rate.tolerance, now);
            rate.peak.map_or(long_run, |peak| {
                long_run.max(ready_at(&meters[1], peak.per_second, peak.tolerance, now))
            })
        };
        let bytes = if bytes > 0 { ready(self.rates.bytes, &self.bytes) } else { now };
        let ios = if ios > 0 { ready(self.rates.ios, &self.ios) } else { now };
        bytes.max(ios)
    }

    /// All that is paid at `now` is paid by requests of which those owe this much that pay bytes, or I/Os, in instalments.
    pub(super) fn settle(&mut self, now: Nanos, owed: [Option<u64>; 2]) {
        let settle = |rate: Option<Rate>, meters: &mut [Meter; 2], owed: Option<u64>| {
            let (Some(rate), Some(owed)) = (rate, owed) else { return };
            meters[0].settle(rate.per_second, rate.tolerance, now, rate.saved_ns(owed));
            if let Some(peak) = rate.peak {
                meters[1].settle(peak.per_second, peak.tolerance, now, 0);
            }
        };
        settle(self.rates.bytes, &mut self.bytes, owed[0]);
        settle(self.rates.ios, &mut self.ios, owed[1]);
    }

    /// `bytes` and `ios` are paid at the instant to which it was settled.
    pub(super) fn add(&mut self, (bytes, ios): (u64, u64)) {
        self.bytes.iter_mut().for_each(|meter| meter.add(bytes));
        self.ios.iter_mut().for_each(|meter| meter.add(ios));
    }

    /// Charges `bytes` and `ios`, an instalment of what was `owed` where there is such a thing.
    pub(super) fn charge(
        &mut self,
        now: Nanos,
        (bytes, ios): (u64, u64),
        owed: Option<(u64, u64)>,
    ) {
        let charge = |rate: Option<Rate>, meters: &mut [Meter; 2], amount: u64, owed: u64| {
            let Some(rate) = rate else { return };
            if amount > 0 || owed == 0 {
                let saved_ns = rate.saved_ns(owed);
                meters[0].charge(rate.per_second, rate.tolerance, now, amount, saved_ns);
            }
            if let Some(peak) = rate.peak {
                meters[1].charge(peak.per_second, peak.tolerance, now, amount, 0);
            }
        };
        let owed = owed.unwrap_or((0, 0));
        charge(self.rates.bytes, &mut self.bytes, bytes, owed.0);
        charge(self.rates.ios, &mut self.ios, ios, owed.1);
    }

    /// What is owed stays owed, and falls at the new rate from now on; a limit that goes takes its level along.
    pub(super) fn change(&mut self, now: Nanos, rates: Rates) {
        let change = |old: Option<Rate>, new: Option<Rate>, meters: &mut [Meter; 2]| {
            let settle = |meter: &Meter, old: Option<u64>, new: Option<u64>| match (old, new) {
                (Some(old), Some(_)) => {
                    let (level, most) = (meter.level(old, now), meter.most(old, now));
                    Meter { level, most, at: now }
                }
                _ => Meter { level: 0, most: 0, at: now },
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
        meter.charge(100, 0, 0, 1, 0);
        assert_eq!(meter.ready_at(100, 0, 0), 10_000_000);
        assert_eq!(meter.ready_at(100, 1, 0), 0);
        meter.charge(100, 0, 50_000_000, 1, 0);
        assert_eq!(meter.ready_at(100, 0, 50_000_000), 60_000_000);
    }

    #[test]
    fn an_instant_between_nanoseconds_is_rounded_up() {
        let mut meter = Meter::default();
        meter.charge(3, 0, 0, 1, 0);
        assert_eq!(meter.ready_at(3, 0, 0), 333_333_334);
        meter.charge(3, 0, 333_333_334, 1, 0);
        // The third of a second is not lost: the second request could have gone two thirds of a nanosecond earlier.
        assert_eq!(meter.ready_at(3, 0, 333_333_334), 666_666_667);
    }

    #[test]
    fn a_debt_survives_a_change_of_the_rate() {
        let rates = |per_second| Rates {
            bytes: Some(Rate::bytes(per_second, 0, 4096)),
            ..Rates::default()
        };
        let mut meters = Meters::default();
        meters.change(0, rates(1000));
        meters.charge(0, (1000, 1), None);
        // After half a second 500 bytes are owed, which take a second at 500 a second.
        meters.change(500_000_000, rates(500));
        assert_eq!(meters.ready_at(500_000_000), 1_500_000_000);
    }
}
