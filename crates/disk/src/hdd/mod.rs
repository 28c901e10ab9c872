//! A disk with platters: seeks, rotation, zones, read-ahead, a write cache and command queueing.

mod geometry;
mod line;
mod segments;
mod spec;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::model::{DiskModel, DiskOp};
use geometry::{Geometry, SECTOR, Spot, angle, third_of_stroke};
pub(crate) use line::{KEYS, TABLE, check};
use segments::{Ahead, Segments};
pub use spec::HddSpec;

/// Sectors of one drain from the cache to the platters, so few that a read does not wait long.
const DRAIN_SECTORS: u64 = 512;

/// Extents of the cache on either side of the heads that compete for the next drain.
const DRAIN_NEAR: usize = 16;

/// A disk with platters. The angle depends on the time alone.
///
/// The next command is the one whose first sector passes a head soonest, among the first `ncq`. Reads go before cached
/// writes. Those are drained when no command waits, or when a write or flush has waited for longer than `age`. Discards
/// change nothing; zeroing, and a write with FUA, goes to the platters.
///
/// A flush is not a queued command (ATA: FLUSH CACHE EXT is no NCQ command, and a host must not mix the two kinds). Earlier
/// commands are completed first, then the cache is emptied, and later commands reach the disk when the flush is complete.
///
/// After a read the heads read ahead until there is other work, up to `readahead`. The buffer keeps that range, and as much
/// before it, as one of the last `segments`. A read within a segment does not wait for the heads; one beyond its end reads
/// the missing part.
///
/// O(`ncq`) a command, O(log n) with n extents in the cache, and a step for each track of a transfer. Memory: 48 bytes for
/// each request in flight and about as many for each extent in the cache.
#[derive(Clone, Debug)]
pub struct Hdd {
    spec: HddSpec,
    geometry: Geometry,
    now_ns: u64,
    serial: u64,
    /// Commands for the platters, oldest first.
    queue: Vec<Command>,
    /// Writes without room in the cache, oldest first.
    waiting: VecDeque<Command>,
    /// The flush under way, and its time of completion, once that is known.
    flush: Option<(Command, Option<u64>)>,
    /// Commands that the host holds back until the flush is complete, oldest first.
    kept: VecDeque<Command>,
    /// Dirty extents of the cache: number of sectors by first sector.
    dirty: BTreeMap<u64, u64>,
    dirty_sectors: u64,
    /// Sectors on their way from the cache to the platters.
    draining: u64,
    /// Time when the heads are free, in ticks, and their track.
    free: u128,
    track: u64,
    ahead: Option<Ahead>,
    /// Segments of read data.
    segments: Segments,
    /// Time when the interface is free.
    bus_ns: u64,
    /// Ids by time of completion and order of submission.
    done: BTreeMap<(u64, u64), u64>,
    /// Completion time of the last command so far.
    last_done_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Command {
    serial: u64,
    id: u64,
    op: DiskOp,
    at_ns: u64,
    lba: u64,
    sectors: u64,
    /// Where the first sector is.
    spot: Spot,
}

impl Hdd {
    /// An idle disk, its heads over the outermost track.
    ///
    /// # Panics
    ///
    /// If `rpm`, `heads`, `zones` or `size` is 0, or `inner` above `outer`; a [`Spec`](crate::Spec) never has that.
    pub fn new(spec: HddSpec) -> Hdd {
        Hdd {
            spec,
            geometry: Geometry::new(&spec),
            now_ns: 0,
            serial: 0,
            queue: Vec::new(),
            waiting: VecDeque::new(),
            flush: None,
            kept: VecDeque::new(),
            dirty: BTreeMap::new(),
            dirty_sectors: 0,
            draining: 0,
            free: 0,
            track: 0,
            ahead: None,
            segments: Segments::new(spec.segments.saturating_sub(1) as usize),
            bus_ns: 0,
            done: BTreeMap::new(),
            last_done_ns: 0,
        }
    }

    /// Advances the model to `now_ns`.
    fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        loop {
            if let Some((_, Some(done_ns))) = self.flush {
                if done_ns > self.now_ns {
                    break;
                }
                self.after_flush(done_ns);
            }
            let freed_ns = self.geometry.nanos(self.free);
            if freed_ns > self.now_ns {
                break;
            }
            self.dirty_sectors -= core::mem::take(&mut self.draining);
            self.admit(freed_ns);
            if !self.start() && !matches!(self.flush, Some((_, Some(_)))) {
                break;
            }
        }
    }

