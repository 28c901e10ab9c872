//! Counters and latency histograms of one writer, which other threads read without a lock.
//!
//! The writer's cost is that of plain counters and two more stores; a reader costs the writer nothing but a line of cache
//! that was read elsewhere.
//!
//! ```
//! use weir_counters::{Counters, Histogram, SharedHistogram};
//!
//! let (moved, times) = (Counters::<2>::default(), SharedHistogram::default());
//! for ns in [90_000, 110_000, 4_000_000] {
//!     moved.update(|[ios, bytes]| (*ios, *bytes) = (*ios + 1, *bytes + 4096));
//!     times.record(ns);
//! }
//! // On any thread:
//! assert_eq!(moved.read(), [3, 12_288]);
//! let mut all = Histogram::default();
//! times.add_to(&mut all);
//! assert!(all.quantile_ns(500).abs_diff(110_000) < 7_000);
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bins;
mod counters;
mod histogram;
mod shared_histogram;

/// Atomics, which the tests of interleavings replace.
mod atomic {
    pub(crate) use core::hint::spin_loop;
    pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
}

pub use counters::Counters;
pub use histogram::{Bin, Histogram};
pub use shared_histogram::SharedHistogram;
