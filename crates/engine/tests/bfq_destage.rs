//! `scheduler = "bfq"` on a disk that answers writes before they are on its platters: the next slot waits for those.

use weir_engine::stats::IdlingCause;
use weir_engine::{ClientId, Dispatch, Engine, Extent, Instant, Op, Outcome, Request, TaskId};

use crate::support::{self, MS, US};

const BLOCK: u32 = 128 << 10;

/// A disk that takes each write in `write_ns`, and a reader that waits from the first of them on.
struct Scene {
    engine: Engine,
    now: Instant,
    tasks: Vec<TaskId>,
}

impl Scene {
    fn new(rotational: bool, settings: &str) -> Scene {
        let engine = support::bfq_on(rotational, 32, settings);
        Scene { engine, now: Instant::ZERO, tasks: Vec::new() }
    }

    fn client(&mut self) -> (ClientId, TaskId) {
        let root = self.engine.root();
        let (client, task) = support::client(&mut self.engine, root);
        self.tasks.push(task);
        (client, task)
    }

    fn submit(&mut self, task: TaskId, op: Op, offset: u64) {
        let extent = if op == Op::Flush { Extent::new(0, 0) } else { Extent::new(offset, BLOCK) };
        let request = Request::new(task, op, extent, 0);
        self.engine.submit(self.now, request).expect("room");
    }

    fn dispatch(&mut self) -> Option<Dispatch> {
        let dispatch = self.engine.poll_dispatch(self.now);
        self.engine.check().expect("a sound engine");
        dispatch
    }

    fn wait(&mut self, ns: u64) {
        self.now = self.now.plus_nanos(ns);
        self.engine.handle_timeout(self.now);
    }

    /// A writer writes block after block, each answered after `write_ns`, until its slot ends; then how long no flow gets
    /// the disk, in ns, and how many blocks it wrote. Another client's request waits meanwhile, if
    /// there is one.
    fn slot_of_a_writer(&mut self, write_ns: u64, other: Option<Op>) -> (u64, u64) {
        let (_, writer) = self.client();
        let other = other.map(|op| (op, self.client().1));
        self.submit(writer, Op::Write, 0);
        for written in 1..1000 {
            let Some(dispatch) = self.dispatch() else {
                let begin = self.now;
                let deadline = self.engine.poll_timeout().expect("a wait for something");
                self.wait(deadline.nanos_since(begin));
                let next = self.dispatch().expect("the wait is over");
                assert_eq!(
                    Some(next.request.task),
                    other.map(|(_, task)| task),
                    "after {written} blocks"
                );
                return (self.now.nanos_since(begin), written - 1);
            };
            if dispatch.request.task != writer {
                return (0, written - 1);
            }
            if let Some((op, task)) = other.filter(|_| written == 1) {
                self.submit(task, op, 1 << 40);
            }
            self.wait(write_ns);
            self.engine.complete(self.now, dispatch.ticket, Outcome::Done);
            self.submit(writer, Op::Write, written * u64::from(BLOCK));
        }
        (0, 999)
    }

    fn destage(&self) -> (u64, u64) {
        let (stats, at) = (self.engine.bfq_stats(), IdlingCause::Destage.index());
        (stats.idlings[at], stats.idling_ns[at])
    }
}

#[test]
fn the_write_cache_is_drained_before_others_read() {
    // Another writer goes on once a quarter of a way is left.
    for (op, left_ns) in [(Op::Read, 0), (Op::Write, 4 * MS)] {
        let mut scene = Scene::new(true, "low_latency=0");
        // 300 MB/s, as fast as the interface.
        let (waited_ns, blocks) = scene.slot_of_a_writer(437 * US, Some(op));
        // At the rate a disk is taken to have before it is known, 9,333 / 65,536 of a sector a microsecond, and three
        // quarters of that, a block takes 2.4 ms. With a way of 16 ms, 50 are left after the 18th, 8 ms from the first.
        assert_eq!(blocks, 18);
        let takes_ns = blocks * 256 * 65_536 * 1_000 / 9_333 * 4 / 3 - blocks * 437 * US;
        let expected_ns = 16 * MS + takes_ns - left_ns;
        assert!(waited_ns.abs_diff(expected_ns) < 100 * US, "{waited_ns} ns, not {expected_ns}");
        assert_eq!(scene.destage(), (1, waited_ns));
    }
}

#[test]
fn writers_do_not_wait_for_a_small_drain() {
    // Three blocks in a slot, two thirds of a budget, for which a way and 6 ms are left: less than two ways.
    for (op, least_ns) in [(Op::Write, 0), (Op::Read, 21 * MS)] {
        let mut scene = Scene::new(true, "low_latency=0 max_budget=1280");
        let (waited_ns, blocks) = scene.slot_of_a_writer(437 * US, Some(op));
        assert_eq!(blocks, 3);
        assert!(
            (least_ns..=least_ns + 2 * MS).contains(&waited_ns),
            "{waited_ns} ns before {op:?}"
        );
        assert_eq!(scene.destage().0, u64::from(least_ns > 0));
    }
}

