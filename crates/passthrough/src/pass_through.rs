//! The file system: which function answers which request.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, Statx, openat};
use rustix::io::{Errno, Result};
use weir_fuse_proto::flags::InitFlags;
use weir_fuse_proto::init::Wishes;
use weir_fuse_proto::{Entry, Forget, Op, Request, reply};

use crate::attributes::attr;
use crate::buffer::Worker;
use crate::node::{Node, NodeFd, find};
use crate::nodes::Nodes;
use crate::open_files::OpenFiles;

/// Features without which the file system would be wrong.
pub fn needs() -> InitFlags {
    InitFlags::DONT_MASK | InitFlags::BIG_WRITES
}

/// What this file system wants of the kernel.
///
/// Not the write-back cache: with it writes have no process. Not asynchronous direct I/O: with it a program waits for its direct
/// requests where no signal reaches it, and could not be killed while they wait. Not asynchronous reads: with them a program that
/// handles an interrupt itself would wait for read-ahead first. Not truncation with opening: the kernel sends it before it has looked
/// whether the file is a program that runs.
pub fn wishes() -> Wishes {
    let flags = InitFlags::AUTO_INVAL_DATA
        | InitFlags::DO_READDIRPLUS
        | InitFlags::READDIRPLUS_AUTO
        | InitFlags::PARALLEL_DIROPS
        | InitFlags::POSIX_ACL
        | InitFlags::MAX_PAGES
        | InitFlags::HANDLE_KILLPRIV_V2
        | InitFlags::SETXATTR_EXT
        | InitFlags::CREATE_SUPP_GROUP
        | InitFlags::ABORT_ERROR;
    Wishes { flags, needs: needs(), ..Wishes::default() }
}

/// Choices for a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// For how long the kernel may keep names and attributes: changes below, past this file system, are seen after it.
    pub valid: Duration,
    /// Find files by name, even where there are file handles.
    pub by_name: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { valid: Duration::from_secs(1), by_name: false }
    }
}

/// A file system with the files of a source directory.
#[derive(Debug)]
pub struct PassThrough {
    pub(crate) nodes: Nodes,
    pub(crate) files: OpenFiles,
    /// `/proc/self/fd`, by which an inode is opened that is known by a descriptor.
    pub(crate) descriptors: OwnedFd,
    pub(crate) valid: Duration,
}

