//! Everything an engine holds, shared by the parts of it that `impl` their step of a request's way.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::config::Config;
use crate::deadlines::{Due, Timer};
use crate::event::Event;
use crate::request::{Direction, Request};
use crate::requests::{Arriving, Requests};
use crate::scheduler::Scheduler;
use crate::stats::Audit;
use crate::throttle::{Clocks, Cost};
use crate::time::Instant;
use crate::tree::{List, Tree};
use crate::utilisation::{Modelled, Share};

/// The state behind [`crate::Engine`].
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) tree: Tree,
    pub(crate) requests: Requests,
    /// What limits go by, and what waits for it.
    pub(crate) clocks: Clocks,
    /// What the device's model makes of the same requests, where there is one.
    pub(crate) modelled: Option<Modelled>,
    pub(crate) scheduler: Scheduler,
    pub(crate) audit: Audit,
    pub(crate) events: VecDeque<Event>,
    /// Requests waiting for a limit.
    pub(crate) throttled: u32,
    /// Requests past every limit that the scheduler does not have yet, in order; empty between calls.
    pub(crate) ready: List,
    pub(crate) in_flight: u32,
    /// Those of them that went to the device as one with another.
    pub(crate) joined: u32,
    /// Since when the device has had a request, while it has one.
    pub(crate) busy_since: Instant,
    pub(crate) busy_ns: u64,
    stamp: u64,
    /// Path of limited cgroups, from a limit down to a request; kept to reuse its memory.
    pub(crate) path: Vec<u32>,
}

impl Core {
    pub(crate) fn new(config: Config, now: Instant) -> Core {
        Core {
            scheduler: Scheduler::new(&config),
            config,
            tree: Tree::new(),
            requests: Requests::new(),
            clocks: Clocks::new(now),
            modelled: config.capacity.map(|capacity| Modelled::new(now, capacity)),
            audit: Audit::default(),
            events: VecDeque::new(),
            throttled: 0,
            ready: List::EMPTY,
            in_flight: 0,
            joined: 0,
            busy_since: Instant::ZERO,
            busy_ns: 0,
            stamp: 0,
            path: Vec::new(),
        }
    }

    /// How many requests the device has room for; what went there as one counts as one.
    pub(crate) fn room(&self) -> u32 {
        self.config.depth.get().saturating_sub(self.in_flight - self.joined)
    }

    /// Since when, or from when on, the device has capacity that nothing on its way there will use; `None` as long as
    /// something has to happen before that is known.
    ///
    /// Where the device was measured, that is when the device of its model has done what it was given, whatever is still at
    /// the real one. Otherwise it is when nothing is there.
    pub(crate) fn rests_from(&self, now: Instant) -> Option<Instant> {
        let from = match &self.modelled {
            Some(modelled) => modelled.free_at().max(now),
            None if self.in_flight == 0 => now,
            None => return None,
        };
        (self.scheduler.len() == 0).then_some(from)
    }

    /// Time goes on to `now`: the clocks learn when the device worked.
    #[inline(never)]
    pub(crate) fn advance_clocks(&mut self, now: Instant) {
        let Core { clocks, modelled, in_flight, .. } = self;
        match modelled {
            Some(modelled) => modelled.advance(now, |until, works| clocks.advance(until, works)),
            None => clocks.advance(now, *in_flight > 0),
        }
    }

    /// How much of the device was used within the last half second; `None` where no watermark asks for it.
    pub(crate) fn utilisation(&self) -> Option<Share> {
        let share = self.clocks.utilisation()?;
        Some(self.modelled.as_ref().map_or(share, Modelled::share))
    }

    /// Sets clocks forward for as long as nothing is at the device, nor on its way there, and something waits that may go
    /// early.
    ///
    /// O(log armed) for each cgroup that is looked at, and each is looked at once for every request that it lets go.
    pub(crate) fn advance_virtual_clocks(&mut self, now: Instant) {
        while self.rests_from(now).is_some_and(|from| from <= now)
            && self.advance_virtual_clock(now)
        {
            self.schedule_ready(now);
        }
    }

    /// A number never given before, and not 0. At one a nanosecond it lasts 584 years.
    pub(crate) fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// Wakes `cgroup` when its clock shows `at` for `direction`, after those that are to be woken then already; nothing happens if that
    /// is set.
    pub(crate) fn arm(&mut self, cgroup: u32, direction: Direction, at: Instant) {
        let stamp = self.next_stamp();
        self.arm_as(cgroup, direction, at, stamp);
    }

