//! A write-back cache for a block device: takes writes into memory, and writes them to the device later, in fewer and
//! larger requests that their owner pays for.
//!
//! ```text
//!  write ──────────► Cache ─► poll_write ─► engine ─► start, parts, copy ─► device ─► complete
//!  read ◄── all there? ┤
//!       else device ──┤ overlay, finish_read
//!  flush ──────────────┤ poll_flushed, then the device's own flush
//!  FUA, trim, zeroes ──┘ begin ─► device ─► end
//! ```
//!
//! Sans-IO: no sockets, disks, clocks or threads; the caller moves requests, this crate knows the bytes and what may happen
//! in which order. The payer, the waits and the time of each write are decided by [`writeback`].
//!
//! # What it promises
//!
//! - A read sees the latest write that was answered before it began, from any client. Each byte by itself: a read and a write
//!   at the same time may each have come first, and for two bytes differently, as with any disk.
//! - When a flush ends well, what was answered before it began is on the device.
//! - What goes around the cache (writes with FUA, long ones, zeroes, trims) and the cache's own writes to the same blocks
//!   are never at the device at once. When such an operation has ended well, what the cache had there is forgotten; if it
//!   fails, the cache still has it.
//! - A write to blocks at which such an operation is under way waits until it has ended.
//! - Bytes that the device has failed to take stay, are read, and are tried again. What cannot be written before the end
//!   is named by [`Cache::lost`].
//!
//! Only what the device lacks is kept: when a block is written back its memory is free. Reading again what was read or
//! written before is for the cache below, the kernel's or the device's.
//!
//! # Cost
//!
//! A write is copied in and out once; O(log blocks) for each of its blocks. Memory: [`Settings::blocks_max`] blocks of 4 KiB
//! and some 200 bytes with each, and 512 more with one that has only some of its bytes.
#![forbid(unsafe_code)]

mod overlay;
mod pages;
mod range_lock;
mod valid;
pub mod writeback;

use std::ops::Range;

pub use overlay::Overlay;
pub use range_lock::Ready;
pub use writeback::{
    Admission, Admitted, Awaited, Bound, Flushed, OwnerStats, Reason, Settings, WriteId,
};

use pages::{Pages, blocks};
use range_lock::RangeLocks;
use weir_engine::{CgroupId, Extent, Instant};
use writeback::{BLOCK_BYTES, Writeback};

/// A request to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// For [`Cache::start`] and [`Cache::complete`].
    pub id: WriteId,
    /// Owner that pays.
    pub owner: CgroupId,
    /// Where on the device: whole blocks, but nothing beyond its end.
    pub extent: Extent,
    /// What waits for it.
    pub awaited: Awaited,
}

/// The cache of one device.
#[derive(Debug)]
pub struct Cache {
    ledger: Writeback,
    pages: Pages,
    locks: RangeLocks,
    device_bytes: u64,
    /// Ranges that were given up, in no order.
    given_up: Vec<Range<u64>>,
    /// Scratch.
    runs: Vec<Range<u64>>,
    emptied: Vec<u64>,
}

impl Cache {
    /// The device has grown to `device_bytes`. Its size before was one of whole blocks, so that no block is known in part.
    pub fn grow(&mut self, device_bytes: u64) {
        debug_assert!(self.device_bytes.is_multiple_of(BLOCK_BYTES));
        self.device_bytes = self.device_bytes.max(device_bytes);
    }

    /// An empty cache for a device of `device_bytes`.
    pub fn new(settings: Settings, device_bytes: u64, now: Instant) -> Cache {
        Cache {
            ledger: Writeback::new(settings, now),
            pages: Pages::default(),
            locks: RangeLocks::default(),
            device_bytes,
            given_up: Vec::new(),
            runs: Vec::new(),
            emptied: Vec::new(),
        }
    }

    // What clients do.

    /// Takes a write: it may be answered. Unless [`Admission`] says otherwise: then nothing of it is taken.
    pub fn write(
        &mut self,
        now: Instant,
        owner: CgroupId,
        offset: u64,
        bytes: &[u8],
        token: u64,
    ) -> Admission {
        let blocks = blocks(offset, bytes.len() as u64);
        let is_free = self.locks.is_free(&blocks);
        let admission = self.ledger.write(now, owner, blocks, is_free, token);
        if admission == Admission::Taken {
            self.pages.put(offset, bytes);
        }
        admission
    }

    /// The next write that waited and need not any longer. If it is taken its bytes must be given, with [`Cache::fill`],
    /// before any other call.
    pub fn poll_admitted(&mut self, now: Instant) -> Option<Admitted> {
        let locks = &self.locks;
        self.ledger.poll_admitted(now, |blocks| locks.is_free(blocks))
    }

