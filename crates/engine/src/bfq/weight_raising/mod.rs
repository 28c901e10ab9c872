//! Weight raising of interactive and soft real-time flows (spec/bfq 6).
//!
//! ```text
//!                begins after a pause
//!  as given ──────────────────────────► interactive: 60 ×, some seconds, 58.6 MiB at most
//!    ▲  │ wants little at a time           │ ▲
//!    │  └──────────────► soft real-time ◄──┘ │ if those seconds are not over
//!    │                   3000 ×, 300 ms ─────┘
//!    └─── over in time, or in service; large burst; low latency off
//! ```
//!
//! A starting application, or one that answers its user after a pause, reads a few megabytes in small pieces while the
//! user waits. A player wants few bytes a second, each in time. Behaviour tells both; [`LowLatency`] overrides it.

mod burst;
mod detection;
mod idle_budget;

use alloc::format;
use alloc::string::String;

pub(crate) use self::burst::{BURST_INTERVAL_NS, Burst, Created};
use self::detection::PAUSE_NS;
pub(crate) use self::detection::{Activation, WrDetection, WrParams, WrTrigger};
pub(crate) use self::idle_budget::RaisedIdleBudget;
use super::counters;
use crate::ensure::ensure;
use crate::merge::split::Raising;
use crate::tree::SparseSlots;
use crate::types::{Instant, LowLatency};

const MS: u64 = 1_000_000;

/// Bytes that an application reads to start, with some room: LibreOffice Writer reads 110,000 sectors. It reads as
/// much from a fast disk, so this does not grow with the device (spec/bfq D-25); the duration does.
const SERVED_MAX: u64 = 120_000 * 512;
/// Duration of a soft real-time period, in milliseconds.
const SOFT_MS: u16 = 300;
/// Bounds of an interactive period, in milliseconds.
const INTERACTIVE_MIN: u16 = 3_000;
const INTERACTIVE_MAX: u16 = 25_000;

/// Duration of an interactive period, in milliseconds, at peak rate `rate` in 2^-16 sectors a microsecond.
///
/// As long as the largest application takes to start alone: 7 s on a reference disk of 109 MB/s, 2.5 s on a reference
/// flash of 258 MB/s, in inverse proportion on others; 3 to 25 s.
pub(crate) fn interactive_ms(rate: u32, rotational: bool) -> u16 {
    let reference: u32 = if rotational { 14_000 * 7_000 } else { 33_000 * 2_500 };
    (reference / rate.max(1)).clamp(INTERACTIVE_MIN.into(), INTERACTIVE_MAX.into()) as u16
}

/// State of a flow's weight raising.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum WrState {
    #[default]
    NotRaised,
    Interactive,
    SoftRealTime,
}

impl WrState {
    /// Factor of the weight.
    pub(crate) const fn wr_coeff(self) -> u16 {
        match self {
            WrState::NotRaised => 1,
            WrState::Interactive => Raising::INTERACTIVE,
            WrState::SoftRealTime => Raising::SOFT_REAL_TIME,
        }
    }

    /// Counter of a raised state.
    pub(crate) const fn kind(self) -> Option<counters::Raising> {
        match self {
            WrState::NotRaised => None,
            WrState::Interactive => Some(counters::Raising::Interactive),
            WrState::SoftRealTime => Some(counters::Raising::SoftRealTime),
        }
    }
}

/// Weight raising of a flow, with its detection state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WeightRaising {
    detection: WrDetection,
    period: WrPeriod,
}

/// Period of a raised weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WrPeriod {
    /// Begin of the present period.
    since: Instant,
    /// Begin of the present state, over all its periods.
    state_since: Instant,
    /// Begin of the interactive period that a soft real-time one interrupted, or [`NEVER`].
    interactive_since: Instant,
    duration_ms: u16,
    state: WrState,
}

/// Periods of the raised flows.
pub(crate) type WrPeriods = SparseSlots<WrPeriod>;

const NEVER: Instant = Instant::FAR_FUTURE;

impl WrPeriod {
    /// Of a weight that is not raised.
    const NONE: WrPeriod = WrPeriod {
        since: Instant::ZERO,
        state_since: Instant::ZERO,
        interactive_since: NEVER,
        duration_ms: 0,
        state: WrState::NotRaised,
    };
}

impl WeightRaising {
    /// Weight raising of the flow with this detection state.
    #[inline]
    pub(crate) fn of(detection: &WrDetection, periods: &WrPeriods) -> WeightRaising {
        let period = periods.get(detection.place()).copied().unwrap_or(WrPeriod::NONE);
        WeightRaising { detection: *detection, period }
    }

