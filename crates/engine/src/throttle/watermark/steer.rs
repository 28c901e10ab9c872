//! Watermarks in the throttle: clocks of cgroups, and advancing of virtual clocks.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::throttle::limiter::{Arrival, Verdict};
use crate::throttle::timers::timer_of;
use crate::throttle::{Context, Throttle};
use crate::tree::NO_CGROUP;
use crate::types::{Cost, Direction, Instant, Watermark};

impl Throttle {
    /// Notes demand from a client of `cgroup` if none of its limits follows utilisation. O(limited ancestors), where a
    /// watermark is in use.
    #[inline]
    pub(crate) fn note_if_unlimited(&mut self, cgroup: u32, direction: Direction) {
        if self.clocks.is_steered() {
            self.note_if_unlimited_steered(cgroup, direction);
        }
    }

    #[inline(never)]
    fn note_if_unlimited_steered(&mut self, cgroup: u32, direction: Direction) {
        if !self.follows_utilisation(cgroup, direction) {
            self.clocks.note_unlimited_demand();
        }
    }

    /// Whether any limit of `cgroup` and above follows the device's utilisation.
    fn follows_utilisation(&self, cgroup: u32, direction: Direction) -> bool {
        let mut at = self.nearest_limit(cgroup, direction);
        while at != NO_CGROUP && self.clocks.get(self.cgroups[at].clock).is_real() {
            at = self.parent_limit(at, direction);
        }
        at != NO_CGROUP
    }

    /// Applies a gate opening that the limits of `cgroup` do not know yet: at most a burst stays as debt of what went before
    /// (spec/throttle 2.6). Call it before each use of a limiter; an opening then visits no cgroup.
    #[inline]
    pub(crate) fn sync_with_watermark(&mut self, cgroup: u32) {
        if self.clocks.is_steered() {
            self.sync_with_gate(cgroup);
        }
    }

    #[inline(never)]
    fn sync_with_gate(&mut self, cgroup: u32) {
        let node = &mut self.cgroups[cgroup];
        node.sync_with_watermark(self.clocks.get(node.clock).gate_epoch());
    }

    /// Advances the virtual clock whose first deadline is nearest, and fires that deadline. The device is idle. False
    /// if no clock may advance. O(clocks + log armed).
    pub(crate) fn advance_virtual_clock(&mut self, cx: &mut Context<'_>) -> bool {
        let cgroups = &self.cgroups;
        let due = self.clocks.pop_early(
            cx.now,
            |due| timer_of(cgroups, due),
            |cgroup| cx.tree.cgroups.get(cgroup).map(|_| cgroups[cgroup].confidence),
        );
        let Some(due) = due else { return false };
        self.fire(cx, due);
        while let Some(due) = self.pop_due(cx.now) {
            self.fire(cx, due);
        }
        while let Some(clock) = self.clocks.overflowing() {
            self.reset_clock_offset(cx, clock);
        }
        true
    }

    /// Anticipates the next request of `cgroup`, after one of `cost` is back from the device. O(limited ancestors),
    /// where a watermark is in use and the device is idle.
    pub(crate) fn anticipate(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        cost: Cost,
    ) {
        let nearest = self.nearest_limit(cgroup, direction);
        if let Some(overdue) = self.clocks.anticipation.overdue()
            && cx.tree.cgroups.get(overdue).is_some()
        {
            self.cgroups[overdue].confidence.learn(false);
        }
        let due = self.next_due(cx, nearest, direction, cost);
        self.clocks.anticipation.leave(due.map(|due| (nearest, due)));
    }

    /// Instant at which the limits from `nearest` upwards would allow another request of `cost`, without an advance of
    /// a clock; `None` if irrelevant or unknown.
    fn next_due(
        &mut self,
        cx: &mut Context<'_>,
        nearest: u32,
        direction: Direction,
        cost: Cost,
    ) -> Option<Instant> {
        if nearest == NO_CGROUP {
            return None;
        }
        let cost = self.instalment(nearest, direction, cost).unwrap_or(cost);
        let (mut at, mut latest) = (nearest, None);
        while at != NO_CGROUP {
            // Slices judge requests that have arrived, and give no forecast.
            if !self.cgroups[at].limit(direction).has_forecast() {
                return None;
            }
            let clock = self.clocks.get(self.cgroups[at].clock);
            let (is_real, time) = (clock.is_real(), clock.at(cx.now));
            let wait_ns = match self.check_limit(cx, at, direction, cost, Arrival::Fresh) {
                Verdict::Go => 0,
                // A limit on real time would hold it back.
                Verdict::Wait { .. } if is_real => return None,
                Verdict::Wait { until, .. } => until.nanos_since(time),
            };
            latest = latest.max(Some(cx.now.plus_nanos(wait_ns)));
            at = self.parent_limit(at, direction);
        }
        latest
    }

