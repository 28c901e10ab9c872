//! Virtual clock of the limits of one watermark.

use super::gate::{GateEpoch, UtilisationSampler};
use super::proportional::IdleController;
use crate::throttle::deadlines::Deadlines;
use crate::types::{Instant, Watermark, WatermarkMode};
use crate::utilisation::Sliding;

/// What the limits of a cgroup go by at one instant: all that a limit knows of its watermark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitTime {
    /// What their clock shows.
    pub(crate) at: Instant,
    /// Whether the gate is open, so that limits do not bind.
    pub(crate) is_lifted: bool,
    /// Whether that is the real time, and limits always bind.
    pub(crate) is_real: bool,
}

impl LimitTime {
    /// That of limits without a watermark.
    #[inline]
    pub(crate) fn real(now: Instant) -> LimitTime {
        LimitTime { at: now, is_lifted: false, is_real: true }
    }
}

/// Clock of all limits with one watermark, and their deadlines.
pub(super) struct Clock {
    watermark: Watermark,
    /// Cgroups that go by it.
    pub(super) users: u32,
    /// Offset to real time, in nanoseconds.
    offset_ns: u64,
    /// Total advance, and that within the last half second.
    gained_ns: u64,
    gained: Sliding,
    /// Deadlines in its own time.
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

    pub(super) fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// What it shows at `now`.
    pub(super) fn at(&self, now: Instant) -> Instant {
        now.plus_nanos(self.offset_ns)
    }

    /// Real time at which it shows `time`, unless it is advanced before.
    pub(super) fn real(&self, time: Instant) -> Instant {
        if time == Instant::FAR_FUTURE { time } else { time.minus_nanos(self.offset_ns) }
    }

    pub(super) fn offset_ns(&self) -> u64 {
        self.offset_ns
    }

    /// The same, and whether limits bind.
    pub(super) fn time(&self, now: Instant) -> LimitTime {
        LimitTime { at: self.at(now), is_lifted: self.is_open(), is_real: self.is_real() }
    }

    /// Whether the gate is open: limits do not bind.
    pub(super) fn is_open(&self) -> bool {
        matches!(&self.mode, ClockMode::Gate(sampler) if sampler.is_open())
    }

    /// Last opening of the gate, if there is one.
    pub(super) fn gate_epoch(&self) -> GateEpoch {
        match &self.mode {
            ClockMode::Gate(sampler) => sampler.gate_epoch(),
            ClockMode::Real | ClockMode::Proportional(_) => GateEpoch::default(),
        }
    }

    /// Whether it is the real time, and limits always bind.
    pub(super) fn is_real(&self) -> bool {
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

    /// Next instant at which something may happen to waiting requests. The device is idle from `rests_from` on; an
    /// anticipated client is waited for until `anticipated_until`. Right after [`Deadlines::settle`].
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
            // Waiting requests may go, or may once this sample is over.
            (ClockMode::Gate(sampler), _) if sampler.is_open() => Instant::ZERO,
            (ClockMode::Gate(sampler), _) => due.min(sampler.ends()),
        })
    }

    /// Whether it may be advanced at `now`, with an idle device.
    pub(super) fn may_advance(&self, now: Instant) -> bool {
        matches!(&self.mode, ClockMode::Proportional(controller) if controller.until() <= now)
    }

    /// Whether it waits for anticipated clients before it is set forward.
    pub(super) fn anticipates(&self) -> bool {
        matches!(&self.mode, ClockMode::Proportional(controller) if controller.anticipates())
    }

    /// Advances it to `time`, unless it shows that already.
    pub(super) fn advance_virtual_clock(&mut self, now: Instant, time: Instant) {
        let by = time.nanos_since(self.at(now));
        self.offset_ns = self.offset_ns.saturating_add(by);
        self.gained_ns = self.gained_ns.wrapping_add(by);
    }

    /// Resets the offset to zero. The caller must rebase every timestamp expressed in this clock.
    pub(super) fn reset_offset(&mut self) {
        self.offset_ns = 0;
    }

    /// Advance within the last half second.
    pub(super) fn gain(&self, now: Instant) -> crate::utilisation::Share {
        self.gained.grown(now, self.gained_ns)
    }
}
