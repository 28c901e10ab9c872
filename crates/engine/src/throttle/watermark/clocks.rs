//! Clocks of one device: real time, and a virtual clock for each watermark in use.

use alloc::vec;
use alloc::vec::Vec;

use super::anticipation::Anticipation;
use super::{Clock, Confidence};
use crate::throttle::deadlines::{Due, Timer};
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

/// The clocks. The first is real time, for cgroups without a watermark. Alone, it costs one branch.
pub(crate) struct Clocks {
    clocks: Vec<Clock>,
    busy: Busy,
    /// Clients anticipated before a clock is set forward.
    pub(super) anticipation: Anticipation,
    /// Whether a virtual clock is in use.
    steered: bool,
}

/// The real time.
pub(crate) const REAL: u16 = 0;

impl Clocks {
    pub(crate) fn new(now: Instant) -> Clocks {
        let mut real = Clock::new(now, Watermark::HARD);
        // The root.
        real.users = 1;
        Clocks {
            clocks: vec![real],
            busy: Busy::new(now),
            anticipation: Anticipation::new(now),
            steered: false,
        }
    }

    pub(crate) fn is_steered(&self) -> bool {
        self.steered
    }

    pub(crate) fn get(&self, clock: u16) -> &Clock {
        &self.clocks[usize::from(clock)]
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

    /// One cgroup more goes by `clock`.
    pub(crate) fn enter(&mut self, clock: u16) {
        self.clocks[usize::from(clock)].users += 1;
    }

    /// One fewer.
    pub(crate) fn leave(&mut self, clock: u16) {
        self.clocks[usize::from(clock)].users -= 1;
        if clock != REAL {
            self.steered = self.is_any_used();
        }
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

    pub(crate) fn deadlines_mut(
        &mut self,
        clock: u16,
    ) -> &mut crate::throttle::deadlines::Deadlines {
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
    /// `confidence_of` is a cgroup's confidence: a clock that lends its headroom may wait for an anticipated one.
    pub(super) fn pop_early(
        &mut self,
        now: Instant,
        timer_of: impl Fn(Due) -> Option<Timer>,
        confidence_of: impl Fn(u32) -> Option<Confidence>,
    ) -> Option<Due> {
        let Some((mut by, mut index)) = self.next_early(now, &timer_of, |_| true) else {
            self.anticipation.stop_waiting();
            return None;
        };
        if self.clocks[index].anticipates()
            && let Some(confidence) = self.anticipation.awaited_cgroup().and_then(confidence_of)
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

    pub(super) fn reset_offset(&mut self, clock: u16) {
        self.clocks[usize::from(clock)].reset_offset();
    }

    /// Makes the earliest deadline of each clock a live one.
    pub(crate) fn settle(&mut self, timer_of: impl Fn(Due) -> Option<Timer>) {
        for clock in &mut self.clocks {
            clock.deadlines.settle(&timer_of);
        }
    }

    /// The first deadline of the real time, where no other clock is in use. Right after [`Clocks::settle`].
    #[inline]
    pub(crate) fn earliest_real(&self) -> Option<Instant> {
        self.clocks[usize::from(REAL)].deadlines.earliest()
    }

    /// Next instant at which something may happen to waiting requests. Right after [`Clocks::settle`].
    pub(crate) fn wakes(&self, rests_from: Option<Instant>) -> Option<Instant> {
        let anticipation = self.anticipation.until();
        self.clocks.iter().filter_map(|clock| clock.wakes(rests_from, anticipation)).min()
    }
}

/// 73 years. A limit of one byte a second on a disk of 20 MiB/s gets there within two minutes.
const OFFSET_NS_MAX: u64 = 1 << 61;
