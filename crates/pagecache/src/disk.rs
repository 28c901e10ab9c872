//! Requests to the disk: their creation, and effects of their ends.

use super::counters::OwnerCounters;
use super::operation::Step;
use super::pages::{State, Stretch};
use super::settings::PAGE_BYTES;
use super::{CacheIo, CacheOp, PageCache};

/// Granularity of the disk: a request ends with the last sector of the file.
const SECTOR_BYTES: u64 = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A read, or read-ahead.
    Reader,
    /// The flusher; `forced` while a writer waited for room.
    Flusher {
        forced: bool,
    },
    /// An operation that ends when it is on disk.
    Sync {
        op: u32,
    },
    Flush,
}

#[derive(Debug, Clone)]
pub(super) struct Io {
    pub(super) owner: u32,
    pub(super) file: u32,
    pub(super) start: u64,
    /// Page after the last. A flush has none.
    pub(super) end: u64,
    len: u32,
    pub(super) cause: Cause,
    pub(super) issued_ns: u64,
    pub(super) waiters: Vec<u32>,
    /// Of these, those that also wait for what was written to its pages meanwhile.
    pub(super) repeat: Vec<u32>,
}

impl Io {
    pub(super) fn writes(&self) -> bool {
        matches!(self.cause, Cause::Flusher { .. } | Cause::Sync { .. })
    }
}

impl PageCache {
    /// Up to `wanted` pages of memory; evicts clean pages.
    pub(super) fn take_memory(&mut self, wanted: u64) -> u64 {
        let free = self.limits.memory - self.pages.cached();
        if wanted > free {
            let gone = self.pages.evict(wanted - free);
            self.counters.evicted_pages += gone.pages;
            self.counters.ahead_unused_pages += gone.unused;
        }
        wanted.min(self.limits.memory - self.pages.cached())
    }

    /// Creates a request; [`PageCache::hand_out`] sends it.
    fn new_io(&mut self, owner: u32, file: u32, start: u64, end: u64, cause: Cause) -> u64 {
        self.last_io += 1;
        let io = Io {
            owner,
            file,
            start,
            end,
            len: self.len_of(file, start, end),
            cause,
            issued_ns: self.now_ns,
            waiters: Vec::new(),
            repeat: Vec::new(),
        };
        self.ios.insert(self.last_io, io);
        self.last_io
    }

    pub(super) fn hand_out(&mut self, id: u64, sync: bool) {
        let io = &self.ios[&id];
        let op = match io.cause {
            Cause::Reader => CacheOp::Read,
            Cause::Flusher { .. } | Cause::Sync { .. } => CacheOp::Write,
            Cause::Flush => CacheOp::Flush,
        };
        let (offset, len) = (io.start * PAGE_BYTES, io.len);
        self.out.push_back(CacheIo { id, owner: io.owner, file: io.file, op, offset, len, sync });
    }

    fn len_of(&self, file: u32, start: u64, end: u64) -> u32 {
        if start == end {
            return 0;
        }
        let bytes = self.files.get(&file).map_or(0, |file| file.bytes);
        let end_of_file = bytes.checked_next_multiple_of(SECTOR_BYTES).unwrap_or(u64::MAX);
        let first = start * PAGE_BYTES;
        let last = end.saturating_mul(PAGE_BYTES).min(end_of_file).max(first + SECTOR_BYTES);
        u32::try_from(last - first).expect("requests are bounded by the settings")
    }

    /// Reads uncached pages from `start` to before `end`, as far as there is memory; returns where that ended. Pages
    /// from `asked_end` on are read ahead.
    pub(super) fn read_range(
        &mut self,
        owner: u32,
        file: u32,
        start: u64,
        end: u64,
        asked_end: u64,
    ) -> u64 {
        let mut page = start;
        while page < end {
            let here = self.pages.at(file, page);
            if here.state.is_some() {
                page = here.end;
                continue;
            }
            // No request is longer than the block layer takes at once.
            let pages = (here.end.min(end) - page).min(self.limits.chunk);
            let taken = self.take_memory(pages);
            if taken == 0 {
                return page;
            }
            let until = page + taken;
            let io = self.new_io(owner, file, page, until, Cause::Reader);
            let ahead_from = asked_end.clamp(page, until);
            if page < ahead_from {
                let asked = State::Reading { io, ahead: false };
                self.pages.set(file, page, ahead_from, Some(asked));
            }
            if ahead_from < until {
                let ahead = State::Reading { io, ahead: true };
                self.pages.set(file, ahead_from, until, Some(ahead));
                self.counters.ahead_pages += until - ahead_from;
            }
            self.hand_out(io, page < ahead_from);
            page = until;
        }
        end
    }

