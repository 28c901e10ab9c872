//! Low latency of `scheduler = "bfq"` from outside: clients that begin beside streams, and what that costs the streams.

use proptest::prelude::*;
use weir_engine::settings::{BfqSettings, LowLatency};
use weir_engine::{
    CgroupId, Change, ClientId, Config, Dispatch, Engine, Extent, Instant, Op, Outcome, Request,
    SchedulerKind, TaskId, Ticket,
};

use crate::support::{self, KIB, MS, settings_of};

fn bfq_with(bfq: BfqSettings) -> Engine {
    support::engine(Config { bfq, ..support::config(SchedulerKind::Bfq, 1) })
}

fn settings(low_latency: bool) -> BfqSettings {
    let text = if low_latency { "low_latency=1" } else { "low_latency=0" };
    settings_of(BfqSettings::DEFAULT, text)
}

/// Each stays for itself.
fn unmerged(low_latency: bool) -> BfqSettings {
    settings_of(settings(low_latency), "stable=off merge_window=off")
}

/// One task of a client: asks, waits for the answer, thinks, asks again.
struct Actor {
    task: TaskId,
    /// Where it reads next, and how far from one request to the next.
    at: u64,
    step: u64,
    len: u32,
    think_ns: u64,
    /// Requests still to come, those that came, and those that were answered.
    left: u32,
    asked: u32,
    answered: u32,
    /// Requests it has under way at once.
    deep: u32,
    /// When it asks next.
    wake: Option<Instant>,
    bytes: u64,
    /// From asking to the answer, of each request.
    latencies_ns: Vec<u64>,
    since: Instant,
    ended: Instant,
}

/// A disk that takes one request at a time: 64 MiB/s, and 8 ms to get anywhere else.
struct World {
    engine: Engine,
    now: Instant,
    head: u64,
    at_disk: Option<(Instant, Ticket, usize)>,
    actors: Vec<Actor>,
    /// Clients that had the disk, and until when, in order.
    turns: Vec<(usize, Instant)>,
    steps: u32,
}

impl World {
    fn new(low_latency: bool) -> World {
        World {
            engine: bfq_with(unmerged(low_latency)),
            now: Instant::ZERO,
            head: 0,
            at_disk: None,
            actors: Vec::new(),
            turns: Vec::new(),
            steps: 0,
        }
    }

    fn client(&mut self, cgroup: CgroupId) -> (ClientId, TaskId) {
        support::client(&mut self.engine, cgroup)
    }

    /// A new client in the root, which begins at `from` ms.
    fn join(&mut self, from: u64, len: u32, step: u64, think_ns: u64, left: u32) -> usize {
        let root = self.engine.root();
        let (_, task) = self.client(root);
        self.join_as(task, from, len, step, think_ns, left)
    }

    fn join_as(
        &mut self,
        task: TaskId,
        from: u64,
        len: u32,
        step: u64,
        think_ns: u64,
        left: u32,
    ) -> usize {
        let wake = Some(Instant::from_millis(from));
        self.actors.push(Actor {
            task,
            at: (self.actors.len() as u64 + 1) << 40,
            step,
            len,
            think_ns,
            left,
            asked: 0,
            answered: 0,
            deep: 1,
            wake,
            bytes: 0,
            latencies_ns: Vec::new(),
            since: Instant::ZERO,
            ended: Instant::ZERO,
        });
        self.actors.len() - 1
    }

    /// Sequential readers that never think and never end, four requests deep.
    fn streams(&mut self, count: usize) -> Vec<usize> {
        let streams = (0..count).map(|_| {
            // Half a second apart: at once they would be a burst.
            let from = 500 * self.actors.len() as u64;
            let stream = self.join(from, 64 * KIB, 64 << 10, 0, u32::MAX);
            self.actors[stream].deep = 4;
            stream
        });
        streams.collect()
    }

