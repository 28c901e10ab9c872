//! Queues that become one, and part: what BFQ decides about merging, without the scheduler around it.
//!
//! Two mechanisms, independent of each other. *Cooperation* ([`cooperation`]) joins queues whose requests lie close
//! together shortly after both began, so that interleaved readers become one sequential stream. *Stable merging*
//! ([`stable`]) joins queues that were created shortly after each other, because the flows of one task gain nothing
//! from being kept apart. Queues that merged form a set ([`sets`]) with one representative, which receives everybody's
//! requests. [`split`] says what a queue gets back when it leaves. [`waker`] says who may use the gaps of whom.
//!
//! ```text
//!  open ──► first of its time: anchor        at the next requests          at expiration
//!           soon after: merge or candidate ──► check ──► merge ──► set ──────► seeky: split
//!                                               │                              every member goes home
//!                                               └──► refused, with a reason
//! ```
//!
//! Nothing here holds requests, time or budgets: instants and facts about queues are arguments, decisions are results.
//! [`Merging`] is the whole of it for one device, and is what a scheduler calls; the parts below can be used alone.
//! Nothing allocates but to grow with the largest queue index. Source: spec/bfq 7 and 10;
//! `docs/bfq-merging.md`.

pub mod cooperation;
mod counters;
mod merging;
mod position_tree;
pub mod sets;
mod settings;
pub mod split;
pub mod stable;
pub mod waker;

pub use crate::priority::PriorityClass;
pub use counters::Counters;
pub use merging::{Ask, Check, Kind, Merge, Merging, Opened};
pub use position_tree::PositionTree;
pub use settings::{MergeWindow, Rules, Settings, SettingsError, StableTimes};

/// Names a queue: the synchronous flow of one task. A stale id names nobody, never another queue.
///
/// Indices are expected to be dense: tables are as long as the largest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId {
    /// The slot of the queue in its owner's arena.
    pub index: u32,
    /// Told apart from those that had the slot before.
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

/// What must be alike in two queues, or what rules a queue out, for longer than one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traits {
    /// The cgroup, as an index. Queues of different cgroups never merge.
    pub group: u32,
    /// Its class.
    pub class: PriorityClass,
    /// 0 (best) to 7 within the class. Stable merging asks for equal levels, cooperation does not.
    pub level: u8,
    /// Whether somebody waits for its requests. Asynchronous queues never merge.
    pub sync: bool,
}
