//! When limits bind: only while the device is used more than a watermark says, or always.
//!
//! The limits of all cgroups with the same watermark go by one clock, whose time is the real time plus what it has been
//! set forward by. A limiter never knows: it is asked and charged in the time of its clock. Setting the clock forward
//! makes every limit go up in the same proportion, and costs O(1) however many there are; see [`Clocks`].

mod anticipation;
mod clock;
mod clocks;
mod gate;
mod proportional;
mod steer;

pub(crate) use anticipation::Confidence;
pub(crate) use clock::Clock;
pub(crate) use clocks::Clocks;
pub use clocks::WatermarkStats;
pub(crate) use gate::GateEpoch;
