//! Odd input and odd devices: what is documented happens, and nothing is stuck.

use weir_engine::settings::SliceProfile;
use weir_engine::{Instant, LimiterKind, Limits, PerDimension};

use super::world::{Ask, MIB, Tenant, World, close};

const M: f64 = MIB as f64;

fn two_to_one() -> [Tenant; 2] {
    [Tenant::limited("wbps=4M"), Tenant::limited("wbps=2M")]
}

#[test]
fn a_limit_below_one_request_is_a_share_like_any_other() {
    // One byte a second and two: a request of 64 KiB is paid for in a day, or with the disk idle, at once.
    let mut world = World::new("90", &[Tenant::limited("wbps=2"), Tenant::limited("wbps=1")]);
    // The clock of these limits goes ten days in each of these seconds, and is set back now and then.
    world.run(21_000);
    let (first, second) = (world.rate(0, 1000, 21_000), world.rate(1, 1000, 21_000));
    close("ratio", first / second, 2.0, 2.0);
    assert!(first + second >= 0.98 * 20.0 * M);
}

#[test]
fn centuries_of_debt_do_not_overflow() {
    let whole = |max| Tenant { len: u32::MAX / 4096 * 4096, ..Tenant::limited(max) };
    let mut world =
        World::new("90", &[whole("wbps=1"), whole("wiops=1"), Tenant::limited("wbps=1")]);
    world.ns_per_mib = 1000;
    for second in 0..60 {
        world.run(second * 1000);
        world.engine.check().unwrap();
    }
    // The first needs 136 years of its limit before it goes, and has paid for days.
    assert!(world.done[1..].iter().all(|&bytes| bytes > 0), "{:?}", world.done);
    assert_eq!(world.engine.audit().part_paid[1].bytes, u128::from(MIB));
}

#[test]
fn a_disk_that_changes_speed_tenfold_is_used_up() {
    let mut world = World::new("90", &two_to_one());
    let mut from = 0;
    for (ns_per_mib, until) in [
        (50_000_000, 4_000),
        (100_000_000, 8_000),
        (10_000_000, 12_000),
        (1_000_000, 14_000),
        (50_000_000, 18_000),
    ] {
        world.ns_per_mib = ns_per_mib;
        world.run(until);
        let (first, second) =
            (world.rate(0, from + 1_000, until) / M, world.rate(1, from + 1_000, until) / M);
        close("ratio", first / second, 2.0, 3.0);
        close("total", first + second, 0.99e9 / ns_per_mib as f64, 1.5);
        from = until;
    }
}

#[test]
fn a_disk_slower_than_the_limits_stays_busy() {
    let mut world = World::new("90", &two_to_one());
    world.ns_per_mib = 500_000_000;
    world.run(10_000);
    close("total", world.total(1000, 10_000) / M, 2.0, 2.0);
    assert_eq!(world.multiplier(), 1.0);
}

#[test]
fn a_clock_that_jumps_ahead_lets_no_more_go_than_a_burst() {
    let mut world = World::new("90", &two_to_one());
    world.run(3_000);
    let before = world.dispatched.len();
    let hour = Instant::from_millis(3_600_000);
    world.engine.handle_timeout(hour);
    while world.engine.poll_dispatch(hour).is_some() {}
    world.engine.check().unwrap();
    assert!(world.dispatched.len() - before <= 2);
    // And one that is set back is taken for one that stands still.
    world.engine.handle_timeout(Instant::from_millis(5));
    world.engine.check().unwrap();
    assert!(world.engine.poll_timeout().is_none_or(|at| at >= hour));
}

#[test]
fn a_tenant_that_never_completes_leaves_the_others_their_limits() {
    let never = Tenant { max: "", ..Tenant::limited("") }.between(2_000, 2_001);
    let [first, second] = two_to_one();
    for watermark in ["90", "90 mode=gate period=100ms"] {
        let mut world = World::new(watermark, &[first, second, never]);
        world.never_completes = Some(2);
        world.run(8_000);
        // The device has had a request ever since: it is busy, and limits bind.
        close("first", world.rate(0, 3_000, 8_000) / M, 4.0, 2.0);
        close("second", world.rate(1, 3_000, 8_000) / M, 2.0, 2.0);
    }
}

#[test]
fn a_limited_tenant_that_never_completes_leaves_the_others_their_limits() {
    let [first, second] = two_to_one();
    let never = Tenant::limited("wbps=1M").between(2_000, 2_001);
    let mut world = World::new("90", &[first, second, never]);
    world.never_completes = Some(2);
    world.run(8_000);
    close("first", world.rate(0, 3_000, 8_000) / M, 4.0, 2.0);
    close("second", world.rate(1, 3_000, 8_000) / M, 2.0, 2.0);
}

#[test]
fn every_limiter_uses_the_virtual_clock() {
    let kernel = SliceProfile {
        kernel: weir_engine::settings::KernelProfile::K612,
        hz: 1000,
        slice_ticks: 100,
    };
    for limiter in
        [LimiterKind::Pace, LimiterKind::Token, LimiterKind::Leaky, LimiterKind::Slice(kernel)]
    {
        let deep =
            |max| Tenant { ask: Ask::Closed { depth: 8, think_us: 0 }, ..Tenant::limited(max) };
        let mut world = World::new("90", &[deep(""), deep("")]);
        for (tenant, text) in ["wbps=4M", "wbps=2M"].into_iter().enumerate() {
            let max = weir_text::parse_io_max(text, PerDimension::NONE).unwrap();
            world.set_limits(tenant, Limits { max, limiter, ..Limits::default() });
        }
        world.run(11_000);
        let (first, second) = (world.rate(0, 1000, 11_000), world.rate(1, 1000, 11_000));
        close(&format!("{limiter:?}"), first / second, 2.0, 5.0);
        assert!(first + second >= 0.95 * 20.0 * M, "{limiter:?}: {}", (first + second) / M);
    }
}
