//! An engine, and the books of what goes in and comes out.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use weir_engine::settings::BfqSettings;
use weir_engine::{
    CgroupId, Change, ClientId, Config, Dispatch, Engine, Extent, Instant, LimiterKind, Limits, Op,
    Outcome, PerDimension, Priority, Request, RequestId, Resource, SchedulerKind, TaskId, Ticket,
    Weight,
};

use super::reach::Reach;
use super::step::Step;

/// The lowest limit on bytes: 4 GiB at a byte a second would be waited for longer than time lasts.
const BYTES_PER_SEC_MIN: u64 = 4096;

/// An engine, what should be in it, and what came of the rest.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: Instant,
    pub(crate) cgroups: Vec<CgroupId>,
    pub(crate) clients: Vec<ClientId>,
    pub(crate) tasks: Vec<TaskId>,
    /// Where each task was opened.
    homes: BTreeMap<TaskId, CgroupId>,
    /// Settings that others are given on top of.
    base: BfqSettings,
    scheduler: SchedulerKind,
    /// By tag, which are given in order.
    inside: BTreeMap<u64, (RequestId, TaskId)>,
    out: Vec<(Request, Ticket)>,
    /// Of each request, by tag, what has not been dispatched.
    rest: BTreeMap<u64, Extent>,
    pub(crate) done: Done,
    /// Bytes of all requests so far.
    asked_bytes: u64,
    /// What happened that its books do not tell.
    pub(crate) reach: Reach,
    /// Everything that was dispatched, in order: tag and instant.
    pub(crate) log: Vec<(u64, u64)>,
}

/// Requests, by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Done {
    pub(crate) submitted: u64,
    pub(crate) withdrawn: u64,
    pub(crate) completed: u64,
    failed: u64,
}

impl World {
    /// An engine with one client. `settings` are kept to by all later ones, which say what differs.
    pub(crate) fn new(
        rotational: bool,
        depth: u32,
        piece_bytes_max: Option<NonZeroU32>,
        settings: &str,
    ) -> World {
        let depth = NonZeroU32::new(depth).expect("a depth");
        let bfq =
            weir_text::parse_bfq(settings, BfqSettings::DEFAULT).expect("settings that exist");
        let scheduler = SchedulerKind::Bfq;
        let config =
            Config { depth, rotational, bfq, scheduler, piece_bytes_max, ..Config::default() };
        let engine = Engine::new(config, Instant::ZERO);
        let mut world = World {
            cgroups: vec![engine.root()],
            engine,
            now: Instant::ZERO,
            clients: Vec::new(),
            tasks: Vec::new(),
            homes: BTreeMap::new(),
            base: bfq,
            scheduler: SchedulerKind::Bfq,
            inside: BTreeMap::new(),
            out: Vec::new(),
            rest: BTreeMap::new(),
            done: Done::default(),
            asked_bytes: 0,
            reach: Reach::default(),
            log: Vec::new(),
        };
        world.open(0, 1);
        world
    }