    /// Until `until` ms.
    fn run(&mut self, until: u64) {
        let until = Instant::from_millis(until);
        loop {
            let wakes = self.actors.iter().filter_map(|actor| actor.wake);
            let disk = self.at_disk.as_ref().map(|&(at, ..)| at);
            let next = wakes.chain(disk).chain(self.engine.poll_timeout()).min();
            let Some(next) = next.filter(|&next| next <= until) else { break };
            self.now = self.now.max(next);
            self.step();
        }
        self.now = until;
    }

    fn step(&mut self) {
        let now = self.now;
        if let Some((_, ticket, actor)) = self.at_disk.take_if(|(at, ..)| *at <= now) {
            self.engine.complete(now, ticket, Outcome::Done);
            self.turns.push((actor, now));
            let actor = &mut self.actors[actor];
            actor.bytes += u64::from(actor.len);
            actor.answered += 1;
            actor.latencies_ns.push(now.nanos_since(actor.since));
            actor.ended = now;
            actor.wake = (actor.left > 0).then(|| now.plus_nanos(actor.think_ns));
        }
        for actor in &mut self.actors {
            if actor.wake.take_if(|at| *at <= now).is_none() {
                continue;
            }
            actor.since = now;
            let first = actor.bytes == 0;
            for _ in 0..if first { actor.deep } else { 1 } {
                let extent = Extent::new(actor.at, actor.len);
                actor.at += actor.step;
                actor.left -= 1;
                actor.asked += 1;
                let request = Request::new(actor.task, Op::Read, extent, 0);
                self.engine.submit(now, request).expect("room");
            }
        }
        self.engine.handle_timeout(now);
        if self.at_disk.is_none()
            && let Some(Dispatch { ticket, request, .. }) = self.engine.poll_dispatch(now)
        {
            let Extent { offset, len } = request.extent;
            let seek_ns = if offset == self.head { 0 } else { 8 * MS };
            let busy_ns = seek_ns + u64::from(len) * 1_000_000_000 / (64 << 20);
            self.head = offset + u64::from(len);
            let actor = self.actors.iter().position(|actor| actor.task == request.task);
            let actor = actor.expect("one of the actors");
            self.at_disk = Some((now.plus_nanos(busy_ns), ticket, actor));
        }
        self.steps += 1;
        if self.steps.is_multiple_of(997)
            && let Err(broken) = self.engine.check()
        {
            panic!("at {now:?}: {broken}");
        }
    }

    fn raised(&self) -> u32 {
        self.engine.bfq_stats().raised_now
    }

    /// How often a weight was raised.
    fn raisings(&self) -> u64 {
        self.engine.bfq_stats().raisings.iter().sum()
    }

    /// How long the start of an application of `count` pieces took, in ms.
    fn start_ms(&mut self, application: usize, from: u64) -> u64 {
        for until in (from..from + 60_000).step_by(100) {
            self.run(until);
            let actor = &self.actors[application];
            if actor.left == 0 && actor.answered == actor.asked {
                return actor.ended.nanos_since(Instant::from_millis(from)) / MS;
            }
        }
        panic!("it did not even end");
    }
}

/// An application of 200 pieces from all over the disk that begins after 20 s, beside so many streams.
fn start(streams: usize, low_latency: bool, policy: Option<LowLatency>) -> (u64, World) {
    let mut world = World::new(low_latency);
    world.streams(streams);
    let root = world.engine.root();
    let (client, task) = world.client(root);
    let change = Change::SetClientLowLatency { client, low_latency: policy };
    world.engine.reconfigure(Instant::ZERO, change).expect("a live client");
    let application = world.join_as(task, 20_000, 16 * KIB, 700 << 20, MS / 2, 200);
    let took = world.start_ms(application, 20_000);
    (took, world)
}

#[test]
fn an_application_starts_beside_streams_as_if_alone() {
    let (alone, _) = start(0, true, None);
    let (beside, mut world) = start(5, true, None);
    let (patient, _) = start(5, false, None);
    assert!(beside * 100 <= alone * 110, "{beside} ms beside streams, {alone} ms alone");
    assert!(patient > 3 * alone, "{patient} ms without low latency, {alone} ms alone");
    // The first request waits for the one at the disk, and for no slot to end.
    let first = world.actors[5].latencies_ns[0];
    assert!(first < 20 * MS, "{first} ns for the first request");
    world.run(60_000);
    assert_eq!(world.raised(), 0, "once it has begun, it is one of many");
}

