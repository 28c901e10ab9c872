//! Plain data that every part of the engine knows: settings, requests, ids, times and prices. They import no other part.

mod cost;
mod ids;
pub(crate) mod limits;
mod low_latency;
pub(crate) mod priority;
pub(crate) mod request;
mod scheduler_kind;
pub(crate) mod time;
mod watermark;
pub(crate) mod weight;

pub(crate) use cost::Cost;
pub use ids::{CgroupId, ClientId, TaskId};
pub use low_latency::LowLatency;
pub use scheduler_kind::SchedulerKind;
pub use watermark::{Headroom, Watermark, WatermarkMode};
