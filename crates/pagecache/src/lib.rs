//! Page cache of one machine, as a state machine in virtual time.
//!
//! Buffered programs do not meet the disk. They meet memory, and the disk meets what memory makes of them: reads ahead of
//! the reader, writes half a minute late and by the flusher, and then, at a limit, all writers waiting at once.
//!
//! ```text
//!  read, write, sync ─► PageCache ─► poll_io ─► engine and disk ─► completed ─► PageCache ─► poll_done
//! ```
//!
//! # What is modelled, and after what
//!
//! Linux, from its documents (`Documentation/admin-guide/sysctl/vm.rst`, `Documentation/ABI/stable/sysfs-block`,
//! `Documentation/admin-guide/cgroup-v2.rst`, the manual pages of `fsync`, `open` and `posix_fadvise`) and from how it
//! is seen to behave. Pages have 4 KiB.
//!
//! | here | there |
//! |---|---|
//! | [`Settings::dirty_background_bytes`] | above it the flusher writes back, down to it; pages on their way do not count |
//! | [`Settings::dirty_bytes`] | at it, pages on their way included, writes wait until others are on disk; what becomes free is shared equally among owners |
//! | [`Settings::dirty_owner_bytes`] | the dirty limit of a memory cgroup: at it, its writes wait for its own pages |
//! | [`Settings::dirty_expire_ns`], [`Settings::writeback_interval_ns`] | the flusher's regular look for files that have been dirty for too long; it writes all of such a file |
//! | order of writing back | file by file, the longest dirty first, 4 MiB of each in turn; in a file by offset |
//! | [`Settings::write_chunk_bytes`] | neighbouring dirty pages are one request, but not those of different owners |
//! | [`Settings::read_ahead_bytes`] | windows from 16 KiB (for reads of 4 KiB) that double up to it; the next is read when the reader comes to the mark in the last; a read that continues none is as asked, up to [`Settings::write_chunk_bytes`]; windows of a longer read are as long as it, up to the same |
//! | [`PageCache::advise`] | with `POSIX_FADV_SEQUENTIAL` windows are twice as large, with `POSIX_FADV_RANDOM` there are none |
//! | [`PageCache::sync`] | `fsync`, `fdatasync`: what is dirty now is written, what is on its way is awaited, then a flush |
//! | `sync` of [`PageCache::write`] | `O_SYNC`, `O_DSYNC`: the same for the pages of the write |
//! | part of a page written | a page that is in the file and not cached is read first |
//! | [`Owner`] | the cgroup that is charged for a page, and so for the request that writes it |
//! | memory | the least recently used clean page goes first |
//!
//! # What is deliberately absent
//!
//! - Pacing below the dirty limit. Linux begins half-way between its two limits to let writers sleep so that they come
//!   to rest below the upper one, at the rate of the disk; here they run freely up to the limit and then wait their
//!   turn. The rates are the same, the level is somewhat higher, the waits are shorter and more.
//! - A dirty limit for each disk. One cache is one machine with one disk.
//! - Two lists of pages (active, inactive) and refaults: order of last use decides alone.
//! - Order found out from what happens to be cached, and descriptors: see [`PageCache::read`].
//! - Metadata, journals, and delayed allocation: a file is its pages, and has its place on disk from the beginning.
//!   `fsync` and `fdatasync` do the same.
//! - Mapped files and swap; errors of the disk.
//! - The bytes. Only which pages are where.
//!
//! # Cost
//!
//! Memory goes with runs of pages: neighbours in one state are one entry of some 50 bytes, or up to 160 where the next is
//! a megabyte away, so a gigabyte written in order is a handful, and the worst case is one for each page that is cached. An operation costs O(log n) for each run
//! that it meets and each request that it makes. Nothing here knows a clock or chance: the same calls give the same
//! answers.

#![forbid(unsafe_code)]

mod ahead;
mod check;
mod counters;
mod disk;
mod flusher;
mod operation;
mod pages;
mod places;
mod settings;
mod sharing;
mod slots;

pub use ahead::Advice;
pub use counters::{Counters, OwnerCounters};
pub use settings::{Owner, PAGE_BYTES, Settings};

use std::collections::{BTreeMap, VecDeque};

use ahead::Reader;
use disk::Io;
use flusher::Flusher;
use operation::{Operation, Step, Turn};
use pages::{Pages, State};
use settings::Limits;
use sharing::Sharing;
use slots::Slots;

