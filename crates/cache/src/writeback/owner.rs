//! Owners of dirty blocks: their limits and counters.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::writeback::{BLOCK_BYTES, Reason};
use weir_engine::CgroupId;
use weir_engine::Instant;

/// How many times what is left an owner may have; see [`Owners::has_room`].
const SHARE_OF_LEFT: u64 = 4;

/// Levels and counters of one owner, in bytes and requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OwnerStats {
    /// Present bytes of blocks that are dirty or in a pending request.
    pub dirty_bytes: u64,
    /// Of these, in a pending request.
    pub writing_bytes: u64,
    /// Writes that now wait for room.
    pub waiting: u64,
    /// Writes taken.
    pub taken_ios: u64,
    /// Reads answered from dirty blocks: [`super::Writeback::count_hit`].
    pub hit_ios: u64,
    /// Bytes of blocks that were written again while dirty; they reach the device once.
    pub overwritten_bytes: u64,
    /// Requests that wrote blocks back.
    pub written_ios: u64,
    /// Bytes of the blocks they wrote.
    pub written_bytes: u64,
    /// Writes that were written back in one request with an adjacent write.
    pub coalesced_ios: u64,
    /// Writes that had to wait for room.
    pub waits: u64,
    /// Time that they waited, in nanoseconds.
    pub wait_ns: u64,
    /// Flushes that had to wait for writes.
    pub flush_waits: u64,
    /// Time that they waited until these were on the device, in nanoseconds.
    pub flush_wait_ns: u64,
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
            (&mut self.flush_waits, other.flush_waits),
            (&mut self.flush_wait_ns, other.flush_wait_ns),
            (&mut self.failed_ios, other.failed_ios),
        ] {
            *mine += theirs;
        }
    }
}

/// Bound on what an owner may have dirty, however much of the cache is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Bytes, rounded down to blocks, one block at least.
    pub bytes: u64,
    /// Rate at which its limits pay off debt, in bytes a second. Unpaid debt is subtracted from `bytes`.
    pub bytes_per_sec: u64,
}

/// Write that waits for room.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) token: u64,
    pub(super) blocks: Range<u64>,
    pub(super) since: Instant,
}

#[derive(Debug)]
pub(super) struct Owner {
    pub(super) cgroup: CgroupId,
    /// Blocks charged to it: dirty, or in a pending request.
    pub(super) blocks: u64,
    /// Of these, those in no request.
    pub(super) dirty: u64,
    /// Most blocks it may have, by its [`Bound`].
    pub(super) most: u64,
    /// When its limits have paid for blocks that were written out of turn, and their rate in bytes a second; 0 without a
    /// limit.
    pub(super) paid_at: Instant,
    pub(super) bytes_per_sec: u64,
    /// Pending requests, and of these, those chosen for a flush.
    pub(super) requests: u32,
    pub(super) wanted: u32,
    pub(super) waiters: VecDeque<Waiter>,
    /// Stamps of the last failure, and of the last one that a flush has reported.
    pub(super) failed_at: u64,
    pub(super) reported_at: u64,
    /// Reason of the last failure.
    pub(super) reason: Reason,
    pub(super) stats: OwnerStats,
}

/// Owners by index, never removed. About 300 bytes each.
#[derive(Debug)]
pub(super) struct Owners {
    owners: Vec<Owner>,
    by_cgroup: BTreeMap<CgroupId, u32>,
    blocks_max: u64,
    /// Blocks of all owners together.
    pub(super) blocks: u64,
}

impl Owner {
    /// Adds debt for blocks that are written out of turn.
    pub(super) fn owe(&mut self, now: Instant, blocks: u64) {
        if self.bytes_per_sec > 0 {
            self.paid_at = self.paid_at.max(now).plus_nanos(self.time_of(blocks));
        }
    }

    /// Unpaid debt, in blocks.
    pub(super) fn owed(&self, now: Instant) -> u64 {
        let time = u128::from(self.paid_at.nanos_since(now));
        let bytes = (time * u128::from(self.bytes_per_sec)).div_ceil(1_000_000_000);
        u64::try_from(bytes.div_ceil(BLOCK_BYTES.into())).unwrap_or(u64::MAX)
    }

    /// When its debt is down to `blocks`.
    pub(super) fn owes_at_most(&self, blocks: u64) -> Instant {
        let early = self.paid_at.as_nanos().saturating_sub(self.time_of(blocks));
        Instant::from_nanos(early)
    }

    /// Time in which its limits pay for `blocks`, in nanoseconds.
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

    /// The owner for `cgroup`, created if unknown. O(log owners).
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

    /// Free blocks of the cache.
    pub(super) fn left(&self) -> u64 {
        self.blocks_max.saturating_sub(self.blocks)
    }

    /// Whether an owner may have `own` more blocks at `now`, of which `new` had no owner.
    ///
    /// An owner may have four times what is left: one alone 4/5 of the cache, two 4/9 each, and so on. So something is
    /// left for a later owner, which may take all of it as its first blocks. Source: A. Choudhury and E. Hahne, "Dynamic
    /// queue length thresholds for shared-memory packet switches", 1998.
    pub(super) fn has_room(&self, now: Instant, index: u32, own: u64, new: u64) -> bool {
        let owner = self.get(index);
        let (has, owed) = (owner.blocks, owner.owed(now));
        let share = |left: u64| owner.most.saturating_sub(owed).min(SHARE_OF_LEFT * left);
        let left = self.left().checked_sub(new);
        let is_first = has == 0 && owed == 0;
        own == 0 || left.is_some_and(|left| is_first || has + own <= share(left))
    }

    /// Whether an owner's dirty blocks are due regardless of their age: it has more of them than are left, a quarter of its
    /// share, or than half of its bound; or one of its writes waits for room; or the cache is short.
    pub(super) fn is_pressed(&self, index: u32) -> bool {
        let owner = self.get(index);
        owner.dirty > self.left().min(owner.most / 2)
            || !owner.waiters.is_empty()
            || self.is_short()
    }

    /// Whether less is left than the largest write may need, so that all owners have to write back.
    pub(super) fn is_short(&self) -> bool {
        self.left() <= self.blocks_max / 6
    }

    pub(super) fn all_stats(&self) -> impl Iterator<Item = (CgroupId, OwnerStats)> {
        self.by_cgroup.iter().map(|(&cgroup, &index)| (cgroup, self.stats(index)))
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
