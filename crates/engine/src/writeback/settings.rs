//! Settings of write-back: how much may be dirty, for how long, and in what pieces it is written back.

use core::num::NonZeroU32;

/// Bytes in a block: what has one owner. A page of every machine Weir runs on.
pub const BLOCK_BYTES: u64 = 4096;

/// Blocks in a retry while the server runs: a device that fails all of a full cache gets no more than a few thousand
/// requests a second.
const RETRY_BLOCKS_MIN: u64 = 8;

/// What [`super::Writeback`] is made with. Every value that exists is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Blocks that may be dirty or on their way to the device at once, of all owners together. 65,536 by default: 256 MiB.
    pub blocks_max: NonZeroU32,
    /// How long a block stays dirty when nothing presses, in nanoseconds; 0 writes back at once. 5 s by default: what Linux
    /// takes between two looks for old data, since whoever loses power loses as much.
    pub expire_ns: u64,
    /// How long a block waits after the device has failed it, unless a flush waits for it, in nanoseconds. 1 s by default.
    pub retry_ns: u64,
    /// Blocks in one request to the device. 128 by default: 512 KiB, what bfq joins at most.
    pub request_blocks_max: NonZeroU32,
    /// Requests of one owner on their way at once: enough to keep a device busy, few enough that what is overwritten
    /// meanwhile is not on its way already. 16 by default.
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
    /// The longest write that is taken, in blocks: an eighth of all, at least one. Longer ones would push everything else
    /// out, and gain nothing by waiting for neighbours.
    pub fn write_blocks_max(&self) -> u64 {
        (u64::from(self.blocks_max.get()) / 8).max(1)
    }

    /// Blocks in one request of blocks that have failed this often: a quarter each time, down to 8, or to 1 at the end.
    pub(super) fn request_blocks(&self, failures: u8, is_ending: bool) -> u64 {
        let most = u64::from(self.request_blocks_max.get());
        let least = if is_ending { 1 } else { most.min(RETRY_BLOCKS_MIN) };
        (most >> (2 * u32::from(failures)).min(u32::BITS)).max(least)
    }
}
