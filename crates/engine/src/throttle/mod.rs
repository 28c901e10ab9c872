//! May it go yet? Limits over a tree of cgroups, and who goes first where several wait for the same one.
//!
//! A request that every limit of its path lets through, with nobody waiting before it, passes in the call that
//! submits it. Any other waits, in its task's list. Each cgroup with something waiting below it orders its
//! *sources* (clients and child cgroups) in an [`FairQueue`]; a cgroup whose limit lets a request go is *eligible*,
//! and an active source of its parent; what the topmost limit lets go, goes. A cgroup whose limit says "not yet" is not
//! active, and has a deadline instead.
//!
//! Who goes is decided when it goes, from the top down, so a request that comes late but has the better claim is
//! not stuck behind a queue. Slices are the exception, for parity with the kernel: there dispatch is hierarchical: a request leaves
//! its task when its own cgroup lets it go, and waits at the next limit in the order of arrival.
//!
//! A request that costs more than one instalment of a limit of its path pays one after the other, each in its turn, and
//! goes with the last ([`instalment`]).
//!
//! Reads and writes wait apart, in queues of their own. A cgroup may have a limit on both together, which either is
//! charged to; see [`rw_limit`].

mod admit;
mod dequeue;
mod eligibility;
mod fair_queue;
mod hierarchical;
mod instalment;
mod leaky;
mod limiter;
mod limits_error;
mod pace;
mod profile;
mod rate_limiter;
mod reconfigure;
mod rw_limit;
mod slice;
mod token;
mod watermark;

pub(crate) use admit::Admission;
pub(crate) use fair_queue::{FairQueue, Source, SourceState};
pub(crate) use limiter::Cost;
pub use limits_error::LimitsError;
pub(crate) use rate_limiter::RateLimiter;
pub(crate) use rw_limit::RwLimit;
pub(crate) use watermark::{Clock, Clocks, Confidence, GateEpoch};
pub use watermark::{Headroom, Watermark, WatermarkMode, WatermarkStats};