impl PassThrough {
    /// A file system with the files of `source`.
    ///
    /// # Errors
    /// Those of opening the directory, and `/proc/self/fd`.
    pub fn open(source: &Path, options: Options) -> Result<PassThrough> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, source, flags, Mode::empty())?;
        let descriptors = openat(CWD, c"/proc/self/fd", flags | OFlags::PATH, Mode::empty())?;
        let Options { valid, by_name } = options;
        let nodes = Nodes::new(root, by_name)?;
        Ok(PassThrough { nodes, files: OpenFiles::default(), descriptors, valid })
    }

    /// Nodes that the kernel knows, and files that are open.
    pub fn size(&self) -> (usize, usize) {
        (self.nodes.len(), self.files.len())
    }

    /// Thread that opened a file, for requests that the kernel makes itself, such as write-back of a mapping. `None` for a
    /// handle that was given back.
    pub fn opener(&self, handle: u64) -> Option<u32> {
        Some(self.files.get(handle).ok()?.opener)
    }

    /// Answers a request, and waits for the disk while it does. `None` for requests without a reply.
    pub fn answer<'w>(&self, request: &Request<'_>, worker: &'w mut Worker) -> Option<&'w [u8]> {
        if let Err(error) = self.carry_out(request, worker) {
            worker.reply.set(&reply::error(request.unique, error.raw_os_error()));
        }
        request.op.is_answered().then(|| worker.reply.bytes())
    }

    fn carry_out(&self, request: &Request<'_>, worker: &mut Worker) -> Result<()> {
        let unique = request.unique;
        let node = || self.nodes.get(request.node);
        match request.op {
            Op::Forget { lookups } => self.nodes.forget(Forget { node: request.node, lookups }),
            Op::BatchForget(forgets) => forgets.for_each(|forget| self.nodes.forget(forget)),
            Op::Interrupt { .. } | Op::NotifyReply => {}
            Op::Lookup { name } => {
                let entry = self.entry(&node()?, name)?;
                worker.reply.set(&reply::entry(unique, &entry));
            }
            Op::Getattr { handle } => self.get_attributes(request, handle, worker)?,
            Op::Statx { handle, .. } => self.get_extended(request, handle, worker)?,
            Op::Setattr(set) => self.set_attributes(request, &set, worker)?,
            Op::Readlink => self.read_link(request, worker)?,
            Op::Symlink { .. } | Op::Mknod { .. } | Op::Mkdir { .. } => {
                self.make(request, worker)?;
            }
            Op::Create { .. } | Op::Tmpfile { .. } => self.create(request, worker)?,
            Op::Unlink { .. } | Op::Rmdir { .. } | Op::Rename { .. } => {
                self.change_name(request)?;
                worker.reply.set(&reply::ok(unique));
            }
            Op::Link { target, name } => {
                let entry = self.link(request, target, name)?;
                worker.reply.set(&reply::entry(unique, &entry));
            }
            Op::Open { .. } | Op::Opendir { .. } => self.open_file(request, worker)?,
            Op::Release { handle, .. } | Op::Releasedir { handle } => {
                self.files.remove(handle);
                worker.reply.set(&reply::ok(unique));
            }
            Op::Read { .. }
            | Op::Write { .. }
            | Op::Fallocate { .. }
            | Op::Lseek { .. }
            | Op::CopyFileRange { .. }
            | Op::Flush { .. }
            | Op::Fsync { .. }
            | Op::Fsyncdir { .. } => self.data(request, worker)?,
            Op::Readdir { handle, offset, size, plus } => {
                self.read_directory(request, (handle, offset, size, plus), worker)?;
            }
            Op::Statfs => self.statfs(request, worker)?,
            Op::Syncfs => {
                rustix::fs::syncfs(self.nodes.root().descriptor()?)?;
                worker.reply.set(&reply::ok(unique));
            }
            Op::Setxattr { .. }
            | Op::Getxattr { .. }
            | Op::Listxattr { .. }
            | Op::Removexattr { .. } => self.extended_attribute(request, worker)?,
            Op::Destroy => worker.reply.set(&reply::ok(unique)),
            // The kernel judges access, and keeps locks, itself.
            Op::Init { .. }
            | Op::Access { .. }
            | Op::Getlk { .. }
            | Op::Setlk { .. }
            | Op::Unknown { .. } => return Err(Errno::NOSYS),
        }
        Ok(())
    }

    /// The entry of a directory, with one more lookup of its node.
    pub(crate) fn entry(&self, parent: &Arc<Node>, name: &OsStr) -> Result<Entry> {
        Ok(self.find_entry(parent, parent.descriptor()?.as_fd(), name)?.1)
    }

    /// The same where the directory is open already, with the node.
    pub(crate) fn find_entry(
        &self,
        parent: &Arc<Node>,
        directory: impl AsFd,
        name: &OsStr,
    ) -> Result<(Arc<Node>, Entry)> {
        // Never sent by a kernel without exports; above the root they would lead out.
        if name == "." || name == ".." {
            return Err(Errno::INVAL);
        }
        let found = find(directory.as_fd(), name)?;
        let (node, stat) = self.nodes.lookup(parent, name, found)?;
        let entry = self.reply_entry(node.id, &stat);
        Ok((node, entry))
    }

    pub(crate) fn reply_entry(&self, node: u64, stat: &Statx) -> Entry {
        let (name_valid, attr_valid) = (self.valid, self.valid);
        Entry { node, generation: 0, name_valid, attr_valid, attr: attr(stat) }
    }

    /// Opens the inode of a descriptor anew.
    pub(crate) fn reopen(&self, node: &NodeFd, flags: OFlags) -> Result<OwnedFd> {
        openat(&self.descriptors, DescriptorName::of(node).as_str(), flags, Mode::empty())
    }
}

/// The name of a descriptor in `/proc/self/fd`.
pub(crate) struct DescriptorName(String);

impl DescriptorName {
    pub(crate) fn of(fd: &impl AsFd) -> DescriptorName {
        DescriptorName(fd.as_fd().as_raw_fd().to_string())
    }

    /// Relative to `/proc/self/fd`.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// From the root.
    pub(crate) fn to_path(&self) -> String {
        format!("/proc/self/fd/{}", self.0)
    }
}
