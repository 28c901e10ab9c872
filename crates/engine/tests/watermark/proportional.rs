//! Mode `proportional`: all of the disk, in the ratio of the limits, and at once nothing but the limits.

use super::world::{Ask, MIB, Tenant, World, close};
use weir_engine::SchedulerKind;

const M: f64 = MIB as f64;

fn two_to_one() -> [Tenant; 2] {
    [Tenant::limited("wbps=4M"), Tenant::limited("wbps=2M")]
}

#[test]
fn two_tenants_take_all_of_an_idle_disk_in_the_ratio_of_their_limits() {
    for scheduler in [SchedulerKind::None, SchedulerKind::Bfq] {
        for watermark in ["1", "90", "100"] {
            let mut world = World::with_scheduler(watermark, &two_to_one(), scheduler);
            world.run(11_000);
            let (first, second) = (world.rate(0, 1000, 11_000), world.rate(1, 1000, 11_000));
            close("ratio", first / second, 2.0, 1.0);
            // BFQ keeps the disk free for a moment where it waits for the one in service; that is its own choice.
            let least = if scheduler == SchedulerKind::Bfq { 0.97 } else { 0.98 };
            let total = (first + second) / (20.0 * M);
            assert!(total >= least, "{scheduler:?}, watermark {watermark}: {total}");
            close("multiplier", world.multiplier(), 20.0 * 0.99 / 6.0, 3.0);
        }
    }
}

#[test]
fn a_kept_reserve_stays_free() {
    for percent in [10.0, 50.0, 75.0, 90.0] {
        let mut world = World::new(&format!("{percent} reserve=kept"), &two_to_one());
        // With 6 MiB/s the disk is busy 30 % of the time: below that, limits are what holds.
        let settles = f64::max(percent, 30.0);
        world.run(1000);
        for ms in (1000..6000).step_by(7) {
            world.run(ms);
            let off = world.utilisation() - settles;
            assert!(off.abs() <= 2.0, "{off:.2} points off {settles} % at {ms}");
        }
        close("ratio", world.rate(0, 1000, 6000) / world.rate(1, 1000, 6000), 2.0, 2.0);
    }
}

#[test]
fn limits_hold_while_an_unlimited_tenant_is_there_and_grow_after_it() {
    let third = Tenant { max: "", ..Tenant::limited("") }.between(4_000, 8_000);
    let [first, second] = two_to_one();
    let mut world = World::new("90", &[first, second, third]);
    world.run(12_000);
    for (from, to, rates) in [
        (1_000, 4_000, [20.0 * 0.99 * 2.0 / 3.0, 20.0 * 0.99 / 3.0, 0.0]),
        (4_100, 8_000, [4.0, 2.0, 14.0]),
        (9_200, 12_000, [20.0 * 0.99 * 2.0 / 3.0, 20.0 * 0.99 / 3.0, 0.0]),
    ] {
        for (tenant, wanted) in rates.into_iter().enumerate() {
            let what = format!("tenant {tenant} from {from} ms");
            close(&what, world.rate(tenant, from, to) / M, wanted, 2.0);
        }
    }
    // The very first request of the third waits for no more than one of the others.
    let arrived = world.dispatched.iter().find(|(_, tenant)| *tenant == 2).unwrap().0;
    assert_eq!(arrived.as_nanos(), 4_000_000_000);
    let done = world.log.iter().find(|(_, tenant, _)| *tenant == 2).unwrap().0;
    assert!(done.as_nanos() <= 4_000_000_000 + 2 * 3_125_000, "{done:?}");
}

#[test]
fn beside_one_that_leaves_room_utilisation_settles_at_the_watermark_within_a_second() {
    // 64 KiB every 10 ms is 31.25 % of the disk.
    let steady = Tenant { max: "", ask: Ask::Open { every_us: 10_000 }, ..Tenant::limited("") };
    for percent in [60.0, 80.0, 90.0] {
        let [first, second] = two_to_one();
        let tenants = [first, second, steady.between(3_000, 6_000)];
        let mut world = World::new(&format!("{percent}"), &tenants);
        let mut seen: Vec<f64> = Vec::new();
        world.run(4_000);
        for ms in (4_000..6_000).step_by(3) {
            world.run(ms);
            seen.push(world.utilisation());
        }
        for &utilisation in &seen {
            assert!((utilisation - percent).abs() <= 2.0, "{utilisation}, not {percent} %");
        }
        close("the third", world.rate(2, 4_000, 6_000) / M, 6.25, 1.0);
        let (first, second) = (world.rate(0, 4_000, 6_000), world.rate(1, 4_000, 6_000));
        close("ratio", first / second, 2.0, 4.0);
    }
}

