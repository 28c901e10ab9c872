//! `scheduler = "bfq"` and time: idling, order of service, and merges of clients.

mod defects;
mod streams;

use weir_engine::settings::{BfqSettings, LowLatency, PrioClass, PriorityClass};
use weir_engine::stats::{Expiration, IdlingCause, Injection};
use weir_engine::{
    CgroupId, Change, ClientId, Dispatch, Engine, Extent, Instant, Op, Outcome, Priority, Request,
    TaskId, Ticket,
};

use crate::support;

const BLOCK: u32 = 128 << 10;

/// An engine over a disk that takes one request at a time, in a time that depends on how far it has to go.
struct Scene {
    engine: Engine,
    now: Instant,
    out: Vec<(Ticket, Request)>,
}

impl Scene {
    fn new(rotational: bool, depth: u32) -> Scene {
        // Each would be new, and waited for longer.
        let engine = support::bfq_on(rotational, depth, "low_latency=0");
        Scene { engine, now: Instant::ZERO, out: Vec::new() }
    }

    fn cgroup(&mut self, name: &str, weight: u64) -> CgroupId {
        let root = self.engine.root();
        support::child(&mut self.engine, root, name, weight)
    }

    fn client(&mut self, cgroup: CgroupId) -> (ClientId, TaskId) {
        support::client(&mut self.engine, cgroup)
    }

    fn task(&mut self) -> TaskId {
        let root = self.engine.root();
        self.client(root).1
    }

    fn at(&mut self, ms: u64) -> &mut Scene {
        self.now = Instant::from_millis(ms);
        self.engine.handle_timeout(self.now);
        self
    }

    fn read(&mut self, task: TaskId, offset: u64) {
        support::submit(&mut self.engine, self.now, support::read(task, offset, BLOCK));
        self.engine.check().expect("a sound engine");
    }

    /// Whose request goes to the device now.
    fn dispatch(&mut self) -> Option<TaskId> {
        let Dispatch { ticket, request, .. } = self.engine.poll_dispatch(self.now)?;
        self.engine.check().expect("a sound engine");
        self.out.push((ticket, request));
        Some(request.task)
    }

    /// The oldest request at the device is done.
    fn complete(&mut self) {
        let (ticket, _) = self.out.remove(0);
        self.engine.complete(self.now, ticket, Outcome::Done);
        self.engine.check().expect("a sound engine");
    }

    /// Has a small request of `task` served, anywhere: it comes at `ms`, and takes 3 ms once it is at the disk. When it is back.
    fn serve(&mut self, mut ms: u64, task: TaskId) -> u64 {
        let extent = Extent::new((ms * 7919 % 4096) << 28, 4096);
        let request = Request::new(task, Op::Read, extent, 0);
        self.at(ms).engine.submit(Instant::from_millis(ms), request).expect("room");
        while self.dispatch().is_none() {
            ms += 1;
            self.at(ms);
        }
        self.at(ms + 3).complete();
        ms + 3
    }

    fn tune(&mut self, text: &str) {
        support::tune(&mut self.engine, self.now, text);
    }

    /// A stream of `task` that has the device: it has sent and got back one request from `offset` on, at this instant.
    fn serve_one(&mut self, task: TaskId, offset: u64) {
        self.read(task, offset);
        assert_eq!(self.dispatch(), Some(task));
        self.complete();
    }
}

#[test]
fn the_disk_idles_for_a_stream() {
    let mut scene = Scene::new(true, 1);
    let [stream, other] = [(); 2].map(|()| scene.task());
    scene.serve_one(stream, 0);
    scene.at(1).read(other, 1 << 40);
    // The next request of the stream is a moment away, the other's a seek.
    assert_eq!(scene.dispatch(), None);
    assert_eq!(scene.engine.poll_timeout(), Some(Instant::from_millis(8)));
    scene.at(3).read(stream, BLOCK.into());
    assert_eq!(scene.dispatch(), Some(stream));
}

#[test]
fn idling_ends_after_slice_idle() {
    let mut scene = Scene::new(true, 1);
    let [stream, other] = [(); 2].map(|()| scene.task());
    scene.serve_one(stream, 0);
    scene.at(1).read(other, 1 << 40);
    assert_eq!(scene.at(7).dispatch(), None);
    assert_eq!(scene.at(8).dispatch(), Some(other));
    assert_eq!(scene.engine.poll_timeout(), None);
}

