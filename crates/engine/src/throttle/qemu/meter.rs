//! QEMU's leaky buckets, as they are: to tell what QEMU would do with a request.

use core::num::NonZeroU32;

use super::{QemuKey, QemuLimit, QemuThrottle};
use crate::limits::Resource;
use crate::request::Direction;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// One leaky bucket: what goes fills it, and it leaks at the average rate. Requests go while it is not over full.
///
/// A second level, leaking at `max`, keeps a burst of more than a second to that rate. Both are counted in 1e-9 of
/// 1/`scale` units, exactly. Source: the unit tests of QEMU's throttling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QemuBucket {
    limit: QemuLimit,
    /// What one unit is counted as, so that fractions of an operation are whole numbers.
    scale: u64,
    level: u128,
    burst_level: u128,
}

impl QemuBucket {
    /// An empty bucket whose units can be told apart to `1 / scale`; a `scale` of 0 counts as 1.
    pub fn new(limit: QemuLimit, scale: u32) -> QemuBucket {
        QemuBucket { limit, scale: u64::from(scale.max(1)), level: 0, burst_level: 0 }
    }

    /// Lets `nanos` nanoseconds pass.
    pub fn leak(&mut self, nanos: u64) {
        self.level = self.level.saturating_sub(self.amount(self.limit.avg, nanos));
        self.burst_level = self.burst_level.saturating_sub(self.amount(self.limit.max, nanos));
    }

    /// Books `parts` of `1 / scale` units as gone.
    pub fn account(&mut self, parts: u64) {
        let amount = u128::from(parts) * NANOS_PER_SEC;
        self.level = self.level.saturating_add(amount);
        if self.limit.burst_length > 1 {
            self.burst_level = self.burst_level.saturating_add(amount);
        }
    }

    /// Nanoseconds until the next request may go, rounded up; 0 if it may now, or if there is no limit.
    pub fn wait_ns(&self) -> u64 {
        if !self.limit.is_set() {
            return 0;
        }
        let second = |rate: u64| self.amount(rate, 1_000_000_000);
        let size = match self.limit.max {
            0 => second(self.limit.avg) / 10,
            max => second(max).saturating_mul(u128::from(self.limit.burst_length)),
        };
        match self.level.saturating_sub(size) {
            0 if self.limit.burst_length > 1 => {
                let burst_size = second(self.limit.max) / 10;
                self.time_of(self.burst_level.saturating_sub(burst_size), self.limit.max)
            }
            over => self.time_of(over, self.limit.avg),
        }
    }

    /// The level in `1 / scale` units, rounded down.
    pub fn level_parts(&self) -> u128 {
        self.level / NANOS_PER_SEC
    }

    /// What `rate` amounts to in `nanos`.
    fn amount(&self, rate: u64, nanos: u64) -> u128 {
        let rate = u128::from(rate) * u128::from(self.scale);
        rate.saturating_mul(u128::from(nanos))
    }

    fn time_of(&self, amount: u128, rate: u64) -> u64 {
        let per_nano = u128::from(rate.max(1)) * u128::from(self.scale);
        u64::try_from(amount.div_ceil(per_nano)).unwrap_or(u64::MAX)
    }
}

/// The six buckets of a throttle group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QemuMeter {
    buckets: [QemuBucket; 6],
    op_size: Option<NonZeroU32>,
}

impl QemuMeter {
    /// Empty buckets for `throttle`, which should be valid: a limit that is not may wait strangely, but not for ever.
    pub fn new(throttle: &QemuThrottle) -> QemuMeter {
        let op_size = throttle.op_size_in_effect();
        let buckets = QemuKey::ALL.map(|key| {
            let scale = match key.resource() {
                Resource::Bytes => 1,
                Resource::Ios => op_size.map_or(1, NonZeroU32::get),
            };
            QemuBucket::new(*throttle.get(key), scale)
        });
        QemuMeter { buckets, op_size }
    }

