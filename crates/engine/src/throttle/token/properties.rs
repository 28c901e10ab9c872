//! Properties of io-throttle's buckets at every rate: spec/throttle 4, at a single queue.

use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::Token;
use crate::throttle::leaky::Leaky;
use crate::throttle::limiter::{Arrival, Limiter, Rate, Rates, Verdict};
use crate::throttle::pace::properties::extreme_step;
use crate::throttle::single::{Single, arrivals, cases, excess};
use crate::types::{Cost, Instant, Limits, Resource};

const NANOS: i128 = 1_000_000_000;
/// What a leaky bucket forgives a late timer.
const LATE_NANOS: i128 = 10_000_000;

fn rate(per_second: u64, burst: u64) -> Rate {
    Rate { per_second, burst, peak: None, quantum: 1 }
}

fn rates() -> impl Strategy<Value = Rates> {
    (1_000..20_000_000u64, 1..400_000u64, 1..2_000u64, 1..50u64).prop_map(
        |(bps, byte_burst, iops, io_burst)| Rates {
            bps: Some(rate(bps, byte_burst)),
            iops: Some(rate(iops, io_burst)),
        },
    )
}

fn token(now: Instant, rates: Rates) -> Single<Token> {
    Single::new(Token::new(now, rates))
}

fn leaky(now: Instant, rates: Rates) -> Single<Leaky> {
    Single::new(Leaky::new(now, rates))
}

/// `arrivals` with questions in between without effect.
fn run_asking<L: Limiter>(
    mut queue: Single<L>,
    arrivals: &[(u64, u64)],
    asks: &[u64],
) -> Vec<(Instant, Cost)> {
    let mut now = Instant::ZERO;
    for (&(gap, bytes), ask) in arrivals.iter().zip(asks.iter().cycle()) {
        queue.ask(now.plus_nanos(ask % gap.max(1)));
        now = now.plus_nanos(gap);
        queue.submit(now, Cost::whole(bytes, 1));
    }
    while let Some(timer) = queue.timer() {
        queue.ask(timer.minus_nanos(1));
        queue.run_until(timer);
    }
    queue.went
}

/// Steps at the ends of the range; whatever happens, a wait is one and ends.
fn survives(
    mut limiter: impl Limiter,
    steps: Vec<(u64, Cost, Option<Rates>)>,
) -> Result<(), TestCaseError> {
    let mut now = Instant::ZERO;
    for (at, (gap, cost, rates)) in steps.into_iter().enumerate() {
        now = now.plus_nanos(gap);
        if let Some(rates) = rates {
            limiter.set_rates(now, rates, true);
        }
        let arrival = if at % 2 == 0 { Arrival::Fresh } else { Arrival::Queued };
        match limiter.check(now, cost, arrival) {
            Verdict::Go => limiter.charge(now, cost),
            Verdict::Wait { until, .. } => {
                prop_assert!(until > now);
                prop_assert_eq!(limiter.check(until, cost, Arrival::Queued), Verdict::Go);
            }
        }
        limiter.charge(now, Cost::whole(cost.bytes, 0));
    }
    Ok(())
}

