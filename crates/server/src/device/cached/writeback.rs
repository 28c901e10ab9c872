//! Write-back path of the cache: the cgroup that pays, the bound of what waits, and the way to the device.

use std::io;

use tracing::{debug, info};
use weir_cache::writeback::BLOCK_BYTES;
use weir_cache::{Awaited, Bound, WriteId};
use weir_engine::{
    CgroupId, Change, Class, Dimension, Direction, Engine, Extent, Instant, Limits, Op, OpenError,
    Path, Request, Resource, TaskId,
};
use weir_nbd::{Command, Cookie, Op as NbdOp};
use weir_uring::Durability;

use super::{OnWay, reason_of};
use crate::device::reactor::{DeviceIo, Reactor};
use crate::device::request::{Client, Origin, PendingRequest, WrittenBack};
use crate::device::token::Token;
use crate::log_limit::{LogLine, LogPermit};

/// How long what a cgroup has dirty may take to be written at its limits, so that a flush ends before a guest gives up on
/// its disk, which is after 30 s as a rule.
const DIRTY_SECS: u64 = 10;
/// What it may have dirty however low its limits are.
const DIRTY_BYTES_MIN: u64 = 1 << 20;

/// What `cgroup` may have dirty at its limits and those above it; `None` without any.
fn dirty_bound(engine: &Engine, cgroup: CgroupId) -> Option<Bound> {
    let path = engine.cgroup_path(cgroup)?;
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
    let above = ends.filter_map(|end| engine.find_cgroup(&Path::parse(&path[..end]).ok()?));
    let limits = above.filter_map(|cgroup| engine.limits(cgroup));
    let bytes_per_sec = limits.flat_map(|limits| {
        let writes = Dimension::ALL.into_iter().filter(|of| of.limits(Direction::Write));
        writes.filter_map(move |dimension| {
            let rate = limits.max.get(dimension)?.get();
            // Half of what reads may take too is what they leave where they always want it.
            let rate = if dimension.is_rw() { rate.div_ceil(2) } else { rate };
            Some(match dimension.resource() {
                Resource::Bytes => rate,
                // Blocks that are no neighbours are a request each.
                Resource::Ios => rate.saturating_mul(BLOCK_BYTES),
            })
        })
    });
    let bytes_per_sec = bytes_per_sec.min()?;
    let bytes = bytes_per_sec.saturating_mul(DIRTY_SECS).max(DIRTY_BYTES_MIN);
    Some(Bound { bytes, bytes_per_sec })
}

impl Reactor {
    /// The task through which what `cgroup` has written is written back. One for each cgroup, for as long as the server
    /// runs: an export leads there.
    pub(super) fn payer(&mut self, now: Instant, cgroup: CgroupId) -> Result<TaskId, OpenError> {
        let cached = self.io.cache.as_mut().expect("there is a cache");
        if let Some(&task) = cached.payers.get(&cgroup) {
            return Ok(task);
        }
        let client = self.engine.open_client(cgroup)?;
        let task = self.engine.open_task(client)?;
        cached.payers.insert(cgroup, task);
        cached.cache.bound(now, cgroup, dirty_bound(&self.engine, cgroup));
        Ok(task)
    }

    /// Limits have changed, or whose they are: so has what may be dirty under them. O(owners × depth).
    pub(in crate::device) fn bound_dirty(&mut self, now: Instant) {
        let Some(cached) = &mut self.io.cache else { return };
        for &cgroup in cached.payers.keys() {
            cached.cache.bound(now, cgroup, dirty_bound(&self.engine, cgroup));
        }
    }

    /// The task that a request of `owner`'s cache is submitted by, for what waits for it, and its class.
    fn payer_for(&mut self, owner: CgroupId, awaited: Awaited) -> (TaskId, Class) {
        let cached = self.io.cache.as_ref().expect("there is a cache");
        let payer = cached.payers[&owner];
        let token = match awaited {
            Awaited::No | Awaited::ByAll => return (payer, Class::Data),
            Awaited::ByAnother => return (payer, Class::Owed),
            Awaited::By(token) => token,
        };
        let waiter = self.io.requests.get(token as usize).and_then(|pending| {
            let Origin::Client(Client { connection, serial, .. }) = pending.origin else {
                return None;
            };
            let bound = self.io.connections.open(connection, serial)?.bound?;
            Some(bound.member).filter(|member| member.cgroup == owner)
        });
        // A connection that has gone leaves its flush behind.
        let task = waiter
            .and_then(|member| self.io.clients.write_back_task(&mut self.engine, member))
            .unwrap_or(payer);
        (task, Class::Data)
    }

    /// Makes requests synchronous that something waits for since they were submitted.
    pub(super) fn promote_writes(&mut self, now: Instant) {
        while let Some(cached) = &mut self.io.cache
            && let Some((id, awaited)) = cached.cache.poll_awaited()
        {
            let Some(&OnWay { key, request }) = cached.on_way.get(&id) else { continue };
            let Origin::Cache(WrittenBack { owner, .. }) = self.io.requests[key].origin else {
                unreachable!("a request of the cache's")
            };
            let (task, class) = self.payer_for(owner, awaited);
            self.engine.promote(now, request, task, class);
        }
    }

