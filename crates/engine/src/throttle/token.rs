//! io-throttle's token bucket: a full bucket at the start, refilled at the rate.

mod balance;
#[cfg(test)]
mod properties;

pub(crate) use balance::Balance;

use core::num::NonZeroU64;

use crate::limits::Resource;
use crate::throttle::limiter::{Arrival, Cost, Limiter, Rate, Rates, Verdict};
use crate::throttle::pace::Peak;
use crate::time::Instant;

/// A bucket of bytes and one of I/Os; a request goes when both cover it.
///
/// io-throttle charges a request when it is submitted and lets it sleep until its debt is paid (specification 2.3).
/// Which request is charged next is decided late here, so the head is judged as if charged when it came up: it goes
/// when the tokens, less its cost, are not negative, and its cost leaves the bucket then. The instants are the same.
/// As there, the cost is taken before the bucket is filled up, so the first request after a pause costs nothing of
/// a full bucket: a window of `w` seconds sees at most `rate * w + bucket` and one request.
/// A request larger than the bucket waits for its own tokens, and is never stuck.
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
    size: u64,
}

impl Token {
    /// A limiter with full buckets; the bucket's size is the burst.
    pub(crate) fn new(now: Instant, rates: Rates) -> Token {
        let mut token = Token::default();
        token.set_rates(now, rates, false);
        token
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
        self.tokens.charge(now, amount);
        self.tokens.cap(self.size);
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

fn set_rate(bucket: &mut Option<Bucket>, now: Instant, rate: Option<Rate>) {
    match (bucket.as_mut(), rate) {
        (Some(bucket), Some(rate)) => {
            bucket.tokens.set_rate(now, rate.per_second);
            bucket.size = rate.burst;
        }
        (None, Some(rate)) => {
            let tokens = Balance::new(now, rate.per_second, rate.burst);
            *bucket = Some(Bucket { tokens, size: rate.burst });
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
        let (until, because) = self.peak.later_of(covered_at(now, cost, bytes, ios), cost);
        if now >= until { Verdict::Go } else { Verdict::Wait { until, because } }
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

    /// Keeps the tokens that are there and the debt, in bytes or I/Os; a bucket made larger fills up at the rate,
    /// one that was not there before is full.
    fn set_rates(&mut self, now: Instant, rates: Rates, _queued: bool) {
        set_rate(&mut self.bytes, now, rates.bps);
        set_rate(&mut self.ios, now, rates.iops);
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
    use crate::throttle::slice::single::Single;

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
        let mut queue = queue(bps(1000, 100));
        for at_ms in [0, 0, 10_000] {
            queue.submit(Instant::from_millis(at_ms), Cost::whole(600, 1));
        }
        // The one after the pause finds all its tokens.
        assert_eq!(went_ms(&mut queue), [500, 1100, 10_000]);
    }

    #[test]
    fn the_first_after_a_pause_costs_nothing_of_a_full_bucket() {
        let mut queue = queue(Rates { bps: None, iops: rate(10, 2) });
        for _ in 0..4 {
            queue.submit(Instant::from_millis(5000), Cost::whole(4096, 1));
        }
        assert_eq!(went_ms(&mut queue), [5000, 5000, 5000, 5100]);
    }

    #[test]
    fn inside_a_bucket_the_peak_rate_holds() {
        let rate = Rate { per_second: 10, burst: 8, peak: Some(100), quantum: 1 };
        let mut queue = queue(Rates { bps: None, iops: Some(rate) });
        for _ in 0..9 {
            queue.submit(Instant::ZERO, Cost::whole(4096, 1));
        }
        assert_eq!(went_ms(&mut queue), [0, 0, 0, 0, 10, 20, 30, 40, 100]);
    }

    #[test]
    fn the_longer_wait_wins() {
        let rates = Rates { bps: rate(1000, 1000), iops: rate(10, 1) };
        let mut token = Token::new(Instant::ZERO, rates);
        token.charge(Instant::ZERO, Cost::whole(1000, 1));
        let mut check = |bytes| token.check(Instant::ZERO, Cost::whole(bytes, 1), Arrival::Queued);
        let wait = |ms, because| Verdict::Wait { until: Instant::from_millis(ms), because };
        assert_eq!(check(200), wait(200, Resource::Bytes));
        assert_eq!(check(50), wait(100, Resource::Ios));
        assert_eq!(check(0), wait(100, Resource::Ios));
    }

    #[test]
    fn a_new_rate_pays_what_is_left() {
        let mut queue = queue(bps(1000, 1000));
        queue.submit(Instant::ZERO, Cost::whole(1000, 1));
        queue.submit(Instant::ZERO, Cost::whole(500, 1));
        assert_eq!(queue.limiter.credit(Instant::from_millis(250), Resource::Bytes), Some(250));
        queue.set_rates(Instant::from_millis(250), bps(2000, 1000));
        assert_eq!(went_ms(&mut queue), [0, 375]);
        assert_eq!(queue.limiter.credit(Instant::from_millis(60_000), Resource::Bytes), Some(1000));
        assert_eq!(queue.limiter.credit(Instant::ZERO, Resource::Ios), None);
    }
}
