//! Promises of Weir's own throttle about a run, checked from the record of that run.
//!
//! A [`Log`] says what was submitted, what was dispatched, what changed, and when the caller had asked for everything
//! there was ([`Event::Drained`]). [`check_log`] replays it and answers the first broken promise:
//!
//! | property, of spec/throttle 4 | what is checked |
//! |---|---|
//! | spec/throttle P1, P3, P18 | in no window of time does a cgroup's subtree exceed rate x time + burst, metadata apart |
//! | spec/throttle P4 | a task's requests leave in order, reads and writes apart |
//! | spec/throttle P5 | nothing leaves before every limit above it allows it, to the nanosecond |
//! | work conservation, spec/throttle P6, P14 | nothing that may go stays; the next deadline is not past the first instant at which something may |
//! | spec/throttle P7, P8 | nothing is lost, invented or sent twice, whatever is changed meanwhile |
//! | spec/throttle P10, P18 | a request under no limit, and metadata, leave at the instant they come |
//! | spec/throttle P12 | sources that wait together share by weight, by the time they take of the limit; a client's tasks take turns |
//! | spec/throttle P12, joint | where reads and writes of a cgroup wait for the limit on both, and for nothing else, they share it by the weights of the sources that wait in each |
//!
//! The limiter modelled is the paced one: for each limit a *level* that every charge raises by its amount and that
//! falls at the limit's rate; a request may go while no level of its path is above its tolerance, whatever the
//! request's own size. That is the generic cell rate algorithm (TAT - now is the level divided by the rate), written so
//! that every number is an integer. Other limiters are held to spec/throttle P1 with their own allowance, and to what
//! does not depend on the limiter.
//!
//! [`Throttle`] is the same throttle made to run, as plainly as it can be written: what the checker is tested with.

mod check;
mod fairness;
mod log;
mod meter;
mod simulate;
mod state;
mod window;

pub use check::check_log;
pub use log::{Event, Log, Request, Violation};
pub use meter::{Limiter, Peak, Rate, Rates};
pub use simulate::Throttle;

/// Nanoseconds since the start of the log.
pub type Nanos = u64;

/// Names a cgroup; 0 is the root, which is there from the start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CgroupId(pub usize);

/// Names a client: the unit of fairness inside a cgroup.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub usize);

/// Names a task: first in, first out in each direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId(pub usize);

/// Names a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// The root cgroup.
pub const ROOT: CgroupId = CgroupId(0);

/// The weight of every client.
pub const CLIENT_WEIGHT: u64 = 100;
