//! Steps of random traffic: one call of an engine at a time, in any order.

use proptest::prelude::*;
use weir_engine::settings::{KernelProfile, PrioClass, PriorityClass, SliceProfile};
use weir_engine::{Class, Dimension, LimiterKind, Op, Outcome, Part, SchedulerKind};

/// What can happen. Numbers choose among what there is.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Submit {
        task: usize,
        op: Op,
        offset: u64,
        len: u32,
        class: Class,
        part: Part,
        sync: bool,
    },
    /// A stream: so many requests, one after the other.
    Stream {
        task: usize,
        offset: u64,
        count: u32,
    },
    Dispatch {
        count: usize,
    },
    Complete {
        which: usize,
        outcome: Outcome,
    },
    Withdraw {
        which: usize,
    },
    WithdrawOf {
        task: usize,
    },
    Wait {
        us: u64,
    },
    /// A clock that went back.
    Back {
        us: u64,
    },
    Create {
        parent: usize,
        weight: u64,
    },
    Weigh {
        cgroup: usize,
        weight: u64,
    },
    Limit {
        cgroup: usize,
        dimension: Dimension,
        rate: Option<u64>,
        kind: LimiterKind,
    },
    Move {
        cgroup: usize,
        parent: usize,
    },
    Remove {
        cgroup: usize,
    },
    Open {
        cgroup: usize,
        tasks: usize,
    },
    CloseTask {
        task: usize,
    },
    CloseClient {
        client: usize,
    },
    Depth {
        depth: u32,
    },
    Priority {
        client: usize,
        class: PriorityClass,
        level: u8,
    },
    PrioClass {
        cgroup: usize,
        prio_class: PrioClass,
    },
    Switch {
        scheduler: SchedulerKind,
    },
    Tune {
        settings: &'static str,
    },
}

/// What BFQ may be set to while it runs, from nothing of it to the most that it can do.
const SETTINGS: [&str; 7] = [
    "",
    "slice_idle=0",
    "slice_idle=100 stable=intent merge_window=unlimited close_bytes=1TiB",
    "strict_guarantees=1",
    "merge_window=off low_latency=0",
    "max_budget=16KiB timeout_sync=1",
    "fifo_expire_sync=1 fifo_expire_async=1 back_seek_max=0",
];

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let number = || 0..64_usize;
    let ops = [Op::Read, Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes, Op::Cache];
    let lens = vec![0, 512, 4096, 65_536, 1 << 20, 20 << 20, u32::MAX / 512 * 512];
    let class = prop_oneof![5 => Just(Class::Data), 1 => Just(Class::Metadata)];
    let part = prop_oneof![9 => Just(Part::Whole), 1 => Just(Part::Remainder)];
    let (op, len) = (prop::sample::select(ops.to_vec()), prop::sample::select(lens));
    let what = (op, len, class, part, prop::bool::weighted(0.8));
    let classes = [PriorityClass::RealTime, PriorityClass::BestEffort, PriorityClass::Idle];
    let priority = (number(), prop::sample::select(classes.to_vec()), 0..8_u8);
    let prio_class = (number(), prop::sample::select(PrioClass::ALL.to_vec()));
    let scheduler = prop_oneof![3 => Just(SchedulerKind::Bfq), 1 => Just(SchedulerKind::None)];
    let offset = || prop_oneof![0..64_u64, Just(1 << 20), Just((1 << 40) - 64)];
    let outcome = prop_oneof![3 => Just(Outcome::Done), 1 => Just(Outcome::Failed)];
    let weight = || prop_oneof![1..10_001_u64, 1..4_u64];
    let rate = prop::option::of(prop_oneof![1..20_u64, 100..100_000_u64]);
    let slices = SliceProfile { kernel: KernelProfile::K612, hz: 1000, slice_ticks: 100 };
    let kinds =
        [LimiterKind::Pace, LimiterKind::Token, LimiterKind::Leaky, LimiterKind::Slice(slices)];
    let kind = prop::sample::select(kinds.to_vec());
    let limit = (number(), prop::sample::select(Dimension::ALL.to_vec()), rate, kind);
    prop_oneof![
        8 => (number(), offset(), what).prop_map(|(task, offset, (op, len, class, part, sync))| {
            Step::Submit { task, op, offset: offset << 20, len, class, part, sync }
        }),
        3 => (number(), offset(), 1..20_u32)
            .prop_map(|(task, offset, count)| Step::Stream { task, offset: offset << 20, count }),
        10 => (1..4_usize).prop_map(|count| Step::Dispatch { count }),
        10 => (number(), outcome).prop_map(|(which, outcome)| Step::Complete { which, outcome }),
        1 => number().prop_map(|which| Step::Withdraw { which }),
        1 => number().prop_map(|task| Step::WithdrawOf { task }),
        5 => prop_oneof![0..10_u64, 0..20_000_u64, 0..400_000_u64].prop_map(|us| Step::Wait { us }),
        1 => (0..20_000_u64).prop_map(|us| Step::Back { us }),
        1 => (number(), weight()).prop_map(|(parent, weight)| Step::Create { parent, weight }),
        2 => (number(), weight()).prop_map(|(cgroup, weight)| Step::Weigh { cgroup, weight }),
        1 => limit.prop_map(|(cgroup, dimension, rate, kind)| {
            Step::Limit { cgroup, dimension, rate, kind }
        }),
        1 => (number(), number()).prop_map(|(cgroup, parent)| Step::Move { cgroup, parent }),
        1 => number().prop_map(|cgroup| Step::Remove { cgroup }),
        1 => (number(), 1..4_usize).prop_map(|(cgroup, tasks)| Step::Open { cgroup, tasks }),
        1 => number().prop_map(|task| Step::CloseTask { task }),
        1 => number().prop_map(|client| Step::CloseClient { client }),
        1 => (1..9_u32).prop_map(|depth| Step::Depth { depth }),
        1 => priority.prop_map(|(client, class, level)| Step::Priority { client, class, level }),
        1 => prio_class.prop_map(|(cgroup, prio_class)| Step::PrioClass { cgroup, prio_class }),
        1 => scheduler.prop_map(|scheduler| Step::Switch { scheduler }),
        1 => prop::sample::select(SETTINGS.to_vec()).prop_map(|settings| Step::Tune { settings }),
    ]
}
