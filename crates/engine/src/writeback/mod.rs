//! Writeback: who dirtied what, who pays for writing it back, and when that is done.
//!
//! A write-back cache answers a write when it has the bytes, and writes them to the device later. Then somebody has to pay
//! for that write, or a limit that buffered writes escape is no limit. This is the part of such a cache that decides, in
//! blocks and without the bytes, which are the caller's.
//!
//! ```text
//!  write ─► has its owner room? ─► dirty ── 5 s, or pressed, or flushed ─► poll_write ─► Engine::submit, of the owner,
//!              │ no                  ▲                                                    async: its limits and weight
//!              ▼                     │ written again, or failed                           decide
//!           waits for room           └───────────── complete ◄── device ◄── start ◄────── Engine::poll_dispatch
//! ```
//!
//! # Who pays
//!
//! - A block's owner is the cgroup that dirtied it first, until another writes to it while it is dirty: then it is that
//!   one's. Once it is on its way it stays with whom it was charged to: who writes to it before the device takes it goes
//!   along for nothing, who writes to it after that dirties it anew.
//! - Blocks of one owner leave in the order in which they were dirtied, with a deadline each that never lies before that
//!   of an earlier one (spec/throttle P21). Dirty neighbours of the same owner go along in one request, before their
//!   turn.
//! - A row is due before its deadline when its owner has more dirty than is left for all, when it waits for room, when
//!   little is left for all, when its owner flushes, and when its cgroup is removed.
//! - What a flush waits for goes before all rows, by position, and is synchronous: a request of its waiter
//!   ([`Awaited::By`]). So is all of an owner that waits for room. A request that is in the engine already when that
//!   begins is named by [`Writeback::poll_awaited`].
//! - What the flush of another owner waits for goes now, whatever its own owner's limits ([`Awaited::ByAnother`]). Its
//!   owner owes it: what it may have dirty is less by that until its limits have paid for it ([`Bound`]).
//!
//! # Who waits
//!
//! - A write waits for room when its owner has its share, which is four times what is left: alone 4/5 of all, two of
//!   them 4/9 each. So what is dirty is bounded, of each owner and of all, and there is something left for one that comes
//!   later. An owner with nothing dirty waits only when nothing is left. An owner may have a bound of its own below that.
//! - Reads meet only the owner's requests at the device, [`Settings::requests_per_owner_max`] of
//!   [`Settings::request_blocks_max`] blocks at most, which the engine lets go by that owner's limits and weight.
//!
//! # What fails
//!
//! Blocks that the device has failed are dirty again, and tried again after [`Settings::retry_ns`], or with the next flush
//! that waits for them, in smaller requests each time: one bad block does not keep its neighbours.
//! Every flush that waited for them fails; and so does the next flush of their owner, once for each that asks, however
//! the retry ends. Writes that wait for room which failed blocks hold are refused. After [`Writeback::drain`] a block that
//! fails by itself is given up.
//!
//! # Cost
//!
//! O(log blocks) for each block of a call, and about 100 bytes for each dirty block; nothing for whoever has no cache.

mod barrier;
mod books;
mod check;
mod deferral;
mod face;
mod owner;
mod settings;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

pub use self::owner::{Bound, OwnerStats};
pub use self::settings::{BLOCK_BYTES, Settings};

use self::barrier::{Barrier, Barriers};
use self::deferral::{Deferral, Deferred};
use self::owner::{Owners, Waiter};
use crate::time::Instant;
use crate::tree::CgroupId;

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Its blocks are dirty.
    Taken,
    /// There is no room for its owner now: [`Writeback::poll_admitted`] tells when there is.
    Waits,
    /// It is longer than [`Settings::write_blocks_max`], or than its owner's bound: it should go to the device itself.
    TooLong,
}

/// Names a request of [`Writeback::poll_write`] until it is completed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteId(u32);

/// Why the device has failed a request: the caller's number, handed back untouched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reason(pub u32);

/// What waits for a request that writes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// Nothing: it is asynchronous.
    No,
    /// Room that every owner is short of: it is synchronous.
    ByAll,
    /// A flush of its owner, or a write of its owner that waits for room, by its token: it is synchronous, as a request
    /// of that waiter.
    By(u64),
    /// A flush of another owner: it is synchronous, goes now, and is charged to its owner as debt.
    ByAnother,
}

