//! Interface of all disk models.

use core::fmt::Debug;

/// What a request does to a disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DiskOp {
    /// Transfer from the disk.
    Read,
    /// Transfer to the disk.
    Write,
    /// The same with FUA (force unit access): complete when it is on the medium.
    WriteFua,
    /// Make what was written last.
    Flush,
    /// Forget a range (TRIM).
    Discard,
    /// Make a range zero without transferring it.
    WriteZeroes,
}

/// A disk's times. All times are nanoseconds since one origin of the caller's choosing.
///
/// Calls never go back in time: a `now_ns` that is earlier than one before counts as that one. The bytes themselves are
/// the caller's business.
pub trait DiskModel: Debug + Send {
    /// A request reaches the disk at `now_ns`. `id` is the caller's, handed back at the end; the model does not look
    /// at it. `offset` and `len` are bytes inside [`DiskModel::capacity`]; a flush has neither.
    fn submit(&mut self, now_ns: u64, id: u64, op: DiskOp, offset: u64, len: u32);

    /// When to ask again if nothing else is submitted; `None` when nothing is in flight. No request is complete earlier;
    /// at that time one is, or the disk begins its next piece of work and the next answer is later.
    fn next_event(&self) -> Option<u64>;

    /// The id of a request that is complete at `now_ns`, each once, in the order of completion, equal times in the
    /// order of submission. Ask until it answers `None`.
    fn poll_complete(&mut self, now_ns: u64) -> Option<u64>;

    /// Bytes on the disk.
    fn capacity(&self) -> u64;
}
