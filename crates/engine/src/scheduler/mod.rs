//! Scheduler: the order at the device of the requests that no limit holds.
//!
//! A scheduler sees a request when it is past every limit and gives it out when the device window has room. It
//! keeps no request of its own: lists are threaded through the records, turns through clients and tasks.

mod round_robin;
mod switch;

use alloc::boxed::Box;
use alloc::string::String;
use core::num::NonZeroU32;

use self::round_robin::RoundRobin;
use crate::bfq::{Bfq, BfqCgroupStats, BfqSettings, BfqStats, Counters};
use crate::config::Config;
use crate::merge;
use crate::request::Request;
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

/// A request that is past every limit, as its scheduler is told of it: it need not look again for what is known.
#[derive(Clone, Copy)]
pub(crate) struct Arriving<'a> {
    pub(crate) request: &'a Request,
    /// Whose it is.
    pub(crate) task: u32,
    /// Where it is kept.
    pub(crate) index: u32,
}

/// One scheduler, chosen per engine, and the books of BFQ while it is another.
pub(crate) struct Scheduler {
    policy: Policy,
    /// What BFQ had counted when another took over. Boxed: hardly anybody switches.
    retired: Option<Box<Counters>>,
}

/// An enum: the choice is a branch that always goes the same way.
enum Policy {
    RoundRobin(RoundRobin),
    Bfq(Box<Bfq>),
}

impl Scheduler {
    pub(crate) fn new(config: &Config) -> Scheduler {
        Scheduler { policy: Policy::new(config, Counters::default()), retired: None }
    }

    /// The one that `config` names, instead of this one, which has no request left. It goes on counting in its books.
    pub(crate) fn replace(&mut self, config: &Config) {
        let retired = self.retired.take_if(|_| config.scheduler == SchedulerKind::Bfq);
        let counters = retired.map_or_else(Counters::default, |counters| *counters);
        let old = core::mem::replace(&mut self.policy, Policy::new(config, counters));
        if let Policy::Bfq(bfq) = old {
            self.retired = Some(Box::new(bfq.into_counters()));
        }
    }

    /// Other settings for BFQ, where it is the scheduler.
    pub(crate) fn set_bfq(&mut self, settings: &BfqSettings) {
        if let Policy::Bfq(bfq) = &mut self.policy {
            bfq.set_tunables(settings);
        }
    }

    /// What BFQ has counted.
    pub(crate) fn stats(&self) -> BfqStats {
        match (&self.policy, &self.retired) {
            (Policy::Bfq(bfq), _) => bfq.stats(),
            (Policy::RoundRobin(_), Some(counters)) => counters.device(&merge::Counters::new(), 0),
            (Policy::RoundRobin(_), None) => BfqStats::default(),
        }
    }

    /// What BFQ has counted of a cgroup, without what is below it.
    pub(crate) fn cgroup_stats(&self, cgroup: u32) -> BfqCgroupStats {
        match (&self.policy, &self.retired) {
            (Policy::Bfq(bfq), _) => bfq.cgroup_stats(cgroup),
            (Policy::RoundRobin(_), Some(counters)) => counters.cgroup(cgroup, 0),
            (Policy::RoundRobin(_), None) => BfqCgroupStats::default(),
        }
    }