#[test]
fn queueing_flash_does_not_idle_among_equal_flows() {
    let mut scene = Scene::new(false, 32);
    let [first, second] = [(); 2].map(|()| scene.task());
    scene.read(first, 0);
    scene.read(second, 1 << 40);
    let order = [scene.dispatch(), scene.dispatch()];
    assert_eq!(order, [Some(first), Some(second)]);
    scene.complete();
    assert_eq!(scene.engine.poll_timeout(), None);
}

#[test]
fn strict_guarantees_dispatch_one_by_one_and_idle_for_every_flow() {
    for (settings, is_strict) in
        [("", false), ("strict_guarantees=1", true), ("strict_guarantees=1 slice_idle=0", true)]
    {
        // Flash that queues requests, which does not idle among equals.
        let mut scene = Scene::new(false, 32);
        scene.tune(settings);
        let [a, b] = [(); 2].map(|()| scene.task());
        scene.read(a, 0);
        scene.read(b, 1 << 40);
        assert_eq!(scene.dispatch(), Some(a), "{settings}");
        assert_eq!(scene.dispatch(), (!is_strict).then_some(b), "{settings}");
        if !is_strict {
            continue;
        }
        scene.at(1).complete();
        assert_eq!(scene.dispatch(), None, "{settings}: it is waited for");
        scene.at(8).read(a, 1 << 30);
        assert_eq!(scene.dispatch(), Some(a), "{settings}: it was in time");
        scene.at(9).complete();
        assert_eq!(scene.at(16).dispatch(), None, "{settings}");
        assert_eq!(scene.at(17).dispatch(), Some(b), "{settings}: 8 ms, and no longer");
    }
}

#[test]
fn no_idling_for_a_seeky_flow_on_a_disk_that_queues() {
    let mut scene = Scene::new(true, 32);
    let [seeky, other] = [(); 2].map(|()| scene.task());
    for number in 0..40_u64 {
        scene.now = Instant::from_millis(number);
        scene.serve_one(seeky, (number * 7919 % 64) << 34);
    }
    scene.read(seeky, 5 << 34);
    scene.read(other, 1 << 40);
    let order = [scene.dispatch(), scene.dispatch()];
    assert_eq!(order, [Some(seeky), Some(other)]);
}

#[test]
fn shares_of_readers_with_one_request_each_follow_weights() {
    // A flow of each of three cgroups, one request at a time: without the wait, the device would take turns.
    let mut scene = Scene::new(true, 1);
    let tasks = [100, 200, 400].map(|weight| {
        let cgroup = scene.cgroup(&format!("w{weight}"), weight);
        scene.client(cgroup).1
    });
    let (mut at, mut served) = ([0_u64, 1 << 40, 2 << 40], [0_u64; 3]);
    for (task, at) in tasks.iter().zip(at) {
        scene.read(*task, at);
    }
    // Each has its next request 1 ms after the last came back; a request takes 1 ms.
    let mut next: Vec<(u64, usize)> = Vec::new();
    for ms in 0..20_000_u64 {
        scene.at(ms);
        while let Some(position) = next.iter().position(|&(due, _)| due == ms) {
            let (_, which) = next.remove(position);
            at[which] += u64::from(BLOCK);
            scene.read(tasks[which], at[which]);
        }
        if let Some((_, request)) = scene.out.first() {
            let which = tasks.iter().position(|&task| task == request.task).expect("one of them");
            served[which] += 1;
            scene.complete();
            next.push((ms + 1, which));
        }
        scene.dispatch();
    }
    let all: u64 = served.iter().sum();
    for (served, weight) in served.iter().zip([100, 200, 400]) {
        let share = all * weight / 700;
        assert!(served.abs_diff(share) * 50 < all, "{served} of {share} at weight {weight}");
    }
}