    /// Takes writes into the cache while there is room, and ends a flush once the cache is empty.
    fn admit(&mut self, now_ns: u64) {
        while let Some(&command) = self.waiting.front() {
            let now_ns = now_ns.max(command.at_ns);
            if (self.dirty_sectors + command.sectors) * SECTOR > self.spec.cache {
                return;
            }
            self.hold(command.lba, command.sectors);
            let done = self.transfer(now_ns, command.sectors);
            self.finish(command, done);
            self.waiting.pop_front();
        }
        if let Some((flush, None)) = self.flush
            && self.queue.is_empty()
            && self.dirty_sectors == 0
        {
            let drained_ns = now_ns.max(flush.at_ns).max(self.last_done_ns);
            let done_ns = drained_ns.saturating_add(self.spec.overhead_ns);
            self.flush = Some((flush, Some(done_ns)));
            self.finish(flush, done_ns);
        }
    }

    /// Completes the flush: the held-back commands reach the disk, up to the next flush.
    fn after_flush(&mut self, now_ns: u64) {
        self.flush = None;
        for _ in 0..self.kept.len() {
            // Behind another flush they go back to the end, in order.
            if let Some(command) = self.kept.pop_front() {
                self.receive(Command { at_ns: now_ns, ..command });
            }
        }
    }

    /// A command reaches the disk, or is held back during a flush.
    fn receive(&mut self, command: Command) {
        let Command { op, at_ns, lba, sectors, .. } = command;
        if self.flush.is_some() {
            self.kept.push_back(command);
            return;
        }
        let fits = op == DiskOp::Write && sectors * SECTOR <= self.spec.cache;
        if op == DiskOp::Discard || (sectors == 0 && op != DiskOp::Flush) {
            self.finish(command, at_ns.saturating_add(self.spec.overhead_ns));
            return;
        }
        if op == DiskOp::Read && self.is_held(&command) {
            // From the buffer, whatever the heads are doing.
            self.segments.touch(lba);
            let done = self.transfer(at_ns, sectors);
            self.finish(command, done);
            return;
        }
        match op {
            DiskOp::Flush => self.flush = Some((command, None)),
            _ if fits => self.waiting.push_back(command),
            _ => self.queue.push(command),
        }
        if fits || op == DiskOp::Flush {
            self.admit(at_ns);
        }
        if self.geometry.nanos(self.free) <= at_ns {
            // The heads were idle until now.
            self.free = self.free.max(self.geometry.ticks(at_ns));
            self.start();
        }
    }

    /// Puts a write into the cache, joined with extents that it touches.
    fn hold(&mut self, lba: u64, sectors: u64) {
        let (mut first, mut end) = (lba, lba + sectors);
        while let Some((&at, &len)) = self.dirty.range(..=end).next_back() {
            if at + len < first {
                break;
            }
            self.dirty.remove(&at);
            self.dirty_sectors -= len;
            (first, end) = (first.min(at), end.max(at + len));
        }
        self.dirty.insert(first, end - first);
        self.dirty_sectors += end - first;
        self.forget(lba, sectors);
    }

    /// Invalidates these sectors in the buffer.
    fn forget(&mut self, lba: u64, sectors: u64) {
        self.ahead.take_if(|ahead| lba < ahead.limit && ahead.start < lba + sectors);
        self.segments.forget(lba, sectors);
    }

    /// Ends reading ahead.
    fn leave(&mut self, now: u128) {
        if let Some(ahead) = self.ahead.take() {
            self.segments.leave(ahead, &self.geometry, now);
        }
    }

    /// Starts work for the free heads; `false` if there is none.
    fn start(&mut self) -> bool {
        // The time of the decision, not of the call that finds it due.
        let freed_ns = self.geometry.nanos(self.free);
        let due = |at_ns: u64| at_ns.saturating_add(self.spec.age_ns) <= freed_ns;
        let pressed = self.waiting.front().is_some_and(|first| {
            due(first.at_ns) && self.queue.first().is_none_or(|read| first.at_ns <= read.at_ns)
        });
        if !self.queue.is_empty() && (!pressed || self.dirty.is_empty()) {
            self.serve();
            return true;
        }
        self.drain()
    }

