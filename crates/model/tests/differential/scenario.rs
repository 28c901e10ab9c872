//! Random trees under random limits, with random events.

use std::fmt;
use std::ops::Range;

use proptest::prelude::*;
use weir_engine::Dimension;
use weir_engine::settings::KernelProfile;
use weir_model::kernel::{Profile, Remainder};

pub(crate) const KERNELS: [(KernelProfile, Profile); 6] = [
    (KernelProfile::K418, Profile::K418),
    (KernelProfile::K419a, Profile::K419A),
    (KernelProfile::K419, Profile::K419),
    (KernelProfile::K61, Profile::K61),
    (KernelProfile::K612, Profile::K612),
    (KernelProfile::K615, Profile::K615),
];

/// Ticks a second and ticks a slice.
pub(crate) const CLOCKS: [(u16, u16); 4] = [(1000, 100), (1000, 20), (250, 25), (100, 10)];

/// rbps, wbps, riops, wiops.
pub(crate) type Max = [Option<u64>; 4];

#[derive(Clone)]
pub(crate) struct Scenario {
    /// Place in [`KERNELS`].
    pub(crate) kernel: usize,
    /// Place in [`CLOCKS`].
    pub(crate) clock: usize,
    /// One cgroup each: its parent (0 is the root, 1 the first of these) and its limits.
    pub(crate) cgroups: Vec<(usize, Max)>,
    /// Events, with the ticks before each and whether timers of that tick come first.
    pub(crate) steps: Vec<(u64, bool, Step)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Submit(Submit),
    /// New limits for the cgroup at this place in [`Scenario::cgroups`].
    Limit {
        cgroup: usize,
        max: Max,
    },
}

/// A request of the only task of the cgroup at this place in [`Scenario::cgroups`].
#[derive(Clone, Debug)]
pub(crate) struct Submit {
    pub(crate) cgroup: usize,
    pub(crate) write: bool,
    pub(crate) bytes: u32,
    pub(crate) metadata: bool,
    pub(crate) remainder: bool,
}

/// Scenarios for the kernels at these places in [`KERNELS`].
pub(crate) fn any(kernels: Range<usize>) -> impl Strategy<Value = Scenario> {
    (1usize..=6).prop_flat_map(move |cgroups| {
        let pause = prop_oneof![3 => Just(0u64), 2 => 0u64..12, 1 => 0u64..150];
        (
            kernels.clone(),
            0..CLOCKS.len(),
            prop::collection::vec((any_index(), max()), cgroups),
            prop::collection::vec((pause, prop::bool::ANY, step(cgroups)), 1..60),
        )
            .prop_map(|(kernel, clock, cgroups, steps)| {
                let cgroups = cgroups.into_iter().enumerate();
                let cgroups = cgroups.map(|(place, (parent, max))| (parent.index(place + 1), max));
                let mut scenario = Scenario { kernel, clock, cgroups: cgroups.collect(), steps };
                keep_to_what_is_alike(&mut scenario);
                scenario
            })
    })
}

fn any_index() -> impl Strategy<Value = prop::sample::Index> {
    proptest::arbitrary::any::<prop::sample::Index>()
}

fn max() -> impl Strategy<Value = Max> {
    let bps = || {
        prop_oneof![
            2 => Just(None),
            1 => (10u32..24).prop_map(|log| Some(1 << log)),
            1 => (1000u64..10_000_000).prop_map(Some),
        ]
    };
    let iops = || {
        prop_oneof![
            2 => Just(None),
            1 => (1u64..30).prop_map(Some),
            1 => (30u64..3000).prop_map(Some),
        ]
    };
    (bps(), bps(), iops(), iops()).prop_map(|(rbps, wbps, riops, wiops)| [rbps, wbps, riops, wiops])
}

fn step(cgroups: usize) -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![Just(4096u32), Just(512), 512u32..300_000];
    let submit = (0..cgroups, prop::bool::ANY, bytes, 0..30u8);
    prop_oneof![
        12 => submit.prop_map(|(cgroup, write, bytes, dice)| Step::Submit(Submit {
            cgroup,
            write,
            bytes,
            metadata: dice == 29,
            remainder: dice == 28,
        })),
        1 => (0..cgroups, max()).prop_map(|(cgroup, max)| Step::Limit { cgroup, max }),
    ]
}

