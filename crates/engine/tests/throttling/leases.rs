//! Limits with a lease: the engine ends them at their instant, however late the next call comes.

use proptest::prelude::*;
use weir_engine::settings::Prices;
use weir_engine::structure::Lease;
use weir_engine::{CgroupId, Change, ChangeError, Event, Instant, LimiterKind, Op, TaskId};

use super::world::{LIMITERS, MS, World};
use crate::support;

const PAGE: u32 = 4096;

fn lease(world: &World, cgroup: CgroupId, limits: &str, ms: u64, then: &str) -> Change {
    let [limits, then] = [limits, then].map(|max| support::limits(LimiterKind::Pace, max));
    Change::LeaseLimits { cgroup, limits, until: world.now.plus_nanos(ms * MS), then }
}

/// A world whose `/a` has a lease, with `queued` reads.
fn leased(limits: &str, ms: u64, then: &str, queued: usize) -> (World, CgroupId, TaskId) {
    let mut world = World::new(Prices::default());
    let cgroup = world.cgroup("/a");
    world.change(lease(&world, cgroup, limits, ms, then));
    let task = world.task("/a");
    for _ in 0..queued {
        world.ask(task, Op::Read, PAGE);
    }
    world.turn();
    (world, cgroup, task)
}

/// How many have gone from `from_ms` to `to_ms`, the end not included.
fn went(world: &World, from_ms: u64, to_ms: u64) -> usize {
    let range = Instant::from_millis(from_ms)..Instant::from_millis(to_ms);
    world.went.iter().filter(|(at, _)| range.contains(at)).count()
}

#[test]
fn the_rate_falls_back_when_no_renewal_comes() {
    let (mut world, cgroup, _) = leased("riops=200", 1000, "riops=50", 1000);
    world.run(3000 * MS);
    assert!(went(&world, 0, 1000).abs_diff(200) <= 4, "{}", went(&world, 0, 1000));
    assert!(went(&world, 1000, 2000).abs_diff(50) <= 1, "{}", went(&world, 1000, 2000));
    assert_eq!(world.engine.lease(cgroup), None);
    assert_eq!(world.engine.limits(cgroup), Some(support::limits(LimiterKind::Pace, "riops=50")));
}

#[test]
fn a_renewed_lease_goes_on() {
    let (mut world, cgroup, _) = leased("riops=200", 1000, "riops=1", 1000);
    for _ in 0..4 {
        world.run(600 * MS);
        world.change(lease(&world, cgroup, "riops=200", 1000, "riops=1"));
    }
    world.run(600 * MS);
    assert!(went(&world, 100, 3000).abs_diff(580) <= 1, "{}", went(&world, 100, 3000));
}

#[test]
fn limits_without_a_lease_replace_a_lease() {
    let (mut world, cgroup, _) = leased("riops=200", 1000, "riops=1", 1000);
    world.limit("/a", "riops=100", LimiterKind::Pace);
    assert_eq!(world.engine.lease(cgroup), None);
    world.run(3000 * MS);
    assert!(went(&world, 1000, 3000).abs_diff(200) <= 1, "{}", went(&world, 1000, 3000));
}

#[test]
fn an_engine_without_requests_asks_to_be_called_at_the_end_of_a_lease() {
    let (mut world, cgroup, _) = leased("riops=1000", 250, "riops=1", 0);
    assert_eq!(world.engine.poll_timeout(), Some(Instant::from_millis(250)));
    let then = support::limits(LimiterKind::Pace, "riops=1");
    let end = Lease { until: Instant::from_millis(250), then };
    assert_eq!(world.engine.lease(cgroup), Some(end));
    while world.engine.poll_event().is_some() {}
    world.run(300 * MS);
    assert_eq!(world.engine.poll_event(), Some(Event::CgroupChanged(cgroup)));
    assert_eq!(world.engine.poll_timeout(), None);
}

/// The process was stopped for ten seconds. What it had been granted for one is not used after it.
#[test]
fn requests_submitted_late_go_by_the_limits_after_the_lease() {
    for limiter in LIMITERS {
        let mut world = World::new(Prices::default());
        let cgroup = world.cgroup("/a");
        let [limits, then] = ["riops=100000", "riops=10"].map(|max| support::limits(limiter, max));
        let until = Instant::from_millis(1000);
        world.change(Change::LeaseLimits { cgroup, limits, until, then });
        let task = world.task("/a");
        world.now = Instant::from_millis(11_000);
        // Before any timeout is handled.
        for _ in 0..1000 {
            world.ask(task, Op::Read, PAGE);
        }
        world.turn();
        assert!(world.went.len() <= 10, "{limiter:?}: {} at once", world.went.len());
        world.run(10_000 * MS);
        assert!(world.went.len().abs_diff(100) <= 10, "{limiter:?}: {}", world.went.len());
    }
}

#[test]
fn a_lease_that_has_ended_already_is_the_limits_after_it() {
    let (mut world, cgroup, task) = leased("riops=10", 5000, "riops=10", 0);
    world.run(1000 * MS);
    world.change(lease(&world, cgroup, "riops=100000", 0, "riops=1"));
    assert_eq!(world.engine.lease(cgroup), None);
    for _ in 0..100 {
        world.submit(task, Op::Read, PAGE);
    }
    assert!(world.went.len() <= 4, "{}", world.went.len());
}