    /// Serves the nearest command, or the oldest if it has waited too long.
    fn serve(&mut self) {
        let start = self.free;
        let freed_ns = self.geometry.nanos(start);
        let seen = self.queue.len().min(self.spec.ncq as usize);
        let oldest = &self.queue[0];
        let index = if oldest.at_ns.saturating_add(self.spec.age_ns) <= freed_ns {
            0
        } else {
            self.nearest(start, seen)
        };
        let command = self.queue.remove(index);
        let passed = if self.is_held(&command) {
            self.segments.touch(command.lba);
            start
        } else {
            self.move_to(start, &command)
        };
        self.free = start.max(passed);
        let done = self.geometry.nanos(self.free);
        let done = match command.op {
            DiskOp::WriteZeroes => done,
            _ => done.max(self.transfer(command.at_ns.max(freed_ns), command.sectors)),
        };
        self.finish(command, done);
    }

    /// Moves the heads over a command's sectors from `start` on; returns the end time.
    fn move_to(&mut self, start: u128, command: &Command) -> u128 {
        let end = command.lba + command.sectors;
        let hit = self.ahead.filter(|ahead| self.is_hit(ahead, start, command));
        let (passed, since) = match hit {
            Some(ahead) if end <= ahead.from => (ahead.time, ahead.start),
            Some(ahead) => {
                let track = self.geometry.track(ahead.from);
                (self.geometry.pass(ahead.time, track, ahead.from, end - ahead.from), ahead.start)
            }
            None => {
                // The overhead overlaps with the previous command, if there was one.
                let taken_ns = command.at_ns.saturating_add(self.spec.overhead_ns);
                let begin = start.max(self.geometry.ticks(taken_ns));
                let head = self.head(begin);
                self.leave(begin);
                let first = self.first_missing(command);
                let since = self.segments.find(command.lba).map_or(command.lba, |(since, _)| since);
                (self.geometry.pass(begin, head, first, end - first), since)
            }
        };
        self.track = self.geometry.track(end - 1);
        if command.op != DiskOp::Read {
            self.ahead = None;
            self.forget(command.lba, command.sectors);
            return passed;
        }
        let readahead = self.spec.readahead / SECTOR;
        let limit = (end + readahead).min(self.spec.size / SECTOR);
        let limit = limit.max(hit.map_or(0, |ahead| ahead.limit));
        let (from, time) = match hit {
            // The heads had stopped at the limit: they continue now, and not since then.
            Some(ahead) if ahead.limit < limit && ahead.stopped(&self.geometry) <= start => {
                (ahead.limit, start)
            }
            Some(ahead) => (ahead.from.max(end), passed),
            None => (end, passed),
        };
        let start = since.max(end.saturating_sub(readahead));
        self.ahead = Some(Ahead { start, from, time, limit });
        passed
    }

    /// Whether a read is in the buffer, or passes the heads as they read ahead.
    fn is_hit(&self, ahead: &Ahead, now: u128, command: &Command) -> bool {
        let end = command.lba + command.sectors;
        command.op == DiskOp::Read
            && ahead.start <= command.lba
            && command.lba <= ahead.limit
            && (end <= ahead.limit || ahead.stopped(&self.geometry) > now)
    }

    /// Whether a read is within a finished segment.
    fn is_held(&self, command: &Command) -> bool {
        self.first_missing(command) >= command.lba + command.sectors
    }

    /// The first sector of a command that no segment holds.
    fn first_missing(&self, command: &Command) -> u64 {
        let held = self.segments.find(command.lba).filter(|_| command.op == DiskOp::Read);
        held.map_or(command.lba, |(_, end)| end)
    }

    /// The track that the heads are over.
    fn head(&self, now: u128) -> u64 {
        let Some(ahead) = &self.ahead else { return self.track };
        match ahead.reached(&self.geometry, now) {
            reached if reached > ahead.from => self.geometry.track(reached - 1),
            _ => self.track,
        }
    }

