//! Weight raising: flows that begin after a pause, and flows that want little at a time (spec/bfq 6).
//!
//! ```text
//!                begins after a pause
//!  as given ──────────────────────────► interactive: 60 ×, some seconds, 58.6 MiB at most
//!    ▲  │ wants little at a time           │ ▲
//!    │  └──────────────► soft real-time ◄──┘ │ if those seconds are not over
//!    │                   3000 ×, 300 ms ─────┘
//!    └─── over in time, or in service; began among many; low latency off
//! ```
//!
//! An application that starts, or answers its user after a while, asks for a few megabytes in small pieces, one after
//! the other, and somebody waits for it. A player wants its frames in time, and few bytes a second. Both are told by
//! what they do. Whoever was told the wrong way has a setting to say so: [`LowLatency`].

mod burst;
mod detection;

use alloc::format;
use alloc::string::String;

pub(crate) use self::burst::{BURST_INTERVAL_NS, Burst, Created};
use self::detection::PAUSE_NS;
pub(crate) use self::detection::{Activation, WrDetection, WrTrigger};
use super::counters;
use super::sparse_slots::SparseSlots;
use crate::check::ensure;
use crate::merge::split::Raising;
use crate::time::Instant;

/// Whether the scheduler may raise a flow's weight for a while, so that whoever begins need not wait for whoever is
/// reading and writing all day.
///
/// Counts for `scheduler = "bfq"`, where a cgroup's setting holds for all clients below it that have none nearer. In the
/// kernel's BFQ the question is whether the weight is exactly 40, so that any explicit level turns it off silently.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum LowLatency {
    /// By what it does: raised when it begins after a pause, or wants little at a time, unless it began together with
    /// many others.
    #[default]
    Auto,
    /// Not at all: its share is its weight, at every moment.
    Never,
    /// As `Auto`, and also if it begins together with many others: a session that starts ten programs at once is as
    /// interactive as each of them.
    Interactive,
}

impl LowLatency {
    /// All of them, in the order in which tables list them.
    pub const ALL: [LowLatency; 3] = [LowLatency::Auto, LowLatency::Never, LowLatency::Interactive];

    /// The name in configurations and reports: `auto`, `never` or `interactive`.
    pub const fn name(self) -> &'static str {
        match self {
            LowLatency::Auto => "auto",
            LowLatency::Never => "never",
            LowLatency::Interactive => "interactive",
        }
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<LowLatency> {
        LowLatency::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

const MS: u64 = 1_000_000;

/// What an application reads to start, with some room: LibreOffice Writer 110,000 sectors. It reads as much from a fast
/// disk as from a slow one, so this does not grow with the device (spec/bfq D-25); the time does.
const SERVED_MAX: u64 = 120_000 * 512;
/// How long a soft real-time flow goes on without being told anew.
const SOFT_MS: u16 = 300;
/// Bounds of an interactive period, in milliseconds.
const INTERACTIVE_MIN: u16 = 3_000;
const INTERACTIVE_MAX: u16 = 25_000;

/// How long an interactive period lasts, in milliseconds, on a device of peak rate `rate`; that is in 2^-16 sectors a
/// microsecond.
///
/// As long as starting the largest application takes alone: 7 s on a reference disk of 109 MB/s, 2.5 s on a reference
/// flash of 258 MB/s, and in inverse proportion on others; 3 to 25 s.
pub(crate) fn interactive_ms(rate: u32, rotational: bool) -> u16 {
    let reference: u32 = if rotational { 14_000 * 7_000 } else { 33_000 * 2_500 };
    (reference / rate.max(1)).clamp(INTERACTIVE_MIN.into(), INTERACTIVE_MAX.into()) as u16
}

/// How much a flow's weight is raised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum WrState {
    #[default]
    NotRaised,
    Interactive,
    SoftRealTime,
}

impl WrState {
    /// What the weight is multiplied with.
    pub(crate) const fn wr_coeff(self) -> u16 {
        match self {
            WrState::NotRaised => 1,
            WrState::Interactive => Raising::INTERACTIVE,
            WrState::SoftRealTime => Raising::SOFT_REAL_TIME,
        }
    }

    /// What a raised level counts as.
    pub(crate) const fn kind(self) -> Option<counters::Raising> {
        match self {
            WrState::NotRaised => None,
            WrState::Interactive => Some(counters::Raising::Interactive),
            WrState::SoftRealTime => Some(counters::Raising::SoftRealTime),
        }
    }
}

/// What raising depends on beside the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrParams {
    /// Whether weights are raised at all.
    pub(crate) enabled: bool,
    /// See [`interactive_ms`].
    pub(crate) interactive_ms: u16,
    /// How long the device is kept for a flow that may return.
    pub(crate) slice_idle_ns: u64,
}

