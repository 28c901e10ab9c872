//! Operations: reads, writes and syncs in progress.

use std::collections::VecDeque;

use super::disk::Cause;
use super::pages::State;
use super::settings::{Owner, PAGE_BYTES};
use super::{PageCache, Token};

/// Requests of one sync at the disk at a time; in Linux the caller waits when the queue is full (`queue/nr_requests`,
/// 128 by default).
const SYNC_DEPTH: u32 = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Walks over its pages, and waits for uncached ones.
    Reading,
    /// Makes its pages dirty one after the other, and waits for room.
    Writing,
    /// Waits for its pages to be on disk.
    Syncing,
    /// Waits for a flush of the disk.
    Flushing,
}

/// An operation that has not ended. If no field says what it waits for, it is in `ready`, `sharing` or `starved` of
/// the [`PageCache`].
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) token: Token,
    pub(super) owner: u32,
    pub(super) file: u32,
    pub(super) step: Step,
    /// The next page, and the page after the last.
    pub(super) cursor: u64,
    pub(super) end: u64,
    /// First byte and end, as asked for.
    pub(super) first_byte: u64,
    pub(super) end_byte: u64,
    /// End of the file when a write came.
    pub(super) file_bytes: u64,
    /// A read that continues an earlier one.
    pub(super) in_order: bool,
    /// A write that ends when it is on disk.
    pub(super) sync: bool,
    /// A read had to wait for the pages before this one.
    pub(super) missed_until: u64,
    /// Requests that it waits for.
    pub(super) awaits: u32,
    /// Of a sync: requests not handed out yet, and how many are.
    pub(super) to_write: VecDeque<u64>,
    pub(super) in_flight: u32,
    /// Waits for room since then.
    pub(super) throttled_since_ns: Option<u64>,
    pub(super) was_throttled: bool,
}

/// Resource that an operation may take although others wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Nothing,
    Room,
    Memory,
}

impl PageCache {
    /// Takes an operation as far as it goes now.
    pub(super) fn advance(&mut self, index: u32, turn: Turn) {
        match self.ops[index].step {
            Step::Reading => self.advance_read(index, turn),
            Step::Writing => self.advance_write(index, turn),
            Step::Syncing | Step::Flushing => unreachable!("these wait for requests only"),
        }
    }

    /// Continues operations in order: those whose request ended, writers for which there is room, others for which
    /// there is memory. Then the flusher.
    pub(super) fn continue_ready(&mut self) {
        loop {
            if let Some(index) = self.ready.pop_front() {
                self.advance(index, Turn::Nothing);
            } else if self.sharing.is_on() && self.room() > self.sharing.reserved() {
                self.deal_room();
            } else if self.is_memory() && !self.starved.is_empty() {
                let index = self.starved.pop_front().expect("looked just now");
                self.advance(index, Turn::Memory);
            } else {
                self.flush_in_background();
                let is_stuck = self.sharing.is_on() && self.pages.writing() == 0;
                if self.sharing.is_on() && !is_stuck {
                    return;
                }
                // No write waits; or no request is under way that would make room, and the room is reserved for
                // owners that may never come.
                self.sharing.recall();
                if !is_stuck {
                    return;
                }
            }
        }
    }

    /// Gives the next owner room, and continues its writes.
    fn deal_room(&mut self) {
        let mut next = self.sharing.deal(self.now_ns, self.room());
        while let Some(index) = next {
            let owner = self.ops[index].owner;
            self.end_throttle(index);
            self.advance(index, Turn::Room);
            next = self.sharing.next_of(owner);
        }
    }

    pub(super) fn awaited(&mut self, index: u32) {
        let op = &mut self.ops[index];
        op.awaits -= 1;
        if op.throttled_since_ns.is_some() {
            self.end_throttle(index);
        }
        let op = &mut self.ops[index];
        match op.step {
            Step::Reading | Step::Writing => self.ready.push_back(index),
            Step::Syncing if op.awaits == 0 => self.flush_disk(index),
            Step::Syncing => {}
            Step::Flushing => self.finish(index),
        }
    }

    fn finish(&mut self, index: u32) {
        let op = self.ops.remove(index);
        self.done.push_back(op.token);
    }

    /// Pages that may become dirty now.
    pub(super) fn room(&self) -> u64 {
        self.limits.dirty - self.pages.dirty() - self.pages.writing()
    }

    /// Whether a page of memory is available.
    pub(super) fn is_memory(&self) -> bool {
        self.pages.cached() - self.pages.clean() < self.limits.memory
    }

    fn may_take_memory(&self, turn: Turn) -> bool {
        (turn == Turn::Memory || self.starved.is_empty()) && self.is_memory()
    }

    fn starve(&mut self, index: u32) {
        self.counters.starved += 1;
        self.starved.push_back(index);
    }

    // Reads.

