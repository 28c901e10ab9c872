//! Settings of write-back: bytes that may be dirty, for how long, and the size of requests.

use std::num::NonZeroU32;

/// Bytes in a block, the unit of ownership: a page of every machine that Weir runs on.
pub const BLOCK_BYTES: u64 = 4096;

/// Fewest blocks in a retry before the drain: a device that fails all of a full cache gets a few thousand requests a
/// second at most.
const RETRY_BLOCKS_MIN: u64 = 8;

/// Settings of a [`super::Writeback`]. Every value is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Most blocks of all owners together that are dirty or in pending requests. 65,536 by default: 256 MiB.
    pub blocks_max: NonZeroU32,
    /// Time for which a block stays dirty without pressure, in nanoseconds; 0 writes back at once. 5 s by default, Linux's
    /// interval between two scans for old data, since a power failure loses as much.
    pub expire_ns: u64,
    /// Delay of a retry after a failure, unless a flush waits for the block, in nanoseconds. 1 s by default.
    pub retry_ns: u64,
    /// Most blocks in one request to the device. 128 by default: 512 KiB, as much as bfq coalesces.
    pub request_blocks_max: NonZeroU32,
    /// Most pending requests of one owner: enough to keep a device busy, few enough that most overwrites still find their
    /// block dirty. 16 by default.
    pub requests_per_owner_max: NonZeroU32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            blocks_max: const { NonZeroU32::new(65_536).unwrap() },
            expire_ns: 5_000_000_000,
            retry_ns: 1_000_000_000,
            request_blocks_max: const { NonZeroU32::new(128).unwrap() },
            requests_per_owner_max: const { NonZeroU32::new(16).unwrap() },
        }
    }
}

impl Settings {
    /// Longest write that is taken, in blocks: an eighth of the cache, at least one. A longer write would evict the rest, and
    /// has no need of neighbours.
    pub fn write_blocks_max(&self) -> u64 {
        (u64::from(self.blocks_max.get()) / 8).max(1)
    }

    /// Most blocks in one request of blocks that have failed `failures` times: a quarter for each failure, down to 8, or to 1
    /// in the drain.
    pub(super) fn request_blocks(&self, failures: u8, is_ending: bool) -> u64 {
        let most = u64::from(self.request_blocks_max.get());
        let least = if is_ending { 1 } else { most.min(RETRY_BLOCKS_MIN) };
        (most >> (2 * u32::from(failures)).min(u32::BITS)).max(least)
    }
}
