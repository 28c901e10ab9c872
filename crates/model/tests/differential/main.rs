//! The engine's slices against the kernel model: random trees, limits and requests; the same dispatch ticks.

#[path = "../cases/mod.rs"]
mod cases;
mod run;
mod scenario;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use scenario::{Scenario, Step, Submit};

/// The dispatches of a run: for each tick the numbers, in no order. What passes the throttle in one tick takes turns at
/// the device, which is not the kernel's order; which tick it passes in is.
type Ticks = BTreeMap<u64, BTreeSet<usize>>;

fn by_tick(log: Vec<(u64, usize)>) -> Ticks {
    let mut ticks = Ticks::new();
    for (tick, number) in log {
        ticks.entry(tick).or_default().insert(number);
    }
    ticks
}

fn compare(test: &str, kernel: std::ops::Range<usize>) {
    cases::run(test, 1_000, scenario::any(kernel), |scenario| {
        let engine = run::engine(&scenario).map_err(TestCaseError::fail)?;
        prop_assert_eq!(by_tick(engine), by_tick(run::model(&scenario)), "the engine, the model");
        Ok(())
    });
}

/// Two cgroups are due in the same tick, and what they pass on meets at their parent: there it makes a difference whose
/// slice is credited. The one that was set to that tick first comes first, though it was looked at again in between.
#[test]
fn a_look_at_a_cgroup_keeps_its_place_in_its_tick() {
    let parent = [Some(32_768), Some(32_768), None, None];
    let (early, late) = ([None, Some(2048), None, None], [None, Some(43_121), None, Some(11)]);
    let write = |pause, cgroup, bytes| {
        let (write, metadata, remainder) = (true, false, false);
        (pause, false, Step::Submit(Submit { cgroup, write, bytes, metadata, remainder }))
    };
    let scenario = Scenario {
        kernel: 4,
        clock: 1,
        cgroups: vec![(0, parent), (1, late), (1, early)],
        steps: vec![write(3, 1, 4096), write(52, 1, 512), write(142, 1, 4096), write(11, 2, 512)],
    };
    let engine = by_tick(run::engine(&scenario).expect("its invariants hold"));
    assert_eq!(engine, by_tick(run::model(&scenario)), "the engine, the model");
    assert_eq!(engine.get(&458), Some(&BTreeSet::from([3])), "{engine:?}");
}

#[test]
fn kernels_up_to_5() {
    compare("kernels_up_to_5", 0..3);
}

#[test]
fn kernels_from_6_on() {
    compare("kernels_from_6_on", 3..6);
}
