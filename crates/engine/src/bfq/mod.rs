//! BFQ: budget fair queueing, shares by weight in a tree of cgroups (`scheduler = "bfq"`).
//!
//! ```text
//!  insert ─► flow: by position, by age ─┐                    ┌─► budget used up, time out, no more requests
//!                                       ├─► slot ─► dispatch ┤
//!  hierarchy: next flow, by B-WF2Q+ ────┘     └─► idle: wait for the flow's next request
//! ```
//!
//! A flow is a client's, not a task's: eight connections of one client get what one connection of another gets, as in the
//! throttle, and a stream spread over a client's connections is seen as one. Writeback of a cgroup is one flow. `docs/bfq.md`
//! has the differences to docs/spec/bfq.md.

mod budget;
mod check;
mod coalescing;
mod counters;
mod data;
mod destage;
mod device;
mod flow;
mod idling;
mod in_service;
mod inject_limit;
mod injection;
mod low_latency;
mod merger;
mod peak_rate;
mod scenario;
mod schedule;
mod scheduler;
mod settings;
mod shared_stream;
mod tunables;
mod weight_raising;
mod wf2q;

pub use self::counters::{BfqCgroupStats, BfqStats, Expiration, IdlingCause, Injection, Raising};
pub(crate) use self::counters::{CgroupCounts, Counters};
pub(crate) use self::scheduler::Bfq;
pub use self::settings::BfqSettings;
