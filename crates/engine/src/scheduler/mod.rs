//! Scheduler: order at the device of the requests that no limit holds.
//!
//! A scheduler gets a request when it has passed every limit, and gives it out when the device has room. It stores no
//! request: lists are threaded through the records, turns through clients and tasks.

mod round_robin;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::num::NonZeroU32;

use self::round_robin::RoundRobin;
use crate::bfq::{Bfq, BfqCgroupStats, BfqSettings, BfqStats, CgroupCounts, Counters};
use crate::config::Config;
use crate::merge;
use crate::requests::{Arriving, Requests};
use crate::tree::Tree;
use crate::types::{Instant, SchedulerKind, TaskId};

/// The scheduler of an engine, and the counters of BFQ while another is active.
pub(crate) struct Scheduler {
    policy: Policy,
    /// Counters of BFQ while another scheduler is active.
    retired: Option<Box<Counters>>,
}

/// An enum: a branch that always goes the same way.
enum Policy {
    RoundRobin(RoundRobin),
    Bfq(Box<Bfq>),
}

impl Scheduler {
    pub(crate) fn new(config: &Config) -> Scheduler {
        Scheduler { policy: Policy::new(config, Counters::default()), retired: None }
    }

    /// Replaces this scheduler, which has no request, by that of `config`. Counters continue.
    pub(crate) fn replace(&mut self, config: &Config) {
        let retired = self.retired.take_if(|_| config.scheduler != SchedulerKind::None);
        let counters = retired.map_or_else(Counters::default, |counters| *counters);
        let old = core::mem::replace(&mut self.policy, Policy::new(config, counters));
        if let Policy::Bfq(bfq) = old {
            self.retired = Some(Box::new(bfq.into_counters()));
        }
    }

    /// Applies settings of BFQ, if it is the scheduler.
    pub(crate) fn set_bfq(&mut self, settings: &BfqSettings) {
        if let Policy::Bfq(bfq) = &mut self.policy {
            bfq.set_tunables(settings);
        }
    }

    /// Counters of BFQ.
    pub(crate) fn stats(&self) -> BfqStats {
        match (&self.policy, &self.retired) {
            (Policy::Bfq(bfq), _) => bfq.stats(),
            (Policy::RoundRobin(_), Some(counters)) => counters.device(&merge::Counters::new(), 0),
            (Policy::RoundRobin(_), None) => BfqStats::default(),
        }
    }

    /// Counters of BFQ for a cgroup, without those below it.
    pub(crate) fn cgroup_stats(&self, cgroup: u32) -> BfqCgroupStats {
        match (&self.policy, &self.retired) {
            (Policy::Bfq(bfq), _) => bfq.cgroup_stats(cgroup),
            (Policy::RoundRobin(_), Some(counters)) => counters.cgroup(cgroup, 0),
            (Policy::RoundRobin(_), None) => BfqCgroupStats::default(),
        }
    }

