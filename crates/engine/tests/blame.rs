//! Every nanosecond that a request spends inside is blamed on exactly one thing.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_engine::{
    CgroupId, Dimension, Engine, Extent, Instant, LimiterKind, Limits, Op, Outcome, PerDimension,
    Request, TaskId, Ticket,
};

use crate::support;

/// Nanoseconds that the device takes for each request.
const SERVICE_NS: u64 = 300_000;

/// What happens next, to which task.
#[derive(Clone, Copy, Debug)]
enum Step {
    Submit { task: usize, write: bool, len: u32 },
    Wait { millis: u64 },
    Lift { cgroup: usize },
    Limit { cgroup: usize, per_second: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4usize, any::<bool>(), 512..65_536u32)
            .prop_map(|(task, write, len)| Step::Submit { task, write, len }),
        3 => (0..40u64).prop_map(|millis| Step::Wait { millis }),
        1 => (0..3usize).prop_map(|cgroup| Step::Lift { cgroup }),
        1 => (0..3usize, 1..500u64)
            .prop_map(|(cgroup, per_second)| Step::Limit { cgroup, per_second }),
    ]
}

/// An engine, its device, and how long each request was inside.
struct World {
    engine: Engine,
    now: Instant,
    cgroups: Vec<CgroupId>,
    tasks: Vec<TaskId>,
    at_device: BTreeMap<(Instant, u64), Ticket>,
    submitted: BTreeMap<u64, Instant>,
    inside_ns: u64,
    tags: u64,
}

impl World {
    fn new(limiter: LimiterKind) -> World {
        let mut engine = support::engine(support::config(weir_engine::SchedulerKind::None, 2));
        let cgroups = ["/a", "/a/b", "/c"].map(|path| support::cgroup(&mut engine, path)).to_vec();
        let tasks = [0, 1, 1, 2].map(|index| support::task(&mut engine, cgroups[index])).to_vec();
        let mut world = World {
            engine,
            now: Instant::ZERO,
            cgroups,
            tasks,
            at_device: BTreeMap::new(),
            submitted: BTreeMap::new(),
            inside_ns: 0,
            tags: 0,
        };
        for cgroup in 0..3 {
            world.limit(cgroup, 100, limiter);
        }
        world
    }

    fn limit(&mut self, cgroup: usize, per_second: u64, limiter: LimiterKind) {
        let max = PerDimension::NONE
            .with(Dimension::Riops, per_second)
            .with(Dimension::Wbps, per_second * 8192);
        let max = match limiter {
            // It is the kernel's, which has none on both directions.
            LimiterKind::Slice(_) => max,
            _ => max
                .with(Dimension::Rwbps, per_second * 12_288)
                .with(Dimension::Rwiops, per_second * 3 / 2 + 1),
        };
        self.set(cgroup, Limits { max, limiter, ..Limits::default() });
    }

    fn set(&mut self, cgroup: usize, limits: Limits) {
        let cgroup = self.cgroups[cgroup];
        support::limit(&mut self.engine, self.now, cgroup, limits);
        self.turn();
    }

    fn submit(&mut self, task: usize, write: bool, len: u32) {
        self.tags += 1;
        let op = if write { Op::Write } else { Op::Read };
        let request = Request::new(self.tasks[task], op, Extent::new(0, len), self.tags);
        self.engine.submit(self.now, request).unwrap();
        self.submitted.insert(self.tags, self.now);
        self.turn();
    }

    fn turn(&mut self) {
        self.engine.handle_timeout(self.now);
        while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
            let done = (self.now.plus_nanos(SERVICE_NS), dispatch.request.tag);
            self.at_device.insert(done, dispatch.ticket);
        }
        self.engine.check().unwrap();
    }

    /// Lets time pass, with whatever happens in it.
    fn advance(&mut self, until: Instant) {
        loop {
            let timeout = self.engine.poll_timeout();
            let done = self.at_device.keys().next().map(|&(at, _)| at);
            let Some(next) = timeout.into_iter().chain(done).min().filter(|&at| at <= until) else {
                break;
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.at_device.first_entry().filter(|e| e.key().0 <= self.now) {
                let ((_, tag), ticket) = entry.remove_entry();
                self.engine.complete(self.now, ticket, Outcome::Done);
                self.inside_ns += self.now.nanos_since(self.submitted.remove(&tag).unwrap());
            }
            self.turn();
        }
        self.now = self.now.max(until.min(self.now.plus_nanos(3_600_000_000_000)));
    }

    fn blamed_ns(&self) -> u64 {
        self.engine.counters(self.engine.root(), true).unwrap().blame.total_ns()
    }
}

