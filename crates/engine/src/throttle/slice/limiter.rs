//! Limiter of slices: an allowance per slice of time, counted in ticks.

use core::num::NonZeroU64;

use crate::throttle::limiter::{Arrival, Limiter, Rate, Rates, Verdict};
use crate::throttle::slice::profile::{Carry, IopsWait, Order, Profile, Trim};
use crate::throttle::slice::ticks::Ticks;
use crate::types::{Cost, Instant, Resource, SliceProfile};

/// blk-throttle's slices in one direction, as the kernel of a profile does them, to the tick.
///
/// A slice grants its whole allowance in its first tick, so traffic comes in bursts; a head over it waits for as
/// many further slices as it needs. Amounts are whole, so a limit that is no multiple of one I/O per slice is not
/// reached (spec/throttle 1.12): this limiter is for parity with Linux, `pace` for accuracy.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    profile: SliceProfile,
    kernel: &'static Profile,
    ticks: Ticks,
    /// Length of a slice in ticks.
    length: u64,
    rates: Rates,
    /// First tick of the slice.
    start: u64,
    /// First tick of the slice in which the last request went, before it was moved on for that.
    served_from: u64,
    /// Last tick in which the slice still counts.
    end: u64,
    bytes: Counter,
    ios: Counter,
    /// Bytes that the waiting head has paid, where they are paid before its I/O.
    paid: Option<u64>,
    /// Whether the charge to come was allowed by a check. One that was not is debt, and moves nothing on.
    allowed: bool,
}

/// What went in this slice, and what was carried into it.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    /// Below 0 for a credit, with [`Carry::InCounters`].
    used: i64,
    carried: i64,
}

/// Saturates: above 2^63 everything is allowed anyway.
fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// `a * b / c` rounded down; saturates.
fn scaled(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX),
    }
}

impl Slice {
    /// A limiter whose first slice begins at `now`.
    pub(crate) fn new(now: Instant, profile: SliceProfile, rates: Rates) -> Slice {
        let ticks = Ticks::per_second(profile.hz);
        let length = u64::from(profile.slice_ticks.max(1));
        let start = ticks.at(now);
        Slice {
            profile,
            kernel: Profile::of(profile.kernel),
            ticks,
            length,
            rates,
            start,
            served_from: start,
            end: start + length,
            bytes: Counter::default(),
            ios: Counter::default(),
            paid: None,
            allowed: false,
        }
    }

    /// Which kernel, and which clock it has.
    pub(crate) fn profile(&self) -> SliceProfile {
        self.profile
    }

    /// Whether metadata and swap go past this limit at once, and are charged as debt.
    pub(crate) fn lets_metadata_overtake(&self) -> bool {
        self.kernel.metadata_overtakes
    }

    /// Length of a slice in nanoseconds, rounded up.
    pub(super) fn slice_ns(&self) -> u64 {
        self.ticks.start_of(self.length).as_nanos()
    }

    fn is_used_up(&self, tick: u64) -> bool {
        tick < self.start || tick > self.end
    }

    fn restart(&mut self, tick: u64) {
        self.bytes = Counter::default();
        self.ios = Counter::default();
        self.begin(tick, tick);
    }

    /// The slice counts from `start` on, and till a slice after `tick`.
    fn begin(&mut self, tick: u64, start: u64) {
        self.start = start;
        self.served_from = start;
        self.end = tick + self.length;
    }

    /// The slices' end at or after `tick`, counted from tick 0 and not from the start of this slice.
    fn up(&self, tick: u64) -> u64 {
        tick.div_ceil(self.length).saturating_mul(self.length)
    }

    fn extend(&mut self, tick: u64) {
        if self.end < tick {
            self.end = self.up(tick);
        }
    }

