//! Blocks of entries from a device's thread to the writer: bounded, and nothing there waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::entry::Entry;

/// Entries in a block: 32 KiB.
pub(crate) const BLOCK_ENTRIES: usize = 1024;
/// Blocks that may wait for the writer, 16 MiB: 1.3 s at 100,000 requests a second, of four entries each.
pub(crate) const BLOCKS_MAX: usize = 512;
/// Empty blocks kept for use again: few, so that they stay in the caches of the processor.
const FREE_MAX: usize = 16;

/// What both ends count.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Blocks that wait for the writer.
    waiting: AtomicUsize,
    /// Entries that found no room, ever.
    pub(crate) dropped: AtomicU64,
}

/// The device thread's end.
#[derive(Debug)]
pub(crate) struct Sender {
    block: Vec<Entry>,
    full: SyncSender<Vec<Entry>>,
    free: Receiver<Vec<Entry>>,
    shared: Arc<Shared>,
    blocks_max: usize,
    is_dropping: bool,
    /// Entries that have found no room since the last that did.
    gap: u64,
}

/// The writer's end. It looks here from time to time: a thread that waits for a block would have to be woken, under a lock.
#[derive(Debug)]
pub(crate) struct Receiving {
    full: Receiver<Vec<Entry>>,
    free: SyncSender<Vec<Entry>>,
    shared: Arc<Shared>,
}

/// Both ends, for as many blocks.
pub(crate) fn channel(blocks_max: usize) -> (Sender, Receiving) {
    let (full, to_write) = sync_channel(blocks_max);
    let (give_back, free) = sync_channel(FREE_MAX);
    let shared = Arc::<Shared>::default();
    let block = Vec::with_capacity(BLOCK_ENTRIES);
    let sender = Sender {
        block,
        full,
        free,
        shared: Arc::clone(&shared),
        blocks_max,
        is_dropping: false,
        gap: 0,
    };
    (sender, Receiving { full: to_write, free: give_back, shared })
}

impl Sender {
    /// Appends an entry. Where there is no room it is dropped, and counted.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        if self.block.len() == BLOCK_ENTRIES {
            self.is_dropping = !self.next_block();
        }
        if self.is_dropping {
            self.gap += 1;
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            self.block.push(entry);
        }
    }

    /// Whether entries are dropped, until [`Sender::resume`].
    pub(crate) fn is_dropping(&self) -> bool {
        self.is_dropping
    }

    /// Goes on after a gap once half of the blocks are free: the entries that are missing.
    pub(crate) fn resume(&mut self) -> Option<u64> {
        let has_room = self.shared.waiting.load(Ordering::Relaxed) <= self.blocks_max / 2;
        if !has_room || !self.next_block() {
            return None;
        }
        self.is_dropping = false;
        Some(std::mem::take(&mut self.gap))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// Sends what there is, if there is room.
    #[cold]
    pub(crate) fn flush(&mut self) {
        if !self.block.is_empty() {
            self.next_block();
        }
    }

    /// Sends the block and begins another; `false` where there is no room for it.
    #[cold]
    fn next_block(&mut self) -> bool {
        if self.shared.waiting.load(Ordering::Relaxed) >= self.blocks_max {
            return false;
        }
        let next = self.free.try_recv();
        let next = next.unwrap_or_else(|_| Vec::with_capacity(BLOCK_ENTRIES));
        let block = std::mem::replace(&mut self.block, next);
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        // Full it is not, and without a writer nothing is kept.
        drop(self.full.try_send(block));
        true
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Receiving {
    /// The next block, and whether the other end is gone.
    pub(crate) fn poll(&self) -> Result<Vec<Entry>, std::sync::mpsc::TryRecvError> {
        let block = self.full.try_recv()?;
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok(block)
    }

    /// Gives a block back, empty.
    pub(crate) fn give_back(&self, mut block: Vec<Entry>) {
        block.clear();
        drop(self.free.try_send(block));
    }

    /// Entries that have been dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}
