//! Timers of cgroups: when each looks again at what waits for its limit.

use crate::throttle::cgroup::CgroupThrottle;
use crate::throttle::deadlines::{Due, Timer};
use crate::throttle::limiter::Arrival;
use crate::throttle::{Context, Throttle};
use crate::tree::NO_CGROUP;
use crate::tree::Slots;
use crate::types::{Direction, Instant};

impl Throttle {
    /// A number never given before, and not 0. At one a nanosecond it lasts 584 years.
    pub(super) fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// Wakes `cgroup` when its clock shows `at` for `direction`, after those that are due then already; nothing happens if
    /// that is set.
    pub(super) fn arm(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        at: Instant,
    ) {
        let stamp = self.next_stamp();
        self.arm_as(cx, cgroup, direction, at, stamp);
    }

    /// The same, in the place among the others that `stamp` gives it.
    pub(super) fn arm_as(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        at: Instant,
        stamp: u64,
    ) {
        let deadlines = self.watermarks.deadlines_mut(cgroup);
        let timer = &mut self.cgroups[cgroup].dir_mut(direction).timer;
        if timer.fires_at() == Some(at) {
            return;
        }
        let depth = cx.tree.cgroups[cgroup].depth;
        deadlines.arm(timer, at, depth, Due { cgroup, direction }, stamp);
        if deadlines.is_full() {
            self.sweep_deadlines(cgroup);
        }
    }

    /// Makes room for the next deadline by the clock of `cgroup`.
    #[cold]
    fn sweep_deadlines(&mut self, cgroup: u32) {
        let cgroups = &self.cgroups;
        self.watermarks.deadlines_mut(cgroup).sweep(|due| timer_of(cgroups, due));
    }

    pub(super) fn disarm(&mut self, cgroup: u32, direction: Direction) {
        self.cgroups[cgroup].dir_mut(direction).timer.disarm();
    }

    /// Handles a deadline that has come.
    pub(super) fn fire(&mut self, cx: &mut Context<'_>, due: Due) {
        if self.slice_timer_fired(cx, due.cgroup, due.direction) {
            return;
        }
        let dir = self.cgroups[due.cgroup].dir_mut(due.direction);
        dir.timer.disarm();
        if dir.parent_limit == NO_CGROUP && !dir.has_rw_limit {
            // All that an update does where no other limit has a say.
            self.drain(cx, due.cgroup, due.direction, Arrival::Queued);
        } else {
            self.update_eligibility(cx, due.cgroup, due.direction, Arrival::Queued);
        }
    }

    /// The next deadline that has come by `now`.
    #[inline]
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Due> {
        let cgroups = &self.cgroups;
        self.watermarks.pop_due(now, |due| timer_of(cgroups, due))
    }

    /// Makes the earliest deadline of each clock a live one; after every call that may have voided one.
    pub(crate) fn settle_deadlines(&mut self) {
        let cgroups = &self.cgroups;
        self.watermarks.settle(|due| timer_of(cgroups, due));
    }

    /// When something may happen to what waits; the device has nothing to do from `rests_from` on. Right after
    /// [`Throttle::settle_deadlines`].
    #[inline]
    pub(crate) fn next_deadline(
        &self,
        rests_from: impl FnOnce() -> Option<Instant>,
    ) -> Option<Instant> {
        match self.tracks_time() {
            true => self.next_tracked_deadline(rests_from()),
            false => self.watermarks.earliest_real(),
        }
    }

    #[cold]
    fn next_tracked_deadline(&self, rests_from: Option<Instant>) -> Option<Instant> {
        let earliest = match self.watermarks.is_steered() {
            true => self.watermarks.wakes(rests_from),
            false => self.watermarks.earliest_real(),
        };
        earliest.into_iter().chain(self.leases.first_end()).min()
    }
}

pub(super) fn timer_of(cgroups: &Slots<CgroupThrottle>, due: Due) -> Option<Timer> {
    cgroups.get(due.cgroup).map(|cgroup| cgroup.dir(due.direction).timer)
}
