//! Properties for every kernel, rate and order of arrival: spec/throttle 4, at a single queue.

use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::Slice;
use crate::throttle::limiter::{Arrival, Limiter, Rate, Rates, Verdict};
use crate::throttle::pace::properties::extreme_step;
use crate::throttle::single::{Single, arrivals, cases, excess};
use crate::types::KernelProfile::{self, *};
use crate::types::{Cost, Instant, Resource, SliceProfile};

const NANOS: i128 = 1_000_000_000;

fn rate(per_second: u64) -> Option<Rate> {
    Some(Rate { per_second, burst: 1, peak: None, quantum: 1 })
}

/// Kernels with 100 ms slices at the common tick rates, and 20 ms slices.
fn profile() -> impl Strategy<Value = SliceProfile> {
    let kernel = prop::sample::select(Vec::from([K418, K419a, K419, K61, K612, K615]));
    let clock = prop::sample::select(Vec::from([(1000, 100), (250, 25), (100, 10), (1000, 20)]));
    (kernel, clock).prop_map(|(kernel, (hz, slice_ticks))| SliceProfile { kernel, hz, slice_ticks })
}

fn queue(now: Instant, profile: SliceProfile, rates: Rates) -> Single<Slice> {
    Single::new(Slice::new(now, profile, rates))
}

/// Units allowed in one slice, in 1e-9.
fn slice_of(profile: SliceProfile, per_second: u64) -> i128 {
    i128::from(per_second) * i128::from(profile.slice_ticks) * NANOS / i128::from(profile.hz)
}

