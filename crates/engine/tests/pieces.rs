//! Requests longer than one command for the device: they go there in pieces, one after the other.

use std::num::NonZeroU32;

use weir_engine::{
    CgroupId, Config, Engine, Extent, Instant, Op, Outcome, Request, SchedulerKind, TaskId, Ticket,
};

use crate::support::{self, MIB};

/// The device takes a millisecond for a mebibyte, and less for less.
const NS_PER_MIB: u64 = 1_000_000;

fn engine(scheduler: SchedulerKind, depth: u32) -> Engine {
    let piece_bytes_max = NonZeroU32::new(MIB);
    let config = support::config(scheduler, depth);
    support::engine(Config { rotational: false, piece_bytes_max, ..config })
}

fn task(engine: &mut Engine, path: &str) -> (CgroupId, TaskId) {
    let cgroup = support::cgroup(engine, path);
    (cgroup, support::task(engine, cgroup))
}

/// A device of depth 1 until nothing is left: when each piece ended, in microseconds, with its tag.
fn serve(engine: &mut Engine) -> Vec<(u64, u64)> {
    let mut now = Instant::ZERO;
    let mut ended = Vec::new();
    loop {
        engine.handle_timeout(now);
        let Some(dispatch) = engine.poll_dispatch(now) else {
            let Some(next) = engine.poll_timeout() else { return ended };
            now = next;
            continue;
        };
        let most = match dispatch.request.op {
            Op::Discard | Op::WriteZeroes => 16 * MIB,
            _ => MIB,
        };
        assert!(dispatch.request.extent.len <= most);
        let service_ns = NS_PER_MIB * u64::from(dispatch.request.extent.len) / u64::from(MIB);
        now = now.plus_nanos(service_ns);
        engine.complete(now, dispatch.ticket, Outcome::Done);
        engine.check().expect("a sound engine");
        ended.push((now.as_nanos() / 1000, dispatch.request.tag));
    }
}

#[test]
fn a_small_request_waits_for_one_piece_of_a_large_one() {
    for scheduler in SchedulerKind::ALL {
        for op in [Op::Read, Op::Write, Op::WriteZeroes, Op::Discard, Op::Cache] {
            let mut engine = engine(scheduler, 1);
            let (_, large) = task(&mut engine, "/large");
            let (_, small) = task(&mut engine, "/small");
            let whole = Extent::new(0, 256 * MIB);
            engine.submit(Instant::ZERO, Request::new(large, op, whole, 1)).expect("room");
            let page = Extent::new(1 << 40, 4096);
            engine.submit(Instant::ZERO, Request::new(small, Op::Read, page, 2)).expect("room");
            let ended = serve(&mut engine);
            let small_at = ended.iter().position(|&(_, tag)| tag == 2).expect("it was served");
            let (pieces, most) = match (scheduler, op) {
                (SchedulerKind::None, Op::WriteZeroes | Op::Discard) => (16, 1),
                (SchedulerKind::None, _) => (256, 1),
                // A discard uses no budget, so its slot ends by time, after 125 ms; others use up a budget.
                (_, Op::Discard) => (16, 8),
                (_, Op::WriteZeroes) => (16, 1),
                _ => (256, 16),
            };
            assert!(small_at <= most, "{scheduler:?} {op:?}: behind {small_at} pieces");
            assert_eq!(ended.len(), pieces + 1, "{op:?}");
        }
    }
}

#[test]
fn a_request_in_pieces_is_counted_and_charged_once() {
    let mut engine = engine(SchedulerKind::None, 4);
    let (cgroup, task) = task(&mut engine, "/a");
    let request = Request::new(task, Op::Write, Extent::new(4096, 3 * MIB + 512), 7);
    engine.submit(Instant::ZERO, request).expect("room");
    let ended = serve(&mut engine);
    assert_eq!(ended, [(1000, 7), (2000, 7), (3000, 7), (3000, 7)]);
    let counters = engine.counters(cgroup, false).expect("a live cgroup");
    assert_eq!((counters.write.ios, counters.write.bytes), (1, u64::from(3 * MIB + 512)));
    assert_eq!(counters.completed, 1);
    let device_ns: u64 = 3 * NS_PER_MIB + NS_PER_MIB * 512 / u64::from(MIB);
    assert_eq!(counters.blame.total_ns(), device_ns, "all of its time was at the device");
    assert!(engine.audit().balances());
}

#[test]
fn pieces_go_one_after_the_other() {
    let mut engine = engine(SchedulerKind::None, 4);
    let (_, task) = task(&mut engine, "/a");
    let request = Request::new(task, Op::Read, Extent::new(0, 2 * MIB), 7);
    engine.submit(Instant::ZERO, request).expect("room");
    let first = engine.poll_dispatch(Instant::ZERO).expect("a piece");
    assert_eq!(first.request.extent, Extent::new(0, MIB));
    assert_eq!(engine.poll_dispatch(Instant::ZERO), None);
    assert!(!engine.complete(Instant::ZERO, first.ticket, Outcome::Done), "a piece is left");
    let second = engine.poll_dispatch(Instant::ZERO).expect("the other piece");
    assert_eq!(second.request, Request { extent: Extent::new(u64::from(MIB), MIB), ..request });
    assert!(engine.complete(Instant::ZERO, second.ticket, Outcome::Done), "it is done");
}

fn first_piece(engine: &mut Engine, task: TaskId) -> Ticket {
    let request = Request::new(task, Op::Write, Extent::new(0, 8 * MIB), 7);
    engine.submit(Instant::ZERO, request).expect("room");
    engine.poll_dispatch(Instant::ZERO).expect("a piece").ticket
}

#[test]
fn a_piece_that_fails_ends_the_request() {
    let mut engine = engine(SchedulerKind::Bfq, 1);
    let (cgroup, task) = task(&mut engine, "/a");
    let ticket = first_piece(&mut engine, task);
    assert!(engine.complete(Instant::ZERO, ticket, Outcome::Failed));
    assert_eq!(engine.poll_dispatch(Instant::ZERO), None);
    let counters = engine.counters(cgroup, false).expect("a live cgroup");
    assert_eq!((counters.completed, counters.failed), (1, 1));
    engine.check().expect("a sound engine");
}

#[test]
fn the_rest_of_a_request_can_be_withdrawn_between_pieces() {
    let mut engine = engine(SchedulerKind::Bfq, 1);
    let (_, task) = task(&mut engine, "/a");
    let ticket = first_piece(&mut engine, task);
    let id = ticket.id();
    assert_eq!(engine.withdraw(Instant::ZERO, id), None, "a piece is at the device");
    engine.complete(Instant::ZERO, ticket, Outcome::Done);
    let rest = engine.withdraw_next(Instant::ZERO, task).expect("seven pieces");
    assert_eq!(rest.extent, Extent::new(u64::from(MIB), 7 * MIB));
    assert_eq!(engine.poll_dispatch(Instant::ZERO), None);
    assert!(engine.audit().balances());
    engine.check().expect("a sound engine");
}

#[test]
fn flushes_and_status_calls_are_never_cut() {
    let mut engine = engine(SchedulerKind::None, 4);
    let (_, task) = task(&mut engine, "/a");
    for op in [Op::Flush, Op::Status] {
        let whole = Extent::new(0, 1 << 31);
        engine.submit(Instant::ZERO, Request::new(task, op, whole, 1)).expect("room");
        let dispatch = engine.poll_dispatch(Instant::ZERO).expect("one command");
        assert_eq!(dispatch.request.extent, whole);
        assert!(engine.complete(Instant::ZERO, dispatch.ticket, Outcome::Done));
    }
}
