//! io-throttle's leaky bucket: what goes leaks away at the rate before the next may go.

use core::num::NonZeroU64;

use crate::throttle::limiter::{Arrival, Limiter, Rate, Rates, Verdict};
use crate::throttle::token::{Balance, covered_at};
use crate::types::{Cost, Instant, Limits, Resource};

/// A meter of bytes and one of I/Os; a request goes when both have leaked enough.
///
/// io-throttle charges a request when it is submitted and lets it sleep until everything charged since the meter
/// was last empty has leaked away; a request that finds it has already empties the meter and is free
/// (spec/throttle 2.3). Which request is charged next is decided late here, so the head is judged as if charged when it
/// came up:
/// - one that has to wait goes when its own cost has leaked too, and its cost is booked then;
/// - only one that arrives with nothing before it can find the meter empty and be free: of a large request, its first
///   instalment. In io-throttle those that arrive in the same instant are free too, however many; here they wait.
///
/// So requests that wait leave one after the other, `cost / rate` apart, and there is no burst.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaky {
    bytes: Option<Meter>,
    ios: Option<Meter>,
    /// Whether the charge to come is of a request that found nothing before it.
    fresh: bool,
}

#[derive(Clone, Copy, Debug)]
struct Meter {
    /// What has leaked since it was empty, less what was charged.
    leaked: Balance,
    /// The most that a request pays at once: what the next one waits for must not be lost when another pays.
    instalment: u64,
}

/// How much lateness of its timer a waiting request may pass on to the next. Without it every late timer lowers
/// the rate for good; without a bound, a request that waited long at another limit would free all that follow it.
const LATENESS_NANOS: u64 = 10_000_000;

impl Leaky {
    /// A limiter whose meters are empty at `now`.
    pub(crate) fn new(now: Instant, rates: Rates) -> Leaky {
        let mut leaky = Leaky::default();
        leaky.set_rates(now, rates, false);
        leaky
    }
}

impl Meter {
    fn charge(&mut self, now: Instant, amount: u64, fresh: bool) {
        if fresh && self.leaked.covers(now, amount) {
            self.leaked.clear(now);
        } else {
            self.leaked.charge(now, amount);
            self.leaked.cap_to_earnings_of(LATENESS_NANOS, self.instalment);
        }
    }
}

fn set_rate(meter: &mut Option<Meter>, now: Instant, rate: Option<Rate>, resource: Resource) {
    let instalment = rate
        .map_or(0, |rate| Limits::instalment(resource, rate.per_second, u64::MAX, rate.quantum));
    match (meter.as_mut(), rate) {
        (Some(meter), Some(rate)) => {
            meter.leaked.set_rate(now, rate.per_second);
            meter.instalment = instalment;
        }
        (None, Some(rate)) => {
            *meter = Some(Meter { leaked: Balance::new(now, rate.per_second, 0), instalment });
        }
        (_, None) => *meter = None,
    }
}

impl Limiter for Leaky {
    fn per_second(&self) -> [Option<NonZeroU64>; 2] {
        [&self.bytes, &self.ios].map(|meter| meter.as_ref()?.leaked.per_second())
    }

    fn check(&mut self, now: Instant, cost: Cost, arrival: Arrival) -> Verdict {
        let [bytes, ios] =
            [&self.bytes, &self.ios].map(|meter| meter.as_ref().map(|meter| &meter.leaked));
        let (until, throttled_by) = covered_at(now, cost, bytes, ios);
        self.fresh = arrival == Arrival::Fresh && now >= until;
        if now >= until { Verdict::Go } else { Verdict::Wait { until, throttled_by } }
    }

    fn charge(&mut self, now: Instant, cost: Cost) {
        let fresh = core::mem::take(&mut self.fresh);
        let meters = [(&mut self.bytes, cost.bytes), (&mut self.ios, cost.ios)];
        for (meter, amount) in meters {
            if let Some(meter) = meter.as_mut().filter(|_| amount > 0) {
                meter.charge(now, amount, fresh);
            }
        }
    }

    /// Keeps what has leaked and what was charged, in bytes or I/Os; a meter that was not there before is empty.
    fn set_rates(&mut self, now: Instant, rates: Rates, _queued: bool) {
        set_rate(&mut self.bytes, now, rates.bps, Resource::Bytes);
        set_rate(&mut self.ios, now, rates.iops, Resource::Ios);
    }