/// A queued head of `needed` more than there is, under rates that change: it goes when they have earned it.
fn counts_what_was_earned<L: Limiter>(
    mut limiter: L,
    needed: u64,
    head: Cost,
    changes: &[(u64, u64)],
) -> Result<(), TestCaseError> {
    let needed = u128::from(needed) * NANOS.unsigned_abs();
    let (mut now, mut earned) = (Instant::ZERO, 0u128);
    for &(per_second, nanos) in changes {
        limiter.set_rates(now, Rates { bps: Some(rate(per_second, 1000)), iops: None }, true);
        let missing = (needed - earned).div_ceil(u128::from(per_second));
        let expected = now.plus_nanos(u64::try_from(missing).expect("small rates and debts"));
        let wait = Verdict::Wait { until: expected, throttled_by: Resource::Bytes };
        prop_assert_eq!(limiter.check(now, head, Arrival::Queued), wait);
        if missing <= u128::from(nanos) {
            break;
        }
        now = now.plus_nanos(nanos);
        earned += u128::from(per_second) * u128::from(nanos);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn p1_token_a_window_sees_its_rate_the_bucket_and_one_request(
        rates in rates(), arrivals in arrivals(), late_nanos in 0..3_000_000u64,
    ) {
        let mut queue = token(Instant::ZERO, rates);
        queue.late_nanos = late_nanos;
        let went = queue.run(Instant::ZERO, &arrivals);
        let (bps, iops) = (rates.bps.unwrap(), rates.iops.unwrap());
        let largest = arrivals.iter().map(|arrival| arrival.1).max().unwrap();
        let bytes = i128::from(bps.burst + largest) * NANOS;
        prop_assert!(excess(&went, Resource::Bytes, bps.per_second) <= bytes);
        let ios = i128::from(iops.burst + 1) * NANOS;
        prop_assert!(excess(&went, Resource::Ios, iops.per_second) <= ios);
    }

    /// Besides what late timers are forgiven, which is one request at least.
    #[test]
    fn p1_leaky_a_window_sees_its_rate_and_one_request(
        rates in rates(), arrivals in arrivals(), late_nanos in 0..3_000_000u64,
    ) {
        let mut queue = leaky(Instant::ZERO, rates);
        queue.late_nanos = late_nanos;
        let went = queue.run(Instant::ZERO, &arrivals);
        let (bps, iops) = (rates.bps.unwrap().per_second, rates.iops.unwrap().per_second);
        let late = |per_second, least| (i128::from(per_second) * LATE_NANOS).max(least * NANOS);
        let largest = i128::from(arrivals.iter().map(|arrival| arrival.1).max().unwrap());
        let bytes = largest * NANOS + late(bps, i128::from(Limits::INSTALMENT_BYTES_MIN));
        prop_assert!(excess(&went, Resource::Bytes, bps) <= bytes);
        prop_assert!(excess(&went, Resource::Ios, iops) <= NANOS + late(iops, 1));
    }

    #[test]
    fn p2_a_backlog_goes_at_exactly_the_rate(
        per_second in 1..1_000_000_000u64, burst in 1..100u64, count in 2..200u64,
    ) {
        let arrivals = alloc::vec![(0, 1); usize::try_from(burst + count).unwrap()];
        let rates = Rates { bps: None, iops: Some(rate(per_second, burst)) };
        let due = |ios: u64| (u128::from(ios) * NANOS.unsigned_abs()).div_ceil(u128::from(per_second));
        let went = token(Instant::ZERO, rates).run(Instant::ZERO, &arrivals);
        prop_assert_eq!(u128::from(went[went.len() - 1].0.as_nanos()), due(count));
        // The meter is made at 0 and asked from 1 ns on, when nothing has leaked yet.
        let start = Instant::from_nanos(1);
        let went = leaky(Instant::ZERO, rates).run(start, &arrivals);
        prop_assert_eq!(u128::from(went[went.len() - 1].0.as_nanos()), due(burst + count));
    }

    #[test]
    fn p5_nothing_goes_a_nanosecond_early_and_asking_changes_nothing(
        rates in rates(), arrivals in arrivals(), asks in vec(0..40_000_000u64, 1..60),
    ) {
        let expected = token(Instant::ZERO, rates).run(Instant::ZERO, &arrivals);
        prop_assert_eq!(run_asking(token(Instant::ZERO, rates), &arrivals, &asks), expected);
        let expected = leaky(Instant::ZERO, rates).run(Instant::ZERO, &arrivals);
        prop_assert_eq!(run_asking(leaky(Instant::ZERO, rates), &arrivals, &asks), expected);
    }

    #[test]
    fn p9_what_was_earned_before_a_change_counts_after_it(
        debt in 1..1_000_000u64,
        bytes in 1..4_096u64,
        changes in vec((1..100_000u64, 1..2_000_000_000u64), 1..8),
    ) {
        let rates = Rates { bps: Some(rate(changes[0].0, 1000)), iops: None };
        let head = Cost::whole(bytes, 1);
        let mut token = Token::new(Instant::ZERO, rates);
        // As much as one instalment is in the bucket.
        token.charge(Instant::ZERO, Cost::whole(4096 + debt, 1));
        counts_what_was_earned(token, debt + bytes, head, &changes)?;
        let mut leaky = Leaky::new(Instant::ZERO, rates);
        leaky.charge(Instant::ZERO, Cost::whole(debt, 1));
        counts_what_was_earned(leaky, debt + bytes, head, &changes)?;
    }

    #[test]
    fn p22_the_whole_range_of_numbers_is_safe(steps in vec(extreme_step(), 1..30)) {
        survives(Token::default(), steps.clone())?;
        survives(Leaky::default(), steps)?;
    }

    #[test]
    fn p23_the_same_arrivals_later_go_the_same_later(
        rates in rates(), arrivals in arrivals(), shift in 0..u64::MAX / 2,
    ) {
        let start = Instant::from_nanos(shift);
        let later = |went: Vec<(Instant, Cost)>| -> Vec<(Instant, Cost)> {
            went.into_iter().map(|(at, cost)| (at.plus_nanos(shift), cost)).collect()
        };
        let now = token(Instant::ZERO, rates).run(Instant::ZERO, &arrivals);
        prop_assert_eq!(later(now), token(start, rates).run(start, &arrivals));
        let now = leaky(Instant::ZERO, rates).run(Instant::ZERO, &arrivals);
        prop_assert_eq!(later(now), leaky(start, rates).run(start, &arrivals));
    }
}
