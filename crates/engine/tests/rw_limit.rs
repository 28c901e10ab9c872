//! One limit for reads and writes together: how much goes, how the two share it, and what becomes of what waits.

use weir_engine::{
    CgroupId, Change, Config, Dimension, Engine, Extent, Instant, LimiterKind, Limits, Op, Outcome,
    PerDimension, Request, TaskId, Weight,
};

use crate::support;

const MIB: u64 = 1 << 20;

/// One client that always keeps `depth` requests inside.
struct Flow {
    task: TaskId,
    op: Op,
    len: u32,
    done_bytes: u64,
    done_ios: u64,
}

/// An engine before a device that takes no time; but an answer takes a microsecond to bring the next request.
struct World {
    engine: Engine,
    now: Instant,
    flows: Vec<Flow>,
    /// Whose next request is on its way.
    back: Vec<usize>,
    /// Flows go on asking when they are answered.
    goes_on: bool,
}

impl World {
    fn new() -> World {
        let engine = Engine::new(Config::default(), Instant::ZERO);
        World { engine, now: Instant::ZERO, flows: Vec::new(), back: Vec::new(), goes_on: true }
    }

    fn cgroup(&mut self, path: &str) -> CgroupId {
        support::cgroup(&mut self.engine, path)
    }

    fn change(&mut self, change: Change) {
        self.engine.reconfigure(self.now, change).expect("it makes sense");
        self.engine.check().unwrap();
    }

    fn limit(&mut self, path: &str, max: &str) {
        self.limit_by(path, max, LimiterKind::Pace);
    }

    fn limit_by(&mut self, path: &str, max: &str, limiter: LimiterKind) {
        let cgroup = self.cgroup(path);
        let limits = support::limits(limiter, max);
        self.change(Change::SetLimits { cgroup, limits });
    }

    /// A client of the cgroup at `path`; its number.
    fn flow(&mut self, path: &str, op: Op, len: u32, depth: u32) -> usize {
        let cgroup = self.cgroup(path);
        let task = support::task(&mut self.engine, cgroup);
        self.flows.push(Flow { task, op, len, done_bytes: 0, done_ios: 0 });
        let number = self.flows.len() - 1;
        (0..depth).for_each(|_| self.submit(number));
        number
    }

    fn submit(&mut self, number: usize) {
        let flow = &self.flows[number];
        let request = Request::new(flow.task, flow.op, Extent::new(0, flow.len), number as u64);
        self.engine.submit(self.now, request).expect("room");
    }

    /// Takes out what may go now.
    fn turn(&mut self) {
        self.engine.handle_timeout(self.now);
        while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
            let number = dispatch.request.tag as usize;
            self.engine.complete(self.now, dispatch.ticket, Outcome::Done);
            self.flows[number].done_bytes += u64::from(dispatch.request.extent.len);
            self.flows[number].done_ios += 1;
            if self.goes_on {
                self.back.push(number);
            }
        }
        self.engine.check().unwrap();
    }

    fn run(&mut self, until_ms: u64) {
        let until = Instant::from_millis(until_ms);
        self.turn();
        loop {
            let timeout = self.engine.poll_timeout();
            assert!(timeout.is_none_or(|at| at > self.now), "what may go now has gone");
            let back = (!self.back.is_empty()).then(|| self.now.plus_nanos(1_000));
            let next = timeout.into_iter().chain(back).min().filter(|&at| at <= until);
            let Some(next) = next else { break };
            self.now = next;
            if Some(next) == back {
                let back = std::mem::take(&mut self.back);
                back.into_iter().for_each(|number| self.submit(number));
            }
            self.turn();
        }
        self.now = until;
    }

    /// Bytes of each flow since it was last asked.
    fn bytes(&mut self) -> Vec<u64> {
        self.flows.iter_mut().map(|flow| std::mem::take(&mut flow.done_bytes)).collect()
    }

    fn ios(&mut self) -> Vec<u64> {
        self.flows.iter_mut().map(|flow| std::mem::take(&mut flow.done_ios)).collect()
    }
}

