//! An engine with a tree and flows, and the loops that keep them busy in virtual time.

use std::num::NonZeroU32;

use weir_engine::settings::BfqSettings;
use weir_engine::{
    CgroupId, Change, Config, Dimension, Engine, Extent, Instant, Limits, Op, Outcome,
    PerDimension, Request, TaskId, Ticket,
};

use crate::cases::{Case, Habit, Load};

/// Requests of one turn where no limit is reached, and the device window: what a SATA disk's queue holds.
const DEPTH: u32 = 32;

/// Virtual time between two turns: 32 requests each, 3.2 million a second.
const TURN_NS: u64 = 10_000;

/// Virtual time that a random request takes: so long that what flows get for having just begun is over when one begins to
/// count.
const RANDOM_NS: u64 = 250_000;

/// Requests of the bursts of a flow before it is another's turn: three in a turn on average, and 24 in all.
const BURSTS: [u32; 8] = [1, 1, 8, 2, 1, 1, 8, 2];

/// Positions of random requests, in units of [`REQUEST_BYTES`]: 1 GiB.
const POSITIONS: u64 = 1 << 18;

const REQUEST_BYTES: u32 = 4096;

/// One case, built and running.
pub(crate) struct World {
    engine: Engine,
    now: Instant,
    reaches_limits: bool,
    habit: Habit,
    /// In an order that has nothing to do with their places in memory.
    flows: Vec<TaskId>,
    next: usize,
    tickets: Vec<Ticket>,
    served: Vec<TaskId>,
    dice: Dice,
}

impl World {
    /// Builds the tree and runs it in with `requests`: what an engine grows, it should have grown then.
    pub(crate) fn new(case: &Case, requests: u64) -> World {
        let depth = const { NonZeroU32::new(DEPTH).unwrap() };
        let requests_max = NonZeroU32::MAX;
        let scheduler = case.scheduler;
        let bfq = weir_text::parse_bfq(case.bfq, BfqSettings::DEFAULT).expect("settings");
        let rotational = case.rotational;
        let config =
            Config { depth, requests_max, scheduler, bfq, rotational, ..Config::default() };
        let mut engine = Engine::new(config, Instant::ZERO);
        let mut flows = Vec::new();
        let root = engine.root();
        grow(&mut engine, case, root, 0, &mut flows);
        let mut dice = Dice::new();
        dice.shuffle(&mut flows);
        let mut world = World {
            engine,
            now: Instant::ZERO,
            reaches_limits: matches!(case.load, Load::Reached(_)),
            habit: case.habit,
            flows,
            next: 0,
            tickets: Vec::new(),
            served: Vec::new(),
            dice,
        };
        if world.reaches_limits {
            (0..world.flows.len()).for_each(|index| world.submit(world.flows[index]));
        }
        if matches!(case.habit, Habit::Queues) {
            // As if it was theirs what the device has done.
            world.served = (0..DEPTH).flat_map(|_| world.flows.iter().copied()).collect();
        }
        world.turns(requests);
        world
    }

    /// Puts `requests` or a few more through submit, dispatch and complete; answers how many.
    ///
    /// A function of its own, so that an instrumented run can tell it from the building.
    #[inline(never)]
    pub(crate) fn measured_turns(&mut self, requests: u64) -> u64 {
        self.turns(requests)
    }

    fn turns(&mut self, requests: u64) -> u64 {
        let mut done = 0;
        while done < requests {
            done += match self.habit {
                Habit::Single if self.reaches_limits => self.turn_of_timers(),
                Habit::Single => self.turn_of_flows(),
                Habit::Bursts | Habit::Queues => self.turn_of_random(),
            };
        }
        done
    }