/// How a flow's weight is raised, and what its next raising depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WeightRaising {
    detection: WrDetection,
    period: WrPeriod,
}

/// What is known of a raised weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WrPeriod {
    /// When the present period began.
    since: Instant,
    /// Since when the level is what it is, however many periods that were.
    state_since: Instant,
    /// If it is soft real-time: when the interactive period began that it was in, or [`NEVER`].
    interactive_since: Instant,
    duration_ms: u16,
    state: WrState,
}

/// The periods of those whose weight is raised.
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
    /// All that is known of the flow of which `detection` is kept.
    #[inline]
    pub(crate) fn of(detection: &WrDetection, periods: &WrPeriods) -> WeightRaising {
        let period = periods.get(detection.place()).copied().unwrap_or(WrPeriod::NONE);
        WeightRaising { detection: *detection, period }
    }

    /// Keeps that as `detection`, which it was of before it changed.
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

    /// Since when the level has been what it is.
    pub(crate) const fn state_since(&self) -> Instant {
        self.period.state_since
    }

    /// Whether it was created together with many others.
    pub(crate) const fn is_in_large_burst(&self) -> bool {
        self.detection.is_in_large_burst()
    }

    /// Whether it has done nothing yet, alone or with others.
    pub(crate) fn is_newborn(&self) -> bool {
        self.detection.is_new()
    }

    pub(crate) const fn is_raised(&self) -> bool {
        !matches!(self.period.state, WrState::NotRaised)
    }

    /// The flow begins as `trigger` says; whether it was not raised and is now.
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

    /// The flow gets the device; a request of it came back last at `last_end`.
    ///
    /// A soft real-time period is as short as two slots of others: the time spent waiting for them does not count.
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

    /// Ends or lowers what is over, after a dispatch (spec/bfq 6.2). `bytes` have been served, for which it was not
    /// charged yet. Whether it is over because of what was served: no application reads that much.
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

    /// When the interactive period began that it is in.
    pub(crate) fn interactive_since(&self) -> Option<Instant> {
        (self.period.state == WrState::Interactive).then_some(self.period.since)
    }

    /// All of the flow's last requests were far from each other: no player reads like that.
    pub(crate) fn demote_seeky(&mut self, now: Instant, wr_params: &WrParams) {
        if self.period.state == WrState::SoftRealTime {
            self.fall_back(now, wr_params);
        }
    }

    /// The flow was one with others, and is alone again: what it did meanwhile says nothing about it for a while.
    pub(crate) fn note_split(&mut self, now: Instant) {
        self.detection.soft_rt_next_start =
            self.detection.soft_rt_next_start.max(now.plus_nanos(PAUSE_NS));
        self.detection.soft_rt_paced_until = self.detection.soft_rt_paced_until.max(now);
    }

    /// Ends all raising, for instance because low latency is off now.
    pub(crate) fn end(&mut self, now: Instant) {
        if self.period.state == WrState::NotRaised {
            return;
        }
        if self.period.state == WrState::Interactive {
            // What it was given as an interactive flow is not held against it.
            self.detection.soft_rt_next_start = now;
        }
        self.set_state(now, WrState::NotRaised);
        (self.period.since, self.period.interactive_since) = (now, NEVER);
        self.period.duration_ms = 0;
    }

    /// What is put aside when the flow joins others, and passed on to them.
    pub(crate) fn saved(&self) -> Raising {
        Raising {
            wr_coeff: self.period.state.wr_coeff(),
            since: self.period.since,
            duration_ns: u64::from(self.period.duration_ms) * MS,
            interactive_since: Some(self.period.interactive_since).filter(|&since| since != NEVER),
            served_bytes: u64::from(self.detection.served),
        }
    }

    /// Takes over what was put aside, or comes from another flow.
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
        // Whole milliseconds and below 2^16 of them: durations are ours.
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

    /// Back to the interactive period that a soft real-time one interrupted, if that goes on; else all ends.
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
    /// Whether the level, its times and `wr_params` fit together (spec/bfq 11.17).
    ///
    /// # Errors
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

/// Whether more than `nanos` have gone by since `since`.
fn is_past(now: Instant, since: Instant, nanos: u64) -> bool {
    now > since.plus_nanos(nanos)
}

#[cfg(test)]
mod tests;
