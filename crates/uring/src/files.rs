//! Every descriptor that operations refer to: open until the last of them has ended.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use io_uring::Submitter;
use io_uring::squeue::Flags;
use io_uring::types::{CancelBuilder, Fd, Fixed};

/// Descriptors by index. The index is also the place in the ring's table of registered files, as far as that goes:
/// a registered file saves the kernel one look-up and two atomic operations for each use.
pub(crate) struct Files {
    entries: Vec<Option<Entry>>,
    vacant: Vec<u32>,
    registered_max: u32,
}

struct Entry {
    fd: OwnedFd,
    registered: bool,
    in_flight: u32,
    /// The caller's mark for the end of a file that is closing.
    closing: Option<u64>,
}

impl Files {
    /// Sets up the ring's table for `registered_max` files; with 0, or if the kernel or a limit forbids it, all files
    /// are used by their descriptors.
    pub(crate) fn new(submitter: &Submitter<'_>, registered_max: u32) -> Files {
        let registered_max = registered_limit(registered_max);
        let sparse = registered_max > 0 && submitter.register_files_sparse(registered_max).is_ok();
        let registered_max = if sparse { registered_max } else { 0 };
        Files { entries: Vec::new(), vacant: Vec::new(), registered_max }
    }

    /// Makes the kernel forget the ring's table. Nothing may be in flight.
    pub(crate) fn unregister(&mut self, submitter: &Submitter<'_>) {
        if self.registered_max > 0 {
            // If it fails, the table goes with the ring.
            let _ = submitter.unregister_files();
        }
    }

    /// Takes `fd` in; answers its index.
    pub(crate) fn insert(&mut self, submitter: &Submitter<'_>, fd: OwnedFd) -> u32 {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        });
        let registered = index < self.registered_max
            && submitter.register_files_update(index, &[fd.as_raw_fd()]).is_ok();
        self.entries[index as usize] = Some(Entry { fd, registered, in_flight: 0, closing: None });
        index
    }

    /// Closes the descriptor at `index`. Nothing may be in flight on it.
    pub(crate) fn remove(&mut self, submitter: &Submitter<'_>, index: u32) {
        let entry = self.entries[index as usize].take().expect("closed twice");
        assert_eq!(entry.in_flight, 0, "closed with operations in flight");
        if entry.registered {
            // Cannot fail for a place that was filled; if it did, the file would stay open until the ring goes.
            let _ = submitter.register_files_update(index, &[-1]);
        }
        self.vacant.push(index);
    }

    /// The number to put into an entry, and the flags that say how the kernel shall read it.
    pub(crate) fn target(&self, index: u32) -> (Fd, Flags) {
        let entry = self.entry(index);
        match entry.registered {
            true => (Fd(index as RawFd), Flags::FIXED_FILE),
            false => (Fd(entry.fd.as_raw_fd()), Flags::empty()),
        }
    }

    /// Matches every operation on the file.
    pub(crate) fn cancel_all(&self, index: u32) -> CancelBuilder {
        let entry = self.entry(index);
        match entry.registered {
            true => CancelBuilder::fd(Fixed(index)).all(),
            false => CancelBuilder::fd(Fd(entry.fd.as_raw_fd())).all(),
        }
    }

    /// The descriptor itself.
    pub(crate) fn fd(&self, index: u32) -> BorrowedFd<'_> {
        self.entry(index).fd.as_fd()
    }

    /// One operation more.
    pub(crate) fn begin(&mut self, index: u32) {
        self.entry_mut(index).in_flight += 1;
    }

    /// One operation less.
    pub(crate) fn end(&mut self, index: u32) {
        self.entry_mut(index).in_flight -= 1;
    }

    /// Operations on the file that have not ended.
    pub(crate) fn in_flight(&self, index: u32) -> u32 {
        self.entry(index).in_flight
    }

    /// Marks the file as closing, with the caller's mark for its end.
    pub(crate) fn start_closing(&mut self, index: u32, token: u64) {
        let entry = self.entry_mut(index);
        assert!(entry.closing.is_none(), "closed twice");
        entry.closing = Some(token);
    }

    /// Whether [`Files::start_closing`] was called.
    pub(crate) fn is_closing(&self, index: u32) -> bool {
        self.entry(index).closing.is_some()
    }

    /// The mark of a closing file on which nothing is in flight any more.
    pub(crate) fn closed(&self, index: u32) -> Option<u64> {
        let entry = self.entry(index);
        if entry.in_flight == 0 { entry.closing } else { None }
    }

    fn entry(&self, index: u32) -> &Entry {
        self.entries[index as usize].as_ref().expect("a file of this ring")
    }

    fn entry_mut(&mut self, index: u32) -> &mut Entry {
        self.entries[index as usize].as_mut().expect("a file of this ring")
    }
}

/// How many files a ring may register: the kernel refuses more than the process may open.
fn registered_limit(wanted: u32) -> u32 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(wanted, |limit| wanted.min(u32::try_from(limit).unwrap_or(u32::MAX)))
}