#[test]
fn equally_raised_flows_do_not_preempt_each_other() {
    // The first comes back too late to be waited for, and in time to go on where it was; the second has used more by then.
    // Its slot ends for that unless both are raised, and have small slots anyway.
    for (low_latency, interrupts) in [("low_latency=0", true), ("low_latency=1", false)] {
        let mut scene = Scene::new(true, 4);
        let bfq = weir_text::parse_bfq(low_latency, BfqSettings::DEFAULT).expect("a setting");
        scene.engine.reconfigure(scene.now, Change::SetBfq(bfq)).expect("a setting");
        let [first, second] = [(); 2].map(|()| scene.task());
        scene.serve_one(first, 0);
        for block in 0..6 {
            scene.read(second, (1 << 40) + block * u64::from(BLOCK));
        }
        // By then it is waited for no longer.
        scene.at(21);
        let order: Vec<_> = (0..4).map(|_| scene.dispatch()).collect();
        assert_eq!(order, [Some(second); 4], "{low_latency}");
        scene.at(23).read(first, u64::from(BLOCK));
        scene.complete();
        let expected = if interrupts { first } else { second };
        assert_eq!(scene.dispatch(), Some(expected), "{low_latency}");
    }
}

#[test]
fn real_time_goes_first_and_idle_last() {
    let mut scene = Scene::new(false, 32);
    let root = scene.engine.root();
    let tasks =
        [PriorityClass::Idle, PriorityClass::BestEffort, PriorityClass::RealTime].map(|class| {
            let (client, task) = scene.client(root);
            let priority = Priority::new(class, 4).expect("a level");
            let change = Change::SetPriority { client, priority };
            scene.engine.reconfigure(Instant::ZERO, change).expect("a live client");
            task
        });
    let mut order = Vec::new();
    for task in tasks.repeat(2) {
        scene.read(task, 1 << 30);
    }
    while order.len() < 6 {
        match scene.dispatch() {
            Some(task) => {
                order.push(tasks.iter().position(|&other| other == task).expect("one of them"));
                scene.complete();
            }
            // It waits for the flow that was served last.
            None => {
                scene.now = scene.engine.poll_timeout().expect("a reason to wait");
                scene.engine.handle_timeout(scene.now);
            }
        }
    }
    assert_eq!(order, [2, 2, 1, 1, 0, 0]);
}

#[test]
fn the_idle_class_gets_a_little() {
    let mut scene = Scene::new(false, 1);
    let idle = scene.cgroup("idle", 100);
    let change = Change::SetPrioClass { cgroup: idle, prio_class: PrioClass::Idle };
    scene.engine.reconfigure(Instant::ZERO, change).expect("a live cgroup");
    let (background, foreground) = (scene.client(idle).1, scene.task());
    for _ in 0..8 {
        scene.read(foreground, 1 << 30);
        scene.read(background, 1 << 40);
    }
    // One request takes 1 ms, and the foreground always has more.
    let mut turns = Vec::new();
    for ms in 0..1000 {
        scene.at(ms);
        let task = scene.dispatch().expect("work is conserved");
        if task == background {
            turns.push(ms);
        }
        scene.complete();
        scene.read(task, if task == background { 1 << 40 } else { 1 << 30 });
    }
    assert!((3..=5).contains(&turns.len()), "once in 200 ms: {turns:?}");
}

#[test]
fn writeback_waits_for_the_awaited_flow_and_is_not_awaited() {
    let mut scene = Scene::new(true, 1);
    let [reader, writer] = [(); 2].map(|()| scene.task());
    scene.serve_one(reader, 0);
    let writeback =
        Request { sync: false, ..Request::new(writer, Op::Write, Extent::new(1 << 40, BLOCK), 0) };
    scene.engine.submit(scene.now, writeback).expect("room");
    assert_eq!(scene.dispatch(), None, "the disk waits for the reader");
    scene.at(5).read(reader, BLOCK.into());
    assert_eq!(scene.dispatch(), Some(reader));
    scene.complete();
    assert_eq!(scene.at(13).dispatch(), Some(writer));
    // No client waits for it, so the disk does not idle.
    scene.complete();
    assert_eq!(scene.engine.poll_timeout(), None);
}