    /// Moves the start on by whole slices, and takes off the counters what these allowed.
    fn trim(&mut self, tick: u64) {
        if self.is_used_up(tick) {
            return;
        }
        self.end = self.up(tick + self.length);
        let elapsed = tick - self.start;
        let mut passed = elapsed - elapsed % self.length;
        if self.kernel.trim == Trim::KeepOne {
            passed = passed.saturating_sub(self.length);
        }
        if passed == 0 {
            return;
        }
        let bytes = self.rates.bps.map(|rate| self.allowance(rate, passed));
        let ios = self.rates.iops.map(|rate| self.allowance(rate, passed));
        let trimmed = match self.kernel.trim {
            Trim::All => {
                let reversed = self.kernel.carry == Carry::Unsigned;
                let bytes = self.bytes.takes_off(bytes, reversed);
                let ios = self.ios.takes_off(ios, reversed);
                // What an unlimited kind takes off is a huge number of the kernel's arithmetic, which turns negative
                // where more than half a second's ticks are multiplied into it (spec/throttle 1.5, "while te is
                // small").
                let wraps = self.kernel.carry == Carry::Signed && 2 * passed > self.ticks.hz();
                let of =
                    |rate: Option<Rate>, amount| if rate.is_none() && wraps { -1 } else { amount };
                let (bytes, ios) = (of(self.rates.bps, bytes), of(self.rates.iops, ios));
                if bytes <= 0 && ios <= 0 {
                    false
                } else {
                    self.bytes.take_off(bytes);
                    self.ios.take_off(ios);
                    true
                }
            }
            Trim::KeepOne => {
                let bytes = self.bytes.forgive(bytes);
                let ios = self.ios.forgive(ios);
                bytes != 0 || ios != 0
            }
        };
        if trimmed {
            self.start += passed;
        }
    }

    /// What `rate` allows in `ticks`.
    fn allowance(&self, rate: Rate, ticks: u64) -> i64 {
        signed(scaled(rate.per_second, ticks, self.ticks.hz()))
    }

    /// Ticks that a head of `bytes` still waits for the byte limit; `None` if it is within it.
    fn bytes_wait(&self, tick: u64, bytes: u64) -> Option<u64> {
        let rate = self.rates.bps?;
        if bytes == 0 {
            return None;
        }
        let elapsed = tick.saturating_sub(self.start);
        let counted = self.up(elapsed.max(1));
        let allowed = self.allowance(rate, counted).saturating_add(self.bytes.carried);
        let wanted = self.bytes.used.saturating_add(signed(bytes));
        if self.is_within(wanted, allowed) {
            return None;
        }
        let missing = u64::try_from(wanted.saturating_sub(allowed)).unwrap_or(0);
        let wait = scaled(missing, self.ticks.hz(), rate.per_second).max(1);
        Some(wait.saturating_add(counted - elapsed))
    }

    /// The same for the I/O limit. 0 only with [`IopsWait::SliceEnd`].
    fn ios_wait(&self, tick: u64, ios: u64) -> Option<u64> {
        let rate = self.rates.iops?;
        if ios == 0 {
            return None;
        }
        let elapsed = tick.saturating_sub(self.start);
        let counted = match self.kernel.iops_wait {
            IopsWait::AverageRate | IopsWait::SliceEnd => self.up(elapsed.max(1)),
            IopsWait::NextSliceEnd | IopsWait::NextSliceEndOrOneIo => self.up(elapsed + 1),
        };
        let allowed = self.allowance(rate, counted).saturating_add(self.ios.carried);
        let wanted = self.ios.used.saturating_add(signed(ios));
        if self.is_within(wanted, allowed) {
            return None;
        }
        let hz = self.ticks.hz();
        let slice_end = counted - elapsed;
        Some(match self.kernel.iops_wait {
            IopsWait::AverageRate => {
                let wanted = u64::try_from(wanted).unwrap_or(0);
                let due = scaled(wanted, hz, rate.per_second).saturating_add(1);
                due.saturating_sub(elapsed).max(1)
            }
            IopsWait::SliceEnd | IopsWait::NextSliceEnd => slice_end,
            IopsWait::NextSliceEndOrOneIo => {
                slice_end.max(scaled(rate.quantum, hz, rate.per_second).saturating_add(1))
            }
        })
    }

