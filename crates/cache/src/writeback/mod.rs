//! Writeback ledger: owner of each dirty block, charges for writing it back, and its deadline.
//!
//! A write-back cache answers a write once it has the bytes, and writes them to the device later. Unless that later write
//! is charged, buffered writes escape their cgroup's limit. The ledger decides in blocks; the caller keeps the bytes.
//!
//! ```text
//!  write ─► has its owner room? ─► dirty ── 5 s, or pressed, or flushed ─► poll_write ─► Engine::submit, of the owner,
//!              │ no                  ▲                                                    async: its limits and weight
//!              ▼                     │ written again, or failed                           decide
//!           waits for room           └───────────── complete ◄── device ◄── start ◄────── Engine::poll_dispatch
//! ```
//!
//! # Ownership
//!
//! - A block's owner is the cgroup that wrote to it last while it was dirty. Once the block is in a request, its owner stays
//!   charged: a write before the device takes the bytes is free, a later one dirties the block anew.
//! - Blocks of one owner leave in the order in which they became dirty, with deadlines that do not decrease
//!   (spec/throttle P21). Adjacent dirty blocks of the same owner join the request before their turn.
//! - A queue is due before its deadline when its owner has more dirty than is left for all, has a write that waits for room,
//!   flushes, or loses its cgroup; and when little is left for all.
//! - Blocks that a flush waits for go before all queues, by position, in synchronous requests of the waiter
//!   ([`Awaited::By`]). So do all blocks of an owner with a write that waits for room. [`Writeback::poll_awaited`] names
//!   requests in the engine for which that begins.
//! - Blocks that another owner's flush waits for go at once, regardless of their owner's limits ([`Awaited::ByAnother`]).
//!   They are the owner's debt: until its limits have paid it, the owner may have less dirty ([`Bound`]).
//!
//! # Room
//!
//! - A write waits for room when its owner has its share, four times what is left: one owner alone 4/5 of the cache, two 4/9
//!   each. So all owners are bounded, and something is left for a later one. An owner with nothing dirty waits only when
//!   nothing is left. An owner may have a smaller bound of its own.
//! - Reads compete only with the owner's requests at the device: at most [`Settings::requests_per_owner_max`] of
//!   [`Settings::request_blocks_max`] blocks, which the engine dispatches by that owner's limits and weight.
//!
//! # Failures
//!
//! Blocks that the device has failed are dirty again. They are retried after [`Settings::retry_ns`], or with the next flush
//! that waits for them, in smaller requests each time, so that one bad block does not hold its neighbours. Every flush that
//! waited for them fails. So does the next flush of each client of their owner, even if the retry succeeds. Writes that wait
//! for room which failed blocks hold are refused. After [`Writeback::drain`] a block that fails alone is given up.
//!
//! # Cost
//!
//! O(log blocks) for each block of a call, and about 100 bytes for each dirty block.

mod api;
mod barrier;
mod check;
mod dirty_queue;
mod ledger;
mod owner;
mod settings;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

pub use self::owner::{Bound, OwnerStats};
pub use self::settings::{BLOCK_BYTES, Settings};

use self::barrier::{Barrier, Barriers};
use self::dirty_queue::{Deferred, DirtyQueues};
use self::owner::{Owners, Waiter};
use weir_engine::CgroupId;
use weir_engine::Instant;

/// Answer to a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Taken: its blocks are dirty.
    Taken,
    /// It waits for room: [`Writeback::poll_admitted`] will return it.
    Waits,
    /// It is longer than [`Settings::write_blocks_max`] or its owner's bound, and should go to the device directly.
    TooLong,
}

/// Names a pending request: from [`Writeback::poll_write`] to [`Writeback::complete`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteId(u32);

/// Reason of a device's failure: a number of the caller's, such as an errno, returned as given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reason(pub u32);

/// What waits for a pending request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// Nothing waits: it is asynchronous.
    No,
    /// Writes wait for room, and the cache is short: it is synchronous.
    ByAll,
    /// A flush of its owner, or a write of its owner that waits for room, by token: it is synchronous, as a request of that
    /// waiter.
    By(u64),
    /// A flush of another owner: it is synchronous, goes at once, and is charged to its owner as debt.
    ByAnother,
}

