//! Watermarks of one device: real time, a virtual clock for each watermark in use, and the cgroups that go by each.

use alloc::vec;
use alloc::vec::Vec;

use super::anticipation::{Anticipation, Confidence};
use super::clock::{Clock, LimitTime};
use super::gate::GateEpoch;
use crate::throttle::deadlines::{Deadlines, Due, Timer};
use crate::types::{Instant, Watermark};
use crate::utilisation::{Busy, Share};

/// One watermark in use, as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct WatermarkStats {
    /// The setting.
    pub watermark: Watermark,
    /// Cgroups that go by it, those without limits included.
    pub cgroups: u32,
    /// The multiplier of their limits over the last half second, in thousandths: 1000 where limits bind as they are
    /// written. In mode `gate`, where limits are lifted instead, it is 1000 too.
    pub multiplier_thousandths: u64,
    /// Mode `gate` only: whether limits are lifted now.
    pub is_open: bool,
}

/// The clocks, and which cgroup goes by which. The first clock is real time, for cgroups without a watermark. Alone, it
/// costs one branch.
pub(crate) struct Watermarks {
    clocks: Vec<Clock>,
    /// By cgroup, as far as any had a watermark; the others go by real time.
    followers: Vec<Follower>,
    busy: Busy,
    /// Clients anticipated before a clock is set forward.
    pub(super) anticipation: Anticipation,
    /// Whether a virtual clock is in use.
    steered: bool,
}

/// What one cgroup goes by.
#[derive(Clone, Copy)]
struct Follower {
    /// Clock of its limits, which is its watermark.
    clock: u16,
    /// Whether its watermark was set here rather than above.
    has_watermark: bool,
    /// Confidence that its next request follows the answer to the last one.
    confidence: Confidence,
    /// Last gate opening that its limits have applied.
    gate_epoch: u32,
}

impl Follower {
    fn of(clock: u16, gate_epoch: u32) -> Follower {
        Follower { clock, has_watermark: false, confidence: Confidence::default(), gate_epoch }
    }
}

/// The real time.
pub(crate) const REAL: u16 = 0;

impl Watermarks {
    pub(crate) fn new(now: Instant) -> Watermarks {
        Watermarks {
            clocks: vec![Clock::new(now, Watermark::HARD)],
            followers: Vec::new(),
            busy: Busy::new(now),
            anticipation: Anticipation::new(now),
            steered: false,
        }
    }

    /// Whether a watermark is in use.
    #[inline]
    pub(crate) fn is_steered(&self) -> bool {
        self.steered
    }

    // Cgroups.

    /// The cgroup in slot `index` is new, below `parent`: it goes by what its parent goes by.
    pub(crate) fn add_cgroup(&mut self, index: u32, parent: u32) {
        let clock = self.clock_of(parent);
        if clock != REAL {
            self.follow(index, clock);
        }
    }

    /// The cgroup in slot `index` is gone.
    pub(crate) fn remove_cgroup(&mut self, index: u32) {
        if let Some(follower) = self.followers.get_mut(index as usize) {
            let clock = core::mem::replace(follower, Follower::of(REAL, 0)).clock;
            self.leave(clock);
        }
    }

    /// Clock that a cgroup goes by.
    #[inline]
    pub(crate) fn clock_of(&self, cgroup: u32) -> u16 {
        self.followers.get(cgroup as usize).map_or(REAL, |follower| follower.clock)
    }

    /// The watermark that is set for a cgroup itself.
    pub(crate) fn watermark(&self, cgroup: u32) -> Option<Watermark> {
        let follower = self.followers.get(cgroup as usize)?;
        follower.has_watermark.then(|| self.clocks[usize::from(follower.clock)].watermark())
    }

    pub(super) fn has_watermark(&self, cgroup: u32) -> bool {
        self.followers.get(cgroup as usize).is_some_and(|follower| follower.has_watermark)
    }

    /// Notes whether the watermark of `cgroup` is set for itself.
    pub(super) fn set_has_watermark(&mut self, cgroup: u32, has_watermark: bool) {
        self.follower_mut(cgroup).has_watermark = has_watermark;
    }

    /// Moves `cgroup` to `clock`. Openings of the old one must have been applied. Answers what the old one shows, and what
    /// the new one shows.
    pub(super) fn go_by(&mut self, cgroup: u32, clock: u16, now: Instant) -> (Instant, Instant) {
        let old = self.clock_of(cgroup);
        let times = [old, clock].map(|clock| self.clocks[usize::from(clock)].at(now));
        self.leave(old);
        self.follow(cgroup, clock);
        times.into()
    }

