//! An engine in virtual time, before a device that takes none.

use std::num::NonZeroU32;

use weir_engine::settings::Prices;
use weir_engine::{
    CgroupId, Change, Config, Engine, Extent, Instant, LimiterKind, Op, Outcome, Request,
    RequestId, TaskId,
};

use crate::support;
pub(crate) use crate::support::{MIB, MS};

/// Those that charge by instalments.
pub(crate) const LIMITERS: [LimiterKind; 3] =
    [LimiterKind::Pace, LimiterKind::Token, LimiterKind::Leaky];

/// An engine before a device that takes no time.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: Instant,
    /// What has gone: when, and the request's tag.
    pub(crate) went: Vec<(Instant, u64)>,
    tags: u64,
}

impl World {
    pub(crate) fn new(prices: Prices) -> World {
        let config = Config { depth: NonZeroU32::MAX, prices, ..Config::default() };
        let engine = Engine::new(config, Instant::ZERO);
        World { engine, now: Instant::ZERO, went: Vec::new(), tags: 0 }
    }

    pub(crate) fn cgroup(&mut self, path: &str) -> CgroupId {
        support::cgroup(&mut self.engine, path)
    }

    pub(crate) fn change(&mut self, change: Change) {
        self.engine.reconfigure(self.now, change).expect("it makes sense");
        self.turn();
    }

    pub(crate) fn limit(&mut self, path: &str, max: &str, limiter: LimiterKind) {
        let cgroup = self.cgroup(path);
        self.change(Change::SetLimits { cgroup, limits: support::limits(limiter, max) });
    }

    /// A connection of a client of its own.
    pub(crate) fn task(&mut self, path: &str) -> TaskId {
        let cgroup = self.cgroup(path);
        support::task(&mut self.engine, cgroup)
    }

    pub(crate) fn submit(&mut self, task: TaskId, op: Op, len: u32) -> (RequestId, u64) {
        let asked = self.ask(task, op, len);
        self.turn();
        asked
    }

    /// The same, before anything goes.
    pub(crate) fn ask(&mut self, task: TaskId, op: Op, len: u32) -> (RequestId, u64) {
        self.tags += 1;
        let request = Request::new(task, op, Extent::new(0, len), self.tags);
        let id = self.engine.submit(self.now, request).expect("room");
        (id, self.tags)
    }

    /// Whatever may go goes, and is done at once.
    pub(crate) fn turn(&mut self) {
        self.turn_only();
        self.engine.check().unwrap();
    }

    /// The same, without a look at what always holds.
    pub(crate) fn turn_only(&mut self) {
        self.engine.handle_timeout(self.now);
        while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
            self.went.push((self.now, dispatch.request.tag));
            self.engine.complete(self.now, dispatch.ticket, Outcome::Done);
        }
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, nanos: u64) {
        let until = self.now.plus_nanos(nanos);
        while let Some(at) = self.engine.poll_timeout().filter(|&at| at <= until) {
            assert!(at > self.now, "what may go now has gone");
            self.now = at;
            self.turn();
        }
        self.now = until;
    }

    /// How long the request of this tag takes from now on, in nanoseconds.
    pub(crate) fn wait_for(&mut self, tag: u64) -> u64 {
        let from = self.now;
        loop {
            if let Some(&(at, _)) = self.went.iter().find(|&&(_, went)| went == tag) {
                return at.nanos_since(from);
            }
            let at = self.engine.poll_timeout().expect("what waits has a deadline");
            self.now = at;
            self.turn();
        }
    }
}