    /// A turn in which flows ask, and what they ask for is done at once.
    fn turn_of_flows(&mut self) -> u64 {
        self.now = self.now.plus_nanos(TURN_NS);
        self.engine.handle_timeout(self.now);
        for _ in 0..DEPTH {
            let flow = self.flows[self.next];
            self.next = if self.next + 1 == self.flows.len() { 0 } else { self.next + 1 };
            self.submit(flow);
            // A leaky bucket lets one request go at an instant.
            self.now = self.now.plus_nanos(1);
        }
        while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
            self.tickets.push(dispatch.ticket);
        }
        assert_eq!(self.tickets.len() as u32, DEPTH, "no limit holds a request back");
        for ticket in self.tickets.drain(..) {
            self.engine.complete(self.now, ticket, Outcome::Done);
        }
        let device = self.engine.device();
        assert_eq!((device.ready, device.throttled), (0, 0), "nothing waits");
        u64::from(DEPTH)
    }

    /// A turn in which the next deadline lets requests go; each is done at once, and its flow asks again. A moment
    /// later, because some limiters let go whatever comes in one instant.
    fn turn_of_timers(&mut self) -> u64 {
        self.now = self.engine.poll_timeout().unwrap_or(self.now).max(self.now);
        self.engine.handle_timeout(self.now);
        while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
            self.engine.complete(self.now, dispatch.ticket, Outcome::Done);
            self.served.push(dispatch.request.task);
        }
        self.now = self.now.plus_nanos(1);
        let mut served = std::mem::take(&mut self.served);
        let done = served.len() as u64;
        served.drain(..).for_each(|flow| self.submit(flow));
        self.served = served;
        done
    }

    /// A turn in which what is at the device is done, flows ask for more, and the device takes what it has room for.
    fn turn_of_random(&mut self) -> u64 {
        let done = self.tickets.len() as u64;
        self.now = self.now.plus_nanos(done * RANDOM_NS);
        for ticket in self.tickets.drain(..) {
            self.engine.complete(self.now, ticket, Outcome::Done);
        }
        let mut served = std::mem::take(&mut self.served);
        if matches!(self.habit, Habit::Bursts) {
            let flow = self.flows[self.next / BURSTS.len()];
            let burst = BURSTS[self.next % BURSTS.len()];
            self.next = (self.next + 1) % (self.flows.len() * BURSTS.len());
            served.clear();
            served.extend((0..burst).map(|_| flow));
        }
        served.drain(..).for_each(|flow| self.submit_anywhere(flow));
        self.served = served;
        self.engine.handle_timeout(self.now);
        while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
            self.tickets.push(dispatch.ticket);
            self.served.push(dispatch.request.task);
        }
        assert!(!self.tickets.is_empty(), "the device has something to do");
        let due = self.engine.poll_timeout();
        assert!(due.is_none_or(|due| due > self.now), "nothing is due at once");
        done
    }

    fn submit(&mut self, flow: TaskId) {
        self.submit_at(flow, 0);
    }

    fn submit_anywhere(&mut self, flow: TaskId) {
        let position = self.dice.below(POSITIONS);
        self.submit_at(flow, position * u64::from(REQUEST_BYTES));
    }

    fn submit_at(&mut self, flow: TaskId, offset: u64) {
        let request = Request::new(flow, Op::Read, Extent::new(offset, REQUEST_BYTES), 0);
        self.engine.submit(self.now, request).expect("room for what a flow has inside");
    }
}

/// Makes the children of `parent`, which is `level` below the root, and everything below them.
fn grow(engine: &mut Engine, case: &Case, parent: CgroupId, level: usize, flows: &mut Vec<TaskId>) {
    let Some(&children) = case.tree.fan_out.get(level) else {
        for _ in 0..case.tree.clients {
            let client = engine.open_client(parent).expect("the cgroup was made just now");
            flows.push(engine.open_task(client).expect("the client was opened just now"));
        }
        return;
    };
    for number in 0..children {
        let cgroup =
            engine.create_cgroup(parent, &format!("g{number}")).expect("a name of its own");
        grow(engine, case, cgroup, level + 1, flows);
        if let Some(limits) = limits(case, level + 1, number) {
            engine
                .reconfigure(Instant::ZERO, Change::SetLimits { cgroup, limits })
                .expect("limits that make sense");
        }
    }
}

/// The limits of a cgroup's `number`th child, `level` below the root: on every second level from the lowest up.
fn limits(case: &Case, level: usize, number: u32) -> Option<Limits> {
    let levels = case.tree.fan_out;
    if !(levels.len() - level).is_multiple_of(2) {
        return None;
    }
    let (max, limiter) = match case.load {
        Load::Unlimited => return None,
        Load::Below(limiter) => ((1 << 50, Dimension::Riops.largest()), limiter),
        Load::Reached(limiter) => {
            let below: u32 = levels[level..].iter().product();
            // About half of what the limits next below add up to, so that each level holds something back; and no
            // two neighbours in step.
            let halvings = (levels.len() - level) / 2;
            let iops = (u64::from(below) * 100 + u64::from(number % 50)) >> halvings;
            ((iops * 8192, iops), limiter)
        }
    };
    let max = PerDimension::NONE.with(Dimension::Rbps, max.0).with(Dimension::Riops, max.1);
    Some(Limits { max, limiter, ..Limits::default() })
}

/// A fixed linear congruential generator (Knuth's MMIX constants).
struct Dice(u64);

impl Dice {
    fn new() -> Dice {
        Dice(1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * u128::from(end)) >> 64) as u64
    }

    /// Fisher and Yates' shuffle.
    fn shuffle(&mut self, flows: &mut [TaskId]) {
        for end in (1..flows.len()).rev() {
            let chosen = self.below(end as u64 + 1) as usize;
            flows.swap(end, chosen);
        }
    }
}
