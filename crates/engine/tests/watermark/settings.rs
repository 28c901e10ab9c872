//! Watermarks per cgroup, changed while requests wait.

use weir_engine::{Change, ChangeError, Instant, Path, Watermark};

use super::world::{Ask, MIB, Tenant, World, close};

const M: f64 = MIB as f64;

fn deep(max: &'static str) -> Tenant {
    Tenant { ask: Ask::Closed { depth: 4, think_us: 0 }, ..Tenant::limited(max) }
}

#[test]
fn a_cgroup_with_a_hard_limit_stays_at_it_while_others_grow() {
    let mut world = World::new("90", &[deep("wbps=4M"), deep("wbps=2M"), deep("wbps=1M")]);
    world.set_watermark(world.cgroups[2], Some("0"));
    world.run(6_000);
    let rates: Vec<f64> = (0..3).map(|tenant| world.rate(tenant, 1_000, 6_000) / M).collect();
    close("hard", rates[2], 1.0, 1.0);
    close("ratio", rates[0] / rates[1], 2.0, 2.0);
    // Hard limits are kept room for: utilisation is the watermark, not all of the disk.
    close("total", rates.iter().sum(), 18.0, 2.0);
    assert_eq!(world.engine.watermarks().len(), 1);
    assert_eq!(world.engine.watermarks()[0].cgroups, 3, "the root and two");
}

/// A cgroup with a hard limit is no unlimited tenant. Where its limit binds, weights decide.
#[test]
fn a_hard_limit_of_an_ancestor_does_not_stop_growth_below() {
    for (above, total, ratio) in [("wbps=1000M", 20.0, 2.0), ("wbps=15M", 15.0, 1.0)] {
        let nobody = Tenant { ask: Ask::At { ms: &[] }, ..Tenant::limited("") };
        let mut world = World::new("50", &[deep("wbps=4M"), deep("wbps=2M"), nobody]);
        let parent = world.cgroups[2];
        world.set_watermark(parent, Some("0"));
        for cgroup in [world.cgroups[0], world.cgroups[1]] {
            world.set_watermark(cgroup, Some("50"));
            world.engine.reconfigure(Instant::ZERO, Change::Move { cgroup, parent }).unwrap();
        }
        world.set_max(2, above);
        world.run(6_000);
        let rates: Vec<f64> = (0..2).map(|tenant| world.rate(tenant, 1_000, 6_000) / M).collect();
        close(above, rates.iter().sum(), total, 2.0);
        close(above, rates[0] / rates[1], ratio, 2.0);
    }
}

#[test]
fn the_nearest_watermark_counts_until_it_is_inherited() {
    let mut world = World::new("90", &[deep("wbps=4M")]);
    let child = world.engine.ensure_cgroup(&Path::parse("/t0/child").unwrap()).unwrap();
    let effective = |world: &World, percent: u8| {
        let marks = world.engine.watermarks();
        marks.iter().find(|mark| mark.watermark.percent() == percent).map(|mark| mark.cgroups)
    };
    assert_eq!(effective(&world, 90), Some(3), "all of them");
    world.set_watermark(world.cgroups[0], Some("50"));
    assert_eq!((effective(&world, 90), effective(&world, 50)), (Some(1), Some(2)));
    world.set_watermark(child, Some("20 mode=gate"));
    assert_eq!((effective(&world, 50), effective(&world, 20)), (Some(1), Some(1)));
    assert_eq!(world.engine.watermark(child), weir_text::parse_watermark("20 mode=gate").ok());
    world.set_watermark(world.cgroups[0], None);
    assert_eq!((effective(&world, 90), effective(&world, 20)), (Some(2), Some(1)));
    assert_eq!(world.engine.watermark(world.cgroups[0]), None);
    world.set_watermark(child, None);
    let root = world.engine.root();
    world.set_watermark(root, None);
    assert_eq!(world.engine.watermarks(), []);
    // A cgroup that moves goes by what is set above its new place, and so does a new one.
    let gate = world.engine.ensure_cgroup(&Path::parse("/gate").unwrap()).unwrap();
    world.set_watermark(gate, Some("70 mode=gate"));
    let moved = Change::Move { cgroup: child, parent: gate };
    world.engine.reconfigure(world.now, moved).unwrap();
    world.engine.ensure_cgroup(&Path::parse("/gate/new").unwrap()).unwrap();
    assert_eq!(effective(&world, 70), Some(3));
    world.engine.reconfigure(world.now, Change::Remove { cgroup: child }).unwrap();
    assert_eq!(effective(&world, 70), Some(2));
    let gone = Change::SetWatermark { cgroup: child, watermark: None };
    assert_eq!(world.engine.reconfigure(world.now, gone), Err(ChangeError::UnknownCgroup));
}