    /// The same, in the place among the others that `stamp` gives it.
    pub(crate) fn arm_as(&mut self, cgroup: u32, direction: Direction, at: Instant, stamp: u64) {
        let node = &mut self.tree.cgroups[cgroup];
        let (clock, depth) = (node.clock, node.depth);
        let deadlines = self.clocks.deadlines_mut(clock);
        let timer = &mut node.dir_mut(direction).timer;
        if timer.fires_at() == Some(at) {
            return;
        }
        deadlines.arm(timer, at, depth, Due { cgroup, direction }, stamp);
        if deadlines.is_full() {
            self.sweep_deadlines(clock);
        }
    }

    /// Makes room for the next deadline of a clock.
    #[cold]
    fn sweep_deadlines(&mut self, clock: u16) {
        let tree = &self.tree;
        self.clocks.deadlines_mut(clock).sweep(|due| timer_of(tree, due));
    }

    pub(crate) fn disarm(&mut self, cgroup: u32, direction: Direction) {
        self.tree.cgroups[cgroup].dir_mut(direction).timer.disarm();
    }

    /// The next deadline that has come by `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Due> {
        let tree = &self.tree;
        self.clocks.pop_due(now, |due| timer_of(tree, due))
    }

    /// The next request that is past every limit; deadlines that have come by `now` are applied until there is one.
    pub(crate) fn pop_ready(&mut self, now: Instant) -> Option<u32> {
        loop {
            if let Some(index) = self.take_ready() {
                return Some(index);
            }
            let due = self.pop_due(now)?;
            self.fire(now, due);
        }
    }

    /// The next request that the last change has let past every limit.
    #[inline]
    pub(crate) fn take_ready(&mut self) -> Option<u32> {
        if self.ready.is_empty() {
            return None;
        }
        self.ready.pop_front(&mut self.requests)
    }

    /// Gives the scheduler what the last change has let past every limit.
    #[inline]
    pub(crate) fn schedule_ready(&mut self, now: Instant) {
        while let Some(index) = self.take_ready() {
            self.schedule_passed(now, index);
        }
    }

    /// Gives the scheduler the request in slot `index`, which had waited for a limit and is past all of them.
    pub(crate) fn schedule_passed(&mut self, now: Instant, index: u32) {
        let record = &mut self.requests[index];
        let unblamed_ns = now.nanos_since(record.since);
        record.since = now;
        let (request, task, cost) = (record.request, record.task, record.cost);
        let cgroup = self.tree.tasks[task].cgroup;
        self.schedule(now, request, task, cgroup, index, cost, unblamed_ns);
    }

    /// Gives the scheduler the request of `task` in slot `index`, or its first piece where it is longer than the device is
    /// to take at once. It is charged; `lifted_ns` it had waited for limits that are no more.
    // In place on the way of each request.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "in place, where all of this is at hand")]
    pub(crate) fn schedule(
        &mut self,
        now: Instant,
        mut request: Request,
        task: u32,
        cgroup: u32,
        index: u32,
        cost: Cost,
        lifted_ns: u64,
    ) {
        let d = request.op.direction().index();
        self.audit.charged[d].add(cost);
        self.audit.ready[d].add(cost);
        self.tree.cgroups[cgroup].account_mut().passed(&request, lifted_ns);
        if let Some(bytes_max) = self.config.piece_bytes_max
            && request.extent.len > bytes_max.get()
        {
            let record = &mut self.requests[index];
            record.cut_to(self.config.longest_piece(request.op));
            request = record.request;
        }
        let Core { scheduler, tree, requests, .. } = self;
        scheduler.insert(now, tree, requests, Arriving { request: &request, task, index });
    }

    /// Makes the earliest deadline of each clock a live one; after every call that may have voided one.
    pub(crate) fn settle_deadlines(&mut self) {
        let tree = &self.tree;
        self.clocks.settle(|due| timer_of(tree, due));
    }
}

pub(crate) fn timer_of(tree: &Tree, due: Due) -> Option<Timer> {
    tree.cgroups.get(due.cgroup).map(|cgroup| cgroup.dir(due.direction).timer)
}
