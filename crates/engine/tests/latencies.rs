//! Latencies: how long requests were inside, and what for.

use weir_engine::stats::{Latencies, WaitCause};
use weir_engine::{CgroupId, Extent};
use weir_engine::{
    Change, Config, Dimension, Direction, Engine, Instant, Limits, Op, Outcome, Path, PerDimension,
    Request, TaskId,
};

fn limited(engine: &mut Engine, path: &str, dimension: Dimension, rate: u64) -> (CgroupId, TaskId) {
    let cgroup = engine.ensure_cgroup(&Path::parse(path).expect("a path")).expect("made");
    if rate > 0 {
        let max = PerDimension::NONE.with(dimension, rate);
        let burst = if dimension == Dimension::Rbps { 4096 } else { 1 };
        let burst = PerDimension::NONE.with(dimension, burst);
        let limits = Limits { max, burst, ..Limits::default() };
        engine.reconfigure(Instant::ZERO, Change::SetLimits { cgroup, limits }).expect("limits");
    }
    let client = engine.open_client(cgroup).expect("a live cgroup");
    (cgroup, engine.open_task(client).expect("a live client"))
}

/// Runs a device that takes `device_ns` for each request, one at a time, until nothing is left.
fn run(engine: &mut Engine, mut now: Instant, device_ns: u64) -> Instant {
    loop {
        engine.handle_timeout(now);
        match engine.poll_dispatch(now) {
            Some(dispatch) => {
                now = now.plus_nanos(device_ns);
                engine.complete(now, dispatch.ticket, Outcome::Done);
            }
            None => match engine.poll_timeout() {
                Some(next) => now = now.max(next),
                None => return now,
            },
        }
    }
}

fn near(told: u64, exact: u64) -> bool {
    told.abs_diff(exact) * 15 <= exact
}

fn causes(latencies: &Latencies, direction: Direction) -> Vec<(&'static str, u64)> {
    let counts =
        WaitCause::ALL.map(|cause| (cause.key(), latencies.of(direction).cause(cause).count()));
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

#[test]
fn a_limits_wait_and_the_devices_time_are_told_apart() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let (cgroup, task) = limited(&mut engine, "/a/b", Dimension::Riops, 100);
    for tag in 0..5 {
        let read = Request::new(task, Op::Read, Extent::new(4096 * tag, 4096), tag);
        engine.submit(Instant::ZERO, read).expect("room");
    }
    run(&mut engine, Instant::ZERO, 100_000);
    let latencies = engine.latencies(cgroup).expect("it is there");
    let reads = latencies.of(Direction::Read);
    assert_eq!(causes(&latencies, Direction::Read), [("own_limit", 4), ("device", 5)]);
    assert!(near(reads.cause(WaitCause::Device).quantile_ns(500), 100_000));
    // The second waited 10 ms, the fifth 40.
    assert!(near(reads.cause(WaitCause::OwnLimit).max_ns(), 40_000_000));
    assert!(near(reads.whole.max_ns(), 40_100_000), "{}", reads.whole.max_ns());
    assert_eq!(reads.whole.count(), 5);
    assert_eq!(latencies.of(Direction::Write).whole.count(), 0);
    let all = engine.latencies(engine.root()).expect("the root");
    assert_eq!(all, latencies, "nothing else is below the root");
}

#[test]
fn a_limit_above_the_turns_of_others_and_room_are_causes_of_their_own() {
    let config = Config { depth: std::num::NonZeroU32::MIN, ..Config::default() };
    let mut engine = Engine::new(config, Instant::ZERO);
    limited(&mut engine, "/above", Dimension::Wiops, 1_000);
    let (one, first) = limited(&mut engine, "/above/one", Dimension::Wiops, 0);
    let (_, second) = limited(&mut engine, "/above/two", Dimension::Wiops, 0);
    let (free, third) = limited(&mut engine, "/free", Dimension::Wiops, 0);
    for tag in 0..10 {
        for task in [second, first, third] {
            let write = Request::new(task, Op::Write, Extent::new(4096 * tag, 4096), tag);
            engine.submit(Instant::ZERO, write).expect("room");
        }
    }
    run(&mut engine, Instant::ZERO, 50_000);
    let told = |cgroup| causes(&engine.latencies(cgroup).expect("it is there"), Direction::Write);
    let names = |cgroup| told(cgroup).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(one), ["other_limit", "other_clients", "device"]);
    assert_eq!(told(free), [("window", 10), ("device", 10)]);
    let blame = engine.counters(one, false).expect("it is there").blame;
    let latencies = engine.latencies(one).expect("it is there");
    let sum_ns = |cause| latencies.of(Direction::Write).cause(cause).sum_ns();
    assert_eq!(sum_ns(WaitCause::OtherLimit), blame.limits_ns(), "as in the counters");
    assert_eq!(sum_ns(WaitCause::OtherClients), blame.others_ns);
    assert_eq!(sum_ns(WaitCause::Device), blame.device_ns);
}

#[test]
fn a_request_that_pays_in_instalments_counts_once_with_all_of_its_wait() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let (cgroup, task) = limited(&mut engine, "/a", Dimension::Rbps, 1 << 20);
    let read = Request::new(task, Op::Read, Extent::new(0, 4 << 20), 0);
    engine.submit(Instant::ZERO, read).expect("room");
    run(&mut engine, Instant::ZERO, 100_000);
    let latencies = engine.latencies(cgroup).expect("it is there");
    let own = latencies.of(Direction::Read).cause(WaitCause::OwnLimit);
    assert_eq!(own.count(), 1);
    assert!(own.max_ns() > 3_900_000_000, "{} of some 4 s", own.max_ns());
}

#[test]
fn other_threads_read_what_the_engine_counts_and_what_a_removed_cgroup_had() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let (cgroup, task) = limited(&mut engine, "/a/b", Dimension::Riops, 1_000);
    let shared = engine.shared_counters(cgroup).expect("it is there");
    let also = engine.shared_counters(cgroup).expect("it is there");
    assert!(!shared.is_used() && shared.counters() == Default::default());
    for tag in 0..50 {
        let read = Request::new(task, Op::Read, Extent::new(4096 * tag, 4096), tag);
        engine.submit(Instant::ZERO, read).expect("room");
    }
    let reader = std::thread::spawn(move || {
        let mut last = 0;
        while last < 50 {
            let counters = shared.counters();
            assert_eq!(counters.read.bytes, 4096 * counters.read.ios, "of one moment");
            assert!(counters.completed >= last, "not backwards");
            last = counters.completed;
            std::thread::yield_now();
        }
        (shared.counters(), shared.latencies())
    });
    run(&mut engine, Instant::ZERO, 100_000);
    let (counters, latencies) = reader.join().expect("its assertions hold");
    assert_eq!(Some(&counters), engine.counters(cgroup, false).as_ref());
    assert_eq!(Some(&latencies), engine.latencies(cgroup).as_ref());
    engine.close_task(task);
    engine.reconfigure(Instant::ZERO, Change::Remove { cgroup }).expect("without children");
    let parent = engine.find_cgroup(&Path::parse("/a").expect("a path")).expect("it is there");
    assert_eq!(engine.latencies(parent).as_ref(), Some(&latencies), "with a client left");
    assert_eq!(also.counters(), counters);
}