    /// Lets `nanos` nanoseconds pass.
    pub fn leak(&mut self, nanos: u64) {
        for bucket in &mut self.buckets {
            bucket.leak(nanos);
        }
    }

    /// Nanoseconds until a request of `direction` may go, whatever its size; 0 if it may now.
    pub fn wait_ns(&self, direction: Direction) -> u64 {
        let waits = QemuKey::ALL.iter().zip(&self.buckets).map(|(key, bucket)| {
            if key.direction().is_none_or(|own| own == direction) { bucket.wait_ns() } else { 0 }
        });
        waits.max().unwrap_or(0)
    }

    /// Books a request of `len` bytes as gone.
    pub fn account(&mut self, direction: Direction, len: u32) {
        let parts = self.op_size.map_or(1, |size| len.max(size.get()));
        for (key, bucket) in QemuKey::ALL.iter().zip(&mut self.buckets) {
            if key.direction().is_none_or(|own| own == direction) {
                bucket.account(match key.resource() {
                    Resource::Bytes => u64::from(len),
                    Resource::Ios => u64::from(parts),
                });
            }
        }
    }

    /// The bucket of `key`.
    pub fn bucket(&self, key: QemuKey) -> &QemuBucket {
        let at = QemuKey::ALL.iter().position(|other| *other == key);
        &self.buckets[at.expect("all six are listed")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throttle::limiter::{Arrival, Cost, Limiter, Verdict};
    use crate::throttle::pace::Pace;
    use crate::time::Instant;

    const UNIT: u128 = NANOS_PER_SEC;

    fn bucket(avg: u64, max: u64, burst_length: u64) -> QemuBucket {
        QemuBucket::new(QemuLimit { avg, max, burst_length }, 1)
    }

    #[test]
    fn a_bucket_leaks_at_the_average_and_stays_empty() {
        let mut leaking = QemuBucket { level: UNIT * 3 / 2, ..bucket(150, 0, 1) };
        // 1/150 s is no whole number of nanoseconds; 150 of them are a part in seven million.
        for half_units in [1, 0, 0] {
            leaking.leak(1_000_000_000 / 150 + 1);
            assert!(leaking.level.abs_diff(UNIT * half_units / 2) <= 150);
        }
    }

    #[test]
    fn the_burst_level_leaks_at_the_maximum() {
        let mut leaking = QemuBucket { burst_level: UNIT * 6, ..bucket(150, 250, 2) };
        for half_units in [7, 2, 0] {
            leaking.leak(10_000_000);
            assert_eq!(leaking.burst_level, UNIT * half_units / 2);
        }
    }

    #[test]
    fn half_an_operation_too_much_waits_for_half_an_operation() {
        let over = QemuBucket { level: UNIT * 31 / 2, ..bucket(150, 15, 1) };
        assert_eq!(over.wait_ns(), 3_333_334);
    }

    #[test]
    fn a_bucket_that_is_not_over_full_does_not_wait() {
        assert_eq!(QemuBucket { level: UNIT * 15, ..bucket(150, 15, 1) }.wait_ns(), 0);
        assert_eq!(QemuBucket { level: UNIT, ..bucket(150, 15, 1) }.wait_ns(), 0);
        assert_eq!(QemuBucket { level: UNIT * 15, ..bucket(0, 15, 1) }.wait_ns(), 0);
        // Without a maximum, a tenth of a second of the average.
        assert_eq!(QemuBucket { level: UNIT * 15, ..bucket(150, 0, 1) }.wait_ns(), 0);
        assert_eq!(QemuBucket { level: UNIT * 18, ..bucket(150, 0, 1) }.wait_ns(), 20_000_000);
    }

    #[test]
    fn a_burst_of_two_seconds_lasts_for_two_seconds() {
        let mut bursting = bucket(10, 200, 2);
        for step in 0..22 {
            bursting.account(20);
            bursting.leak(100_000_000);
            assert_eq!(bursting.level_parts(), (step + 1) * 19);
            let wait = if step < 21 { 0 } else { 1_800_000_000 };
            assert_eq!(bursting.wait_ns(), wait, "step {step}");
        }
    }

    #[test]
    fn the_maximum_holds_inside_a_burst() {
        let mut bursting = bucket(10, 200, 2);
        bursting.account(21);
        // A tenth of a second of the maximum goes at once.
        assert_eq!(bursting.wait_ns(), 5_000_000);
    }

    #[test]
    fn the_example_of_qemus_manual_bursts_for_63_seconds() {
        let mut volume = bucket(100, 2000, 60);
        let mut tenths = 0;
        while volume.wait_ns() == 0 {
            volume.account(200);
            volume.leak(100_000_000);
            tenths += 1;
        }
        // 120,000 at 1,900 a second.
        assert_eq!(tenths, 632);
    }

    #[test]
    fn a_large_operation_counts_in_proportion() {
        let limit = QemuLimit { avg: 1, ..QemuLimit::default() };
        let throttle = QemuThrottle {
            bps_total: limit,
            iops_total: limit,
            op_size: 13 * 512,
            ..QemuThrottle::default()
        };
        let mut meter = QemuMeter::new(&throttle);
        meter.account(Direction::Read, 64 * 512);
        meter.account(Direction::Write, 64 * 512);
        // In parts of 1/6656: 128/13 operations together, 64/13 each way.
        let parts = |key| meter.bucket(key).level_parts();
        assert_eq!(parts(QemuKey::IopsTotal) * 13, 128 * 13 * 512);
        assert_eq!(parts(QemuKey::IopsRead) * 13, 64 * 13 * 512);
        assert_eq!(parts(QemuKey::IopsWrite) * 13, 64 * 13 * 512);
        assert_eq!(parts(QemuKey::BpsTotal), 128 * 512);
        assert_eq!(parts(QemuKey::BpsRead), 64 * 512);
        meter.account(Direction::Read, 1);
        assert_eq!(meter.bucket(QemuKey::IopsRead).level_parts(), 64 * 512 + 13 * 512);
        // The totals hold for both directions.
        assert_eq!(meter.wait_ns(Direction::Read), meter.wait_ns(Direction::Write));
        assert!(meter.wait_ns(Direction::Read) > 65_000_000_000_000);
        meter.leak(u64::MAX);
        assert_eq!(meter.wait_ns(Direction::Read), 0);
    }

    #[test]
    fn pace_with_the_converted_limits_does_the_same() {
        for (avg, max) in [(100, 0), (1000, 0), (7, 50), (100, 130)] {
            let iops_read = QemuLimit { avg, max, burst_length: 1 };
            let throttle = QemuThrottle { iops_read, op_size: 4096, ..QemuThrottle::default() };
            let (limits, op_size) = throttle.limits().expect("fits");
            let unit = u64::from(op_size.expect("set").get());
            let mut meter = QemuMeter::new(&throttle);
            let mut pace = Pace::new(Instant::ZERO, limits.rates(Direction::Read, unit));
            let mut now = Instant::ZERO;
            for step in 0..300u32 {
                let len = 1024 * (1 + step * 7 % 23);
                let cost = Cost::whole(u64::from(len), u64::from(len).max(unit));
                let wait = meter.wait_ns(Direction::Read);
                match pace.check(now, cost, Arrival::Queued) {
                    Verdict::Go => assert_eq!(wait, 0, "step {step} at {now:?}"),
                    Verdict::Wait { until, .. } => {
                        assert_eq!(until, now.plus_nanos(wait), "step {step} at {now:?}");
                    }
                }
                meter.leak(wait);
                now = now.plus_nanos(wait);
                meter.account(Direction::Read, len);
                pace.charge(now, cost);
            }
        }
    }
}
