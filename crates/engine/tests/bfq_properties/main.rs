//! `scheduler = "bfq"` under everything that can happen at once: what goes in comes out once, the books balance, nobody
//! waits for nothing, and the same calls give the same answers. `Engine::check` looks at the whole engine after each call.
//!
//! Unlike the tests of `bfq.rs`, trees here are random, and grow and shrink while requests wait, fail and are withdrawn.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use proptest::prelude::*;
use weir_engine::{
    BfqSettings, CgroupId, Change, Class, ClientId, Config, Dimension, Dispatch, Engine, Extent,
    Instant, KernelProfile, LimiterKind, Limits, Op, Outcome, Part, PerDimension, PrioClass,
    Priority, PriorityClass, Request, RequestId, Resource, SchedulerKind, SliceProfile, TaskId,
    Ticket, Weight,
};

/// What can happen. Numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
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

fn step() -> impl Strategy<Value = Step> {
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
    let weight = || prop_oneof![1..1001_u64, 1..4_u64];
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

/// An engine, what should be in it, and what came of the rest.
struct World {
    engine: Engine,
    now: Instant,
    cgroups: Vec<CgroupId>,
    clients: Vec<ClientId>,
    tasks: Vec<TaskId>,
    /// By tag, which are given in order.
    inside: BTreeMap<u64, RequestId>,
    out: Vec<(u64, Ticket)>,
    done: Done,
    /// Everything that was dispatched, in order: tag and instant.
    log: Vec<(u64, u64)>,
}

/// Requests, by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Done {
    submitted: u64,
    withdrawn: u64,
    completed: u64,
    failed: u64,
}

impl World {
    fn new(rotational: bool, depth: u32) -> World {
        let depth = NonZeroU32::new(depth).expect("a depth");
        let config =
            Config { depth, rotational, scheduler: SchedulerKind::Bfq, ..Config::default() };
        let engine = Engine::new(config, Instant::ZERO);
        let mut world = World {
            cgroups: vec![engine.root()],
            engine,
            now: Instant::ZERO,
            clients: Vec::new(),
            tasks: Vec::new(),
            inside: BTreeMap::new(),
            out: Vec::new(),
            done: Done::default(),
            log: Vec::new(),
        };
        world.open(0, 1);
        world
    }

