//! Traffic with a purpose: clients that stream, share a stream, wake each other, think or flush, on a device that takes
//! its time, while settings change around them. Random calls alone seldom merge or inject, and never split.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use weir_engine::settings::{PrioClass, PriorityClass};
use weir_engine::{Extent, Instant, Op, Outcome, Request, SchedulerKind, TaskId};

use super::step::Step;
use super::world::World;

/// Length of a block.
const BLOCK: u32 = 64 << 10;

/// Begin of the stream of which each reader reads blocks of its own.
const STRIDDEN: u64 = 3 << 36;

/// How long a play lasts, in virtual time, and after how many completions it ends in any case.
const LASTS_US: u64 = 2_500_000;
const COMPLETIONS_MAX: u64 = 800;

/// A play: the device, the tree, the clients in it, and what happens to them.
#[derive(Clone, Debug)]
pub(crate) struct Play {
    rotational: bool,
    depth: u32,
    settings: &'static str,
    /// Parents, by number, and weights. The first cgroup is the root.
    cgroups: Vec<(usize, u64)>,
    cast: Vec<Actor>,
    acts: Vec<(u64, Act)>,
}

/// A client with one task, and what it does all the time.
#[derive(Clone, Debug)]
struct Actor {
    cgroup: usize,
    begins_us: u64,
    role: Role,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    /// A stream of its own, so many blocks at a time, the last one first if `turned`, and one of them later if `gapped`.
    Stream { op: Op, at_once: u64, turned: bool, gapped: bool },
    /// The next block of a stream that others read too; anywhere from its so manieth block on.
    Shared { stream: usize, at_once: u64, faithful: u64 },
    /// Of a stream every so manieth block, from this one on, and now and then a pause.
    Striding { place: u64, of: u64, pause_us: u64 },
    /// Anywhere, one at a time, after having thought.
    Seeker { think_us: u64 },
    /// Likewise, and leaves something behind to be written back.
    Lazy { think_us: u64 },
    /// Anywhere, so long after a request of the one before it in the cast is back; that one then goes on when this one's is.
    Follower { after_us: u64, answers: bool },
    /// Blocks in a row, flushed before it goes on.
    Journal { at_once: u64 },
    /// A frame each so often, whatever becomes of the last.
    Player { every_us: u64 },
}

/// What happens to all of them.
#[derive(Clone, Debug)]
enum Act {
    Step(Step),
    /// The next so many requests come back as errors.
    Fail(u32),
}

fn stream() -> impl Strategy<Value = Role> {
    (select(&[Op::Read, Op::Write][..]), 1..9_u64, any::<bool>(), any::<bool>())
        .prop_map(|(op, at_once, turned, gapped)| Role::Stream { op, at_once, turned, gapped })
}

