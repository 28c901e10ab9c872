//! One clock by which limits go.

use super::gate::{Opening, Sampler};
use super::proportional::Hold;
use super::{Watermark, WatermarkMode};
use crate::deadlines::Deadlines;
use crate::time::Instant;
use crate::utilisation::Sliding;

/// The time of all limits that have one watermark, and what waits for it.
pub(crate) struct Clock {
    watermark: Watermark,
    /// Cgroups that go by it.
    pub(super) users: u32,
    /// How far it is ahead of the real time, in nanoseconds.
    ahead_ns: u64,
    /// All it was ever set forward by, and that within the last half second.
    gained_ns: u64,
    gained: Sliding,
    /// What waits, in its own time.
    pub(super) deadlines: Deadlines,
    way: Way,
}

enum Way {
    /// It is the real time.
    Real,
    Proportional(Hold),
    Gate(Sampler),
}

impl Clock {
    pub(super) fn new(now: Instant, watermark: Watermark) -> Clock {
        let percent = watermark.percent();
        let way = match watermark.mode() {
            _ if percent == 0 => Way::Real,
            WatermarkMode::Proportional { reserve } => {
                Way::Proportional(Hold::new(now, percent, reserve))
            }
            WatermarkMode::Gate { period_ns } => Way::Gate(Sampler::new(now, percent, period_ns)),
        };
        Clock {
            watermark,
            users: 0,
            ahead_ns: 0,
            gained_ns: 0,
            gained: Sliding::new(now, 0),
            deadlines: Deadlines::new(),
            way,
        }
    }

    pub(crate) fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// What it shows at `now`.
    pub(crate) fn at(&self, now: Instant) -> Instant {
        now.plus_nanos(self.ahead_ns)
    }

    /// When it shows `time`, if it is not set forward before.
    pub(super) fn real(&self, time: Instant) -> Instant {
        if time == Instant::FAR_FUTURE { time } else { time.minus_nanos(self.ahead_ns) }
    }

    pub(super) fn ahead_ns(&self) -> u64 {
        self.ahead_ns
    }

    /// Whether limits do not bind at all for now.
    pub(crate) fn is_open(&self) -> bool {
        matches!(&self.way, Way::Gate(sampler) if sampler.is_open())
    }

    /// When limits last ceased to bind at all, where they ever do.
    pub(crate) fn opening(&self) -> Opening {
        match &self.way {
            Way::Gate(sampler) => sampler.opening(),
            Way::Real | Way::Proportional(_) => Opening::default(),
        }
    }

    /// Whether it is the real time, and limits always bind.
    pub(crate) fn is_real(&self) -> bool {
        matches!(self.way, Way::Real)
    }

    pub(super) fn advance(&mut self, now: Instant, busy: bool) {
        match &mut self.way {
            Way::Real => return,
            Way::Proportional(controller) => controller.advance(now, busy),
            Way::Gate(sampler) => sampler.advance(now, busy),
        }
        let gained = self.gained_ns;
        self.gained.advance(now, |_| gained);
    }

    pub(super) fn give_way(&mut self) {
        if let Way::Proportional(controller) = &mut self.way {
            controller.give_way();
        }
    }

    /// When something may happen that concerns what waits, if nothing comes before. The device has nothing to do from
    /// `rests_from` on, and until `expected` somebody is waited for. Right after [`Deadlines::settle`].
    pub(super) fn wakes(&self, rests_from: Option<Instant>, expected: Instant) -> Option<Instant> {
        let due = self.real(self.deadlines.earliest()?);
        Some(match (&self.way, rests_from) {
            (Way::Real, _) => due,
            (Way::Proportional(controller), Some(from)) if controller.is_patient() => {
                due.min(controller.after(from).max(expected))
            }
            (Way::Proportional(controller), Some(from)) => due.min(controller.after(from)),
            (Way::Proportional(_), None) => due,
            // What waits may go, or could once this sample is over.
            (Way::Gate(sampler), _) if sampler.is_open() => Instant::ZERO,
            (Way::Gate(sampler), _) => due.min(sampler.ends()),
        })
    }

    /// Whether it may be set forward at `now`, the device being idle.
    pub(super) fn may_run_ahead(&self, now: Instant) -> bool {
        matches!(&self.way, Way::Proportional(controller) if controller.until() <= now)
    }

    /// Whether it waits for who is about to come back before it is set forward.
    pub(super) fn is_patient(&self) -> bool {
        matches!(&self.way, Way::Proportional(controller) if controller.is_patient())
    }

    /// Sets it forward to `time`; nothing happens if it shows that already.
    pub(super) fn set_forward(&mut self, now: Instant, time: Instant) {
        let by = time.nanos_since(self.at(now));
        self.ahead_ns = self.ahead_ns.saturating_add(by);
        self.gained_ns = self.gained_ns.wrapping_add(by);
    }

    /// Takes off what it is ahead; the caller sees to all that is written down in its time.
    pub(super) fn set_back(&mut self) {
        self.ahead_ns = 0;
    }

    /// By how much it was set forward within the last half second.
    pub(super) fn gain(&self, now: Instant) -> crate::Share {
        self.gained.grown(now, self.gained_ns)
    }
}
