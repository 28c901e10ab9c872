//! Counters of a page cache.

/// Totals since the beginning, and present levels. Pages have 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Pages that were cached when a reader came to them.
    pub hit_pages: u64,
    /// Pages that a reader waited for: read for it, or read ahead and still on their way.
    pub miss_pages: u64,
    /// Pages read ahead.
    pub ahead_pages: u64,
    /// Of these, pages that a reader has come to.
    pub ahead_used_pages: u64,
    /// Of these, pages that were evicted, dropped, trimmed or overwritten before.
    pub ahead_unused_pages: u64,
    /// Clean pages that were evicted.
    pub evicted_pages: u64,
    /// Bytes in memory now.
    pub cached_bytes: u64,
    /// Dirty bytes now, those under writeback included.
    pub dirty_bytes: u64,
    /// Of these, bytes under writeback.
    pub writing_bytes: u64,
    /// Maximum of `dirty_bytes`.
    pub dirty_bytes_max: u64,
    /// Writes that waited for the dirty limit, each counted once.
    pub throttled_writes: u64,
    /// Sum of these waits; of writes that still wait, up to their latest turn.
    pub throttled_ns: u64,
    /// Waits of operations because all memory was dirty or in use by requests.
    pub starved: u64,
}

/// Counters of one owner.
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