/// Clients that belong together, and how much later than the first each begins.
fn troupe() -> impl Strategy<Value = Vec<(Role, u64)>> {
    let think = || select(&[0, 300, 6_000, 20_000][..]);
    let faithful = select(&[30, 60, u64::MAX][..]);
    let shared = (0..2_usize, 1..4_u64, faithful, 2..5_u64, select(&[100, 100, 110_000][..]));
    let pair = (select(&[12_000, 20_000][..]), select(&[200, 1_000][..]), any::<bool>());
    prop_oneof![
        2 => stream().prop_map(|role| vec![(role, 0)]),
        4 => shared.prop_map(|(stream, at_once, faithful, many, lag_us)| {
            (0..many).map(|number| (Role::Shared { stream, at_once, faithful }, number * lag_us)).collect()
        }),
        2 => (2..5_u64, select(&[150, 800, 3_000][..])).prop_map(|(of, pause_us)| {
            (0..of).map(|place| (Role::Striding { place, of, pause_us }, place * 100)).collect()
        }),
        2 => (think(), 1..4_u64).prop_map(|(think_us, many)| {
            (0..many).map(|number| (Role::Seeker { think_us }, number * 100)).collect()
        }),
        1 => think().prop_map(|think_us| vec![(Role::Lazy { think_us }, 0)]),
        2 => pair.prop_map(|(think_us, after_us, answers)| {
            vec![(Role::Seeker { think_us }, 0), (Role::Follower { after_us, answers }, 0)]
        }),
        1 => (1..5_u64).prop_map(|at_once| vec![(Role::Journal { at_once }, 0)]),
        1 => Just(vec![(Role::Player { every_us: 40_000 }, 0)]),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let number = || 0..64_usize;
    let classes = [PriorityClass::RealTime, PriorityClass::BestEffort, PriorityClass::Idle];
    let settings = ["", "slice_idle=0", "low_latency=0", "max_budget=64KiB", "merge_window=off"];
    let step = prop_oneof![
        2 => (number(), 1..10_001_u64).prop_map(|(cgroup, weight)| Step::Weigh { cgroup, weight }),
        4 => (number(), number()).prop_map(|(cgroup, parent)| Step::Move { cgroup, parent }),
        2 => number().prop_map(|cgroup| Step::Remove { cgroup }),
        1 => (1..9_u32).prop_map(|depth| Step::Depth { depth }),
        1 => (number(), select(classes.to_vec()), 0..8_u8)
            .prop_map(|(client, class, level)| Step::Priority { client, class, level }),
        1 => (number(), select(PrioClass::ALL.to_vec()))
            .prop_map(|(cgroup, prio_class)| Step::PrioClass { cgroup, prio_class }),
        3 => select(&[SchedulerKind::Bfq, SchedulerKind::None][..])
            .prop_map(|scheduler| Step::Switch { scheduler }),
        2 => select(settings.to_vec()).prop_map(|settings| Step::Tune { settings }),
        1 => number().prop_map(|client| Step::CloseClient { client }),
        2 => number().prop_map(|which| Step::Withdraw { which }),
    ];
    prop_oneof![8 => step.prop_map(Act::Step), 1 => (1..8_u32).prop_map(Act::Fail)]
}

/// Any play.
pub(crate) fn play() -> impl Strategy<Value = Play> {
    let settings = prop_oneof![
        2 => Just(""),
        1 => Just("low_latency=0"),
        3 => Just("low_latency=0 stable=intent"),
        1 => Just("low_latency=0 merge_window=unlimited"),
        1 => Just("low_latency=0 stable=kernel merge_rules=kernel"),
        1 => Just("strict_guarantees=1"),
    ];
    let begins = select(&[0, 0, 1_000, 150_000, 900_000][..]);
    let troupes = prop::collection::vec((troupe(), 0..4_usize, begins), 1..5);
    let cast = troupes.prop_map(|troupes| {
        let actors = troupes.into_iter().flat_map(|(roles, cgroup, begins_us)| {
            roles.into_iter().map(move |(role, later_us)| {
                // One that follows stands in a cgroup of its own: a wait for the other is for its share.
                let cgroup = cgroup + usize::from(matches!(role, Role::Follower { .. }));
                Actor { cgroup, begins_us: begins_us + later_us, role }
            })
        });
        actors.collect::<Vec<_>>()
    });
    let cgroups = prop::collection::vec((0..3_usize, select(&[100, 100, 300][..])), 2..5);
    let device = (prop::bool::weighted(0.7), select(&[1, 2, 4, 32][..]));
    // Many plays are over early: all is done that they may do.
    let at_us = || prop_oneof![0..300_000_u64, 0..LASTS_US];
    let acts = prop::collection::vec((at_us(), act()), 0..16);
    (device, settings, cgroups, cast, acts).prop_map(
        |((rotational, depth), settings, cgroups, cast, mut acts)| {
            acts.sort_by_key(|(at_us, _)| *at_us);
            Play { rotational, depth, settings, cgroups, cast, acts }
        },
    )
}

/// An actor at work.
struct Player {
    task: TaskId,
    role: Role,
    /// When it goes on by itself.
    due: Option<Instant>,
    /// Requests that are not back.
    outstanding: u64,
    /// Requests so far.
    asked: u64,
    /// Where a stream of its own goes on.
    at: u64,
    /// The next is a flush.
    flushes: bool,
}

struct Stage {
    world: World,
    players: Vec<Player>,
    /// Client of each request, by tag; none for writeback.
    whose: BTreeMap<u64, usize>,
    /// Where the streams go on that are shared.
    streams: [u64; 2],
    device: Device,
    failing: u32,
}

/// A disk that serves the nearest first, one after the other; or flash, which serves all at once.
struct Device {
    rotational: bool,
    head: u64,
    /// What it works at, and until when.
    serving: Vec<(Instant, u64)>,
}

impl Device {
    /// Takes up what came to it.
    fn work(&mut self, world: &World) {
        loop {
            let is_taken = |tag: u64| self.serving.iter().any(|&(_, other)| other == tag);
            let waiting = world.at_device().filter(|request| !is_taken(request.tag));
            let far = |request: &&Request| (request.extent.offset.abs_diff(self.head), request.tag);
            let Some(next) = waiting.min_by_key(far) else { return };
            if self.rotational && !self.serving.is_empty() {
                return;
            }
            let Extent { offset, len } = next.extent;
            let bytes_ns = u64::from(len) * if self.rotational { 8 } else { 2 };
            let way_ns = match self.rotational {
                true if offset.abs_diff(self.head) > 1 << 20 => {
                    3_000_000 + next.tag * 7919 % 5 * 1_000_000
                }
                _ => 60_000,
            };
            self.head = offset + u64::from(len);
            self.serving.push((world.now.plus_nanos(way_ns + bytes_ns), next.tag));
        }
    }

    fn next(&self) -> Option<Instant> {
        self.serving.iter().map(|&(at, _)| at).min()
    }

    fn poll(&mut self, now: Instant) -> Option<u64> {
        let at = self.serving.iter().position(|&(at, _)| at <= now)?;
        Some(self.serving.remove(at).1)
    }
}

/// Anywhere on a disk of a tebibyte.
fn anywhere(seed: u64) -> u64 {
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24 & !4095
}

impl Stage {
    fn new(play: &Play) -> Stage {
        let mut world = World::new(play.rotational, play.depth, None, play.settings);
        for &(parent, weight) in &play.cgroups {
            world.apply(&Step::Create { parent, weight });
        }
        let mut players = Vec::new();
        for (number, actor) in play.cast.iter().enumerate() {
            world.open(actor.cgroup, 1).expect("a cgroup that is there");
            let task = *world.tasks.last().expect("a task was opened");
            let due = match actor.role {
                Role::Follower { .. } => None,
                _ => Some(Instant::from_nanos(actor.begins_us * 1_000)),
            };
            let at = (number as u64 + 4) << 36;
            players.push(Player {
                task,
                role: actor.role,
                due,
                outstanding: 0,
                asked: 0,
                at,
                flushes: false,
            });
        }
        let device = Device { rotational: play.rotational, head: 0, serving: Vec::new() };
        let (whose, streams) = (BTreeMap::new(), [1 << 30, 2 << 36]);
        Stage { world, players, whose, streams, device, failing: 0 }
    }

    /// A player asks for what comes next.
    fn go_on(&mut self, who: usize) {
        let player = &mut self.players[who];
        player.due = None;
        let number = player.asked;
        let seed = (who as u64) << 32 | number;
        let block = |op, at: &mut u64| {
            let extent = Extent::new(*at, BLOCK);
            *at += u64::from(BLOCK);
            (op, extent)
        };
        let mut asks = Vec::new();
        match player.role {
            Role::Stream { op, at_once, turned, gapped } => {
                asks = (0..at_once).map(|_| block(op, &mut player.at)).collect();
                if turned {
                    asks.reverse();
                }
                if gapped && asks.len() > 2 {
                    let between = asks.remove(1);
                    asks.push(between);
                }
            }
            Role::Shared { stream, at_once, faithful } if number < faithful => {
                asks = (0..at_once).map(|_| block(Op::Read, &mut self.streams[stream])).collect();
            }
            Role::Striding { place, of, .. } => {
                let mut at = STRIDDEN + (number * of + place) * u64::from(BLOCK);
                asks.push(block(Op::Read, &mut at));
            }
            Role::Journal { .. } if player.flushes => asks.push((Op::Flush, Extent::default())),
            Role::Journal { at_once } => {
                asks = (0..at_once).map(|_| block(Op::Write, &mut player.at)).collect();
            }
            Role::Player { every_us } => {
                asks.push(block(Op::Read, &mut player.at));
                player.due = Some(self.world.now.plus_nanos(every_us * 1_000));
            }
            Role::Shared { .. }
            | Role::Seeker { .. }
            | Role::Lazy { .. }
            | Role::Follower { .. } => {
                asks.push((Op::Read, Extent::new(anywhere(seed), 4096)));
            }
        }
        let (task, is_lazy) = (player.task, matches!(player.role, Role::Lazy { .. }));
        player.flushes = matches!(player.role, Role::Journal { .. }) && !player.flushes;
        player.asked += asks.len() as u64;
        for (op, extent) in asks {
            if let Some(tag) = self.world.submit(Request::new(task, op, extent, 0)) {
                self.players[who].outstanding += 1;
                self.whose.insert(tag, who);
            }
        }
        if is_lazy {
            let extent = Extent::new(anywhere(seed + (1 << 31)), 4096);
            let left = Request { sync: false, ..Request::new(task, Op::Write, extent, 0) };
            self.world.submit(left);
        }
    }

    /// A request of a player is back, or was withdrawn.
    fn returned(&mut self, who: usize) {
        let now = self.world.now;
        let later = |us: u64| Some(now.plus_nanos(us * 1_000));
        self.players[who].outstanding -= 1;
        if self.players[who].outstanding > 0 {
            return;
        }
        let after_us = match self.players.get(who + 1).map(|player| player.role) {
            Some(Role::Follower { after_us, answers }) => Some((after_us, answers)),
            _ => None,
        };
        if let Some((after_us, _)) = after_us
            && self.players[who + 1].outstanding == 0
        {
            self.players[who + 1].due = later(after_us);
        }
        let is_answered = after_us.is_some_and(|(_, answers)| answers);
        let due = match self.players[who].role {
            Role::Seeker { .. } if is_answered => None,
            Role::Seeker { think_us } | Role::Lazy { think_us } => later(think_us),
            Role::Stream { .. } | Role::Shared { .. } | Role::Journal { .. } => later(150),
            Role::Striding { pause_us, .. } if self.players[who].asked.is_multiple_of(16) => {
                later(pause_us)
            }
            Role::Striding { .. } => later(150),
            Role::Follower { after_us, answers: true } => {
                self.players[who - 1].due = later(after_us);
                None
            }
            Role::Follower { .. } => None,
            Role::Player { .. } => self.players[who].due,
        };
        self.players[who].due = due;
    }

    /// A client goes on without its withdrawn requests.
    fn forgo(&mut self) {
        let gone: Vec<(u64, usize)> = self
            .whose
            .iter()
            .filter(|&(tag, _)| !self.world.has(*tag))
            .map(|(tag, who)| (*tag, *who))
            .collect();
        for (tag, who) in gone {
            self.whose.remove(&tag);
            self.returned(who);
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Step(step) => self.world.apply(step),
            Act::Fail(count) => self.failing += count,
        }
        self.forgo();
    }

    /// What the device has done.
    fn land(&mut self, tag: u64) {
        let outcome = match self.failing {
            0 => Outcome::Done,
            _ => Outcome::Failed,
        };
        self.failing = self.failing.saturating_sub(1);
        self.world.complete_tag(tag, outcome);
        if let Some(who) = self.whose.remove(&tag) {
            self.returned(who);
        }
    }

    fn next(&self, act: Option<u64>) -> Option<Instant> {
        let due = self.players.iter().filter_map(|player| player.due).min();
        let act = act.map(|at_us| Instant::from_nanos(at_us * 1_000));
        let times = [due, act, self.device.next(), self.world.engine.poll_timeout()];
        times.into_iter().flatten().min()
    }
}

/// Plays it to its end, and brings everything out that is inside then. The engine is sound after everything that happens.
///
/// # Errors
/// What was not sound, and when.
pub(crate) fn perform(play: &Play) -> Result<World, String> {
    let mut stage = Stage::new(play);
    let mut acts = play.acts.iter().peekable();
    let sound = |stage: &mut Stage, what: &str| {
        let now = stage.world.now;
        stage.world.check().map_err(|error| format!("at {now:?}, {what}: {error}"))
    };
    while stage.world.done.completed < COMPLETIONS_MAX {
        let Some(next) = stage.next(acts.peek().map(|(at_us, _)| *at_us)) else { break };
        if next > Instant::from_nanos(LASTS_US * 1_000) {
            break;
        }
        stage.world.now = next.max(stage.world.now);
        let now = stage.world.now;
        while let Some(tag) = stage.device.poll(now) {
            stage.land(tag);
            sound(&mut stage, "a completion")?;
        }
        stage.world.engine.handle_timeout(now);
        sound(&mut stage, "a timeout")?;
        while let Some((_, act)) = acts.next_if(|(at_us, _)| at_us * 1_000 <= now.as_nanos()) {
            stage.act(act);
            sound(&mut stage, &format!("{act:?}"))?;
        }
        for who in 0..stage.players.len() {
            if stage.players[who].due.is_some_and(|due| due <= now) {
                stage.go_on(who);
                sound(&mut stage, "a request")?;
            }
        }
        while stage.world.dispatch() {
            sound(&mut stage, "a dispatch")?;
        }
        stage.device.work(&stage.world);
    }
    let Stage { mut world, .. } = stage;
    let stats = world.engine.bfq_stats();
    world.reach.note_stats(&stats);
    world.finish()?;
    Ok(world)
}
