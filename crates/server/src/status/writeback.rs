//! Status of a write-back cache.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_cache::writeback::OwnerStats;

/// The write-back cache of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct CacheStatus {
    /// Bytes that may be in it.
    pub size_bytes: u64,
    /// Bytes of the blocks in it, dirty or on their way to the device.
    pub dirty_bytes: u64,
}

/// What a write-back cache has of one cgroup and all below it, and has done for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct WritebackStatus {
    /// Bytes of its blocks that are dirty or on their way to the device, now.
    pub dirty_bytes: u64,
    /// Of these, on their way.
    pub writing_bytes: u64,
    /// Writes that wait for room, now.
    pub waiting_ios: u64,
    /// Writes answered from memory.
    pub taken_ios: u64,
    /// Reads answered from memory.
    #[serde(default)]
    pub hit_ios: u64,
    /// Bytes of blocks that were dirty already when they were written: they reach the device once.
    pub overwritten_bytes: u64,
    /// Requests that wrote blocks back.
    pub written_ios: u64,
    /// Bytes of the blocks that they wrote.
    pub written_bytes: u64,
    /// Writes that went back in one request with their neighbours'.
    pub coalesced_ios: u64,
    /// Writes that had to wait for room.
    pub waits: u64,
    /// How long they did, summed.
    pub wait_ns: u64,
    /// Flushes that had to wait for writes in the cache.
    #[serde(default)]
    pub flush_waits: u64,
    /// How long they did, summed, until these were on the device; not the device's own flush that follows.
    #[serde(default)]
    pub flush_wait_ns: u64,
    /// Requests that wrote blocks back and that the device failed.
    pub failed_ios: u64,
}

impl From<OwnerStats> for WritebackStatus {
    fn from(stats: OwnerStats) -> WritebackStatus {
        WritebackStatus {
            dirty_bytes: stats.dirty_bytes,
            writing_bytes: stats.writing_bytes,
            waiting_ios: stats.waiting,
            taken_ios: stats.taken_ios,
            hit_ios: stats.hit_ios,
            overwritten_bytes: stats.overwritten_bytes,
            written_ios: stats.written_ios,
            written_bytes: stats.written_bytes,
            coalesced_ios: stats.coalesced_ios,
            waits: stats.waits,
            wait_ns: stats.wait_ns,
            flush_waits: stats.flush_waits,
            flush_wait_ns: stats.flush_wait_ns,
            failed_ios: stats.failed_ios,
        }
    }
}
