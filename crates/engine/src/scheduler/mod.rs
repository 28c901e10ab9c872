//! Which of the requests that may go is next at the device.
//!
//! A scheduler sees a request when it is past every limit and gives it out when the device window has room. It
//! keeps no request of its own: lists are threaded through the records, turns through clients and tasks.

mod take_turns;

use alloc::boxed::Box;
use alloc::string::String;

use self::take_turns::TakeTurns;
use crate::bfq::Bfq;
use crate::requests::Requests;
use crate::time::Instant;
use crate::tree::Tree;

/// Who chooses the next request for the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SchedulerKind {
    /// First in, first out for each task; tasks of a client take turns, and so do clients. Weights do not count.
    #[default]
    None,
    /// Budget fair queueing: shares of the device by the weights of cgroups, clients of one cgroup alike, each client's
    /// requests by position. The bookkeeping is O(depth × log siblings) a request.
    Bfq,
}

impl SchedulerKind {
    /// All of them, in the order in which tables list them.
    pub const ALL: [SchedulerKind; 2] = [SchedulerKind::None, SchedulerKind::Bfq];

    /// The name in configurations and reports: `none` or `bfq`.
    pub const fn name(self) -> &'static str {
        match self {
            SchedulerKind::None => "none",
            SchedulerKind::Bfq => "bfq",
        }
    }

    /// The scheduler of that name.
    pub fn from_name(name: &str) -> Option<SchedulerKind> {
        SchedulerKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One scheduler, chosen per engine. An enum: the choice is a branch that always goes the same way.
pub(crate) enum Scheduler {
    TakeTurns(TakeTurns),
    Bfq(Box<Bfq>),
}

impl Scheduler {
    pub(crate) fn new(kind: SchedulerKind, rotational: bool) -> Scheduler {
        match kind {
            SchedulerKind::None => Scheduler::TakeTurns(TakeTurns::new()),
            SchedulerKind::Bfq => Scheduler::Bfq(Box::new(Bfq::new(rotational))),
        }
    }

    /// Requests waiting.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Scheduler::TakeTurns(turns) => turns.len(),
            Scheduler::Bfq(bfq) => bfq.len(),
        }
    }

    /// Takes in a request that is past every limit since `now`.
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
        task: u32,
        index: u32,
    ) {
        match self {
            Scheduler::TakeTurns(turns) => turns.insert(tree, requests, task, index),
            Scheduler::Bfq(bfq) => bfq.insert(now, tree, requests, task, index),
        }
    }

    /// The request that goes to the device now.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
    ) -> Option<u32> {
        match self {
            Scheduler::TakeTurns(turns) => turns.next(tree, requests),
            Scheduler::Bfq(bfq) => bfq.next(now, tree, requests),
        }
    }

    /// Takes out a request that waits.
    pub(crate) fn remove(
        &mut self,
        tree: &mut Tree,
        requests: &mut Requests,
        task: u32,
        index: u32,
    ) {
        match self {
            Scheduler::TakeTurns(turns) => turns.remove(tree, requests, task, index),
            Scheduler::Bfq(bfq) => bfq.remove(tree, requests, task, index),
        }
    }

    /// A request of `task` is back from the device.
    pub(crate) fn complete(&mut self, now: Instant, tree: &Tree, task: u32) {
        match self {
            Scheduler::TakeTurns(_) => {}
            Scheduler::Bfq(bfq) => bfq.complete(now, tree.tasks[task].client),
        }
    }

    /// Forgets a client that is going away; it has no request left.
    pub(crate) fn forget(&mut self, tree: &Tree, requests: &Requests, client: u32) {
        match self {
            Scheduler::TakeTurns(turns) => turns.forget(tree, client),
            Scheduler::Bfq(bfq) => bfq.forget(tree, requests, client),
        }
    }

    /// Forgets a cgroup that is going away; no client is left below it.
    pub(crate) fn forget_cgroup(&mut self, cgroup: u32) {
        match self {
            Scheduler::TakeTurns(_) => {}
            Scheduler::Bfq(bfq) => bfq.forget_cgroup(cgroup),
        }
    }

    /// A cgroup has got another parent, in `tree`; the old one is still there.
    pub(crate) fn move_cgroup(&mut self, tree: &Tree, requests: &Requests, cgroup: u32) {
        match self {
            Scheduler::TakeTurns(_) => {}
            Scheduler::Bfq(bfq) => bfq.move_cgroup(tree, requests, cgroup),
        }
    }

    /// See [`crate::Engine::check`].
    ///
    /// # Errors
    /// A text that says what does not hold.
    pub(crate) fn check(&mut self, tree: &Tree, requests: &Requests) -> Result<(), String> {
        match self {
            Scheduler::TakeTurns(_) => Ok(()),
            Scheduler::Bfq(bfq) => bfq.check(tree, requests),
        }
    }
}
