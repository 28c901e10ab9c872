//! The write-back cache in the loop: which requests never leave it, which wait for it, and what it sends to the device
//! itself, as requests of the cgroup that wrote.
//!
//! `around` is about the requests of clients, `back` about those of the cache.

mod client_path;
mod writeback;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;

use rustix::io::Errno;
use weir_cache::writeback::BLOCK_BYTES;
use weir_cache::{Cache, OwnerStats, Ready, Reason, Settings, WriteId};
use weir_engine::{CgroupId, Extent, Instant, RequestId, TaskId};
use weir_uring::BufferPool;

use super::reactor::Reactor;
use crate::status::CacheStatus;

/// Memory for bytes on their way from the cache to the device, apart from what clients share.
const BOUNCE_BYTES: usize = 64 << 20;

/// A cache, and what connects it with the engine and the ring.
pub(super) struct Cached {
    cache: Cache,
    blocks_max: u32,
    /// Through which task each owner pays.
    payers: BTreeMap<CgroupId, TaskId>,
    /// Requests that are on their way.
    on_way: BTreeMap<WriteId, OnWay>,
    pool: BufferPool,
    /// Parts of started requests, by their pending, that wait for memory.
    waiting_for_buffer: VecDeque<(usize, Extent)>,
    /// Flushes with nothing left to be written, which the engine has no room for yet.
    flushes: VecDeque<usize>,
    /// The engine had no room for the last request: it is asked again after something has ended.
    is_engine_full: bool,
    /// The last request that ended has failed.
    is_failing: bool,
    /// Why the device failed the last one that it did.
    reason: Reason,
    /// Scratch.
    parts: Vec<Extent>,
}

/// A request of the cache's in the engine or at the device.
struct OnWay {
    key: usize,
    request: RequestId,
}

impl Cached {
    /// An empty cache for a device of `device_bytes`.
    pub(super) fn new(settings: Settings, device_bytes: u64, now_ns: u64) -> io::Result<Cached> {
        let now = Instant::from_nanos(now_ns);
        Ok(Cached {
            cache: Cache::new(settings, device_bytes, now),
            blocks_max: settings.blocks_max.get(),
            payers: BTreeMap::new(),
            on_way: BTreeMap::new(),
            pool: BufferPool::new(BOUNCE_BYTES)?,
            waiting_for_buffer: VecDeque::new(),
            flushes: VecDeque::new(),
            is_engine_full: false,
            is_failing: false,
            reason: Reason(0),
            parts: Vec::new(),
        })
    }

    /// The device has grown; as of [`Cache::grow`].
    pub(super) fn grow(&mut self, device_bytes: u64) {
        self.cache.grow(device_bytes);
    }

    /// What a connection in `cgroup` has been told of failures when it begins.
    pub(super) fn unseen(&self, cgroup: CgroupId) -> u64 {
        self.cache.unseen(cgroup)
    }

    /// When something is due by itself.
    pub(super) fn next_event(&self) -> Option<u64> {
        self.cache.poll_timeout().filter(|_| !self.is_engine_full).map(Instant::as_nanos)
    }

    /// Whether nothing more will be written.
    pub(super) fn is_drained(&self) -> bool {
        self.cache.dirty_bytes() == 0
    }

    /// The bytes that clients were told are written and that the device lacks.
    pub(super) fn lost(&self) -> Vec<Range<u64>> {
        self.cache.lost()
    }

    /// Why the device failed the last request that it did.
    pub(super) fn last_failure(&self) -> io::Error {
        match self.reason.0 {
            0 => io::Error::other("the server was ended before they were written back"),
            errno => io::Error::from_raw_os_error(errno.cast_signed()),
        }
    }

    pub(super) fn status(&self) -> CacheStatus {
        let size_bytes = u64::from(self.blocks_max) * BLOCK_BYTES;
        CacheStatus { size_bytes, dirty_bytes: self.cache.dirty_bytes() }
    }

    /// What is counted of each cgroup that has written. O(these).
    pub(super) fn all_stats(&self) -> BTreeMap<CgroupId, OwnerStats> {
        self.cache.all_stats().collect()
    }
}

/// Why the device failed a request, for the cache; EIO where the system does not say.
fn reason_of(error: &io::Error) -> Reason {
    let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
    Reason(errno.unsigned_abs())
}

/// What a client is told of bytes that it, or another of its cgroup, has written and that could not be written back: that
/// there is no space, or EIO. Other reasons say nothing about the client's request.
fn not_written(reason: Reason) -> io::Error {
    let errno = Errno::from_raw_os_error(reason.0.cast_signed());
    let told = match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => errno,
        _ => Errno::IO,
    };
    told.into()
}

impl Reactor {
    /// Does what the cache wants: answers writes that have got room and flushes that are over, lets go what waited for
    /// something else at the device, and submits what is to be written back.
    pub(super) fn tend_cache(&mut self, now: Instant) {
        if self.io.cache.is_none() {
            return;
        }
        self.io.answer_admitted(now);
        while let Some(flushed) =
            self.io.cache.as_mut().and_then(|cached| cached.cache.poll_flushed())
        {
            self.io.flushed(flushed);
        }
        while let Some(ready) = self.io.cache.as_mut().and_then(|cached| cached.cache.poll_ready())
        {
            match ready {
                Ready::Operation(key) => self.io.start_at_device(key as usize),
                Ready::Write(id) => self.io.start_write(id),
            }
        }
        self.submit_flushes(now);
        self.promote_writes(now);
        self.submit_writes(now);
    }
}
