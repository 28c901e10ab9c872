//! Attributes: told, and set.

use std::os::fd::AsFd;

use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, chmodat, chownat,
    ftruncate, readlinkat, statvfs, utimensat,
};
use rustix::io::{Errno, Result};
use rustix::process::{Gid, Uid};
use weir_fuse_proto::{Request, SetAttr, SetTime, StatFs, reply};

use crate::attributes::{attr, extended, stat};
use crate::buffer::Worker;
use crate::node::NodeFd;
use crate::pass_through::{DescriptorName, PassThrough};

impl PassThrough {
    /// By the open file where there is one, which may have no name any more.
    fn find_by(&self, request: &Request<'_>, handle: Option<u64>) -> Result<NodeFd> {
        match handle {
            Some(handle) => Ok(NodeFd::Open(self.files.get(handle)?)),
            None => self.nodes.get(request.node)?.descriptor(),
        }
    }

    pub(crate) fn get_attributes(
        &self,
        request: &Request<'_>,
        handle: Option<u64>,
        worker: &mut Worker,
    ) -> Result<()> {
        let stat = stat(self.find_by(request, handle)?)?;
        worker.reply.set(&reply::attr(request.unique, &attr(&stat), self.valid));
        Ok(())
    }

    pub(crate) fn get_extended(
        &self,
        request: &Request<'_>,
        handle: Option<u64>,
        worker: &mut Worker,
    ) -> Result<()> {
        let stat = stat(self.find_by(request, handle)?)?;
        worker.reply.set(&reply::statx(request.unique, &extended(&stat), self.valid));
        Ok(())
    }

    /// Sets attributes in the order in which a program would have to: a new owner takes bits of the mode away.
    pub(crate) fn set_attributes(
        &self,
        request: &Request<'_>,
        set: &SetAttr,
        worker: &mut Worker,
    ) -> Result<()> {
        let file = self.find_by(request, None)?;
        worker.caller.kill_suidgid(set.kills_suidgid)?;
        if set.uid.is_some() || set.gid.is_some() {
            let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
            chownat(&file, c"", uid, gid, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if let Some(size) = set.size {
            // One that is open for reading alone, with `O_TRUNC`, is no file to truncate by.
            let by_handle = match set.handle {
                Some(handle) => ftruncate(&self.files.get(handle)?.fd, size),
                None => Err(Errno::INVAL),
            };
            match by_handle {
                Err(Errno::INVAL | Errno::BADF) => {
                    ftruncate(self.reopen(&file, OFlags::WRONLY | OFlags::CLOEXEC)?, size)?;
                }
                result => result?,
            }
        }
        if let Some(mode) = set.mode {
            worker.caller.kill_suidgid(false)?;
            let name = DescriptorName::of(&file);
            let mode = Mode::from_raw_mode(mode & 0o7777);
            chmodat(&self.descriptors, name.as_str(), mode, AtFlags::empty())?;
        }
        if set.atime.is_some() || set.mtime.is_some() {
            self.set_times(&file, set)?;
        }
        let stat = stat(&file)?;
        worker.reply.set(&reply::attr(request.unique, &attr(&stat), self.valid));
        Ok(())
    }

    fn set_times(&self, file: &NodeFd, set: &SetAttr) -> Result<()> {
        let time = |time: Option<SetTime>| match time {
            None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            Some(SetTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            Some(SetTime::At(time)) => {
                Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() }
            }
        };
        let times = Timestamps { last_access: time(set.atime), last_modification: time(set.mtime) };
        let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
        match utimensat(file, c"", &times, flags) {
            // Before Linux 5.8. A symbolic link keeps its times there.
            Err(Errno::INVAL | Errno::NOENT) => {
                let name = DescriptorName::of(file);
                utimensat(&self.descriptors, name.as_str(), &times, AtFlags::empty())
            }
            result => result,
        }
    }

    pub(crate) fn read_link(&self, request: &Request<'_>, worker: &mut Worker) -> Result<()> {
        let link = self.nodes.get(request.node)?.descriptor()?;
        let target = readlinkat(link, c"", Vec::new())?;
        let target = target.as_bytes();
        worker.reply.set_data(request.unique, target.len(), |bytes| {
            bytes.copy_from_slice(target);
            Ok(target.len())
        })
    }

    pub(crate) fn statfs(&self, request: &Request<'_>, worker: &mut Worker) -> Result<()> {
        let node = self.nodes.get(request.node)?.descriptor()?;
        let room = rustix::fs::fstatvfs(node.as_fd())
            .or_else(|_| statvfs(DescriptorName::of(&node).to_path()))?;
        let room = StatFs {
            blocks: room.f_blocks,
            bfree: room.f_bfree,
            bavail: room.f_bavail,
            files: room.f_files,
            ffree: room.f_ffree,
            bsize: room.f_bsize as u32,
            namelen: room.f_namemax as u32,
            frsize: room.f_frsize as u32,
        };
        worker.reply.set(&reply::statfs(request.unique, &room));
        Ok(())
    }
}
