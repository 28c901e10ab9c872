//! A request allocates nothing but now and then an octave of a histogram: what an engine grows, it grows once.

#[path = "../benches/engine/counting.rs"]
mod counting;

use std::num::NonZeroU32;

use counting::{Counting, usage};
use weir_engine::settings::{KernelProfile, SliceProfile};
use weir_engine::{
    CgroupId, Change, Class, Config, Dimension, Engine, Extent, Instant, LimiterKind, Limits, Op,
    Outcome, PerDimension, Request, SchedulerKind, TaskId,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LIMITERS: [LimiterKind; 5] = [
    LimiterKind::Pace,
    LimiterKind::Token,
    LimiterKind::Leaky,
    LimiterKind::Slice(SliceProfile { kernel: KernelProfile::K419, hz: 250, slice_ticks: 25 }),
    LimiterKind::Slice(SliceProfile { kernel: KernelProfile::K615, hz: 250, slice_ticks: 25 }),
];

/// A histogram, and more than one of its octaves.
const HISTOGRAM_BYTES: u64 = 288;

#[test]
fn a_request_allocates_nothing_but_new_octaves_of_its_histograms() {
    let none = LIMITERS.map(|limiter| (SchedulerKind::None, limiter));
    for (scheduler, limiter) in none.into_iter().chain([(SchedulerKind::Bfq, LIMITERS[0])]) {
        for iops in [None, Some(1_000_000_000), Some(100)] {
            let mut scene = Scene::new(scheduler, limiter, iops);
            // Long enough for clients to merge, to part and to be waited for, and for deadlines to be as many as they get:
            // there is room once it happened.
            scene.turns(30_000);
            let before = usage();
            let served = scene.turns(8_000);
            let after = usage();
            assert!(served > 2_000, "{limiter:?} at {iops:?}: only {served} requests were served");
            let allocations = after.allocations - before.allocations;
            // A wait that is twice as long as any before it is counted in a new octave.
            assert!(
                allocations <= 16,
                "{allocations} in {served} requests, {limiter:?} at {iops:?}"
            );
            let grown = after.live_bytes - before.live_bytes;
            let allowed = HISTOGRAM_BYTES * allocations;
            assert!(grown <= allowed, "{grown} bytes, {limiter:?} at {iops:?}");
            if let Err(broken) = scene.engine.check() {
                panic!("{limiter:?} at {iops:?}: {broken}");
            }
        }
    }
}

#[test]
fn withdrawn_requests_leave_no_memory_behind() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let now = Instant::ZERO;
    let [early, late] = ["early", "late"].map(|name| {
        let cgroup = engine.create_cgroup(engine.root(), name).expect("a name of its own");
        let iops = if name == "early" { 1000 } else { 1 };
        limit(&mut engine, cgroup, LimiterKind::Token, Some(iops));
        cgroup
    });
    let [early, behind, late] = [early, early, late].map(|cgroup| {
        let client = engine.open_client(cgroup).expect("a live cgroup");
        engine.open_task(client).expect("a live client")
    });
    let read = |task, len| Request::new(task, Op::Read, Extent::new(0, len), 0);
    for (task, requests) in [(early, 100), (late, 5)] {
        for _ in 0..requests {
            engine.submit(now, read(task, 4096)).expect("room for a hundred requests");
        }
    }
    let mut churn = |times| {
        for time in 0..times {
            // Behind others at its limit.
            let id = engine.submit(now, read(behind, 4096)).expect("room for a request");
            engine.withdraw(now, id).expect("it waits");
            // First at its limit, with a deadline that is another one each time, behind the early one.
            while engine.withdraw_next(now, late).is_some() {}
            engine.submit(now, read(late, 4096 + time)).expect("room for a request");
        }
        usage().live_bytes
    };
    let before = churn(100);
    assert_eq!(churn(10_000), before, "bytes held after many more times");
}

#[test]
fn absent_flows_are_evicted_when_others_come() {
    let config = Config { scheduler: SchedulerKind::Bfq, ..Config::default() };
    let mut engine = Engine::new(config, Instant::ZERO);
    let root = engine.root();
    let tasks: Vec<TaskId> = (0..1_000)
        .map(|_| {
            let client = engine.open_client(root).expect("a live cgroup");
            engine.open_task(client).expect("a live client")
        })
        .collect();
    // Fifty tasks send one request each, then another fifty, 11 s later.
    let mut held = Vec::new();
    for (shift, tasks) in tasks.chunks(50).enumerate() {
        for (number, &task) in tasks.iter().enumerate() {
            let now = Instant::from_millis(shift as u64 * 11_000 + number as u64 / 5);
            let extent = Extent::new(number as u64 * 4096, 4096);
            engine.submit(now, Request::new(task, Op::Read, extent, 0)).expect("room");
            let dispatch = engine.poll_dispatch(now).expect("it waits for nobody");
            engine.complete(now, dispatch.ticket, Outcome::Done);
        }
        engine.check().expect("a sound engine");
        held.push(usage().live_bytes);
    }
    let grown = (held[19] - held[2]) / 850;
    assert!(grown <= 16, "{grown} bytes for each client that was there once: {held:?}");
}

/// Twelve clients with a task or two each in a small tree, all of them busy.
struct Scene {
    engine: Engine,
    now: Instant,
    tasks: Vec<TaskId>,
    /// Requests each task has inside.
    held: Vec<u32>,
    turn: u64,
}

