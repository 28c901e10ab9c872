//! Mode `gate`: io-throttle's switch, by samples of one period (spec/throttle 2.6 and P19).

use proptest::prelude::*;
use weir_engine::settings::SliceProfile;
use weir_engine::{Change, Class, Instant, LimiterKind, Limits, PerDimension};

use super::world::{Ask, MIB, Tenant, World, close};

const GATE: &str = "90 mode=gate period=100ms";

fn open(every_us: u64) -> Ask {
    Ask::Open { every_us }
}

#[test]
fn limits_bind_for_a_period_after_one_in_which_the_disk_was_busy() {
    // 64 KiB take 3.125 ms, so 32 at once keep the disk busy for the first period.
    let tenant =
        Tenant { ask: Ask::Closed { depth: 32, think_us: 0 }, ..Tenant::limited("wbps=64K") };
    let mut world = World::new(GATE, &[tenant]);
    world.run(99);
    assert!(world.engine.watermarks()[0].is_open, "nothing is known of the first period");
    assert_eq!(world.engine.device().throttled, 0);
    world.run(150);
    assert!(!world.engine.watermarks()[0].is_open);
    // What was under way goes on, and what comes back waits: 32 × 3.125 ms is one period.
    world.run(201);
    assert!(world.engine.device().throttled > 28, "{}", world.engine.device().throttled);
    world.run(300);
    assert!(world.engine.watermarks()[0].is_open, "hardly anything went in the second period");
    assert_eq!(world.engine.device().throttled, 0, "whatever waited has gone");
}

#[test]
fn below_the_watermark_no_request_waits_and_all_are_counted() {
    // 64 KiB each 10 ms: 31 % of the disk, and a hundred times the limit.
    let tenant = Tenant { ask: open(10_000), ..Tenant::limited("wbps=64K") };
    let mut world = World::new(GATE, &[tenant]);
    for ms in 0..2000 {
        world.run(ms);
        assert_eq!(world.engine.device().throttled, 0);
    }
    close("rate", world.rate(0, 0, 2000), 100.0 * 65_536.0, 1.0);
    let counters = world.engine.counters(world.cgroups[0], false).unwrap();
    assert_eq!(counters.throttled.iter().sum::<u64>(), 0);
}

/// What waits for a far deadline when limits cease to bind goes then, with every limiter.
#[test]
fn queued_requests_go_when_limits_are_lifted() {
    let slice = SliceProfile {
        kernel: weir_engine::settings::KernelProfile::K612,
        hz: 1000,
        slice_ticks: 100,
    };
    let slice = LimiterKind::Slice(slice);
    for limiter in [LimiterKind::Pace, LimiterKind::Token, LimiterKind::Leaky, slice] {
        let deep = Ask::Closed { depth: 32, think_us: 0 };
        let mut world = World::new(GATE, &[Tenant { ask: deep, ..Tenant::limited("") }]);
        let max = weir_text::parse_io_max("wbps=256K", PerDimension::NONE).unwrap();
        world.set_limits(0, Limits { max, limiter, ..Limits::default() });
        world.run(5_000);
        // Busy periods, in which it waits, and idle ones, in which it goes.
        assert!(world.rate(0, 1_000, 5_000) > 4.0 * MIB as f64, "{limiter:?}");
    }
}

#[test]
fn at_most_a_burst_is_owed_when_limits_bind_again() {
    for limiter in [LimiterKind::Pace, LimiterKind::Token, LimiterKind::Leaky] {
        let tenant = Tenant { ask: open(5_000), ..Tenant::limited("") };
        let other = Tenant { ask: Ask::Closed { depth: 4, think_us: 0 }, ..Tenant::limited("") };
        let mut world = World::new(GATE, &[tenant, other.between(1_000, 9_000)]);
        let max = weir_text::parse_io_max("wbps=1M", PerDimension::NONE).unwrap();
        world.set_limits(0, Limits { max, limiter, ..Limits::default() });
        // For a second it moves 12.5 MiB/s under a limit of 1, then the disk is full and the limit binds.
        world.run(9_000);
        close("lifted", world.rate(0, 0, 1_000) / MIB as f64, 12.5, 2.0);
        close("bound", world.rate(0, 1_300, 9_000) / MIB as f64, 1.0, 3.0);
    }
}

