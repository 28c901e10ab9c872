//! Throttle: limits over a tree of cgroups, and the order of requests that wait for the same one.
//!
//! A request that every limit of its path lets through, with nothing waiting before it, passes in the call that
//! submits it. Any other waits, in its task's list. Each cgroup with something waiting below it orders its
//! *sources* (clients and child cgroups) in an [`FairQueue`]; a cgroup whose limit lets a request go is *eligible*,
//! and an active source of its parent; what the topmost limit lets go, goes. A cgroup whose limit says "not yet" is not
//! active, and has a deadline instead.
//!
//! The next request is chosen when it may go, from the top down, so a late request with the better claim is
//! not stuck behind a queue. Slices are the exception, for parity with the kernel, and have a module with queues of their
//! own ([`slice`]).
//!
//! A request that costs more than one instalment of a limit of its path pays one after the other, each in its turn, and
//! goes with the last ([`instalment`]).
//!
//! Reads and writes wait apart, in queues of their own. A cgroup may have a limit on both together, which either is
//! charged to; see [`rw_limit`].

mod account;
mod admit;
mod cgroup;
mod check;
mod client;
mod deadlines;
mod dequeue;
mod eligibility;
mod fair_queue;
mod instalment;
mod leaky;
mod leases;
mod limiter;
mod limits_error;
mod pace;
mod rate_limiter;
mod reconfigure;
mod rw_dispatch;
mod rw_limit;
#[cfg(test)]
mod single;
#[cfg_attr(not(feature = "slice"), path = "slice/without.rs")]
mod slice;
mod timers;
mod token;
mod watermark;

use alloc::sync::Arc;
use alloc::vec::Vec;

pub(crate) use account::WaitAccount;
pub(crate) use admit::Admission;
pub use limits_error::LimitsError;
pub use watermark::WatermarkStats;

use crate::price::Prices;
use crate::requests::Requests;
use crate::stats::{Charge, TaskStats};
use crate::throttle::cgroup::CgroupThrottle;
use crate::throttle::client::{ClientThrottle, TaskThrottle};
use crate::throttle::leases::Leases;
use crate::throttle::limiter::{Arrival, Verdict};
use crate::throttle::slice::SliceQueues;
use crate::throttle::watermark::{LimitTime, Watermarks};
use crate::tree::Slots;
use crate::tree::{List, NO_CGROUP, NO_INDEX, ROOT, Tree};
use crate::types::{Cost, Dimension, Direction, Instant, Lease, Limits, Watermark};
use crate::utilisation::Share;

/// Limits of all cgroups, and the requests that wait for them.
///
/// It never calls out: what it lets go is taken with [`Throttle::take_ready`] and [`Throttle::pop_ready`].
pub(crate) struct Throttle {
    cgroups: Slots<CgroupThrottle>,
    clients: Slots<ClientThrottle>,
    tasks: Slots<TaskThrottle>,
    /// Clocks of limits, and the deadlines by each.
    watermarks: Watermarks,
    /// Requests between two limits of slices.
    slices: SliceQueues,
    leases: Leases,
    /// Whether a watermark or a lease is in use: then a call looks at the time before anything else.
    tracks_time: bool,
    prices: Prices,
    /// Requests past every limit that have not been taken yet, in order; empty between calls of the engine.
    ready: List,
    /// Requests waiting for a limit.
    throttled: u32,
    /// Charged so far to requests that still wait for the next instalment.
    part_paid: [Charge; 2],
    stamp: u64,
    /// Path of limited cgroups, from a limit down to a request; kept to reuse its memory.
    path: Vec<u32>,
}

/// What the throttle works on and does not own.
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) tree: &'a Tree,
    pub(crate) requests: &'a mut Requests,
}

impl Throttle {
    /// That of a hierarchy with nothing but the root.
    pub(crate) fn new(prices: Prices, now: Instant) -> Throttle {
        let mut cgroups = Slots::new();
        cgroups.set(ROOT, CgroupThrottle::new());
        Throttle {
            cgroups,
            clients: Slots::new(),
            tasks: Slots::new(),
            watermarks: Watermarks::new(now),
            slices: SliceQueues::new(),
            leases: Leases::default(),
            tracks_time: false,
            prices,
            ready: List::EMPTY,
            throttled: 0,
            part_paid: [Charge::default(); 2],
            stamp: 0,
            path: Vec::new(),
        }
    }

