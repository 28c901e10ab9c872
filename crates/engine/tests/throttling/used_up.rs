//! Limits are used up, and not exceeded, while requests wait for them.
//!
//! A plain model of one limit: what has been paid to it, less what it has earned. Over every interval in which something
//! waits for it, that falls by no more than one instalment; over every interval at all it rises by no more than a burst.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use proptest::prelude::*;
use weir_engine::settings::Prices;
use weir_engine::{
    Change, Direction, Instant, LimiterKind, Limits, Op, PerDimension, RequestId, TaskId, Weight,
};

use super::cases;
use super::world::{LIMITERS, World};

/// So many times something happens, at most.
const TURNS: u32 = 1_500;

const SECOND: i128 = 1_000_000_000;

/// Which requests a limit counts, and what of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counts {
    key: &'static str,
    /// `None` is both.
    direction: Option<Direction>,
    ios: bool,
}

const KEYS: [Counts; 6] = [
    Counts { key: "rbps", direction: Some(Direction::Read), ios: false },
    Counts { key: "wbps", direction: Some(Direction::Write), ios: false },
    Counts { key: "rwbps", direction: None, ios: false },
    Counts { key: "riops", direction: Some(Direction::Read), ios: true },
    Counts { key: "wiops", direction: Some(Direction::Write), ios: true },
    Counts { key: "rwiops", direction: None, ios: true },
];

impl Counts {
    fn takes(self, direction: Direction) -> bool {
        self.direction.is_none_or(|only| only == direction)
    }
}

#[derive(Clone, Debug)]
struct Client {
    /// Which of the cgroups.
    at: usize,
    depth: u32,
    /// Sizes of its requests, one after the other, in blocks of 512 bytes.
    blocks: Vec<u32>,
    /// Whether the first is a write, and whether they alternate.
    writes: bool,
    mixes: bool,
    zeroes: bool,
    think_us: u64,
    from_us: u64,
}

#[derive(Clone, Debug)]
struct Scene {
    limiter: LimiterKind,
    counts: Counts,
    /// A second, or of 4 KiB each where they are I/Os by size.
    per_second: u64,
    burst: Option<u64>,
    by_size: bool,
    /// The limit that holds is that of `/0/1/…` so deep; of those above and below, by how much they are looser, in percent.
    depth: usize,
    looser: [Option<u64>; 3],
    weights: [u64; 3],
    clients: Vec<Client>,
}

/// Cgroups in which clients are: in the limited one, in a child and a grandchild of it.
fn path(scene: &Scene, at: usize) -> String {
    let limited: String = (0..=scene.depth).map(|level| format!("/{level}")).collect();
    limited + ["", "/x", "/y/z"][at]
}

/// What is paid to one limit, and what it has earned.
struct Meter {
    /// In 1e-9 units: paid less earned.
    level: i128,
    at: Instant,
    /// The least that it ever was, just before a payment.
    least: i128,
    /// While something waits: the most that it was since.
    most: Option<i128>,
}

impl Meter {
    fn pass(&mut self, now: Instant, per_second: u64) {
        self.level -= i128::from(per_second) * i128::from(now.nanos_since(self.at));
        self.at = now;
        self.least = self.least.min(self.level);
    }
}

struct Run {
    world: World,
    unit: u64,
    tasks: Vec<TaskId>,
    /// Tag to client; what is inside, and what each owes.
    inside: BTreeMap<u64, (usize, Direction, RequestId, [u64; 2])>,
    calendar: BTreeSet<(Instant, u64, usize)>,
    count: Vec<usize>,
}

impl Run {
    fn new(scene: &Scene) -> Run {
        let prices = Prices {
            iops_size: scene.by_size.then_some(NonZeroU32::new(4096).unwrap()),
            ..Prices::default()
        };
        let mut world = World::new(prices);
        let limited = path(scene, 0);
        let above = if scene.depth > 0 { "/0" } else { "" };
        let below = [format!("{limited}/x"), format!("{limited}/y")];
        let places = [above.to_owned(), below[0].clone(), below[1].clone()];
        for (place, looser) in places.iter().zip(scene.looser) {
            if let Some(percent) = looser.filter(|_| !place.is_empty()) {
                let rate = scene.per_second + scene.per_second * percent / 100 + 1;
                set(
                    &mut world,
                    place,
                    scene.limiter,
                    &format!("{}={rate}", scene.counts.key),
                    None,
                );
            }
        }
        let max = format!("{}={}", scene.counts.key, scene.per_second);
        set(&mut world, &limited, scene.limiter, &max, scene.burst);
        for (place, weight) in [&limited, &below[0], &below[1]].into_iter().zip(scene.weights) {
            let cgroup = world.cgroup(place);
            world.change(Change::SetWeight { cgroup, weight: Weight::new(weight).unwrap() });
        }
        let tasks: Vec<TaskId> =
            scene.clients.iter().map(|client| world.task(&path(scene, client.at))).collect();
        let mut calendar = BTreeSet::new();
        for (index, client) in scene.clients.iter().enumerate() {
            for _ in 0..client.depth {
                let at = Instant::from_nanos(client.from_us * 1000);
                calendar.insert((at, calendar.len() as u64, index));
            }
        }
        let unit = if scene.by_size { 4096 } else { 1 };
        let count = vec![0; tasks.len()];
        Run { world, unit, tasks, inside: BTreeMap::new(), calendar, count }
    }

