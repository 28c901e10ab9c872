//! io-throttle's token bucket: a full bucket at the start, refilled at the rate.

mod balance;
#[cfg(test)]
mod properties;

pub(crate) use balance::Balance;

use core::num::NonZeroU64;

use crate::throttle::limiter::{Arrival, Limiter, Rate, Rates, Verdict};
use crate::throttle::pace::Peak;
use crate::types::{Cost, Instant, Limits, Resource};

/// A bucket of bytes and one of I/Os; a request goes when both cover it.
///
/// io-throttle charges a request when it is submitted and lets it sleep until its debt is paid (spec/throttle 2.3).
/// Which request is charged next is decided late here, so the head is judged as if charged when it came up: it goes
/// when the tokens, less its cost, are not negative, and its cost leaves the bucket then. The instants are the same.
/// Unlike there, the bucket is full before a cost is taken: a window of `w` seconds sees at most `rate * w + bucket`.
/// The bucket holds at least one instalment, so nothing that a head waits for runs over, whichever other request is charged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Token {
    bytes: Option<Bucket>,
    ios: Option<Bucket>,
    peak: Peak,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Not yet capped: that happens when a cost is taken.
    tokens: Balance,
    /// The burst, or one instalment if that is more.
    size: u64,
}

impl Token {
    /// A limiter with full buckets; the bucket's size is the burst.
    pub(crate) fn new(now: Instant, rates: Rates) -> Token {
        let mut token = Token::default();
        token.set_rates(now, rates, false);
        token
    }

    /// Whether a peak spaces what is in a bucket.
    pub(crate) fn has_peak(&self) -> bool {
        !self.peak.is_none()
    }

    /// How much the buckets of bytes and of I/Os hold; 0 where there is no such limit.
    pub(crate) fn bursts(&self) -> [u64; 2] {
        [&self.bytes, &self.ios].map(|bucket| bucket.as_ref().map_or(0, |bucket| bucket.size))
    }

    /// The tokens that are there, in whole units; `None` where there is no such limit.
    pub(crate) fn credit(&self, now: Instant, resource: Resource) -> Option<u64> {
        let bucket = match resource {
            Resource::Bytes => &self.bytes,
            Resource::Ios => &self.ios,
        };
        bucket.as_ref().map(|bucket| bucket.tokens.whole(now).min(bucket.size))
    }
}

impl Bucket {
    fn charge(&mut self, now: Instant, amount: u64) {
        // More than the bucket holds goes only where a clock is set forward.
        self.charge_up_to(now, amount, self.size.max(amount));
    }

    /// The same where the bucket is as large as that.
    fn charge_up_to(&mut self, now: Instant, amount: u64, size: u64) {
        self.tokens.charge(now, 0);
        self.tokens.cap(size);
        self.tokens.charge(now, amount);
    }

    /// Takes an instalment of what was `owed`: for that much, the bucket is as large as what savings may be.
    fn charge_instalment(&mut self, now: Instant, amount: u64, owed: u64) {
        let savings = self.tokens.earned_units(Limits::INSTALMENT_SAVINGS_NANOS).min(owed);
        self.charge_up_to(now, amount, savings.max(self.size));
    }
}

/// When two balances cover a head of `cost`, and which of them is later; the past where they do at `now`. A cost of
/// 0 waits for nothing, as it is paid already.
pub(crate) fn covered_at(
    now: Instant,
    cost: Cost,
    bytes: Option<&Balance>,
    ios: Option<&Balance>,
) -> (Instant, Resource) {
    let of = |balance: Option<&Balance>, amount: u64| match balance {
        Some(balance) if amount > 0 && !balance.covers(now, amount) => balance.covers_at(amount),
        _ => Instant::ZERO,
    };
    let (bytes, ios) = (of(bytes, cost.bytes), of(ios, cost.ios));
    if ios > bytes { (ios, Resource::Ios) } else { (bytes, Resource::Bytes) }
}

