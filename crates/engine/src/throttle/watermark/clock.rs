//! One clock by which limits go.

use super::gate::{GateEpoch, UtilisationSampler};
use super::proportional::IdleController;
use crate::throttle::deadlines::Deadlines;
use crate::time::Instant;
use crate::types::{Watermark, WatermarkMode};
use crate::utilisation::Sliding;

/// The time of all limits that have one watermark, and what waits for it.
pub(crate) struct Clock {
    watermark: Watermark,
    /// Cgroups that go by it.
    pub(super) users: u32,
    /// How far it is ahead of the real time, in nanoseconds.
    offset_ns: u64,
    /// All it was ever set forward by, and that within the last half second.
    gained_ns: u64,
    gained: Sliding,
    /// What waits, in its own time.
    pub(super) deadlines: Deadlines,
    mode: ClockMode,
}

enum ClockMode {
    /// It is the real time.
    Real,
    Proportional(IdleController),
    Gate(UtilisationSampler),
}

impl Clock {
    pub(super) fn new(now: Instant, watermark: Watermark) -> Clock {
        let percent = watermark.percent();
        let mode = match watermark.mode() {
            _ if percent == 0 => ClockMode::Real,
            WatermarkMode::Proportional { headroom } => {
                ClockMode::Proportional(IdleController::new(now, percent, headroom))
            }
            WatermarkMode::Gate { period_ns } => {
                ClockMode::Gate(UtilisationSampler::new(now, percent, period_ns))
            }
        };
        Clock {
            watermark,
            users: 0,
            offset_ns: 0,
            gained_ns: 0,
            gained: Sliding::new(now, 0),
            deadlines: Deadlines::new(),
            mode,
        }
    }

    pub(crate) fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// What it shows at `now`.
    pub(crate) fn at(&self, now: Instant) -> Instant {
        now.plus_nanos(self.offset_ns)
    }

    /// When it shows `time`, if it is not set forward before.
    pub(super) fn real(&self, time: Instant) -> Instant {
        if time == Instant::FAR_FUTURE { time } else { time.minus_nanos(self.offset_ns) }
    }

    pub(super) fn offset_ns(&self) -> u64 {
        self.offset_ns
    }

    /// Whether limits do not bind at all for now.
    pub(crate) fn is_open(&self) -> bool {
        matches!(&self.mode, ClockMode::Gate(sampler) if sampler.is_open())
    }

    /// When limits last ceased to bind at all, where they ever do.
    pub(crate) fn gate_epoch(&self) -> GateEpoch {
        match &self.mode {
            ClockMode::Gate(sampler) => sampler.gate_epoch(),
            ClockMode::Real | ClockMode::Proportional(_) => GateEpoch::default(),
        }
    }

    /// Whether it is the real time, and limits always bind.
    pub(crate) fn is_real(&self) -> bool {
        matches!(self.mode, ClockMode::Real)
    }

    pub(super) fn advance(&mut self, now: Instant, busy: bool) {
        match &mut self.mode {
            ClockMode::Real => return,
            ClockMode::Proportional(controller) => controller.advance(now, busy),
            ClockMode::Gate(sampler) => sampler.advance(now, busy),
        }
        let gained = self.gained_ns;
        self.gained.advance(now, |_| gained);
    }

    pub(super) fn note_unlimited_demand(&mut self) {
        if let ClockMode::Proportional(controller) = &mut self.mode {
            controller.note_unlimited_demand();
        }
    }

    /// When something may happen that concerns what waits, if nothing comes before. The device has nothing to do from
    /// `rests_from` on, and until `anticipated_until` a client is waited for. Right after [`Deadlines::settle`].
    pub(super) fn wakes(
        &self,
        rests_from: Option<Instant>,
        anticipated_until: Instant,
    ) -> Option<Instant> {
        let due = self.real(self.deadlines.earliest()?);
        Some(match (&self.mode, rests_from) {
            (ClockMode::Real, _) => due,
            (ClockMode::Proportional(controller), Some(from)) if controller.anticipates() => {
                due.min(controller.after(from).max(anticipated_until))
            }
            (ClockMode::Proportional(controller), Some(from)) => due.min(controller.after(from)),
            (ClockMode::Proportional(_), None) => due,
            // What waits may go, or could once this sample is over.
            (ClockMode::Gate(sampler), _) if sampler.is_open() => Instant::ZERO,
            (ClockMode::Gate(sampler), _) => due.min(sampler.ends()),
        })
    }

    /// Whether it may be set forward at `now`, the device being idle.
    pub(super) fn may_advance(&self, now: Instant) -> bool {
        matches!(&self.mode, ClockMode::Proportional(controller) if controller.until() <= now)
    }

    /// Whether it waits for anticipated clients before it is set forward.
    pub(super) fn anticipates(&self) -> bool {
        matches!(&self.mode, ClockMode::Proportional(controller) if controller.anticipates())
    }

    /// Sets it forward to `time`; nothing happens if it shows that already.
    pub(super) fn advance_virtual_clock(&mut self, now: Instant, time: Instant) {
        let by = time.nanos_since(self.at(now));
        self.offset_ns = self.offset_ns.saturating_add(by);
        self.gained_ns = self.gained_ns.wrapping_add(by);
    }

    /// Resets the offset to zero. The caller must rebase every timestamp expressed in this clock.
    pub(super) fn reset_offset(&mut self) {
        self.offset_ns = 0;
    }

    /// By how much it was set forward within the last half second.
    pub(super) fn gain(&self, now: Instant) -> crate::utilisation::Share {
        self.gained.grown(now, self.gained_ns)
    }
}
