//! Properties for every rate, burst and order of arrival: spec/throttle 4, at a single queue.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Gcra, Pace};
use crate::throttle::limiter::{Arrival, Limiter, Rate, Rates, Verdict};
use crate::throttle::single::{Single, arrivals, cases, excess};
use crate::types::{Cost, Instant, Resource};

fn rate(per_second: u64, burst: u64) -> Rate {
    Rate { per_second, burst, peak: None, quantum: 1 }
}

/// Both limits, of which sometimes one and sometimes the other binds.
fn rates() -> impl Strategy<Value = Rates> {
    (1_000..20_000_000u64, 1..400_000u64, 1..2_000u64, 1..50u64).prop_map(
        |(bps, byte_burst, iops, io_burst)| Rates {
            bps: Some(rate(bps, byte_burst)),
            iops: Some(rate(iops, io_burst)),
        },
    )
}

fn queue(now: Instant, rates: Rates) -> Single<Pace> {
    Single::new(Pace::new(now, rates))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn p1_a_window_sees_its_rate_the_burst_and_one_request(
        rates in rates(), arrivals in arrivals(), late_nanos in 0..3_000_000u64,
    ) {
        let mut queue = queue(Instant::ZERO, rates);
        queue.late_nanos = late_nanos;
        let went = queue.run(Instant::ZERO, &arrivals);
        let (bps, iops) = (rates.bps.unwrap(), rates.iops.unwrap());
        let largest = arrivals.iter().map(|arrival| arrival.1).max().unwrap();
        let bytes = i128::from(bps.burst + largest) * 1_000_000_000;
        prop_assert!(excess(&went, Resource::Bytes, bps.per_second) <= bytes);
        let ios = i128::from(iops.burst + 1) * 1_000_000_000;
        prop_assert!(excess(&went, Resource::Ios, iops.per_second) <= ios);
    }

    #[test]
    fn p1_holds_for_the_peak_too(
        per_second in 1..100u64, burst in 1..1_000u64, peak in 100..2_000u64, arrivals in arrivals(),
    ) {
        let limit = Rate { peak: Some(peak), ..rate(per_second, burst) };
        let queue = queue(Instant::ZERO, Rates { bps: None, iops: Some(limit) });
        let went = queue.run(Instant::ZERO, &arrivals);
        let allowed = |burst: u64| i128::from(burst + 1) * 1_000_000_000;
        prop_assert!(excess(&went, Resource::Ios, per_second) <= allowed(burst));
        prop_assert!(excess(&went, Resource::Ios, peak) <= allowed(1 + peak / 200));
    }

    #[test]
    fn p2_a_backlog_goes_at_exactly_the_rate(
        per_second in 1..3_000_000_000u64, burst in 1..100u64, count in 1..200u64,
    ) {
        let mut gcra = Gcra::new(Instant::ZERO, &rate(per_second, burst), Resource::Ios);
        let mut now = Instant::ZERO;
        for _ in 0..burst + count {
            now = now.max(gcra.ready_at());
            gcra.charge(now, 1);
        }
        // The last one went when `count` of them were earned, rounded up once and not `count` times.
        let due = (u128::from(count) * 1_000_000_000).div_ceil(u128::from(per_second));
        prop_assert_eq!(u128::from(now.as_nanos()), due);
    }

    #[test]
    fn p5_nothing_goes_a_nanosecond_early_and_asking_changes_nothing(
        rates in rates(), arrivals in arrivals(), asks in vec(0..40_000_000u64, 1..60),
    ) {
        let expected = queue(Instant::ZERO, rates).run(Instant::ZERO, &arrivals);
        let mut asked = queue(Instant::ZERO, rates);
        let mut now = Instant::ZERO;
        for (&(gap, bytes), ask) in arrivals.iter().zip(asks.iter().cycle()) {
            asked.ask(now.plus_nanos(ask % gap.max(1)));
            now = now.plus_nanos(gap);
            asked.submit(now, Cost::whole(bytes, 1));
        }
        while let Some(timer) = asked.timer() {
            asked.ask(timer.minus_nanos(1));
            asked.run_until(timer);
        }
        prop_assert_eq!(asked.went, expected);
    }

    #[test]
    fn p9_what_was_earned_before_a_change_counts_after_it(
        burst in 1..1_000u64,
        debt in 1_001..1_000_000u64,
        changes in vec((1..100_000u64, 1..2_000_000_000u64), 1..8),
    ) {
        let burst_of = burst + 4096;
        let mut gcra = Gcra::new(Instant::ZERO, &rate(changes[0].0, burst_of), Resource::Bytes);
        gcra.charge(Instant::ZERO, debt);
        let (mut now, mut earned) = (Instant::ZERO, 0u128);
        let needed = u128::from(debt - burst) * 1_000_000_000;
        for (per_second, nanos) in changes {
            gcra.set_rate(now, &rate(per_second, burst_of), Resource::Bytes);
            let ready = gcra.ready_at();
            let missing = (needed - earned).div_ceil(u128::from(per_second));
            prop_assert_eq!(u128::from(ready.nanos_since(now)), missing);
            if missing <= u128::from(nanos) {
                break;
            }
            now = now.plus_nanos(nanos);
            earned += u128::from(per_second) * u128::from(nanos);
        }
    }

    #[test]
    fn p9_raising_never_delays_and_lowering_never_advances(
        old in 1..u64::MAX - 1,
        new in 1..u64::MAX - 1,
        shift in 0..63u32,
        burst in 1..1_000_000u64,
        charges in vec((0..1_000_000u64, 1..u64::from(u32::MAX)), 1..10),
    ) {
        // Rates of every magnitude.
        let (old, new) = ((old >> shift).max(1), (new >> shift).max(1));
        for resource in [Resource::Bytes, Resource::Ios] {
            let mut gcra = Gcra::new(Instant::ZERO, &rate(old, burst), resource);
            let mut now = Instant::ZERO;
            for &(gap, amount) in &charges {
                now = now.plus_nanos(gap);
                gcra.charge(now, amount);
            }
            let before = gcra.ready_at().max(now);
            gcra.set_rate(now, &rate(new, burst), resource);
            let after = gcra.ready_at().max(now);
            let kept = if new >= old { after <= before } else { after >= before };
            prop_assert!(kept, "{before:?} became {after:?}");
        }
    }

    #[test]
    fn p22_the_whole_range_of_numbers_is_safe(steps in vec(extreme_step(), 1..30)) {
        let mut pace = Pace::default();
        let mut now = Instant::ZERO;
        for (gap, cost, rates) in steps {
            now = now.plus_nanos(gap);
            if let Some(rates) = rates {
                pace.set_rates(now, rates, true);
            }
            match pace.check(now, cost, Arrival::Queued) {
                Verdict::Go => pace.charge(now, cost),
                Verdict::Wait { until, .. } => {
                    prop_assert!(until > now);
                    prop_assert_eq!(pace.check(until, cost, Arrival::Queued), Verdict::Go);
                }
            }
            pace.charge(now, Cost::whole(cost.bytes, 0));
        }
    }

    #[test]
    fn p23_the_same_arrivals_later_go_the_same_later(
        rates in rates(), arrivals in arrivals(), shift in 0..u64::MAX / 2,
    ) {
        let now = queue(Instant::ZERO, rates).run(Instant::ZERO, &arrivals);
        let start = Instant::from_nanos(shift);
        let later = queue(start, rates).run(start, &arrivals);
        for ((at, cost), (later_at, later_cost)) in now.into_iter().zip(later) {
            prop_assert_eq!((at.plus_nanos(shift), cost), (later_at, later_cost));
        }
    }
}

/// Numbers of every magnitude from 1 to `most`.
fn magnitudes(most: u64) -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(move |(value, shift)| (value >> shift).clamp(1, most))
}

fn extreme_rate() -> impl Strategy<Value = Rate> {
    let peak = proptest::option::of(magnitudes(u64::MAX - 1));
    (magnitudes(u64::MAX - 1), magnitudes(u64::MAX), peak)
        .prop_map(|(per_second, burst, peak)| Rate { per_second, burst, peak, quantum: 1 })
}

/// Time that passes, the next head, and perhaps other limits.
pub(crate) fn extreme_step() -> impl Strategy<Value = (u64, Cost, Option<Rates>)> {
    let gap = prop_oneof![Just(0), magnitudes(1 << 63)];
    let cost = (magnitudes(u64::from(u32::MAX)), magnitudes(u64::from(u32::MAX)));
    let limit = || proptest::option::of(extreme_rate());
    let rates = (limit(), limit()).prop_map(|(bps, iops)| Rates { bps, iops });
    (gap, cost, proptest::option::of(rates))
        .prop_map(|(gap, (bytes, ios), rates)| (gap, Cost::whole(bytes, ios), rates))
}