    fn follow(&mut self, cgroup: u32, clock: u16) {
        let gate_epoch = self.clocks[usize::from(clock)].gate_epoch().number;
        let follower = self.follower_mut(cgroup);
        *follower = Follower { clock, gate_epoch, ..*follower };
        self.clocks[usize::from(clock)].users += u32::from(clock != REAL);
    }

    fn leave(&mut self, clock: u16) {
        if clock != REAL {
            self.clocks[usize::from(clock)].users -= 1;
            self.steered = self.is_any_used();
        }
    }

    fn follower_mut(&mut self, cgroup: u32) -> &mut Follower {
        let at = cgroup as usize;
        if at >= self.followers.len() {
            self.followers.resize(at + 1, Follower::of(REAL, 0));
        }
        &mut self.followers[at]
    }

    /// Confidence in `cgroup`, to learn from.
    pub(super) fn confidence_mut(&mut self, cgroup: u32) -> &mut Confidence {
        &mut self.follower_mut(cgroup).confidence
    }

    // Time.

    /// Time of the limits of `cgroup` at `now`; `Throttle::limit_time` reads it before a limiter is used.
    pub(crate) fn time(&self, cgroup: u32, now: Instant) -> LimitTime {
        self.clocks[usize::from(self.clock_of(cgroup))].time(now)
    }

    /// Whether the gate of `cgroup` is open.
    pub(crate) fn is_lifted(&self, cgroup: u32) -> bool {
        self.clocks[usize::from(self.clock_of(cgroup))].is_open()
    }

    /// Whether the limits of `cgroup` go by the real time.
    pub(crate) fn is_real(&self, cgroup: u32) -> bool {
        self.clocks[usize::from(self.clock_of(cgroup))].is_real()
    }

    /// The gate opening that the limits of `cgroup` have not been told of; it counts as told then.
    pub(super) fn take_opening(&mut self, cgroup: u32) -> Option<Instant> {
        let follower = self.followers.get_mut(cgroup as usize)?;
        let GateEpoch { number, at } = self.clocks[usize::from(follower.clock)].gate_epoch();
        let is_new = number != 0 && core::mem::replace(&mut follower.gate_epoch, number) != number;
        is_new.then_some(at)
    }

    /// Clock of `watermark`, created on first use; `None` if all numbers are taken.
    pub(super) fn find(&mut self, now: Instant, watermark: Watermark) -> Option<u16> {
        let known = self.clocks.iter().position(|clock| {
            clock.watermark() == watermark && (clock.users > 0 || clock.is_real())
        });
        let at = known.or_else(|| {
            let free = self.clocks.iter().position(|clock| clock.users == 0 && !clock.is_real());
            let at = free.unwrap_or(self.clocks.len());
            u16::try_from(at).ok()?;
            let clock = Clock::new(now, watermark);
            match self.clocks.get_mut(at) {
                Some(unused) => *unused = clock,
                None => self.clocks.push(clock),
            }
            Some(at)
        });
        at.map(|at| at as u16)
    }

    /// Updates whether a virtual clock is in use, after cgroups have entered.
    pub(super) fn review(&mut self, now: Instant) {
        let steered = self.is_any_used();
        if steered && !self.steered {
            self.busy = Busy::new(now);
            self.anticipation = Anticipation::new(now);
        }
        self.steered = steered;
    }

    fn is_any_used(&self) -> bool {
        self.clocks.iter().any(|clock| !clock.is_real() && clock.users > 0)
    }

    /// Time goes on to `now`, with or without a request at the device all the while. O(clocks), which are 2 with one
    /// watermark.
    pub(crate) fn advance(&mut self, now: Instant, busy: bool) {
        self.busy.advance(now, busy);
        self.anticipation.advance(now, busy);
        for clock in &mut self.clocks {
            clock.advance(now, busy);
        }
    }

    /// A request wants the device whose limits do not follow utilisation.
    pub(crate) fn note_unlimited_demand(&mut self) {
        if self.steered {
            self.clocks.iter_mut().for_each(Clock::note_unlimited_demand);
        }
    }

    /// How much the device was used within the last half second; `None` where no watermark asks for it.
    pub(crate) fn utilisation(&self) -> Option<Share> {
        self.steered.then(|| self.busy.share())
    }

    pub(crate) fn stats(&self, now: Instant) -> Vec<WatermarkStats> {
        let used = self.clocks.iter().filter(|clock| clock.users > 0 && !clock.is_real());
        let stats = used.map(|clock| {
            let gain = clock.gain(now);
            WatermarkStats {
                watermark: clock.watermark(),
                cgroups: clock.users,
                multiplier_thousandths: (gain.millionths() / 1000).saturating_add(1000),
                is_open: clock.is_open(),
            }
        });
        stats.collect()
    }

    // What waits.

