//! The generic cell rate algorithm: one instant and one tolerance stand for a whole bucket.

use core::num::NonZeroU64;

use crate::throttle::limiter::Rate;
use crate::types::{Instant, Resource};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// One rate with a burst, kept as a theoretical arrival time (TAT).
///
/// The TAT is the instant at which everything charged so far is paid: each charge of `n` moves it `n / rate` on,
/// starting from now if it has passed. An amount of at most one instalment conforms when the TAT is at most `tau` ahead,
/// whatever its size. `tau` is the burst less one instalment, so that no more than the burst goes at once.
/// Both times are whole nanoseconds and a rest counted in `1 / rate` ns, so nothing is lost by rounding and the
/// long-run rate is exact. A check is one comparison, a charge one division.
///
/// A timer that comes late by less than `tau` costs nothing, because the TAT does not wait for it; with a burst of
/// one request every late timer lowers the rate.
///
/// In any window `w` at most `rate * w + burst` conforms, and one instalment where the burst is smaller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gcra {
    rate: NonZeroU64,
    tat: Exact,
    tau: Exact,
}

/// `nanos + rest / rate` nanoseconds, with `rest < rate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Exact {
    nanos: u64,
    rest: u64,
}

impl Exact {
    /// The time in which `amount` is earned at `rate`, and `rest` of an earlier division; saturates at 2^64 ns.
    fn of(amount: u64, rest: u64, rate: NonZeroU64) -> Exact {
        match amount.checked_mul(NANOS_PER_SEC).and_then(|units| units.checked_add(rest)) {
            Some(units) => Exact { nanos: units / rate, rest: units % rate },
            None => {
                Exact::wide(u128::from(amount) * u128::from(NANOS_PER_SEC) + u128::from(rest), rate)
            }
        }
    }

    fn wide(units: u128, rate: NonZeroU64) -> Exact {
        let rate = u128::from(rate.get());
        match u64::try_from(units / rate) {
            // The rest is below `rate`, which is a u64.
            Ok(nanos) => Exact { nanos, rest: (units % rate) as u64 },
            Err(_) => Exact { nanos: u64::MAX, rest: 0 },
        }
    }
}

impl Gcra {
    /// In place of one that is not there.
    pub(crate) const NONE: Gcra = {
        let none = Exact { nanos: 0, rest: 0 };
        Gcra { rate: NonZeroU64::MIN, tat: none, tau: none }
    };

    /// A limiter that has been idle for ever: the whole burst is there.
    pub(crate) fn new(now: Instant, rate: &Rate, resource: Resource) -> Gcra {
        let paid = Exact { nanos: now.as_nanos(), rest: 0 };
        let tau = tolerance(rate, resource);
        Gcra { rate: per_second(rate), tat: paid, tau }
    }

    /// Units that a second is worth.
    pub(crate) fn per_second(&self) -> NonZeroU64 {
        self.rate
    }

    /// The first whole nanosecond at which the next request conforms; the past if it does already.
    pub(crate) fn ready_at(&self) -> Instant {
        match self.tat.nanos.checked_sub(self.tau.nanos) {
            Some(nanos) => {
                let round_up = self.tat.rest > self.tau.rest;
                Instant::from_nanos(nanos).plus_nanos(u64::from(round_up))
            }
            None => Instant::ZERO,
        }
    }

    /// Books `amount` as gone at `now`.
    pub(crate) fn charge(&mut self, now: Instant, amount: u64) {
        let late = now.as_nanos().saturating_sub(self.tat.nanos);
        // Instants are whole nanoseconds. A request that waited for the TAT itself, there being no tolerance,
        // could go no earlier than the next one, and the part of it that has passed is still its own.
        let rounded_up = late == 1 && self.tat.rest > 0 && self.tau.nanos == 0;
        if late > 0 && !rounded_up {
            self.tat = Exact { nanos: now.as_nanos(), rest: 0 };
        }
        let earned = Exact::of(amount, self.tat.rest, self.rate);
        self.tat = Exact { nanos: self.tat.nanos.saturating_add(earned.nanos), rest: earned.rest };
    }

