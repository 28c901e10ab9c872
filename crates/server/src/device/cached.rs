//! The write-back cache in the loop: which requests never leave it, which wait for it, and what it sends to the device
//! itself, as requests of whoever wrote.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::num::NonZeroU64;

use tracing::{debug, error, info};
use weir_cache::{Admission, Cache, Flushed, OwnerStats, Ready, Settings, WriteId};
use weir_engine::writeback::BLOCK_BYTES;
use weir_engine::{
    CgroupId, Change, Dimension, Engine, Extent, Instant, Limits, Op, OpenError, Outcome, Path,
    Request, SubmitError, TaskId,
};
use weir_nbd::{Command, Cookie, Op as NbdOp};
use weir_uring::{BufferPool, DiskExtent, Durability, IoBuf, monotonic_ns};

use super::flight::{Asker, Client, Flight, WrittenBack, memory_of};
use super::token::Token;
use super::worker::{Desk, Worker};
use crate::status::CacheStatus;

/// Memory for bytes on their way from the cache to the device, apart from what clients share.
const BOUNCE_BYTES: usize = 64 << 20;

/// A cache, and what connects it with the engine and the ring.
pub(super) struct Cached {
    cache: Cache,
    blocks_max: u32,
    /// Through which task each owner pays.
    payers: BTreeMap<CgroupId, TaskId>,
    /// Flights of requests that are on their way.
    flights: BTreeMap<WriteId, usize>,
    pool: BufferPool,
    /// Parts of started requests, by their flight, that wait for memory.
    unfunded: VecDeque<(usize, Extent)>,
    /// Flushes with nothing left to be written, which the engine has no room for yet.
    flushes: VecDeque<usize>,
    /// The engine had no room for the last request: it is asked again after something has ended.
    is_engine_full: bool,
    /// The last request that ended has failed.
    is_failing: bool,
    /// The device fails, and nobody is left to be told: what is dirty is lost.
    is_given_up: bool,
    /// Scratch.
    parts: Vec<Extent>,
}

impl Cached {
    /// An empty cache for a device of `device_bytes`.
    pub(super) fn new(settings: Settings, device_bytes: u64) -> io::Result<Cached> {
        let now = Instant::from_nanos(monotonic_ns());
        Ok(Cached {
            cache: Cache::new(settings, device_bytes, now),
            blocks_max: settings.blocks_max.get(),
            payers: BTreeMap::new(),
            flights: BTreeMap::new(),
            pool: BufferPool::new(BOUNCE_BYTES)?,
            unfunded: VecDeque::new(),
            flushes: VecDeque::new(),
            is_engine_full: false,
            is_failing: false,
            is_given_up: false,
            parts: Vec::new(),
        })
    }

    /// What a connection in `cgroup` has been told of failures when it begins.
    pub(super) fn unseen(&self, cgroup: CgroupId) -> u64 {
        self.cache.unseen(cgroup)
    }

    /// When something is due by itself.
    pub(super) fn next_event(&self) -> Option<u64> {
        let may_go = !self.is_engine_full && !self.is_given_up;
        self.cache.poll_timeout().filter(|_| may_go).map(Instant::as_nanos)
    }

    /// Whether nothing more will be written.
    pub(super) fn is_drained(&self) -> bool {
        self.cache.dirty_bytes() == 0 || self.is_given_up
    }

    pub(super) fn status(&self) -> CacheStatus {
        let size_bytes = u64::from(self.blocks_max) * BLOCK_BYTES;
        CacheStatus { size_bytes, dirty_bytes: self.cache.dirty_bytes() }
    }

    pub(super) fn stats(&self, cgroup: CgroupId) -> OwnerStats {
        self.cache.stats(cgroup)
    }
}

/// How long what a cgroup has dirty may take to be written at its limits, so that a flush ends before a guest gives up on
/// its disk, which is after 30 s as a rule.
const BACKLOG_SECS: u64 = 10;
/// What it may have dirty however low its limits are.
const BACKLOG_BYTES_MIN: u64 = 1 << 20;

/// What `cgroup` may have dirty at its limits and those above it; `None` without any.
fn backlog_bytes(engine: &Engine, cgroup: CgroupId) -> Option<u64> {
    let path = engine.cgroup_path(cgroup)?;
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
    let above = ends.filter_map(|end| engine.find_cgroup(&Path::parse(&path[..end]).ok()?));
    let limits = above.filter_map(|cgroup| engine.limits(cgroup));
    let bytes_per_sec = limits.flat_map(|limits| {
        let of = |dimension| limits.max.get(dimension).map(NonZeroU64::get);
        // Blocks that are no neighbours are a request each.
        let wiops = of(Dimension::Wiops).map(|ios| ios.saturating_mul(BLOCK_BYTES));
        of(Dimension::Wbps).into_iter().chain(wiops)
    });
    let backlog = bytes_per_sec.min()?.saturating_mul(BACKLOG_SECS);
    Some(backlog.max(BACKLOG_BYTES_MIN))
}