#[test]
fn limits_that_contradict_each_other_are_refused_on_either_side_of_the_end() {
    let (mut world, cgroup, _) = leased("riops=10", 5000, "riops=10", 0);
    let before = world.engine.structure();
    let good = support::limits(LimiterKind::Pace, "riops=100");
    let mut bad = good;
    bad.peak = support::limits(LimiterKind::Pace, "riops=50").max;
    for [limits, then] in [[good, bad], [bad, good]] {
        let change = Change::LeaseLimits { cgroup, limits, until: Instant::FAR_FUTURE, then };
        let refused = world.engine.reconfigure(world.now, change);
        assert!(matches!(refused, Err(ChangeError::Limits(_))), "{refused:?}");
    }
    assert_eq!(world.engine.structure(), before);
}

#[test]
fn the_lease_of_a_removed_cgroup_ends_while_it_has_clients_and_goes_with_the_last() {
    let (mut world, cgroup, _) = leased("riops=200", 1000, "riops=10", 1000);
    world.change(Change::Remove { cgroup });
    world.run(2000 * MS);
    assert!(went(&world, 1100, 2000).abs_diff(9) <= 1, "{}", went(&world, 1100, 2000));

    let (mut world, cgroup, task) = leased("riops=200", 1000, "riops=10", 0);
    let client = world.engine.structure().clients[0].id;
    world.engine.close_task(task);
    world.engine.close_client(client);
    world.change(Change::Remove { cgroup });
    assert_eq!(world.engine.poll_timeout(), None);
}

/// A watermark multiplies limits by a clock of its own; a lease ends by the real one.
#[test]
fn a_lease_ends_in_real_time_under_a_watermark() {
    let (mut world, cgroup, _) = leased("riops=100", 500, "riops=10", 0);
    let root = world.engine.root();
    let watermark = Some(weir_text::parse_watermark("90").expect("a watermark"));
    world.change(Change::SetWatermark { cgroup: root, watermark });
    world.now = Instant::from_millis(400);
    world.turn();
    assert!(world.engine.lease(cgroup).is_some());
    assert_eq!(world.engine.poll_timeout(), Some(Instant::from_millis(500)));
    world.now = Instant::from_millis(500);
    world.turn();
    assert_eq!(world.engine.lease(cgroup), None);
}

/// What a test does at some instant.
#[derive(Clone, Copy, Debug)]
enum Step {
    Submit { cgroup: usize, len: u32 },
    Lease { cgroup: usize, rate: u64, ms: u64, then: u64 },
    Limit { cgroup: usize, rate: u64 },
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let rate = || prop_oneof![Just(1u64), 1..50u64, 50..5000u64];
    let step = prop_oneof![
        6 => (0..3usize, 1..64u32).prop_map(|(cgroup, pages)| Step::Submit { cgroup, len: pages * PAGE }),
        3 => (0..3usize, rate(), 0..200u64, rate())
            .prop_map(|(cgroup, rate, ms, then)| Step::Lease { cgroup, rate, ms, then }),
        1 => (0..3usize, rate()).prop_map(|(cgroup, rate)| Step::Limit { cgroup, rate }),
    ];
    prop::collection::vec((0..120u64, step), 1..60)
}

/// Runs `steps`; a driver that is not `told` of leases sets the limits after them itself, at their ends.
fn run(steps: &[(u64, Step)], limiter: LimiterKind, told: bool) -> Vec<(Instant, u64)> {
    let mut world = World::new(Prices::default());
    let cgroups = ["/a", "/a/b", "/c"].map(|path| world.cgroup(path));
    let tasks = ["/a", "/a/b", "/c"].map(|path| world.task(path));
    let limits = |rate| support::limits(limiter, &format!("riops={rate} rbps={}", rate * 8192));
    let mut ends: [Option<(Instant, u64)>; 3] = [None; 3];
    for &(pause_ms, step) in steps {
        let now = world.now.plus_nanos(pause_ms * MS);
        // Neither handles a timeout on the way.
        loop {
            let due = ends.iter().enumerate().filter_map(|(at, end)| end.map(|end| (end.0, at)));
            let Some((until, at)) = due.min().filter(|&(until, _)| until <= now) else { break };
            let (_, then) = ends[at].take().expect("it is due");
            if !told {
                world.engine.handle_timeout(until);
                let change = Change::SetLimits { cgroup: cgroups[at], limits: limits(then) };
                world.engine.reconfigure(until, change).expect("valid");
            }
        }
        world.now = now;
        match step {
            Step::Submit { cgroup, len } => {
                world.ask(tasks[cgroup], Op::Read, len);
            }
            Step::Limit { cgroup: at, rate } => {
                ends[at] = None;
                let change = Change::SetLimits { cgroup: cgroups[at], limits: limits(rate) };
                world.engine.reconfigure(now, change).expect("valid");
            }
            Step::Lease { cgroup: at, rate, ms, then } => {
                let (cgroup, until) = (cgroups[at], now.plus_nanos(ms * MS));
                ends[at] = (ms > 0).then_some((until, then));
                let change = match (told, ms) {
                    (true, _) => {
                        let (limits, then) = (limits(rate), limits(then));
                        Change::LeaseLimits { cgroup, limits, until, then }
                    }
                    (false, 0) => Change::SetLimits { cgroup, limits: limits(then) },
                    (false, _) => Change::SetLimits { cgroup, limits: limits(rate) },
                };
                world.engine.reconfigure(now, change).expect("valid");
            }
        }
        world.turn();
    }
    world.went
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_lease_that_is_found_late_ends_as_if_its_end_had_been_called_in_time(steps in steps()) {
        for limiter in LIMITERS {
            prop_assert_eq!(run(&steps, limiter, true), run(&steps, limiter, false));
        }
    }
}
