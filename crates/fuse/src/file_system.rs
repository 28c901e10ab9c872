//! File system of a directory with one file, the disk.

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags};
use weir_disk::{DiskModel, DiskOp};

use crate::clock;
use crate::pending_replies::Work;
use crate::store::Store;
use crate::timing::Timing;

/// Inode number of the file; the directory has the root's.
const FILE: INodeNo = INodeNo(2);

/// Time for which the kernel may cache attributes. Only the memory in use changes, and the kernel asks for that again
/// after a write.
const TTL: Duration = Duration::from_secs(1);

/// Most asynchronous requests, such as direct I/O of a loop device: its largest queue and a few programs beside it. The
/// kernel's default, 12, would be a queue depth of 12 for all.
const BACKGROUND_MAX: u16 = 1024;

/// Largest read and write, which is also the kernel's (fs.fuse.max_pages_limit, 256 pages).
const REQUEST_MAX: u32 = 1 << 20;

/// Unit of `st_blocks`, whatever the disk's sectors are.
const BLOCK: u64 = 512;

/// Waiter for the disk.
pub(crate) enum Waiter {
    Read { offset: u64, len: u32, reply: ReplyData },
    Write { len: u32, reply: ReplyWrite },
    Other(ReplyEmpty),
}

/// One directory, one file.
pub(crate) struct FileSystem {
    name: OsString,
    size: u64,
    date: SystemTime,
    store: Arc<Store>,
    timing: Timing<Waiter>,
}

impl FileSystem {
    /// `store` has to be as large as the disk.
    pub(crate) fn start(
        name: OsString,
        model: Box<dyn DiskModel>,
        store: Store,
    ) -> io::Result<FileSystem> {
        let size = model.capacity();
        let store = Arc::new(store);
        let bytes = store.clone();
        let mut buffer = Vec::new();
        let timing = Timing::start(model, move |waiter| answer(&bytes, &mut buffer, waiter))?;
        Ok(FileSystem { name, size, date: clock::date(), store, timing })
    }

    /// The attributes of a file or directory of the mounting user.
    fn attributes(&self, ino: INodeNo) -> Result<FileAttr, Errno> {
        let (kind, perm, size, blocks) = match ino {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0, 0),
            FILE => (FileType::RegularFile, 0o600, self.size, self.store.memory().map_err(errno)?),
            _ => return Err(Errno::ENOENT),
        };
        Ok(FileAttr {
            ino,
            size,
            blocks: blocks / BLOCK,
            atime: self.date,
            mtime: self.date,
            ctime: self.date,
            crtime: self.date,
            kind,
            perm,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// How many of `len` bytes at `offset` are on the disk.
    fn inside(&self, offset: u64, len: u64) -> u64 {
        len.min(self.size.saturating_sub(offset))
    }
}

/// Sends the reply.
fn answer(store: &Store, buffer: &mut Vec<u8>, waiter: Waiter) {
    match waiter {
        Waiter::Read { offset, len, reply } => {
            let len = len as usize;
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            match store.read(offset, &mut buffer[..len]) {
                Ok(()) => reply.data(&buffer[..len]),
                Err(error) => reply.error(errno(error)),
            }
        }
        Waiter::Write { len, reply } => reply.written(len),
        Waiter::Other(reply) => reply.ok(),
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

impl fuser::Filesystem for FileSystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it, direct I/O waits in the kernel for one answer before it asks for the next.
        if config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).is_err() {
            return Err(io::Error::other("this kernel is too old for asynchronous direct I/O"));
        }
        // Missing features are ignored: all are for speed only.
        let _ = config.add_capabilities(InitFlags::FUSE_MAX_PAGES);
        let _ = config.set_max_write(REQUEST_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = config.set_congestion_threshold(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent != INodeNo::ROOT || name != self.name {
            return reply.error(Errno::ENOENT);
        }
        match self.attributes(FILE) {
            Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.attributes(ino) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    /// The size is fixed, and dates are not kept. Opening with `O_TRUNC`, which the kernel turns into a truncation to 0,
    /// does nothing, as with a block device: `dd of=` and shells do it.
    fn setattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if size.is_some_and(|size| size != 0 && size != self.size) {
            return reply.error(Errno::EINVAL);
        }
        if mode.is_some() || uid.is_some() || gid.is_some() {
            return reply.error(Errno::EPERM);
        }
        match self.attributes(ino) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if ino != FILE {
            return reply.error(Errno::EISDIR);
        }
        // Past the page cache, with writes side by side, and no message at each close.
        let flags = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = self.inside(offset, size.into());
        if len == 0 {
            return reply.data(&[]);
        }
        let waiter = Waiter::Read { offset, len: len as u32, reply };
        self.timing.submit(Work::new(DiskOp::Read, offset, len), waiter);
    }

    /// The bytes are in memory before the disk has them: a read at the same time may see either.
    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let len = self.inside(offset, data.len() as u64);
        if len == 0 && !data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        if let Err(error) = self.store.write(offset, &data[..len as usize]) {
            return reply.error(errno(error));
        }
        let is_durable = flags.0.cast_unsigned() & OFlags::DSYNC.bits() != 0;
        let work = Work { is_durable, ..Work::new(DiskOp::Write, offset, len) };
        self.timing.submit(work, Waiter::Write { len: len as u32, reply });
    }

    fn flush(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // A kernel that knows no FOPEN_NOFLUSH asks this at each close.
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.timing.submit(Work::flush(), Waiter::Other(reply));
    }

    fn fallocate(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let op = match mode - FallocateFlags::KEEP_SIZE {
            FallocateFlags::PUNCH_HOLE => DiskOp::Discard,
            FallocateFlags::ZERO_RANGE => DiskOp::WriteZeroes,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        let len = self.inside(offset, length);
        if let Err(error) = self.store.zero(offset, len) {
            return reply.error(errno(error));
        }
        self.timing.submit(Work::new(op, offset, len), Waiter::Other(reply));
    }

    /// Ranges that were never written are holes; looking them up takes no virtual time.
    fn lseek(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        // The kernel does the other kinds itself. Numbers: lseek(2).
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let found = match whence {
            SEEK_DATA => self.store.data_from(offset),
            SEEK_HOLE => self.store.hole_from(offset),
            _ => return reply.error(Errno::EINVAL),
        };
        match found {
            // Inside the disk, whose size is at most i64::MAX.
            Ok(offset) => reply.offset(offset as i64),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if ino != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, OsStr::new(".")),
            (INodeNo::ROOT, FileType::Directory, OsStr::new("..")),
            (FILE, FileType::RegularFile, &*self.name),
        ];
        for (index, (ino, kind, name)) in (1..).zip(entries).skip_while(|(n, _)| *n <= offset) {
            if reply.add(ino, index, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        reply.statfs(self.size / BLOCK, 0, 0, 1, 0, BLOCK as u32, 255, BLOCK as u32);
    }

    fn getxattr(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _name: &OsStr,
        _size: u32,
        reply: ReplyXattr,
    ) {
        // The kernel asks before each write, until it hears this.
        reply.error(Errno::ENOSYS);
    }
}
