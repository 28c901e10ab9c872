//! `scheduler = "bfq"` from outside: shares, order, and that nothing is lost whatever is done to the tree.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_engine::settings::{LowLatency, PrioClass};
use weir_engine::{
    CgroupId, Change, ClientId, Dimension, Dispatch, Engine, Extent, Instant, Limits, Op, Outcome,
    PerDimension, Request, RequestId, SchedulerKind, TaskId, Ticket, Weight,
};

use crate::support::{bfq, child, read, task, weigh};

/// Keeps `deep` requests of each task inside, on a device that takes `ns` for one of them; bytes served to each task.
fn saturate(
    engine: &mut Engine,
    tasks: &[TaskId],
    deep: u32,
    ns: u64,
    turns: u32,
    next: impl FnMut(TaskId) -> (u64, u32),
) -> Vec<u64> {
    saturate_from(engine, Instant::ZERO, tasks, deep, ns, turns, next)
}

/// The same from then on.
fn saturate_from(
    engine: &mut Engine,
    mut now: Instant,
    tasks: &[TaskId],
    deep: u32,
    ns: u64,
    turns: u32,
    mut next: impl FnMut(TaskId) -> (u64, u32),
) -> Vec<u64> {
    let mut served: BTreeMap<TaskId, u64> = tasks.iter().map(|&task| (task, 0)).collect();
    for &task in tasks {
        for _ in 0..deep {
            let (offset, len) = next(task);
            engine.submit(now, read(task, offset, len)).expect("room");
        }
    }
    for _ in 0..turns {
        let Dispatch { ticket, request, .. } =
            engine.poll_dispatch(now).expect("work is conserved");
        now = now.plus_nanos(ns);
        engine.complete(now, ticket, Outcome::Done);
        *served.get_mut(&request.task).expect("one of the tasks") += u64::from(request.extent.len);
        let (offset, len) = next(request.task);
        engine.submit(now, read(request.task, offset, len)).expect("room");
    }
    engine.check().expect("a sound engine");
    tasks.iter().map(|task| served[task]).collect()
}

/// A stream for each task, in a region of its own.
fn streams(len: u32) -> impl FnMut(TaskId) -> (u64, u32) {
    let mut ends: BTreeMap<TaskId, u64> = BTreeMap::new();
    move |task| {
        let region = (ends.len() as u64) << 40;
        let end = ends.entry(task).or_insert(region);
        *end += u64::from(len);
        (*end - u64::from(len), len)
    }
}

#[test]
fn shares_follow_weights() {
    let mut engine = bfq(1);
    let root = engine.root();
    let tasks = [100, 200, 400].map(|weight| {
        let cgroup = child(&mut engine, root, &format!("w{weight}"), weight);
        task(&mut engine, cgroup)
    });
    let served = saturate(&mut engine, &tasks, 16, 300_000, 70_000, streams(64 << 10));
    // 4.4 GB in slots of at most 8 MiB: each is within two slots of its share.
    let all: u64 = served.iter().sum();
    for (served, weight) in served.iter().zip([100, 200, 400]) {
        let share = all * weight / 700;
        assert!(served.abs_diff(share) < 16 << 20, "{served} of {share} at weight {weight}");
    }
}

