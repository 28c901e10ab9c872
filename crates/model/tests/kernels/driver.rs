//! An engine with one limited cgroup, and one task in it, that says what goes when.

use std::num::NonZeroU32;

use weir_engine::{
    Change, Config, Engine, Extent, Instant, LimiterKind, Limits, Op, Outcome, PerDimension,
    Request, TaskId,
};

pub(crate) struct Driver {
    engine: Engine,
    task: TaskId,
    submitted: u64,
}

/// A request that went: which, and whether it is a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gone {
    pub(crate) number: usize,
    pub(crate) write: bool,
}

impl Driver {
    /// An engine whose one cgroup has these limits.
    pub(crate) fn new(limiter: LimiterKind, max: PerDimension, burst: PerDimension) -> Driver {
        // No window at the device: what passes the throttle is dispatched in the same call.
        let config = Config { depth: NonZeroU32::MAX, ..Config::default() };
        let mut engine = Engine::new(config, Instant::ZERO);
        let cgroup = engine.create_cgroup(engine.root(), "limited").expect("a fresh name");
        let limits = Limits { limiter, max, burst, ..Limits::default() };
        engine
            .reconfigure(Instant::ZERO, Change::SetLimits { cgroup, limits })
            .expect("valid limits");
        let client = engine.open_client(cgroup).expect("a live cgroup");
        let task = engine.open_task(client).expect("a live client");
        Driver { engine, task, submitted: 0 }
    }

    /// Submits a request; whether it goes at once.
    pub(crate) fn submit(&mut self, now: Instant, write: bool, bytes: u32) -> bool {
        let op = if write { Op::Write } else { Op::Read };
        let request =
            Request::new(self.task, op, Extent::new(self.submitted << 32, bytes), self.submitted);
        self.submitted += 1;
        self.engine.submit(now, request).expect("room in the queues");
        match self.drain(now)[..] {
            [] => false,
            [one] => {
                assert_eq!(one.number as u64 + 1, self.submitted, "only itself can go by this");
                true
            }
            _ => panic!("a submission lets several go"),
        }
    }

    /// Handles the next timeout, if it is not after `end`: its instant, and what goes.
    pub(crate) fn timeout(&mut self, end: Instant) -> Option<(Instant, Vec<Gone>)> {
        let at = self.engine.poll_timeout().filter(|&at| at <= end)?;
        self.engine.handle_timeout(at);
        let gone = self.drain(at);
        assert!(self.engine.poll_timeout().is_none_or(|next| next > at), "{at:?} once more");
        Some((at, gone))
    }

    fn drain(&mut self, now: Instant) -> Vec<Gone> {
        let mut gone = Vec::new();
        while let Some(dispatch) = self.engine.poll_dispatch(now) {
            let request = dispatch.request;
            gone.push(Gone { number: request.tag as usize, write: request.op == Op::Write });
            self.engine.complete(now, dispatch.ticket, Outcome::Done);
        }
        gone
    }
}