    /// The device takes `depth` requests at a time from now on.
    pub(crate) fn set_depth(&mut self, depth: NonZeroU32) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.set_depth(depth),
        }
    }

    /// When [`Scheduler::handle_timeout`] is due: a request may wait for a while although the device has room.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.policy {
            Policy::RoundRobin(_) => None,
            Policy::Bfq(bfq) => bfq.deadline(),
        }
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant, tree: &Tree, requests: &Requests) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.handle_timeout(now, tree, requests),
        }
    }

    /// The priority of a client, or what its cgroup makes of it, has changed.
    pub(crate) fn reprioritize(&mut self, tree: &Tree, client: u32) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.reprioritize(tree, client),
        }
    }

    /// Whether weights may be raised is another question than it was.
    pub(crate) fn review_policies(&mut self, now: Instant, tree: &Tree) {
        if let Policy::Bfq(bfq) = &mut self.policy {
            bfq.review_policies(now, tree);
        }
    }

    /// What a cgroup makes of the priority of its writeback has changed.
    pub(crate) fn reprioritize_writeback(&mut self, tree: &Tree, cgroup: u32) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.reprioritize_writeback(tree, cgroup),
        }
    }

    /// Requests waiting.
    pub(crate) fn len(&self) -> u32 {
        match &self.policy {
            Policy::RoundRobin(round_robin) => round_robin.len(),
            Policy::Bfq(bfq) => bfq.len(),
        }
    }

    /// Puts all that waits into the lists of its tasks: it may be outside of them while nobody asks.
    pub(crate) fn spill_fast_path(&mut self, tree: &mut Tree, requests: &mut Requests) {
        match &mut self.policy {
            Policy::RoundRobin(round_robin) => round_robin.spill_fast_path(tree, requests),
            Policy::Bfq(_) => {}
        }
    }

    /// Learns of a request that is at the device already: another scheduler has sent it.
    pub(crate) fn adopt(&mut self, tree: &Tree, requests: &Requests, index: u32) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.adopt(tree, requests, index),
        }
    }

    /// Ends: nothing in `tree` remembers a turn. No request is left.
    pub(crate) fn leave(&mut self, tree: &mut Tree) {
        match &mut self.policy {
            Policy::RoundRobin(round_robin) => round_robin.leave(tree),
            Policy::Bfq(_) => {}
        }
    }

    /// Takes in a request that is past every limit since `now`.
    // In place on the way of each request, though a switch of schedulers calls it too.
    #[inline(always)]
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
        arriving: Arriving,
    ) {
        match &mut self.policy {
            Policy::RoundRobin(round_robin) => {
                round_robin.insert(tree, requests, arriving.task, arriving.index);
            }
            Policy::Bfq(bfq) => bfq.insert(now, tree, requests, arriving),
        }
    }

    /// The request that goes to the device now.
    #[inline]
    pub(crate) fn next(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
    ) -> Option<u32> {
        match &mut self.policy {
            Policy::RoundRobin(round_robin) => round_robin.next(tree, requests),
            Policy::Bfq(bfq) => bfq.next(now, tree, requests),
        }
    }

    /// Whether [`Scheduler::next_coalesced`] ever has one.
    #[inline]
    pub(crate) fn coalesces(&self) -> bool {
        matches!(self.policy, Policy::Bfq(_))
    }

    /// The request that goes to the device with the one before it, as one. `room`: how many the device has room for
    /// besides.
    pub(crate) fn next_coalesced(
        &mut self,
        now: Instant,
        room: u32,
        tree: &mut Tree,
        requests: &mut Requests,
    ) -> Option<u32> {
        match &mut self.policy {
            Policy::RoundRobin(_) => None,
            Policy::Bfq(bfq) => bfq.next_coalesced(now, room, tree, requests),
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
        match &mut self.policy {
            Policy::RoundRobin(round_robin) => round_robin.remove(tree, requests, task, index),
            Policy::Bfq(bfq) => bfq.remove(tree, requests, task, index),
        }
    }

    /// A request that waits is synchronous from now on, as one of the task `to`. O(log requests of the flow).
    pub(crate) fn promote(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
        index: u32,
        to: u32,
    ) {
        let from = requests[index].task;
        // Without flows a request keeps its place in its task.
        let moves = self.coalesces() || from != to;
        if moves {
            self.remove(tree, requests, from, index);
        }
        let record = &mut requests[index];
        record.task = to;
        record.request.sync = true;
        let request = record.request;
        if moves {
            self.insert(now, tree, requests, Arriving { request: &request, task: to, index });
        }
    }

    /// The request that was at `index`, of `data_len` bytes of data, is back from the device.
    pub(crate) fn complete(
        &mut self,
        now: Instant,
        tree: &Tree,
        requests: &Requests,
        index: u32,
        data_len: u32,
    ) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.complete(now, tree, requests, index, data_len),
        }
    }

    /// Forgets a client that is going away; it has no request left.
    pub(crate) fn forget(&mut self, tree: &Tree, requests: &Requests, client: u32) {
        match &mut self.policy {
            Policy::RoundRobin(round_robin) => round_robin.forget(tree, client),
            Policy::Bfq(bfq) => bfq.forget(tree, requests, client),
        }
    }

    /// Forgets a cgroup that is going away; no client is left below it.
    ///
    /// What was counted of it stays with its parent.
    pub(crate) fn forget_cgroup(&mut self, tree: &Tree, requests: &Requests, cgroup: u32) {
        if let Some(counters) = &mut self.retired {
            counters.fold(cgroup, tree.cgroups[cgroup].parent);
        }
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.forget_cgroup(tree, requests, cgroup),
        }
    }

    /// Ends the slot under way if it is of a flow in `cgroup` or below: something about that is to change.
    pub(crate) fn take_device_from(&mut self, tree: &Tree, requests: &Requests, cgroup: u32) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.take_device_from(tree, requests, cgroup),
        }
    }

    /// A cgroup that does not have the device has got another weight or class, in `tree`.
    pub(crate) fn update_cgroup_prio(&mut self, tree: &Tree, cgroup: u32) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.update_cgroup_prio(tree, cgroup),
        }
    }

    /// A cgroup has got another parent, in `tree`; the old one is still there.
    pub(crate) fn move_cgroup(&mut self, tree: &Tree, requests: &Requests, cgroup: u32) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.move_cgroup(tree, requests, cgroup),
        }
    }

    /// See [`crate::Engine::check`].
    ///
    /// # Errors
    /// A text that says what does not hold.
    pub(crate) fn check(&mut self, tree: &Tree, requests: &Requests) -> Result<(), String> {
        match &mut self.policy {
            Policy::RoundRobin(_) => Ok(()),
            Policy::Bfq(bfq) => bfq.check(tree, requests),
        }
    }
}

impl Policy {
    fn new(config: &Config, counters: Counters) -> Policy {
        match config.scheduler {
            SchedulerKind::None => Policy::RoundRobin(RoundRobin::new()),
            SchedulerKind::Bfq => Policy::Bfq(Box::new(Bfq::new(
                &config.bfq,
                config.rotational,
                config.depth,
                counters,
            ))),
        }
    }
}
