//! Anonymous memory straight from the kernel: page-aligned, zeroed, and costing nothing until touched.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes in a page of the smallest size Linux uses; every mapping starts on a multiple of it.
pub(crate) const PAGE: usize = 4096;

/// One private anonymous mapping, unmapped when dropped.
///
/// It is plain memory behind a pointer. Access to each part of it is decided by the owner
/// ([`crate::BufferPool`], the receive buffers, the memory disk); this type only guarantees that the bytes exist, are
/// initialised (the kernel hands out zeroed pages) and stay where they are until the drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    writable: bool,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this value is its only owner. No safe way: a pointer
// makes the type stay in its thread, because it might be shared; this one is not.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of zeroes, rounded up to whole pages.
    ///
    /// # Errors
    /// `ENOMEM` when the address space, a limit or the machine has no room, `EINVAL` for 0.
    pub(crate) fn new(len: usize) -> io::Result<Mapping> {
        Mapping::map(len, true)
    }

    /// Maps `len` bytes that read as zero and can never be written: all of it is the kernel's one shared page of
    /// zeroes, so that even a large mapping costs page-table entries only.
    pub(crate) fn zeroes(len: usize) -> io::Result<Mapping> {
        Mapping::map(len, false)
    }

    fn map(len: usize, writable: bool) -> io::Result<Mapping> {
        let len = len.checked_next_multiple_of(PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let write = if writable { ProtFlags::WRITE } else { ProtFlags::empty() };
        let protection = ProtFlags::READ | write;
        // Miri, which checks the pointers of this crate's tests, knows neither of these two; neither matters to it.
        let (flags, protection) = match cfg!(miri) {
            true => (MapFlags::PRIVATE, ProtFlags::READ | ProtFlags::WRITE),
            false => (MapFlags::PRIVATE | MapFlags::NORESERVE, protection),
        };
        // SAFETY: a null hint without MAP_FIXED lets the kernel choose free addresses, so no memory that other code
        // refers to is replaced. No safe way: the allocator does not give page-aligned memory that is populated
        // lazily, and `std` has no mapping.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, flags)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, len, writable })
    }

    /// The first byte. Valid for [`Mapping::len`] bytes until the mapping is dropped.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes mapped: what was asked for, rounded up to whole pages.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All of it. Needs the only reference, so it fits owners that keep the pointer to themselves.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: mapped, initialised and not unmapped while `self` is borrowed; writers need `bytes_mut` and with
        // it `&mut self`, and owners that hand out `start` instead never call this. No safe way: the memory is not
        // the allocator's.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// All of it, to be written.
    ///
    /// # Panics
    /// On a mapping of [`Mapping::zeroes`].
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.writable, "a mapping of zeroes is never written");
        // SAFETY: as for `bytes`; `&mut self` makes the reference the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Gives the pages of `offset..offset + len` back; they read as zeroes afterwards. Both must be whole pages.
    pub(crate) fn forget(&mut self, offset: usize, len: usize) -> io::Result<()> {
        assert!(offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE), "whole pages only");
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "outside the mapping");
        // SAFETY: the range lies inside this mapping, which `&mut self` borrows alone; a private anonymous mapping
        // reads as zeroes after MADV_DONTNEED, so the bytes stay initialised. No safe way: it is an address range.
        unsafe {
            madvise(self.start.as_ptr().add(offset).cast(), len, Advice::LinuxDontNeed)?;
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` obtained, and nothing uses it any more: owners hand out pieces only while they
        // hold the mapping. A failure would mean that the range is not ours, which cannot be.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "munmap of our own mapping failed: {result:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "no madvise")]
    fn is_zeroed_aligned_and_forgets() {
        let mut mapping = Mapping::new(3 * PAGE - 5).unwrap();
        assert_eq!(mapping.len(), 3 * PAGE);
        assert_eq!(mapping.start().as_ptr() as usize % PAGE, 0);
        assert!(mapping.bytes().iter().all(|&byte| byte == 0));
        mapping.bytes_mut().fill(7);
        mapping.forget(PAGE, PAGE).unwrap();
        assert!(mapping.bytes()[..PAGE].iter().all(|&byte| byte == 7));
        assert!(mapping.bytes()[PAGE..2 * PAGE].iter().all(|&byte| byte == 0));
        assert!(mapping.bytes()[2 * PAGE..].iter().all(|&byte| byte == 7));
    }

    #[test]
    fn zeroes_read_as_zero() {
        assert!(Mapping::zeroes(2 * PAGE).unwrap().bytes().iter().all(|&byte| byte == 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "any size can be had there")]
    fn nothing_and_too_much_are_errors() {
        assert!(Mapping::new(0).is_err());
        assert!(Mapping::new(usize::MAX).is_err());
        assert!(Mapping::new(1 << 60).is_err());
    }
}