#[test]
fn injection_is_bounded_by_the_latency_of_the_flow_in_service() {
    // A thinks for 6 ms after each request, and the device is kept for it, because its share depends on it. B has always
    // more, far apart as A's are.
    let mut scene = Scene::new(true, 32);
    let [a, b] = ["a", "b"].map(|name| {
        let cgroup = scene.cgroup(name, 100);
        scene.client(cgroup).1
    });
    let far = |number: u64| (number * 7919 % 4096) << 28;
    (0..4).for_each(|number| scene.read(b, far(number)));
    let (mut number, mut returns) = (4, Some(0));
    for ms in 0..4_000 {
        scene.at(ms);
        if returns == Some(ms) {
            scene.read(a, far(number));
            (number, returns) = (number + 1, None);
        }
        // Each takes 3 ms, one after the other.
        if ms % 3 == 0 && !scene.out.is_empty() {
            let task = scene.out[0].1.task;
            scene.complete();
            if task == a {
                returns = Some(ms + 6);
            } else {
                scene.read(b, far(number));
                number += 1;
            }
        }
        while scene.dispatch().is_some() {}
    }
    let stats = scene.engine.bfq_stats();
    let others = stats.injections[Injection::Other.index()];
    assert!(others > 50, "{stats:?}");
    // Now and then B is taken for whom A waits for.
    assert!(stats.injections.iter().sum::<u64>() < others + 20, "{stats:?}");
}

#[test]
fn an_injected_request_updates_the_next_entity_of_its_cgroup() {
    // As above, and B's cgroup has a stream too, whose weight is eight times as much: once a request of the other one went
    // into a gap, the stream may be next in there, with another budget, and that is what the cgroup has to show. `Scene`
    // looks at all of it after each step.
    let mut scene = Scene::new(true, 32);
    let [a, b] = ["a", "b"].map(|name| scene.cgroup(name, 100));
    let [thinker, seeker, stream] = [(a, 4), (b, 7), (b, 0)].map(|(cgroup, level)| {
        let (client, task) = scene.client(cgroup);
        let priority = Priority::new(PriorityClass::BestEffort, level).expect("a level");
        scene
            .engine
            .reconfigure(Instant::ZERO, Change::SetPriority { client, priority })
            .expect("live");
        task
    });
    let far = |number: u64| (number * 7919 % 4096) << 28;
    let mut next = [0; 3];
    let mut read = |scene: &mut Scene, task: TaskId| {
        let which = [thinker, seeker, stream].iter().position(|&other| other == task);
        let number = &mut next[which.expect("one of them")];
        *number += 1;
        let streams_to = (1 << 41) + *number * u64::from(BLOCK);
        scene.read(task, if task == stream { streams_to } else { far(*number) });
    };
    (0..4).for_each(|_| read(&mut scene, seeker));
    (0..4).for_each(|_| read(&mut scene, stream));
    let mut returns = Some(0);
    for ms in 0..4_000 {
        scene.at(ms);
        if returns.take_if(|at| *at == ms).is_some() {
            read(&mut scene, thinker);
        }
        if ms % 3 == 0 && !scene.out.is_empty() {
            let task = scene.out[0].1.task;
            scene.complete();
            if task == thinker {
                returns = Some(ms + 6);
            } else {
                read(&mut scene, task);
            }
        }
        while scene.dispatch().is_some() {}
    }
    let others = scene.engine.bfq_stats().injections[Injection::Other.index()];
    assert!(others > 50, "{others}");
}

#[test]
fn the_waker_is_injected_before_all_others() {
    // The stream reads a block only when its helper has had one back, as a file system waits for its journal.
    let mut scene = Scene::new(true, 32);
    let cgroups = ["stream", "helper", "other"].map(|name| scene.cgroup(name, 100));
    let [stream, helper, other] = cgroups.map(|cgroup| scene.client(cgroup).1);
    let far = |number: u64| (number * 7919 % 4096) << 28;
    let mut number = 0;
    scene.read(helper, far(7));
    (0..4).for_each(|number| scene.read(other, far(number)));
    let (mut helped, mut streamed) = (None, None);
    for ms in 0..6_000 {
        scene.at(ms);
        number += 1;
        // Each a moment after the other's; the stream thinks long, from its own completion on.
        if helped == Some(ms) {
            scene.read(stream, far(number));
        }
        if streamed == Some(ms) {
            scene.read(helper, far(number + 50));
        }
        if ms % 3 == 0 && !scene.out.is_empty() {
            let task = scene.out[0].1.task;
            scene.complete();
            match task {
                task if task == helper => helped = Some(ms + 1),
                task if task == stream => streamed = Some(ms + 1),
                _ => scene.read(other, far(number)),
            }
        }
        while scene.dispatch().is_some() {}
    }
    let stats = scene.engine.bfq_stats();
    assert!(stats.injections[Injection::Waker.index()] > 10, "{stats:?}");
}

