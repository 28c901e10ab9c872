//! A request larger than what a limit earns in a moment is paid in instalments: how long others wait, and it itself.

use std::num::NonZeroU32;

use weir_engine::settings::{BytePrice, Price, Prices};
use weir_engine::{
    Change, Class, Dimension, Direction, Instant, LimiterKind, Limits, Op, PerDimension, TaskId,
    Weight,
};

use super::world::{LIMITERS, MIB, MS, World};

/// Trims cost what they cover here.
fn by_length() -> Prices {
    let length = Price { ios: NonZeroU32::MIN, bytes: BytePrice::Length };
    Prices { discard: length, ..Prices::default() }
}

/// What a small request may wait for behind a large one: one instalment, of 5 ms, and its own 4 KiB.
fn bound_ns(bytes_per_second: u64) -> u64 {
    let instalment = (bytes_per_second / 200).max(4096);
    (instalment + 4096) * 1000 * MS / bytes_per_second + 1
}

#[test]
fn a_sibling_waits_for_one_instalment_of_a_large_request() {
    let small = |op: Op| if op.direction() == Direction::Read { Op::Read } else { Op::Write };
    for limiter in LIMITERS {
        for op in [Op::Read, Op::Write, Op::WriteZeroes, Op::Cache, Op::Discard] {
            for (mibs, len) in [(50, 1024 * MIB), (1, 32 * MIB), (200, 1024 * MIB)] {
                for limit in ["rbps={}M wbps={}M", "rwbps={}M"] {
                    let mut world = World::new(by_length());
                    world.limit("/p", &limit.replace("{}", &mibs.to_string()), limiter);
                    let (large, sibling) = (world.task("/p/a"), world.task("/p/b"));
                    world.submit(large, op, len);
                    world.run(900 * MS);
                    let (_, tag) = world.submit(sibling, small(op), 4096);
                    let (waited, bound) = (world.wait_for(tag), bound_ns(mibs << 20));
                    assert!(waited <= bound, "{limiter:?} {op:?} {limit} {mibs}: {waited} ns");
                }
            }
        }
    }
}

#[test]
fn where_large_requests_count_by_size_a_sibling_waits_for_one_io() {
    for limiter in LIMITERS {
        let prices = Prices { iops_size: NonZeroU32::new(4096), ..Prices::default() };
        let mut world = World::new(prices);
        world.limit("/p", "riops=256", limiter);
        let (large, sibling) = (world.task("/p/a"), world.task("/p/b"));
        world.submit(large, Op::Read, 32 * MIB);
        world.run(900 * MS);
        let (_, tag) = world.submit(sibling, Op::Read, 4096);
        let waited = world.wait_for(tag);
        assert!(waited <= 2 * 1000 * MS / 256 + 1, "{limiter:?}: {waited} ns");
    }
}

#[test]
fn a_large_request_never_keeps_others_out() {
    for limiter in LIMITERS {
        for own in ["wbps=10M", "wiops=5", "wbps=400M"] {
            let mut world = World::new(Prices::default());
            world.limit("/p", "wbps=50M", limiter);
            world.limit("/p/a/deep", "wbps=60M", limiter);
            world.limit("/p/a/deep/down", own, limiter);
            for (path, weight) in [("/p/a", 100), ("/p/b", 300)] {
                let cgroup = world.cgroup(path);
                world.change(Change::SetWeight { cgroup, weight: Weight::new(weight).unwrap() });
            }
            let large = world.task("/p/a/deep/down");
            let (near, far) = (world.task("/p/a/deep/down"), world.task("/p/b"));
            world.submit(large, Op::WriteZeroes, 1024 * MIB);
            world.run(900 * MS);
            let (_, tag) = world.submit(far, Op::Write, 4096);
            let waited = world.wait_for(tag);
            assert!(waited <= bound_ns(50 << 20), "{limiter:?} {own}: {waited} ns for /p/b");
            // Its own limit lets five a second go; by bytes an instalment of it is of 5 ms at most.
            let bound = if own == "wiops=5" { 200 * MS } else { 2 * bound_ns(10 << 20) };
            let (_, tag) = world.submit(near, Op::Write, 4096);
            let waited = world.wait_for(tag);
            assert!(waited <= bound, "{limiter:?} {own}: {waited} ns beside it");
        }
    }
}

#[test]
fn another_connection_of_the_same_client_waits_for_one_instalment_and_its_turn() {
    let mut world = World::new(Prices::default());
    world.limit("/a", "wbps=50M", LimiterKind::Pace);
    let cgroup = world.cgroup("/a");
    let client = world.engine.open_client(cgroup).unwrap();
    let [large, small] = [0, 1].map(|_| world.engine.open_task(client).unwrap());
    world.submit(large, Op::WriteZeroes, 1024 * MIB);
    world.run(100 * MS);
    let (_, tag) = world.submit(small, Op::Write, 4096);
    let waited = world.wait_for(tag);
    // Connections of one client go by turns: the instalment that is waited for is before it, and has to be paid.
    assert!(waited <= 2 * bound_ns(50 << 20), "{waited} ns");
}