    /// Books at `now` an instalment of `amount`, of a request that had `owed` to pay up to then: what nothing went in up to
    /// now is its to use, as far as the request takes, `savings_ns` last and the `burst` does not cover it.
    pub(crate) fn charge_instalment(
        &mut self,
        now: Instant,
        amount: u64,
        owed: u64,
        savings_ns: u64,
        burst: u64,
    ) {
        let of = |amount| Exact::of(amount, 0, self.rate).nanos;
        let saved_ns = of(owed).min(savings_ns).saturating_sub(of(burst));
        let from = now.as_nanos().saturating_sub(saved_ns).max(self.tat.nanos).min(now.as_nanos());
        self.charge(Instant::from_nanos(from), amount);
    }

    /// Replaces rate and burst at `now`. The amount owed stays, so what remains of it takes longer or shorter by
    /// old rate over new rate: with the same burst raising never delays and lowering never advances.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: &Rate, resource: Resource) {
        let ahead = Exact::wide(self.owed(now), per_second(rate));
        self.tat = Exact { nanos: now.as_nanos().saturating_add(ahead.nanos), rest: ahead.rest };
        self.rate = per_second(rate);
        self.tau = tolerance(rate, resource);
    }

    /// Forgives what is owed beyond one `burst`, which is the rate's.
    pub(crate) fn forgive(&mut self, now: Instant, burst: u64) {
        let most = Exact::of(burst, 0, self.rate);
        let most = Exact { nanos: now.as_nanos().saturating_add(most.nanos), ..most };
        if (self.tat.nanos, self.tat.rest) > (most.nanos, most.rest) {
            self.tat = most;
        }
    }

    /// Goes by another clock, which shows `after` when the old one shows `before`.
    pub(crate) fn shift(&mut self, before: Instant, after: Instant) {
        self.tat.nanos = Instant::from_nanos(self.tat.nanos).moved(before, after).as_nanos();
    }

    /// What is left of the rate's `burst` at `now`, in whole units; 0 while requests have to wait for their turn.
    pub(crate) fn credit(&self, now: Instant, burst: u64) -> u64 {
        let owed = self.owed(now).div_ceil(u128::from(NANOS_PER_SEC));
        burst.saturating_sub(u64::try_from(owed).unwrap_or(u64::MAX))
    }

    /// What is charged and not yet paid at `now`, in 1e-9 units.
    fn owed(&self, now: Instant) -> u128 {
        match self.tat.nanos.checked_sub(now.as_nanos()) {
            // (2^64 - 1)^2 + 2^64 - 1 still fits.
            Some(ahead) => {
                u128::from(ahead) * u128::from(self.rate.get()) + u128::from(self.tat.rest)
            }
            None => 0,
        }
    }
}

/// How far ahead of now the TAT of a conforming request may be.
fn tolerance(rate: &Rate, resource: Resource) -> Exact {
    // What goes is part of the burst.
    let amount = rate.burst.saturating_sub(rate.instalment(resource));
    Exact::of(amount, 0, per_second(rate))
}