    /// Puts dirty pages of one owner under writeback. Creates the request without handing it out.
    pub(super) fn write_back(
        &mut self,
        owner: u32,
        file: u32,
        start: u64,
        end: u64,
        cause: Cause,
    ) -> u64 {
        let io = self.new_io(owner, file, start, end, cause);
        self.pages.set(file, start, end, Some(State::Writing { io, owner, again: false }));
        io
    }

    /// Lets the flusher write as far as it wants and may.
    pub(super) fn flush_in_background(&mut self) {
        while self.flushing < self.limits.depth {
            let too_much = self.pages.dirty() > self.limits.background;
            let chunk = self.limits.chunk;
            let Some(next) = self.flusher.next(self.now_ns, &self.pages, too_much, chunk) else {
                return;
            };
            let forced = self.sharing.is_on() || !self.starved.is_empty();
            let cause = Cause::Flusher { forced };
            let io = self.write_back(next.owner, next.file, next.start, next.end, cause);
            self.note_dirty(next.file, self.now_ns);
            self.flushing += 1;
            self.hand_out(io, false);
        }
    }

    /// Writes back the first dirty pages of one owner, if the flusher may; returns the request.
    pub(super) fn write_back_of(&mut self, owner: u32) -> Option<u64> {
        if self.flushing >= self.limits.depth {
            return None;
        }
        let (file, start, end) = self.pages.first_dirty_of(owner)?;
        let end = end.min(start + self.limits.chunk);
        let cause = Cause::Flusher { forced: true };
        let io = self.write_back(owner, file, start, end, cause);
        self.note_dirty(file, self.now_ns);
        self.flushing += 1;
        self.hand_out(io, false);
        Some(io)
    }

    /// Tells the flusher whether a file has dirty pages, possibly since `since_ns`.
    pub(super) fn note_dirty(&mut self, file: u32, since_ns: u64) {
        if self.pages.dirty_of(file) > 0 {
            self.flusher.note(self.now_ns, file, since_ns);
        } else {
            self.flusher.forget(file);
        }
    }

    pub(super) fn flush_disk(&mut self, op: u32) {
        let (owner, file) = (self.ops[op].owner, self.ops[op].file);
        let io = self.new_io(owner, file, 0, 0, Cause::Flush);
        self.ops[op].step = Step::Flushing;
        self.await_io(op, io);
        self.hand_out(io, true);
    }

    pub(super) fn await_io(&mut self, op: u32, io: u64) {
        let io = self.ios.get_mut(&io).expect("pages and operations name requests under way");
        io.waiters.push(op);
        self.ops[op].awaits += 1;
    }

    /// A request has ended: its pages are as on the disk, and its waiters continue.
    pub(super) fn end_io(&mut self, id: u64) {
        let io = self.ios.remove(&id).unwrap_or_else(|| {
            panic!("request {id} ended: it was never handed out, or has ended before")
        });
        let bytes = u64::from(io.len);
        let counters: &mut OwnerCounters = self.owners.entry(io.owner).or_default();
        match io.cause {
            Cause::Reader => counters.read_bytes += bytes,
            Cause::Flusher { forced } => {
                self.flushing -= 1;
                if forced {
                    counters.forced_bytes += bytes;
                } else {
                    counters.background_bytes += bytes;
                }
            }
            Cause::Sync { .. } => counters.sync_bytes += bytes,
            Cause::Flush => {}
        }
        let mut page = io.start;
        while page < io.end {
            let Stretch { end, state, .. } = self.pages.at(io.file, page);
            let state = match state {
                Some(State::Reading { io, ahead }) if io == id => State::Clean { ahead },
                Some(State::Writing { io, again: false, .. }) if io == id => {
                    State::Clean { ahead: false }
                }
                Some(State::Writing { io, again: true, owner }) if io == id => {
                    State::Dirty { owner }
                }
                other => unreachable!("page {page} belongs to request {id}: {other:?}"),
            };
            let end = end.min(io.end);
            self.pages.set(io.file, page, end, Some(state));
            page = end;
        }
        if matches!(io.cause, Cause::Flusher { .. } | Cause::Sync { .. }) {
            // What was written meanwhile is dirty since the request was issued, or later.
            self.note_dirty(io.file, io.issued_ns);
        }
        for op in io.repeat {
            self.write_for(op, io.start, io.end);
        }
        if let Cause::Sync { op } = io.cause {
            self.ops[op].in_flight -= 1;
            self.hand_out_of(op);
        }
        for op in io.waiters {
            self.awaited(op);
        }
    }
}
