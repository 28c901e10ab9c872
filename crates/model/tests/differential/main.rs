//! The engine's slices against the kernel model: random trees, limits and requests; the same dispatch ticks.

#[path = "../cases/mod.rs"]
mod cases;
mod run;
mod scenario;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

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

#[test]
fn kernels_up_to_5() {
    compare("kernels_up_to_5", 0..3);
}

#[test]
fn kernels_from_6_on() {
    compare("kernels_from_6_on", 3..6);
}
