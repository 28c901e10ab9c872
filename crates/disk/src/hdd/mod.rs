//! A disk with platters: seeks, rotation, zones, read-ahead, a write cache and command queueing.

mod geometry;
mod line;
mod spec;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::model::{DiskModel, DiskOp};
use geometry::{Geometry, SECTOR, third_of_stroke};
pub(crate) use line::{KEYS, TABLE, check};
pub use spec::HddSpec;

/// Sectors that go from the cache to the platters at once: a drain ends soon enough for a read that waits.
const DRAIN_SECTORS: u64 = 512;

/// Extents of the cache on either side of the heads that compete for the next drain.
const DRAIN_NEAR: usize = 16;

/// A disk with platters. Turns with time, so that where a sector is depends on the time alone.
///
/// The next command is the one whose first sector passes a head soonest, among the first `ncq`. Reads go before what
/// the cache holds; held writes go out when no command waits, or when a write or flush has waited for longer than
/// `age`. A flush waits until the cache is empty, and writes that come after it wait for it. Discards change nothing;
/// zeroing writes to the platters.
#[derive(Clone, Debug)]
pub struct Hdd {
    spec: HddSpec,
    geometry: Geometry,
    now_ns: u64,
    serial: u64,
    /// Commands for the platters, oldest first.
    queue: Vec<Command>,
    /// Writes without room in the cache, and flushes, oldest first.
    waiting: VecDeque<Command>,
    /// What the cache holds and the platters do not: sectors by first sector.
    dirty: BTreeMap<u64, u64>,
    dirty_sectors: u64,
    /// Sectors on their way from the cache to the platters.
    draining: u64,
    /// When the heads are free, in ticks, and over which track.
    free: u128,
    track: u64,
    ahead: Option<Ahead>,
    /// When the interface is free.
    bus_ns: u64,
    /// Ids by time of completion and order of submission.
    done: BTreeMap<(u64, u64), u64>,
}

#[derive(Clone, Copy, Debug)]
struct Command {
    serial: u64,
    id: u64,
    op: DiskOp,
    at_ns: u64,
    lba: u64,
    sectors: u64,
}