fn adds_up(limiter: LimiterKind, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = World::new(limiter);
    for &step in steps {
        match step {
            Step::Submit { task, write, len } => world.submit(task, write, len),
            Step::Wait { millis } => world.advance(world.now.plus_nanos(millis * 1_000_000)),
            Step::Lift { cgroup } => world.set(cgroup, Limits { limiter, ..Limits::default() }),
            Step::Limit { cgroup, per_second } => world.limit(cgroup, per_second, limiter),
        }
    }
    world.advance(Instant::FAR_FUTURE);
    prop_assert!(world.submitted.is_empty(), "{} requests never came back", world.submitted.len());
    prop_assert_eq!(world.blamed_ns(), world.inside_ns);
    // What each task had to wait for, one dimension after the other, is what its cgroup knows of.
    let all = world.engine.counters(world.engine.root(), true).unwrap();
    let tasks: Vec<_> =
        world.tasks.iter().map(|&task| world.engine.task_stats(task).unwrap()).collect();
    for dimension in Dimension::ALL {
        let throttled: u64 = tasks.iter().map(|stats| stats.throttled[dimension as usize]).sum();
        prop_assert_eq!(throttled, all.throttled[dimension as usize], "{:?}", dimension);
    }
    let waited_ns: u64 = tasks.iter().flat_map(|stats| stats.wait_ns).sum();
    let limits_ns: u64 = all.blame.limits.iter().flat_map(|limit| limit.wait_ns).sum();
    prop_assert_eq!(waited_ns, limits_ns + all.blame.others_ns);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn waits_add_up_to_the_time_inside(steps in prop::collection::vec(step(), 1..60)) {
        adds_up(LimiterKind::Pace, &steps)?;
        adds_up(LimiterKind::Token, &steps)?;
    }

    #[test]
    fn waits_add_up_under_hierarchical_dispatch(steps in prop::collection::vec(step(), 1..60)) {
        let kernel = weir_engine::settings::KernelProfile::K612;
        let profile = weir_engine::settings::SliceProfile { kernel, hz: 250, slice_ticks: 25 };
        adds_up(LimiterKind::Slice(profile), &steps)?;
    }
}

/// spec/throttle P6: a request that waits is looked at a bounded number of times before it goes; where slices are, every eight
/// of them.
#[test]
fn a_long_wait_takes_few_polls() {
    let kernel = weir_engine::settings::KernelProfile::K612;
    let slice = weir_engine::settings::SliceProfile { kernel, hz: 1000, slice_ticks: 100 };
    let every_800_ms = |wait_ns: u64| 2 + wait_ns / 800_000_000;
    for (limiter, looks_max) in [
        (LimiterKind::Pace, (|_| 1) as fn(u64) -> u64),
        (LimiterKind::Token, |_| 1),
        (LimiterKind::Leaky, |_| 1),
        (LimiterKind::Slice(slice), every_800_ms),
    ] {
        let mut world = World::new(limiter);
        world.limit(2, 1, limiter);
        let mut throttled = 0;
        while throttled == 0 {
            world.advance(world.now.plus_nanos(1_000_000));
            world.submit(3, false, 512);
            throttled = world.engine.device().throttled;
        }
        let (since, mut looks) = (world.now, 0);
        while world.engine.device().throttled > 0 {
            let next = world.engine.poll_timeout().expect("what waits has a deadline");
            assert!(next > world.now, "{limiter:?}: a wait of no time");
            looks += u64::from(!world.at_device.keys().any(|&(at, _)| at <= next));
            world.advance(next);
        }
        let waited = world.now.nanos_since(since);
        assert!(looks <= looks_max(waited), "{limiter:?}: {looks} looks in {waited} ns");
    }
}

#[test]
fn a_task_knows_how_often_and_how_long_limits_held_it() {
    let mut world = World::new(LimiterKind::Pace);
    // The first cgroup may do 100 reads a second, four of them at once.
    for _ in 0..10 {
        world.submit(0, false, 4096);
    }
    world.advance(Instant::from_millis(1000));
    let stats = world.engine.task_stats(world.tasks[0]).unwrap();
    assert_eq!(stats.throttled, [0, 0, 6, 0, 0, 0]);
    // The fifth waits for 10 ms, the tenth for 60.
    assert_eq!(stats.wait_ns, [0, 0, 210_000_000, 0, 0, 0]);
    assert_eq!(
        world.engine.task_stats(world.tasks[1]),
        Some(weir_engine::stats::TaskStats::default())
    );
    world.engine.close_task(world.tasks[0]);
    assert_eq!(world.engine.task_stats(world.tasks[0]), None);
}
