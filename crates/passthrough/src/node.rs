//! Node: an inode of the source that the kernel knows, and how it is found again.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{Mode, OFlags, ResolveFlags, Statx, openat, openat2};
use rustix::io::{Errno, Result};
use weir_uring::FileHandle;

use crate::attributes::stat;
use crate::open_files::OpenFile;

/// What makes an inode the same inode: with the generation a number that is used again is another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: (u32, u32),
    ino: u64,
    generation: Generation,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Generation {
    Handle(FileHandle),
    /// Seconds and nanoseconds of its birth; 0 where the file system does not know it.
    Birth(i64, u32),
}

impl Identity {
    pub(crate) fn new(stat: &Statx, handle: Option<&FileHandle>) -> Identity {
        let generation = match handle {
            Some(handle) => Generation::Handle(handle.clone()),
            None => Generation::Birth(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec),
        };
        let device = (stat.stx_dev_major, stat.stx_dev_minor);
        Identity { device, ino: stat.stx_ino, generation }
    }

    /// Whether an inode found by name is this one.
    fn is(&self, stat: &Statx) -> bool {
        let same_generation = match self.generation {
            Generation::Handle(_) => true,
            Generation::Birth(seconds, nanoseconds) => {
                (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec) == (seconds, nanoseconds)
            }
        };
        (stat.stx_dev_major, stat.stx_dev_minor) == self.device
            && stat.stx_ino == self.ino
            && same_generation
    }
}

/// Where an inode is.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// Wherever it is called, in this mount.
    Handle(Arc<OwnedFd>, FileHandle),
    /// Under the name by which it was seen last.
    Name(Arc<Node>, Box<OsStr>),
    /// Open for as long as the node is known: the root, and what has neither handle nor name.
    Kept(Arc<OwnedFd>),
}

/// An inode that the kernel knows.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) identity: Identity,
    pub(crate) is_directory: bool,
    location: Mutex<Location>,
    /// Open files of it: while there is one, the inode is found even if it has lost its name.
    open: Mutex<Vec<Weak<OpenFile>>>,
}

/// A descriptor of an inode, good for attributes, names below it, and opening it by way of `/proc`.
pub(crate) enum NodeFd {
    Kept(Arc<OwnedFd>),
    Open(Arc<OpenFile>),
    Found(OwnedFd),
}

impl AsFd for NodeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            NodeFd::Kept(fd) => fd.as_fd(),
            NodeFd::Open(open) => open.fd.as_fd(),
            NodeFd::Found(fd) => fd.as_fd(),
        }
    }
}

impl Node {
    pub(crate) fn new(id: u64, identity: Identity, is_directory: bool, location: Location) -> Node {
        let location = Mutex::new(location);
        Node { id, identity, is_directory, location, open: Mutex::default() }
    }

    /// The inode has been seen under this name.
    pub(crate) fn seen_as(&self, parent: &Arc<Node>, name: &OsStr) {
        let mut location = lock(&self.location);
        if let Location::Name(old_parent, old_name) = &mut *location {
            if !Arc::ptr_eq(old_parent, parent) {
                *old_parent = parent.clone();
            }
            if **old_name != *name {
                *old_name = name.into();
            }
        }
    }

    /// A descriptor of the inode.
    ///
    /// # Errors
    /// `ESTALE` if it is gone, or called otherwise now: the kernel looks its name up again, and comes back once.
    pub(crate) fn descriptor(&self) -> Result<NodeFd> {
        if let Some(open) = lock(&self.open).iter().rev().find_map(Weak::upgrade) {
            return Ok(NodeFd::Open(open));
        }
        let location = lock(&self.location).clone();
        match location {
            Location::Kept(fd) => Ok(NodeFd::Kept(fd)),
            Location::Handle(mount, handle) => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = handle.open(mount.as_fd(), flags.bits());
                opened.map(NodeFd::Found).map_err(|error| errno(&error))
            }
            Location::Name(parent, name) => {
                let parent = parent.descriptor()?;
                let found = find(parent.as_fd(), &name).map_err(|error| match error {
                    Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Errno::STALE,
                    error => error,
                })?;
                if !self.identity.is(&stat(&found)?) {
                    return Err(Errno::STALE);
                }
                Ok(NodeFd::Found(found))
            }
        }
    }

    /// An open file of the inode has come.
    pub(crate) fn opened(&self, file: &Arc<OpenFile>) {
        let mut open = lock(&self.open);
        open.retain(|open| open.strong_count() > 0);
        open.push(Arc::downgrade(file));
    }
}

/// The entry of a directory, without following anything.
pub(crate) fn find(directory: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(directory, name, flags, Mode::empty(), resolve) {
            // A rename somewhere at the same time.
            Err(Errno::AGAIN) => {}
            // Before Linux 5.6, or behind a filter of system calls. A name has no slash, so that it leads nowhere else.
            Err(Errno::NOSYS) => return openat(directory, name, flags, Mode::empty()),
            result => return result,
        }
    }
}

/// What holds under the lock is whole after each statement, so that a panic elsewhere has left nothing half done.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error without a number is one of ours.
pub(crate) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
