//! Requests of clients where there is a cache: answered from it, patched with what it has, or kept apart from what it does.

use std::io;

use weir_cache::{Admission, Flushed};
use weir_engine::{Extent, Instant, Op, Request, SubmitError};
use weir_nbd::{Command, Op as NbdOp};
use weir_uring::{DiskExtent, IoBuf};

use super::not_written;
use crate::device::quota::Memory;
use crate::device::reactor::{DeviceIo, Reactor};
use crate::device::request::{Client, Origin, PendingRequest, memory_of};

impl Reactor {
    /// Whether the cache deals with a request, which then does not go to the engine, or not yet: reads of what is all
    /// there, writes, and flushes until all is written.
    pub(in crate::device) fn take_into_cache(
        &mut self,
        now: Instant,
        key: usize,
        tag: usize,
    ) -> bool {
        let pending = &self.io.requests[tag];
        let Command { op, fua, len, .. } = pending.command;
        let offset = pending.extent.offset;
        let connection = &self.io.connections[key];
        let bound = connection.bound.expect("requests come after the handshake");
        let cgroup = bound.member.cgroup;
        let mut found = None;
        let is_done = match op {
            NbdOp::Read { .. } => {
                let cached = self.io.cache.as_mut().expect("asked before");
                if !cached.cache.holds(offset, len) {
                    return false;
                }
                let Some(mut buffer) = self.io.ring.pool().get(len as usize) else {
                    return false;
                };
                cached.cache.read(cgroup, offset, &mut buffer);
                found = Some(buffer);
                true
            }
            NbdOp::Write if !fua => {
                if self.payer(now, cgroup).is_err() {
                    return false;
                }
                let bytes = self.io.requests[tag].buffer.as_ref().expect("a write has its payload");
                let cached = self.io.cache.as_mut().expect("asked before");
                match cached.cache.write(now, cgroup, offset, bytes, tag as u64) {
                    Admission::Taken => true,
                    Admission::Waits => false,
                    Admission::TooLong => return false,
                }
            }
            NbdOp::Flush => {
                let (range, seen) = (bound.start..bound.end, connection.failures_seen);
                let cached = self.io.cache.as_mut().expect("asked before");
                cached.cache.flush(now, cgroup, range, seen, tag as u64);
                false
            }
            _ => return false,
        };
        let connection = &mut self.io.connections[key];
        connection.requests += 1;
        if op != NbdOp::Write {
            connection.held_bytes[Memory::Replies as usize] +=
                memory_of(&self.io.requests[tag].command);
        }
        if is_done {
            let pending = self.io.requests.remove(tag);
            self.io.answer(pending, found, Ok(()));
        }
        true
    }

    /// What was written is with the device: now for the device's own memory.
    pub(super) fn submit_flushes(&mut self, now: Instant) {
        while let Some(tag) = self.io.cache.as_mut().and_then(|cached| cached.flushes.pop_front()) {
            let Origin::Client(Client { connection, serial, .. }) = self.io.requests[tag].origin
            else {
                unreachable!("the cache does not flush");
            };
            let connection = self.io.connections.open(connection, serial);
            let Some(bound) = connection.and_then(|connection| connection.bound) else {
                self.io.forget_withdrawn(tag);
                continue;
            };
            let extent = Extent::default();
            let request = Request::new(bound.member.task, Op::Flush, extent, tag as u64);
            match self.engine.submit(now, request) {
                Ok(_) => {}
                Err(SubmitError::UnknownTask) => self.io.forget_withdrawn(tag),
                Err(SubmitError::TaskFull { .. } | SubmitError::EngineFull { .. }) => {
                    let cached = self.io.cache.as_mut().expect("there is a cache");
                    cached.flushes.push_front(tag);
                    return;
                }
            }
        }
    }
}

impl DeviceIo {
    /// Answers writes that have waited for room.
    pub(super) fn answer_admitted(&mut self, now: Instant) {
        while let Some(cached) = &mut self.cache
            && let Some(admitted) = cached.cache.poll_admitted(now)
        {
            let pending = self.requests.remove(admitted.token as usize);
            let bytes = pending.buffer.as_ref().expect("a write has its payload");
            let result = admitted.result.map_err(not_written);
            if result.is_ok() {
                cached.cache.fill(pending.extent.offset, bytes);
            }
            self.backpressure.note_released();
            self.answer(pending, None, result);
        }
    }