    /// Takes the bytes of a write that has been admitted.
    pub fn fill(&mut self, offset: u64, bytes: &[u8]) {
        self.pages.put(offset, bytes);
    }

    /// Fills `into` with the bytes at `offset`, for a read of `reader`, if all are here; else the device has to be asked, and
    /// what `into` holds is not said.
    pub fn read(&mut self, reader: CgroupId, offset: u64, into: &mut [u8]) -> bool {
        let is_here = self.pages.get(offset, into);
        if is_here {
            self.ledger.count_hit(reader);
        }
        is_here
    }

    /// Whether a read of `len` bytes at `offset` could be answered from here. O(log blocks) where the first of them is not
    /// here.
    pub fn holds(&self, offset: u64, len: u64) -> bool {
        self.pages.first_run(offset, len) == Some(offset..offset + len)
    }

    /// What a read that goes to the device now has to put over what it gets, by [`Cache::finish_read`]; `None` if that is
    /// nothing. O(blocks that are here and in the range), with a copy of them.
    pub fn overlay(&self, offset: u64, len: u32) -> Option<Overlay> {
        let mut overlay = Overlay::default();
        self.pages.for_each(offset, len.into(), |at, bytes| {
            overlay.push((at - offset) as usize, bytes);
        });
        (!overlay.pieces.is_empty()).then_some(overlay)
    }

    /// A read is back from the device: puts over it what was here when it went, and over that what is here now. Both are
    /// needed. What was here may be gone, while the device read what was there before it; and what has come since may be
    /// older than what the device has read, of an operation that has not ended: then the next read would see it, after
    /// this one has seen the newer.
    pub fn finish_read(&self, overlay: Option<&Overlay>, offset: u64, read: &mut [u8]) {
        if let Some(overlay) = overlay {
            overlay.apply(read);
        }
        self.pages.for_each(offset, read.len() as u64, |at, bytes| {
            let at = (at - offset) as usize;
            read[at..at + bytes.len()].copy_from_slice(bytes);
        });
    }

    /// The first bytes of a range that are here, as far as they go without a gap: what is a hole on the device is none.
    pub fn first_run(&self, offset: u64, len: u64) -> Option<Range<u64>> {
        self.pages.first_run(offset, len)
    }

    /// A flush, on behalf of `owner`, of everything in a range: see [`Writeback::flush`]. When [`Cache::poll_flushed`] has
    /// answered, the device is to be flushed.
    pub fn flush(
        &mut self,
        now: Instant,
        owner: CgroupId,
        range: Range<u64>,
        seen: u64,
        token: u64,
    ) {
        let blocks = blocks(range.start, range.end - range.start);
        self.ledger.flush(now, owner, blocks, seen, token);
    }

    /// The next flush for which nothing is left to be written.
    pub fn poll_flushed(&mut self) -> Option<Flushed> {
        self.ledger.poll_flushed()
    }

    /// What the first flush of a new asker has seen: see [`Writeback::unseen`].
    pub fn unseen(&self, owner: CgroupId) -> u64 {
        self.ledger.unseen(owner)
    }

    // What goes around the cache.

    /// An operation that writes to the device itself is about to start there. `true`: it may; else when
    /// [`Cache::poll_ready`] names its key.
    pub fn begin(&mut self, key: u64, offset: u64, len: u64) -> bool {
        self.locks.begin(key, blocks(offset, len))
    }

    /// It has ended. If it `is_done` what the cache had in its range is forgotten.
    pub fn end(&mut self, key: u64, offset: u64, len: u64, is_done: bool) {
        self.locks.end(key);
        if is_done {
            self.pages.clear(offset, len, &mut self.emptied);
            for &block in &self.emptied {
                self.ledger.forget(block);
            }
        }
    }

    /// What had to wait for something else at the device and need not any longer.
    pub fn poll_ready(&mut self) -> Option<Ready> {
        self.locks.poll_ready()
    }

    // What the cache does.

    /// The next request to be submitted to the engine, for its owner: as an asynchronous one unless something waits for it.
    pub fn poll_write(&mut self, now: Instant) -> Option<Write> {
        let write = self.ledger.poll_write(now)?;
        let start = write.blocks.start * BLOCK_BYTES;
        let end = (write.blocks.end * BLOCK_BYTES).min(self.device_bytes);
        let extent = Extent::new(start, (end - start) as u32);
        Some(Write { id: write.id, owner: write.owner, extent, awaited: write.awaited })
    }

