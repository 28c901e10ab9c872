//! Plain data that every part of the engine knows: settings, requests, ids, times and prices. They import no other part.

mod cost;
mod ids;
mod limits;
mod low_latency;
mod priority;
mod request;
mod scheduler_kind;
mod time;
mod watermark;
mod weight;

pub(crate) use cost::Cost;
pub use ids::{CgroupId, ClientId, TaskId};
pub(crate) use limits::earned_in;
pub use limits::{
    Dimension, KernelProfile, LimiterKind, Limits, LimitsTextError, PerDimension, Resource,
    SliceProfile,
};
pub use low_latency::LowLatency;
pub use priority::{PrioClass, Priority, PriorityClass};
pub use request::{
    Class, Direction, Dispatch, Extent, Op, Outcome, Part, Request, RequestId, Ticket,
};
pub use scheduler_kind::SchedulerKind;
pub use time::Instant;
pub use watermark::{Headroom, Watermark, WatermarkMode};
pub use weight::{Weight, WeightError};