    /// There is no burst here: everything is forgiven, and the meters are empty.
    fn forgive(&mut self, now: Instant) {
        for meter in self.bytes.iter_mut().chain(&mut self.ios) {
            meter.leaked.clear(now);
        }
    }

    fn shift(&mut self, before: Instant, after: Instant) {
        for meter in self.bytes.iter_mut().chain(&mut self.ios) {
            meter.leaked.shift(before, after);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::throttle::single::Single;
    use crate::types::Resource;

    const MIB: u64 = 1 << 20;
    const IO: Cost = Cost::whole(4096, 1);

    fn rate(per_second: u64) -> Option<Rate> {
        Some(Rate { per_second, burst: 1, peak: None, quantum: 1 })
    }

    fn iops(per_second: u64) -> Rates {
        Rates { bps: None, iops: rate(per_second) }
    }

    fn queue(rates: Rates) -> Single<Leaky> {
        Single::new(Leaky::new(Instant::ZERO, rates))
    }

    fn went_ms(queue: &mut Single<Leaky>) -> Vec<u64> {
        queue.drain();
        queue.went.iter().map(|went| went.0.as_nanos() / 1_000_000).collect()
    }

    #[test]
    fn one_after_the_other_at_four_mebibytes_a_second() {
        let mut queue = queue(Rates { bps: rate(4 * MIB), iops: None });
        let mut now = Instant::from_millis(1);
        for _ in 0..4 {
            queue.submit(now, Cost::whole(MIB, 1));
            queue.drain();
            now = queue.went.last().expect("drained").0;
        }
        assert_eq!(went_ms(&mut queue), [250, 500, 750, 1000]);
    }

    #[test]
    fn a_pause_frees_one_however_many_come_in_its_instant() {
        let mut queue = queue(iops(10));
        for _ in 0..3 {
            queue.submit(Instant::from_millis(5000), IO);
        }
        for _ in 0..2 {
            queue.submit(Instant::from_millis(5001), IO);
        }
        assert_eq!(went_ms(&mut queue), [5000, 5100, 5200, 5300, 5400]);
    }

    #[test]
    fn a_request_that_waited_is_not_free() {
        let mut queue = queue(iops(10));
        for at_ms in [1, 2, 3] {
            queue.submit(Instant::from_millis(at_ms), IO);
        }
        assert_eq!(went_ms(&mut queue), [100, 200, 300]);
    }

    #[test]
    fn late_timers_do_not_lower_the_rate() {
        let mut queue = queue(iops(100));
        queue.late_nanos = 3_000_000;
        for _ in 0..101 {
            queue.submit(Instant::from_millis(1), IO);
        }
        assert_eq!(went_ms(&mut queue).last(), Some(&1013));
    }

    #[test]
    fn a_long_wait_elsewhere_frees_no_more_than_ten_milliseconds() {
        // The head conforms for a minute before it is let go; then 10 ms worth of requests may follow it.
        let mut leaky = Leaky::new(Instant::ZERO, iops(1000));
        let now = Instant::from_millis(60_000);
        let at_once = (0..100)
            .take_while(|_| {
                let go = leaky.check(now, IO, Arrival::Queued) == Verdict::Go;
                leaky.charge(now, IO);
                go
            })
            .count();
        assert_eq!(at_once, 11);
    }

    #[test]
    fn asking_twice_changes_nothing() {
        let mut leaky = Leaky::new(Instant::ZERO, iops(10));
        let now = Instant::from_millis(500);
        for arrival in [Arrival::Queued, Arrival::Fresh, Arrival::Fresh] {
            assert_eq!(leaky.check(now, IO, arrival), Verdict::Go);
        }
        leaky.charge(now, IO);
        // Free, and the meter is empty from now on.
        let until = Instant::from_millis(600);
        let wait = Verdict::Wait { until, throttled_by: Resource::Ios };
        assert_eq!(leaky.check(now, IO, Arrival::Queued), wait);
        assert_eq!(leaky.check(now, IO, Arrival::Fresh), wait);
    }

    #[test]
    fn the_longer_wait_wins_and_a_new_rate_pays_what_is_left() {
        let both = Rates { bps: rate(4096), iops: rate(2) };
        let mut queue = queue(both);
        queue.submit(Instant::from_millis(1), IO);
        queue.set_rates(Instant::from_millis(500), Rates { bps: rate(8192), iops: rate(2) });
        assert_eq!(went_ms(&mut queue), [750]);
    }
}