    fn advance_read(&mut self, index: u32, turn: Turn) {
        loop {
            let op = &self.ops[index];
            let (owner, file, cursor) = (op.owner, op.file, op.cursor);
            if cursor >= op.end {
                return self.finish(index);
            }
            let here = self.pages.at(file, cursor);
            let until = here.end.min(op.end);
            let asked_end = op.end;
            match here.state {
                // The file has become shorter meanwhile.
                None if cursor >= self.end_page(file) => return self.finish(index),
                None => {
                    if !self.may_take_memory(turn) {
                        return self.starve(index);
                    }
                    self.read_window(index);
                }
                Some(State::Reading { io, .. }) => {
                    if !self.read_ahead(owner, file, cursor, until, asked_end) {
                        self.ops[index].missed_until = self.ios[&io].end;
                        return self.await_io(index, io);
                    }
                }
                Some(state) => {
                    self.pass(index, until, state);
                    self.read_ahead(owner, file, cursor, until, asked_end);
                }
            }
        }
    }

    /// Reads the pages that a reader needs, and read-ahead, from an uncached page on.
    fn read_window(&mut self, index: u32) {
        let op = &self.ops[index];
        let (owner, file, cursor, asked_end) = (op.owner, op.file, op.cursor, op.end);
        let want = asked_end - cursor;
        if self.limits.read_ahead == 0 {
            let end = cursor + want.min(self.limits.chunk);
            self.read_range(owner, file, cursor, end, asked_end);
            return;
        }
        let in_order = op.in_order;
        let reader = self.readers.entry((file, owner)).or_default();
        let (start, end) = reader.misses(cursor, want, in_order, self.limits.ahead_sizes());
        let end = end.min(self.end_page(file));
        let reached = self.read_range(owner, file, start, end, asked_end);
        if reached < end {
            self.readers.entry((file, owner)).or_default().cut(reached);
        }
    }

    /// A reader comes to these pages: reads the next window if one is due, and returns whether it was.
    fn read_ahead(&mut self, owner: u32, file: u32, from: u64, to: u64, asked_end: u64) -> bool {
        if self.limits.read_ahead == 0 {
            return false;
        }
        let Some(reader) = self.readers.get_mut(&(file, owner)) else { return false };
        let sizes = self.limits.ahead_sizes();
        let Some((start, end)) = reader.passes(from, to, asked_end - from, sizes) else {
            return false;
        };
        let end = end.min(self.end_page(file));
        // No operation waits for it yet, so it comes after all that wait for memory.
        if start < end && self.starved.is_empty() {
            self.read_range(owner, file, start, end, asked_end);
        }
        true
    }

    fn pass(&mut self, index: u32, until: u64, state: State) {
        let op = &mut self.ops[index];
        let (file, start) = (op.file, op.cursor);
        op.cursor = until;
        let missed = op.missed_until.clamp(start, until) - start;
        self.counters.miss_pages += missed;
        self.counters.hit_pages += until - start - missed;
        if let State::Clean { ahead } = state {
            if ahead {
                self.counters.ahead_used_pages += until - start;
            }
            self.pages.set(file, start, until, Some(State::Clean { ahead: false }));
        }
    }

    // Writes.

    fn advance_write(&mut self, index: u32, turn: Turn) {
        loop {
            let op = &self.ops[index];
            let (owner, file, cursor) = (op.owner, op.file, op.cursor);
            if cursor >= op.end {
                return self.written(index);
            }
            let here = self.pages.at(file, cursor);
            let mut until = here.end.min(op.end);
            match here.state {
                Some(State::Reading { io, .. }) => return self.await_io(index, io),
                Some(State::Dirty { owner: before }) => {
                    if self.owner == Owner::Last && before != owner {
                        self.pages.set(file, cursor, until, Some(State::Dirty { owner }));
                    }
                    self.passed(index, until);
                }
                Some(State::Writing { io, owner: before, .. }) => {
                    let owner = if self.owner == Owner::Last { owner } else { before };
                    let again = State::Writing { io, owner, again: true };
                    self.pages.set(file, cursor, until, Some(again));
                    self.passed(index, until);
                }
                None if op.lacks(cursor) => {
                    if !self.may_take_memory(turn) {
                        return self.starve(index);
                    }
                    self.read_range(owner, file, cursor, cursor + 1, cursor + 1);
                }
                state => {
                    if state.is_none() && until == op.end && op.lacks(until - 1) {
                        until -= 1;
                    }
                    let own = self.limits.dirty_owner.saturating_sub(self.pages.held_by(owner));
                    if own == 0 {
                        return self.wait_for_own(index);
                    }
                    let room = self.sharing.allowed(owner, self.room()).min(own);
                    if room == 0 {
                        return self.throttle(index, turn);
                    }
                    let mut pages = (until - cursor).min(room);
                    if state.is_none() {
                        if !self.may_take_memory(turn) {
                            return self.starve(index);
                        }
                        pages = self.take_memory(pages);
                    }
                    self.make_dirty(index, pages, state);
                }
            }
        }
    }

    /// A write has made the pages before `until` dirty. The file reaches as far, even if it was shortened meanwhile.
    fn passed(&mut self, index: u32, until: u64) {
        let op = &mut self.ops[index];
        op.cursor = until;
        let end_byte = op.end_byte.min(until.saturating_mul(PAGE_BYTES));
        let file = self.files.entry(op.file).or_default();
        file.bytes = file.bytes.max(end_byte);
    }