/// Leaves out where the engine means to differ from the kernel.
///
/// A change neither limits a direction that was unlimited nor the other way round. The engine has no queue where there
/// is no limit: what waits further up, and would have left a kernel's group by then, comes under a new limit; and a
/// direction's slice, with what it carried, goes with its last limit.
///
/// A cgroup with children is limited in both directions or in neither: a bio of the other direction that passes up
/// through a kernel's group makes it look at its queue again, and Kxxx then lets go what it would have let go later
/// (spec/throttle P11); the engine passes such a cgroup by.
///
/// A cgroup with children below a limit has a limit: bios of a kernel's unlimited group and of its children pass up
/// in the order they come, and are one source there; in the engine they take turns.
///
/// Where the kernel lets a remainder pass bios of its own task that wait for bytes, there are none: the engine keeps
/// each task's requests in order.
fn keep_to_what_is_alike(scenario: &mut Scenario) {
    let is_limited = |max: &Max, direction: usize| max[direction].or(max[direction + 2]).is_some();
    let mut below_limit = vec![false];
    for place in 0..scenario.cgroups.len() {
        let has_children = scenario.cgroups.iter().any(|(parent, _)| *parent == place + 1);
        let (parent, max) = &mut scenario.cgroups[place];
        if has_children {
            for (direction, other) in [(0, 1), (1, 0)] {
                if !is_limited(max, direction) {
                    (max[direction], max[direction + 2]) = (max[other], max[other + 2]);
                }
            }
            if below_limit[*parent] && !is_limited(max, 0) {
                (max[2], max[3]) = (Some(3000), Some(3000));
            }
        }
        let limited = below_limit[*parent] || is_limited(max, 0) || is_limited(max, 1);
        below_limit.push(limited);
    }
    for (_, _, step) in &mut scenario.steps {
        if let Step::Submit(submit) = step {
            submit.remainder &= KERNELS[scenario.kernel].1.remainder != Remainder::IoAheadOfBytes;
        }
    }
    let mut now: Vec<Max> = scenario.cgroups.iter().map(|(_, max)| *max).collect();
    for (_, _, step) in &mut scenario.steps {
        let Step::Limit { cgroup, max } = step else { continue };
        for direction in [0, 1] {
            if is_limited(&now[*cgroup], direction) != is_limited(max, direction) {
                (max[direction], max[direction + 2]) =
                    (now[*cgroup][direction], now[*cgroup][direction + 2]);
            }
        }
        now[*cgroup] = *max;
    }
}

/// One line a cgroup and a step, so that a failing case can be read.
impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hz, slice) = CLOCKS[self.clock];
        writeln!(f, "{}, {hz} Hz, slices of {slice} ticks", KERNELS[self.kernel].1.name)?;
        for (place, (parent, max)) in self.cgroups.iter().enumerate() {
            writeln!(f, "cgroup {} below {parent}: {}", place + 1, io_max(max))?;
        }
        let (mut tick, mut number) = (0, 0);
        for (pause, timers_first, step) in &self.steps {
            tick += pause;
            let order = if *timers_first { "after timers" } else { "before timers" };
            write!(f, "at {tick} {order}: ")?;
            match step {
                Step::Submit(submit) => {
                    let op = if submit.write { "write" } else { "read" };
                    let metadata = if submit.metadata { ", metadata" } else { "" };
                    let remainder = if submit.remainder { ", remainder" } else { "" };
                    let (cgroup, bytes) = (submit.cgroup + 1, submit.bytes);
                    writeln!(f, "#{number} in {cgroup}: {op} {bytes}{metadata}{remainder}")?;
                    number += 1;
                }
                Step::Limit { cgroup, max } => {
                    writeln!(f, "cgroup {}: {}", cgroup + 1, io_max(max))?;
                }
            }
        }
        Ok(())
    }
}

fn io_max(max: &Max) -> String {
    let pairs = Dimension::ALL.into_iter().zip(max);
    let pairs =
        pairs.filter_map(|(dimension, value)| Some(format!("{}={}", dimension.key(), (*value)?)));
    let limits = pairs.collect::<Vec<_>>().join(" ");
    if limits.is_empty() { "no limit".into() } else { limits }
}