/// The caller's name for an operation, handed back when it ends. The cache does not look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// What a request to the disk does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheOp {
    /// Read pages into memory.
    Read,
    /// Write pages back.
    Write,
    /// Make what was written last. Has no extent.
    Flush,
}

/// A request to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheIo {
    /// For [`PageCache::completed`]. Each is given once.
    pub id: u64,
    /// The owner that is charged: of a read and a flush, the caller's; of a write, that of the pages.
    pub owner: u32,
    /// The file.
    pub file: u32,
    /// What to do.
    pub op: CacheOp,
    /// First byte in the file, at a page's beginning; 0 for a flush.
    pub offset: u64,
    /// Bytes: whole pages, but no sector (512 bytes) beyond the end of the file. 0 for a flush.
    pub len: u32,
    /// An operation waits for it now. False for read-ahead and for writeback by the flusher.
    pub sync: bool,
}

/// A machine's page cache.
///
/// Sans-IO: the caller tells what happens and when (in nanoseconds; a time before one told earlier counts as that one),
/// then asks [`PageCache::poll_io`] and [`PageCache::poll_done`] until they answer None, and calls
/// [`PageCache::handle_timeout`] at [`PageCache::poll_timeout`].
///
/// Whatever the calls, memory and dirty pages stay within their limits after each of them, every token is handed back
/// exactly once if all requests end, and no dirty page is dropped before it was written, but for
/// [`PageCache::trim`] and [`PageCache::set_file_size`]. Operations, dirty files and readers are not limited in number;
/// the caller's processes limit them.
///
/// ```
/// use weir_pagecache::{CacheOp, PageCache, Settings, Token};
/// let mut cache = PageCache::new(Settings::default());
/// cache.write(0, Token(1), 7, 0, 0, 8192, false);
/// assert_eq!(cache.poll_done(), Some(Token(1))); // in memory
/// assert_eq!(cache.poll_io(), None);
/// cache.sync(1_000, Token(2), 7, 0);
/// let io = cache.poll_io().unwrap();
/// assert_eq!((io.op, io.owner, io.offset, io.len, io.sync), (CacheOp::Write, 7, 0, 8192, true));
/// cache.completed(2_000, io.id);
/// let flush = cache.poll_io().unwrap();
/// assert_eq!(flush.op, CacheOp::Flush);
/// cache.completed(3_000, flush.id);
/// assert_eq!(cache.poll_done(), Some(Token(2))); // on disk
/// ```
#[derive(Debug, Clone)]
pub struct PageCache {
    limits: Limits,
    owner: Owner,
    now_ns: u64,
    pages: Pages,
    files: BTreeMap<u32, File>,
    /// By file and owner.
    readers: BTreeMap<(u32, u32), Reader>,
    flusher: Flusher,
    /// Requests of the flusher in flight.
    flushing: u32,
    ops: Slots<Operation>,
    ios: BTreeMap<u64, Io>,
    last_io: u64,
    /// Operations that can continue; empty between calls.
    ready: VecDeque<u32>,
    /// Writes that wait for room below the dirty limit.
    sharing: Sharing,
    /// Operations that wait for memory.
    starved: VecDeque<u32>,
    out: VecDeque<CacheIo>,
    done: VecDeque<Token>,
    counters: Counters,
    owners: BTreeMap<u32, OwnerCounters>,
}

#[derive(Debug, Clone, Copy, Default)]
struct File {
    bytes: u64,
    /// Told by [`PageCache::set_file_size`], not only seen.
    is_told: bool,
}

impl PageCache {
    /// An empty cache at time 0.
    pub fn new(settings: Settings) -> PageCache {
        PageCache {
            limits: settings.in_pages(),
            owner: settings.owner,
            now_ns: 0,
            pages: Pages::new(),
            files: BTreeMap::new(),
            readers: BTreeMap::new(),
            flusher: Flusher::new(settings.dirty_expire_ns, settings.writeback_interval_ns),
            flushing: 0,
            ops: Slots::new(),
            ios: BTreeMap::new(),
            last_io: 0,
            ready: VecDeque::new(),
            sharing: Sharing::default(),
            starved: VecDeque::new(),
            out: VecDeque::new(),
            done: VecDeque::new(),
            counters: Counters::default(),
            owners: BTreeMap::new(),
        }
    }