    fn make_dirty(&mut self, index: u32, pages: u64, before: Option<State>) {
        let op = &self.ops[index];
        let (owner, file, start) = (op.owner, op.file, op.cursor);
        self.passed(index, start + pages);
        if before == Some(State::Clean { ahead: true }) {
            self.counters.ahead_unused_pages += pages;
        }
        self.pages.set(file, start, start + pages, Some(State::Dirty { owner }));
        self.sharing.take(owner, pages);
        self.note_dirty(file, self.now_ns);
        let dirty_bytes = (self.pages.dirty() + self.pages.writing()) * PAGE_BYTES;
        self.counters.dirty_bytes_max = self.counters.dirty_bytes_max.max(dirty_bytes);
    }

    /// All pages of a write are dirty.
    fn written(&mut self, index: u32) {
        let op = &mut self.ops[index];
        if !op.sync {
            return self.finish(index);
        }
        let (first_byte, end) = (op.first_byte, op.end);
        self.begin_sync(index, first_byte / PAGE_BYTES, end);
    }

    /// The owner of a write has as many dirty pages as it may: the write waits for one of the owner's requests, which
    /// is created if there is none.
    fn wait_for_own(&mut self, index: u32) {
        self.note_throttled(index);
        let owner = self.ops[index].owner;
        let own = self.ios.iter().find(|(_, io)| io.owner == owner && io.writes());
        let io = match own {
            Some((&io, _)) => Some(io),
            None => self.write_back_of(owner),
        };
        // Of the flusher's many requests one ends before this owner's turn comes.
        let io = io.or_else(|| self.ios.keys().next().copied());
        self.await_io(index, io.expect("the flusher has as many under way as it may"));
    }

    fn throttle(&mut self, index: u32, turn: Turn) {
        self.note_throttled(index);
        self.sharing.wait(self.ops[index].owner, index, turn == Turn::Room);
    }

    fn note_throttled(&mut self, index: u32) {
        let op = &mut self.ops[index];
        op.throttled_since_ns = Some(self.now_ns);
        if !op.was_throttled {
            op.was_throttled = true;
            self.counters.throttled_writes += 1;
            self.owners.entry(op.owner).or_default().throttled_writes += 1;
        }
    }

    fn end_throttle(&mut self, index: u32) {
        let op = &mut self.ops[index];
        let since_ns = op.throttled_since_ns.take().expect("set when it began to wait");
        self.counters.throttled_ns += self.now_ns - since_ns;
        self.owners.entry(op.owner).or_default().throttled_ns += self.now_ns - since_ns;
    }

    // Syncs.

    /// Writes the dirty pages from `start` to before `end`, then flushes the disk.
    pub(super) fn begin_sync(&mut self, index: u32, start: u64, end: u64) {
        self.ops[index].step = Step::Syncing;
        self.write_for(index, start, end);
        if self.ops[index].awaits == 0 {
            self.flush_disk(index);
        }
    }

    /// Writes these dirty pages for a sync, which also waits for those under writeback.
    pub(super) fn write_for(&mut self, index: u32, start: u64, end: u64) {
        let file = self.ops[index].file;
        let mut page = start;
        let mut awaited = None;
        while let Some(found) = self.pages.next_writing(file, page).filter(|at| at.start < end) {
            page = found.end;
            let Some(State::Writing { io, again, .. }) = found.state else { unreachable!() };
            // A request's pages are neighbours, though not always one run.
            if awaited != Some(io) {
                awaited = Some(io);
                self.await_io(index, io);
            }
            let io = self.ios.get_mut(&io).expect("pages name requests under way");
            if again && io.repeat.last() != Some(&index) {
                io.repeat.push(index);
            }
        }
        let mut page = start;
        while let Some((from, to, owner)) = self.pages.next_dirty(file, page) {
            if from >= end {
                break;
            }
            page = to.min(end).min(from + self.limits.chunk);
            let io = self.write_back(owner, file, from, page, Cause::Sync { op: index });
            self.await_io(index, io);
            self.ops[index].to_write.push_back(io);
        }
        self.note_dirty(file, self.now_ns);
        self.hand_out_of(index);
    }

    /// Hands out the requests of a sync, up to [`SYNC_DEPTH`].
    pub(super) fn hand_out_of(&mut self, index: u32) {
        while self.ops[index].in_flight < SYNC_DEPTH {
            let Some(io) = self.ops[index].to_write.pop_front() else { return };
            self.ops[index].in_flight += 1;
            self.hand_out(io, true);
        }
    }
}

impl Operation {
    /// Whether a page has bytes in the file that a write leaves alone, so that it must be read before.
    fn lacks(&self, page: u64) -> bool {
        let start = page * PAGE_BYTES;
        let valid_end = self.file_bytes.min(start.saturating_add(PAGE_BYTES));
        start < valid_end && (self.first_byte > start || self.end_byte < valid_end)
    }
}
