//! Random trees under random limits, with random events.

use std::fmt;

use proptest::prelude::*;
use weir_engine::settings::{KernelProfile, SliceProfile};
use weir_engine::{LimiterKind, Op};

/// One of however many there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick(pub(crate) u16);

impl Pick {
    /// A number below `len`.
    pub(crate) fn index(self, len: usize) -> usize {
        usize::from(self.0) % len
    }
}

/// A tree and its events.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) iops_size: Option<u32>,
    /// The root, then one cgroup each. The root's parent means nothing.
    pub(crate) cgroups: Vec<Cgroup>,
    /// The cgroup of each client.
    pub(crate) clients: Vec<Pick>,
    /// The client of each task.
    pub(crate) tasks: Vec<Pick>,
    /// Events, with the nanoseconds before each.
    pub(crate) steps: Vec<(u64, Step)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Cgroup {
    /// Among those before it.
    pub(crate) parent: Pick,
    pub(crate) weight: u64,
    pub(crate) limits: Lim,
}

/// Limits, each in the order rbps, wbps, riops, wiops, rwbps, rwiops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lim {
    pub(crate) limiter: LimiterKind,
    pub(crate) max: [Option<u64>; 6],
    /// Only for limiters that have one.
    pub(crate) burst: [Option<u64>; 6],
    /// Peak above the rate, for limiters that have one.
    pub(crate) peak_above: [Option<u64>; 6],
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Submit { task: Pick, op: Op, len: u32, metadata: bool, remainder: bool },
    Limit { cgroup: Pick, limits: Box<Lim> },
    Reweigh { cgroup: Pick, weight: u64 },
    Move { cgroup: Pick, parent: Pick },
    Remove { cgroup: Pick },
    Withdraw { request: Pick },
}

impl Lim {
    /// Without limits on both directions together.
    fn apart(mut self) -> Lim {
        self.max[4] = None;
        self.max[5] = None;
        self
    }
}

impl Scenario {
    /// The same without limits on both directions together.
    pub(crate) fn apart(mut self) -> Scenario {
        self.cgroups.iter_mut().for_each(|cgroup| cgroup.limits = cgroup.limits.apart());
        for (_, step) in &mut self.steps {
            if let Step::Limit { limits, .. } = step {
                **limits = limits.apart();
            }
        }
        self
    }

    /// The same with data in place of metadata.
    pub(crate) fn without_metadata(mut self) -> Scenario {
        for (_, step) in &mut self.steps {
            if let Step::Submit { metadata, .. } = step {
                *metadata = false;
            }
        }
        self
    }

    /// Whether any limit, at any time, is one of slices.
    pub(crate) fn has_slices(&self) -> bool {
        let steps = self.steps.iter().filter_map(|(_, step)| match step {
            Step::Limit { limits, .. } => Some(&**limits),
            _ => None,
        });
        let mut all = self.cgroups.iter().map(|cgroup| &cgroup.limits).chain(steps);
        all.any(|limits| matches!(limits.limiter, LimiterKind::Slice(_)))
    }
}

/// One line a cgroup and a step, so that a failing case can be read.
impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "iops_size {:?}", self.iops_size)?;
        for (number, cgroup) in self.cgroups.iter().enumerate() {
            let parent = if number > 0 { cgroup.parent.index(number) } else { 0 };
            let Cgroup { weight, limits, .. } = cgroup;
            writeln!(f, "cgroup {number} below {parent}, weight {weight}: {limits:?}")?;
        }
        for (number, client) in self.tasks.iter().enumerate() {
            let client = client.index(self.clients.len());
            let cgroup = self.clients[client].index(self.cgroups.len());
            writeln!(f, "task {number} of client {client} in cgroup {cgroup}")?;
        }
        let mut now = 0u64;
        for (pause, step) in &self.steps {
            now = now.saturating_add(*pause);
            writeln!(f, "{now} ns: {step:?}")?;
        }
        Ok(())
    }
}

/// Limiters of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Limiters {
    Pace,
    /// Limiters that dispatch through all limits at once.
    Pulled,
    /// Slices too.
    All,
}

/// Range of a scenario's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbers {
    Common,
    /// The ends of the ranges.
    Extreme,
}

/// Scenarios with up to `most_steps` steps.
pub(crate) fn any(
    limiters: Limiters,
    numbers: Numbers,
    most_steps: usize,
) -> impl Strategy<Value = Scenario> {
    let pause = match numbers {
        Numbers::Common => {
            prop_oneof![3 => Just(0u64), 2 => 0u64..3_000_000, 1 => 0u64..120_000_000].boxed()
        }
        // Slices look again every eight slices, however long the wait: not for days.
        Numbers::Extreme => {
            let longest = if limiters == Limiters::All { 1u64 << 32 } else { 1 << 58 };
            prop_oneof![2 => Just(0u64), 1 => Just(1), 1 => 0u64..longest].boxed()
        }
    };
    (
        prop_oneof![3 => Just(None), 1 => Just(Some(4096u32))],
        prop::collection::vec(cgroup(limiters, numbers), 1..=6),
        prop::collection::vec(pick(), 1..=4),
        prop::collection::vec(pick(), 1..=6),
        prop::collection::vec((pause, step(limiters, numbers)), 1..most_steps),
    )
        .prop_map(|(iops_size, cgroups, clients, tasks, steps)| Scenario {
            iops_size,
            cgroups,
            clients,
            tasks,
            steps,
        })
}

fn pick() -> impl Strategy<Value = Pick> {
    (0u16..1000).prop_map(Pick)
}

