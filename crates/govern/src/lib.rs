//! Governor of a kernel's limits: samples of one device and its cgroups in, new limits out.
//!
//! The governor has no clock, no thread and no files. Its host takes the samples, tells the time, and writes the limits:
//! `weir govern` on a kernel, the lab in virtual time.

mod governor;
pub mod host;
mod io_max;
pub mod kernel;

pub use governor::{
    BusyTime, Cgroup, CgroupId, CgroupSample, Counters, DeviceSample, Governor, Mode, Settings,
    State, Turn, Write,
};
pub use io_max::IoMax;