/// A flow that waits at a small weight, or was served at it, does not go on waiting at a large one; and what it missed by
/// its small weight it is not owed.
#[test]
fn a_new_weight_counts_for_a_waiting_flow_at_once() {
    for turns in [19_000, 19_500, 20_123, 21_777] {
        let mut engine = bfq(1);
        let root = engine.root();
        let groups =
            [1, 100, 1000].map(|weight| child(&mut engine, root, &format!("w{weight}"), weight));
        let tasks = groups.map(|cgroup| task(&mut engine, cgroup));
        let mut streams = streams(64 << 10);
        saturate(&mut engine, &tasks, 16, 300_000, turns, &mut streams);
        let mut now = Instant::from_nanos(u64::from(turns) * 300_000);
        for weights in [[1000, 100, 1], [100, 100, 100], [1, 1, 1000], [500, 500, 1]] {
            groups
                .iter()
                .zip(weights)
                .for_each(|(&group, weight)| weigh(&mut engine, Instant::ZERO, group, weight));
            let served = saturate_from(&mut engine, now, &tasks, 0, 300_000, 20_000, &mut streams);
            now = now.plus_nanos(20_000 * 300_000);
            let (all, sum) = (served.iter().sum::<u64>(), weights.iter().sum::<u64>());
            for (served, weight) in served.iter().zip(weights) {
                let share = all * weight / sum;
                assert!(
                    served.abs_diff(share) < 24 << 20,
                    "{served} of {share} at {weights:?} after {turns}"
                );
            }
        }
    }
}

/// Nor does it wait out its slot in the class that it had.
#[test]
fn a_new_class_counts_for_a_waiting_flow_at_once() {
    let mut engine = bfq(1);
    let root = engine.root();
    let groups = [1, 1000].map(|weight| child(&mut engine, root, &format!("w{weight}"), weight));
    let tasks = groups.map(|cgroup| task(&mut engine, cgroup));
    let mut streams = streams(64 << 10);
    saturate(&mut engine, &tasks, 16, 300_000, 20_000, &mut streams);
    let mut now = Instant::from_nanos(20_000 * 300_000);
    for (prio_class, share) in [
        (PrioClass::PromoteToRt, 100),
        (PrioClass::NoChange, 0),
        (PrioClass::Idle, 0),
        (PrioClass::PromoteToRt, 100),
    ] {
        engine.reconfigure(now, Change::SetPrioClass { cgroup: groups[0], prio_class }).unwrap();
        engine.check().unwrap();
        let served = saturate_from(&mut engine, now, &tasks, 0, 300_000, 5_000, &mut streams);
        now = now.plus_nanos(5_000 * 300_000);
        let found = served[0] * 100 / served.iter().sum::<u64>();
        assert!(found.abs_diff(share) < 5, "{found} % as {prio_class:?}");
    }
}

#[test]
fn shares_of_a_parent_are_shared_by_its_children() {
    let mut engine = bfq(1);
    let root = engine.root();
    let a = child(&mut engine, root, "a", 100);
    let b = child(&mut engine, root, "b", 300);
    let [b1, b2] =
        [("b1", 500), ("b2", 1000)].map(|(name, weight)| child(&mut engine, b, name, weight));
    let tasks = [a, b1, b2, b2].map(|cgroup| task(&mut engine, cgroup));
    let served = saturate(&mut engine, &tasks, 8, 300_000, 80_000, streams(64 << 10));
    let all: u64 = served.iter().sum();
    for (served, twelfths) in served.iter().zip([3, 3, 3, 3]) {
        let share = all * twelfths / 12;
        assert!(served.abs_diff(share) < 32 << 20, "{served} of {share}");
    }
}

#[test]
fn a_client_with_eight_tasks_gets_the_share_of_one_task() {
    let mut engine = bfq(1);
    let root = engine.root();
    let many = engine.open_client(root).expect("the root");
    let mut tasks: Vec<TaskId> =
        (0..8).map(|_| engine.open_task(many).expect("a client")).collect();
    tasks.push(task(&mut engine, root));
    let served = saturate(&mut engine, &tasks, 8, 300_000, 40_000, streams(64 << 10));
    let many: u64 = served[..8].iter().sum();
    assert!(many.abs_diff(served[8]) < 16 << 20, "{many} and {}", served[8]);
}

