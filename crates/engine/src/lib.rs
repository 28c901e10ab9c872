//! Weir's engine: may a request go yet (throttling), and which goes next (scheduling), for one device.
//!
//! ```text
//!  submit ─► THROTTLE ─► SCHEDULER ─► poll_dispatch ─► the device
//!            may it go?  which is next?                     │
//!  complete ◄───────────────────────────────────────────────┘
//! ```
//!
//! The engine does nothing by itself. It has no thread, clock, socket or buffer: every call takes `now`, and the
//! same calls with the same instants give the same answers, on every machine. It allocates while it grows, never
//! per request, holds no unsafe code, and decides in integers.
//!
//! `spec/bfq 2.6` is section 2.6 of `docs/spec/bfq.md` in Weir's repository.
//!
//! ```
//! use weir_engine::{
//!     Change, Config, Dimension, Engine, Extent, Instant, Limits, Op, Outcome, Path, PerDimension, Request,
//! };
//!
//! let mut engine = Engine::new(Config::default(), Instant::ZERO);
//! let vm1 = engine.ensure_cgroup(&Path::parse("/vm1").unwrap()).unwrap();
//! let limits = Limits {
//!     max: PerDimension::NONE.with(Dimension::Riops, 100),
//!     burst: PerDimension::NONE.with(Dimension::Riops, 1),
//!     ..Limits::default()
//! };
//! engine.reconfigure(Instant::ZERO, Change::SetLimits { cgroup: vm1, limits }).unwrap();
//! let client = engine.open_client(vm1).unwrap();
//! let task = engine.open_task(client).unwrap();
//!
//! // Two reads at once under a limit of 100 a second: one goes, the other 10 ms later.
//! for tag in [1, 2] {
//!     let read = Request::new(task, Op::Read, Extent::new(tag * 4096, 4096), tag);
//!     engine.submit(Instant::ZERO, read).unwrap();
//! }
//! let first = engine.poll_dispatch(Instant::ZERO).unwrap();
//! assert_eq!(first.request.tag, 1);
//! assert_eq!(engine.poll_dispatch(Instant::ZERO), None);
//! engine.complete(Instant::from_millis(1), first.ticket, Outcome::Done);
//!
//! let wake = engine.poll_timeout().unwrap();
//! assert_eq!(wake, Instant::from_millis(10));
//! engine.handle_timeout(wake);
//! assert_eq!(engine.poll_dispatch(wake).unwrap().request.tag, 2);
//! ```

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "bfq", feature = "check", feature = "slice")),
    allow(dead_code, reason = "found where all features are on")
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

/// The README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod account;
#[cfg_attr(not(feature = "bfq"), path = "bfq/without.rs")]
mod bfq;
mod blame;
#[cfg(feature = "check")]
mod check;
mod config;
mod core;
mod counted;
mod engine;
mod ensure;
mod error;
mod event;
mod latencies;
mod latency;
#[cfg_attr(not(feature = "bfq"), path = "merge/without.rs")]
#[cfg_attr(
    not(feature = "check"),
    allow(unreachable_pub, unused_imports, reason = "its tests use all of it")
)]
mod merge;
mod price;
mod reconfigure;
mod requests;
mod scheduler;
pub mod settings;
mod shared_counters;
pub mod stats;
pub mod structure;
mod switch_scheduler;
mod throttle;
mod tree;
mod tree_stats;
mod types;
pub mod utilisation;

pub use config::{Change, Config};
pub use engine::Engine;
pub use error::{ChangeError, CreateError, OpenError, SubmitError};
pub use event::Event;
pub use throttle::LimitsError;
pub use tree::{NameError, Path};
pub use types::{
    CgroupId, Class, ClientId, Dimension, Direction, Dispatch, Extent, Instant, LimiterKind,
    Limits, LimitsTextError, Op, Outcome, Part, PerDimension, Priority, Request, RequestId,
    Resource, SchedulerKind, TaskId, Ticket, Watermark, Weight, WeightError,
};

/// Merging by itself, for its tests.
#[cfg(all(feature = "bfq", feature = "check"))]
#[doc(hidden)]
pub mod merge_internals {
    pub use crate::merge::*;
}