    /// Changes the device's depth.
    pub(crate) fn set_depth(&mut self, depth: NonZeroU32) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.set_depth(depth),
        }
    }

    /// Instant at which [`Scheduler::handle_timeout`] is due: a request may wait although the device has room.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.policy {
            Policy::RoundRobin(_) => None,
            Policy::Bfq(bfq) => bfq.deadline(),
        }
    }

    /// Handles the passing of time.
    pub(crate) fn handle_timeout(&mut self, now: Instant, tree: &Tree, requests: &Requests) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.handle_timeout(now, tree, requests),
        }
    }

    /// Applies a client's new priority.
    pub(crate) fn reprioritize(&mut self, tree: &Tree, client: u32) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.reprioritize(tree, client),
        }
    }

    /// Applies changed settings of weight raising.
    pub(crate) fn review_policies(&mut self, now: Instant, tree: &Tree) {
        if let Policy::Bfq(bfq) = &mut self.policy {
            bfq.review_policies(now, tree);
        }
    }

    /// Applies the new priority of a cgroup's writeback.
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

    /// Moves all waiting requests into the lists of their tasks.
    pub(crate) fn spill_fast_path(&mut self, tree: &mut Tree, requests: &mut Requests) {
        match &mut self.policy {
            Policy::RoundRobin(round_robin) => round_robin.spill_fast_path(tree, requests),
            Policy::Bfq(_) => {}
        }
    }

    /// Accounts for a request that another scheduler has dispatched.
    pub(crate) fn adopt(&mut self, tree: &Tree, requests: &Requests, index: u32) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.adopt(tree, requests, index),
        }
    }

    /// Removes all turns from `tree`; no request is left.
    pub(crate) fn leave(&mut self, tree: &mut Tree) {
        match &mut self.policy {
            Policy::RoundRobin(round_robin) => round_robin.leave(tree),
            Policy::Bfq(_) => {}
        }
    }

    /// Inserts a request that has passed every limit.
    // Inline on the hot path, although a switch of schedulers calls it too.
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

    /// Takes out the next request for the device.
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

    /// Whether [`Scheduler::next_coalesced`] ever returns one.
    #[inline]
    pub(crate) fn coalesces(&self) -> bool {
        matches!(self.policy, Policy::Bfq(_))
    }

    /// Takes out the request that coalesces with the one before it. `room`: how many more requests the device has
    /// room for.
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

    /// Takes out a waiting request.
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

    /// Makes a waiting request synchronous, as one of task `to`. O(log requests of the flow).
    pub(crate) fn promote(
        &mut self,
        now: Instant,
        tree: &mut Tree,
        requests: &mut Requests,
        index: u32,
        to: TaskId,
    ) {
        let from = requests[index].task();
        // Without flows a request stays in its place.
        let moves = self.coalesces() || from != to.index;
        if moves {
            self.remove(tree, requests, from, index);
        }
        let record = &mut requests[index];
        record.request.task = to;
        record.request.sync = true;
        let request = record.request;
        if moves {
            self.insert(now, tree, requests, Arriving { request: &request, task: to.index, index });
        }
    }

    /// The device has completed the request at `index`, of `data_len` bytes of data.
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

    /// Removes a client without requests.
    pub(crate) fn forget(&mut self, tree: &Tree, requests: &Requests, client: u32) {
        match &mut self.policy {
            Policy::RoundRobin(round_robin) => round_robin.forget(tree, client),
            Policy::Bfq(bfq) => bfq.forget(tree, requests, client),
        }
    }

    /// Removes a cgroup without clients below it. Answers what BFQ had counted of it.
    pub(crate) fn forget_cgroup(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        cgroup: u32,
    ) -> BfqCgroupStats {
        match (&mut self.policy, &mut self.retired) {
            (Policy::Bfq(bfq), _) => bfq.forget_cgroup(tree, requests, cgroup),
            (Policy::RoundRobin(_), Some(counters)) => counters.forget(cgroup),
            (Policy::RoundRobin(_), None) => BfqCgroupStats::default(),
        }
    }

    /// The counters of BFQ for a cgroup, for other threads to read, whichever scheduler is active.
    pub(crate) fn share_counts(&mut self, cgroup: u32) -> Arc<CgroupCounts> {
        match &mut self.policy {
            Policy::Bfq(bfq) => bfq.share_counts(cgroup),
            Policy::RoundRobin(_) => self.retired.get_or_insert_default().share(cgroup),
        }
    }

    /// Expires the flow in service if it is in `cgroup` or below, before a change there.
    pub(crate) fn take_device_from(&mut self, tree: &Tree, requests: &Requests, cgroup: u32) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.take_device_from(tree, requests, cgroup),
        }
    }

    /// Applies a cgroup's new weight or class from `tree`. The cgroup is not in service.
    pub(crate) fn update_cgroup_prio(&mut self, tree: &Tree, cgroup: u32) {
        match &mut self.policy {
            Policy::RoundRobin(_) => {}
            Policy::Bfq(bfq) => bfq.update_cgroup_prio(tree, cgroup),
        }
    }

    /// Applies a cgroup's new parent from `tree`; the old one still exists.
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
    #[cfg_attr(not(feature = "bfq"), allow(unused_variables))]
    fn new(config: &Config, counters: Counters) -> Policy {
        match config.scheduler {
            SchedulerKind::None => Policy::RoundRobin(RoundRobin::new()),
            #[cfg(feature = "bfq")]
            SchedulerKind::Bfq => Policy::Bfq(Box::new(Bfq::new(
                &config.bfq,
                config.rotational,
                config.depth,
                counters,
            ))),
        }
    }
}
