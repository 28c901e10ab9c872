//! An amount that grows with time and shrinks with every charge.

use core::num::NonZeroU64;

use crate::types::Instant;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// What has been earned at a rate, less what has been charged; below 0 for a debt, without a bound above.
///
/// Counted in 1e-9 units, of which `per_second` are earned each nanosecond, so nothing is ever rounded: charging
/// and asking whether there is enough need no division at all. Saturates far outside of anything that happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Balance {
    per_second: u64,
    amount: i128,
    at: Instant,
}

/// `amount` units as 1e-9 units.
fn scaled(amount: u64) -> i128 {
    // Below 2^94.
    i128::from(amount) * i128::from(NANOS_PER_SEC)
}

impl Balance {
    pub(crate) fn new(now: Instant, per_second: u64, amount: u64) -> Balance {
        Balance { per_second, amount: scaled(amount), at: now }
    }

    /// Units that are earned in a second.
    pub(crate) fn per_second(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.per_second)
    }

    /// The balance at `now`, in 1e-9 units. A `now` before the last charge counts as that.
    fn at(&self, now: Instant) -> i128 {
        self.amount.saturating_add(self.earned_in(now.nanos_since(self.at)))
    }

    fn earned_in(&self, nanos: u64) -> i128 {
        let earned = u128::from(self.per_second) * u128::from(nanos);
        i128::try_from(earned).unwrap_or(i128::MAX)
    }

    /// Whole units that are earned in `nanos`.
    pub(crate) fn earned_units(&self, nanos: u64) -> u64 {
        let units = self.earned_in(nanos) / i128::from(NANOS_PER_SEC);
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// Whether `amount` is there at `now`.
    pub(crate) fn covers(&self, now: Instant, amount: u64) -> bool {
        self.at(now) >= scaled(amount)
    }

    /// The first nanosecond at which `amount` is there; the past if it is already.
    pub(crate) fn covers_at(&self, amount: u64) -> Instant {
        let missing = scaled(amount).saturating_sub(self.amount);
        let Ok(missing) = u128::try_from(missing) else {
            return Instant::ZERO;
        };
        let nanos = match u64::try_from(missing) {
            Ok(missing) => missing.div_ceil(self.per_second),
            Err(_) => {
                u64::try_from(missing.div_ceil(u128::from(self.per_second))).unwrap_or(u64::MAX)
            }
        };
        self.at.plus_nanos(nanos)
    }

    /// Takes `amount` off at `now`.
    pub(crate) fn charge(&mut self, now: Instant, amount: u64) {
        self.amount = self.at(now).saturating_sub(scaled(amount));
        self.at = now.max(self.at);
    }

    /// Sets it to 0 at `now`.
    pub(crate) fn clear(&mut self, now: Instant) {
        self.amount = 0;
        self.at = now;
    }

    /// Forgives a debt beyond `most` at `now`.
    pub(crate) fn forgive(&mut self, now: Instant, most: u64) {
        self.charge(now, 0);
        self.amount = self.amount.max(-scaled(most));
    }

    /// Goes by another clock, which shows `after` when the old one shows `before`.
    pub(crate) fn shift(&mut self, before: Instant, after: Instant) {
        self.at = self.at.moved(before, after);
    }

    /// Drops what is above `most`, but not what a whole nanosecond may have been waited too long for.
    pub(crate) fn cap(&mut self, most: u64) {
        let fraction = i128::from(self.per_second).saturating_sub(1);
        self.amount = self.amount.min(scaled(most).saturating_add(fraction));
    }

    /// Drops what is above the earnings of `nanos`, but nothing of `least`.
    pub(crate) fn cap_to_earnings_of(&mut self, nanos: u64, least: u64) {
        self.amount = self.amount.min(self.earned_in(nanos).max(scaled(least)));
    }

    /// Earns at another rate from `now` on; the amount stays.
    pub(crate) fn set_rate(&mut self, now: Instant, per_second: u64) {
        self.charge(now, 0);
        self.per_second = per_second;
    }

    /// Whole units that are there at `now`; 0 for a debt.
    pub(crate) fn whole(&self, now: Instant) -> u64 {
        let whole = self.at(now).max(0) / i128::from(NANOS_PER_SEC);
        u64::try_from(whole).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_by_rounding() {
        let mut balance = Balance::new(Instant::ZERO, 7, 0);
        for _ in 0..7 {
            let ready = balance.covers_at(1);
            assert!(balance.covers(ready, 1) && !balance.covers(ready.minus_nanos(1), 1));
            balance.charge(ready, 1);
        }
        assert_eq!(balance.covers_at(0), Instant::from_millis(1000));
        assert_eq!(balance.whole(Instant::from_millis(1999)), 6);
        assert_eq!(balance.whole(Instant::from_millis(2000)), 7);
    }

    #[test]
    fn the_ends_of_the_range_saturate() {
        let mut balance = Balance::new(Instant::ZERO, u64::MAX, u64::MAX);
        assert!(balance.covers(Instant::FAR_FUTURE, u64::MAX));
        balance.charge(Instant::FAR_FUTURE, u64::MAX);
        balance.cap(1);
        balance.charge(Instant::FAR_FUTURE, u64::MAX);
        balance.set_rate(Instant::FAR_FUTURE, 1);
        assert_eq!(balance.covers_at(u64::MAX), Instant::FAR_FUTURE);
        assert_eq!(balance.whole(Instant::FAR_FUTURE), 0);
    }
}
