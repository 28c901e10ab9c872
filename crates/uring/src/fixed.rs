//! Buffers that the kernel knows beforehand: their pages are pinned once, not for every direct I/O.
#![allow(unsafe_code)]

use io_uring::Submitter;
use rustix::process::{Resource, getrlimit};
use rustix::thread::CapabilitySet;

use crate::pool::{BufferPool, IoBuf};
use crate::slabs::SLAB;

/// Which slabs of the ring's pool are registered. They are when first used: the budget may be large and most of it
/// never touched.
pub(crate) struct FixedBuffers {
    pool: BufferPool,
    slabs: Vec<Registration>,
    /// Slabs that should be registered before the next submission.
    wanted: Vec<u16>,
    /// Slabs that may still be registered.
    allowed: usize,
    enabled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Registration {
    No,
    /// To be tried, or tried in vain.
    Wanted,
    Yes,
}

impl FixedBuffers {
    /// Prepares the ring's table of buffers, if `enabled` and the kernel allows it.
    pub(crate) fn new(submitter: &Submitter<'_>, pool: BufferPool, enabled: bool) -> FixedBuffers {
        let count = pool.slab_count();
        let enabled = enabled
            && u16::try_from(count).is_ok()
            && submitter.register_buffers_sparse(count as u32).is_ok();
        let slabs = vec![Registration::No; if enabled { count } else { 0 }];
        FixedBuffers { pool, slabs, wanted: Vec::with_capacity(count), allowed: allowed(), enabled }
    }

    /// The index by which the kernel knows the memory of `buffer`, if it does.
    pub(crate) fn index(&mut self, buffer: &IoBuf) -> Option<u16> {
        if !self.enabled || !self.pool.owns(buffer) {
            return None;
        }
        let slab = buffer.slab()?;
        match self.slabs[slab] {
            Registration::Yes => Some(slab as u16),
            Registration::Wanted => None,
            Registration::No if self.allowed == 0 => None,
            Registration::No => {
                self.allowed -= 1;
                self.slabs[slab] = Registration::Wanted;
                self.wanted.push(slab as u16);
                None
            }
        }
    }

    /// Whether [`FixedBuffers::register`] has something to do.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Registers the slabs that were asked for since the last call, each tried once: a refusal means that the limit of
    /// locked memory is reached, and buffers work unregistered too.
    pub(crate) fn register(&mut self, submitter: &Submitter<'_>) {
        for slab in self.wanted.drain(..) {
            let start = self.pool.slab_start(usize::from(slab));
            let vector = libc::iovec { iov_base: start.as_ptr().cast(), iov_len: SLAB };
            // SAFETY: the slab is part of the pool's mapping, which `pool` keeps; the ring is closed before this value
            // is dropped, and the kernel holds the pages themselves. Registering gives no right to the bytes:
            // that comes with an operation that owns an `IoBuf`. No safe way: the kernel is given an address.
            let done = unsafe { submitter.register_buffers_update(slab.into(), &[vector], None) };
            self.slabs[usize::from(slab)] =
                if done.is_ok() { Registration::Yes } else { Registration::Wanted };
        }
    }
}

/// How many slabs one ring may register.
///
/// Registered memory counts as locked, against a limit that all processes of a user share and that rings themselves
/// need: a process that used it up would keep the next server from starting. So a ring takes a quarter, unless the limit does
/// not apply to the process. The pool hands out its lowest memory first, so the registered part is the part in use.
fn allowed() -> usize {
    let privileged = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    match getrlimit(Resource::Memlock).current {
        Some(limit) if !privileged => {
            usize::try_from(limit / 4).map_or(usize::MAX, |bytes| bytes / SLAB)
        }
        _ => usize::MAX,
    }
}