    fn is_within(&self, wanted: i64, allowed: i64) -> bool {
        match self.kernel.carry {
            Carry::None => wanted <= allowed,
            Carry::Unsigned => wanted <= allowed || allowed < 0,
            Carry::Signed | Carry::InCounters => wanted <= allowed && allowed > 0,
        }
    }

    /// The byte wait, where bytes are paid as soon as they fit.
    fn pay_bytes(&mut self, tick: u64, bytes: u64) -> Option<u64> {
        if self.paid == Some(bytes) {
            return None;
        }
        self.refund();
        let wait = self.bytes_wait(tick, bytes);
        if wait.is_none() {
            self.bytes.charge(bytes);
            self.paid = Some(bytes);
        }
        wait
    }

    /// Gives back what a head paid that is gone or not the head any more.
    fn refund(&mut self) {
        let paid = self.paid.take().unwrap_or(0);
        self.bytes.used = self.bytes.used.saturating_sub(signed(paid));
    }

    fn wait(&mut self, tick: u64, cost: Cost) -> Option<(u64, Resource)> {
        let bytes = match self.kernel.order {
            Order::BytesPaidFirst => self.pay_bytes(tick, cost.bytes),
            Order::IosAfterBytes | Order::Both => self.bytes_wait(tick, cost.bytes),
        };
        let ios = match (self.kernel.order, bytes) {
            (Order::IosAfterBytes | Order::BytesPaidFirst, Some(_)) => None,
            _ => self.ios_wait(tick, cost.ios),
        };
        match (bytes, ios) {
            (None, None) => None,
            (Some(bytes), None) => Some((bytes, Resource::Bytes)),
            (Some(bytes), Some(ios)) if bytes >= ios => Some((bytes, Resource::Bytes)),
            (_, Some(ios)) => Some((ios, Resource::Ios)),
        }
    }
}

impl Counter {
    fn charge(&mut self, amount: u64) {
        self.used = self.used.saturating_add(signed(amount));
    }

    /// What trimming takes off for an allowance; `None` is that of an unlimited kind.
    fn takes_off(&self, allowance: Option<i64>, reversed: bool) -> i64 {
        match allowance {
            Some(allowance) => match allowance.saturating_add(self.carried) {
                // Unsigned, a debt larger than the allowance reads as an enormous amount.
                amount if amount < 0 && reversed => i64::MAX,
                amount => amount,
            },
            None => i64::MAX,
        }
    }

    fn take_off(&mut self, amount: i64) {
        self.used = self.used.saturating_sub(amount).max(0);
        self.carried = 0;
    }

    /// Takes off an allowance, all where it is 0 or more than was used, and answers how much that was.
    fn forgive(&mut self, allowance: Option<i64>) -> i64 {
        let Some(allowance) = allowance else {
            return 0;
        };
        let amount = if allowance <= 0 { self.used } else { allowance.min(self.used) };
        self.used -= amount;
        amount
    }
}

impl Slice {
    /// Whether a request passes unseen: a later piece of one that paid, on kernels that charge a request once.
    fn is_free(&self, cost: Cost) -> bool {
        cost.is_remainder && !self.kernel.remainder_pays_ios
    }

    /// Begin of the slice when the last request went: the whole slices that trimming has passed since were served too.
    pub(super) fn slice_start(&self) -> Instant {
        self.ticks.start_of(self.served_from)
    }

    /// Credits time served at a child, whose slice began at `child_start`.
    pub(super) fn credit(&mut self, now: Instant, child_start: Instant) {
        let tick = self.ticks.at(now);
        if !self.is_used_up(tick) {
            return;
        }
        let child = self.ticks.at(child_start);
        let own = self.start;
        self.restart(tick);
        let served = child > own || (self.kernel.credit_same_start && child == own);
        self.begin(tick, if served { child } else { own });
    }
}

