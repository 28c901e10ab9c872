//! Utilisation of the device: the share of time with a request at it, over the last half second; or, where it was
//! measured, the share of time in which a device of its model would work.
//!
//! ```text
//!                 one sixteenth of the window
//!                 ├──┤
//!  ──┬──┬──┬──┬──┬──┬──┬──┬──┬─► time       share = (busy at now - busy at the oldest mark in the window)
//!    └ marks: busy time so far                      / (now - that mark)
//! ```
//!
//! Nothing is smoothed: the window slides in steps of 31.25 ms, and within it every nanosecond counts the same. All of
//! it is sums and differences of whole nanoseconds, so that the share is exact.

mod busy;
pub(crate) mod cost;
mod modelled;
mod sliding;

pub(crate) use busy::Busy;
pub use cost::{CostFigures, CostModel, CostTooLong, DeviceTime, Positions};
pub use modelled::Capacity;
pub(crate) use modelled::Modelled;
pub use sliding::Share;
pub(crate) use sliding::Sliding;