    /// Deadlines of all cgroups that go by the clock of `cgroup`.
    pub(crate) fn deadlines_mut(&mut self, cgroup: u32) -> &mut Deadlines {
        let clock = self.clock_of(cgroup);
        &mut self.clocks[usize::from(clock)].deadlines
    }

    /// Next deadline that has come by `now`; of an open gate, any. O(clocks + log armed).
    pub(crate) fn pop_due(
        &mut self,
        now: Instant,
        timer_of: impl Fn(Due) -> Option<Timer>,
    ) -> Option<Due> {
        if !self.steered {
            return self.clocks[0].deadlines.pop_due(now, timer_of);
        }
        let mut first: Option<(Instant, usize)> = None;
        for (index, clock) in self.clocks.iter_mut().enumerate() {
            clock.deadlines.settle(&timer_of);
            let Some(at) = clock.deadlines.earliest() else { continue };
            let at = if clock.is_open() { Instant::ZERO } else { clock.real(at) };
            if at <= now && first.is_none_or(|(earlier, _)| at < earlier) {
                first = Some((at, index));
            }
        }
        let (_, index) = first?;
        self.clocks[index].deadlines.pop_due(Instant::FAR_FUTURE, timer_of)
    }

    /// Advances the virtual clock with the shortest way to its first deadline, and pops that. The device is idle.
    /// A clock that lends its headroom may wait for an anticipated cgroup, if that `exists`.
    pub(super) fn pop_early(
        &mut self,
        now: Instant,
        timer_of: impl Fn(Due) -> Option<Timer>,
        exists: impl Fn(u32) -> bool,
    ) -> Option<Due> {
        let Some((mut by, mut index)) = self.next_early(now, &timer_of, |_| true) else {
            self.anticipation.stop_waiting();
            return None;
        };
        if self.clocks[index].anticipates()
            && let Some(awaited) = self.anticipation.awaited_cgroup().filter(|&at| exists(at))
            && let confidence = self.follower_mut(awaited).confidence
            && self.anticipation.is_worth_waiting_for(now.plus_nanos(by), confidence)
        {
            (by, index) = self.next_early(now, &timer_of, |clock| !clock.anticipates())?;
        }
        let clock = &mut self.clocks[index];
        clock.advance_virtual_clock(now, clock.at(now).plus_nanos(by));
        clock.deadlines.pop_due(Instant::FAR_FUTURE, timer_of)
    }

    /// Shortest way to a first deadline among clocks that may advance and are `eligible`: nanoseconds, and the clock.
    /// O(clocks).
    fn next_early(
        &mut self,
        now: Instant,
        timer_of: impl Fn(Due) -> Option<Timer>,
        eligible: impl Fn(&Clock) -> bool,
    ) -> Option<(u64, usize)> {
        let mut first: Option<(u64, usize)> = None;
        for (index, clock) in self.clocks.iter_mut().enumerate() {
            if !clock.may_advance(now) || !eligible(clock) {
                continue;
            }
            clock.deadlines.settle(&timer_of);
            let Some(at) = clock.deadlines.earliest() else { continue };
            let by = at.nanos_since(clock.at(now));
            if first.is_none_or(|(shorter, _)| by < shorter) {
                first = Some((by, index));
            }
        }
        first
    }

    /// Clock whose offset nears the range of numbers.
    pub(super) fn overflowing(&self) -> Option<u16> {
        let far = self.clocks.iter().position(|clock| clock.offset_ns() > OFFSET_NS_MAX);
        far.map(|index| index as u16)
    }

    /// Resets the offset of a clock; answers what it showed before.
    pub(super) fn reset_offset(&mut self, clock: u16, now: Instant) -> Instant {
        let clock = &mut self.clocks[usize::from(clock)];
        let before = clock.at(now);
        clock.reset_offset();
        before
    }

    /// Makes the earliest deadline of each clock a live one.
    pub(crate) fn settle(&mut self, timer_of: impl Fn(Due) -> Option<Timer>) {
        for clock in &mut self.clocks {
            clock.deadlines.settle(&timer_of);
        }
    }

    /// The first deadline of the real time, where no other clock is in use. Right after [`Watermarks::settle`].
    #[inline]
    pub(crate) fn earliest_real(&self) -> Option<Instant> {
        self.clocks[usize::from(REAL)].deadlines.earliest()
    }

    /// Next instant at which something may happen to waiting requests. Right after [`Watermarks::settle`].
    pub(crate) fn wakes(&self, rests_from: Option<Instant>) -> Option<Instant> {
        let anticipation = self.anticipation.until();
        self.clocks.iter().filter_map(|clock| clock.wakes(rests_from, anticipation)).min()
    }
}

/// 73 years. A limit of one byte a second on a disk of 20 MiB/s gets there within two minutes.
const OFFSET_NS_MAX: u64 = 1 << 61;