/// Blocks to be written to the device now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// For [`Writeback::start`] and [`Writeback::complete`].
    pub id: WriteId,
    /// Cgroup that is charged.
    pub owner: CgroupId,
    /// Blocks; never empty.
    pub blocks: Range<u64>,
    /// What waits for it so far.
    pub awaited: Awaited,
}

/// Flush whose blocks have all been written, or failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flushed {
    /// As given.
    pub token: u64,
    /// The latest failure of a block that it waited for, or of its owner since the client's previous flush.
    pub result: Result<(), Reason>,
    /// For `seen` of the client's next flush: the failures reported so far.
    pub seen: u64,
}

/// Write that no longer waits for room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// As given.
    pub token: u64,
    /// `Ok`: its blocks are dirty. `Err`: it is refused, since blocks of its owner cannot be written.
    pub result: Result<(), Reason>,
}

/// Ledger of a write-back cache: its dirty blocks and their owners.
///
/// Sans-IO: the caller reports each event with its time, then calls the `poll_` functions until they return `None`, and
/// again at [`Writeback::poll_timeout`]. The same calls give the same answers.
///
/// ```
/// use weir_cache::writeback::{Admission, Settings, Writeback};
/// use weir_engine::{Config, Engine, Instant, Path};
///
/// let mut engine = Engine::new(Config::default(), Instant::ZERO);
/// let vm1 = engine.ensure_cgroup(&Path::parse("/vm1").unwrap()).unwrap();
/// let mut ledger = Writeback::new(Settings::default(), Instant::ZERO);
/// for block in [8, 9, 7] {
///     assert_eq!(ledger.write(Instant::ZERO, vm1, block..block + 1, true, 0), Admission::Taken);
/// }
/// assert_eq!(ledger.poll_write(Instant::ZERO), None);
/// let due = ledger.poll_timeout().unwrap();
/// assert_eq!(due, Instant::from_millis(5_000));
/// let write = ledger.poll_write(due).unwrap();
/// assert_eq!((write.owner, write.blocks), (vm1, 7..10));
/// // Submitted to the engine as a request of vm1's; when that is dispatched:
/// let mut runs = Vec::new();
/// ledger.start(write.id, &mut runs);
/// assert_eq!(runs, [7..10]);
/// ledger.complete(due, write.id, Ok(()), |_clean_block| {});
/// assert_eq!(ledger.stats(vm1).dirty_bytes, 0);
/// ```
#[derive(Debug)]
pub struct Writeback {
    settings: Settings,
    now: Instant,
    /// Counter of writes and failures.
    stamp: u64,
    blocks: BTreeMap<u64, Block>,
    owners: Owners,
    dirty_queues: DirtyQueues,
    requests: Vec<Option<PendingWrite>>,
    vacant: Vec<u32>,
    barriers: Barriers,
    /// Owners with writes that wait for room, served round robin.
    waiting_owners: VecDeque<u32>,
    refused: VecDeque<(u64, Reason)>,
    was_short: bool,
    /// Pending requests whose [`Awaited`] was raised; some may have completed.
    raised: VecDeque<WriteId>,
    /// When the last debt is paid.
    paid_at: Instant,
    /// See [`Writeback::drain`].
    is_ending: bool,
    /// Blocks that were given up and not polled yet.
    given_up: Vec<u64>,
    /// Scratch.
    touched: Vec<u64>,
}

/// Account of a dirty block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Block {
    owner: u32,
    state: State,
    /// Stamp of its oldest bytes that the device lacks.
    since: u64,
    /// Turn of its item in its owner's queue, while it is dirty.
    turn: u64,
    /// Stamp of the first write since the device took its bytes; 0 without one.
    again: u64,
    /// Failures of its oldest bytes, up to 255.
    failures: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// In its owner's queue.
    Dirty,
    /// In a request that the engine has not dispatched.
    Queued(WriteId),
    /// In a request at the device.
    Writing(WriteId),
}

#[derive(Clone, Debug)]
struct PendingWrite {
    owner: u32,
    blocks: Range<u64>,
    /// Item of the queue that it was chosen for; `None` if it was chosen for a flush.
    front: Option<Deferred>,
    awaited: Awaited,
    /// Whether [`Writeback::poll_awaited`] has to report it.
    is_raised: bool,
}
