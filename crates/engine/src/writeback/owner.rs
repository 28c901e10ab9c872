//! Owners of dirty blocks: their limits and counters.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use crate::time::Instant;
use crate::tree::CgroupId;
use crate::writeback::{BLOCK_BYTES, Reason};

/// How many times what is left an owner may have; see [`Owners::has_room`].
const SHARE_OF_LEFT: u64 = 4;

/// Levels and counters of one owner, in bytes and requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OwnerStats {
    /// Bytes of blocks that are dirty or on their way, now.
    pub dirty_bytes: u64,
    /// Of these, on their way.
    pub writing_bytes: u64,
    /// Writes that wait for room, now.
    pub waiting: u64,
    /// Writes taken.
    pub taken_ios: u64,
    /// Reads answered from what is dirty, as [`super::Writeback::count_hit`] was told.
    pub hit_ios: u64,
    /// Bytes of blocks that were dirty already when they were written again: they reach the device once.
    pub overwritten_bytes: u64,
    /// Requests that wrote blocks back.
    pub written_ios: u64,
    /// Bytes of the blocks they wrote.
    pub written_bytes: u64,
    /// Writes that went back in one request with another one's, because their blocks were neighbours.
    pub coalesced_ios: u64,
    /// Writes that had to wait for room.
    pub waits: u64,
    /// How long they did, in nanoseconds.
    pub wait_ns: u64,
    /// Requests that the device has failed.
    pub failed_ios: u64,
}

impl OwnerStats {
    /// Adds another owner's to these.
    pub fn absorb(&mut self, other: &OwnerStats) {
        for (mine, theirs) in [
            (&mut self.dirty_bytes, other.dirty_bytes),
            (&mut self.writing_bytes, other.writing_bytes),
            (&mut self.waiting, other.waiting),
            (&mut self.taken_ios, other.taken_ios),
            (&mut self.hit_ios, other.hit_ios),
            (&mut self.overwritten_bytes, other.overwritten_bytes),
            (&mut self.written_ios, other.written_ios),
            (&mut self.written_bytes, other.written_bytes),
            (&mut self.coalesced_ios, other.coalesced_ios),
            (&mut self.waits, other.waits),
            (&mut self.wait_ns, other.wait_ns),
            (&mut self.failed_ios, other.failed_ios),
        ] {
            *mine += theirs;
        }
    }
}

/// What an owner may have dirty, whatever is left of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Bytes, in whole blocks and one at least.
    pub bytes: u64,
    /// Bytes a second at which its limits pay what it owes; while it owes, it may have less dirty by that.
    pub bytes_per_sec: u64,
}

/// A write that waits for room.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) token: u64,
    pub(super) blocks: Range<u64>,
    pub(super) since: Instant,
}

#[derive(Debug)]
pub(super) struct Owner {
    pub(super) cgroup: CgroupId,
    /// Blocks charged to it: dirty, or on their way.
    pub(super) blocks: u64,
    /// Of these, those that nobody has chosen yet.
    pub(super) dirty: u64,
    /// Blocks that it may have, whatever is left.
    pub(super) most: u64,
    /// When its limits have paid for what went to the device before its turn, at so many bytes a second; 0 for no limit.
    pub(super) paid_at: Instant,
    pub(super) bytes_per_sec: u64,
    /// Its requests on their way, and of these, those that flushes have chosen.
    pub(super) requests: u32,
    pub(super) wanted: u32,
    pub(super) waiters: VecDeque<Waiter>,
    /// The stamp of the last failure, and of the last one that somebody was told.
    pub(super) failed_at: u64,
    pub(super) reported_at: u64,
    /// Why it failed the last time.
    pub(super) reason: Reason,
    pub(super) stats: OwnerStats,
}

/// All owners that there ever were, by their index, and the blocks of all together. About 300 bytes each.
#[derive(Debug)]
pub(super) struct Owners {
    owners: Vec<Owner>,
    by_cgroup: BTreeMap<CgroupId, u32>,
    blocks_max: u64,
    pub(super) blocks: u64,
}

impl Owner {
    /// Blocks went to the device before their turn.
    pub(super) fn owe(&mut self, now: Instant, blocks: u64) {
        if self.bytes_per_sec > 0 {
            self.paid_at = self.paid_at.max(now).plus_nanos(self.time_of(blocks));
        }
    }