#[test]
fn small_requests_buy_no_larger_share() {
    let mut engine = bfq(1);
    let root = engine.root();
    let tasks = [(); 2].map(|()| task(&mut engine, root));
    let (small, mut next) = (tasks[0], streams(4 << 10));
    // The second task's are sixteen times as long.
    let served = saturate(&mut engine, &tasks, 32, 10_000, 100_000, move |task| {
        let (at, len) = next(task);
        if task == small { (at, len) } else { (at * 16, len * 16) }
    });
    assert!(served[0].abs_diff(served[1]) < 16 << 20 && served[0] > 128 << 20, "{served:?}");
}

#[test]
fn a_seeky_flow_pays_for_its_time() {
    // A stream takes 1 ms for 64 KiB, random reads 8 ms for 4 KiB: by bytes, the stream would have the device 0.8 % of
    // the time. By time it has about half.
    let mut engine = bfq(1);
    let root = engine.root();
    // While it is new, it would not.
    let low_latency = Some(LowLatency::Never);
    let change = Change::SetLowLatency { cgroup: root, low_latency };
    engine.reconfigure(Instant::ZERO, change).expect("the root");
    let [stream, random] = [(); 2].map(|()| task(&mut engine, root));
    let (mut now, mut busy, mut at) = (Instant::ZERO, [0_u64; 2], 0_u64);
    let mut next = |task| {
        at += 64 << 10;
        if task == stream {
            read(task, at, 64 << 10)
        } else {
            read(task, (at * 7919) % (1 << 40), 4096)
        }
    };
    for task in [stream, random].repeat(8) {
        engine.submit(now, next(task)).expect("room");
    }
    while now < Instant::from_millis(60_000) {
        let Dispatch { ticket, request, .. } =
            engine.poll_dispatch(now).expect("work is conserved");
        let (which, ns) = if request.task == stream { (0, 1_000_000) } else { (1, 8_000_000) };
        busy[which] += ns;
        now = now.plus_nanos(ns);
        engine.complete(now, ticket, Outcome::Done);
        engine.submit(now, next(request.task)).expect("room");
    }
    let percent = busy[0] * 100 / (busy[0] + busy[1]);
    assert!((40..=60).contains(&percent), "the stream has the device {percent} % of the time");
}

#[test]
fn requests_go_by_position() {
    let mut engine = bfq(1);
    let root = engine.root();
    let task = task(&mut engine, root);
    for offset in [50, 20, 40, 10, 30] {
        engine.submit(Instant::ZERO, read(task, offset << 30, 4096)).expect("room");
    }
    let order = drain(&mut engine, Instant::ZERO);
    assert_eq!(order.map(|offset| offset >> 30), [10, 20, 30, 40, 50]);
}

#[test]
fn an_expired_request_goes_before_nearer_ones() {
    let mut engine = bfq(1);
    let root = engine.root();
    let task = task(&mut engine, root);
    // A request of the flow has the device's position beyond the old one.
    engine.submit(Instant::ZERO, read(task, 90 << 30, 4096)).expect("room");
    drain::<1>(&mut engine, Instant::ZERO);
    engine.submit(Instant::ZERO, read(task, 10 << 30, 4096)).expect("room");
    let late = Instant::from_millis(125);
    for offset in [91, 92, 93] {
        engine.submit(late, read(task, offset << 30, 4096)).expect("room");
    }
    let order = drain(&mut engine, late);
    assert_eq!(order.map(|offset| offset >> 30), [10, 91, 92, 93]);
}

/// Offsets in the order of dispatch.
fn drain<const N: usize>(engine: &mut Engine, now: Instant) -> [u64; N] {
    let order = [(); N].map(|()| {
        let dispatch = engine.poll_dispatch(now).expect("a request");
        engine.complete(now, dispatch.ticket, Outcome::Done);
        dispatch.request.extent.offset
    });
    assert_eq!(engine.poll_dispatch(now), None);
    order
}

