//! Merge and split of queues: BFQ's decisions, without the scheduler around them (spec/bfq 7 and 10).
//!
//! *Cooperation* ([`cooperation`]) merges queues whose requests lie close together shortly after both began, so that
//! interleaved readers become one sequential stream. *Stable merging* ([`stable`]) merges queues created shortly after
//! each other, since the flows of one task gain nothing from being kept apart. Merged queues form a set ([`sets`]) with
//! one representative, which receives all requests. [`split`] is what a queue gets back when it leaves, [`waker`] finds
//! queues to inject.
//!
//! ```text
//!  open ──► first of its time: anchor        at the next requests          at expiration
//!           soon after: merge or candidate ──► check ──► merge ──► set ──────► seeky: split
//!                                               │                              all members are alone again
//!                                               └──► refused, with a reason
//! ```
//!
//! Nothing here holds requests, time or budgets: instants and facts about queues are arguments, decisions are results.
//! A scheduler calls [`Merging`]; its parts can be used alone. Allocates only with the largest queue index. See
//! `docs/bfq-merging.md`.

pub mod cooperation;
mod counters;
mod merging;
mod position_tree;
mod refusal;
pub mod sets;
mod settings;
pub mod split;
pub mod stable;
pub mod waker;

pub use crate::types::PriorityClass;
pub use counters::Counters;
pub use merging::{Ask, Check, Kind, Merge, Merging, Opened};
pub use position_tree::PositionTree;
pub use refusal::Refusal;
pub use settings::{MergeWindow, Rules, Settings, SettingsError, StableTimes};

/// Id of a queue, the synchronous flow of one task. A stale id names no queue.
///
/// Indices are expected to be dense: tables are as long as the largest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId {
    /// The slot of the queue in its owner's arena.
    pub index: u32,
    /// Distinguishes queues that had the same slot.
    pub generation: u32,
}

/// A place on the device, in bytes from its beginning.
///
/// Where nothing is known yet there is no `Position`: `None` is never close to anything, byte 0 is an ordinary place
/// (the kernel's one value for both makes strangers near the beginning of the disk look close: spec/bfq D-11).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position(pub u64);

impl Position {
    /// Bytes between the two, whichever comes first.
    pub const fn distance(self, other: Position) -> u64 {
        self.0.abs_diff(other.0)
    }
}

/// Properties of a queue that decide about merging, beyond one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traits {
    /// The cgroup, as an index. Queues of different cgroups never merge.
    pub group: u32,
    /// Its class.
    pub class: PriorityClass,
    /// 0 (best) to 7 within the class. Stable merging asks for equal levels, cooperation does not.
    pub level: u8,
    /// Whether it is synchronous. Asynchronous queues never merge.
    pub sync: bool,
}
