//! Dispatch: requests that the engine lets go, started at the device.

use std::collections::VecDeque;

use tracing::debug;
use weir_driver::Device;
use weir_engine::{Dispatch, Event, Instant};
use weir_nbd::{Extent, Op};
use weir_uring::{Durability, ZeroOptions};

use super::reactor::DeviceIo;
use super::request::{Origin, engine_op};
use super::storage::Work;
use super::token::Token;

/// Extents looked up for one answer; clients ask again from where an answer ends.
const EXTENTS_PER_ANSWER: usize = 64;

/// Dispatched requests that are not at the device yet.
#[derive(Default)]
pub(super) struct Dispatching {
    /// What goes to the device as one, while it is put together.
    run: Vec<usize>,
    /// Reads that wait for a buffer.
    waiting_for_buffer: VecDeque<usize>,
    /// Requests that are answered without the ring, and the extents that the first of them has found so far.
    immediate: VecDeque<usize>,
    extents: Vec<Extent>,
}

impl Dispatching {
    /// Whether a read waits for a buffer.
    pub(super) fn is_waiting_for_buffer(&self) -> bool {
        !self.waiting_for_buffer.is_empty()
    }

    /// Whether a request is left that is answered without the ring.
    pub(super) fn has_immediate(&self) -> bool {
        !self.immediate.is_empty()
    }

    /// A request is to be answered without the ring.
    pub(super) fn push_immediate(&mut self, key: usize) {
        self.immediate.push_back(key);
    }

    /// The extents of the request that [`DeviceIo::look`] has answered last.
    pub(super) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// They are told.
    pub(super) fn clear_extents(&mut self) {
        self.extents.clear();
    }
}

impl Device for DeviceIo {
    const JOINS: bool = true;

    fn issue(&mut self, _now: Instant, dispatch: Dispatch) {
        let key = dispatch.request.tag as usize;
        let pending = &mut self.requests[key];
        pending.ticket = Some(dispatch.ticket);
        if pending.command.op != Op::Flush {
            pending.piece = dispatch.request.extent;
        }
        self.dispatching.run.push(key);
    }

    fn join(&mut self, now: Instant, dispatch: Dispatch) {
        self.issue(now, dispatch);
    }

    /// A model has them as one. A real device is given each by itself, in one turn, and so in one call of the ring: the
    /// kernel joins what lies side by side, and knows better what its device takes.
    fn start(&mut self, now: Instant) {
        let run = std::mem::take(&mut self.dispatching.run);
        let len = run.iter().map(|&key| self.requests[key].piece.len).sum();
        let first = &self.requests[run[0]];
        let (op, offset) = (engine_op(first.command.op), first.piece.offset);
        let is_durable = run.iter().any(|&key| self.requests[key].is_durable());
        let work = Work { op, offset, len, is_durable };
        if self.storage.defer(now.as_nanos(), run[0], work) {
            for pair in run.windows(2) {
                self.requests[pair[0]].joined = Some(pair[1]);
            }
        } else {
            run.iter().for_each(|&key| self.start_dispatched(key));
        }
        self.dispatching.run = run;
        self.dispatching.run.clear();
    }

    fn record(&mut self, _now: Instant, event: Event) {
        match event {
            Event::CgroupChanged(cgroup) => self.published.changed(cgroup),
            Event::CgroupReleased(cgroup) => {
                debug!(device = self.name, ?cgroup, "a removed cgroup has let its last request go");
                self.published.gone(cgroup);
            }
            _ => {}
        }
    }
}

impl DeviceIo {
    /// Carries out a dispatched request at the device, as soon as the cache has nothing there that it must not meet.
    pub(super) fn start_dispatched(&mut self, key: usize) {
        if self.cache.is_none() || self.may_go_to_device(key) {
            self.start_at_device(key);
        }
    }

    /// Starts a request at the device, or puts it where it waits for memory.
    pub(super) fn start_at_device(&mut self, key: usize) {
        let pending = &mut self.requests[key];
        let op = pending.command.op;
        let (offset, len) = (pending.piece.offset, u64::from(pending.piece.len));
        let durability = match pending.is_durable() {
            true => Durability::Durable,
            false => Durability::Volatile,
        };
        let (ring, disk, token) = (&mut self.ring, &self.storage.disk, Token::Disk(key).pack());
        match op {
            Op::Read { .. } => {
                let buffer = pending.buffer.take();
                // It has its reservation: where memory is left in pieces only, those that hold these may wait for it.
                match buffer.or_else(|| ring.pool().get_or_map(pending.extent.len as usize)) {
                    Some(mut buffer) => {
                        pending.show_piece(&mut buffer);
                        ring.read(disk, offset, buffer, token);
                    }
                    None => self.dispatching.waiting_for_buffer.push_back(key),
                }
            }
            Op::Write => {
                let mut buffer = pending.buffer.take().expect("a write has its payload");
                pending.show_piece(&mut buffer);
                ring.write(disk, offset, buffer, durability, token);
            }
            Op::Flush => ring.flush(disk, token),
            Op::Trim => ring.trim(disk, offset, len, durability, token),
            Op::WriteZeroes { no_hole, fast } => {
                let options = ZeroOptions { keep_allocated: no_hole, fast_only: fast, durability };
                ring.write_zeroes(disk, offset, len, options, token);
            }
            Op::Cache => ring.prefetch(disk, offset, pending.piece.len, token),
            Op::BlockStatus { .. } => self.dispatching.immediate.push_back(key),
        }
    }

    /// Starts reads that were waiting for memory, as far as it goes.
    pub(super) fn start_waiting_for_buffer(&mut self) {
        for _ in 0..self.dispatching.waiting_for_buffer.len() {
            let Some(key) = self.dispatching.waiting_for_buffer.pop_front() else { return };
            self.start_dispatched(key);
            if self.dispatching.waiting_for_buffer.back() == Some(&key) {
                return;
            }
        }
    }

    /// Goes on with the first of the requests that are done by looking, with at most `looks` more extents; its key when
    /// all is seen, which is then in `extents`. A device that cannot say has data everywhere, which is always true enough.
    pub(super) fn look(&mut self, looks: &mut usize) -> Option<usize> {
        let key = *self.dispatching.immediate.front()?;
        let pending = &self.requests[key];
        let is_asked_for = match &pending.origin {
            Origin::Client(client) => {
                self.connections.open(client.connection, client.serial).is_some()
            }
            Origin::Cache(_) => false,
        };
        if let (true, Op::BlockStatus { one, .. }) = (is_asked_for, pending.command.op) {
            let most = if one { 1 } else { EXTENTS_PER_ANSWER };
            // Of a long range the engine has the start alone: that it is asked for is what it costs.
            let start = pending.extent.offset;
            let end = start + pending.command.len;
            let mut at =
                start + self.dispatching.extents.iter().map(|extent| extent.len).sum::<u64>();
            while at < end && self.dispatching.extents.len() < most {
                *looks = looks.checked_sub(1)?;
                let Ok(extent) = self.ring.extent(&self.storage.disk, at, end) else { break };
                let extent = self.with_cached(extent);
                let (len, is_hole) = (extent.len, !extent.data);
                self.dispatching.extents.push(Extent { len, hole: is_hole, zero: is_hole });
                at += len;
            }
        } else {
            self.dispatching.extents.clear();
        }
        self.dispatching.immediate.pop_front()
    }

    /// Drops a request that the engine has given back, before its first piece or between two.
    pub(super) fn forget_withdrawn(&mut self, key: usize) {
        self.requests.remove(key);
        self.backpressure.note_released();
    }
}
