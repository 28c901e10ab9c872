//! Table of open files and directories.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use slab::Slab;

use crate::directory::Position;
use crate::node::{Node, lock};

/// A file or directory that a program has open.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) fd: OwnedFd,
    pub(crate) node: Arc<Node>,
    /// Thread that opened it.
    pub(crate) opener: u32,
    /// Of a directory.
    pub(crate) position: Mutex<Position>,
}

/// The open files, by their handles.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    table: Mutex<Slab<Arc<OpenFile>>>,
}

impl OpenFiles {
    /// A handle for a file that the thread `opener` has opened.
    pub(crate) fn insert(&self, fd: OwnedFd, node: Arc<Node>, opener: u32) -> u64 {
        let file = Arc::new(OpenFile { fd, node, opener, position: Mutex::default() });
        file.node.opened(&file);
        lock(&self.table).insert(file) as u64
    }

    /// The open file of a handle.
    ///
    /// # Errors
    /// `EBADF` for one that was given back.
    pub(crate) fn get(&self, handle: u64) -> Result<Arc<OpenFile>> {
        let index = usize::try_from(handle).map_err(|_| Errno::BADF)?;
        lock(&self.table).get(index).cloned().ok_or(Errno::BADF)
    }

    /// Gives a handle back.
    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<OpenFile>> {
        let index = usize::try_from(handle).ok()?;
        lock(&self.table).try_remove(index)
    }

    /// Open files.
    pub(crate) fn len(&self) -> usize {
        lock(&self.table).len()
    }
}

/// Flags for opening an inode by way of `/proc`. `O_DIRECT` is left out: buffers are not aligned, and the page cache below is not
/// what the caller must not have.
pub(crate) fn inner_flags(flags: u32) -> OFlags {
    let never = OFlags::CREATE | OFlags::EXCL | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::DIRECT;
    (OFlags::from_bits_retain(flags) - never) | OFlags::CLOEXEC
}
