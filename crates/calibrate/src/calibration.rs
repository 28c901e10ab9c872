//! The procedure: which request goes next, and what the completions told.

use weir_engine::{Direction, Op};

use crate::fit::{self, Outcome};
use crate::load::{Load, Step};
use crate::meter::Meter;
use crate::places::{Places, Room};
use crate::plan::{self, Settings};

/// A request to be sent to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Comes back with [`Calibration::handle_completion`].
    pub id: u64,
    /// [`Op::Read`], [`Op::Write`] or [`Op::Flush`].
    pub op: Op,
    /// First byte, a multiple of 4096.
    pub offset: u64,
    /// Bytes, a multiple of 4096; 0 for a flush.
    pub len: u32,
}

/// How far a calibration is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// What is asked at the moment; `None` when all is measured.
    pub load: Option<Load>,
    /// Steps that are over.
    pub steps: usize,
    /// Steps that there can be at most; mostly there are fewer.
    pub steps_max: usize,
    /// The last step that is over.
    pub last: Option<Step>,
}

/// What is going on.
#[derive(Debug)]
enum State {
    /// Requests of a load are kept at the device; the meter is there from the first on.
    Loading {
        load: Load,
        meter: Option<Meter>,
    },
    /// A step is over, and its requests are awaited.
    Draining,
    /// What was written is made last, so that the next step does not pay for it.
    Flushing {
        asked: bool,
    },
    Over,
}

/// Measures a device: a state machine that says what to send and takes completions with their times.
///
/// Keeps a number of requests of one kind at the device, until their rate has settled; then the next depth, as long as
/// that gains, and the next kind. So it finds what the device can do when it is kept busy, which is what utilisation is a
/// share of. Requests of one step never overlap those of another; after a step of writes comes a flush.
///
/// The caller sends what [`Calibration::poll_request`] answers until that is `None`, tells each completion, and asks
/// again. When `poll_request` answers `None` with nothing at the device, all is measured. A request that fails is the
/// caller's reason to give up.
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
    /// Begins to measure a device.
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

    /// The next request that is to be sent at `now_ns`; `None` before something has completed. O(1).
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

    /// A request was complete at `now_ns`; times never go back.
    ///
    /// # Panics
    /// If nothing is at the device.
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

    /// Goes on to the next load, if there is one.
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

    /// How far it is.
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

    /// What was measured; `None` before all is.
    pub fn outcome(self) -> Option<Outcome> {
        if !self.is_over() {
            return None;
        }
        fit::fit(self.room, self.steps)
    }
}
