//! Watermarks in the throttle: clocks of cgroups, and advancing of virtual clocks.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::throttle::limiter::{Arrival, Verdict};
use crate::throttle::timers::timer_of;
use crate::throttle::watermark::LimitTime;
use crate::throttle::{Context, Throttle};
use crate::tree::NO_CGROUP;
use crate::types::{Cost, Direction, Instant, Watermark};

impl Throttle {
    /// Notes demand from a client of `cgroup` if none of its limits follows utilisation. O(limited ancestors), where a
    /// watermark is in use.
    #[inline]
    pub(crate) fn note_if_unlimited(&mut self, cgroup: u32, direction: Direction) {
        if self.watermarks.is_steered() {
            self.note_if_unlimited_steered(cgroup, direction);
        }
    }

    #[inline(never)]
    fn note_if_unlimited_steered(&mut self, cgroup: u32, direction: Direction) {
        if !self.follows_utilisation(cgroup, direction) {
            self.watermarks.note_unlimited_demand();
        }
    }

    /// Whether any limit of `cgroup` and above follows the device's utilisation.
    fn follows_utilisation(&self, cgroup: u32, direction: Direction) -> bool {
        let mut at = self.nearest_limit(cgroup, direction);
        while at != NO_CGROUP && self.watermarks.is_real(at) {
            at = self.parent_limit(at, direction);
        }
        at != NO_CGROUP
    }

    /// Reads the clock of `cgroup`'s limits, and applies a gate opening that they do not know yet: at most a burst stays as
    /// debt of what went before (spec/throttle 2.6). So an opening visits no cgroup.
    #[inline(never)]
    pub(in crate::throttle) fn watermark_time(&mut self, cgroup: u32, now: Instant) -> LimitTime {
        if let Some(opened) = self.watermarks.take_opening(cgroup) {
            self.cgroups[cgroup].forgive(opened);
        }
        self.watermarks.time(cgroup, now)
    }

    /// Advances the virtual clock whose first deadline is nearest, and fires that deadline. The device is idle. False
    /// if no clock may advance. O(clocks + log armed).
    pub(crate) fn advance_virtual_clock(&mut self, cx: &mut Context<'_>) -> bool {
        let cgroups = &self.cgroups;
        let due = self.watermarks.pop_early(
            cx.now,
            |due| timer_of(cgroups, due),
            |cgroup| cx.tree.cgroups.get(cgroup).is_some(),
        );
        let Some(due) = due else { return false };
        self.fire(cx, due);
        while let Some(due) = self.pop_due(cx.now) {
            self.fire(cx, due);
        }
        while let Some(clock) = self.watermarks.overflowing() {
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
        if let Some(overdue) = self.watermarks.anticipation.overdue()
            && cx.tree.cgroups.get(overdue).is_some()
        {
            self.watermarks.confidence_mut(overdue).learn(false);
        }
        let due = self.next_due(cx, nearest, direction, cost);
        self.watermarks.anticipation.leave(due.map(|due| (nearest, due)));
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
            let time = self.limit_time(at, cx.now);
            let wait_ns = match self.check_limit(cx, at, direction, cost, Arrival::Fresh) {
                Verdict::Go => 0,
                // A limit on real time would hold it back.
                Verdict::Wait { .. } if time.is_real => return None,
                Verdict::Wait { until, .. } => until.nanos_since(time.at),
            };
            latest = latest.max(Some(cx.now.plus_nanos(wait_ns)));
            at = self.parent_limit(at, direction);
        }
        latest
    }

    /// Notes the return of an anticipated client, whose nearest limit is at `nearest`.
    pub(crate) fn note_return(&mut self, nearest: u32) {
        if let Some(in_time) = self.watermarks.anticipation.returns(nearest) {
            self.watermarks.confidence_mut(nearest).learn(in_time);
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
            Some(watermark) => self.watermarks.find(cx.now, watermark),
            None => Some(self.clock_above(cx, cgroup)),
        };
        let Some(clock) = clock else { return false };
        self.watermarks.set_has_watermark(cgroup, watermark.is_some());
        self.spread_clock(cx, cgroup, clock);
        true
    }

    /// The clock that `cgroup` goes by where it has no watermark of its own.
    fn clock_above(&self, cx: &mut Context<'_>, cgroup: u32) -> u16 {
        match cx.tree.cgroups[cgroup].parent {
            NO_CGROUP => super::watermarks::REAL,
            parent => self.watermarks.clock_of(parent),
        }
    }

    /// Updates the clock of `cgroup` after a move.
    pub(crate) fn review_clock(&mut self, cx: &mut Context<'_>, cgroup: u32) {
        if !self.watermarks.has_watermark(cgroup) {
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
            if !self.watermarks.has_watermark(at) && changed.contains(&parent) {
                changed.insert(at);
            }
        }
        for &at in &changed {
            self.limit_time(at, cx.now);
            let (before, after) = self.watermarks.go_by(at, clock, cx.now);
            self.rebase_cgroup(at, before, after);
        }
        self.watermarks.review(cx.now);
        for &at in &changed {
            self.limits_changed(cx, at);
        }
    }

    /// Resets the offset of `clock`, and rebases its cgroups. O(cgroups), once in 73 years of its time.
    fn reset_clock_offset(&mut self, cx: &mut Context<'_>, clock: u16) {
        let before = self.watermarks.reset_offset(clock, cx.now);
        let all: Vec<u32> = cx.tree.cgroups.iter().map(|(index, _)| index).collect();
        let of_clock = all.into_iter().filter(|&at| self.watermarks.clock_of(at) == clock);
        let of_clock: Vec<u32> = of_clock.collect();
        for &at in &of_clock {
            self.rebase_cgroup(at, before, cx.now);
        }
        for &at in &of_clock {
            self.limits_changed(cx, at);
        }
    }

    /// Rebases all times of `cgroup`: its new clock shows `after` when the old one shows `before`. Its timers are disarmed.
    fn rebase_cgroup(&mut self, cgroup: u32, before: Instant, after: Instant) {
        self.cgroups[cgroup].shift(before, after);
        self.slices.shift(cgroup, before, after);
        self.disarm(cgroup, Direction::Read);
        self.disarm(cgroup, Direction::Write);
    }
}
