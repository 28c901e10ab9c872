//! Plain data that every part of the engine knows: settings, requests, ids, times and prices. They import no other part.

mod limits;
mod priority;
mod request;
mod scheduler_kind;
mod time;
mod watermark;

pub(crate) use limits::earned_in;
pub use limits::{
    Dimension, KernelProfile, Lease, LimiterKind, Limits, LimitsTextError, PerDimension, Resource,
    SliceProfile,
};
pub use priority::{LowLatency, PrioClass, Priority, PriorityClass, Weight, WeightError};
pub(crate) use request::Cost;
pub use request::{
    CgroupId, Class, ClientId, Direction, Dispatch, Extent, Op, Outcome, Part, Request, RequestId,
    TaskId, Ticket,
};
pub use scheduler_kind::SchedulerKind;
pub use time::Instant;
pub use watermark::{Headroom, Watermark, WatermarkMode};
