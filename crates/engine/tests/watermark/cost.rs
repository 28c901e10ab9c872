//! Utilisation by cost: of a disk that has many requests at once, all of it is used, and not only the time.

use weir_engine::Config;
use weir_engine::utilisation::{Capacity, CostFigures, CostModel};

use super::world::{Ask, MIB, Tenant, World, close};

const M: f64 = MIB as f64;

/// A disk of 200 MiB/s whose answers take a millisecond on top: it needs four requests of 64 KiB at once.
fn flash(watermark: &str, tenants: &[Tenant], is_measured: bool) -> World {
    let rate = 200 * MIB;
    let figures = CostFigures::new(rate, rate / 4096, rate / 4096).unwrap();
    let capacity = Capacity { costs: CostModel::new(figures, figures), streams: 1 };
    let capacity = is_measured.then_some(capacity);
    let mut world =
        World::with_config(watermark, tenants, Config { capacity, ..Config::default() });
    (world.ns_per_mib, world.latency_ns) = (5_000_000, 1_000_000);
    world
}

fn two_to_one() -> [Tenant; 2] {
    let ask = Ask::Closed { depth: 8, think_us: 0 };
    ["wbps=4M", "wbps=2M"].map(|max| Tenant { ask, ..Tenant::limited(max) })
}

#[test]
fn a_disk_that_was_measured_is_used_up() {
    let mut world = flash("90", &two_to_one(), true);
    world.run(5000);
    let (first, second) = (world.rate(0, 1000, 5000), world.rate(1, 1000, 5000));
    close("total", (first + second) / M, 200.0 * 0.99, 1.0);
    close("ratio", first / second, 2.0, 2.0);
    close("utilisation", world.utilisation(), 99.0, 1.0);
    // By the time alone, little more than one request after the other.
    let mut world = flash("90", &two_to_one(), false);
    world.run(5000);
    assert!(world.total(1000, 5000) < 80.0 * M, "{}", world.total(1000, 5000) / M);
}

#[test]
fn a_reserve_of_capacity_is_kept() {
    for percent in [30.0, 50.0, 90.0] {
        let mut world = flash(&format!("{percent} reserve=kept"), &two_to_one(), true);
        world.run(1000);
        for ms in (1000..3000).step_by(13) {
            world.run(ms);
            close(&format!("at {ms} ms"), world.utilisation(), percent, 2.0);
        }
        close("total", world.total(1000, 3000) / M, 2.0 * percent, 2.0);
    }
}

#[test]
fn an_unlimited_tenant_gets_capacity_from_its_first_request_on() {
    // 128 KiB every 1.25 ms are 100 MiB/s, half of the disk.
    let third =
        Tenant { max: "", len: 131_072, ask: Ask::Open { every_us: 1250 }, ..Tenant::limited("") };
    let [first, second] = two_to_one();
    let mut world = flash("90", &[first, second, third.between(2000, 4000)], true);
    world.run(6000);
    close("alone", world.total(1000, 2000) / M, 200.0 * 0.99, 1.0);
    close("it gets what it asks for", world.rate(2, 2100, 4000) / M, 100.0, 1.0);
    let ours = |from, to| (world.rate(0, from, to) + world.rate(1, from, to)) / M;
    close("the others have the rest up to the watermark", ours(3100, 4000), 80.0, 3.0);
    close("and all of it afterwards", ours(5100, 6000), 200.0 * 0.99, 1.0);
    assert!(ours(2000, 2200) >= 6.0, "limits are what they get at least");
}

#[test]
fn a_gate_opens_while_there_is_capacity() {
    let mut world = flash("90 mode=gate period=100ms", &two_to_one(), true);
    world.run(5000);
    // Lifted in one period, in force in the next, as the disk is full then.
    let total = world.total(1000, 5000) / M;
    assert!((80.0..=195.0).contains(&total), "{total}");
}

#[test]
fn a_model_that_promises_too_much_is_bounded_by_the_depth() {
    let mut world = flash("100", &two_to_one(), true);
    // Ten times as slow as it was measured.
    (world.ns_per_mib, world.latency_ns) = (50_000_000, 1_000_000);
    world.run(5000);
    close("total", world.total(1000, 5000) / M, 20.0, 2.0);
    world.engine.check().expect("holds");
    let mut world = flash("90", &two_to_one(), true);
    // And twice as fast: what was promised is used, and no more.
    world.ns_per_mib = 2_500_000;
    world.run(5000);
    close("total", world.total(1000, 5000) / M, 200.0 * 0.99, 2.0);
}