    /// Stores it in `detection`, from which it was made.
    #[inline]
    pub(crate) fn keep(&self, detection: &mut WrDetection, periods: &mut WrPeriods) {
        let was_raised = detection.is_raised();
        let place = detection.place();
        *detection = self.detection;
        if self.is_raised() {
            detection.set_place(periods.put(place, Some(self.period)));
        } else if was_raised {
            periods.put(place, None);
            detection.set_place(WrDetection::NOT_RAISED);
        }
    }

    pub(crate) const fn state(&self) -> WrState {
        self.period.state
    }

    /// Begin of the present state.
    pub(crate) const fn state_since(&self) -> Instant {
        self.period.state_since
    }

    /// Whether the flow belongs to a large burst.
    pub(crate) const fn is_in_large_burst(&self) -> bool {
        self.detection.is_in_large_burst()
    }

    /// Whether the flow had no request yet, alone or merged.
    pub(crate) fn is_newborn(&self) -> bool {
        self.detection.is_new()
    }

    pub(crate) const fn is_raised(&self) -> bool {
        !matches!(self.period.state, WrState::NotRaised)
    }

    /// Starts raising as `trigger` and `policy` say. Returns whether the flow is newly raised.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        WrTrigger { is_interactive, is_soft }: WrTrigger,
        wr_params: &WrParams,
        policy: LowLatency,
    ) -> bool {
        let was_raised = self.is_raised();
        match policy {
            LowLatency::Auto => {}
            LowLatency::Interactive => self.detection.set_in_large_burst(false),
            LowLatency::Never => {
                self.end(now);
                return false;
            }
        }
        if self.detection.is_in_large_burst() || !wr_params.enabled {
            self.end(now);
        } else if is_interactive {
            if !was_raised {
                self.detection.served = 0;
            }
            self.begin_interactive(now, now, wr_params);
        } else if is_soft {
            match self.period.state {
                WrState::NotRaised => self.begin_soft(now, NEVER),
                WrState::Interactive => self.begin_soft(now, self.period.since),
                WrState::SoftRealTime => self.period.since = now,
            }
        }
        self.is_raised() && !was_raised
    }

    /// The flow is selected; its last completion was at `last_end`.
    ///
    /// A soft real-time period lasts about two slots of other flows, so time spent waiting for them does not count.
    pub(crate) fn select(&mut self, now: Instant, last_end: Instant) {
        if self.period.state == WrState::SoftRealTime {
            self.period.since = if last_end > self.period.since {
                self.period.since.plus_nanos(now.nanos_since(last_end))
            } else {
                now
            };
        }
    }

    /// Whether [`WeightRaising::update`] would change anything.
    #[inline]
    pub(crate) fn needs_update(&self, now: Instant, bytes: u64, wr_params: &WrParams) -> bool {
        let served = u64::from(self.detection.served).saturating_add(bytes);
        let duration_ns = u64::from(self.period.duration_ms) * MS;
        self.is_raised()
            && (!wr_params.enabled
                || self.detection.is_in_large_burst()
                || is_past(now, self.period.since, duration_ns)
                || (self.period.state == WrState::Interactive && served > SERVED_MAX))
    }

    /// Ends a period that is over, after a dispatch (spec/bfq 6.2). `bytes` were served in this slot and are not
    /// charged yet. Returns whether the flow was served more than any starting application.
    pub(crate) fn update(&mut self, now: Instant, bytes: u64, wr_params: &WrParams) -> bool {
        if self.period.state == WrState::NotRaised {
            return false;
        }
        if !wr_params.enabled || self.detection.is_in_large_burst() {
            self.end(now);
        } else if is_past(now, self.period.since, u64::from(self.period.duration_ms) * MS) {
            self.fall_back(now, wr_params);
        }
        let served = u64::from(self.detection.served).saturating_add(bytes);
        let is_stream = self.period.state == WrState::Interactive && served > SERVED_MAX;
        if is_stream {
            self.end(now);
        }
        is_stream
    }

    /// Begin of the interactive period, if the flow is in one.
    pub(crate) fn interactive_since(&self) -> Option<Instant> {
        (self.period.state == WrState::Interactive).then_some(self.period.since)
    }

    /// Ends a soft real-time period: the flow's last requests were all far apart, unlike a player's.
    pub(crate) fn demote_seeky(&mut self, now: Instant, wr_params: &WrParams) {
        if self.period.state == WrState::SoftRealTime {
            self.fall_back(now, wr_params);
        }
    }

    /// The flow was split off: its merged past says nothing about it for a while.
    pub(crate) fn note_split(&mut self, now: Instant) {
        self.detection.soft_rt_next_start =
            self.detection.soft_rt_next_start.max(now.plus_nanos(PAUSE_NS));
        self.detection.soft_rt_paced_until = self.detection.soft_rt_paced_until.max(now);
    }

    /// Ends weight raising.
    pub(crate) fn end(&mut self, now: Instant) {
        if self.period.state == WrState::NotRaised {
            return;
        }
        if self.period.state == WrState::Interactive {
            // What it was served while interactive does not delay soft real-time raising.
            self.detection.soft_rt_next_start = now;
        }
        self.set_state(now, WrState::NotRaised);
        (self.period.since, self.period.interactive_since) = (now, NEVER);
        self.period.duration_ms = 0;
    }

    /// Saved state at a merge, which is also passed on.
    pub(crate) fn saved(&self) -> Raising {
        Raising {
            wr_coeff: self.period.state.wr_coeff(),
            since: self.period.since,
            duration_ns: u64::from(self.period.duration_ms) * MS,
            interactive_since: Some(self.period.interactive_since).filter(|&since| since != NEVER),
            served_bytes: u64::from(self.detection.served),
        }
    }

    /// Restores a saved state, or takes over that of a merged flow.
    pub(crate) fn restore(&mut self, now: Instant, saved: &Raising) {
        let state = match saved.wr_coeff {
            Raising::SOFT_REAL_TIME => WrState::SoftRealTime,
            Raising::INTERACTIVE => WrState::Interactive,
            _ => WrState::NotRaised,
        };
        if state == WrState::NotRaised {
            self.end(now);
            return;
        }
        self.set_state(now, state);
        self.period.since = saved.since;
        // Durations are whole milliseconds below 2^16.
        self.period.duration_ms = u16::try_from(saved.duration_ns / MS).unwrap_or(u16::MAX);
        self.period.interactive_since = saved.interactive_since.unwrap_or(NEVER);
        self.detection.served = u32::try_from(saved.served_bytes).unwrap_or(u32::MAX);
    }

    /// Interactive from `now` on, in a period that began at `since`.
    fn begin_interactive(&mut self, now: Instant, since: Instant, wr_params: &WrParams) {
        self.set_state(now, WrState::Interactive);
        (self.period.since, self.period.interactive_since) = (since, NEVER);
        self.period.duration_ms = wr_params.interactive_ms;
    }

    fn begin_soft(&mut self, now: Instant, interactive_since: Instant) {
        self.set_state(now, WrState::SoftRealTime);
        (self.period.since, self.period.interactive_since) = (now, interactive_since);
        self.period.duration_ms = SOFT_MS;
    }

    fn set_state(&mut self, now: Instant, state: WrState) {
        if self.period.state != state {
            (self.period.state, self.period.state_since) = (state, now);
        }
    }

    /// Falls back to the interrupted interactive period if that goes on; else ends raising.
    fn fall_back(&mut self, now: Instant, wr_params: &WrParams) {
        let (since, duration_ns) =
            (self.period.interactive_since, u64::from(wr_params.interactive_ms) * MS);
        if self.period.state == WrState::SoftRealTime
            && since != NEVER
            && !is_past(now, since, duration_ns)
        {
            self.begin_interactive(now, since, wr_params);
        } else {
            self.end(now);
        }
    }
}

/// For tests, the lab and fuzzers.
impl WeightRaising {
    /// Checks that state, times and `wr_params` fit together (spec/bfq 11.17).
    ///
    /// # Errors
    ///
    /// A text that says what does not.
    pub(crate) fn check(&self, wr_params: &WrParams) -> Result<(), String> {
        let is_sound = match self.period.state {
            WrState::NotRaised => self.period.duration_ms == 0,
            WrState::Interactive => {
                (INTERACTIVE_MIN..=INTERACTIVE_MAX).contains(&self.period.duration_ms)
            }
            WrState::SoftRealTime => self.period.duration_ms == SOFT_MS,
        };
        ensure(is_sound, || format!("{} ms of {self:?}", self.period.duration_ms))?;
        ensure(wr_params.enabled || !self.is_raised(), || format!("low latency is off: {self:?}"))
    }
}

/// Whether more than `nanos` have passed since `since`.
fn is_past(now: Instant, since: Instant, nanos: u64) -> bool {
    now > since.plus_nanos(nanos)
}

#[cfg(test)]
mod tests;