    /// Blocks that its limits have not paid for yet.
    pub(super) fn owed(&self, now: Instant) -> u64 {
        let time = u128::from(self.paid_at.nanos_since(now));
        let bytes = (time * u128::from(self.bytes_per_sec)).div_ceil(1_000_000_000);
        u64::try_from(bytes.div_ceil(BLOCK_BYTES.into())).unwrap_or(u64::MAX)
    }

    /// When it owes no more than `blocks`.
    pub(super) fn owes_at_most(&self, blocks: u64) -> Instant {
        let early = self.paid_at.as_nanos().saturating_sub(self.time_of(blocks));
        Instant::from_nanos(early)
    }

    /// How long its limits take for so many blocks, in nanoseconds.
    fn time_of(&self, blocks: u64) -> u64 {
        let bytes = u128::from(blocks) * u128::from(BLOCK_BYTES) * 1_000_000_000;
        let time = bytes.checked_div(self.bytes_per_sec.into()).unwrap_or(0);
        u64::try_from(time).unwrap_or(u64::MAX)
    }
}

impl Owners {
    pub(super) fn new(blocks_max: u64) -> Owners {
        Owners { owners: Vec::new(), by_cgroup: BTreeMap::new(), blocks_max, blocks: 0 }
    }

    pub(super) fn find(&self, cgroup: CgroupId) -> Option<u32> {
        self.by_cgroup.get(&cgroup).copied()
    }

    /// The owner for `cgroup`, new if need be. O(log owners).
    pub(super) fn ensure(&mut self, cgroup: CgroupId) -> u32 {
        if let Some(index) = self.find(cgroup) {
            return index;
        }
        let owner = Owner {
            cgroup,
            blocks: 0,
            dirty: 0,
            most: u64::MAX,
            paid_at: Instant::ZERO,
            bytes_per_sec: 0,
            requests: 0,
            wanted: 0,
            waiters: VecDeque::new(),
            failed_at: 0,
            reported_at: 0,
            reason: Reason(0),
            stats: OwnerStats::default(),
        };
        let index = self.owners.len() as u32;
        self.owners.push(owner);
        self.by_cgroup.insert(cgroup, index);
        index
    }

    pub(super) fn get(&self, index: u32) -> &Owner {
        &self.owners[index as usize]
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut Owner {
        &mut self.owners[index as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Owner)> {
        self.owners.iter().enumerate().map(|(index, owner)| (index as u32, owner))
    }

    /// Blocks that nobody has.
    pub(super) fn left(&self) -> u64 {
        self.blocks_max.saturating_sub(self.blocks)
    }

    /// Whether an owner may have `own` more blocks at `now`, of which `new` had no owner.
    ///
    /// It may have four times what is left for all: alone 4/5 of the whole, two of them 4/9 each, and so on, so that there
    /// is always something left for one that comes later; and, with nothing yet, whatever is left. Source: dynamic thresholds for shared memory in packet
    /// switches, A. Choudhury and E. Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.
    pub(super) fn has_room(&self, now: Instant, index: u32, own: u64, new: u64) -> bool {
        let owner = self.get(index);
        let (has, owed) = (owner.blocks, owner.owed(now));
        let share = |left: u64| owner.most.saturating_sub(owed).min(SHARE_OF_LEFT * left);
        let left = self.left().checked_sub(new);
        let is_first = has == 0 && owed == 0;
        own == 0 || left.is_some_and(|left| is_first || has + own <= share(left))
    }

    /// Whether what an owner has dirty should go to the device now, however young it is: it has more than is left, a
    /// quarter of what it may, or than half of its bound, or waits for room; or little is left for anybody, less than any
    /// write may need to be let in.
    pub(super) fn is_pressed(&self, index: u32) -> bool {
        let owner = self.get(index);
        owner.dirty > self.left().min(owner.most / 2)
            || !owner.waiters.is_empty()
            || self.is_short()
    }

    /// Whether so little is left that everybody has to give.
    pub(super) fn is_short(&self) -> bool {
        self.left() <= self.blocks_max / 6
    }

    pub(super) fn stats(&self, index: u32) -> OwnerStats {
        let owner = self.get(index);
        OwnerStats {
            dirty_bytes: owner.blocks * BLOCK_BYTES,
            writing_bytes: (owner.blocks - owner.dirty) * BLOCK_BYTES,
            waiting: owner.waiters.len() as u64,
            ..owner.stats
        }
    }
}