#[test]
fn the_step_response_has_no_overshoot() {
    // The first two come to an idle disk at 2 s, where a reserve is kept: a step from nothing to 90 %.
    let tenants = two_to_one().map(|tenant| tenant.between(2_000, 100_000));
    let mut world = World::new("90 reserve=kept", &tenants);
    world.run(2_000);
    let mut settled = None;
    for ms in (2_000..8_000).step_by(5) {
        world.run(ms);
        let utilisation = world.utilisation();
        assert!(utilisation <= 90.0 * 1.05, "overshoot to {utilisation} at {ms}");
        match settled {
            None if (utilisation - 90.0).abs() <= 1.8 => settled = Some(ms),
            None => {}
            Some(_) => close("after settling", utilisation, 90.0, 2.0),
        }
    }
    assert!(settled.expect("it settles") <= 3_000, "{settled:?}");
}

fn thinking(max: &'static str, think_us: u64) -> Tenant {
    let ask = Ask::Closed { depth: 1, think_us };
    Tenant { ask, len: 1 << 20, ..Tenant::limited(max) }
}

#[test]
fn a_client_that_thinks_a_little_keeps_its_share() {
    // A request takes 50 ms. 0.5 ms after each the disk is at rest in any case; with two milliseconds of three requests a
    // hundredth more is lost, and with nothing to make up for it.
    for (think_us, least) in [(200, 0.98), (700, 0.98), (1_500, 0.98), (2_500, 0.97)] {
        let tenants = [thinking("wbps=4M", think_us), thinking("wbps=2M", think_us)];
        let mut world = World::new("90", &tenants);
        world.run(31_000);
        let (first, second) = (world.rate(0, 1000, 31_000), world.rate(1, 1000, 31_000));
        close(&format!("ratio at {think_us} us"), first / second, 2.0, 2.0);
        let total = (first + second) / (20.0 * M);
        assert!(total >= least, "{total} of the disk at {think_us} us");
    }
}

#[test]
fn idling_is_bounded_by_a_fiftieth_of_the_work() {
    // Three tenants, of whom the first is away for 5 ms each time and the work does not allow for that much: they share as
    // they come, and the disk is used.
    let slow = thinking("wbps=4M", 5_000);
    let mut world = World::new("90", &[slow, thinking("wbps=2M", 500), thinking("wbps=2M", 500)]);
    world.run(31_000);
    let total = world.total(1000, 31_000) / (20.0 * M);
    assert!(total >= 0.97, "{total}");
    close("the others", world.rate(1, 1000, 31_000) / world.rate(2, 1000, 31_000), 1.0, 2.0);
}

#[test]
fn a_client_that_stays_away_gets_no_idling() {
    for think_us in [30_000, 100_000, 400_000] {
        let tenants = [thinking("wbps=9M", think_us), thinking("wbps=1M", 300)];
        let mut world = World::new("90", &tenants);
        world.run(31_000);
        let total = world.total(1000, 31_000) / (20.0 * M);
        assert!(total >= 0.98, "{total} of the disk beside one that thinks for {think_us} us");
    }
}

#[test]
fn a_kept_reserve_is_the_time_to_return_in() {
    // A request of 64 KiB owes 0.35 ms of rest, one of 1 MiB owes 5.6. A client that is back by then keeps its share; for others the
    // disk is not left idle any longer, since it would be used less than up to the watermark.
    for (len, think_us, ratio) in
        [(65_536, 300, 2.0), (65_536, 700, 1.0), (1 << 20, 2_500, 2.0), (1 << 20, 5_500, 2.0)]
    {
        let tenants = [thinking("wbps=4M", think_us), thinking("wbps=2M", think_us)];
        let tenants = tenants.map(|tenant| Tenant { len, ..tenant });
        let mut world = World::new("90 reserve=kept", &tenants);
        world.run(31_000);
        let (first, second) = (world.rate(0, 1000, 31_000), world.rate(1, 1000, 31_000));
        close(&format!("ratio at {len} and {think_us} us"), first / second, ratio, 1.0);
        close("total", (first + second) / (20.0 * M), 0.9, 0.2);
    }
}

#[test]
fn one_clock_advances_while_another_waits() {
    // The first two are waited for, 1 ms after each of their requests, by a clock that lends its reserve. The third goes by
    // one that keeps a hundredth: it takes its turn meanwhile, though its way to the next deadline is the longest.
    let hasty = Ask::Closed { depth: 4, think_us: 0 };
    let hasty = Tenant { ask: hasty, ..Tenant::limited("wbps=64K") };
    let mut world =
        World::new("90", &[thinking("wbps=4M", 1_500), thinking("wbps=2M", 1_500), hasty]);
    world.set_watermark(world.cgroups[2], Some("99 reserve=kept"));
    world.run(31_000);
    close("ratio", world.rate(0, 1000, 31_000) / world.rate(1, 1000, 31_000), 2.0, 2.0);
    let third = world.rate(2, 1000, 31_000) / 65_536.0;
    assert!(third > 4.0, "{third} times its limit");
    let total = world.total(1000, 31_000) / (20.0 * M);
    assert!(total >= 0.98, "{total} of the disk");
}
