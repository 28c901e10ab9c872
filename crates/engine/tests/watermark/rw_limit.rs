//! Limits on reads and writes together go by the clock of their watermark like all others.

use weir_engine::Op;

use super::world::{MIB, Tenant, World};

fn tenants() -> [Tenant; 3] {
    let reads = Tenant { op: Op::Read, ..Tenant::limited("rwbps=4M") };
    [reads, Tenant::limited("rwbps=2M"), Tenant::limited("").between(4_000, 6_000)]
}

/// MiB of each tenant in the two seconds from `from_ms` on.
fn two_seconds(world: &mut World, from_ms: u64) -> Vec<f64> {
    world.run(from_ms);
    let before = world.done.clone();
    world.run(from_ms + 2_000);
    let both = world.done.iter().zip(before);
    both.map(|(after, before)| (after - before) as f64 / MIB as f64).collect()
}

#[test]
fn total_limits_grow_in_proportion_until_an_unlimited_tenant_comes() {
    let mut world = World::new("100", &tenants());
    let alone = two_seconds(&mut world, 2_000);
    assert!((alone[0] / alone[1] - 2.0).abs() < 0.04, "{alone:?}");
    assert!(alone[0] + alone[1] > 39.0, "the disk does 40 in two seconds: {alone:?}");
    let beside = two_seconds(&mut world, 4_000);
    assert!((beside[0] - 8.0).abs() < 0.3 && (beside[1] - 4.0).abs() < 0.3, "{beside:?}");
    let again = two_seconds(&mut world, 8_000);
    assert!(again[0] + again[1] > 39.0, "{again:?}");
}

#[test]
fn a_gate_lifts_total_limits() {
    let mut world = World::new("90 mode=gate period=100ms", &tenants()[..2]);
    let alone = two_seconds(&mut world, 2_000);
    assert!(alone[0] + alone[1] > 13.0, "hard limits would let 12 go: {alone:?}");
    let mut hard = World::new("0", &tenants()[..2]);
    let bound = two_seconds(&mut hard, 2_000);
    assert!((bound[0] - 8.0).abs() < 0.2 && (bound[1] - 4.0).abs() < 0.2, "{bound:?}");
}