    // Members of the hierarchy.

    /// The cgroup in slot `index` is new, without limits, below `parent`.
    pub(crate) fn add_cgroup(&mut self, index: u32, parent: u32) {
        let mut cgroup = CgroupThrottle::new();
        for direction in Direction::BOTH {
            cgroup.dir_mut(direction).parent_limit = self.nearest_limit(parent, direction);
        }
        self.cgroups.set(index, cgroup);
        self.watermarks.add_cgroup(index, parent);
    }

    /// The cgroup in slot `index` is gone; nothing waits in it.
    pub(crate) fn remove_cgroup(&mut self, index: u32) {
        self.watermarks.remove_cgroup(index);
        self.leases.set(index, None);
        self.review_time_tracking();
        self.cgroups.set(index, CgroupThrottle::new());
        self.slices.remove_cgroup(index);
    }

    /// The client in slot `index` is new.
    pub(crate) fn add_client(&mut self, index: u32) {
        self.clients.set(index, ClientThrottle::new());
    }

    /// The client in slot `index` of `cgroup` is gone; nothing of it waits.
    pub(crate) fn remove_client(&mut self, index: u32, cgroup: u32) {
        for direction in Direction::BOTH {
            let source_state = self.clients[index].dir(direction).source_state;
            if let Some(queue) = &mut self.cgroups[cgroup].dir_mut(direction).queue {
                queue.fair_queue.carry_over(source_state);
            }
        }
    }

    /// The task in slot `index` is new.
    pub(crate) fn add_task(&mut self, index: u32) {
        self.tasks.set(index, TaskThrottle::new());
    }

    // What it let go.

    /// The next request that is past every limit; deadlines that have come by `now` are applied until there is one.
    pub(crate) fn pop_ready(&mut self, cx: &mut Context<'_>) -> Option<u32> {
        loop {
            if let Some(index) = self.take_ready(cx.requests) {
                return Some(index);
            }
            let due = self.pop_due(cx.now)?;
            self.fire(cx, due);
        }
    }

    /// The next request that the last change has let past every limit.
    #[inline]
    pub(crate) fn take_ready(&mut self, requests: &mut Requests) -> Option<u32> {
        if self.ready.is_empty() {
            return None;
        }
        self.ready.pop_front(requests)
    }

    // What there is.

    /// The limits that are set for a cgroup.
    pub(crate) fn limits(&self, cgroup: u32) -> Limits {
        self.cgroups[cgroup].limits()
    }

    /// When the limits of a cgroup end, if they do.
    pub(crate) fn lease(&self, cgroup: u32) -> Option<Lease> {
        self.leases.of(cgroup)
    }

    /// The watermark that is set for a cgroup itself.
    pub(crate) fn watermark(&self, cgroup: u32) -> Option<Watermark> {
        self.watermarks.watermark(cgroup)
    }

    /// Requests waiting for a limit.
    pub(crate) fn len(&self) -> u32 {
        self.throttled
    }

    /// Charged so far to requests that still wait for the next instalment.
    pub(crate) fn part_paid(&self) -> [Charge; 2] {
        self.part_paid
    }

    /// A request of `task` that waits in its list.
    pub(crate) fn waiting(&self, task: u32) -> Option<u32> {
        let heads = Direction::BOTH.map(|direction| self.tasks[task].dir(direction).waiting.head);
        heads.into_iter().find(|&head| head != NO_INDEX)
    }

    /// What limits did to a task.
    pub(crate) fn task_stats(&self, task: u32) -> TaskStats {
        self.tasks[task].stats()
    }

    /// Allocates what requests of `cgroup` need, where a limit is on their path. Answers where their waits are counted.
    pub(crate) fn open_account(&mut self, cgroup: u32) -> Arc<WaitAccount> {
        if Direction::BOTH.iter().any(|&direction| self.is_limited(cgroup, direction)) {
            self.cgroups[cgroup].account();
        }
        self.cgroups[cgroup].share_account()
    }