/// What a client is told of bytes that it, or another of its cgroup, has written and that could not be written back.
fn lost() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error())
}

impl Worker {
    /// Whether the cache deals with a request, which then does not go to the engine, or not yet: reads of what is all
    /// there, writes, and flushes until all is written.
    pub(super) fn take_into_cache(&mut self, now: Instant, key: usize, tag: usize) -> bool {
        let flight = &self.desk.flights[tag];
        let Command { op, fua, len, .. } = flight.command;
        let offset = flight.extent.offset;
        let connection = &self.desk.connections[key];
        let bound = connection.bound.expect("requests come after the handshake");
        let cgroup = bound.member.cgroup;
        let mut found = None;
        let is_done = match op {
            NbdOp::Read { .. } => {
                let Some(mut buffer) = self.desk.ring.pool().get(len as usize) else {
                    return false;
                };
                let cached = self.desk.cache.as_ref().expect("asked before");
                if !cached.cache.read(offset, &mut buffer) {
                    return false;
                }
                found = Some(buffer);
                true
            }
            NbdOp::Write if !fua => {
                if self.payer(now, cgroup).is_err() {
                    return false;
                }
                let bytes =
                    self.desk.flights[tag].buffer.as_ref().expect("a write has its payload");
                let cached = self.desk.cache.as_mut().expect("asked before");
                match cached.cache.write(now, cgroup, offset, bytes, tag as u64) {
                    Admission::Taken => true,
                    Admission::Waits => false,
                    Admission::TooLong => return false,
                }
            }
            NbdOp::Flush => {
                let (range, seen) = (bound.start..bound.end, connection.failures_seen);
                let cached = self.desk.cache.as_mut().expect("asked before");
                cached.cache.flush(now, cgroup, range, seen, tag as u64);
                false
            }
            _ => return false,
        };
        let connection = &mut self.desk.connections[key];
        connection.requests += 1;
        if op != NbdOp::Write {
            connection.held_bytes += memory_of(&self.desk.flights[tag].command);
        }
        if is_done {
            let flight = self.desk.flights.remove(tag);
            self.desk.answer(flight, found, Ok(()));
        }
        true
    }

    /// The task through which what `cgroup` has written is written back. One for each cgroup, for as long as the server
    /// runs: an export leads there.
    fn payer(&mut self, now: Instant, cgroup: CgroupId) -> Result<TaskId, OpenError> {
        let cached = self.desk.cache.as_mut().expect("there is a cache");
        if let Some(&task) = cached.payers.get(&cgroup) {
            return Ok(task);
        }
        let client = self.engine.open_client(cgroup)?;
        let task = self.engine.open_task(client)?;
        cached.payers.insert(cgroup, task);
        cached.cache.bound(now, cgroup, backlog_bytes(&self.engine, cgroup));
        Ok(task)
    }

    /// Limits have changed, or whose they are: so has what may be dirty under them. O(owners × depth).
    pub(super) fn bound_dirty(&mut self, now: Instant) {
        let Some(cached) = &mut self.desk.cache else { return };
        for &cgroup in cached.payers.keys() {
            cached.cache.bound(now, cgroup, backlog_bytes(&self.engine, cgroup));
        }
    }

    /// Does what the cache wants: answers writes that have got room and flushes that are over, lets go what waited for
    /// something else at the device, and submits what is to be written back.
    pub(super) fn tend_cache(&mut self, now: Instant) {
        if self.desk.cache.is_none() {
            return;
        }
        self.desk.answer_admitted(now);
        while let Some(flushed) =
            self.desk.cache.as_mut().and_then(|cached| cached.cache.poll_flushed())
        {
            self.desk.flushed(flushed);
        }
        while let Some(ready) =
            self.desk.cache.as_mut().and_then(|cached| cached.cache.poll_ready())
        {
            match ready {
                Ready::Operation(key) => self.desk.start_at_device(key as usize),
                Ready::Write(id) => self.desk.start_write(id),
            }
        }
        self.submit_flushes(now);
        self.submit_writes(now);
    }

