//! Interface of all disk models.

use core::fmt::Debug;

/// Operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DiskOp {
    /// Transfer from the disk.
    Read,
    /// Transfer to the disk.
    Write,
    /// Transfer with FUA (force unit access): complete when it is on the medium.
    WriteFua,
    /// Make earlier writes durable.
    Flush,
    /// Forget a range (TRIM).
    Discard,
    /// Make a range zero without transferring it.
    WriteZeroes,
}

/// Timing of a disk. Times are nanoseconds since an origin of the caller's choice.
///
/// A `now_ns` before that of an earlier call counts as the latest one. The model has no data.
pub trait DiskModel: Debug + Send {
    /// A request reaches the disk at `now_ns`. `id` is opaque, and returned at completion. `offset` and `len` are bytes
    /// inside [`DiskModel::capacity`]; a flush has neither.
    fn submit(&mut self, now_ns: u64, id: u64, op: DiskOp, offset: u64, len: u32);

    /// When to poll again if nothing is submitted; `None` if nothing is in flight. No request completes earlier. At that
    /// time one completes, or an internal step ends and the next event is later.
    fn next_event(&self) -> Option<u64>;

    /// Ids of requests complete at `now_ns`, each once, in order of completion, then of submission. Poll until `None`.
    fn poll_complete(&mut self, now_ns: u64) -> Option<u64>;

    /// Bytes on the disk.
    fn capacity(&self) -> u64;
}