/// Metadata goes over the limit and leaves a debt. Once limits have ceased to bind no more than a burst of it is left, also
/// without requests meanwhile.
#[test]
fn a_debt_is_capped_when_limits_cease_to_bind() {
    let slice = SliceProfile {
        kernel: weir_engine::settings::KernelProfile::K612,
        hz: 1000,
        slice_ticks: 100,
    };
    let both = [LimiterKind::Pace, LimiterKind::Token, LimiterKind::Leaky];
    let cases = both.map(|limiter| (limiter, "rwbps=1M")).into_iter();
    let cases = cases.chain(both.map(|limiter| (limiter, "wbps=1M")));
    for (limiter, line) in cases.chain([(LimiterKind::Slice(slice), "wbps=1M")]) {
        let at = |ms| Ask::At { ms };
        let metadata = Tenant {
            ask: at(&[150]),
            len: 16 * MIB as u32,
            class: Class::Metadata,
            ..Tenant::limited("")
        };
        let data = Tenant { ask: at(&[2_000]), len: 4096, ..Tenant::limited("") };
        let deep = Ask::Closed { depth: 4, think_us: 0 };
        let others = Tenant { ask: deep, ..Tenant::limited("") };
        let (early, late) = (others.between(0, 190), others.between(1_700, 3_000));
        let mut world = World::new(GATE, &[metadata, data, early, late]);
        let max = weir_text::parse_io_max(line, PerDimension::NONE).unwrap();
        world.set_limits(0, Limits { max, limiter, ..Limits::default() });
        let (cgroup, parent) = (world.cgroups[1], world.cgroups[0]);
        world.engine.reconfigure(Instant::ZERO, Change::Move { cgroup, parent }).unwrap();
        world.run(1_999);
        assert!(!world.engine.watermarks()[0].is_open, "the disk has been full since 1,700 ms");
        world.run(20_000);
        let went = world.dispatched.iter().find(|went| went.1 == 1).unwrap().0;
        assert!(went < Instant::from_millis(2_010), "{limiter:?} {line}: at {went:?}");
    }
}

/// What the samples say, reckoned from what the disk did.
fn expected_open(world: &mut World, percent: u64, period_ms: u64, periods: u64) -> Vec<bool> {
    let mut open = vec![true];
    let mut before = 0;
    for period in 0..periods {
        world.run((period + 1) * period_ms - 1);
        // The last millisecond in steps that end at the boundary.
        world.run((period + 1) * period_ms);
        let busy = world.busy_ns() - before;
        before = world.busy_ns();
        open.push(busy * 100 < period_ms * 1_000_000 * percent);
        let now = world.engine.watermarks()[0].is_open;
        assert_eq!(now, *open.last().unwrap(), "after period {period}");
        assert!(!now || world.engine.device().throttled == 0, "open, and some wait");
    }
    open
}

fn tenant() -> impl Strategy<Value = Tenant> {
    let max = prop_oneof![
        Just(""),
        Just("wbps=1M"),
        Just("wbps=3M"),
        Just("wiops=20"),
        Just("wbps=8M wiops=90")
    ];
    let ask = prop_oneof![
        (500..40_000u64).prop_map(|every_us| Ask::Open { every_us }),
        (1..6u32, 0..9_000u64).prop_map(|(depth, think_us)| Ask::Closed { depth, think_us }),
    ];
    (max, ask, 4..40u32, 0..500u64, 200..1500u64).prop_map(
        |(max, ask, pages, from_ms, lasts_ms)| {
            let tenant = Tenant { ask, len: pages * 4096, ..Tenant::limited(max) };
            tenant.between(from_ms, from_ms + lasts_ms)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// spec/throttle P19: after a period below the watermark nothing waits, and something waits only after one at or
    /// above it.
    #[test]
    fn p19_what_waits_waits_for_a_busy_disk(
        tenants in prop::collection::vec(tenant(), 1..5),
        percent in 1..=100u64,
    ) {
        let mut world = World::new(&format!("{percent} mode=gate period=50ms"), &tenants);
        expected_open(&mut world, percent, 50, 30);
    }

    /// spec/throttle P19: a watermark of 0 is none.
    #[test]
    fn p19_a_watermark_of_nothing_is_none(tenants in prop::collection::vec(tenant(), 1..5)) {
        let mut zero = World::new("0 mode=gate", &tenants);
        let mut none = World::new("90", &tenants);
        let root = none.engine.root();
        let change = Change::SetWatermark { cgroup: root, watermark: None };
        none.engine.reconfigure(Instant::ZERO, change).unwrap();
        zero.run(2000);
        none.run(2000);
        prop_assert_eq!(&zero.log, &none.log);
        prop_assert!(zero.engine.device().utilisation.is_none());
    }

    /// spec/throttle P19: with a watermark that is never reached, all goes as if there were no limits.
    #[test]
    fn p19_a_watermark_that_is_not_reached_is_no_limit(
        every_us in prop::collection::vec(20_000..60_000u64, 1..4),
    ) {
        // 64 KiB take 3.125 ms: three such are 47 % of the disk at most.
        let tenant = |max| move |&every_us| Tenant { ask: open(every_us), ..Tenant::limited(max) };
        let limited: Vec<Tenant> = every_us.iter().map(tenant("wbps=4K")).collect();
        let unlimited: Vec<Tenant> = every_us.iter().map(tenant("")).collect();
        let mut limited = World::new("60 mode=gate period=100ms", &limited);
        let mut unlimited = World::new("60 mode=gate period=100ms", &unlimited);
        limited.run(2000);
        unlimited.run(2000);
        prop_assert_eq!(&limited.log, &unlimited.log);
    }
}