fn is_near(found: u64, wanted: u64, per_mille: u64) -> bool {
    found.abs_diff(wanted) * 1000 <= wanted * per_mille
}

const LIMITERS: [LimiterKind; 3] = [LimiterKind::Pace, LimiterKind::Token, LimiterKind::Leaky];

#[test]
fn the_rate_is_reached_by_reads_by_writes_and_by_both() {
    let mixes: [&[Op]; 4] =
        [&[Op::Read], &[Op::Write], &[Op::Read, Op::Write], &[Op::Write, Op::Read, Op::Write]];
    for (limiter, ops) in LIMITERS.into_iter().flat_map(|of| mixes.map(|ops| (of, ops))) {
        let mut world = World::new();
        world.limit_by("/a", "rwbps=4M", limiter);
        for &op in ops {
            world.flow("/a", op, 65_536, 4);
        }
        world.run(1_000);
        world.bytes();
        world.run(41_000);
        let bytes: u64 = world.bytes().iter().sum();
        assert!(is_near(bytes, 160 * MIB, 1), "{limiter:?}, {ops:?}: {bytes} in 40 s");

        world.limit_by("/a", "rwiops=100", limiter);
        world.run(42_000);
        world.ios();
        world.run(82_000);
        let ios: u64 = world.ios().iter().sum();
        assert!(is_near(ios, 4_000, 1), "{limiter:?}, {ops:?}: {ios} in 40 s");
    }
}

#[test]
fn reads_and_writes_that_both_wait_get_half_of_the_limits_time_each() {
    for limiter in LIMITERS {
        let mut world = World::new();
        world.limit_by("/a", "rwbps=4M", limiter);
        // Sixteen times the length, a sixteenth as often.
        world.flow("/a", Op::Read, 4096, 32);
        world.flow("/a", Op::Write, 65_536, 2);
        world.run(1_000);
        world.bytes();
        world.run(21_000);
        let bytes = world.bytes();
        assert!(is_near(bytes[0], 40 * MIB, 4), "{limiter:?}: {bytes:?}");
        assert!(is_near(bytes[1], 40 * MIB, 4), "{limiter:?}: {bytes:?}");
    }
}

/// A bucket holds what small reads leave of it, and a write of its whole size has to wait for all: it must not wait for ever.
#[test]
fn small_reads_do_not_starve_large_writes() {
    let mut world = World::new();
    let cgroup = world.cgroup("/a");
    let limits = Limits {
        max: PerDimension::NONE.with(Dimension::Rwbps, MIB),
        burst: PerDimension::NONE.with(Dimension::Rwbps, MIB),
        limiter: LimiterKind::Token,
        ..Limits::default()
    };
    world.change(Change::SetLimits { cgroup, limits });
    world.flow("/a", Op::Read, 4096, 32);
    world.flow("/a", Op::Write, MIB as u32, 1);
    world.run(100_000);
    let bytes = world.bytes();
    assert!(is_near(bytes[1], 50 * MIB, 30), "{bytes:?}");
}

#[test]
fn a_client_counts_the_same_in_either_direction() {
    let mut world = World::new();
    world.limit("/a", "rwiops=1000");
    let reader = world.flow("/a", Op::Read, 4096, 4);
    for _ in 0..3 {
        world.flow("/a", Op::Write, 4096, 4);
    }
    world.run(1_000);
    world.ios();
    world.run(41_000);
    let ios = world.ios();
    assert!(is_near(ios[reader], 10_000, 2), "{ios:?}");
    assert!(ios.iter().all(|&ios| is_near(ios, 10_000, 2)), "{ios:?}");
}