/// What can be done to an engine.
#[derive(Clone, Debug)]
enum Step {
    Submit { task: usize, op: Op, offset: u64, len: u32 },
    Dispatch,
    Complete { which: usize, failed: bool },
    Withdraw { which: usize },
    WithdrawOf { task: usize },
    Wait { ms: u64 },
    Weigh { cgroup: usize, weight: u64 },
    Limit { cgroup: usize, iops: Option<u64> },
    Move { cgroup: usize, parent: usize },
    Open { cgroup: usize },
    Close { task: usize },
    Remove { cgroup: usize },
    Switch { scheduler: SchedulerKind },
    Tune { text: &'static str },
}

fn step() -> impl Strategy<Value = Step> {
    let op = prop::sample::select(vec![Op::Read, Op::Write, Op::Flush, Op::Discard]);
    let len = prop::sample::select(vec![0, 512, 4096, 1 << 20, 20 << 20]);
    let (number, cgroup) = (0..16_usize, 0..7_usize);
    prop_oneof![
        8 => (number.clone(), op, 0..64_u64, len).prop_map(|(task, op, offset, len)| {
            Step::Submit { task, op, offset: offset << 20, len }
        }),
        8 => Just(Step::Dispatch),
        6 => (number.clone(), any::<bool>()).prop_map(|(which, failed)| Step::Complete { which, failed }),
        1 => number.clone().prop_map(|which| Step::Withdraw { which }),
        1 => number.clone().prop_map(|task| Step::WithdrawOf { task }),
        2 => (0..200_u64).prop_map(|ms| Step::Wait { ms }),
        1 => (cgroup.clone(), 1..1001_u64).prop_map(|(cgroup, weight)| Step::Weigh { cgroup, weight }),
        1 => (cgroup.clone(), prop::option::of(10..1000_u64))
            .prop_map(|(cgroup, iops)| Step::Limit { cgroup, iops }),
        1 => (cgroup.clone(), cgroup.clone())
            .prop_map(|(cgroup, parent)| Step::Move { cgroup, parent }),
        1 => cgroup.clone().prop_map(|cgroup| Step::Open { cgroup }),
        1 => number.prop_map(|task| Step::Close { task }),
        1 => cgroup.prop_map(|cgroup| Step::Remove { cgroup }),
        1 => prop::sample::select(SchedulerKind::ALL.to_vec())
            .prop_map(|scheduler| Step::Switch { scheduler }),
        1 => prop::sample::select(vec![
            "slice_idle=0 max_budget=32 timeout_sync=1",
            "slice_idle=10s max_budget=1G timeout_sync=60s strict_guarantees=1",
            "low_latency=0 fifo_expire_sync=1 back_seek_max=0",
            "low_latency=1 fifo_expire_sync=1h back_seek_max=1T back_seek_penalty=1000",
            "merge_window=off stable=off",
            "merge_window=unlimited stable=intent close_bytes=1T",
        ])
        .prop_map(|text| Step::Tune { text }),
    ]
}

/// An engine, and what should be inside it.
struct World {
    engine: Engine,
    now: Instant,
    cgroups: Vec<CgroupId>,
    tasks: Vec<(ClientId, TaskId)>,
    inside: BTreeMap<u64, RequestId>,
    out: Vec<(u64, Ticket)>,
    tags: u64,
}

impl World {
    fn new() -> World {
        let mut engine = bfq(3);
        let root = engine.root();
        let mut cgroups = vec![root];
        for (name, parent, weight) in
            [("a", 0, 100), ("b", 0, 300), ("c", 1, 10), ("d", 1, 1000), ("e", 2, 100), ("f", 4, 7)]
        {
            cgroups.push(child(&mut engine, cgroups[parent], name, weight));
        }
        let (inside, out) = (BTreeMap::new(), Vec::new());
        let mut world =
            World { engine, now: Instant::ZERO, cgroups, tasks: Vec::new(), inside, out, tags: 0 };
        [0, 1, 3, 3, 4, 5, 6].into_iter().for_each(|cgroup| world.open(cgroup));
        world
    }