    /// Lets clients whose time has come ask.
    fn submit_due(&mut self, scene: &Scene) {
        let now = self.world.now;
        while let Some(&due) = self.calendar.first().filter(|due| due.0 <= now) {
            self.calendar.remove(&due);
            let index = due.2;
            let client = &scene.clients[index];
            let count = self.count[index];
            self.count[index] += 1;
            let len = client.blocks[count % client.blocks.len()] * 512;
            let writes = client.writes != (client.mixes && count % 2 == 1);
            let op = match (writes, client.zeroes) {
                (false, _) => Op::Read,
                (true, false) => Op::Write,
                (true, true) => Op::WriteZeroes,
            };
            // Every 4 KiB of it count as one I/O, fractions included, but one at least.
            let ios = if scene.by_size { u64::from(len).max(4096) } else { 1 };
            let (id, tag) = self.world.ask(self.tasks[index], op, len);
            self.inside.insert(tag, (index, op.direction(), id, [u64::from(len), ios]));
        }
    }

    /// What has been paid since it was asked last, of what `counts`; those that are answered ask again in their time.
    fn paid(&mut self, scene: &Scene) -> u64 {
        let mut paid = 0;
        let mut answered = Vec::new();
        for (&tag, (index, direction, id, owed)) in &mut self.inside {
            let left = self.world.engine.owed(*id);
            let left = left.map_or([0, 0], |left| [left.bytes as u64, left.io_units as u64]);
            if scene.counts.takes(*direction) {
                let kind = usize::from(scene.counts.ios);
                paid += owed[kind] - left[kind];
            }
            *owed = left;
            if left == [0, 0] {
                answered.push((tag, *index, scene.counts.takes(*direction)));
            }
        }
        for (tag, index, counted) in answered {
            self.inside.remove(&tag);
            // What no limit counts would ask for ever within one instant.
            let think_us = scene.clients[index].think_us.max(if counted { 0 } else { 5_000 });
            let at = self.world.now.plus_nanos(think_us * 1000);
            self.calendar.insert((at, tag + (1 << 32), index));
        }
        paid
    }

    /// Whether anything waits for a limit that counts it.
    fn waits(&self, scene: &Scene) -> bool {
        self.inside.values().any(|inside| scene.counts.takes(inside.1))
    }
}

fn set(world: &mut World, path: &str, limiter: LimiterKind, max: &str, burst: Option<u64>) {
    let cgroup = world.cgroup(path);
    let parse = |text: &str| weir_text::parse_io_max(text, PerDimension::NONE).expect(text);
    let key = max.split('=').next().expect("a key");
    let has_burst = limiter != LimiterKind::Leaky;
    let burst = burst.filter(|_| has_burst).map(|burst| parse(&format!("{key}={burst}")));
    let limits = Limits {
        max: parse(max),
        burst: burst.unwrap_or(PerDimension::NONE),
        limiter,
        ..Limits::default()
    };
    world.change(Change::SetLimits { cgroup, limits });
}

/// The amounts of one limit that the manual promises.
struct Promised {
    instalment: u64,
    most: u64,
}

fn promised(scene: &Scene, unit: u64) -> Promised {
    let rate = scene.per_second * if scene.counts.ios { unit } else { 1 };
    let of = |nanos: u64| (u128::from(rate) * u128::from(nanos) / 1_000_000_000) as u64;
    let request = if scene.counts.ios { unit } else { 4096 };
    let (five, one) = (of(5_000_000), of(1_000_000));
    let whole = match (scene.counts.ios, unit) {
        (false, _) => five.min(one.max(1 << 20)).max(4096),
        (true, 1) => 1,
        (true, _) => one.max(unit),
    };
    let asked = scene.burst.filter(|_| scene.limiter != LimiterKind::Leaky);
    let more = if scene.counts.ios { 0 } else { whole };
    let default = (4 * request).min(of(500_000_000)).max(of(10_000_000) + more).max(request);
    let burst = match scene.limiter {
        // The lateness of a timer, or what waited for another limit, and the next.
        LimiterKind::Leaky => of(10_000_000).max(whole) + whole,
        _ => asked.map_or(default, |burst| burst * if scene.counts.ios { unit } else { 1 }),
    };
    // Large requests may use what nothing went in for a tenth of a second.
    let largest =
        scene.clients.iter().flat_map(|client| &client.blocks).max().copied().unwrap_or(0);
    let largest = match (scene.counts.ios, scene.by_size) {
        (true, false) => 1,
        _ => u64::from(largest) * 512,
    };
    let savings =
        if scene.limiter == LimiterKind::Leaky { 0 } else { of(100_000_000).min(largest) };
    Promised { instalment: whole, most: burst.max(whole).max(savings) }
}