/// Blocks of 64 KiB that five streams, so many requests deep, have between two pieces of an application that begins at
/// `from_ms`.
fn visits_beside_a_start(deep: u32, from_ms: u64) -> Vec<usize> {
    let mut world = World::new(true);
    for stream in world.streams(5) {
        world.actors[stream].deep = deep;
    }
    let application = world.join(from_ms, 64 * KIB, 700 << 20, MS / 2, 600);
    world.start_ms(application, from_ms);
    let from = Instant::from_millis(from_ms);
    let turns = world.turns.iter().filter(|(_, at)| *at > from).map(|&(who, _)| who);
    let turns: Vec<usize> = turns.collect();
    let visits: Vec<usize> = turns.split(|&who| who == application).map(<[usize]>::len).collect();
    // The first is what was at the disk when it began, the last what came after it.
    assert!(visits[0] <= 1, "{} blocks before the first piece", visits[0]);
    visits[1..600].iter().copied().filter(|&blocks| blocks > 0).collect()
}

#[test]
fn other_flows_get_rare_and_long_slots_beside_a_start() {
    // A client with one request at a time has none left when a least slot is over, and is not back sooner for that.
    for (deep, moment) in [4, 1].into_iter().flat_map(|deep| (0..8).map(move |at| (deep, at))) {
        let visits = visits_beside_a_start(deep, 20_000 + 100 * moment);
        // Beside 600 blocks 600 / 60 × 5 are theirs: in 50 goes, if it were one at a time. A visit is 20 ms, of which 8
        // are the way.
        let told = || format!("{visits:?}, {deep} deep, moment {moment}");
        assert!((3..=5).contains(&visits.len()), "{}", told());
        assert!(visits.iter().all(|blocks| (10..=16).contains(blocks)), "{}", told());
    }
}

#[test]
fn low_latency_never_prevents_raising() {
    let (auto, world) = start(5, true, Some(LowLatency::Auto));
    assert_eq!(world.raisings(), 6);
    let (never, world) = start(5, true, Some(LowLatency::Never));
    assert_eq!(world.raisings(), 5, "the streams only");
    let (off, world) = start(5, false, None);
    assert_eq!(world.raisings(), 0);
    assert!(never > 3 * auto, "{never} ms never raised, {auto} ms raised");
    assert!(never.abs_diff(off) * 20 < off, "{never} ms never raised, {off} ms all off");
}

#[test]
fn low_latency_of_a_cgroup_holds_below_it() {
    let mut world = World::new(true);
    let root = world.engine.root();
    let above = world.engine.create_cgroup(root, "above").expect("a name of its own");
    let below = world.engine.create_cgroup(above, "below").expect("a name of its own");
    let (_, task) = world.client(below);
    world.join_as(task, 0, 4 * KIB, 1 << 30, MS, 3_000);
    world.run(100);
    assert_eq!(world.raised(), 1, "a new client, alone");
    let set = |world: &mut World, cgroup, low_latency| {
        let change = Change::SetLowLatency { cgroup, low_latency };
        world.engine.reconfigure(world.now, change).expect("a live cgroup");
        assert_eq!(world.engine.low_latency(cgroup), low_latency);
        world.engine.check().expect("a sound engine");
        world.raised()
    };
    // At once, and not again before it was away for a while.
    assert_eq!(set(&mut world, above, Some(LowLatency::Never)), 0);
    let (_, task) = world.client(below);
    world.join_as(task, 150, 4 * KIB, 1 << 30, MS, 3_000);
    world.run(200);
    assert_eq!(world.raised(), 0);
    // What is set nearer is stronger.
    assert_eq!(set(&mut world, below, Some(LowLatency::Auto)), 0);
    let (_, task) = world.client(below);
    world.join_as(task, 1_250, 4 * KIB, 1 << 30, MS, 3_000);
    world.run(1_300);
    assert_eq!(world.raised(), 1);
    // For the whole device.
    let change = Change::SetBfq(unmerged(false));
    world.engine.reconfigure(world.now, change).expect("a setting");
    world.engine.check().expect("a sound engine");
    assert_eq!(world.raised(), 0, "all raising ends at once");
}