    fn open(&mut self, cgroup: usize) {
        let Ok(client) = self.engine.open_client(self.cgroups[cgroup]) else { return };
        for _ in 0..1 + self.tasks.len() % 2 {
            self.tasks.push((client, self.engine.open_task(client).expect("a live client")));
        }
    }

    fn dispatch(&mut self) {
        if let Some(Dispatch { ticket, request, .. }) = self.engine.poll_dispatch(self.now) {
            let id = self.inside.remove(&request.tag);
            assert_eq!(id, Some(ticket.id()), "dispatched and was not inside");
            self.out.push((request.tag, ticket));
        }
    }

    fn apply(&mut self, step: Step) {
        let now = self.now;
        match step {
            Step::Submit { task, op, offset, len } => {
                if self.tasks.is_empty() {
                    return;
                }
                let (_, task) = self.tasks[task % self.tasks.len()];
                self.tags += 1;
                let request = Request::new(task, op, Extent::new(offset, len), self.tags);
                if let Ok(id) = self.engine.submit(now, request) {
                    self.inside.insert(self.tags, id);
                }
            }
            Step::Dispatch => self.dispatch(),
            Step::Complete { which, failed } => {
                if !self.out.is_empty() {
                    let (_, ticket) = self.out.swap_remove(which % self.out.len());
                    let outcome = if failed { Outcome::Failed } else { Outcome::Done };
                    self.engine.complete(now, ticket, outcome);
                }
            }
            Step::Withdraw { which } => {
                let Some((&tag, &id)) = self.inside.iter().nth(which) else { return };
                let request = self.engine.withdraw(now, id).expect("it was inside");
                assert_eq!(request.tag, tag);
                self.inside.remove(&tag);
            }
            Step::WithdrawOf { task } => {
                if self.tasks.is_empty() {
                    return;
                }
                let (_, task) = self.tasks[task % self.tasks.len()];
                if let Some(request) = self.engine.withdraw_next(now, task) {
                    assert!(self.inside.remove(&request.tag).is_some(), "it was inside");
                }
            }
            Step::Wait { ms } => {
                self.now = now.plus_nanos(ms * 1_000_000);
                self.engine.handle_timeout(self.now);
            }
            Step::Weigh { cgroup, weight } => {
                let weight = Weight::new(weight).expect("a weight");
                let change = Change::SetWeight { cgroup: self.cgroups[cgroup], weight };
                let _ = self.engine.reconfigure(now, change);
            }
            Step::Limit { cgroup, iops } => {
                let max = match iops {
                    Some(iops) => PerDimension::NONE.with(Dimension::Riops, iops),
                    None => PerDimension::NONE,
                };
                let limits = Limits { max, ..Limits::default() };
                let change = Change::SetLimits { cgroup: self.cgroups[cgroup], limits };
                let _ = self.engine.reconfigure(now, change);
            }
            Step::Move { cgroup, parent } => {
                let (cgroup, parent) = (self.cgroups[cgroup], self.cgroups[parent]);
                let _ = self.engine.reconfigure(now, Change::Move { cgroup, parent });
            }
            Step::Open { cgroup } => self.open(cgroup),
            Step::Close { task } => {
                if self.tasks.len() > 2 {
                    let (client, task) = self.tasks.swap_remove(task % self.tasks.len());
                    self.engine.close_task(task);
                    if !self.tasks.iter().any(|&(other, _)| other == client) {
                        self.engine.close_client(client);
                    }
                }
            }
            Step::Remove { cgroup } => {
                let change = Change::Remove { cgroup: self.cgroups[cgroup] };
                let _ = self.engine.reconfigure(now, change);
            }
            Step::Switch { scheduler } => {
                let mut before = self.engine.device();
                self.engine.reconfigure(now, Change::SetScheduler(scheduler)).expect("allowed");
                let after = self.engine.device();
                before.scheduler = scheduler;
                assert_eq!(after, before);
                if scheduler == SchedulerKind::None {
                    assert_eq!(self.raised_now(), [0, 0]);
                }
            }
            Step::Tune { text } => {
                let settings = weir_text::parse_bfq(text, self.engine.bfq_settings()).expect(text);
                self.engine.reconfigure(now, Change::SetBfq(settings)).expect("the same rules");
            }
        }
    }

