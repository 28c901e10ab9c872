//! New files, directories, links and devices, made as the caller; and opening.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, makedev, mkdirat, mknodat, openat, symlinkat};
use rustix::io::{Errno, Result};
use weir_fuse_proto::flags::OpenedFlags;
use weir_fuse_proto::{Op, Opened, Request, reply};

use crate::buffer::Worker;
use crate::node::Node;
use crate::open_files::inner_flags;
use crate::pass_through::PassThrough;

/// The kernel may keep what it has read: changes below show by time and size. Direct writes within a file go side by side.
const FILE: OpenedFlags = OpenedFlags::KEEP_CACHE.union(OpenedFlags::PARALLEL_DIRECT_WRITES);

impl PassThrough {
    /// Symbolic link, directory, device, socket or named pipe.
    pub(crate) fn make(&self, request: &Request<'_>, worker: &mut Worker) -> Result<()> {
        let parent = self.nodes.get(request.node)?;
        let directory = parent.descriptor()?;
        worker.caller.kill_suidgid(false)?;
        let name = match request.op {
            Op::Symlink { name, target } => {
                worker.caller.create(request, 0, || symlinkat(target, &directory, name))?;
                name
            }
            Op::Mkdir { name, mode, umask } => {
                let mode = Mode::from_raw_mode(mode & 0o7777);
                worker.caller.create(request, umask, || mkdirat(&directory, name, mode))?;
                name
            }
            Op::Mknod { name, mode, rdev_major, rdev_minor, umask } => {
                let kind = FileType::from_raw_mode(mode);
                let mode = Mode::from_raw_mode(mode & 0o7777);
                let device = makedev(rdev_major, rdev_minor);
                worker
                    .caller
                    .create(request, umask, || mknodat(&directory, name, kind, mode, device))?;
                name
            }
            _ => return Err(Errno::NOSYS),
        };
        let (_, entry) = self.find_entry(&parent, &directory, name)?;
        worker.reply.set(&reply::entry(request.unique, &entry));
        Ok(())
    }

    /// A new regular file that is opened, with or without a name.
    pub(crate) fn create(&self, request: &Request<'_>, worker: &mut Worker) -> Result<()> {
        let parent = self.nodes.get(request.node)?;
        let directory = parent.descriptor()?;
        let (node, entry, file) = match request.op {
            Op::Create { name, flags, mode, umask, kills_suidgid } => {
                worker.caller.kill_suidgid(kills_suidgid)?;
                let mode = Mode::from_raw_mode(mode & 0o7777);
                let is_exclusive = OFlags::from_bits_retain(flags).contains(OFlags::EXCL);
                let flags = inner_flags(flags) | OFlags::CREATE | OFlags::EXCL;
                let make = || openat(&directory, name, flags, mode);
                let file = match worker.caller.create(request, umask, make) {
                    // Made meanwhile, past the mount. The kernel looks it up then, and judges whether the caller may open it.
                    Err(Errno::EXIST) if !is_exclusive => return Err(Errno::STALE),
                    result => result?,
                };
                let (node, entry) = self.find_entry(&parent, &directory, name)?;
                (node, entry, file)
            }
            Op::Tmpfile { flags, mode, umask } => {
                worker.caller.kill_suidgid(false)?;
                let mode = Mode::from_raw_mode(mode & 0o7777);
                let exclusive = OFlags::from_bits_retain(flags) & OFlags::EXCL;
                let flags = inner_flags(flags) | OFlags::TMPFILE | exclusive;
                let make = || openat(&directory, c".", flags, mode);
                let file = worker.caller.create(request, umask, make)?;
                // It has no name; once it is linked, the kernel looks that up.
                let (node, stat) =
                    self.nodes.lookup(&parent, "".as_ref(), rustix::io::dup(&file)?)?;
                let entry = self.reply_entry(node.id, &stat);
                (node, entry, file)
            }
            _ => return Err(Errno::NOSYS),
        };
        let opened = Opened { handle: self.files.insert(file, node, request.pid), flags: FILE };
        worker.reply.set(&reply::created(request.unique, &entry, &opened));
        Ok(())
    }

    /// An existing file or directory.
    pub(crate) fn open_file(&self, request: &Request<'_>, worker: &mut Worker) -> Result<()> {
        let node: Arc<Node> = self.nodes.get(request.node)?;
        let (flags, opened_flags) = match request.op {
            Op::Open { flags, kills_suidgid } => {
                worker.caller.kill_suidgid(kills_suidgid)?;
                (inner_flags(flags), FILE)
            }
            _ => (OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, OpenedFlags::empty()),
        };
        let descriptor = node.descriptor()?;
        let file = match node.is_directory {
            true => openat(descriptor.as_fd(), c".", flags, Mode::empty())?,
            false => self.reopen(&descriptor, flags)?,
        };
        drop(descriptor);
        let opened =
            Opened { handle: self.files.insert(file, node, request.pid), flags: opened_flags };
        worker.reply.set(&reply::opened(request.unique, &opened));
        Ok(())
    }
}