#[test]
fn a_mebibyte_takes_a_second_at_a_mebibyte_a_second() {
    for (limiter, first_ms) in
        [(LimiterKind::Pace, 900), (LimiterKind::Token, 900), (LimiterKind::Leaky, 995)]
    {
        let mut world = World::new(Prices::default());
        world.limit("/a", "wbps=1M", limiter);
        let task = world.task("/a");
        world.run(60_000 * MS);
        let tags = [0, 1, 2].map(|_| world.submit(task, Op::Write, MIB).1);
        let waited = tags.map(|tag| world.wait_for(tag) / MS);
        // The first uses a tenth of a second that the limit had not been used for, but for an instalment.
        assert!(waited[0].abs_diff(first_ms) <= 5, "{limiter:?}: {waited:?}");
        assert!(waited[1..].iter().all(|ms| (995..=1005).contains(ms)), "{limiter:?}: {waited:?}");
    }
}

#[test]
fn a_burst_that_holds_a_request_lets_it_go_at_once() {
    for limiter in [LimiterKind::Pace, LimiterKind::Token] {
        let mut world = World::new(Prices::default());
        let cgroup = world.cgroup("/a");
        let per_mib = |value| PerDimension::NONE.with(Dimension::Wbps, value);
        let (max, burst) = (per_mib(1 << 20), per_mib(4 << 20));
        let limits = Limits { max, burst, limiter, ..Limits::default() };
        world.change(Change::SetLimits { cgroup, limits });
        let task = world.task("/a");
        let tags: Vec<u64> = (0..5).map(|_| world.submit(task, Op::Write, MIB).1).collect();
        assert!(world.went.len() >= 3, "{limiter:?}");
        assert!(world.wait_for(tags[3]) <= 5 * MS, "{limiter:?}: all but an instalment");
        assert!(world.wait_for(tags[4]).abs_diff(1000 * MS) <= 5 * MS, "{limiter:?}");
    }
}

/// One that waits for each answer has its limit all the same, while the device and the client together take no longer than
/// a tenth of a second.
#[test]
fn one_large_request_at_a_time_has_all_of_its_limit() {
    for limiter in [LimiterKind::Pace, LimiterKind::Token] {
        for (mibs, away_ms) in [(1, 90), (10, 80), (50, 15), (50, 1)] {
            let mut world = World::new(Prices::default());
            world.limit("/a", &format!("rbps={mibs}M"), limiter);
            let task = world.task("/a");
            let mut done = 0;
            while world.now < Instant::from_millis(30_000) {
                let (_, tag) = world.submit(task, Op::Read, MIB);
                world.wait_for(tag);
                world.run(away_ms * MS);
                done += 1;
            }
            let wanted = 30 * mibs;
            assert!(done >= wanted - wanted / 50 - 1, "{limiter:?} {mibs} {away_ms}: {done}");
            assert!(done <= wanted + mibs / 10 + 1, "{limiter:?} {mibs} {away_ms}: {done}");
        }
    }
}

#[test]
fn a_withdrawn_request_is_charged_what_it_has_paid() {
    let mut world = World::new(Prices::default());
    world.limit("/a", "wbps=1M", LimiterKind::Pace);
    let task = world.task("/a");
    let (id, _) = world.submit(task, Op::Write, 64 * MIB);
    world.run(10_000 * MS);
    let paid = world.engine.audit().part_paid[1].bytes;
    assert!(paid.abs_diff(10 << 20) <= u128::from(MIB / 8), "{paid} in ten seconds");
    let owed = world.engine.owed(id).expect("it waits");
    assert_eq!(owed.bytes + paid, u128::from(64 * MIB));
    world.engine.withdraw(world.now, id).expect("it waits");
    world.turn();
    let audit = world.engine.audit();
    assert_eq!((audit.withdrawn[1].bytes, audit.part_paid[1].bytes), (paid, 0));
    assert!(audit.balances());
    // Nothing of it is owed by those that follow.
    let (_, tag) = world.submit(task, Op::Write, 4096);
    assert!(world.wait_for(tag) <= bound_ns(1 << 20));
}

#[test]
fn a_half_paid_request_promoted_to_debt_owes_the_rest() {
    let mut world = World::new(Prices::default());
    world.limit("/a", "wbps=1M", LimiterKind::Pace);
    let (task, other) = (world.task("/a"), world.task("/a"));
    let (id, tag) = world.submit(task, Op::Write, 20 * MIB);
    world.run(10_000 * MS);
    assert!(world.engine.promote(world.now, id, other, Class::Owed));
    world.turn();
    assert_eq!(world.wait_for(tag), 0);
    let audit = world.engine.audit();
    assert_eq!((audit.withdrawn[1].bytes, audit.part_paid[1].bytes), (0, 0));
    assert!(audit.balances());
    let (_, tag) = world.submit(other, Op::Write, 4096);
    let waited = world.wait_for(tag);
    assert!(waited.abs_diff(10_000 * MS) <= 20 * MS, "{waited} ns");
}