#[test]
fn low_latency_of_a_cgroup_holds_for_moved_cgroups() {
    let mut world = World::new(true);
    let root = world.engine.root();
    let [application, quiet] = ["application", "quiet"]
        .map(|name| world.engine.create_cgroup(root, name).expect("a name of its own"));
    let low_latency = Some(LowLatency::Never);
    let change = Change::SetLowLatency { cgroup: quiet, low_latency };
    world.engine.reconfigure(world.now, change).expect("a live cgroup");
    let (_, task) = world.client(application);
    world.join_as(task, 0, 4 * KIB, 1 << 30, MS, 3_000);
    world.run(100);
    assert_eq!(world.raised(), 1, "a new client, alone");
    // At once, and no flow is raised again because it may be where it comes to.
    for parent in [quiet, root] {
        let change = Change::Move { cgroup: application, parent };
        world.engine.reconfigure(world.now, change).expect("live cgroups");
        world.engine.check().expect("a sound engine");
        assert_eq!(world.raised(), 0);
    }
}

#[test]
fn a_burst_of_new_flows_is_not_raised() {
    // Nine, 100 ms apart, of which each reads for a second: with the eighth, all of them turn out to be one of many.
    for (policy, raisings) in [(LowLatency::Auto, 7), (LowLatency::Interactive, 9)] {
        let mut world = World::new(true);
        let change =
            Change::SetLowLatency { cgroup: world.engine.root(), low_latency: Some(policy) };
        world.engine.reconfigure(Instant::ZERO, change).expect("the root");
        for number in 0..9 {
            // Nothing of each other's, so that none waits for another, and 700 ms later they still ask.
            world.join(number * 100, 4 * KIB, 0, 3 * MS, 500);
        }
        world.run(650);
        assert_eq!(world.raisings(), 7, "they are not known to be many yet");
        world.run(1_000);
        assert_eq!(world.raisings(), raisings, "{policy:?}");
        assert_eq!(world.raised() > 0, policy == LowLatency::Interactive);
    }
}

#[test]
fn flows_that_began_with_a_stream_lose_their_raised_weight() {
    // A copy and a random reader: at once, or a second apart. Once the copy has read what no
    // application reads to start, the other has the disk for itself for the rest of ten seconds, or not.
    for (later_ms, policy, lasts) in [
        (0, LowLatency::Auto, false),
        (170, LowLatency::Auto, false),
        (1_000, LowLatency::Auto, true),
        (0, LowLatency::Interactive, true),
    ] {
        let mut world = World::new(true);
        let change =
            Change::SetLowLatency { cgroup: world.engine.root(), low_latency: Some(policy) };
        world.engine.reconfigure(Instant::ZERO, change).expect("the root");
        let copy = world.join(0, 64 * KIB, 64 << 10, 0, u32::MAX);
        let other = world.join(later_ms, 4 * KIB, 700 << 20, 0, u32::MAX);
        while world.actors[copy].bytes + (1 << 20) <= 120_000 * 512 {
            world.run(world.now.as_nanos() / MS + 10);
            assert!(world.now < Instant::from_millis(9_000), "the copy gets too little");
        }
        // It needs some milliseconds more, and the other a request.
        world.run(world.now.as_nanos() / MS + 500);
        let (from, before) = (world.now.as_nanos() / MS, world.actors[other].bytes);
        world.run(from + 1_000);
        assert_eq!(world.raised(), u32::from(lasts), "{later_ms} ms later, {policy:?}");
        let ios = (world.actors[other].bytes - before) / (4 << 10);
        assert_eq!(ios > 90, lasts, "{ios} reads in a second, {later_ms} ms later, {policy:?}");
    }
}