    /// What was written is with the device: now for the device's own memory.
    fn submit_flushes(&mut self, now: Instant) {
        while let Some(tag) = self.desk.cache.as_mut().and_then(|cached| cached.flushes.pop_front())
        {
            let Asker::Client(Client { connection, serial, .. }) = self.desk.flights[tag].asker
            else {
                unreachable!("the cache does not flush");
            };
            let connection = self.desk.connections.get(connection);
            let connection = connection.filter(|connection| connection.serial == serial);
            let Some(bound) = connection.and_then(|connection| connection.bound) else {
                self.desk.flights.remove(tag);
                continue;
            };
            let extent = Extent::default();
            let request = Request::new(bound.member.task, Op::Flush, extent, tag as u64);
            match self.engine.submit(now, request) {
                Ok(_) => {}
                Err(SubmitError::UnknownTask) => drop(self.desk.flights.remove(tag)),
                Err(SubmitError::TaskFull { .. } | SubmitError::EngineFull { .. }) => {
                    let cached = self.desk.cache.as_mut().expect("there is a cache");
                    cached.flushes.push_front(tag);
                    return;
                }
            }
        }
    }

    fn submit_writes(&mut self, now: Instant) {
        let is_draining = self.desk.is_draining;
        let Some(cached) = &mut self.desk.cache else { return };
        cached.is_engine_full = false;
        if is_draining {
            cached.cache.release_all(now);
        }
        if cached.is_given_up {
            return;
        }
        while let Some(write) = cached.cache.poll_write(now) {
            let Extent { offset, len } = write.extent;
            let asked = WrittenBack { id: write.id, parts: 0, has_failed: false };
            let flight = Flight {
                asker: Asker::Cache(asked),
                command: Command { cookie: Cookie(0), op: NbdOp::Write, fua: false, offset, len },
                extent: write.extent,
                buffer: None,
                ticket: None,
                joined: None,
                overlay: None,
            };
            let tag = self.desk.flights.insert(flight);
            let task = cached.payers[&write.owner];
            let request = Request::new(task, Op::Write, write.extent, tag as u64);
            if let Err(error) = self.engine.submit(now, Request { sync: false, ..request }) {
                debug!(device = self.desk.name, %error, "no room to write back");
                self.desk.flights.remove(tag);
                cached.cache.give_back(write.id);
                cached.is_engine_full = true;
                return;
            }
            cached.flights.insert(write.id, tag);
        }
    }

    /// What a cgroup has dirty goes to the device now.
    pub(super) fn release_dirty(&mut self, now: Instant, cgroup: CgroupId) {
        if let Some(cached) = &mut self.desk.cache {
            cached.cache.release(now, cgroup);
        }
    }

    /// Before the end nobody is left to be protected: what is dirty is written as fast as the device takes it.
    pub(super) fn lift_limits(&mut self, now: Instant) {
        let cgroups: Vec<CgroupId> =
            self.engine.census().iter().map(|entry| entry.cgroup).collect();
        for cgroup in cgroups {
            let limits = Limits::default();
            // No limits contradict nothing, and the cgroup was there just now.
            let _ = self.engine.reconfigure(now, Change::SetLimits { cgroup, limits });
        }
        self.bound_dirty(now);
    }
}

impl Desk {
    /// Answers writes that have waited for room.
    fn answer_admitted(&mut self, now: Instant) {
        while let Some(cached) = &mut self.cache
            && let Some(admitted) = cached.cache.poll_admitted(now)
        {
            let flight = self.flights.remove(admitted.token as usize);
            let bytes = flight.buffer.as_ref().expect("a write has its payload");
            let result = if admitted.is_taken {
                cached.cache.fill(flight.extent.offset, bytes);
                Ok(())
            } else {
                Err(lost())
            };
            self.released = true;
            self.answer(flight, None, result);
        }
    }

    /// All that a flush waited for is written, or has failed.
    fn flushed(&mut self, flushed: Flushed) {
        let tag = flushed.token as usize;
        if let Asker::Client(client) = &self.flights[tag].asker
            && let Some(connection) = self.connections.get_mut(client.connection)
            && connection.serial == client.serial
        {
            connection.failures_seen = flushed.seen;
        }
        if flushed.has_failed {
            let flight = self.flights.remove(tag);
            self.released = true;
            self.answer(flight, None, Err(lost()));
        } else if let Some(cached) = &mut self.cache {
            cached.flushes.push_back(tag);
        }
    }

    /// Whether a dispatched request may go to the device at once: what the cache writes back goes by its own way, and what
    /// writes past the cache waits until nothing of the cache is at the device there.
    pub(super) fn may_go_to_device(&mut self, key: usize) -> bool {
        let Some(cached) = &mut self.cache else { return true };
        let flight = &mut self.flights[key];
        let Extent { offset, len } = flight.extent;
        match (&flight.asker, flight.command.op) {
            (Asker::Cache(write), _) => {
                let id = write.id;
                self.start_write(id);
                false
            }
            (_, NbdOp::Read { .. }) => {
                flight.overlay = cached.cache.overlay(offset, len).map(Box::new);
                true
            }
            (_, NbdOp::Write | NbdOp::Trim | NbdOp::WriteZeroes { .. }) => {
                cached.cache.begin(key as u64, offset, len.into())
            }
            (_, NbdOp::Flush | NbdOp::Cache | NbdOp::BlockStatus { .. }) => true,
        }
    }