    /// The command among the first `seen` whose first sector outside the buffer passes the heads soonest; the oldest of
    /// several.
    fn nearest(&self, start: u128, seen: usize) -> usize {
        let (head, turned) = (self.head(start), angle(start));
        let (mut nearest, mut least) = (0, u64::MAX);
        for (index, command) in self.queue[..seen].iter().enumerate() {
            let is_here = |ahead: &Ahead| self.is_hit(ahead, start, command);
            let wait = match self.first_missing(command) {
                _ if self.ahead.as_ref().is_some_and(is_here) => Some(0),
                first if first >= command.lba + command.sectors => Some(0),
                first if first == command.lba => {
                    self.geometry.wait_below(turned, head, command.spot, least)
                }
                first => self.geometry.wait_below(turned, head, self.geometry.spot(first), least),
            };
            if let Some(wait) = wait.filter(|wait| *wait < least) {
                (nearest, least) = (index, wait);
            }
        }
        nearest
    }

    /// Drains the nearest extent of the cache; `false` if it is empty.
    fn drain(&mut self) -> bool {
        let (start, head) = (self.free, self.head(self.free));
        let near = self.near_lba();
        let after = self.dirty.range(near..).take(DRAIN_NEAR);
        let before = self.dirty.range(..near).rev().take(DRAIN_NEAR);
        let (turned, mut nearest) = (angle(start), (u64::MAX, u64::MAX, 0));
        for (&lba, &held) in after.chain(before) {
            let (bound, spot) = (nearest.0.saturating_add(1), self.geometry.spot(lba));
            if let Some(wait) = self.geometry.wait_below(turned, head, spot, bound) {
                // Of several the first on the disk.
                nearest = nearest.min((wait, lba, held));
            }
        }
        let (_, lba, held) = nearest;
        if held == 0 {
            return false;
        }
        let sectors = held.min(DRAIN_SECTORS);
        self.dirty.remove(&lba);
        if sectors < held {
            self.dirty.insert(lba + sectors, held - sectors);
        }
        self.leave(start);
        self.free = self.geometry.pass(start, head, lba, sectors);
        self.track = self.geometry.track(lba + sectors - 1);
        self.draining = sectors;
        true
    }

    /// A sector of the track that the heads are over.
    fn near_lba(&self) -> u64 {
        self.geometry.first_lba(self.track)
    }

    /// Time when `sectors` have crossed the interface, if they begin at `now_ns` or when it is free.
    fn transfer(&mut self, now_ns: u64, sectors: u64) -> u64 {
        let time = u128::from(sectors * SECTOR) * 1_000_000_000 / u128::from(self.spec.interface);
        let begin = now_ns.saturating_add(self.spec.overhead_ns).max(self.bus_ns);
        self.bus_ns = begin.saturating_add(u64::try_from(time).unwrap_or(u64::MAX));
        self.bus_ns
    }

    fn finish(&mut self, command: Command, done_ns: u64) {
        self.last_done_ns = self.last_done_ns.max(done_ns);
        self.done.insert((done_ns, command.serial), command.id);
    }
}

impl DiskModel for Hdd {
    fn submit(&mut self, now_ns: u64, id: u64, op: DiskOp, offset: u64, len: u32) {
        self.advance(now_ns);
        self.serial += 1;
        let lba = offset / SECTOR;
        let sectors = (offset % SECTOR + u64::from(len)).div_ceil(SECTOR);
        let (serial, at_ns, spot) = (self.serial, self.now_ns, self.geometry.spot(lba));
        self.receive(Command { serial, id, op, at_ns, lba, sectors, spot });
    }

    fn next_event(&self) -> Option<u64> {
        let done = self.done.keys().next().map(|&(at, _)| at);
        let is_flushing = matches!(self.flush, Some((_, None)));
        let is_working = !self.queue.is_empty() || !self.waiting.is_empty() || is_flushing;
        let freed = is_working.then(|| self.geometry.nanos(self.free));
        [done, freed].into_iter().flatten().min()
    }

    fn poll_complete(&mut self, now_ns: u64) -> Option<u64> {
        self.advance(now_ns);
        let first = self.done.first_entry()?;
        (first.key().0 <= self.now_ns).then(|| first.remove())
    }

    fn capacity(&self) -> u64 {
        self.spec.size
    }
}