fn cgroup(limiters: Limiters, numbers: Numbers) -> impl Strategy<Value = Cgroup> {
    let weight = prop_oneof![1 => Just(100u64), 1 => 1u64..=10_000];
    (pick(), weight, lim(limiters, numbers)).prop_map(|(parent, weight, limits)| Cgroup {
        parent,
        weight,
        limits,
    })
}

/// `None` more often than not: requests should meet a limit here and there, not everywhere.
fn sometimes<S: Strategy<Value = u64>>(value: S) -> impl Strategy<Value = Option<u64>> {
    prop_oneof![2 => Just(None), 1 => value.prop_map(Some)]
}

fn lim(limiters: Limiters, numbers: Numbers) -> impl Strategy<Value = Lim> {
    let extreme = numbers == Numbers::Extreme;
    let bps = move || {
        sometimes(match extreme {
            false => prop_oneof![(10u32..24).prop_map(|log| 1 << log), 1000u64..20_000_000].boxed(),
            true => prop::sample::select(vec![1, 2, 1 << 32, 1 << 63, u64::MAX - 1]).boxed(),
        })
    };
    let iops = move || {
        sometimes(match extreme {
            false => prop_oneof![1u64..50, 50u64..5000].boxed(),
            true => prop::sample::select(vec![1, 2, 1 << 31, u64::from(u32::MAX) - 1]).boxed(),
        })
    };
    let bytes = || sometimes(512u64..200_000);
    let ios = || sometimes(1u64..10);
    // A peak above the largest rate is none.
    let above = move || sometimes(if extreme { 1u64..2 } else { 1u64..100_000 });
    (
        limiter(limiters),
        [bps(), bps(), bps()],
        [iops(), iops(), iops()],
        [bytes(), bytes(), bytes()],
        [ios(), ios(), ios()],
        [above(), above(), above(), above(), above(), above()],
    )
        .prop_map(|(limiter, bps, iops, bytes, ios, peak_above)| {
            // The kernel, and so the limiter that is for parity with it, has no limits on both directions.
            let joint =
                |limit: Option<u64>| limit.filter(|_| !matches!(limiter, LimiterKind::Slice(_)));
            Lim {
                limiter,
                max: [bps[0], bps[1], iops[0], iops[1], joint(bps[2]), joint(iops[2])],
                burst: [bytes[0], bytes[1], ios[0], ios[1], bytes[2], ios[2]],
                peak_above,
            }
        })
}

fn limiter(limiters: Limiters) -> BoxedStrategy<LimiterKind> {
    let pulled =
        prop_oneof![Just(LimiterKind::Pace), Just(LimiterKind::Token), Just(LimiterKind::Leaky)];
    match limiters {
        Limiters::Pace => Just(LimiterKind::Pace).boxed(),
        Limiters::Pulled => pulled.boxed(),
        Limiters::All => {
            prop_oneof![1 => pulled, 2 => slice().prop_map(LimiterKind::Slice)].boxed()
        }
    }
}

fn slice() -> impl Strategy<Value = SliceProfile> {
    use KernelProfile::{K61, K418, K419, K419a, K612, K615};
    let kernel = prop::sample::select(vec![K418, K419a, K419, K61, K612, K615]);
    let clock = prop::sample::select(vec![(1000u16, 100u16), (250, 5), (300, 30), (100, 10)]);
    (kernel, clock).prop_map(|(kernel, (hz, slice_ticks))| SliceProfile { kernel, hz, slice_ticks })
}

fn step(limiters: Limiters, numbers: Numbers) -> impl Strategy<Value = Step> {
    let op = prop_oneof![
        6 => Just(Op::Read),
        6 => Just(Op::Write),
        1 => prop::sample::select(vec![Op::Flush, Op::Discard, Op::WriteZeroes, Op::Cache, Op::Status]),
    ];
    let len = match numbers {
        Numbers::Common => prop_oneof![2 => Just(4096u32), 1 => 512u32..300_000].boxed(),
        // Slices take the largest at once; a byte a second would be asked for a million instalments.
        Numbers::Extreme if limiters == Limiters::All => {
            prop::sample::select(vec![0, 1, 4096, 1 << 16]).boxed()
        }
        Numbers::Extreme => prop::sample::select(vec![0, 1, 4096, 1 << 16, 1 << 20]).boxed(),
    };
    prop_oneof![
        20 => (pick(), op, len, 0..30u8).prop_map(move |(task, op, len, dice)| Step::Submit {
            task,
            op,
            len,
            // Old kernels queue metadata like data, and let remainders go for nothing; the kernel model knows.
            metadata: dice == 29 && limiters != Limiters::All,
            // What pays no bytes may pass where others wait for them, and then it is open which goes next.
            remainder: dice == 28 && limiters == Limiters::Pulled,
        }),
        1 => (pick(), lim(limiters, numbers)).prop_map(|(cgroup, limits)| Step::Limit { cgroup, limits: Box::new(limits) }),
        1 => (pick(), 1u64..=10_000).prop_map(|(cgroup, weight)| Step::Reweigh { cgroup, weight }),
        1 => (pick(), pick()).prop_map(|(cgroup, parent)| Step::Move { cgroup, parent }),
        1 => pick().prop_map(move |pick| match numbers {
            Numbers::Common => Step::Remove { cgroup: pick },
            // A removed cgroup keeps its limits, which would take too long.
            Numbers::Extreme => Step::Withdraw { request: pick },
        }),
        1 => pick().prop_map(|request| Step::Withdraw { request }),
    ]
}
