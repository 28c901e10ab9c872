//! spec/throttle P13: a visit to a cgroup lets six reads go and then two writes, at most, and nothing that its limits
//! do not.
//!
//! Where several visits follow each other in one tick, their order is seen in the order of one task's requests. What
//! may go in a tick is what the limit of each direction by itself allows, so the reads and writes of a run apart say
//! how many of each the run together has to let go, and the quanta say in which order. (Rounds of visits, 39 at most,
//! bound how long a kernel holds a lock; they change neither order nor tick.)

use proptest::prelude::*;
use weir_engine::settings::SliceProfile;
use weir_engine::{Dimension, Instant, LimiterKind, PerDimension};

use crate::cases;
use crate::driver::{Driver, Gone};

const KERNELS: [weir_engine::settings::KernelProfile; 6] = [
    weir_engine::settings::KernelProfile::K418,
    weir_engine::settings::KernelProfile::K419a,
    weir_engine::settings::KernelProfile::K419,
    weir_engine::settings::KernelProfile::K61,
    weir_engine::settings::KernelProfile::K612,
    weir_engine::settings::KernelProfile::K615,
];

const QUANTA: [usize; 2] = [6, 2];

#[derive(Clone, Debug)]
struct Scenario {
    kernel: usize,
    slice_ticks: u16,
    riops: u64,
    wiops: u64,
    /// Milliseconds since the one before, and how many reads and writes come then, which first.
    batches: Vec<(u64, usize, usize, bool)>,
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let iops = || prop_oneof![1 => 1u64..60, 2 => 60u64..1000];
    let batch = (0u64..400, 0usize..60, 0usize..30, prop::bool::ANY);
    (
        0..KERNELS.len(),
        prop_oneof![Just(100u16), Just(20)],
        iops(),
        iops(),
        prop::collection::vec(batch, 1..4),
    )
        .prop_map(|(kernel, slice_ticks, riops, wiops, batches)| Scenario {
            kernel,
            slice_ticks,
            riops,
            wiops,
            batches,
        })
}

/// What goes by timeouts: for each instant the requests in their order. `of` leaves out the other direction.
fn run(scenario: &Scenario, of: [bool; 2]) -> Vec<(Instant, Vec<Gone>)> {
    let profile = SliceProfile {
        kernel: KERNELS[scenario.kernel],
        hz: 1000,
        slice_ticks: scenario.slice_ticks,
    };
    let max = PerDimension::NONE
        .with(Dimension::Riops, scenario.riops)
        .with(Dimension::Wiops, scenario.wiops);
    let mut driver = Driver::new(LimiterKind::Slice(profile), max, PerDimension::NONE);
    let (mut log, mut now) = (Vec::new(), Instant::ZERO);
    for &(pause, reads, writes, writes_first) in &scenario.batches {
        now = now.plus_nanos(pause * 1_000_000);
        while let Some(gone) = driver.timeout(now) {
            log.push(gone);
        }
        let counts = [reads, writes];
        for direction in if writes_first { [1, 0] } else { [0, 1] } {
            for _ in 0..if of[direction] { counts[direction] } else { 0 } {
                driver.submit(now, direction == 1, 4096);
            }
        }
    }
    while let Some(gone) = driver.timeout(Instant::from_nanos(u64::MAX)) {
        log.push(gone);
    }
    log.retain(|(_, gone)| !gone.is_empty());
    log
}

/// The order in which visits let so many reads and writes go: `true` is a write.
fn visits(mut left: [usize; 2]) -> Vec<bool> {
    let mut order = Vec::new();
    while left != [0, 0] {
        for (direction, quantum) in QUANTA.into_iter().enumerate() {
            let count = left[direction].min(quantum);
            left[direction] -= count;
            order.extend(std::iter::repeat_n(direction == 1, count));
        }
    }
    order
}

#[test]
fn a_visit_takes_six_reads_and_two_writes() {
    let longest = std::cell::Cell::new(0);
    cases::run("a_visit_takes_six_reads_and_two_writes", 10_000, scenario(), |scenario| {
        for (at, gone) in run(&scenario, [true, true]) {
            let writes = gone.iter().filter(|gone| gone.write).count();
            let found: Vec<bool> = gone.iter().map(|gone| gone.write).collect();
            longest.set(longest.get().max(writes.min(gone.len() - writes)));
            prop_assert_eq!(found, visits([gone.len() - writes, writes]), "at {:?}", at);
        }
        Ok(())
    });
    let is_long = longest.get() > 8;
    assert!(
        is_long || !crate::has_its_own_cases(),
        "several visits in one tick: {}",
        longest.get()
    );
}

/// "Nothing beyond limits": a direction alone lets as much go by any instant. Kernels whose waits overshoot (before the
/// profile's shorter ones) are woken by the other direction and may let go earlier, never more in a slice; so this is
/// about those that wait for the first tick that allows it.
#[test]
fn a_visit_lets_nothing_go_that_its_direction_does_not_allow() {
    cases::run(
        "a_visit_lets_nothing_go_that_its_direction_does_not_allow",
        10_000,
        scenario().prop_map(|scenario| Scenario { kernel: 2 + scenario.kernel % 2, ..scenario }),
        |scenario| {
            let both = run(&scenario, [true, true]);
            for write in [false, true] {
                let alone = run(&scenario, [!write, write]);
                let of = |log: &[(Instant, Vec<Gone>)]| -> Vec<(Instant, usize)> {
                    let counts = log.iter().map(|(at, gone)| {
                        (*at, gone.iter().filter(|gone| gone.write == write).count())
                    });
                    counts.filter(|&(_, count)| count > 0).collect()
                };
                prop_assert_eq!(of(&both), of(&alone), "writes: {}", write);
            }
            Ok(())
        },
    );
}