    /// Notes the return of an anticipated client, whose nearest limit is at `nearest`.
    pub(crate) fn note_return(&mut self, nearest: u32) {
        if let Some(in_time) = self.clocks.anticipation.returns(nearest) {
            self.cgroups[nearest].confidence.learn(in_time);
        }
    }

    /// Sets the watermark of `cgroup` and of all below it that have none of their own; `None` goes by what is set above.
    /// False if there are too many watermarks. O(cgroups below).
    pub(crate) fn set_watermark(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        watermark: Option<Watermark>,
    ) -> bool {
        let clock = match watermark {
            Some(watermark) => self.clocks.find(cx.now, watermark),
            None => Some(self.clock_above(cx, cgroup)),
        };
        let Some(clock) = clock else { return false };
        self.cgroups[cgroup].has_watermark = watermark.is_some();
        self.spread_clock(cx, cgroup, clock);
        true
    }

    /// The clock that `cgroup` goes by where it has no watermark of its own.
    fn clock_above(&self, cx: &mut Context<'_>, cgroup: u32) -> u16 {
        match cx.tree.cgroups[cgroup].parent {
            NO_CGROUP => super::clocks::REAL,
            parent => self.cgroups[parent].clock,
        }
    }

    /// Updates the clock of `cgroup` after a move.
    pub(crate) fn review_clock(&mut self, cx: &mut Context<'_>, cgroup: u32) {
        if !self.cgroups[cgroup].has_watermark {
            let clock = self.clock_above(cx, cgroup);
            self.spread_clock(cx, cgroup, clock);
        }
    }

    /// Sets the clock of `top` and of all below that follow it. O(cgroups below × log of them).
    fn spread_clock(&mut self, cx: &mut Context<'_>, top: u32, clock: u16) {
        let mut changed = BTreeSet::from([top]);
        // Parents come first.
        for at in cx.tree.subtree(top) {
            let parent = cx.tree.cgroups[at].parent;
            if !self.cgroups[at].has_watermark && changed.contains(&parent) {
                changed.insert(at);
            }
        }
        for &at in &changed {
            self.sync_with_watermark(at);
            let old = self.cgroups[at].clock;
            let (before, after) =
                (self.clocks.get(old).at(cx.now), self.clocks.get(clock).at(cx.now));
            let node = &mut self.cgroups[at];
            node.go_by(clock, self.clocks.get(clock));
            node.shift(before, after);
            self.slices.shift(at, before, after);
            self.clocks.leave(old);
            self.clocks.enter(clock);
            self.disarm(at, Direction::Read);
            self.disarm(at, Direction::Write);
        }
        self.clocks.review(cx.now);
        for &at in &changed {
            self.limits_changed(cx, at);
        }
    }

    /// Resets the offset of `clock`, and rebases its cgroups. O(cgroups), once in 73 years of its time.
    fn reset_clock_offset(&mut self, cx: &mut Context<'_>, clock: u16) {
        let before = self.clocks.get(clock).at(cx.now);
        self.clocks.reset_offset(clock);
        let all: Vec<u32> = cx.tree.cgroups.iter().map(|(index, _)| index).collect();
        let of_clock = all.into_iter().filter(|&at| self.cgroups[at].clock == clock);
        let of_clock: Vec<u32> = of_clock.collect();
        for &at in &of_clock {
            self.cgroups[at].shift(before, cx.now);
            self.slices.shift(at, before, cx.now);
            self.disarm(at, Direction::Read);
            self.disarm(at, Direction::Write);
        }
        for &at in &of_clock {
            self.limits_changed(cx, at);
        }
    }
}
