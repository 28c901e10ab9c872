//! A directory under limits: a pass-through mount whose requests of data go through the engine.
//!
//! ```text
//!  program ─► kernel ─► /dev/fuse ─► device thread ─► THROTTLE ─► workers ─► source directory
//!                                     │      ▲                       │
//!                identity: thread ────┘      └── completions ◄───────┤
//!                process, user, cgroup                               ▼
//!  program ◄─ kernel ◄─ /dev/fuse ◄──────────────────────────── the reply
//! ```
//!
//! One thread reads requests and owns the engine. Reads and writes are submitted as requests of the caller's process,
//! which is a client of a cgroup that rules choose; all others go to a worker at once. A worker carries a request out, which
//! may block, and sends the reply itself. An interrupt withdraws what has not been dispatched and answers it with `EINTR`, so that a
//! program that waits for a limit can be killed.
//!
//! - [`Settings`]: what is mounted where, and [`TreeSettings`] with limits, weights and [`Rule`]s.
//! - [`Mounted`] is the mount, and [`Report`] what it has done.
//! - [`namespace`] makes a mount that only this process and its children see, without privileges where the system allows it.
#![forbid(unsafe_code)]

mod clients;
mod device;
mod error;
mod identity;
mod mounted;
pub mod namespace;
mod procfs;
mod report;
mod rule;
mod tree;

pub use error::MountError;
pub use mounted::{Mounted, Settings, Unmounter};
pub use report::{CgroupReport, Report};
pub use rule::{Rule, RuleError};
pub use tree::{Pattern, TreeSettings};