/// Slices' worth that a window may see beyond its rate.
fn slices_beyond(kernel: KernelProfile) -> i128 {
    if kernel == K615 { 3 } else { 2 }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn p1_a_window_sees_its_rate_two_slices_and_one_request(
        profile in profile(), bps in 10_000..20_000_000u64, iops in 50..2_000u64,
        arrivals in arrivals(), late_ticks in 0..2u64, both in 0..3,
    ) {
        let rates = Rates {
            bps: rate(bps).filter(|_| both != 1),
            iops: rate(iops).filter(|_| both != 2),
        };
        let mut queue = queue(Instant::ZERO, profile, rates);
        queue.late_nanos = late_ticks * 1_000_000_000 / u64::from(profile.hz);
        // Time passes in ticks: between two of them a window is as long as the tick that it ends in.
        let tick = 1_000_000_000 / u64::from(profile.hz);
        let whole: Vec<(u64, u64)> =
            arrivals.iter().map(|&(gap, bytes)| (gap / tick * tick, bytes)).collect();
        let went = queue.run(Instant::ZERO, &whole);
        let beyond = slices_beyond(profile.kernel);
        if rates.bps.is_some() {
            let largest = arrivals.iter().map(|arrival| arrival.1).max().unwrap();
            let beta = beyond * slice_of(profile, bps) + i128::from(largest) * NANOS;
            prop_assert!(excess(&went, Resource::Bytes, bps) <= beta);
        }
        if rates.iops.is_some() {
            let beta = beyond * slice_of(profile, iops) + NANOS;
            prop_assert!(excess(&went, Resource::Ios, iops) <= beta);
        }
    }

    #[test]
    fn p5_a_wait_is_at_least_a_tick(
        profile in profile(), bps in 1..20_000_000u64, iops in 1..2_000u64, arrivals in arrivals(),
    ) {
        let mut slice =
            Slice::new(Instant::ZERO, profile, Rates { bps: rate(bps), iops: rate(iops) });
        let tick_of = |at: Instant| at.as_nanos() * u64::from(profile.hz) / 1_000_000_000;
        let mut now = Instant::ZERO;
        let mut arrival = Arrival::Fresh;
        for (gap, bytes) in arrivals {
            now = now.plus_nanos(gap);
            let cost = Cost::whole(bytes, 1);
            let verdict = slice.check(now, cost, arrival);
            match verdict {
                Verdict::Go => {
                    slice.charge(now, cost);
                    arrival = Arrival::Fresh;
                }
                Verdict::Wait { until, .. } => {
                    prop_assert!(tick_of(until) > tick_of(now));
                    prop_assert_eq!(slice.check(now, cost, Arrival::Queued), verdict);
                    arrival = Arrival::Queued;
                }
            }
        }
    }

    /// One queued request under limits that change: the earned sum is its size, to a slice and a tick.
    #[test]
    fn p9_carry(
        signed in any::<bool>(), bytes in 100_000..2_000_000u64,
        changes in vec((1_000..300_000u64, 1..3_000u64), 1..8),
    ) {
        let kernel = if signed { K612 } else { K61 };
        let profile = SliceProfile { kernel, hz: 1000, slice_ticks: 100 };
        let limits = |per_second| Rates { bps: rate(per_second), iops: None };
        let mut queue = queue(Instant::ZERO, profile, limits(changes[0].0));
        queue.submit(Instant::ZERO, Cost::whole(bytes, 1));
        prop_assume!(queue.is_waiting());
        let mut now_ms = 0;
        let (mut earned, mut largest) = (0, 0);
        let mut last = (0, changes[0].0);
        for (at, &(per_second, ms)) in changes.iter().enumerate() {
            if at > 0 {
                queue.set_rates(Instant::from_millis(now_ms), limits(per_second));
            }
            largest = largest.max(per_second);
            last = (now_ms, per_second);
            if at + 1 == changes.len() {
                queue.drain();
            } else {
                // Timers at the instant of a change go off before it.
                queue.run_until(Instant::from_millis(now_ms + ms));
            }
            if !queue.is_waiting() {
                break;
            }
            earned += per_second * ms;
            now_ms += ms;
        }
        let went_ms = queue.went[0].0.as_nanos() / 1_000_000;
        earned += (went_ms - last.0) * last.1;
        let off = (i128::from(earned) - i128::from(bytes) * 1000).abs();
        let allowed = i128::from(largest) * 101 + i128::try_from(changes.len()).unwrap() * 1000;
        prop_assert!(off <= allowed, "{off} > {allowed}");
    }

    #[test]
    fn p22_the_whole_range_of_numbers_is_safe(
        profile in profile(), steps in vec(extreme_step(), 1..30),
    ) {
        let mut slice = Slice::new(Instant::ZERO, profile, Rates::default());
        let mut now = Instant::ZERO;
        for (at, (gap, cost, rates)) in steps.into_iter().enumerate() {
            now = now.plus_nanos(gap);
            if let Some(rates) = rates {
                slice.set_rates(now, rates, at % 3 > 0);
            }
            let arrival = if at % 2 == 0 { Arrival::Fresh } else { Arrival::Queued };
            match slice.check(now, cost, arrival) {
                Verdict::Go => slice.charge(now, cost),
                Verdict::Wait { until, .. } => prop_assert!(until > now || now == Instant::FAR_FUTURE),
            }
            slice.charge(now, Cost::whole(cost.bytes, 0));
            slice.credit(now, slice.slice_start());
        }
    }

    #[test]
    fn p23_the_same_arrivals_whole_slices_later_go_the_same_later(
        profile in profile(), bps in 1_000..20_000_000u64, iops in 5..2_000u64,
        arrivals in arrivals(), seconds in 0..1_000_000_000u64,
    ) {
        let rates = Rates { bps: rate(bps), iops: rate(iops) };
        let now = queue(Instant::ZERO, profile, rates).run(Instant::ZERO, &arrivals);
        let start = Instant::from_millis(seconds * 1000);
        let later = queue(start, profile, rates).run(start, &arrivals);
        for ((at, cost), (later_at, later_cost)) in now.into_iter().zip(later) {
            prop_assert_eq!((at.plus_nanos(start.as_nanos()), cost), (later_at, later_cost));
        }
    }

    #[test]
    fn p2_a_backlog_goes_at_the_rate_less_what_slices_round_off(
        kernel in prop::sample::select(Vec::from([K418, K419a, K419, K61, K612, K615])),
        per_second in 10..300u64, bps in 100_000..4_000_000u64, bytes in 10_000..100_000u64,
    ) {
        let profile = SliceProfile { kernel, hz: 1000, slice_ticks: 100 };
        let went_in_10_s = |rates: Rates, cost: Cost, enough: u64| {
            let mut queue = queue(Instant::ZERO, profile, rates);
            for _ in 0..enough {
                queue.submit(Instant::ZERO, cost);
            }
            queue.run_until(Instant::from_millis(10_000));
            queue.went.len() as u64
        };
        let ios = went_in_10_s(
            Rates { bps: None, iops: rate(per_second) },
            Cost::whole(bytes, 1),
            per_second * 12,
        );
        // 99 in 100 of whole I/Os a slice, a hundred times.
        prop_assert!(ios * 100 >= 99 * (per_second / 10) * 100, "{ios}");
        let requests = went_in_10_s(
            Rates { bps: rate(bps), iops: None },
            Cost::whole(bytes, 1),
            bps * 12 / bytes + 10,
        );
        prop_assert!((requests + 1) * bytes * 100 >= 98 * bps * 10, "{requests}");
    }
}