#[test]
fn a_waker_knows_all_flows_that_it_wakes() {
    // A leader with half of the disk, and two flows that go on when it is done; the second was found after the first.
    let mut scene = Scene::new(true, 32);
    let tasks = [("leader", 200), ("first", 100), ("second", 100)].map(|(name, weight)| {
        let cgroup = scene.cgroup(name, weight);
        scene.client(cgroup).1
    });
    let [leader, first, second] = tasks;
    // A round of 60 ms; the others come while the disk is kept for the leader. Whether they were let go for that.
    let round = |scene: &mut Scene, number: u64, others: &[TaskId]| {
        let done = scene.serve(60 * number, leader);
        let woken = |scene: &Scene| scene.engine.bfq_stats().injections[Injection::Woken.index()];
        let before = woken(scene);
        for ms in done + 1..done + 40 {
            scene.at(ms);
            if let Some(&task) = others.get((ms - done - 1) as usize) {
                scene.read(task, (ms * 7919 % 4096) << 28);
            }
            // Each takes 3 ms, so that the leader's was the last completion when they come.
            if ms % 3 == done % 3 && ms > done + 3 && !scene.out.is_empty() {
                scene.complete();
            }
            while scene.dispatch().is_some() {}
        }
        assert!(scene.out.is_empty(), "they are through");
        woken(scene) - before
    };
    for number in 1..12 {
        round(&mut scene, number, &[first, second]);
    }
    // The one that comes alone is injected, whichever of them was found last.
    for (number, other) in [(12, first), (13, second), (14, first)] {
        assert_eq!(round(&mut scene, number, &[other]), 1, "{number}");
    }
}

#[test]
fn without_idling_no_waker_is_detected() {
    for (meanwhile, wakes) in [("slice_idle=8", true), ("slice_idle=0", false)] {
        let mut scene = Scene::new(true, 32);
        let root = scene.engine.root();
        // The heavier one is waited for, the other is not.
        let [stream, helper] = [0, 7].map(|level| {
            let (client, task) = scene.client(root);
            let priority = Priority::new(PriorityClass::BestEffort, level).expect("a level");
            let change = Change::SetPriority { client, priority };
            scene.engine.reconfigure(Instant::ZERO, change).expect("a live client");
            task
        });
        // The stream is known to think long, and then goes on each time its helper is done.
        let mut ms = 0;
        for _ in 0..6 {
            ms = scene.serve(ms + 20, stream);
        }
        scene.tune(meanwhile);
        for _ in 0..6 {
            ms = scene.serve(ms + 1, helper);
            ms = scene.serve(ms + 1, stream);
        }
        ms = scene.serve(ms + 1, helper);
        // Three times in a row make a waker, and that is the first of them, or none if no request came when it was done.
        scene.tune("slice_idle=8");
        for _ in 0..3 {
            ms = scene.serve(ms + 1, stream);
            ms = scene.serve(ms + 1, helper);
        }
        let injected = scene.engine.bfq_stats().injections[Injection::Waker.index()];
        assert_eq!(injected > 0, wakes, "{meanwhile}: {injected}");
    }
}

#[test]
fn idling_for_a_lone_flow_sets_no_timer() {
    let mut scene = Scene::new(true, 1);
    let (one, other) = (scene.task(), scene.task());
    scene.read(one, 0);
    assert_eq!(scene.dispatch(), Some(one));
    scene.now = Instant::from_millis(1);
    scene.complete();
    assert_eq!(scene.dispatch(), None);
    assert_eq!(scene.engine.poll_timeout(), None, "it is waited for, and nobody waits");
    scene.now = Instant::from_millis(2);
    scene.read(other, 1 << 30);
    assert_eq!(scene.dispatch(), None, "it is waited for");
    assert_eq!(scene.engine.poll_timeout(), Some(Instant::from_millis(9)), "8 ms from its last");
    scene.at(9);
    assert_eq!(scene.dispatch(), Some(other));
    scene.now = Instant::from_millis(10);
    scene.complete();
    // That wait has ended when the next one comes, though no timer was set for it.
    scene.now = Instant::from_millis(100);
    scene.read(one, 0);
    assert_eq!(scene.dispatch(), Some(one));
    let expirations = scene.engine.bfq_stats().expirations;
    assert_eq!(expirations[Expiration::TooIdle.index()], 2);
}