impl Limiter for Slice {
    fn per_second(&self) -> [Option<NonZeroU64>; 2] {
        [self.rates.bps, self.rates.iops].map(|rate| NonZeroU64::new(rate?.per_second))
    }

    fn check(&mut self, now: Instant, cost: Cost, arrival: Arrival) -> Verdict {
        if self.is_free(cost) {
            return Verdict::Go;
        }
        if self.rates.is_unlimited() {
            self.allowed = true;
            return Verdict::Go;
        }
        let tick = self.ticks.at(now);
        if arrival == Arrival::Fresh {
            self.refund();
        }
        if arrival == Arrival::Fresh && self.is_used_up(tick) {
            self.restart(tick);
        } else {
            self.extend(tick + self.length);
        }
        let wait = self.wait(tick, cost);
        self.allowed = wait.is_none();
        match wait {
            None => Verdict::Go,
            Some((wait, throttled_by)) => {
                self.extend(tick.saturating_add(wait));
                // A wait of 0 makes Linux ask again in the same tick until it ends; we come back at its end.
                let until = self.ticks.start_of(tick.saturating_add(wait.max(1)));
                Verdict::Wait { until, throttled_by }
            }
        }
    }

    fn charge(&mut self, now: Instant, cost: Cost) {
        if self.is_free(cost) {
            return;
        }
        self.ios.charge(cost.ios);
        if !core::mem::take(&mut self.allowed) {
            self.bytes.charge(cost.bytes);
            return;
        }
        if self.paid.take().is_none() {
            self.bytes.charge(cost.bytes);
        }
        self.served_from = self.start;
        self.trim(self.ticks.at(now));
    }

    fn charge_debt(&mut self, _now: Instant, cost: Cost, arrival: Arrival) {
        if self.is_free(cost) {
            return;
        }
        if arrival == Arrival::Fresh {
            // What a check has taken in advance was for this very request.
            self.refund();
        }
        self.ios.charge(cost.ios);
        self.bytes.charge(cost.bytes);
    }

    fn set_rates(&mut self, now: Instant, rates: Rates, queued: bool) {
        let tick = self.ticks.at(now);
        let elapsed = tick.saturating_sub(self.start);
        let old = core::mem::replace(&mut self.rates, rates);
        let earned = |rate: Option<Rate>| rate.map(|rate| self.allowance(rate, elapsed));
        let (bytes, ios) = (earned(old.bps), earned(old.iops));
        for (counter, earned) in [(&mut self.bytes, bytes), (&mut self.ios, ios)] {
            let credit = match earned {
                // Linux 6.15 takes an allowance of 0 for none at all (spec/throttle 1.12.12).
                Some(0) if self.kernel.carry == Carry::InCounters => 0,
                Some(earned) if queued => earned.saturating_sub(counter.used),
                _ => 0,
            };
            match self.kernel.carry {
                Carry::None => *counter = Counter::default(),
                Carry::Unsigned | Carry::Signed => {
                    counter.used = 0;
                    counter.carried = counter.carried.saturating_add(credit);
                }
                Carry::InCounters => counter.used = credit.saturating_neg(),
            }
        }
        self.begin(tick, tick);
    }

    /// A new slice begins, with nothing used of it.
    fn forgive(&mut self, now: Instant) {
        self.paid = None;
        self.restart(self.ticks.at(now));
    }

    /// Moves the slice by whole ticks; its ends, which are multiples of its length, may move by a part of one besides.
    fn shift(&mut self, before: Instant, after: Instant) {
        let (before, after) = (self.ticks.at(before), self.ticks.at(after));
        for tick in [&mut self.start, &mut self.served_from, &mut self.end] {
            *tick = tick.saturating_add(after.saturating_sub(before));
            *tick = tick.saturating_sub(before.saturating_sub(after));
        }
    }
}