    /// Whether a limit is on the path of requests in `cgroup`.
    pub(crate) fn is_limited(&self, cgroup: u32, direction: Direction) -> bool {
        self.nearest_limit(cgroup, direction) != NO_CGROUP
    }

    /// The nearest cgroup with a limit in `direction`, from `cgroup` upwards; [`NO_CGROUP`] if there is none.
    fn nearest_limit(&self, cgroup: u32, direction: Direction) -> u32 {
        let dir = self.cgroups[cgroup].dir(direction);
        if dir.limiter.is_some() { cgroup } else { dir.parent_limit }
    }

    /// The same, from the parent of `cgroup` upwards.
    fn parent_limit(&self, cgroup: u32, direction: Direction) -> u32 {
        self.cgroups[cgroup].dir(direction).parent_limit
    }

    // Limits.

    /// Time of the limits of `cgroup` at `now`, which is `now` where no watermark is in use. Before each use of a limiter:
    /// it learns here that a gate was open meanwhile.
    #[inline]
    fn limit_time(&mut self, cgroup: u32, now: Instant) -> LimitTime {
        match self.watermarks.is_steered() {
            false => LimitTime::real(now),
            true => self.watermark_time(cgroup, now),
        }
    }

    /// Whether the limits of `cgroup` let a head of `cost` go at `now`; a wait is in the time of its clock.
    fn check_limit(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        cost: Cost,
        arrival: Arrival,
    ) -> Verdict<Dimension> {
        let time = self.limit_time(cgroup, cx.now);
        self.cgroups[cgroup].check(time, direction, cost, arrival)
    }

    /// Charges `cost` to the limits of `cgroup`, which have let it go at `now`; it may be an instalment of what was `owed`.
    fn charge_limit(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        cost: Cost,
        owed: Option<Cost>,
    ) {
        let time = self.limit_time(cgroup, cx.now);
        let node = &mut self.cgroups[cgroup];
        node.charge(time, direction, cost, owed);
        if node.rw_limit.is_some() {
            self.deactivate_ineligible(cx, cgroup, direction.other());
        }
    }

    /// What is left of the burst of a cgroup that has a limit in `dimension`.
    pub(crate) fn burst_left(
        &self,
        now: Instant,
        cgroup: u32,
        dimension: Dimension,
    ) -> Option<u64> {
        let node = &self.cgroups[cgroup];
        let limiter = match dimension.direction() {
            Some(direction) => node.limiter(direction)?,
            None => node.rw_limit.as_ref()?.limiter(),
        };
        limiter.credit_left(self.watermarks.time(cgroup, now).at, dimension.resource())
    }

    // Time.

    /// Whether a watermark is in use.
    #[inline]
    pub(crate) fn is_steered(&self) -> bool {
        self.watermarks.is_steered()
    }

    /// Whether a watermark or a lease is in use.
    #[inline]
    pub(crate) fn tracks_time(&self) -> bool {
        self.tracks_time
    }

    /// Updates [`Throttle::tracks_time`], after leases or watermarks have changed. O(clocks).
    pub(crate) fn review_time_tracking(&mut self) {
        self.tracks_time = self.is_steered() || !self.leases.is_empty();
    }

    /// The first end of a lease that has come by `now`.
    pub(crate) fn lease_end(&self, now: Instant) -> Option<Instant> {
        self.leases.first_end().filter(|&end| end <= now)
    }

    /// Time goes on to `now`, with or without a request at the device all the while.
    pub(crate) fn advance(&mut self, now: Instant, is_busy: bool) {
        self.watermarks.advance(now, is_busy);
    }

    /// How much the device was used within the last half second; `None` where no watermark asks for it.
    pub(crate) fn utilisation(&self) -> Option<Share> {
        self.watermarks.utilisation()
    }

    /// Each watermark in use.
    pub(crate) fn watermarks(&self, now: Instant) -> Vec<WatermarkStats> {
        self.watermarks.stats(now)
    }
}