#[test]
fn half_paid_requests_continue_under_changed_limits() {
    let half_paid = || {
        let mut world = World::new(Prices::default());
        world.limit("/p", "wbps=1M", LimiterKind::Pace);
        let task = world.task("/p/a");
        let (_, tag) = world.submit(task, Op::Write, 20 * MIB);
        world.run(10_000 * MS);
        (world, tag)
    };
    let (mut world, tag) = half_paid();
    world.limit("/p", "", LimiterKind::Pace);
    assert_eq!(world.wait_for(tag), 0, "no limit is left");

    let (mut world, tag) = half_paid();
    world.limit("/p", "wbps=10M", LimiterKind::Pace);
    assert!(world.wait_for(tag).abs_diff(980 * MS) <= 20 * MS, "a tenth of the rest");

    let (mut world, tag) = half_paid();
    let (cgroup, parent) = (world.cgroup("/p/a"), world.engine.root());
    world.change(Change::Move { cgroup, parent });
    assert_eq!(world.wait_for(tag), 0, "no limit is there");

    let (mut world, tag) = half_paid();
    world.limit("/q", "wbps=5M", LimiterKind::Pace);
    let (cgroup, parent) = (world.cgroup("/p/a"), world.cgroup("/q"));
    world.change(Change::Move { cgroup, parent });
    assert!(world.wait_for(tag).abs_diff(1_900 * MS) <= 100 * MS, "the rest, at the new limit");
}

/// The one asks for more than a bucket holds, the other for little, often.
#[test]
fn a_limit_is_used_up_while_a_large_request_waits_beside_small_ones() {
    for limiter in LIMITERS {
        for (mibs, large, depth, think_ms) in [(1, MIB, 1, 20), (10, MIB / 4, 4, 5)] {
            let mut world = World::new(Prices::default());
            world.limit("/a", &format!("rbps={mibs}M"), limiter);
            let (big, small) = (world.task("/a"), world.task("/a"));
            for _ in 0..depth {
                world.submit(big, Op::Read, large);
            }
            let mut small_tag = world.submit(small, Op::Read, 4096).1;
            let (mut bytes, mut seen, mut next) = (0, 0, None);
            while world.now < Instant::from_millis(30_000) {
                let timeout = world.engine.poll_timeout().into_iter();
                let at = timeout.chain(next).min().expect("it goes on");
                world.run(at.nanos_since(world.now));
                while let Some(&(at, tag)) = world.went.get(seen) {
                    seen += 1;
                    if tag == small_tag {
                        bytes += 4096;
                        next = Some(at.plus_nanos(think_ms * MS));
                    } else {
                        bytes += u64::from(large);
                        world.submit(big, Op::Read, large);
                    }
                }
                if next.is_some_and(|at| at <= world.now) {
                    next = None;
                    small_tag = world.submit(small, Op::Read, 4096).1;
                }
            }
            let wanted = 30 * (mibs << 20);
            // Up to `depth` large requests are partly paid at the end.
            assert!(bytes >= wanted - wanted / 20, "{limiter:?} of {mibs} MiB/s: {bytes}");
            assert!(bytes <= wanted + wanted / 100, "{limiter:?} of {mibs} MiB/s: {bytes}");
        }
    }
}

#[test]
fn after_a_pause_a_leaky_bucket_lets_one_request_through() {
    let mut world = World::new(Prices::default());
    world.limit("/a", "riops=10", LimiterKind::Leaky);
    let tasks: Vec<TaskId> = (0..40).map(|_| world.task("/a")).collect();
    world.run(10_000 * MS);
    for task in tasks {
        for _ in 0..25 {
            world.submit(task, Op::Read, 4096);
        }
    }
    assert_eq!(world.went.len(), 1);
    world.run(500 * MS);
    assert_eq!(world.went.len(), 6);
}

#[test]
fn a_low_limit_is_exceeded_by_a_request_at_most() {
    for limiter in LIMITERS {
        let mut world = World::new(Prices::default());
        world.limit("/a", "rbps=4096", limiter);
        let task = world.task("/a");
        for _ in 0..40 {
            world.submit(task, Op::Read, 4096);
        }
        world.run(4_999 * MS);
        assert!(world.went.len() <= 6, "{limiter:?}: {} in five seconds", world.went.len());
    }
    // A peak lets no more than one instalment go at once.
    let mut world = World::new(Prices::default());
    let cgroup = world.cgroup("/a");
    let rbps = |value| PerDimension::NONE.with(Dimension::Rbps, value);
    let limits =
        Limits { max: rbps(16_384), burst: rbps(1 << 20), peak: rbps(32_768), ..Limits::default() };
    world.change(Change::SetLimits { cgroup, limits });
    let task = world.task("/a");
    for _ in 0..100 {
        world.submit(task, Op::Read, 4096);
    }
    world.run(4_000 * MS);
    assert!(world.went.len() <= 4 * 8 + 1, "{} in four seconds", world.went.len());
}