impl Scene {
    /// Every cgroup is limited to `iops`, and its parent to less than all its children together.
    fn new(scheduler: SchedulerKind, limiter: LimiterKind, iops: Option<u64>) -> Scene {
        let depth = const { NonZeroU32::new(4).unwrap() };
        let config = Config { depth, scheduler, ..Config::default() };
        let mut engine = Engine::new(config, Instant::ZERO);
        let root = engine.root();
        let mut tasks = Vec::new();
        for outer in ["a", "b"] {
            let parent = engine.create_cgroup(root, outer).expect("a name of its own");
            limit(&mut engine, parent, limiter, iops.map(|iops| 2 * iops));
            for inner in ["x", "y", "z"] {
                let cgroup = engine.create_cgroup(parent, inner).expect("a name of its own");
                limit(&mut engine, cgroup, limiter, iops);
                for tasks_of_client in [1, 2] {
                    let client = engine.open_client(cgroup).expect("a live cgroup");
                    for _ in 0..tasks_of_client {
                        tasks.push(engine.open_task(client).expect("a live client"));
                    }
                }
            }
        }
        let held = vec![0; tasks.len()];
        Scene { engine, now: Instant::ZERO, tasks, held, turn: 0 }
    }

    /// Answers how many requests were served.
    fn turns(&mut self, turns: u32) -> u32 {
        (0..turns).map(|_| self.turn()).sum()
    }

    /// Every task asks for as many as it had not, and some of what waits is taken back.
    fn turn(&mut self) -> u32 {
        self.turn += 1;
        let next = self.now.plus_nanos(100_000);
        self.now = self.engine.poll_timeout().map_or(next, |timeout| timeout.max(next));
        self.engine.handle_timeout(self.now);
        for index in 0..self.tasks.len() {
            if self.held[index] < 3 {
                self.submit(index);
            }
        }
        if self.turn.is_multiple_of(3) {
            self.withdraw(self.turn as usize % self.tasks.len());
        }
        let mut served = 0;
        while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
            self.held[dispatch.request.tag as usize] -= 1;
            served += 1;
            self.engine.complete(self.now, dispatch.ticket, Outcome::Done);
        }
        served
    }

    fn submit(&mut self, index: usize) {
        // Not all of one kind and size: waits end for different reasons.
        let mix = self.turn + index as u64;
        let op = [Op::Read, Op::Write, Op::Flush][(mix % 3) as usize];
        let extent = Extent::new(mix * 4096, 4096 << (mix % 4));
        let request = Request::new(self.tasks[index], op, extent, index as u64);
        self.engine.submit(self.now, request).expect("room for three requests a task");
        self.held[index] += 1;
    }

    fn withdraw(&mut self, index: usize) {
        if self.engine.withdraw_next(self.now, self.tasks[index]).is_some() {
            self.held[index] -= 1;
        }
    }
}

fn limit(engine: &mut Engine, cgroup: CgroupId, limiter: LimiterKind, iops: Option<u64>) {
    let Some(iops) = iops else { return };
    let per_second = [4096 * iops, 4096 * iops, iops, iops];
    let max = Dimension::ALL
        .iter()
        .zip(per_second)
        .fold(PerDimension::NONE, |max, (&dimension, value)| max.with(dimension, value));
    let limits = Limits { max, limiter, ..Limits::default() };
    let change = Change::SetLimits { cgroup, limits };
    engine.reconfigure(Instant::ZERO, change).expect("limits that make sense");
}

/// Write-back that a flush waits for changes its flow without an allocation, wherever it is.
#[test]
fn a_promotion_allocates_nothing() {
    for limiter in LIMITERS {
        let config = Config { scheduler: SchedulerKind::Bfq, ..Config::default() };
        let mut engine = Engine::new(config, Instant::ZERO);
        let cgroup = engine.create_cgroup(engine.root(), "one").expect("a name of its own");
        limit(&mut engine, cgroup, limiter, Some(1_000));
        let [payer, waiter] = [(); 2].map(|()| {
            let client = engine.open_client(cgroup).expect("a live cgroup");
            engine.open_task(client).expect("a live client")
        });
        let mut now = Instant::ZERO;
        let mut round = |engine: &mut Engine| {
            let ids: Vec<_> = (0..64)
                .map(|tag| {
                    let extent = Extent::new(tag * 8192, 4096);
                    let request = Request::new(payer, Op::Write, extent, tag);
                    engine.submit(now, Request { sync: false, ..request }).expect("room")
                })
                .collect();
            let before = usage().allocations;
            for (number, id) in ids.into_iter().enumerate() {
                let class = if number % 3 == 0 { Class::Owed } else { Class::Data };
                engine.promote(now, id, waiter, class);
            }
            let allocated = usage().allocations - before;
            while engine.device().ready + engine.device().throttled > 0 {
                engine.handle_timeout(now);
                while let Some(dispatch) = engine.poll_dispatch(now) {
                    engine.complete(now, dispatch.ticket, Outcome::Done);
                }
                now = engine.poll_timeout().unwrap_or(now).max(now.plus_nanos(1_000_000));
            }
            allocated
        };
        // Two rounds for the tables to reach their size.
        round(&mut engine);
        round(&mut engine);
        assert_eq!(round(&mut engine), 0, "{limiter:?}");
    }
}