    /// Flows whose weight is raised, by the device's books and by those of cgroups.
    fn raised_now(&self) -> [u32; 2] {
        let of_root = self.engine.bfq_cgroup_stats(self.engine.root()).expect("the root");
        [self.engine.bfq_stats().raised_now, of_root.raised_now]
    }

    /// Without any limit, everything inside comes out.
    fn finish(&mut self) {
        for cgroup in 0..self.cgroups.len() {
            self.apply(Step::Limit { cgroup, iops: None });
        }
        // Removed cgroups keep their limits as long as they have clients.
        for _ in 0..1000 {
            while !self.out.is_empty() {
                self.apply(Step::Complete { which: 0, failed: false });
            }
            self.dispatch();
            self.now = self.engine.poll_timeout().unwrap_or(self.now).max(self.now);
            self.engine.handle_timeout(self.now);
            if self.inside.is_empty() && self.out.is_empty() {
                break;
            }
        }
        assert!(self.inside.is_empty(), "{:?} never came out", self.inside);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is done, every request comes out once, and the engine is sound after every call.
    #[test]
    fn nothing_is_lost_or_duplicated(steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World::new();
        for step in steps {
            let text = format!("{step:?}");
            world.apply(step);
            if let Err(broken) = world.engine.check() {
                panic!("after {text}: {broken}");
            }
            let [of_device, of_cgroups] = world.raised_now();
            prop_assert_eq!(of_device, of_cgroups, "after {}", text);
        }
        world.finish();
        world.engine.check().expect("a sound engine");
    }

    /// While anything is past the limits and the device has room, something is dispatched; else the device waits for
    /// a flow, for a completion or for as long as it is set to idle at most.
    #[test]
    fn work_is_conserved_or_waits_for_a_reason(steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
            let device = world.engine.device();
            if device.ready > 0 && device.in_flight < device.depth {
                let before = world.inside.len();
                world.dispatch();
                if world.inside.len() == before && world.out.is_empty() {
                    let until = world.engine.poll_timeout().expect("a reason to wait");
                    // The longest that any step sets.
                    prop_assert!(until <= world.now.plus_nanos(10_000_000_000), "until {until:?}");
                }
            }
        }
    }

    /// A request that is too old leaves after at most 17 of its client for itself and for each older one.
    #[test]
    fn no_request_waits_for_ever(
        offsets in prop::collection::vec(0..1000_u64, 40..300),
        old in 1..30_usize,
    ) {
        let mut engine = bfq(1);
        let root = engine.root();
        let task = task(&mut engine, root);
        let mut arrivals = offsets.into_iter();
        let submit = |engine: &mut Engine, now, tag: u64, offset: u64| {
            let extent = Extent::new(offset << 20, 4096);
            engine.submit(now, Request::new(task, Op::Read, extent, tag)).expect("room");
        };
        let mut tags = 0;
        for offset in arrivals.by_ref().take(old) {
            submit(&mut engine, Instant::ZERO, tags, offset);
            tags += 1;
        }
        let late = Instant::from_millis(125);
        let mut left = old as u64;
        for turn in 0.. {
            // New requests are always nearer than old ones.
            if let Some(offset) = arrivals.next() {
                submit(&mut engine, late, tags, offset);
                tags += 1;
            }
            let Some(dispatch) = engine.poll_dispatch(late) else { break };
            engine.complete(late, dispatch.ticket, Outcome::Done);
            if dispatch.request.tag < old as u64 {
                left -= 1;
                prop_assert!(turn < 17 * old, "an old one left in turn {turn}");
            }
        }
        prop_assert_eq!(left, 0);
    }
}
