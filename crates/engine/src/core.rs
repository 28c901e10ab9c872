//! Everything an engine holds, shared by the parts of it that `impl` their step of a request's way.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::config::Config;
use crate::deadlines::{Due, Timer};
use crate::event::Event;
use crate::priority::PrioClass;
use crate::request::Direction;
use crate::requests::Requests;
use crate::scheduler::Scheduler;
use crate::stats::Audit;
use crate::throttle::Clocks;
use crate::time::Instant;
use crate::tree::Tree;
use crate::utilisation::Modelled;

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
            in_flight: 0,
            joined: 0,
            busy_since: Instant::ZERO,
            busy_ns: 0,
            stamp: 0,
            path: Vec::new(),
        }
    }

    /// Sets what becomes of the classes of a cgroup's clients, and its own. O(clients).
    pub(crate) fn set_prio_class(&mut self, cgroup: u32, prio_class: PrioClass) {
        self.scheduler.take_device_from(&self.tree, &self.requests, cgroup);
        self.tree.cgroups[cgroup].prio_class = prio_class;
        self.scheduler.update_cgroup_prio(&self.tree, cgroup);
        for (client, of) in self.tree.clients.iter() {
            if of.cgroup == cgroup {
                self.scheduler.reprioritize(&self.tree, client);
            }
        }
        self.scheduler.reprioritize_writeback(&self.tree, cgroup);
    }

    /// How many requests the device has room for; what went there as one counts as one.
    pub(crate) fn room(&self) -> u32 {
        self.config.depth.get().saturating_sub(self.in_flight - self.joined)
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

    /// Lets go whatever a deadline that has come by `now` held.
    pub(crate) fn fire_due(&mut self, now: Instant) {
        while let Some(due) = self.pop_due(now) {
            self.fire(now, due);
        }
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