    /// The next request that was handed out and that something waits for since then: see [`Writeback::poll_awaited`].
    pub fn poll_awaited(&mut self) -> Option<(WriteId, Awaited)> {
        self.ledger.poll_awaited()
    }

    /// Gives a request back that the engine has no room for, before any other call.
    pub fn give_back(&mut self, id: WriteId) {
        self.ledger.give_back(id);
    }

    /// The engine has dispatched a request. `true`: `parts` are the ranges to be written now, with what [`Cache::copy`]
    /// gives for each; there may be none. Else when [`Cache::poll_ready`] names it, by another call of this.
    pub fn start(&mut self, id: WriteId, parts: &mut Vec<Extent>) -> bool {
        parts.clear();
        if !self.locks.start_write(id, self.ledger.blocks_of(id)) {
            return false;
        }
        self.ledger.start(id, &mut self.runs);
        for run in &self.runs {
            let (start, end) = (run.start * BLOCK_BYTES, run.end * BLOCK_BYTES);
            self.pages.for_each(start, end - start, |at, bytes| match parts.last_mut() {
                Some(last) if last.offset + u64::from(last.len) == at => {
                    last.len += bytes.len() as u32;
                }
                _ => parts.push(Extent::new(at, bytes.len() as u32)),
            });
        }
        true
    }

    /// The bytes of a part, at the moment at which the device takes them.
    ///
    /// # Panics
    /// When they are not here: it is not a part that [`Cache::start`] named just now.
    pub fn copy(&self, offset: u64, into: &mut [u8]) {
        assert!(self.pages.get(offset, into), "{} bytes at {offset} are not cached", into.len());
    }

    /// The device has finished with all parts of a request.
    pub fn complete(&mut self, now: Instant, id: WriteId, result: Result<(), Reason>) {
        let pages = &mut self.pages;
        self.locks.end_write(id);
        self.ledger.complete(now, id, result, |block| pages.remove(block));
        while let Some(block) = self.ledger.poll_given_up() {
            let start = block * BLOCK_BYTES;
            self.pages.for_each(start, BLOCK_BYTES, |at, bytes| {
                self.given_up.push(at..at + bytes.len() as u64);
            });
            self.pages.remove(block);
        }
    }

    /// Bounds what an owner may have dirty: see [`Writeback::bound`].
    pub fn bound(&mut self, now: Instant, owner: CgroupId, bound: Option<Bound>) {
        self.ledger.bound(now, owner, bound);
    }

    /// Everything of an owner that is dirty goes to the device now.
    pub fn release(&mut self, now: Instant, owner: CgroupId) {
        self.ledger.release(now, owner);
    }

    /// Everything goes to the device now.
    pub fn release_all(&mut self, now: Instant) {
        self.ledger.release_all(now);
    }

    /// The server ends: everything goes to the device now, and what cannot be written is given up.
    pub fn drain(&mut self, now: Instant) {
        self.ledger.drain(now);
    }

    /// The bytes that clients were told are written and that the device lacks: what was given up, and what is still here.
    /// In order, neighbours as one.
    pub fn lost(&self) -> Vec<Range<u64>> {
        let mut ranges = self.given_up.clone();
        self.pages.for_each(0, self.device_bytes, |at, bytes| {
            ranges.push(at..at + bytes.len() as u64);
        });
        ranges.sort_unstable_by_key(|range| range.start);
        let mut lost: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match lost.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => lost.push(range),
            }
        }
        lost
    }

    /// When to call [`Cache::poll_write`] again.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.ledger.poll_timeout()
    }

    // About itself.

    /// The same of all owners that there ever were. O(owners).
    pub fn all_stats(&self) -> impl Iterator<Item = (CgroupId, OwnerStats)> {
        self.ledger.all_stats()
    }

    /// Levels and counters of an owner.
    pub fn stats(&self, owner: CgroupId) -> OwnerStats {
        self.ledger.stats(owner)
    }

    /// Bytes of memory with bytes that the device may lack.
    pub fn dirty_bytes(&self) -> u64 {
        self.ledger.dirty_bytes()
    }

    /// Looks for contradictions. O(everything); for tests.
    ///
    /// # Errors
    /// A text that says what does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.ledger.check()?;
        let dirty = self.ledger.dirty_bytes() / BLOCK_BYTES;
        let lacking = self.ledger.blocks().find(|&block| !self.pages.has(block));
        match lacking {
            Some(block) => Err(format!("block {block} is dirty and has no bytes")),
            None if self.pages.len() as u64 != dirty => {
                Err(format!("{} blocks have bytes, {dirty} are dirty", self.pages.len()))
            }
            None => Ok(()),
        }
    }
}
