//! State machine of a calibration: the next request, and the results so far.

use weir_engine::{Direction, Op};

use crate::fit::{self, Outcome};
use crate::load::{Load, Step};
use crate::meter::Meter;
use crate::places::{Places, Room};
use crate::plan::{self, Settings};

/// A request to be sent to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Identifies the request in [`Calibration::handle_completion`].
    pub id: u64,
    /// [`Op::Read`], [`Op::Write`] or [`Op::Flush`].
    pub op: Op,
    /// First byte, a multiple of 4096.
    pub offset: u64,
    /// Bytes, a multiple of 4096; 0 for a flush.
    pub len: u32,
}

/// Progress of a calibration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// The load under way; `None` when all is measured.
    pub load: Option<Load>,
    /// Completed steps.
    pub steps: usize,
    /// Upper bound of the number of steps.
    pub steps_max: usize,
    /// The last completed step.
    pub last: Option<Step>,
}

/// Phase of a calibration.
#[derive(Debug)]
enum State {
    /// Keeps requests of a load at the device; the meter starts with the first.
    Loading {
        load: Load,
        meter: Option<Meter>,
    },
    /// Waits for the last requests of a step.
    Draining,
    /// Flushes written data, so that the next step does not pay for it.
    Flushing {
        asked: bool,
    },
    Over,
}

/// Measures a device: yields requests to send, and takes completions with their times.
///
/// Keeps a number of requests of one kind at the device until their rate has settled, then raises the depth as long as that
/// gains, then takes the next kind. The result is what a busy device can do; utilisation is a share of that. Requests of two
/// steps never overlap; a flush follows each step of writes.
///
/// The caller sends the requests of [`Calibration::poll_request`] until that returns `None`, reports each completion, and
/// polls again. `None` with no request at the device means that all is measured. The caller gives up if a request fails.
#[derive(Debug)]
pub struct Calibration {
    settings: Settings,
    room: Room,
    places: Places,
    steps: Vec<Step>,
    state: State,
    in_flight: u32,
    next_id: u64,
}

impl Calibration {
    /// A calibration that has not sent a request.
    pub fn new(room: Room, settings: Settings) -> Calibration {
        let mut calibration = Calibration {
            settings,
            room,
            places: Places::new(room),
            steps: Vec::new(),
            state: State::Over,
            in_flight: 0,
            next_id: 0,
        };
        calibration.begin();
        calibration
    }

    /// The next request to send at `now_ns`; `None` until a request completes. O(1).
    pub fn poll_request(&mut self, now_ns: u64) -> Option<Ask> {
        let ask = match &mut self.state {
            State::Loading { load, meter } if self.in_flight < load.depth => {
                let shortest_ns = self.settings.shortest_ns(load.direction);
                meter.get_or_insert_with(|| Meter::new(now_ns, shortest_ns, load.warm()));
                let op = match load.direction {
                    Direction::Read => Op::Read,
                    Direction::Write => Op::Write,
                };
                Ask { id: self.next_id, op, offset: self.places.next(load), len: load.len }
            }
            State::Flushing { asked } if !*asked => {
                *asked = true;
                Ask { id: self.next_id, op: Op::Flush, offset: 0, len: 0 }
            }
            _ => return None,
        };
        self.next_id += 1;
        self.in_flight += 1;
        Some(ask)
    }

    /// Reports a completion at `now_ns`; times must not go back.
    ///
    /// # Panics
    /// If no request is at the device.
    pub fn handle_completion(&mut self, now_ns: u64) {
        self.in_flight =
            self.in_flight.checked_sub(1).expect("a completion of something that was sent");
        if let State::Loading { load, meter: Some(meter) } = &mut self.state
            && let Some(verdict) = meter.note(now_ns)
        {
            self.steps.push(Step {
                load: *load,
                requests: verdict.requests,
                elapsed_ns: verdict.elapsed_ns,
                is_steady: verdict.is_steady,
            });
            self.state = State::Draining;
        }
        if self.in_flight > 0 {
            return;
        }
        match self.state {
            State::Draining => {
                let wrote = self.steps.last().map(|step| step.load.direction);
                if wrote == Some(Direction::Write) {
                    self.state = State::Flushing { asked: false };
                } else {
                    self.begin();
                }
            }
            State::Flushing { asked: true } => self.begin(),
            State::Loading { .. } | State::Flushing { asked: false } | State::Over => {}
        }
    }

    /// Starts the next load, if there is one.
    fn begin(&mut self) {
        self.state = match plan::next(&self.settings, self.room, &self.steps) {
            None => State::Over,
            Some(load) => {
                self.places.begin(&load);
                State::Loading { load, meter: None }
            }
        };
    }

    /// Whether all is measured.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// The load under way, and the number of steps.
    pub fn progress(&self) -> Progress {
        let load = match &self.state {
            State::Loading { load, .. } => Some(*load),
            State::Draining | State::Flushing { .. } => self.steps.last().map(|step| step.load),
            State::Over => None,
        };
        Progress {
            load,
            steps: self.steps.len(),
            steps_max: plan::steps_max(&self.settings),
            last: self.steps.last().copied(),
        }
    }

    /// The results; `None` before all is measured.
    pub fn outcome(self) -> Option<Outcome> {
        if !self.is_over() {
            return None;
        }
        fit::fit(self.room, self.steps)
    }
}