#[test]
fn children_share_by_weight_in_whichever_direction_they_go() {
    let mut world = World::new();
    world.limit("/a", "rwbps=8M");
    for (path, weight) in [("/a/heavy", 300), ("/a/light", 100)] {
        let cgroup = world.cgroup(path);
        world.change(Change::SetWeight { cgroup, weight: Weight::new(weight).unwrap() });
    }
    world.flow("/a/heavy", Op::Read, 65_536, 4);
    world.flow("/a/light", Op::Write, 65_536, 4);
    world.run(1_000);
    world.bytes();
    world.run(41_000);
    let bytes = world.bytes();
    assert!(is_near(bytes[0], 240 * MIB, 2) && is_near(bytes[1], 80 * MIB, 2), "{bytes:?}");

    // Weights change while both wait.
    let cgroup = world.cgroup("/a/light");
    world.change(Change::SetWeight { cgroup, weight: Weight::new(900).unwrap() });
    world.run(81_000);
    let bytes = world.bytes();
    assert!(is_near(bytes[0], 80 * MIB, 5) && is_near(bytes[1], 240 * MIB, 5), "{bytes:?}");
}

#[test]
fn the_unused_share_of_one_direction_goes_to_the_other() {
    let mut world = World::new();
    world.limit("/a", "rwbps=4M wbps=1M");
    world.flow("/a", Op::Read, 16_384, 8);
    world.flow("/a", Op::Write, 16_384, 8);
    world.run(1_000);
    world.bytes();
    world.run(41_000);
    let bytes = world.bytes();
    assert!(is_near(bytes[0], 120 * MIB, 3) && is_near(bytes[1], 40 * MIB, 3), "{bytes:?}");
}

#[test]
fn limits_of_ancestors_hold_whatever_their_kind() {
    for (top, middle, own, wanted) in [
        ("rwbps=1M", "rwbps=8M", "rwbps=8M", MIB),
        ("rwbps=8M", "rwbps=1M", "rwbps=8M", MIB),
        ("rwbps=8M", "wbps=8M", "rwbps=1M", MIB),
        ("rwbps=2M", "rwbps=1M", "rbps=256K wbps=256K", MIB / 2),
        ("rbps=512K wbps=512K", "rwbps=4M", "rwbps=2M", MIB),
    ] {
        let mut world = World::new();
        world.limit("/a", top);
        world.limit("/a/b", middle);
        world.limit("/a/b/c", own);
        world.flow("/a/b/c", Op::Read, 8192, 4);
        world.flow("/a/b/c", Op::Write, 8192, 4);
        world.run(1_000);
        world.bytes();
        world.run(41_000);
        let bytes = world.bytes();
        let all = bytes[0] + bytes[1];
        assert!(is_near(all, wanted * 40, 2), "{top}, {middle}, {own}: {bytes:?}");
        assert!(is_near(bytes[0], wanted * 20, 5), "{top}, {middle}, {own}: {bytes:?}");
    }
}

#[test]
fn a_changed_limit_applies_to_queued_requests_at_once() {
    for limiter in LIMITERS {
        let mut world = World::new();
        world.limit_by("/a", "rwbps=1M", limiter);
        world.flow("/a", Op::Read, 16_384, 8);
        world.flow("/a", Op::Write, 16_384, 8);
        world.run(2_000);
        for (max, wanted) in [("rwbps=4M", 4 * MIB), ("rwbps=512K", MIB / 2), ("rwbps=2M", 2 * MIB)]
        {
            world.limit_by("/a", max, limiter);
            let from = world.now.as_nanos() / 1_000_000;
            world.bytes();
            world.run(from + 20_000);
            let bytes = world.bytes();
            assert!(is_near(bytes.iter().sum(), wanted * 20, 5), "{limiter:?}, {max}: {bytes:?}");
            assert!(is_near(bytes[0], wanted * 10, 10), "{limiter:?}, {max}: {bytes:?}");
        }
    }
}

/// Ten requests of each kind that wait below a limit of one a second.
fn waiting(limiter: LimiterKind) -> World {
    let mut world = World::new();
    world.goes_on = false;
    world.limit_by("/a", "rwiops=1", limiter);
    // By the leaky bucket all that come in the instant of the first are free.
    world.flow("/a/b", Op::Read, 4096, 1);
    world.run(1);
    world.flow("/a/b", Op::Read, 4096, 10);
    world.flow("/a/b", Op::Write, 4096, 10);
    world.run(10);
    assert!(world.engine.device().throttled >= 15, "the rest waits");
    world
}

