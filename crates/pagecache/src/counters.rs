//! Counters of a page cache.

/// Totals since the beginning, and levels now. Pages are of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Pages that were there when a reader came to them.
    pub hit_pages: u64,
    /// Pages that a reader had to wait for: read because it asked, or read ahead and not there yet.
    pub miss_pages: u64,
    /// Pages requested before a reader asked for them.
    pub ahead_pages: u64,
    /// Of these, how many a reader has come to.
    pub ahead_used_pages: u64,
    /// Of these, how many went before: evicted, dropped, trimmed or overwritten.
    pub ahead_unused_pages: u64,
    /// Clean pages that went to make room.
    pub evicted_pages: u64,
    /// Bytes in memory now.
    pub cached_bytes: u64,
    /// Dirty bytes now, those being written back included.
    pub dirty_bytes: u64,
    /// Of these, being written back.
    pub writing_bytes: u64,
    /// The most that `dirty_bytes` has been.
    pub dirty_bytes_max: u64,
    /// Writes that had to wait because of the dirty limit, each counted once.
    pub throttled_writes: u64,
    /// How long they waited for that, together; of those that still wait, up to their latest turn.
    pub throttled_ns: u64,
    /// Times that an operation had to wait because all memory was dirty or in use by requests.
    pub starved: u64,
}

/// What was done for one owner: what of its pages was written back, and how it waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnerCounters {
    /// Bytes read from the disk.
    pub read_bytes: u64,
    /// Bytes written back by the flusher while no write waited for room.
    pub background_bytes: u64,
    /// Bytes written back by the flusher while a write did.
    pub forced_bytes: u64,
    /// Bytes written back because an operation waited for them to be on disk.
    pub sync_bytes: u64,
    /// As in [`Counters`].
    pub throttled_writes: u64,
    /// As in [`Counters`].
    pub throttled_ns: u64,
}
