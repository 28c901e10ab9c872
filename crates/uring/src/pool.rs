//! Buffers for bytes on their way between sockets and devices: page-aligned, recycled, and bounded in sum.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::rc::Rc;

use crate::mapping::{Mapping, PAGE};
use crate::slabs::{self, SLAB, Slabs};

/// Bytes in the longest buffer: far above any request, and well inside what one system call transfers.
const LEN_MAX: usize = 1 << 30;

/// Hands out [`IoBuf`]s from one region of memory whose size is the budget.
///
/// A handle: clones share the region. Sizes are rounded up to 4, 16, 64 or 256 KiB or to whole MiB; every buffer
/// starts on a page, so it suits direct I/O. Memory is taken from the kernel when first used and then kept for the
/// next buffer. Getting and giving back a buffer costs about 10 ns and never allocates.
#[derive(Clone)]
pub struct BufferPool {
    shared: Rc<Shared>,
}

struct Shared {
    memory: Mapping,
    slabs: RefCell<Slabs>,
}

impl BufferPool {
    /// A pool that never uses more than `budget` bytes, rounded up to whole MiB (at least one).
    ///
    /// # Errors
    /// When the address space has no room for `budget`; the memory itself is only reserved when used.
    pub fn new(budget: usize) -> io::Result<BufferPool> {
        let budget =
            budget.max(1).checked_next_multiple_of(SLAB).ok_or(io::ErrorKind::OutOfMemory)?;
        let memory = Mapping::new(budget)?;
        let slabs = RefCell::new(Slabs::new(budget / SLAB));
        Ok(BufferPool { shared: Rc::new(Shared { memory, slabs }) })
    }

    /// A buffer of exactly `len` bytes (0 gives an empty buffer that still holds a page; 1 GiB is the most), or `None`
    /// when the budget has no room for it now: wait until another buffer is dropped.
    ///
    /// The bytes are initialised but not cleared: a caller that fills the buffer only partly must clear the rest.
    pub fn get(&self, len: usize) -> Option<IoBuf> {
        if len > LEN_MAX {
            return None;
        }
        let chunk = self.shared.slabs.borrow_mut().take(len)?;
        // SAFETY: `take` answers offsets inside the region, on page boundaries, not part of any other live chunk.
        // No safe way: pieces of one mapping are owned by different holders.
        let start = unsafe { self.shared.memory.start().add(chunk.offset) };
        let (len, capacity) = (len as u32, chunk.len as u32);
        Some(IoBuf { shared: Rc::clone(&self.shared), start, len, capacity, hidden: 0 })
    }

    /// As [`BufferPool::get`]; and where the budget has room, but not in one piece, a buffer of memory of its own, which goes
    /// back to the kernel when it is dropped. That is not counted: callers bound it. Costs some system calls then.
    pub fn get_or_map(&self, len: usize) -> Option<IoBuf> {
        let found = self.get(len);
        let has_room = || self.in_use() + self.rounded(len) <= self.budget();
        if found.is_some() || len > LEN_MAX || !has_room() {
            return found;
        }
        BufferPool::new(len).ok()?.get(len)
    }

    /// Bytes that a buffer of `len` bytes takes of the budget.
    pub fn rounded(&self, len: usize) -> usize {
        slabs::rounded(len)
    }

    /// Whether a buffer of `len` bytes could exist at all, were nothing else in use.
    pub fn could_hold(&self, len: usize) -> bool {
        len <= self.budget().min(LEN_MAX)
    }

    /// The most bytes that can be handed out at once.
    pub fn budget(&self) -> usize {
        self.shared.memory.len()
    }

    /// Bytes handed out now, with their rounding up.
    pub fn in_use(&self) -> usize {
        self.shared.slabs.borrow().in_use()
    }

    /// The whole region as slabs of [`SLAB`] bytes, for registering them with a ring.
    pub(crate) fn slab_start(&self, slab: usize) -> NonNull<u8> {
        assert!(slab < self.slab_count(), "slab {slab} of {}", self.slab_count());
        // SAFETY: inside the region by the assertion. No safe way: an address is what the kernel asks for.
        unsafe { self.shared.memory.start().add(slab * SLAB) }
    }

    /// Number of slabs in the region.
    pub(crate) fn slab_count(&self) -> usize {
        self.shared.memory.len() / SLAB
    }

    /// Whether `buffer` comes from this pool.
    pub(crate) fn owns(&self, buffer: &IoBuf) -> bool {
        Rc::ptr_eq(&self.shared, &buffer.shared)
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("budget_bytes", &self.budget())
            .field("in_use_bytes", &self.in_use())
            .finish()
    }
}

/// An owned, page-aligned buffer of a [`BufferPool`]; dropping it gives the memory back.
///
/// An operation takes the buffer by value and its completion gives it back, so no code can look at it, change it or
/// free it while the kernel uses it.
pub struct IoBuf {
    shared: Rc<Shared>,
    start: NonNull<u8>,
    len: u32,
    capacity: u32,
    /// Bytes before `start`, out of view.
    hidden: u32,
}