    fn apply(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Submit { task, op, offset, len, class, part, sync } => {
                if let Some(task) = pick(&self.tasks, task) {
                    let request = Request::new(task, op, Extent::new(offset, len), 0);
                    self.submit(Request { class, part, sync, ..request });
                }
            }
            Step::Stream { task, offset, count } => {
                if let Some(task) = pick(&self.tasks, task) {
                    for number in 0..count {
                        let extent = Extent::new(offset + (u64::from(number) << 16), 1 << 16);
                        self.submit(Request::new(task, Op::Read, extent, 0));
                    }
                }
            }
            Step::Dispatch { count } => (0..count).for_each(|_| {
                self.dispatch();
            }),
            Step::Complete { which, outcome } => {
                if !self.out.is_empty() {
                    let (_, ticket) = self.out.swap_remove(which % self.out.len());
                    self.engine.complete(now, ticket, outcome);
                    self.done.completed += 1;
                    self.done.failed += u64::from(outcome == Outcome::Failed);
                }
            }
            Step::Withdraw { which } => {
                let which = which % self.inside.len().max(1);
                let Some((&tag, &id)) = self.inside.iter().nth(which) else { return };
                let request = self.engine.withdraw(now, id).expect("it was inside");
                assert_eq!(request.tag, tag);
                assert_eq!(self.engine.withdraw(now, id), None, "once");
                self.note_withdrawn(tag);
            }
            Step::WithdrawOf { task } => {
                let Some(task) = pick(&self.tasks, task) else { return };
                if let Some(request) = self.engine.withdraw_next(now, task) {
                    assert_eq!(request.task, task);
                    self.note_withdrawn(request.tag);
                }
            }
            Step::Wait { us } => {
                self.now = now.plus_nanos(us * 1000);
                self.engine.handle_timeout(self.now);
            }
            Step::Back { us } => {
                // Taken for the last instant it has heard of.
                self.engine.handle_timeout(now.minus_nanos(us * 1000));
            }
            Step::Create { parent, weight } => {
                let Some(parent) = pick(&self.cgroups, parent) else { return };
                let name = format!("c{}", self.cgroups.len());
                if let Ok(cgroup) = self.engine.create_cgroup(parent, &name) {
                    self.cgroups.push(cgroup);
                    self.weigh(cgroup, weight);
                }
            }
            Step::Weigh { cgroup, weight } => {
                let Some(cgroup) = pick(&self.cgroups, cgroup) else { return };
                self.weigh(cgroup, weight);
            }
            Step::Limit { cgroup, dimension, rate, kind } => {
                let Some(cgroup) = pick(&self.cgroups, cgroup) else { return };
                let max = match rate {
                    // By the page: 4 GiB at a byte a second would be waited for longer than time lasts.
                    Some(rate) if dimension.resource() == Resource::Bytes => {
                        PerDimension::NONE.with(dimension, rate << 12)
                    }
                    Some(rate) => PerDimension::NONE.with(dimension, rate),
                    None => PerDimension::NONE,
                };
                self.limit(cgroup, Limits { max, limiter: kind, ..Limits::default() });
            }
            Step::Move { cgroup, parent } => {
                let chosen = (pick(&self.cgroups, cgroup), pick(&self.cgroups, parent));
                let (Some(cgroup), Some(parent)) = chosen else { return };
                let _ = self.engine.reconfigure(now, Change::Move { cgroup, parent });
            }
            Step::Remove { cgroup } => {
                let Some(cgroup) = pick(&self.cgroups, cgroup) else { return };
                let _ = self.engine.reconfigure(now, Change::Remove { cgroup });
            }
            Step::Open { cgroup, tasks } => self.open(cgroup, tasks),
            Step::CloseTask { task } => {
                if self.tasks.len() > 1 {
                    let task = self.tasks.swap_remove(task % self.tasks.len());
                    self.engine.close_task(task);
                }
            }
            Step::CloseClient { client } => {
                if self.clients.len() > 1 {
                    let client = self.clients.swap_remove(client % self.clients.len());
                    self.engine.close_client(client);
                }
            }
            Step::Depth { depth } => {
                let depth = NonZeroU32::new(depth).expect("a depth");
                self.engine.reconfigure(now, Change::SetDepth(depth)).expect("a depth");
            }
            Step::Priority { client, class, level } => {
                let Some(client) = pick(&self.clients, client) else { return };
                let priority = Priority::new(class, level).expect("a level");
                let _ = self.engine.reconfigure(now, Change::SetPriority { client, priority });
            }
            Step::PrioClass { cgroup, prio_class } => {
                let Some(cgroup) = pick(&self.cgroups, cgroup) else { return };
                let _ = self.engine.reconfigure(now, Change::SetPrioClass { cgroup, prio_class });
            }
            Step::Switch { scheduler } => {
                self.engine.reconfigure(now, Change::SetScheduler(scheduler)).expect("known");
            }
            Step::Tune { settings } => {
                let settings = BfqSettings::parse(settings, BfqSettings::DEFAULT)
                    .expect("settings that make sense");
                self.engine.reconfigure(now, Change::SetBfq(settings)).expect("the same rules");
            }
        }
    }

    fn open(&mut self, cgroup: usize, tasks: usize) {
        let Some(cgroup) = pick(&self.cgroups, cgroup) else { return };
        let Ok(client) = self.engine.open_client(cgroup) else { return };
        self.clients.push(client);
        for _ in 0..tasks {
            self.tasks.push(self.engine.open_task(client).expect("a client that is open"));
        }
    }

    fn weigh(&mut self, cgroup: CgroupId, weight: u64) {
        let weight = Weight::new(weight).expect("a weight");
        let _ = self.engine.reconfigure(self.now, Change::SetWeight { cgroup, weight });
    }

    fn limit(&mut self, cgroup: CgroupId, limits: Limits) {
        let _ = self.engine.reconfigure(self.now, Change::SetLimits { cgroup, limits });
    }

    fn submit(&mut self, request: Request) {
        let tag = self.done.submitted + 1;
        if let Ok(id) = self.engine.submit(self.now, Request { tag, ..request }) {
            self.done.submitted = tag;
            self.inside.insert(tag, id);
        }
    }

    fn note_withdrawn(&mut self, tag: u64) {
        assert!(self.inside.remove(&tag).is_some(), "{tag} was withdrawn, and was not inside");
        self.done.withdrawn += 1;
    }

    /// A request, and what may be joined to it.
    fn dispatch(&mut self) -> bool {
        let Some(dispatch) = self.engine.poll_dispatch(self.now) else { return false };
        let mut last = self.note_dispatched(dispatch);
        while let Some(dispatch) = self.engine.poll_joined(self.now) {
            let next = self.note_dispatched(dispatch);
            assert_eq!(next.op, last.op);
            assert_eq!(next.extent.offset, last.extent.offset + u64::from(last.extent.len));
            last = next;
        }
        true
    }

    fn note_dispatched(&mut self, dispatch: Dispatch) -> Request {
        let Dispatch { ticket, request } = dispatch;
        let id = self.inside.remove(&request.tag);
        assert_eq!(id, Some(ticket.id()), "{} was dispatched, and was not inside", request.tag);
        self.log.push((request.tag, self.now.as_nanos()));
        self.out.push((request.tag, ticket));
        request
    }

    /// What holds after every call.
    fn check(&mut self) -> Result<(), String> {
        self.engine.check()?;
        let device = self.engine.device();
        let (inside, out) = (self.inside.len() as u32, self.out.len() as u32);
        if (device.ready + device.throttled, device.in_flight) != (inside, out) {
            return Err(format!("{inside} inside and {out} out, counted are {device:?}"));
        }
        let Done { submitted, withdrawn, completed, failed } = self.done;
        if submitted != u64::from(inside + out) + withdrawn + completed {
            return Err(format!("{:?} of which {inside} are inside and {out} out", self.done));
        }
        let root = self.engine.counters(self.engine.root(), true).ok_or("no root")?;
        if (root.completed, root.failed) != (completed, failed) {
            return Err(format!("{:?}, and the root's counters say {root:?}", self.done));
        }
        if !self.engine.audit().balances() {
            return Err(format!("{:?}", self.engine.audit()));
        }
        Ok(())
    }

    /// Whoever may go and is not let go waits for a completion, or has a deadline.
    fn dispatch_all(&mut self) -> Result<(), String> {
        while self.dispatch() {}
        let device = self.engine.device();
        let wakes = device.in_flight > 0 || self.engine.poll_timeout().is_some();
        if device.ready + device.throttled > 0 && !wakes {
            return Err(format!("{device:?} and nothing will ever happen"));
        }
        Ok(())
    }

    /// Without limits and with a device that answers, everything inside comes out, and soon.
    fn finish(&mut self) -> Result<(), String> {
        for cgroup in self.cgroups.clone() {
            self.limit(cgroup, Limits::default());
        }
        // Cgroups that are removed and have clients keep their limits: a rate of 1 a second is the least.
        for _ in 0..10_000 {
            self.dispatch_all()?;
            if self.out.is_empty() && self.inside.is_empty() {
                return self.check();
            }
            if self.out.is_empty() {
                self.now = self.engine.poll_timeout().ok_or("no deadline")?.max(self.now);
                self.engine.handle_timeout(self.now);
            }
            for (_, ticket) in std::mem::take(&mut self.out) {
                self.engine.complete(self.now, ticket, Outcome::Done);
                self.done.completed += 1;
            }
        }
        Err(format!("{:?} never came out: {:?}", self.inside, self.engine.device()))
    }
}