    pub(crate) fn apply(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Submit { task, op, offset, len, class, part, sync } => {
                if let Some(task) = pick(&self.tasks, task) {
                    let request = Request::new(task, op, Extent::new(offset, len), 0);
                    self.submit(Request { class, part, sync, ..request });
                }
            }
            Step::Stream { task, offset, count } => {
                if let Some(task) = pick(&self.tasks, task) {
                    for number in 0..count {
                        let extent = Extent::new(offset + (u64::from(number) << 16), 1 << 16);
                        self.submit(Request::new(task, Op::Read, extent, 0));
                    }
                }
            }
            Step::Dispatch { count } => (0..count).for_each(|_| {
                self.dispatch();
            }),
            Step::Complete { which, outcome } => {
                if !self.out.is_empty() {
                    self.complete(which % self.out.len(), outcome);
                }
            }
            Step::Withdraw { which } => {
                let which = which % self.inside.len().max(1);
                let Some((&tag, &(id, _))) = self.inside.iter().nth(which) else { return };
                let request = self.engine.withdraw(now, id).expect("it was inside");
                assert_eq!((request.tag, request.extent), (tag, self.rest[&tag]));
                assert_eq!(self.engine.withdraw(now, id), None, "once");
                self.note_withdrawn(tag);
            }
            Step::WithdrawOf { task } => {
                let Some(task) = pick(&self.tasks, task) else { return };
                if let Some(request) = self.engine.withdraw_next(now, task) {
                    assert_eq!(request.task, task);
                    self.note_withdrawn(request.tag);
                }
            }
            Step::Wait { us } => {
                self.now = now.plus_nanos(us * 1000);
                self.engine.handle_timeout(self.now);
            }
            Step::Back { us } => {
                // Taken for the last instant it has heard of.
                self.engine.handle_timeout(now.minus_nanos(us * 1000));
            }
            Step::Create { parent, weight } => {
                let Some(parent) = pick(&self.cgroups, parent) else { return };
                let name = format!("c{}", self.cgroups.len());
                if let Ok(cgroup) = self.engine.create_cgroup(parent, &name) {
                    self.cgroups.push(cgroup);
                    self.weigh(cgroup, weight);
                }
            }
            Step::Weigh { cgroup, weight } => {
                let Some(cgroup) = pick(&self.cgroups, cgroup) else { return };
                self.weigh(cgroup, weight);
            }
            Step::Limit { cgroup, dimension, rate, kind } => {
                let Some(cgroup) = pick(&self.cgroups, cgroup) else { return };
                let max = match rate {
                    Some(rate) if dimension.resource() == Resource::Bytes => {
                        let least = match kind {
                            // It wakes up once a slice or so, and 4 GiB would be a million slices.
                            LimiterKind::Slice(_) => BYTES_PER_SEC_MIN << 12,
                            _ => BYTES_PER_SEC_MIN,
                        };
                        PerDimension::NONE.with(dimension, rate * least)
                    }
                    Some(rate) => PerDimension::NONE.with(dimension, rate),
                    None => PerDimension::NONE,
                };
                self.limit(cgroup, Limits { max, limiter: kind, ..Limits::default() });
            }
            Step::Move { cgroup, parent } => {
                let chosen = (pick(&self.cgroups, cgroup), pick(&self.cgroups, parent));
                let (Some(cgroup), Some(parent)) = chosen else { return };
                if self.engine.reconfigure(now, Change::Move { cgroup, parent }).is_ok() {
                    self.note_if_busy("moved", cgroup);
                }
            }
            Step::Remove { cgroup } => {
                let Some(cgroup) = pick(&self.cgroups, cgroup) else { return };
                if self.engine.reconfigure(now, Change::Remove { cgroup }).is_ok() {
                    self.note_if_busy("removed", cgroup);
                }
            }
            Step::Open { cgroup, tasks } => {
                self.open(cgroup, tasks);
            }
            Step::CloseTask { task } => {
                if self.tasks.len() > 1 {
                    let task = self.tasks.swap_remove(task % self.tasks.len());
                    self.engine.close_task(task);
                }
            }
            Step::CloseClient { client } => {
                if self.clients.len() > 1 {
                    let client = self.clients.swap_remove(client % self.clients.len());
                    self.engine.close_client(client);
                }
            }
            Step::Depth { depth } => {
                let depth = NonZeroU32::new(depth).expect("a depth");
                self.engine.reconfigure(now, Change::SetDepth(depth)).expect("a depth");
            }
            Step::Priority { client, class, level } => {
                let Some(client) = pick(&self.clients, client) else { return };
                let priority = Priority::new(class, level).expect("a level");
                let _ = self.engine.reconfigure(now, Change::SetPriority { client, priority });
            }
            Step::PrioClass { cgroup, prio_class } => {
                let Some(cgroup) = pick(&self.cgroups, cgroup) else { return };
                let _ = self.engine.reconfigure(now, Change::SetPrioClass { cgroup, prio_class });
            }
            Step::Switch { scheduler } => {
                let before = std::mem::replace(&mut self.scheduler, scheduler);
                let device = self.engine.device();
                if before != scheduler && device.ready > 0 && device.in_flight > 0 {
                    self.reach.note("switched while requests wait and are at the device");
                }
                self.engine.reconfigure(now, Change::SetScheduler(scheduler)).expect("known");
            }
            Step::Tune { settings } => {
                let settings =
                    weir_text::parse_bfq(settings, self.base).expect("settings that make sense");
                if settings != self.engine.bfq_settings() && self.engine.device().ready > 0 {
                    self.reach.note("tuned while requests wait");
                }
                self.engine.reconfigure(now, Change::SetBfq(settings)).expect("the same rules");
            }
        }
    }

    /// A client with so many tasks, unless its cgroup is gone.
    pub(crate) fn open(&mut self, cgroup: usize, tasks: usize) -> Option<ClientId> {
        let cgroup = pick(&self.cgroups, cgroup)?;
        let client = self.engine.open_client(cgroup).ok()?;
        self.clients.push(client);
        for _ in 0..tasks {
            let task = self.engine.open_task(client).expect("a client that is open");
            self.tasks.push(task);
            self.homes.insert(task, cgroup);
        }
        Some(client)
    }

    /// Something was done to a cgroup whose clients may have requests under way.
    fn note_if_busy(&mut self, what: &str, cgroup: CgroupId) {
        let waiting = self.inside.values().map(|(_, task)| *task);
        let mut tasks = waiting.chain(self.out.iter().map(|(request, _)| request.task));
        if tasks.any(|task| self.homes.get(&task) == Some(&cgroup)) {
            self.reach.note(&format!("{what} while its requests are under way"));
        }
    }

    fn weigh(&mut self, cgroup: CgroupId, weight: u64) {
        let weight = Weight::new(weight).expect("a weight");
        if self.engine.reconfigure(self.now, Change::SetWeight { cgroup, weight }).is_ok() {
            self.note_if_busy("weighed", cgroup);
        }
    }

    fn limit(&mut self, cgroup: CgroupId, limits: Limits) {
        let _ = self.engine.reconfigure(self.now, Change::SetLimits { cgroup, limits });
    }

    /// Its tag, if the engine takes it.
    pub(crate) fn submit(&mut self, request: Request) -> Option<u64> {
        let tag = self.done.submitted + 1;
        let id = self.engine.submit(self.now, Request { tag, ..request }).ok()?;
        self.done.submitted = tag;
        self.asked_bytes += u64::from(request.extent.len);
        self.inside.insert(tag, (id, request.task));
        self.rest.insert(tag, request.extent);
        Some(tag)
    }

    /// A request is back from the device.
    pub(crate) fn complete(&mut self, at: usize, outcome: Outcome) -> Request {
        let (request, ticket) = self.out.swap_remove(at);
        let (id, tag) = (ticket.id(), request.tag);
        if !self.engine.complete(self.now, ticket, outcome) {
            assert_eq!(outcome, Outcome::Done, "{tag}: a piece that fails is the last");
            assert!(self.rest[&tag].len > 0, "{tag}: no piece is left, and it is not done");
            self.inside.insert(tag, (id, request.task));
            self.reach.note("a piece of several");
            return request;
        }
        let rest = self.rest.remove(&tag).expect("it was inside");
        assert!(rest.len == 0 || outcome == Outcome::Failed, "{tag} is done without {rest:?}");
        self.done.completed += 1;
        if outcome == Outcome::Failed {
            self.done.failed += 1;
            self.reach.note("failed at the device");
        }
        request
    }

    /// The same, by its tag.
    pub(crate) fn complete_tag(&mut self, tag: u64, outcome: Outcome) {
        let at = self.out.iter().position(|(request, _)| request.tag == tag);
        self.complete(at.expect("a request at the device"), outcome);
    }

    /// Whether a request waits or is at the device.
    pub(crate) fn has(&self, tag: u64) -> bool {
        self.inside.contains_key(&tag) || self.at_device().any(|request| request.tag == tag)
    }

    /// What is at the device, in no order.
    pub(crate) fn at_device(&self) -> impl Iterator<Item = &Request> {
        self.out.iter().map(|(request, _)| request)
    }

    fn note_withdrawn(&mut self, tag: u64) {
        assert!(self.inside.remove(&tag).is_some(), "{tag} was withdrawn, and was not inside");
        self.rest.remove(&tag);
        self.done.withdrawn += 1;
        self.reach.note("withdrawn");
    }

    /// A request, and what may be joined to it.
    pub(crate) fn dispatch(&mut self) -> bool {
        let Some(dispatch) = self.engine.poll_dispatch(self.now) else { return false };
        let mut run = vec![self.note_dispatched(dispatch)];
        while let Some(dispatch) = self.engine.poll_joined(self.now) {
            let (last, next) = (run[run.len() - 1], self.note_dispatched(dispatch));
            assert!(matches!(next.op, Op::Read | Op::Write), "{:?} is joined to nothing", next.op);
            assert_eq!(next.op, last.op);
            assert_eq!(next.extent.offset, last.extent.offset + u64::from(last.extent.len));
            run.push(next);
        }
        self.note_run(&run);
        true
    }

    /// How the requests of a run met. They are in order of position; tags tell in which order they came.
    fn note_run(&mut self, run: &[Request]) {
        for (at, request) in run.iter().enumerate() {
            let was_there = |other: Option<&Request>| other.is_some_and(|it| it.tag < request.tag);
            let before = was_there(at.checked_sub(1).map(|at| &run[at]));
            match (before, was_there(run.get(at + 1))) {
                (true, true) => self.reach.note("joined two"),
                (true, false) => self.reach.note("joined behind"),
                (false, true) => self.reach.note("joined in front"),
                (false, false) => {}
            }
        }
        if run[0].op == Op::Flush && !self.inside.is_empty() {
            self.reach.note("flushed while others wait");
        }
    }

    fn note_dispatched(&mut self, dispatch: Dispatch) -> Request {
        let Dispatch { ticket, request, .. } = dispatch;
        let id = self.inside.remove(&request.tag).map(|(id, _)| id);
        assert_eq!(id, Some(ticket.id()), "{} was dispatched, and was not inside", request.tag);
        self.log.push((request.tag, self.now.as_nanos()));
        let rest = self.rest.get_mut(&request.tag).expect("it was inside");
        assert_eq!(request.extent.offset, rest.offset, "{} goes on where it was", request.tag);
        rest.offset += u64::from(request.extent.len);
        rest.len -= request.extent.len;
        self.out.push((request, ticket));
        request
    }

    /// What holds after every call.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.engine.check()?;
        let device = self.engine.device();
        if device.throttled > 0 {
            self.reach.note("held by a limit");
        }
        let (inside, out) = (self.inside.len() as u32, self.out.len() as u32);
        if (device.ready + device.throttled, device.in_flight) != (inside, out) {
            return Err(format!("{inside} inside and {out} out, counted are {device:?}"));
        }
        let Done { submitted, withdrawn, completed, failed } = self.done;
        if submitted != u64::from(inside + out) + withdrawn + completed {
            return Err(format!("{:?} of which {inside} are inside and {out} out", self.done));
        }
        let root = self.engine.counters(self.engine.root(), true).ok_or("no root")?;
        if (root.completed, root.failed) != (completed, failed) {
            return Err(format!("{:?}, and the root's counters say {root:?}", self.done));
        }
        if !self.engine.audit().balances() {
            return Err(format!("{:?}", self.engine.audit()));
        }
        Ok(())
    }

    /// A request that is not dispatched waits for a completion, or has a deadline.
    pub(crate) fn dispatch_all(&mut self) -> Result<(), String> {
        while self.dispatch() {}
        let device = self.engine.device();
        let wakes = device.in_flight > 0 || self.engine.poll_timeout().is_some();
        if device.ready + device.throttled > 0 && !wakes {
            return Err(format!("{device:?} and nothing will ever happen"));
        }
        Ok(())
    }

    /// With a device that answers, and without the limits that can be taken back, everything inside comes out, in the
    /// time that the others allow it.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        for cgroup in self.cgroups.clone() {
            self.limit(cgroup, Limits::default());
        }
        // Cgroups that are removed and have clients keep theirs.
        let at_their_least = self.asked_bytes / BYTES_PER_SEC_MIN + self.done.submitted;
        let until = self.now.plus_nanos((4 * at_their_least + 60) * 1_000_000_000);
        let mut in_vain = 0;
        loop {
            self.dispatch_all()?;
            if self.out.is_empty() && self.inside.is_empty() {
                return self.check();
            }
            if self.out.is_empty() {
                let next = self.engine.poll_timeout().ok_or("no deadline")?;
                in_vain = if next > self.now { 0 } else { in_vain + 1 };
                if next > until || in_vain > 10 {
                    let (now, device) = (self.now, self.engine.device());
                    return Err(format!("{:?} never came out: {device:?} at {now:?}", self.inside));
                }
                self.now = next.max(self.now);
                self.engine.handle_timeout(self.now);
            }
            while !self.out.is_empty() {
                self.complete(0, Outcome::Done);
            }
        }
    }
}

fn pick<T: Copy>(list: &[T], number: usize) -> Option<T> {
    (!list.is_empty()).then(|| list[number % list.len()])
}

/// All of the steps, and then all that is inside comes out.
pub(crate) fn run(
    rotational: bool,
    depth: u32,
    piece_bytes_max: Option<NonZeroU32>,
    steps: &[Step],
) -> Result<World, String> {
    let mut world = World::new(rotational, depth, piece_bytes_max, "");
    for (number, step) in steps.iter().enumerate() {
        world.apply(step);
        world.check().map_err(|what| format!("after step {number}, {step:?}: {what}"))?;
    }
    world.finish()?;
    Ok(world)
}