fn check(scene: &Scene) -> Result<(), TestCaseError> {
    let mut run = Run::new(scene);
    let promised = promised(scene, run.unit);
    let rate = scene.per_second * if scene.counts.ios { run.unit } else { 1 };
    let mut meter = Meter { level: 0, at: Instant::ZERO, least: 0, most: None };
    // A nanosecond's worth is lost or gained by rounding at each limit of the path.
    let slack = i128::from(rate) * 4;
    let seconds = 3;
    // Each limit of a path can keep one instalment from those beside it.
    let looser = scene.looser.iter().flatten().count() as i128;
    let limits = 1 + looser;
    // A leaky bucket has no burst: what leaks while its head waits for another limit is lost beyond an instalment, so where
    // limits of a path are nearly alike, less than either passes.
    let is_used_up = scene.limiter != LimiterKind::Leaky || looser == 0;
    for _ in 0..TURNS {
        if run.world.now >= Instant::from_millis(seconds * 1000) {
            break;
        }
        let next = run.calendar.first().map(|due| due.0).into_iter();
        let Some(at) = next.chain(run.world.engine.poll_timeout()).min() else { break };
        run.world.now = at.max(run.world.now);
        meter.pass(run.world.now, rate);
        if let Some(most) = meter.most.filter(|_| is_used_up) {
            let missing = most - meter.level;
            prop_assert!(
                missing <= i128::from(promised.instalment) * limits * SECOND + slack,
                "at {:?}: {} too little while something waits, of instalments of {}",
                run.world.now,
                missing / SECOND,
                promised.instalment
            );
        }
        run.submit_due(scene);
        run.world.turn_only();
        meter.level += i128::from(run.paid(scene)) * SECOND;
        let above = meter.level - meter.least;
        prop_assert!(
            above <= i128::from(promised.most + 1) * SECOND + slack,
            "at {:?}: {} at once, of at most {}",
            run.world.now,
            above / SECOND,
            promised.most
        );
        meter.most = match run.waits(scene) {
            true => Some(meter.most.unwrap_or(meter.level).max(meter.level)),
            false => None,
        };
    }
    Ok(())
}

fn client() -> impl Strategy<Value = Client> {
    let blocks = prop_oneof![
        3 => Just(8u32),
        2 => Just(128),
        1 => Just(2048),
        1 => Just(16_384),
        3 => 1..600u32,
        1 => Just(1),
    ];
    (
        0..3usize,
        1..5u32,
        prop::collection::vec(blocks, 1..4),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        prop_oneof![Just(0u64), 0..1_000u64, 0..50_000u64, 0..500_000u64],
        prop_oneof![Just(0u64), 0..2_000_000u64],
    )
        .prop_map(|(at, depth, blocks, (writes, mixes, zeroes), think_us, from_us)| Client {
            at,
            depth,
            blocks,
            writes,
            mixes,
            zeroes,
            think_us,
            from_us,
        })
}

fn scene() -> impl Strategy<Value = Scene> {
    let bytes = prop_oneof![4096..100_000u64, 100_000..20_000_000u64, 20_000_000..5_000_000_000u64];
    let ios = prop_oneof![1..50u64, 50..1_000u64];
    let looser = || prop::option::weighted(0.3, 0..200u64);
    (
        prop::sample::select(&LIMITERS[..]),
        prop::sample::select(&KEYS[..]),
        (bytes, ios, prop::option::weighted(0.4, 0..5_000u64), prop::bool::weighted(0.3)),
        (0..3usize, [looser(), looser(), looser()], [1..=1000u64, 1..=1000u64, 1..=1000u64]),
        prop::collection::vec(client(), 1..5),
    )
        .prop_map(
            |(limiter, counts, (bytes, ios, burst, by_size), (depth, looser, weights), clients)| {
                let per_second = if counts.ios { ios } else { bytes };
                // From a request on, in thousandths of what a second earns.
                let least = if counts.ios { 1 } else { 4096 };
                let burst = burst.map(|thousandths| least + per_second * thousandths / 1000);
                Scene {
                    limiter,
                    counts,
                    per_second,
                    burst,
                    by_size,
                    depth,
                    looser,
                    weights,
                    clients,
                }
            },
        )
}

#[test]
fn while_anything_waits_a_limit_is_used_up_and_never_exceeded() {
    let test = "while_anything_waits_a_limit_is_used_up_and_never_exceeded";
    cases::run(test, 1_000, scene(), |scene| check(&scene));
}
