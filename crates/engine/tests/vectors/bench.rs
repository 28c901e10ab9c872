//! An engine with the kernel's slices in front of a device that takes no time, seen in ticks.

use std::num::NonZeroU32;

use weir_engine::settings::{KernelProfile, SliceProfile};
use weir_engine::{
    CgroupId, Change, Class, Config, Dimension, Engine, Extent, Instant, LimiterKind, Limits, Op,
    Outcome, Part, PerDimension, Request, TaskId,
};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Drives one engine. Every request is completed at the instant it is dispatched.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    profile: SliceProfile,
    /// Ticks by which every timeout is handled late.
    late: u64,
    requests: u64,
    created: usize,
    log: Vec<(u64, usize)>,
}

impl Bench {
    pub(crate) fn new(kernel: KernelProfile, hz: u16, slice_ticks: u16) -> Bench {
        // No window at the device: what passes the throttle is dispatched in the same call.
        let config = Config { depth: NonZeroU32::MAX, ..Config::default() };
        Bench {
            engine: Engine::new(config, Instant::ZERO),
            profile: SliceProfile { kernel, hz, slice_ticks },
            late: 0,
            requests: 0,
            created: 0,
            log: Vec::new(),
        }
    }

    pub(crate) fn set_lateness(&mut self, ticks: u64) {
        self.late = ticks;
    }

    /// Length of a tick in nanoseconds, for rates that divide a second.
    pub(crate) fn tick(&self) -> u64 {
        SECOND / u64::from(self.profile.hz)
    }

    pub(crate) fn instant(&self, tick: u64) -> Instant {
        Instant::from_nanos(tick * self.tick())
    }

    pub(crate) fn root(&self) -> CgroupId {
        self.engine.root()
    }

    pub(crate) fn create(&mut self, parent: CgroupId) -> CgroupId {
        self.created += 1;
        let name = format!("g{}", self.created);
        self.engine.create_cgroup(parent, &name).expect("a fresh name below a live parent")
    }

    /// Creates a cgroup limited from tick 0 on.
    pub(crate) fn limited(&mut self, parent: CgroupId, max: &[(Dimension, u64)]) -> CgroupId {
        let cgroup = self.create(parent);
        self.limit(0, cgroup, max);
        cgroup
    }

    pub(crate) fn limit(&mut self, tick: u64, cgroup: CgroupId, max: &[(Dimension, u64)]) {
        let at = self.instant(tick);
        self.run_before(at);
        let max = max
            .iter()
            .fold(PerDimension::NONE, |max, &(dimension, value)| max.with(dimension, value));
        let limits = Limits { max, limiter: LimiterKind::Slice(self.profile), ..Limits::default() };
        self.engine.reconfigure(at, Change::SetLimits { cgroup, limits }).expect("valid limits");
        self.drain(at);
    }

    /// One client with one task.
    pub(crate) fn task(&mut self, cgroup: CgroupId) -> TaskId {
        let client = self.engine.open_client(cgroup).expect("a live cgroup");
        self.engine.open_task(client).expect("a live client")
    }

    /// Submits at a tick; answers the request's number.
    pub(crate) fn submit(&mut self, tick: u64, task: TaskId, op: Op, bytes: u32) -> usize {
        self.submit_as(self.instant(tick), task, op, bytes, Class::Data, Part::Whole)
    }

    pub(crate) fn submit_as(
        &mut self,
        at: Instant,
        task: TaskId,
        op: Op,
        bytes: u32,
        class: Class,
        part: Part,
    ) -> usize {
        self.run_before(at);
        let tag = self.requests;
        self.requests += 1;
        let extent = Extent::new(tag << 32, bytes);
        let request = Request { task, op, extent, class, part, sync: true, tag };
        self.engine.submit(at, request).expect("room in the queues");
        self.drain(at);
        tag as usize
    }

    /// Lets time pass up to and with `at`; answers what was dispatched since the last call: tick and number.
    pub(crate) fn run_until(&mut self, at: Instant) -> Vec<(u64, usize)> {
        self.run_before(at.plus_nanos(1));
        std::mem::take(&mut self.log)
    }

    /// When the next timeout will be handled.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let late = self.late * self.tick();
        self.engine.poll_timeout().map(|timeout| timeout.plus_nanos(late))
    }

    /// Handles every timeout before `end`.
    fn run_before(&mut self, end: Instant) {
        while let Some(at) = self.next_timeout().filter(|&at| at < end) {
            self.engine.handle_timeout(at);
            self.drain(at);
            let next = self.engine.poll_timeout();
            assert!(next.is_none_or(|next| next > at), "a deadline at {next:?}, after {at:?}");
        }
    }

    fn drain(&mut self, at: Instant) {
        while let Some(dispatch) = self.engine.poll_dispatch(at) {
            self.log.push((at.as_nanos() / self.tick(), dispatch.request.tag as usize));
            self.engine.complete(at, dispatch.ticket, Outcome::Done);
        }
        if let Err(broken) = self.engine.check() {
            panic!("at {at:?}: {broken}");
        }
    }
}