    /// All that a flush waited for is written, or has failed.
    pub(super) fn flushed(&mut self, flushed: Flushed) {
        let tag = flushed.token as usize;
        if let Origin::Client(client) = &self.requests[tag].origin
            && let Some(connection) = self.connections.open_mut(client.connection, client.serial)
        {
            connection.failures_seen = flushed.seen;
        }
        if let Err(reason) = flushed.result {
            let pending = self.requests.remove(tag);
            self.backpressure.note_released();
            self.answer(pending, None, Err(not_written(reason)));
        } else if let Some(cached) = &mut self.cache {
            cached.flushes.push_back(tag);
        }
    }

    /// Whether the piece of a dispatched request may go to the device at once: what the cache writes back goes by its own way, and what
    /// writes past the cache waits until nothing of the cache is at the device there.
    pub(in crate::device) fn may_go_to_device(&mut self, key: usize) -> bool {
        let Some(cached) = &mut self.cache else { return true };
        let pending = &mut self.requests[key];
        let is_first = pending.is_at_first_piece();
        let Extent { offset, len } = pending.piece;
        match (&pending.origin, pending.command.op) {
            (Origin::Cache(write), _) => {
                let id = write.id;
                self.start_write(id);
                false
            }
            (_, NbdOp::Read { .. }) if is_first => {
                let Extent { offset, len } = pending.extent;
                pending.overlay = cached.cache.overlay(offset, len).map(Box::new);
                true
            }
            (_, NbdOp::Read { .. }) => true,
            (_, NbdOp::Write | NbdOp::Trim | NbdOp::WriteZeroes { .. }) => {
                cached.cache.begin(key as u64, offset, len.into())
            }
            (_, NbdOp::Flush | NbdOp::Cache | NbdOp::BlockStatus { .. }) => true,
        }
    }

    /// What a completion means with a cache: a read is patched with what is newer than the device, an operation past the
    /// cache makes it forget what is older. `None` while parts of a request are under way.
    pub(in crate::device) fn back_from_device(
        &mut self,
        key: usize,
        mut buffer: Option<IoBuf>,
        result: io::Result<()>,
    ) -> Option<(Option<IoBuf>, io::Result<()>)> {
        self.write_waiting_parts();
        let Some(cached) = &mut self.cache else { return Some((buffer, result)) };
        let pending = &mut self.requests[key];
        let Extent { offset, .. } = pending.extent;
        match (&mut pending.origin, pending.command.op) {
            (Origin::Cache(_), _) => {
                return self.part_written(key, result).map(|result| (None, result));
            }
            (_, NbdOp::Read { .. }) => {
                if let Some(buffer) = buffer.as_mut().filter(|_| result.is_ok()) {
                    cached.cache.finish_read(pending.overlay.as_deref(), offset, buffer);
                }
            }
            (_, _) => {}
        }
        Some((buffer, result))
    }

    /// A piece of a client's request has left the device. What the cache has there is older than what was written past it.
    ///
    /// Nothing is locked between two pieces: the next one waits for its turn in the engine, where it must not keep what
    /// the cache writes back from ending its own.
    pub(in crate::device) fn end_piece(&mut self, key: usize, is_done: bool) {
        let Some(cached) = &mut self.cache else { return };
        let PendingRequest { origin, command, piece, .. } = &self.requests[key];
        let is_write = matches!(command.op, NbdOp::Write | NbdOp::Trim | NbdOp::WriteZeroes { .. });
        if is_write && matches!(origin, Origin::Client(_)) {
            cached.cache.end(key as u64, piece.offset, piece.len.into(), is_done);
        }
    }

    /// An extent of the device as a client sees it: where the cache has bytes there is data.
    pub(in crate::device) fn with_cached(&self, extent: DiskExtent) -> DiskExtent {
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