fn pick<T: Copy>(list: &[T], number: usize) -> Option<T> {
    (!list.is_empty()).then(|| list[number % list.len()])
}

fn run(rotational: bool, depth: u32, steps: &[Step]) -> Result<World, String> {
    let mut world = World::new(rotational, depth);
    for (number, step) in steps.iter().enumerate() {
        world.apply(step);
        world.check().map_err(|what| format!("after step {number}, {step:?}: {what}"))?;
    }
    world.finish()?;
    Ok(world)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 64, ..ProptestConfig::default()
    })]

    /// Every request comes out once or is withdrawn, counters and books agree, and the engine is sound after every call.
    #[test]
    fn every_request_comes_out_once(
        rotational in any::<bool>(),
        depth in 1..9_u32,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let world = run(rotational, depth, &steps).map_err(TestCaseError::fail)?;
        let Done { submitted, withdrawn, completed, .. } = world.done;
        prop_assert_eq!(submitted, withdrawn + completed);
        prop_assert_eq!(world.log.len() as u64, completed);
    }

    /// Invariant 23: the same calls with the same instants give the same requests in the same order.
    #[test]
    fn the_same_calls_give_the_same_answers(
        depth in 1..9_u32,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let [one, two] = [(); 2].map(|()| run(true, depth, &steps).map(|world| world.log));
        prop_assert_eq!(one.map_err(TestCaseError::fail)?, two.map_err(TestCaseError::fail)?);
    }

    /// Who is asked as often as can be gives out all that may go, or says when it will.
    #[test]
    fn whoever_waits_waits_for_something(
        rotational in any::<bool>(),
        depth in 1..9_u32,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut world = World::new(rotational, depth);
        for step in &steps {
            world.apply(step);
            world.dispatch_all().map_err(TestCaseError::fail)?;
            world.check().map_err(TestCaseError::fail)?;
        }
    }
}