fn set_rate(bucket: &mut Option<Bucket>, now: Instant, rate: Option<Rate>, resource: Resource) {
    let size = rate.map_or(0, |rate| rate.burst.max(rate.instalment(resource)));
    match (bucket.as_mut(), rate) {
        (Some(bucket), Some(rate)) => {
            bucket.charge(now, 0);
            bucket.tokens.set_rate(now, rate.per_second);
            bucket.size = size;
        }
        (None, Some(rate)) => {
            *bucket = Some(Bucket { tokens: Balance::new(now, rate.per_second, size), size });
        }
        (_, None) => *bucket = None,
    }
}

impl Limiter for Token {
    fn per_second(&self) -> [Option<NonZeroU64>; 2] {
        [&self.bytes, &self.ios].map(|bucket| bucket.as_ref()?.tokens.per_second())
    }

    fn check(&mut self, now: Instant, cost: Cost, _arrival: Arrival) -> Verdict {
        let bytes = self.bytes.as_ref().map(|bucket| &bucket.tokens);
        let ios = self.ios.as_ref().map(|bucket| &bucket.tokens);
        let (until, throttled_by) = self.peak.later_of(covered_at(now, cost, bytes, ios), cost);
        if now >= until { Verdict::Go } else { Verdict::Wait { until, throttled_by } }
    }

    fn charge(&mut self, now: Instant, cost: Cost) {
        if let Some(bucket) = &mut self.bytes {
            bucket.charge(now, cost.bytes);
        }
        if let Some(bucket) = &mut self.ios {
            bucket.charge(now, cost.ios);
        }
        self.peak.charge(now, cost);
    }

    fn charge_instalment(&mut self, now: Instant, cost: Cost, owed: Cost) {
        let parts =
            [(&mut self.bytes, cost.bytes, owed.bytes), (&mut self.ios, cost.ios, owed.ios)];
        for (bucket, amount, owed) in parts {
            if let Some(bucket) = bucket.as_mut().filter(|_| amount > 0) {
                bucket.charge_instalment(now, amount, owed);
            }
        }
        self.peak.charge(now, cost);
    }

    /// Keeps the tokens that are there and the debt, in bytes or I/Os; a bucket made larger fills up at the rate,
    /// one that was not there before is full.
    fn set_rates(&mut self, now: Instant, rates: Rates, _queued: bool) {
        set_rate(&mut self.bytes, now, rates.bps, Resource::Bytes);
        set_rate(&mut self.ios, now, rates.iops, Resource::Ios);
        self.peak.set_rates(now, &rates);
    }

    fn forgive(&mut self, now: Instant) {
        for bucket in self.bytes.iter_mut().chain(&mut self.ios) {
            bucket.tokens.forgive(now, bucket.size);
        }
        self.peak.forgive(now);
    }

