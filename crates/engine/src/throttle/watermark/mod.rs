//! Watermarks: limits that bind only while the device is used more than a watermark says, or always.
//!
//! The limits of all cgroups with the same watermark go by one clock, whose time is the real time plus what it has been
//! set forward by. A limiter never knows: it is asked and charged in the time of its clock, which `Throttle::limit_time`
//! reads, and costs one branch where no watermark is set. Setting the clock forward makes every limit go up in the same
//! proportion, and costs O(1) however many there are; see [`Watermarks`].

mod anticipation;
mod clock;
mod gate;
mod proportional;
mod steer;
mod watermarks;

pub(crate) use clock::LimitTime;
pub use watermarks::WatermarkStats;
pub(crate) use watermarks::Watermarks;