    /// Gives a request of the cache's to the device, as soon as nothing is in its way there.
    fn start_write(&mut self, id: WriteId) {
        let Some(cached) = &mut self.cache else { return };
        let mut parts = std::mem::take(&mut cached.parts);
        if cached.cache.start(id, &mut parts) {
            let key = cached.flights[&id];
            let Asker::Cache(write) = &mut self.flights[key].asker else {
                unreachable!("a request of the cache's")
            };
            write.parts = parts.len().max(1);
            if parts.is_empty() {
                // Other operations have made all of it needless.
                self.instant.push_back(key);
            }
            cached.unfunded.extend(parts.iter().map(|&part| (key, part)));
        }
        cached.parts = parts;
        self.fund_writes();
    }

    /// Writes the parts that have waited for memory, as far as it goes.
    fn fund_writes(&mut self) {
        let Some(cached) = &mut self.cache else { return };
        while let Some(&(key, part)) = cached.unfunded.front() {
            let Some(mut buffer) = cached.pool.get(part.len as usize) else { return };
            cached.unfunded.pop_front();
            cached.cache.copy(part.offset, &mut buffer);
            let (disk, token) = (&self.storage.disk, Token::Disk(key).pack());
            self.ring.write(disk, part.offset, buffer, Durability::Volatile, token);
        }
    }

    /// What a completion means with a cache: a read is patched with what is newer than the device, an operation past the
    /// cache makes it forget what is older. `None` while parts of a request are under way.
    pub(super) fn back_from_device(
        &mut self,
        key: usize,
        mut buffer: Option<IoBuf>,
        mut result: io::Result<()>,
    ) -> Option<(Option<IoBuf>, io::Result<()>)> {
        self.fund_writes();
        let Some(cached) = &mut self.cache else { return Some((buffer, result)) };
        let flight = &mut self.flights[key];
        let Extent { offset, len } = flight.extent;
        match (&mut flight.asker, flight.command.op) {
            (Asker::Cache(write), _) => {
                write.parts -= 1;
                write.has_failed |= result.is_err();
                if let Err(error) = &result {
                    let device = &self.name;
                    // Retries of a device that fails would fill the log.
                    if !cached.is_failing {
                        error!(device, offset, len, %error, "cannot write back: clients are told");
                    }
                    debug!(device, offset, len, %error, "write back failed");
                    if self.is_draining && !cached.is_given_up {
                        cached.is_given_up = true;
                        let dirty_bytes = cached.cache.dirty_bytes();
                        error!(device, dirty_bytes, "the device fails: what is cached is lost");
                    }
                }
                if write.parts > 0 {
                    return None;
                }
                if !write.has_failed && cached.is_failing {
                    info!(device = self.name, offset, len, "writes back again");
                }
                cached.is_failing = write.has_failed;
                if write.has_failed {
                    result = Err(lost());
                }
            }
            (_, NbdOp::Read { .. }) => {
                if let Some(buffer) = buffer.as_mut().filter(|_| result.is_ok()) {
                    cached.cache.finish_read(flight.overlay.as_deref(), offset, buffer);
                }
            }
            (_, NbdOp::Write | NbdOp::Trim | NbdOp::WriteZeroes { .. }) => {
                cached.cache.end(key as u64, offset, len.into(), result.is_ok());
            }
            (_, NbdOp::Flush | NbdOp::Cache | NbdOp::BlockStatus { .. }) => {}
        }
        Some((buffer, result))
    }

    /// A request of the cache's is over.
    pub(super) fn written_back(&mut self, now: Instant, id: WriteId, outcome: Outcome) {
        if let Some(cached) = &mut self.cache {
            cached.flights.remove(&id);
            cached.cache.complete(now, id, outcome);
        }
    }

    /// An extent of the device as a client sees it: where the cache has bytes there is data.
    pub(super) fn with_cached(&self, extent: DiskExtent) -> DiskExtent {
        let DiskExtent { offset, len, data } = extent;
        let cached = self.cache.as_ref().filter(|_| !data);
        match cached.and_then(|cached| cached.cache.first_run(offset, len)) {
            Some(run) if run.start == offset => {
                DiskExtent { offset, len: run.end - offset, data: true }
            }
            Some(run) => DiskExtent { offset, len: run.start - offset, data: false },
            None => extent,
        }
    }
}