    pub(super) fn submit_writes(&mut self, now: Instant) {
        let is_draining = self.io.shutdown.is_draining();
        let Some(cached) = &mut self.io.cache else { return };
        cached.is_engine_full = false;
        if is_draining {
            cached.cache.drain(now);
        }
        while let Some(cached) = &mut self.io.cache
            && let Some(write) = cached.cache.poll_write(now)
        {
            let Extent { offset, len } = write.extent;
            let owner = write.owner;
            let asked = WrittenBack { id: write.id, owner, parts: 0, failure: None };
            let pending = PendingRequest {
                origin: Origin::Cache(asked),
                command: Command {
                    cookie: Cookie(0),
                    op: NbdOp::Write,
                    fua: false,
                    offset,
                    len: len.into(),
                },
                extent: write.extent,
                piece: write.extent,
                rest: 0,
                buffer: None,
                id: None,
                ticket: None,
                joined: None,
                overlay: None,
            };
            let key = self.io.requests.insert(pending);
            let (task, class) = self.payer_for(owner, write.awaited);
            let sync = is_draining || write.awaited != Awaited::No;
            let request = Request::new(task, Op::Write, write.extent, key as u64);
            let submitted = self.engine.submit(now, Request { sync, class, ..request });
            let cached = self.io.cache.as_mut().expect("it was here just now");
            match submitted {
                Ok(request) => drop(cached.on_way.insert(write.id, OnWay { key, request })),
                Err(error) => {
                    debug!(device = self.io.name, %error, "no room to write back");
                    self.io.requests.remove(key);
                    cached.cache.give_back(write.id);
                    cached.is_engine_full = true;
                    return;
                }
            }
        }
    }

    /// What a cgroup has dirty goes to the device now.
    pub(in crate::device) fn release_dirty(&mut self, now: Instant, cgroup: CgroupId) {
        if let Some(cached) = &mut self.io.cache {
            cached.cache.release(now, cgroup);
        }
    }

    /// Before the end no client is left to be protected: what is dirty is written as fast as the device takes it.
    pub(in crate::device) fn lift_limits(&mut self, now: Instant) {
        let cgroups: Vec<CgroupId> =
            self.engine.tree_stats().iter().map(|entry| entry.cgroup).collect();
        for cgroup in cgroups {
            let limits = Limits::default();
            // No limits contradict nothing, and the cgroup was there just now.
            let _ = self.engine.reconfigure(now, Change::SetLimits { cgroup, limits });
        }
        self.bound_dirty(now);
        // The end waits for what is in the engine already.
        let Some(cached) = &self.io.cache else { return };
        for on_way in cached.on_way.values() {
            if let Origin::Cache(WrittenBack { owner, .. }) = self.io.requests[on_way.key].origin {
                self.engine.promote(now, on_way.request, cached.payers[&owner], Class::Data);
            }
        }
    }
}

impl DeviceIo {
    /// Gives a request of the cache's to the device, as soon as nothing is in its way there.
    pub(super) fn start_write(&mut self, id: WriteId) {
        let Some(cached) = &mut self.cache else { return };
        let mut parts = std::mem::take(&mut cached.parts);
        if cached.cache.start(id, &mut parts) {
            let key = cached.on_way[&id].key;
            let Origin::Cache(write) = &mut self.requests[key].origin else {
                unreachable!("a request of the cache's")
            };
            write.parts = parts.len().max(1);
            if parts.is_empty() {
                // Other operations have made all of it needless.
                self.dispatching.push_immediate(key);
            }
            cached.waiting_for_buffer.extend(parts.iter().map(|&part| (key, part)));
        }
        cached.parts = parts;
        self.write_waiting_parts();
    }

    /// Writes the parts that have waited for memory, as far as it goes.
    pub(super) fn write_waiting_parts(&mut self) {
        let Some(cached) = &mut self.cache else { return };
        while let Some(&(key, part)) = cached.waiting_for_buffer.front() {
            let Some(mut buffer) = cached.pool.get(part.len as usize) else { return };
            cached.waiting_for_buffer.pop_front();
            cached.cache.copy(part.offset, &mut buffer);
            let (disk, token) = (&self.storage.disk, Token::Disk(key).pack());
            self.ring.write(disk, part.offset, buffer, Durability::Volatile, token);
        }
    }

    /// The device has finished with a part of a request of the cache's. How the request has ended, if that was the last.
    pub(super) fn part_written(
        &mut self,
        key: usize,
        result: io::Result<()>,
    ) -> Option<io::Result<()>> {
        let cached = self.cache.as_mut()?;
        let pending = &mut self.requests[key];
        let Extent { offset, len } = pending.extent;
        let Origin::Cache(write) = &mut pending.origin else {
            unreachable!("a request of the cache's")
        };
        write.parts -= 1;
        if let Err(error) = &result {
            write.failure = Some(reason_of(error));
        }
        if write.parts > 0 {
            return None;
        }
        if write.failure.is_none() && cached.is_failing {
            let now = Instant::from_nanos(self.now_ns);
            if let Some(LogPermit { left_out }) =
                self.log_limit.permit(now, LogLine::WritesBackAgain)
            {
                info!(device = self.name, offset, len, left_out, "writes back again");
            }
        }
        cached.is_failing = write.failure.is_some();
        let failure = write.failure.map(|reason| reason.0.cast_signed());
        Some(failure.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno))))
    }

    /// A request of the cache's is over.
    pub(in crate::device) fn written_back(
        &mut self,
        now: Instant,
        id: WriteId,
        result: &io::Result<()>,
    ) {
        if let Some(cached) = &mut self.cache {
            cached.on_way.remove(&id);
            let result = result.as_ref().map(|_| ()).map_err(reason_of);
            if let Err(reason) = result {
                cached.reason = reason;
            }
            cached.cache.complete(now, id, result);
        }
    }
}