/// On platters the device is kept for a flow that returns at once for a millisecond, but never for longer than is set.
#[test]
fn idling_ends_at_the_set_time() {
    let mut scene = Scene::new(true, 1);
    scene.tune("slice_idle_us=100");
    let [stream, other] = [(); 2].map(|()| scene.task());
    for number in 0..20 {
        scene.serve_one(stream, number * u64::from(BLOCK));
    }
    scene.read(other, 1 << 40);
    let due = scene.engine.poll_timeout().expect("the device is kept");
    assert!(due <= scene.now.plus_nanos(100_000), "{due:?}");
}

#[test]
fn late_returns_end_idling_within_a_second() {
    // Its share depends on it, but it thinks for longer than the device is kept free. The other one always has more.
    let mut scene = Scene::new(true, 32);
    let [thinker, greedy] = ["a", "b"].map(|name| {
        let cgroup = scene.cgroup(name, 100);
        scene.client(cgroup).1
    });
    let far = |number: u64| (number * 7919 % 4096) << 28;
    (0..4).for_each(|number| scene.read(greedy, far(number)));
    let idled_ms = |scene: &Scene| {
        scene.engine.bfq_stats().idling_ns[IdlingCause::Guarantees.index()] / 1_000_000
    };
    let (mut number, mut returns, mut first_ms) = (4, Some(0), 0);
    let mut thought = 0;
    for ms in 0..5_000 {
        scene.at(ms);
        if ms == 1_000 {
            first_ms = idled_ms(&scene);
        }
        if returns.take_if(|at| *at == ms).is_some() {
            scene.read(thinker, far(number));
            (number, thought) = (number + 1, thought + 1);
        }
        if ms % 3 == 0 && !scene.out.is_empty() {
            let task = scene.out[0].1.task;
            scene.complete();
            if task == thinker {
                returns = Some(ms + 30);
            } else {
                scene.read(greedy, far(number));
                number += 1;
            }
        }
        while scene.dispatch().is_some() {}
    }
    let others_ms = idled_ms(&scene) - first_ms;
    assert!((24..=40).contains(&first_ms), "{first_ms} ms of the first second");
    assert!((8..=32).contains(&others_ms), "{others_ms} ms of four more: it is tried now and then");
    assert!(thought > 30, "{thought} reads: it is served in its turn");
}

#[test]
fn a_flow_that_flushes_does_not_merge() {
    // Two that write side by side, as copies of a database do.
    for flushes in [false, true] {
        let mut scene = Scene::new(true, 1);
        let tasks = [(); 2].map(|()| scene.task());
        for round in 0..4 {
            for (task, place) in tasks.into_iter().zip([0, 1]) {
                let offset = (2 * round + place) * u64::from(BLOCK);
                let write = Request::new(task, Op::Write, Extent::new(offset, BLOCK), 0);
                let flush = Request::new(task, Op::Flush, Extent::new(0, 0), 0);
                for request in [write, flush].into_iter().take(if flushes { 2 } else { 1 }) {
                    scene.engine.submit(scene.now, request).expect("room");
                }
            }
            scene.at(200 * (round + 1));
            while scene.dispatch().is_some() {
                scene.complete();
                scene.at(200 * (round + 1) + 100);
            }
        }
        let merges = scene.engine.bfq_stats().merging.cooperations;
        assert_eq!(merges > 0, !flushes, "{merges} merges, flushes: {flushes}");
    }
}

#[test]
fn a_raised_flow_preempts_if_its_cgroup_is_due_and_weighs_as_much() {
    for (weight, comes_first) in [(100, true), (99, false), (101, true)] {
        let mut scene = Scene::new(true, 1);
        scene.tune("low_latency=1");
        let [app, others] =
            [("app", weight), ("others", 100)].map(|(name, weight)| scene.cgroup(name, weight));
        let change = Change::SetLowLatency { cgroup: others, low_latency: Some(LowLatency::Never) };
        scene.engine.reconfigure(scene.now, change).expect("a live cgroup");
        let [start, stream] = [app, others].map(|cgroup| scene.client(cgroup).1);
        for block in 0..32 {
            scene.read(stream, (1 << 40) + block * u64::from(BLOCK));
        }
        assert_eq!(scene.dispatch(), Some(stream));
        scene.at(1).read(start, 0);
        scene.complete();
        let expected = if comes_first { start } else { stream };
        assert_eq!(scene.dispatch(), Some(expected), "weight {weight}");
    }
}
