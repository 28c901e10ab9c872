//! Linux's slice limiter, with queues of its own: an allowance per slice of time, and dispatch from level to level.
//!
//! Under other limiters a request stays with its task until it passes every limit at once. Here it leaves its task when
//! its own cgroup lets it go, and queues at the parent for the next limit, in order of arrival (spec/throttle 1.4 and
//! 1.7). What only this needs is in this module; without the feature `slice` there is `without.rs` in its place.

mod dispatch;
mod limiter;
mod profile;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod published;
mod queues;
mod ticks;
#[cfg(test)]
mod vectors;

pub(crate) use limiter::Slice;
pub(super) use queues::SliceQueues;
