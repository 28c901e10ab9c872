//! What the cache writes back: who pays, how much may wait for it, and the way to the device.

use std::io;

use tracing::{debug, error, info};
use weir_cache::WriteId;
use weir_engine::writeback::BLOCK_BYTES;
use weir_engine::{
    CgroupId, Change, Dimension, Direction, Engine, Extent, Instant, Limits, Op, OpenError,
    Outcome, Path, Request, Resource, TaskId,
};
use weir_nbd::{Command, Cookie, Op as NbdOp};
use weir_uring::Durability;

use super::lost;
use crate::device::flight::{Asker, Flight, WrittenBack};
use crate::device::token::Token;
use crate::device::worker::{Desk, Worker};

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
        let writes = Dimension::ALL.into_iter().filter(|of| of.limits(Direction::Write));
        writes.filter_map(move |dimension| {
            let rate = limits.max.get(dimension)?.get();
            // Half of what reads may take too is what they leave where they always want it.
            let rate = if dimension.is_joint() { rate.div_ceil(2) } else { rate };
            Some(match dimension.resource() {
                Resource::Bytes => rate,
                // Blocks that are no neighbours are a request each.
                Resource::Ios => rate.saturating_mul(BLOCK_BYTES),
            })
        })
    });
    let backlog = bytes_per_sec.min()?.saturating_mul(BACKLOG_SECS);
    Some(backlog.max(BACKLOG_BYTES_MIN))
}

impl Worker {
    /// The task through which what `cgroup` has written is written back. One for each cgroup, for as long as the server
    /// runs: an export leads there.
    pub(super) fn payer(&mut self, now: Instant, cgroup: CgroupId) -> Result<TaskId, OpenError> {
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
    pub(in crate::device) fn bound_dirty(&mut self, now: Instant) {
        let Some(cached) = &mut self.desk.cache else { return };
        for &cgroup in cached.payers.keys() {
            cached.cache.bound(now, cgroup, backlog_bytes(&self.engine, cgroup));
        }
    }

    pub(super) fn submit_writes(&mut self, now: Instant) {
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
                piece: write.extent,
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
    pub(in crate::device) fn release_dirty(&mut self, now: Instant, cgroup: CgroupId) {
        if let Some(cached) = &mut self.desk.cache {
            cached.cache.release(now, cgroup);
        }
    }

    /// Before the end nobody is left to be protected: what is dirty is written as fast as the device takes it.
    pub(in crate::device) fn lift_limits(&mut self, now: Instant) {
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
    /// Gives a request of the cache's to the device, as soon as nothing is in its way there.
    pub(super) fn start_write(&mut self, id: WriteId) {
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
    pub(super) fn fund_writes(&mut self) {
        let Some(cached) = &mut self.cache else { return };
        while let Some(&(key, part)) = cached.unfunded.front() {
            let Some(mut buffer) = cached.pool.get(part.len as usize) else { return };
            cached.unfunded.pop_front();
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
        let flight = &mut self.flights[key];
        let Extent { offset, len } = flight.extent;
        let Asker::Cache(write) = &mut flight.asker else {
            unreachable!("a request of the cache's")
        };
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
        Some(if write.has_failed { Err(lost()) } else { Ok(()) })
    }

    /// A request of the cache's is over.
    pub(in crate::device) fn written_back(&mut self, now: Instant, id: WriteId, outcome: Outcome) {
        if let Some(cached) = &mut self.cache {
            cached.flights.remove(&id);
            cached.cache.complete(now, id, outcome);
        }
    }
}