#[test]
fn changing_watermarks_under_load_loses_and_grants_nothing() {
    let mut world = World::new("0", &[deep("wbps=4M"), deep("wbps=2M")]);
    let root = world.engine.root();
    let marks = ["90", "0", "90 mode=gate period=20ms", "50 reserve=kept", "0", "100"];
    for round in 0..120 {
        world.run(round * 25);
        let mark = marks[round as usize % marks.len()];
        let cgroup = [root, world.cgroups[0], world.cgroups[1]][(round / 7) as usize % 3];
        world.set_watermark(cgroup, (round % 5 > 0).then_some(mark));
        world.engine.check().unwrap();
    }
    for cgroup in [root, world.cgroups[0], world.cgroups[1]] {
        world.set_watermark(cgroup, None);
    }
    world.run(3_100);
    // Hard limits from here on: neither a burst for the change, nor a debt from before.
    world.run(9_100);
    close("first", world.rate(0, 3_100, 9_100) / M, 4.0, 2.0);
    close("second", world.rate(1, 3_100, 9_100) / M, 2.0, 2.0);
}

#[test]
fn two_watermarks_on_one_disk() {
    let mut world = World::new("90", &[deep("wbps=4M"), deep("wbps=2M"), deep("wbps=2M")]);
    world.set_watermark(world.cgroups[2], Some("60 reserve=kept"));
    world.run(6_000);
    let rates: Vec<f64> = (0..3).map(|tenant| world.rate(tenant, 1_000, 6_000) / M).collect();
    close("ratio under one watermark", rates[0] / rates[1], 2.0, 2.0);
    // The one with the lower watermark never sees a disk that is used less, and stays at its limit.
    close("the lower watermark", rates[2], 2.0, 5.0);
    assert!(rates.iter().sum::<f64>() >= 19.0, "{rates:?}");
}

#[test]
fn parents_and_children_grow_alike() {
    // The parent of both has a limit of 3 MiB/s; all three limits go by one clock.
    let mut world = World::new("90", &[deep("wbps=4M"), deep("wbps=2M")]);
    let top = world.engine.ensure_cgroup(&Path::parse("/top").unwrap()).unwrap();
    for cgroup in world.cgroups.clone() {
        world.engine.reconfigure(Instant::ZERO, Change::Move { cgroup, parent: top }).unwrap();
    }
    let max = weir_text::parse_io_max("wbps=3M", weir_engine::PerDimension::NONE);
    let limits = weir_engine::Limits { max: max.unwrap(), ..Default::default() };
    world.engine.reconfigure(Instant::ZERO, Change::SetLimits { cgroup: top, limits }).unwrap();
    world.run(6_000);
    let rates: Vec<f64> = (0..2).map(|tenant| world.rate(tenant, 1_000, 6_000) / M).collect();
    assert!(rates.iter().sum::<f64>() >= 0.98 * 20.0, "{rates:?}");
    // Both are of equal weight. Now and then nothing of the first waits, its own limit holding it back: that must not let
    // its next request be before those of the second.
    close("ratio", rates[0] / rates[1], 1.0, 1.0);
    let root = world.engine.root();
    world.set_watermark(root, None);
    world.run(12_000);
    close("ratio", world.rate(0, 7_000, 12_000) / world.rate(1, 7_000, 12_000), 1.0, 1.0);
    close("total", world.total(7_000, 12_000) / M, 3.0, 1.0);
}

#[test]
fn watermarks_out_of_range_are_refused() {
    assert_eq!(Watermark::new(101, weir_engine::settings::WatermarkMode::DEFAULT), None);
    assert_eq!(
        Watermark::new(0, weir_engine::settings::WatermarkMode::GATE),
        Some(Watermark::HARD)
    );
}