#[test]
fn queued_requests_go_when_the_limit_is_removed() {
    for limiter in LIMITERS {
        let mut world = waiting(limiter);
        world.limit_by("/a", "", limiter);
        world.turn();
        assert_eq!(world.ios(), [1, 10, 10]);
        assert_eq!(world.engine.poll_timeout(), None);
    }
}

#[test]
fn queued_requests_move_with_their_cgroup_under_the_new_limits() {
    for limiter in LIMITERS {
        let mut world = waiting(limiter);
        let (cgroup, parent) = (world.cgroup("/a/b"), world.engine.root());
        world.change(Change::Move { cgroup, parent });
        world.turn();
        assert_eq!(world.ios(), [1, 10, 10], "no limit is there");

        let mut world = waiting(limiter);
        world.limit("/c", "rwiops=1k");
        let (cgroup, parent) = (world.cgroup("/a/b"), world.cgroup("/c"));
        world.change(Change::Move { cgroup, parent });
        world.run(100);
        assert_eq!(world.ios(), [1, 10, 10], "a thousand a second are");
        assert_eq!(world.engine.poll_timeout(), None);
    }
}

#[test]
fn queued_requests_of_a_removed_cgroup_keep_its_limit() {
    let mut world = World::new();
    world.goes_on = false;
    world.limit("/a", "rwiops=10");
    world.flow("/a", Op::Read, 4096, 20);
    world.flow("/a", Op::Write, 4096, 20);
    world.run(10);
    let cgroup = world.cgroup("/a");
    world.change(Change::Remove { cgroup });
    // Four of forty have gone at once.
    world.run(2_000);
    assert_eq!(world.ios().iter().sum::<u64>(), 24);
    world.run(4_000);
    assert_eq!(world.ios().iter().sum::<u64>(), 16);
    assert_eq!(world.engine.poll_timeout(), None);
}

#[test]
fn a_withdrawn_request_makes_way_for_the_other_direction() {
    let mut world = World::new();
    world.goes_on = false;
    world.limit_by("/a", "rwbps=4K", LimiterKind::Token);
    let writer = world.flow("/a", Op::Write, 1 << 20, 1);
    let reader = world.flow("/a", Op::Read, 4096, 8);
    world.run(10);
    while world.engine.withdraw_next(world.now, world.flows[writer].task).is_some() {}
    world.engine.check().unwrap();
    // 16 KiB were in the bucket.
    world.run(10_000);
    assert_eq!(world.flows[reader].done_ios, 8);
    assert_eq!(world.engine.poll_timeout(), None);
}

#[test]
fn waits_are_blamed_on_the_limit_and_on_other_clients() {
    let mut world = World::new();
    world.goes_on = false;
    world.limit("/a", "rwiops=100");
    let alone = world.flow("/a", Op::Read, 4096, 10);
    world.run(1_000);
    let stats = world.engine.task_stats(world.flows[alone].task).unwrap();
    let rwiops = Dimension::Rwiops as usize;
    assert_eq!(stats.throttled[rwiops], 6);
    // The fifth waits for 10 ms, the tenth for 60.
    assert_eq!(stats.wait_ns[rwiops], 210_000_000);
    let cgroup = world.cgroup("/a");
    let blame = world.engine.counters(cgroup, false).unwrap().blame;
    assert_eq!(blame.limits.len(), 1);
    assert_eq!(blame.limits[0].wait_ns[rwiops], 210_000_000);
    assert_eq!(blame.others_ns, 0);

    // What the limit let go of another client's writes is time that went to others.
    let writer = world.flow("/a", Op::Write, 4096, 40);
    let reader = world.flow("/a", Op::Read, 4096, 1);
    world.run(2_000);
    assert_eq!(world.flows[writer].done_ios + world.flows[reader].done_ios, 41);
    world.turn();
    let after = world.engine.counters(cgroup, false).unwrap().blame;
    assert!(after.others_ns > 0, "{after:?}");
    assert_eq!(
        world.engine.burst_left(cgroup, Dimension::Rwiops),
        Some(4),
        "the burst is there again"
    );
    assert_eq!(world.engine.burst_left(cgroup, Dimension::Rwbps), None);
}