#[test]
fn a_soft_real_time_flow_is_served_in_time() {
    // 96 KiB ten times a second, after the ten seconds in which it is new.
    let play = |policy| {
        let mut world = World::new(true);
        world.streams(5);
        let root = world.engine.root();
        let (client, task) = world.client(root);
        let change = Change::SetClientLowLatency { client, low_latency: Some(policy) };
        world.engine.reconfigure(Instant::ZERO, change).expect("a live client");
        let player = world.join_as(task, 20_000, 96 * KIB, 96 << 10, 100 * MS, u32::MAX);
        world.run(45_000);
        let latencies = &mut world.actors[player].latencies_ns;
        let mut late = latencies.split_off(latencies.len() / 2);
        late.sort_unstable();
        (late[late.len() / 2], late[late.len() * 95 / 100])
    };
    let (raised, plain) = (play(LowLatency::Auto), play(LowLatency::Never));
    assert!(raised.1 < 40 * MS, "{raised:?} ns raised");
    assert!(plain.0 > 2 * raised.0, "{plain:?} ns plain, {raised:?} ns raised");
}

#[test]
fn raising_ends_with_its_service_limit() {
    // One that begins and then does not end: a copy.
    let mut world = World::new(true);
    let copy = world.join(0, 64 * KIB, 64 << 10, 0, u32::MAX);
    world.actors[copy].deep = 4;
    while world.raised() > 0 || world.actors[copy].bytes == 0 {
        world.run(world.now.as_nanos() / MS + 1);
        let served = world.actors[copy].bytes;
        assert!(served <= (120_000 * 512) + (256 << 10), "{served} bytes, and it is still raised");
    }
    let served = world.actors[copy].bytes;
    assert!(served + (512 << 10) >= 120_000 * 512, "{served} bytes, {:?}", world.now);
}

#[test]
fn no_slot_is_longer_because_of_raising() {
    // spec/bfq D-29: in the kernel, 125 ms times the factor. A budget of 512 KiB would last for 264 ms here.
    let mut world = World::new(true);
    let application = world.join(0, 16 * KIB, 700 << 20, 0, u32::MAX);
    world.actors[application].deep = 4;
    world.run(2_700);
    assert_eq!(world.raised(), 1);
    let slots = world.engine.bfq_stats().selections;
    assert!(slots >= 2_700 / 135, "{slots} slots in 2.7 s");
}

#[test]
fn raising_is_at_the_cost_of_siblings_only() {
    // Two cgroups of equal weight: a stream in one, a stream and one application after the other in the other. Billed by
    // bytes, the applications would have the disk for nothing.
    let mut world = World::new(true);
    let root = world.engine.root();
    let [quiet, busy] = ["quiet", "busy"].map(|name| {
        let cgroup = world.engine.create_cgroup(root, name).expect("a name of its own");
        let (_, task) = world.client(cgroup);
        let stream = world.join_as(task, 0, 64 * KIB, 64 << 10, 0, u32::MAX);
        world.actors[stream].deep = 4;
        cgroup
    });
    assert_ne!(quiet, busy);
    for number in 0..10 {
        let (_, task) = world.client(busy);
        world.join_as(task, 15_000 + 1_000 * number, 16 * KIB, 700 << 20, MS / 2, 120);
    }
    world.run(15_000);
    let from = world.turns.len();
    world.run(25_000);
    let (mut ns, mut before) = ([0, 0], world.turns[from - 1].1);
    for &(who, until) in &world.turns[from..] {
        ns[usize::from(who != 0)] += until.nanos_since(before);
        before = until;
    }
    let percent = ns[0] * 100 / (ns[0] + ns[1]);
    assert!((40..=60).contains(&percent), "the quiet cgroup has {percent} % of the time");
}