    // In: what happens.

    /// Reads bytes of a file. Ends when all are in memory, at once if they are, or if there are none: a read ends
    /// where the file does.
    ///
    /// Sequential reads of one owner in one file have read-ahead; up to 8 such sequences are told apart.
    pub fn read(
        &mut self,
        now_ns: u64,
        token: Token,
        owner: u32,
        file: u32,
        offset: u64,
        len: u32,
    ) {
        self.turn_to(now_ns);
        let known = self.files.entry(file).or_default();
        let mut end_byte = offset.saturating_add(u64::from(len));
        if known.is_told {
            end_byte = end_byte.min(known.bytes);
        }
        if end_byte <= offset {
            self.done.push_back(token);
            return;
        }
        known.bytes = known.bytes.max(end_byte);
        let mut op = Operation::new(token, owner, file, Step::Reading, offset, end_byte);
        let reader = self.readers.entry((file, owner)).or_default();
        op.in_order = reader.arrives(op.cursor, op.end);
        self.begin(op);
    }

    /// Writes bytes of a file; beyond its end, the file grows. Ends when all are in memory, which takes until there is
    /// room below the dirty limit; with `sync` (`O_SYNC`, `O_DSYNC`) when they are on disk and were flushed.
    #[expect(clippy::too_many_arguments, reason = "what `pwrite` takes, who calls it, and when")]
    pub fn write(
        &mut self,
        now_ns: u64,
        token: Token,
        owner: u32,
        file: u32,
        offset: u64,
        len: u32,
        sync: bool,
    ) {
        self.turn_to(now_ns);
        let end_byte = offset.saturating_add(u64::from(len));
        if end_byte <= offset {
            self.done.push_back(token);
            return;
        }
        let known = self.files.entry(file).or_default();
        let mut op = Operation::new(token, owner, file, Step::Writing, offset, end_byte);
        op.file_bytes = known.bytes;
        op.sync = sync;
        known.bytes = known.bytes.max(end_byte);
        self.begin(op);
    }

    /// `fsync` or `fdatasync`. Ends when all pages of the file that are dirty now are on disk, of every owner, and a
    /// flush after that has ended. It does not wait for pages that become dirty later. Only where a page under
    /// writeback is dirty again already, what is written to it until that write ends goes along.
    pub fn sync(&mut self, now_ns: u64, token: Token, owner: u32, file: u32) {
        self.turn_to(now_ns);
        let op = self.ops.insert(Operation::new(token, owner, file, Step::Syncing, 0, 0));
        self.begin_sync(op, 0, u64::MAX);
        self.continue_ready();
    }

    /// Advises on access of `owner` to a file (`posix_fadvise`), until the next call.
    pub fn advise(&mut self, owner: u32, file: u32, advice: Advice) {
        self.readers.entry((file, owner)).or_default().advice = advice;
    }

    /// Drops the clean pages of a file (`posix_fadvise` with `POSIX_FADV_DONTNEED`). Dirty pages and pages under way
    /// stay.
    pub fn invalidate(&mut self, now_ns: u64, file: u32) {
        self.turn_to(now_ns);
        self.drop_pages(file, 0, u64::MAX, false);
        self.continue_ready();
    }

    /// Forgets a range of a file, dirty or not, without writing it. Only pages wholly inside are dropped. Pages under
    /// way to or from the disk stay until they are there; what was written to them meanwhile is forgotten.
    pub fn trim(&mut self, file: u32, offset: u64, len: u32) {
        let end = offset.saturating_add(u64::from(len)) / PAGE_BYTES;
        self.drop_pages(file, offset.div_ceil(PAGE_BYTES), end, true);
        self.continue_ready();
    }

    /// Sets the end of a file: nothing beyond is read. Pages beyond it are forgotten, as by [`PageCache::trim`].
    ///
    /// Before, a file ends where the furthest read or write has ended. Writes beyond the end make it grow.
    pub fn set_file_size(&mut self, file: u32, bytes: u64) {
        self.files.insert(file, File { bytes, is_told: true });
        self.drop_pages(file, bytes.div_ceil(PAGE_BYTES), u64::MAX, true);
        self.continue_ready();
    }