/// The heads read on: `from` begins to pass at `time`, and everything since `start` is in the buffer.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    start: u64,
    from: u64,
    time: u128,
    /// Reading stops here.
    limit: u64,
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
            dirty: BTreeMap::new(),
            dirty_sectors: 0,
            draining: 0,
            free: 0,
            track: 0,
            ahead: None,
            bus_ns: 0,
            done: BTreeMap::new(),
        }
    }

    /// Does everything that happens up to `now_ns`.
    fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        while self.geometry.nanos(self.free) <= self.now_ns {
            let freed_ns = self.geometry.nanos(self.free);
            self.dirty_sectors -= core::mem::take(&mut self.draining);
            self.admit(freed_ns);
            if !self.start() {
                break;
            }
        }
    }

    /// Takes writes into the cache while there is room, and ends flushes of an empty one.
    fn admit(&mut self, now_ns: u64) {
        while let Some(&command) = self.waiting.front() {
            let now_ns = now_ns.max(command.at_ns);
            if command.op == DiskOp::Flush {
                if self.dirty_sectors > 0 {
                    return;
                }
                self.finish(command, now_ns.saturating_add(self.spec.overhead_ns));
            } else {
                if (self.dirty_sectors + command.sectors) * SECTOR > self.spec.cache {
                    return;
                }
                self.hold(command.lba, command.sectors);
                let done = self.transfer(now_ns, command.sectors);
                self.finish(command, done);
            }
            self.waiting.pop_front();
        }
    }

    /// Puts a write into the cache, joined with what it touches there.
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
        self.ahead.take_if(|ahead| lba < ahead.limit && ahead.start < lba + sectors);
    }

    /// Gives the free heads something to do; `false` if there is nothing.
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

    /// Serves the command that is nearest, or the oldest if it has waited too long.
    fn serve(&mut self) {
        let start = self.free;
        let freed_ns = self.geometry.nanos(start);
        let seen = self.queue.len().min(self.spec.ncq as usize);
        let oldest = &self.queue[0];
        let index = if oldest.at_ns.saturating_add(self.spec.age_ns) <= freed_ns {
            0
        } else {
            let place = |index: &usize| (self.reach(start, &self.queue[*index]), *index);
            (0..seen).min_by_key(place).unwrap_or(0)
        };
        let command = self.queue.remove(index);
        let end = command.lba + command.sectors;
        // Taking the command in is hidden behind the one before it, if there was one.
        let begin =
            start.max(self.geometry.ticks(command.at_ns.saturating_add(self.spec.overhead_ns)));
        let hit = self
            .ahead
            .filter(|ahead| command.op == DiskOp::Read && self.is_hit(ahead, start, &command));
        let (passed, since) = match hit {
            Some(ahead) if end <= ahead.from => (ahead.time, ahead.start),
            Some(ahead) => {
                let track = self.geometry.track(ahead.from);
                (self.geometry.pass(ahead.time, track, ahead.from, end - ahead.from), ahead.start)
            }
            None => (
                self.geometry.pass(begin, self.head(start), command.lba, command.sectors),
                command.lba,
            ),
        };
        self.free = start.max(passed);
        self.track = self.geometry.track(end - 1);
        self.ahead = (command.op == DiskOp::Read).then(|| {
            let from = hit.map_or(end, |ahead| ahead.from.max(end));
            let limit = (end + self.spec.readahead / SECTOR).min(self.spec.size / SECTOR);
            let start = since.max(end.saturating_sub(self.spec.readahead / SECTOR));
            let limit = limit.max(hit.map_or(0, |ahead| ahead.limit));
            Ahead { start, from, time: passed, limit }
        });
        let done = self.geometry.nanos(self.free);
        let done = match command.op {
            DiskOp::WriteZeroes => done,
            _ => done.max(self.transfer(command.at_ns.max(freed_ns), command.sectors)),
        };
        self.finish(command, done);
    }

    /// Whether what a read wants is in the buffer, or passes the heads as they read on.
    fn is_hit(&self, ahead: &Ahead, now: u128, command: &Command) -> bool {
        let end = command.lba + command.sectors;
        ahead.start <= command.lba
            && command.lba <= ahead.limit
            && (end <= ahead.limit || self.stopped(ahead) > now)
    }

    /// When the heads have read up to the limit.
    fn stopped(&self, ahead: &Ahead) -> u128 {
        let track = self.geometry.track(ahead.from);
        self.geometry.pass(ahead.time, track, ahead.from, ahead.limit.saturating_sub(ahead.from))
    }

    /// The track that the heads are over.
    fn head(&self, now: u128) -> u64 {
        match &self.ahead {
            Some(ahead) if ahead.limit > ahead.from && self.stopped(ahead) <= now => {
                self.geometry.track(ahead.limit - 1)
            }
            _ => self.track,
        }
    }

    /// When a command's first sector is there.
    fn reach(&self, start: u128, command: &Command) -> u128 {
        match &self.ahead {
            Some(ahead) if command.op == DiskOp::Read && self.is_hit(ahead, start, command) => {
                start
            }
            _ => self.geometry.reach(start, self.head(start), command.lba),
        }
    }

    /// Moves the nearest of what the cache holds to the platters; `false` if it holds nothing.
    fn drain(&mut self) -> bool {
        let (start, head) = (self.free, self.head(self.free));
        let near = self.near_lba();
        let after = self.dirty.range(near..).take(DRAIN_NEAR);
        let before = self.dirty.range(..near).rev().take(DRAIN_NEAR);
        let place = |&(&lba, _): &(&u64, &u64)| (self.geometry.reach(start, head, lba), lba);
        let Some((&lba, &held)) = after.chain(before).min_by_key(place) else { return false };
        let sectors = held.min(DRAIN_SECTORS);
        self.dirty.remove(&lba);
        if sectors < held {
            self.dirty.insert(lba + sectors, held - sectors);
        }
        self.free = self.geometry.pass(start, head, lba, sectors);
        self.track = self.geometry.track(lba + sectors - 1);
        (self.draining, self.ahead) = (sectors, None);
        true
    }

    /// A sector of the track that the heads are over.
    fn near_lba(&self) -> u64 {
        self.geometry.first_lba(self.track)
    }

    /// When `sectors` have crossed the interface if they begin at `now_ns` or when it is free.
    fn transfer(&mut self, now_ns: u64, sectors: u64) -> u64 {
        let time = u128::from(sectors * SECTOR) * 1_000_000_000 / u128::from(self.spec.interface);
        let begin = now_ns.saturating_add(self.spec.overhead_ns).max(self.bus_ns);
        self.bus_ns = begin.saturating_add(u64::try_from(time).unwrap_or(u64::MAX));
        self.bus_ns
    }

    fn finish(&mut self, command: Command, done_ns: u64) {
        self.done.insert((done_ns, command.serial), command.id);
    }
}

impl DiskModel for Hdd {
    fn submit(&mut self, now_ns: u64, id: u64, op: DiskOp, offset: u64, len: u32) {
        self.advance(now_ns);
        self.serial += 1;
        let lba = offset / SECTOR;
        let sectors = (offset % SECTOR + u64::from(len)).div_ceil(SECTOR);
        let command = Command { serial: self.serial, id, op, at_ns: self.now_ns, lba, sectors };
        let is_held = op == DiskOp::Write && sectors * SECTOR <= self.spec.cache;
        if op == DiskOp::Discard || (sectors == 0 && op != DiskOp::Flush) {
            self.finish(command, self.now_ns.saturating_add(self.spec.overhead_ns));
            return;
        }
        if is_held || op == DiskOp::Flush {
            self.waiting.push_back(command);
            self.admit(self.now_ns);
        } else {
            self.queue.push(command);
        }
        if self.geometry.nanos(self.free) <= self.now_ns {
            // The heads were idle until now.
            self.free = self.free.max(self.geometry.ticks(self.now_ns));
            self.start();
        }
    }

    fn next_event(&self) -> Option<u64> {
        let done = self.done.keys().next().map(|&(at, _)| at);
        let is_working = !self.queue.is_empty() || !self.waiting.is_empty();
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