impl IoBuf {
    /// Bytes that [`IoBuf::set_len`] may go up to.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Makes the buffer `len` bytes long, shorter or longer; bytes that come into view are initialised, not cleared.
    ///
    /// # Panics
    /// When `len` is more than [`IoBuf::capacity`].
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "{len} bytes in a buffer of {}", self.capacity());
        self.len = len as u32;
    }

    /// Brings `range` of the whole buffer into view, wherever it was before: what is read and written is that part.
    ///
    /// # Panics
    /// When the buffer has fewer bytes.
    pub fn set_window(&mut self, range: Range<usize>) {
        let whole = self.hidden as usize + self.capacity();
        assert!(range.start <= range.end && range.end <= whole, "{range:?} of {whole} bytes");
        // SAFETY: `start - hidden` is where the chunk of `whole` bytes begins that is this buffer's alone, and `range.start`
        // is not past its end. No safe way: the kernel is given addresses.
        self.start = unsafe { self.start.sub(self.hidden as usize).add(range.start) };
        self.hidden = range.start as u32;
        self.capacity = (whole - range.start) as u32;
        self.len = (range.end - range.start) as u32;
    }

    /// Where the kernel finds the bytes. Only what holds the buffer may be told.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The slab it lies in, if it lies in one only.
    pub(crate) fn slab(&self) -> Option<usize> {
        let offset = self.offset();
        (offset % SLAB + self.capacity() <= SLAB).then_some(offset / SLAB)
    }

    fn offset(&self) -> usize {
        self.start.as_ptr() as usize - self.shared.memory.start().as_ptr() as usize
    }
}

impl Deref for IoBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points at `capacity` bytes, `len` at most, of the region that `shared` keeps mapped; they
        // are initialised (the kernel's zeroes, or what was written since) and belong to this buffer alone, because
        // `Slabs` gives a chunk to one buffer at a time. While the kernel works on it, the buffer sits in an
        // in-flight slot and this cannot be called. No safe way: see `BufferPool::get`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len as usize) }
    }
}

impl Drop for IoBuf {
    fn drop(&mut self) {
        let offset = self.offset() - self.hidden as usize;
        self.shared.slabs.borrow_mut().give_back(offset);
    }
}

impl fmt::Debug for IoBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoBuf").field("len", &self.len).field("capacity", &self.capacity).finish()
    }
}

const _: () = assert!(SLAB.is_multiple_of(PAGE));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_borrows_a_part_of_its_buffer() {
        let pool = BufferPool::new(8 << 20).unwrap();
        let mut buffer = pool.get(3 << 20).unwrap();
        let in_use = pool.in_use();
        for (number, piece) in
            [0..1 << 20, 1 << 20..2 << 20, 2 << 20..3 << 20].into_iter().enumerate()
        {
            buffer.set_window(piece);
            assert_eq!(buffer.len(), 1 << 20);
            buffer.fill(number as u8 + 1);
        }
        buffer.set_window(0..3 << 20);
        let first_of_each: Vec<u8> = buffer.iter().step_by(1 << 20).copied().collect();
        assert_eq!(first_of_each, [1, 2, 3]);
        buffer.set_window(1 << 20..1 << 20);
        assert!(buffer.is_empty());
        assert_eq!(pool.in_use(), in_use);
        drop(buffer);
        assert_eq!(pool.in_use(), 0, "all of it is given back");
    }

    #[test]
    #[should_panic(expected = "bytes")]
    fn a_window_lies_within_its_buffer() {
        let pool = BufferPool::new(8 << 20).unwrap();
        let mut buffer = pool.get(4096).unwrap();
        buffer.set_window(0..buffer.capacity() + 1);
    }

    #[test]
    fn buffers_are_aligned_and_apart() {
        let pool = BufferPool::new(8 << 20).unwrap();
        let sizes = [1, 4096, 4097, 65_536, 70_000, 1 << 20, 3 << 20];
        // Miri takes minutes for megabytes.
        let sizes = if cfg!(miri) { &sizes[..3] } else { &sizes[..] };
        let mut buffers: Vec<IoBuf> = sizes.iter().map(|&len| pool.get(len).unwrap()).collect();
        for (tag, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!(buffer.as_ptr() as usize % PAGE, 0);
            buffer.fill(tag as u8 + 1);
        }
        for (tag, buffer) in buffers.iter().enumerate() {
            assert!(
                buffer.iter().all(|&byte| byte == tag as u8 + 1),
                "buffer {tag} was overwritten"
            );
        }
    }

    #[test]
    fn an_exhausted_pool_returns_none_until_a_buffer_is_back() {
        let pool = BufferPool::new(1 << 20).unwrap();
        assert!(!pool.could_hold((1 << 20) + 1));
        let held: Vec<IoBuf> = (0..256).map(|_| pool.get(4096).unwrap()).collect();
        assert_eq!(pool.in_use(), 1 << 20);
        assert!(pool.get(1).is_none());
        drop(held);
        assert_eq!(pool.in_use(), 0);
        assert!(pool.get(1 << 20).is_some());
    }

    #[test]
    fn room_in_pieces_is_room() {
        let pool = BufferPool::new(2 << 20).unwrap();
        let small: Vec<IoBuf> = (0..257).map(|_| pool.get(4096).unwrap()).collect();
        assert!(pool.get_or_map(1 << 20).is_none(), "there is no room at all");
        // One in each slab stays.
        let held: Vec<IoBuf> = small.into_iter().step_by(256).collect();
        assert!(pool.get(64 << 10).is_none());
        let mut apart = pool.get_or_map(64 << 10).unwrap();
        apart.fill(7);
        assert!(!pool.owns(&apart) && pool.owns(&pool.get_or_map(4096).unwrap()));
        assert_eq!(pool.in_use(), held.len() * 4096);
    }

    #[test]
    fn buffers_outlive_the_pool() {
        let pool = BufferPool::new(1).unwrap();
        let mut buffer = pool.get(10).unwrap();
        drop(pool);
        buffer.fill(9);
        buffer.set_len(4096);
        assert_eq!(buffer[..10], [9; 10]);
    }

    #[test]
    #[should_panic(expected = "4097 bytes in a buffer of 4096")]
    fn longer_than_its_memory_is_refused() {
        BufferPool::new(1).unwrap().get(1).unwrap().set_len(4097);
    }
}
