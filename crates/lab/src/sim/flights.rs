//! Requests on their way.

use weir_engine::{Op, Ticket};

use crate::stream::Access;

/// One request: of a process, or of the page cache for one.
///
/// One line of cache, for with many of them the time goes into fetching them from memory.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Flight {
    pub(super) purpose: Purpose,
    pub(super) op: Op,
    /// Whether somebody waits for it: not so for what the page cache writes back by itself.
    pub(super) sync: bool,
    /// Who made it, among the actors; for the page cache's, who is charged.
    pub(super) actor: u32,
    pub(super) len: u32,
    /// On the disk.
    pub(super) offset: u64,
    /// When the process made it; for a request of the page cache, its number there.
    pub(super) issued_ns: u64,
    /// When the engine took it in.
    pub(super) submitted_ns: u64,
    pub(super) dispatched_ns: u64,
    /// While it is at the disk.
    pub(super) ticket: Option<Ticket>,
    /// The one that is joined to it at the disk; [`NO_FLIGHT`] for none.
    pub(super) joined: u32,
}

/// The key of none.
pub(super) const NO_FLIGHT: u32 = u32::MAX;

// With the mark of an occupied slot.
const _: () = assert!(size_of::<Option<Flight>>() == 64);

impl Flight {
    /// One that is made at `now_ns`.
    #[inline]
    pub(super) fn new(
        purpose: Purpose,
        op: Op,
        actor: u32,
        offset: u64,
        len: u32,
        now_ns: u64,
    ) -> Flight {
        Flight {
            purpose,
            op,
            sync: true,
            actor,
            len,
            offset,
            issued_ns: now_ns,
            submitted_ns: now_ns,
            dispatched_ns: 0,
            ticket: None,
            joined: NO_FLIGHT,
        }
    }
}

/// What happens when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The process goes on.
    Io(Access),
    /// A write of a process, to be followed by a flush (`sync=1`).
    SyncedWrite,
    /// That flush.
    FlushOfWrite,
    /// fsync past the page cache: a flush.
    Fsync,
    /// An operation on the page cache; never at the disk itself.
    Cached(Access),
    /// fsync through the page cache; never at the disk itself.
    CachedSync,
    /// A read into the page cache before the process starts (`pre_read`); never at the disk itself.
    PreRead,
    /// A request of the page cache.
    OfCache,
}