    fn shift(&mut self, before: Instant, after: Instant) {
        for bucket in self.bytes.iter_mut().chain(&mut self.ios) {
            bucket.tokens.shift(before, after);
        }
        self.peak.shift(before, after);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::throttle::single::Single;

    const MIB: u64 = 1 << 20;

    fn rate(per_second: u64, burst: u64) -> Option<Rate> {
        Some(Rate { per_second, burst, peak: None, quantum: 1 })
    }

    fn bps(per_second: u64, burst: u64) -> Rates {
        Rates { bps: rate(per_second, burst), iops: None }
    }

    fn queue(rates: Rates) -> Single<Token> {
        Single::new(Token::new(Instant::ZERO, rates))
    }

    fn went_ms(queue: &mut Single<Token>) -> Vec<u64> {
        queue.drain();
        queue.went.iter().map(|went| went.0.as_nanos() / 1_000_000).collect()
    }

    #[test]
    fn eight_of_eight_mebibytes_go_at_once() {
        let mut queue = queue(bps(8 * MIB, 8 * MIB));
        for _ in 0..10 {
            queue.submit(Instant::ZERO, Cost::whole(MIB, 1));
        }
        assert_eq!(went_ms(&mut queue), [0, 0, 0, 0, 0, 0, 0, 0, 125, 250]);
    }

    #[test]
    fn a_request_larger_than_the_bucket_waits_for_its_own_tokens() {
        // The bucket holds an instalment, 4096.
        let mut queue = queue(bps(1000, 600));
        for at_ms in [0, 0, 20_000] {
            queue.submit(Instant::from_millis(at_ms), Cost::whole(6000, 1));
        }
        // The one after the pause finds all its tokens.
        assert_eq!(went_ms(&mut queue), [1904, 7904, 20_000]);
    }

    #[test]
    fn what_a_head_waits_for_is_not_lost_when_another_is_charged() {
        let mut token = Token::new(Instant::ZERO, bps(1000, 600));
        token.charge(Instant::ZERO, Cost::whole(4096, 1));
        let head = Cost::whole(4096, 1);
        for ms in (0..=4000).step_by(500) {
            let wait = token.check(Instant::from_millis(ms), head, Arrival::Queued);
            assert!(matches!(wait, Verdict::Wait { .. }), "at {ms} ms");
            token.charge(Instant::from_millis(ms), Cost::whole(10, 1));
        }
        let go = token.check(Instant::from_millis(4096 + 90), head, Arrival::Queued);
        assert_eq!(go, Verdict::Go);
    }

    #[test]
    fn a_pause_leaves_a_full_bucket_and_no_more() {
        let mut queue = queue(Rates { bps: None, iops: rate(10, 2) });
        for _ in 0..4 {
            queue.submit(Instant::from_millis(5000), Cost::whole(4096, 1));
        }
        assert_eq!(went_ms(&mut queue), [5000, 5000, 5100, 5200]);
    }

    #[test]
    fn inside_a_bucket_the_peak_rate_holds() {
        let rate = Rate { per_second: 10, burst: 8, peak: Some(100), quantum: 1 };
        let mut queue = queue(Rates { bps: None, iops: Some(rate) });
        for _ in 0..9 {
            queue.submit(Instant::ZERO, Cost::whole(4096, 1));
        }
        assert_eq!(went_ms(&mut queue), [0, 10, 20, 30, 40, 50, 60, 70, 100]);
    }

    #[test]
    fn the_longer_wait_wins() {
        let rates = Rates { bps: rate(1000, 1000), iops: rate(10, 1) };
        let mut token = Token::new(Instant::ZERO, rates);
        token.charge(Instant::ZERO, Cost::whole(4096, 1));
        let mut check = |bytes| token.check(Instant::ZERO, Cost::whole(bytes, 1), Arrival::Queued);
        let wait =
            |ms, throttled_by| Verdict::Wait { until: Instant::from_millis(ms), throttled_by };
        assert_eq!(check(200), wait(200, Resource::Bytes));
        assert_eq!(check(50), wait(100, Resource::Ios));
        assert_eq!(check(0), wait(100, Resource::Ios));
    }

    #[test]
    fn a_new_rate_pays_what_is_left() {
        let mut queue = queue(bps(8000, 8000));
        queue.submit(Instant::ZERO, Cost::whole(8000, 1));
        queue.submit(Instant::ZERO, Cost::whole(4000, 1));
        assert_eq!(queue.limiter.credit(Instant::from_millis(250), Resource::Bytes), Some(2000));
        queue.set_rates(Instant::from_millis(250), bps(16_000, 8000));
        assert_eq!(went_ms(&mut queue), [0, 375]);
        assert_eq!(queue.limiter.credit(Instant::from_millis(60_000), Resource::Bytes), Some(8000));
        assert_eq!(queue.limiter.credit(Instant::ZERO, Resource::Ios), None);
    }
}