/// What can happen to an engine whose weights are raised.
#[derive(Clone, Debug)]
enum Step {
    Submit { task: usize, sync: bool, offset: u64, len: u32 },
    Dispatch,
    Complete,
    Wait { ms: u64 },
    Policy { client: usize, policy: Option<LowLatency> },
    Device { low_latency: bool },
    Open,
    Close { client: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..12_usize;
    let len = prop::sample::select(vec![4096, 128 << 10, 1 << 20, 40 << 20]);
    let policies = [None, Some(LowLatency::Auto), Some(LowLatency::Never)];
    let policies = policies.into_iter().chain([Some(LowLatency::Interactive)]);
    let policy = prop::sample::select(policies.collect::<Vec<_>>());
    // Also none at all, and as long as flows are new again after.
    let wait = prop::sample::select(vec![0, 0, 1, 7, 19, 50, 190, 400, 2_100, 11_000]);
    prop_oneof![
        8 => (client.clone(), prop::bool::weighted(0.9), 0..64_u64, len).prop_map(
            |(task, sync, offset, len)| Step::Submit { task, sync, offset: offset << 24, len }
        ),
        8 => Just(Step::Dispatch),
        8 => Just(Step::Complete),
        6 => wait.prop_map(|ms| Step::Wait { ms }),
        1 => (client.clone(), policy).prop_map(|(client, policy)| Step::Policy { client, policy }),
        1 => any::<bool>().prop_map(|low_latency| Step::Device { low_latency }),
        2 => Just(Step::Open),
        1 => client.prop_map(|client| Step::Close { client }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Levels, factors, periods and counts fit together after every call, whatever is done, also many things in one
    /// moment (spec/bfq 11.17 and 11.24); and all requests come out.
    #[test]
    fn raising_keeps_its_invariants_under_any_calls(steps in prop::collection::vec(step(), 1..200)) {
        let mut engine = bfq_with(settings(true));
        let root = engine.root();
        let mut now = Instant::ZERO;
        let mut clients: Vec<(ClientId, TaskId)> = Vec::new();
        let (mut out, mut inside): (Vec<Ticket>, u32) = (Vec::new(), 0);
        for step in steps {
            let text = format!("{step:?}");
            match step {
                Step::Submit { task, sync, offset, len } if !clients.is_empty() => {
                    let (_, task) = clients[task % clients.len()];
                    let op = if sync { Op::Read } else { Op::Write };
                    let request = Request::new(task, op, Extent::new(offset, len), 0);
                    inside += u32::from(engine.submit(now, Request { sync, ..request }).is_ok());
                }
                Step::Dispatch => out.extend(engine.poll_dispatch(now).map(|dispatch| dispatch.ticket)),
                Step::Complete if !out.is_empty() => {
                    engine.complete(now, out.remove(0), Outcome::Done);
                    inside -= 1;
                }
                Step::Wait { ms } => {
                    now = now.plus_nanos(ms * MS);
                    engine.handle_timeout(now);
                }
                Step::Policy { client, policy } if !clients.is_empty() => {
                    let (client, _) = clients[client % clients.len()];
                    let change = Change::SetClientLowLatency { client, low_latency: policy };
                    let _ = engine.reconfigure(now, change);
                }
                Step::Device { low_latency } => {
                    let change = Change::SetBfq(settings(low_latency));
                    engine.reconfigure(now, change).expect("a setting");
                }
                Step::Open => {
                    let client = engine.open_client(root).expect("the root");
                    clients.push((client, engine.open_task(client).expect("a live client")));
                }
                Step::Close { client } if !clients.is_empty() => {
                    let (client, task) = clients.remove(client % clients.len());
                    engine.close_task(task);
                    engine.close_client(client);
                }
                _ => {}
            }
            if let Err(broken) = engine.check() {
                panic!("after {text}: {broken}");
            }
        }
        for _ in 0..10_000 {
            if inside == 0 {
                break;
            }
            if let Some(dispatch) = engine.poll_dispatch(now) {
                out.push(dispatch.ticket);
            }
            for ticket in out.drain(..) {
                engine.complete(now, ticket, Outcome::Done);
                inside -= 1;
            }
            now = engine.poll_timeout().unwrap_or(now).max(now);
            engine.handle_timeout(now);
        }
        prop_assert_eq!(inside, 0);
        engine.check().expect("a sound engine");
    }
}