/// Blocks that should go to the device now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// For [`Writeback::start`] and [`Writeback::complete`].
    pub id: WriteId,
    /// Who pays.
    pub owner: CgroupId,
    /// Which blocks; never empty.
    pub blocks: Range<u64>,
    /// What waits for it now.
    pub awaited: Awaited,
}

/// A flush for which nothing is left to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flushed {
    /// As given.
    pub token: u64,
    /// Why blocks that it waited for have failed, or others of its owner since its asker's last flush; the latest reason.
    pub result: Result<(), Reason>,
    /// For the next flush of whoever asked for this one: what it has been told of.
    pub seen: u64,
}

/// A write that need not wait any longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// As given.
    pub token: u64,
    /// Its blocks are dirty now; or it is refused, because blocks of its owner cannot be written.
    pub result: Result<(), Reason>,
}

/// The books of a write-back cache: which blocks are dirty, and whose.
///
/// Sans-IO: the caller tells what happens and when, then asks the `poll_` calls until they answer `None`, and again at
/// [`Writeback::poll_timeout`]. The same calls give the same answers.
///
/// ```
/// use weir_engine::writeback::{Admission, Settings, Writeback};
/// use weir_engine::{Config, Engine, Instant, Path};
///
/// let mut engine = Engine::new(Config::default(), Instant::ZERO);
/// let vm1 = engine.ensure_cgroup(&Path::parse("/vm1").unwrap()).unwrap();
/// let mut books = Writeback::new(Settings::default(), Instant::ZERO);
/// for block in [8, 9, 7] {
///     assert_eq!(books.write(Instant::ZERO, vm1, block..block + 1, true, 0), Admission::Taken);
/// }
/// assert_eq!(books.poll_write(Instant::ZERO), None);
/// let due = books.poll_timeout().unwrap();
/// assert_eq!(due, Instant::from_millis(5_000));
/// let write = books.poll_write(due).unwrap();
/// assert_eq!((write.owner, write.blocks), (vm1, 7..10));
/// // Submitted to the engine as a request of vm1's; when that is dispatched:
/// let mut runs = Vec::new();
/// books.start(write.id, &mut runs);
/// assert_eq!(runs, [7..10]);
/// books.complete(due, write.id, Ok(()), |_clean_block| {});
/// assert_eq!(books.stats(vm1).dirty_bytes, 0);
/// ```
#[derive(Debug)]
pub struct Writeback {
    settings: Settings,
    now: Instant,
    /// Grows with everything that is written.
    stamp: u64,
    blocks: BTreeMap<u64, Block>,
    owners: Owners,
    deferral: Deferral,
    requests: Vec<Option<OnItsWay>>,
    vacant: Vec<u32>,
    barriers: Barriers,
    /// Owners with writes that wait for room, in turns.
    crowd: VecDeque<u32>,
    refused: VecDeque<(u64, Reason)>,
    was_short: bool,
    /// Requests that something waits for since they were handed out; some may be gone.
    raised: VecDeque<WriteId>,
    /// When the last owner has paid what it owes.
    paid_at: Instant,
    /// See [`Writeback::drain`].
    is_ending: bool,
    /// Blocks that were given up, until they are asked for.
    given_up: Vec<u64>,
    /// Scratch.
    touched: Vec<u64>,
}

/// What is known of a dirty block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Block {
    owner: u32,
    state: State,
    /// The stamp of the oldest bytes in it that the device does not have.
    since: u64,
    /// Its place in its owner's row, while it is dirty.
    turn: u64,
    /// Written again since the device took it, for the first time with this stamp; 0 if not.
    again: u64,
    /// How often the device has failed its oldest bytes, up to 255.
    failures: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// In its owner's row.
    Dirty,
    /// Chosen: a request for it is in the engine.
    Queued(WriteId),
    /// The device has its bytes, or is taking them.
    Writing(WriteId),
}

#[derive(Clone, Debug)]
struct OnItsWay {
    owner: u32,
    blocks: Range<u64>,
    /// What it was chosen for; `None` if a flush has chosen it.
    front: Option<Deferred>,
    awaited: Awaited,
    /// Whether [`Writeback::poll_awaited`] is to name it.
    is_raised: bool,
}