    /// A request of [`PageCache::poll_io`] has ended.
    ///
    /// # Panics
    /// If there is no such request, or it has ended before.
    pub fn completed(&mut self, now_ns: u64, io: u64) {
        self.turn_to(now_ns);
        self.end_io(io);
        self.continue_ready();
    }

    /// Time has passed. Early and repeated calls are harmless.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.turn_to(now_ns);
        self.flusher.tick(self.now_ns);
        self.continue_ready();
    }

    // Out: ask until the answer is None.

    /// The next request to the disk.
    pub fn poll_io(&mut self) -> Option<CacheIo> {
        self.out.pop_front()
    }

    /// The next operation that has ended; each once.
    pub fn poll_done(&mut self) -> Option<Token> {
        self.done.pop_front()
    }

    /// When to call [`PageCache::handle_timeout`]; None while all dirty pages are under writeback.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.flusher.timer_ns()
    }

    // About itself.

    /// Totals, and present levels.
    pub fn counters(&self) -> Counters {
        Counters {
            cached_bytes: self.pages.cached() * PAGE_BYTES,
            dirty_bytes: (self.pages.dirty() + self.pages.writing()) * PAGE_BYTES,
            writing_bytes: self.pages.writing() * PAGE_BYTES,
            ..self.counters
        }
    }

    /// Counters of one owner; zeros for an unknown one.
    pub fn owner_counters(&self, owner: u32) -> OwnerCounters {
        self.owners.get(&owner).copied().unwrap_or_default()
    }

    /// Whether a byte of a file is in memory, from the disk or from a writer.
    pub fn is_cached(&self, file: u32, offset: u64) -> bool {
        let state = self.pages.at(file, offset / PAGE_BYTES).state;
        !matches!(state, None | Some(State::Reading { .. }))
    }

    /// Owner of a byte of a file, if it is dirty and not under writeback, or dirty again under writeback.
    pub fn dirty_owner(&self, file: u32, offset: u64) -> Option<u32> {
        match self.pages.at(file, offset / PAGE_BYTES).state {
            Some(State::Dirty { owner } | State::Writing { owner, again: true, .. }) => Some(owner),
            _ => None,
        }
    }

    /// Invariants of the whole, for tests: limits hold, sums agree, pages and requests name each other, and each
    /// waiter waits for something that will happen. O(n) in pages, operations and requests.
    ///
    /// # Errors
    /// The first that does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        check::check(self)
    }

    // Details.

    fn turn_to(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    fn begin(&mut self, op: Operation) {
        let index = self.ops.insert(op);
        self.advance(index, Turn::Nothing);
        self.continue_ready();
    }

    /// The page after a file's last.
    fn end_page(&self, file: u32) -> u64 {
        self.files.get(&file).map_or(0, |file| file.bytes.div_ceil(PAGE_BYTES))
    }

    /// Drops the clean pages from `start` to before `end`, and with `dirty_too` the dirty ones.
    fn drop_pages(&mut self, file: u32, start: u64, end: u64, dirty_too: bool) {
        let mut page = start;
        while let Some(from) = self.pages.next_cached(file, page).filter(|&from| from < end) {
            let here = self.pages.at(file, from);
            page = here.end.min(end);
            match here.state {
                Some(State::Clean { ahead }) => {
                    if ahead {
                        self.counters.ahead_unused_pages += page - from;
                    }
                    self.pages.set(file, from, page, None);
                }
                Some(State::Dirty { .. }) if dirty_too => self.pages.set(file, from, page, None),
                Some(State::Writing { io, owner, again: true }) if dirty_too => {
                    let once = State::Writing { io, owner, again: false };
                    self.pages.set(file, from, page, Some(once));
                }
                _ => {}
            }
        }
        self.note_dirty(file, self.now_ns);
    }
}

impl Operation {
    fn new(token: Token, owner: u32, file: u32, step: Step, offset: u64, end: u64) -> Operation {
        Operation {
            token,
            owner,
            file,
            step,
            cursor: offset / PAGE_BYTES,
            end: end.div_ceil(PAGE_BYTES),
            first_byte: offset,
            end_byte: end,
            file_bytes: 0,
            in_order: false,
            sync: false,
            missed_until: 0,
            awaits: 0,
            to_write: VecDeque::new(),
            in_flight: 0,
            throttled_since_ns: None,
            was_throttled: false,
        }
    }
}
