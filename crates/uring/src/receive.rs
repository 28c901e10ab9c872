//! Receive buffers that belong to no connection: the kernel takes one only when bytes have arrived.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

use crate::mapping::Mapping;

/// The one group of receive buffers a ring has.
pub(crate) const GROUP: u16 = 0;

/// Buffers provided to the kernel in a ring of their own (`IORING_REGISTER_PBUF_RING`, Linux 5.19): thousands of idle
/// connections share them, and receiving without asking for a buffer first costs nothing.
pub(crate) struct ReceiveBuffers {
    /// `count` entries of 16 bytes that the kernel reads, the tail being a field of the first.
    entries: Mapping,
    bytes: Mapping,
    count: u16,
    each: u32,
    /// Entries ever published, modulo 2^16, as the kernel counts them.
    tail: Cell<u16>,
    /// Buffers the kernel has, or may hand out.
    idle: Cell<u16>,
}

impl ReceiveBuffers {
    /// Maps `count` buffers (a power of two, at most 32,768) of `each` bytes and gives them to the ring.
    pub(crate) fn register(
        submitter: &Submitter<'_>,
        count: u16,
        each: u32,
    ) -> io::Result<Rc<ReceiveBuffers>> {
        let entries = Mapping::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let bytes = Mapping::new(usize::from(count) * each as usize)?;
        // SAFETY: `entries` is page-aligned and holds `count` entries. It is unmapped only after the ring is closed:
        // the ring keeps this value until its descriptor is gone, and every `ReceivedBuf` keeps it too. No safe way:
        // the kernel is given an address.
        unsafe {
            submitter.register_buf_ring_with_flags(
                entries.start().as_ptr() as u64,
                count,
                GROUP,
                0,
            )?;
        }
        let buffers =
            ReceiveBuffers { entries, bytes, count, each, tail: Cell::new(0), idle: Cell::new(0) };
        for id in 0..count {
            buffers.publish(id);
        }
        Ok(Rc::new(buffers))
    }

    /// Takes over the buffer that the kernel filled with `len` bytes and named in a completion.
    ///
    /// # Safety
    /// `id` and `len` must come from a completion of this group that was not claimed before.
    pub(crate) unsafe fn claim(self: &Rc<Self>, id: u16, len: u32) -> ReceivedBuf {
        assert!(
            id < self.count && len <= self.each,
            "buffer {id} with {len} bytes from the kernel"
        );
        self.idle.set(self.idle.get() - 1);
        ReceivedBuf(Source::Ring { buffers: Rc::clone(self), id, len })
    }

    /// Whether the kernel has a buffer for another receive.
    pub(crate) fn has_idle(&self) -> bool {
        self.idle.get() > 0
    }

    /// Bytes in each buffer.
    pub(crate) fn each(&self) -> u32 {
        self.each
    }

    /// Gives buffer `id` to the kernel.
    fn publish(&self, id: u16) {
        let tail = self.tail.get();
        let base = self.entries.start().cast::<BufRingEntry>();
        let slot = usize::from(tail & (self.count - 1));
        // SAFETY: `slot` is below `count`, so the entry lies in `entries`. The kernel reads entries from its head up
        // to the tail; at most `count` buffers exist and this one is ours, so this entry is outside that span until
        // the tail below is moved. Setting the fields one by one leaves the first entry's tail field alone. No safe
        // way: the memory is shared with the kernel.
        unsafe {
            let entry = &mut *base.as_ptr().add(slot);
            entry.set_addr(
                self.bytes.start().as_ptr() as u64 + u64::from(id) * u64::from(self.each),
            );
            entry.set_len(self.each);
            entry.set_bid(id);
        }
        let tail = tail.wrapping_add(1);
        self.tail.set(tail);
        self.idle.set(self.idle.get() + 1);
        // SAFETY: `base` is the first entry of an initialised (zeroed) ring, whose tail field is two-aligned and is
        // written by this thread only; the kernel reads it with acquire, hence the release. No safe way: as above.
        unsafe {
            let field = BufRingEntry::tail(base.as_ptr()).cast_mut();
            AtomicU16::from_ptr(field).store(tail, Ordering::Release);
        }
    }
}

/// Bytes that arrived on a socket, in a buffer shared by all connections.
///
/// Drop it soon: while all buffers are held, nothing is received on any connection of the ring.
pub struct ReceivedBuf(Source);

enum Source {
    Ring {
        buffers: Rc<ReceiveBuffers>,
        id: u16,
        len: u32,
    },
    #[cfg(feature = "fake")]
    Fake(Vec<u8>),
}

#[cfg(feature = "fake")]
impl ReceivedBuf {
    pub(crate) fn fake(bytes: Vec<u8>) -> ReceivedBuf {
        ReceivedBuf(Source::Fake(bytes))
    }
}

impl Deref for ReceivedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let (buffers, id, len) = match &self.0 {
            Source::Ring { buffers, id, len } => (buffers, *id, *len),
            #[cfg(feature = "fake")]
            Source::Fake(bytes) => return bytes,
        };
        let offset = usize::from(id) * buffers.each as usize;
        // SAFETY: `claim` checked that the range lies in `bytes`, which is mapped, initialised, and kept by
        // `buffers`. The kernel gave the buffer away with its completion and gets it back in `drop` at the earliest,
        // and there is one `ReceivedBuf` a completion, so nothing writes it now. No safe way: buffers of one mapping
        // change owners through the kernel.
        unsafe {
            let start = buffers.bytes.start().add(offset);
            std::slice::from_raw_parts(start.as_ptr(), len as usize)
        }
    }
}

impl Drop for ReceivedBuf {
    fn drop(&mut self) {
        match &self.0 {
            Source::Ring { buffers, id, .. } => buffers.publish(*id),
            #[cfg(feature = "fake")]
            Source::Fake(_) => {}
        }
    }
}

impl fmt::Debug for ReceivedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceivedBuf").field("len", &self.len()).finish()
    }
}