#[test]
fn a_slot_leaves_at_most_50_ms_of_drain_to_a_waiting_flow() {
    // 1 GB/s from a cache that has no end, and a budget that is none.
    let mut scene = Scene::new(true, "low_latency=0 max_budget=65536");
    let (waited_ns, blocks) = scene.slot_of_a_writer(131 * US, Some(Op::Read));
    assert_eq!(blocks, 16);
    assert!((50 * MS..53 * MS).contains(&waited_ns), "{waited_ns} ns");
}

#[test]
fn a_newcomer_after_a_lone_writer_waits_at_most_a_slot() {
    let mut scene = Scene::new(true, "low_latency=0");
    let [(_, writer), (_, reader)] = [(); 2].map(|()| scene.client());
    scene.submit(writer, Op::Write, 0);
    for block in 1..200 {
        let dispatch = scene.dispatch().expect("nobody else is there");
        scene.wait(131 * US);
        scene.engine.complete(scene.now, dispatch.ticket, Outcome::Done);
        scene.submit(writer, Op::Write, block * u64::from(BLOCK));
    }
    scene.submit(reader, Op::Read, 1 << 40);
    let came = scene.now;
    while scene.dispatch().is_none() {
        let deadline = scene.engine.poll_timeout().expect("a wait for something");
        scene.wait(deadline.nanos_since(scene.now));
    }
    let waited_ns = scene.now.nanos_since(came);
    assert!((120 * MS..=125 * MS).contains(&waited_ns), "{waited_ns} ns");
}

#[test]
fn an_empty_write_cache_is_not_waited_for() {
    for (what, rotational, settings, write_ns, other) in [
        ("written through", true, "low_latency=0", 2_600 * US, Some(Op::Read)),
        ("flash", false, "low_latency=0", 437 * US, Some(Op::Read)),
        (
            "the device is never kept free",
            true,
            "low_latency=0 slice_idle=0",
            437 * US,
            Some(Op::Read),
        ),
        ("nobody else is there", true, "low_latency=0", 437 * US, None),
    ] {
        let mut scene = Scene::new(rotational, settings);
        let (waited_ns, blocks) = scene.slot_of_a_writer(write_ns, other);
        assert!(blocks > 0, "{what}");
        // Of a write-through disk no more than the way there, which is not measured.
        assert!(waited_ns <= 16 * MS, "{what}: {waited_ns} ns after {blocks} blocks");
        assert!(write_ns > MS || scene.destage() == (0, 0), "{what}");
    }
}

#[test]
fn a_fast_device_has_no_drain() {
    // A file on flash is taken for a disk with platters as well, until its rate is known: here 1 GB/s, or 200 MB/s.
    for (read_ns, is_disk) in [(131 * US, false), (655 * US, true)] {
        let mut scene = Scene::new(true, "low_latency=0");
        let (_, stream) = scene.client();
        let until = Instant::from_millis(8_000);
        for block in 0.. {
            if scene.now >= until {
                break;
            }
            scene.submit(stream, Op::Read, block * u64::from(BLOCK));
            let dispatch = scene.engine.poll_dispatch(scene.now).expect("nobody else is there");
            scene.wait(read_ns);
            scene.engine.complete(scene.now, dispatch.ticket, Outcome::Done);
        }
        // No client reads the stream any more.
        scene.wait(100 * MS);
        let (waited_ns, _) = scene.slot_of_a_writer(131 * US, Some(Op::Read));
        assert_eq!(waited_ns > 0, is_disk, "{waited_ns} ns at {read_ns} ns for 128 KiB");
    }
}

#[test]
fn a_flush_does_not_wait_for_the_drain() {
    let mut scene = Scene::new(true, "low_latency=0");
    let (waited_ns, blocks) = scene.slot_of_a_writer(437 * US, Some(Op::Flush));
    assert_eq!((waited_ns, blocks), (0, 18), "the slot is over as always");
    assert_eq!(scene.destage(), (0, 0));
}

#[test]
fn a_flush_ends_the_drain() {
    for writes_again in [false, true] {
        let mut scene = Scene::new(true, "low_latency=0");
        let [(_, writer), (_, reader), (_, other)] = [(); 3].map(|()| scene.client());
        for block in 0..3 {
            scene.submit(writer, Op::Write, block * u64::from(BLOCK));
        }
        while let Some(Dispatch { ticket, .. }) = scene.dispatch() {
            scene.engine.complete(scene.now, ticket, Outcome::Done);
        }
        scene.submit(writer, Op::Flush, 0);
        let flush = scene.dispatch().expect("the slot goes on").ticket;
        if writes_again {
            scene.submit(writer, Op::Write, 1 << 30);
            let Dispatch { ticket, .. } = scene.dispatch().expect("the slot goes on");
            scene.engine.complete(scene.now, ticket, Outcome::Done);
        }
        scene.wait(2 * MS);
        scene.engine.complete(scene.now, flush, Outcome::Done);
        scene.submit(reader, Op::Read, 1 << 40);
        scene.submit(other, Op::Read, 1 << 41);
        // The writer is not waited for any more then.
        scene.wait(9 * MS);
        let goes = scene.dispatch().is_some();
        assert_eq!(goes, !writes_again, "written again: {writes_again}");
    }
}