fn per_second(rate: &Rate) -> NonZeroU64 {
    NonZeroU64::new(rate.per_second).expect("a rate is at least 1 a second")
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn ios(per_second: u64, burst: u64) -> Rate {
        Rate { per_second, burst, peak: None, quantum: 1 }
    }

    /// When each of `count` requests of `amount` goes, all waiting since 0.
    fn backlog(gcra: &mut Gcra, amount: u64, count: usize) -> Vec<u64> {
        let mut now = Instant::ZERO;
        (0..count)
            .map(|_| {
                now = now.max(gcra.ready_at());
                gcra.charge(now, amount);
                now.as_nanos()
            })
            .collect()
    }

    #[test]
    fn the_burst_goes_at_once_and_the_rest_evenly() {
        let mut gcra = Gcra::new(Instant::ZERO, &ios(100, 3), Resource::Ios);
        assert_eq!(backlog(&mut gcra, 1, 6), [0, 0, 0, 10_000_000, 20_000_000, 30_000_000]);
    }

    #[test]
    fn a_rate_that_does_not_divide_a_second_is_exact_after_seven_seconds() {
        // 1/7 s is 142,857,142.857... ns: each gap is rounded up on its own, their sum is not.
        let mut gcra = Gcra::new(Instant::ZERO, &ios(7, 1), Resource::Ios);
        let went = backlog(&mut gcra, 1, 50);
        assert_eq!(went[1], 142_857_143);
        assert_eq!(went[2], 285_714_286);
        assert_eq!(went[49], 7_000_000_000);
    }

    #[test]
    fn what_goes_next_goes_when_all_but_its_part_of_the_burst_is_paid() {
        let rate = Rate { per_second: 1000, burst: 4096 + 10, peak: None, quantum: 1 };
        let mut gcra = Gcra::new(Instant::ZERO, &rate, Resource::Bytes);
        // Each leaves 500 bytes of debt; the next goes when no more than 10 are owed, an instalment less than the burst.
        assert_eq!(backlog(&mut gcra, 500, 3), [0, 490_000_000, 990_000_000]);
    }

    #[test]
    fn what_is_left_of_the_burst_is_told() {
        let mut gcra = Gcra::new(Instant::ZERO, &ios(100, 10), Resource::Ios);
        assert_eq!(gcra.credit(Instant::ZERO, 10), 10);
        gcra.charge(Instant::ZERO, 4);
        assert_eq!(gcra.credit(Instant::ZERO, 10), 6);
        assert_eq!(gcra.credit(Instant::from_millis(19), 10), 7);
        assert_eq!(gcra.credit(Instant::from_millis(20), 10), 8);
        gcra.charge(Instant::from_millis(20), 100);
        assert_eq!(gcra.credit(Instant::from_millis(20), 10), 0);
        assert_eq!(gcra.credit(Instant::from_millis(20_000), 10), 10);
    }

    #[test]
    fn a_new_rate_pays_what_is_left_of_the_debt() {
        let mut gcra = Gcra::new(Instant::ZERO, &ios(10, 1), Resource::Ios);
        gcra.charge(Instant::ZERO, 4);
        assert_eq!(gcra.ready_at(), Instant::from_millis(400));
        // 3 of 4 are owed; at 30 a second they take 100 ms, at 1 a second 3 s.
        gcra.set_rate(Instant::from_millis(100), &ios(30, 1), Resource::Ios);
        assert_eq!(gcra.ready_at(), Instant::from_millis(200));
        gcra.set_rate(Instant::from_millis(100), &ios(1, 1), Resource::Ios);
        assert_eq!(gcra.ready_at(), Instant::from_millis(3100));
    }

    #[test]
    fn the_ends_of_the_range_saturate() {
        let slow = Rate { per_second: 1, burst: u64::MAX, peak: None, quantum: 1 };
        let mut gcra = Gcra::new(Instant::ZERO, &slow, Resource::Bytes);
        gcra.charge(Instant::ZERO, u64::MAX);
        assert_eq!(gcra.ready_at(), Instant::ZERO);
        gcra.set_rate(Instant::ZERO, &Rate { burst: 1, ..slow }, Resource::Bytes);
        assert!(gcra.ready_at() > Instant::from_nanos(1 << 63));
        let fast = Rate { per_second: u64::MAX - 1, burst: u64::MAX, peak: None, quantum: 1 };
        gcra.set_rate(Instant::from_nanos(1 << 63), &fast, Resource::Bytes);
        gcra.charge(Instant::from_nanos(1 << 63), u64::from(u32::MAX));
        assert!(gcra.ready_at() <= Instant::from_nanos(1 << 63));
    }
}
