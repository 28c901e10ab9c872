//! Settings of a page cache, and their values in pages.

use super::ahead::Sizes;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

const MIB: u64 = 1 << 20;
/// Pages of a request: its bytes are a u32.
const REQUEST_PAGES_MAX: u64 = u32::MAX as u64 / PAGE_BYTES;

const SECOND_NS: u64 = 1_000_000_000;

/// Owner of a page that several owners have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Owner {
    /// The one that made it dirty, until it is clean again. So cgroups account memory: the first to touch a page is
    /// charged for it.
    #[default]
    First,
    /// The one that wrote it last, even while it waits for writeback.
    Last,
}

/// Settings of a machine's page cache. Sizes are rounded down to pages of 4 KiB.
///
/// Any values work. Impossible ones count as the nearest possible: memory of less than a page as one page and of more
/// than 2^32 - 1 pages as that many, a dirty limit of more than the memory as all of it and of less than a page as
/// one page, a background limit that is not below the dirty limit as half of it (as Linux does), a chunk of less than
/// a page as one page, a chunk or window of more than a request can have (4 GiB) as the most it can, a depth of 0 as
/// 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes that may be cached, clean and dirty together: the machine's memory less that of programs.
    pub memory_bytes: u64,
    /// Dirty bytes above which the flusher writes back (`vm.dirty_background_bytes`).
    pub dirty_background_bytes: u64,
    /// Dirty bytes, those under writeback included, at which writers wait (`vm.dirty_bytes`).
    pub dirty_bytes: u64,
    /// Dirty bytes of one owner at which it waits, as of a memory cgroup in Linux; 0 for none. Without it a slow
    /// owner comes to hold all that may be dirty, and others wait with it.
    pub dirty_owner_bytes: u64,
    /// Age of dirty data from which the flusher writes it back (`vm.dirty_expire_centisecs`).
    pub dirty_expire_ns: u64,
    /// Interval in which the flusher looks for expired data (`vm.dirty_writeback_centisecs`). 0 switches that off.
    pub writeback_interval_ns: u64,
    /// The largest read-ahead window (`queue/read_ahead_kb`). Less than a page switches read-ahead off.
    pub read_ahead_bytes: u64,
    /// The largest request that is written back or read (`queue/max_sectors_kb`).
    pub write_chunk_bytes: u64,
    /// Requests that the flusher keeps in flight.
    pub flusher_depth: u32,
    /// Owner of a page that several owners have written.
    pub owner: Owner,
}

impl Settings {
    /// Linux's defaults, on a machine with that much memory to cache in: background 10 %, dirty 20 %, expiry after 30
    /// s, a look every 5 s, read-ahead of 128 KiB (Linux, `Documentation/admin-guide/sysctl/vm.rst` and
    /// `Documentation/ABI/stable/sysfs-block`), requests of at most 1,280 KiB, and 64 of them at a time:
    /// `queue/nr_requests` of a disk with 32 commands.
    pub fn for_memory(memory_bytes: u64) -> Settings {
        Settings {
            memory_bytes,
            dirty_background_bytes: memory_bytes / 10,
            dirty_bytes: memory_bytes / 5,
            dirty_owner_bytes: 0,
            dirty_expire_ns: 30 * SECOND_NS,
            writeback_interval_ns: 5 * SECOND_NS,
            read_ahead_bytes: 128 * 1024,
            write_chunk_bytes: 1280 * 1024,
            flusher_depth: 64,
            owner: Owner::First,
        }
    }

    /// The settings in pages, made possible.
    pub(super) fn in_pages(&self) -> Limits {
        let memory = (self.memory_bytes / PAGE_BYTES).clamp(1, u64::from(u32::MAX));
        let dirty = (self.dirty_bytes / PAGE_BYTES).clamp(1, memory);
        let background = self.dirty_background_bytes / PAGE_BYTES;
        Limits {
            memory,
            dirty,
            dirty_owner: match self.dirty_owner_bytes {
                0 => dirty,
                bytes => (bytes / PAGE_BYTES).clamp(1, dirty),
            },
            background: if background < dirty { background } else { dirty / 2 },
            read_ahead: (self.read_ahead_bytes / PAGE_BYTES).min(REQUEST_PAGES_MAX),
            chunk: (self.write_chunk_bytes / PAGE_BYTES).clamp(1, REQUEST_PAGES_MAX),
            depth: self.flusher_depth.max(1),
        }
    }
}

impl Default for Settings {
    /// Of a machine with 1 GiB.
    fn default() -> Settings {
        Settings::for_memory(1024 * MIB)
    }
}

/// [`Settings`] in pages. The background limit is below the dirty limit, and that is not above the memory. So
/// whenever no page is free, or none may become dirty, a request is in flight whose end changes that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) memory: u64,
    pub(super) dirty: u64,
    /// Of one owner; at most `dirty`.
    pub(super) dirty_owner: u64,
    pub(super) background: u64,
    pub(super) read_ahead: u64,
    pub(super) chunk: u64,
    pub(super) depth: u32,
}

impl Limits {
    pub(super) fn ahead_sizes(&self) -> Sizes {
        Sizes { window: self.read_ahead, request: self.chunk }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_linux_with_a_gibibyte() {
        let limits = Settings::default().in_pages();
        assert_eq!(
            limits,
            Limits {
                memory: 262_144,
                dirty: 52_428,
                dirty_owner: 52_428,
                background: 26_214,
                read_ahead: 32,
                chunk: 320,
                depth: 64
            }
        );
    }

    #[test]
    fn impossible_settings_count_as_the_nearest_possible() {
        let none = Settings {
            memory_bytes: 0,
            dirty_background_bytes: 0,
            dirty_bytes: 0,
            dirty_owner_bytes: 1,
            dirty_expire_ns: 0,
            writeback_interval_ns: 0,
            read_ahead_bytes: 4095,
            write_chunk_bytes: 0,
            flusher_depth: 0,
            owner: Owner::First,
        };
        let least = Limits {
            memory: 1,
            dirty: 1,
            dirty_owner: 1,
            background: 0,
            read_ahead: 0,
            chunk: 1,
            depth: 1,
        };
        assert_eq!(none.in_pages(), least);
        let all = Settings {
            memory_bytes: 1 << 20,
            dirty_background_bytes: u64::MAX,
            dirty_bytes: u64::MAX,
            dirty_owner_bytes: u64::MAX,
            write_chunk_bytes: u64::MAX,
            read_ahead_bytes: u64::MAX,
            ..none
        };
        let (read_ahead, chunk) = (0xF_FFFF, 0xF_FFFF);
        let (dirty, dirty_owner) = (256, 256);
        let most =
            Limits { memory: 256, dirty, dirty_owner, background: 128, read_ahead, chunk, ..least };
        assert_eq!(all.in_pages(), most);
        let huge = Settings { memory_bytes: u64::MAX, ..none };
        assert_eq!(huge.in_pages().memory, u64::from(u32::MAX));
    }
}
