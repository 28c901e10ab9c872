//! The meanings of requests.

use std::ffi::OsStr;

use crate::attr::Time;
use crate::flags::{InitFlags, ReleaseFlags, SetAttrFlags, WriteFlags};
use crate::forget::Forgets;

/// A time that SETATTR sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's present time.
    Now,
    /// This one.
    At(Time),
}

/// What a SETATTR sets; the rest stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Handle of an open file of the node, by which a truncation is done.
    pub handle: Option<u64>,
    /// Permissions, with or without the kind.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of contents.
    pub mtime: Option<SetTime>,
    /// Set-user-id and set-group-id bits go with the change of size.
    pub kills_suidgid: bool,
}

impl SetAttr {
    /// The flags of the message, for code that makes one.
    pub fn flags(&self) -> SetAttrFlags {
        let mut flags = SetAttrFlags::empty();
        flags.set(SetAttrFlags::FH, self.handle.is_some());
        flags.set(SetAttrFlags::MODE, self.mode.is_some());
        flags.set(SetAttrFlags::UID, self.uid.is_some());
        flags.set(SetAttrFlags::GID, self.gid.is_some());
        flags.set(SetAttrFlags::SIZE, self.size.is_some());
        flags.set(SetAttrFlags::ATIME, self.atime.is_some());
        flags.set(SetAttrFlags::ATIME_NOW, self.atime == Some(SetTime::Now));
        flags.set(SetAttrFlags::MTIME, self.mtime.is_some());
        flags.set(SetAttrFlags::MTIME_NOW, self.mtime == Some(SetTime::Now));
        flags.set(SetAttrFlags::KILL_SUIDGID, self.kills_suidgid);
        flags
    }
}

/// A lock of a range of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileLock {
    /// First byte.
    pub start: u64,
    /// Last byte; the largest number for the end of the file, wherever that is.
    pub end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: u32,
    /// Process that holds it, in replies.
    pub pid: u32,
}

/// What the kernel asks for. The node is the request's; names are of entries of that directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "fields are the protocol's own, and the arguments of the calls they are named after"
)]
pub enum Op<'a> {
    /// First request; answered by [`crate::init::negotiate`].
    Init {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: InitFlags,
    },
    /// Last request. Not sent to every server.
    Destroy,
    Lookup {
        name: &'a OsStr,
    },
    /// Takes lookups back. Not answered.
    Forget {
        lookups: u64,
    },
    /// The same of many nodes. Not answered.
    BatchForget(Forgets<'a>),
    Getattr {
        handle: Option<u64>,
    },
    Setattr(SetAttr),
    Statx {
        handle: Option<u64>,
        flags: u32,
        mask: u32,
    },
    Readlink,
    Symlink {
        name: &'a OsStr,
        target: &'a OsStr,
    },
    Mknod {
        name: &'a OsStr,
        mode: u32,
        rdev_major: u32,
        rdev_minor: u32,
        umask: u32,
    },
    Mkdir {
        name: &'a OsStr,
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a OsStr,
    },
    Rmdir {
        name: &'a OsStr,
    },
    /// `flags` of renameat2(2).
    Rename {
        name: &'a OsStr,
        new_parent: u64,
        new_name: &'a OsStr,
        flags: u32,
    },
    /// A further name for `target`.
    Link {
        target: u64,
        name: &'a OsStr,
    },
    Open {
        flags: u32,
        kills_suidgid: bool,
    },
    Create {
        name: &'a OsStr,
        flags: u32,
        mode: u32,
        umask: u32,
        kills_suidgid: bool,
    },
    /// A file without a name; answered as [`Op::Create`].
    Tmpfile {
        flags: u32,
        mode: u32,
        umask: u32,
    },
    Read {
        handle: u64,
        offset: u64,
        size: u32,
        flags: u32,
    },
    Write {
        handle: u64,
        offset: u64,
        data: &'a [u8],
        flags: u32,
        write_flags: WriteFlags,
    },
    Fallocate {
        handle: u64,
        offset: u64,
        len: u64,
        mode: u32,
    },
    /// `SEEK_DATA` and `SEEK_HOLE` of lseek(2).
    Lseek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    /// `is_wide` asks for [`crate::reply::copied`] instead of [`crate::reply::written`].
    CopyFileRange {
        handle: u64,
        offset: u64,
        to_node: u64,
        to_handle: u64,
        to_offset: u64,
        len: u64,
        flags: u64,
        is_wide: bool,
    },
    /// One descriptor of the open file is closed.
    Flush {
        handle: u64,
        lock_owner: u64,
    },
    Fsync {
        handle: u64,
        data_only: bool,
    },
    /// The open file is closed.
    Release {
        handle: u64,
        flags: u32,
        release_flags: ReleaseFlags,
        lock_owner: u64,
    },
    Opendir {
        flags: u32,
    },
    /// Entries after `offset`, at most `size` bytes, with attributes where `plus`.
    Readdir {
        handle: u64,
        offset: u64,
        size: u32,
        plus: bool,
    },
    Fsyncdir {
        handle: u64,
        data_only: bool,
    },
    Releasedir {
        handle: u64,
    },
    Statfs,
    Syncfs,
    Setxattr {
        name: &'a OsStr,
        value: &'a [u8],
        flags: u32,
        kills_sgid: bool,
    },
    /// A `size` of 0 asks for the size of the value.
    Getxattr {
        name: &'a OsStr,
        size: u32,
    },
    /// The same for the names, each with its NUL.
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a OsStr,
    },
    Access {
        mask: u32,
    },
    Getlk {
        handle: u64,
        owner: u64,
        lock: FileLock,
    },
    Setlk {
        handle: u64,
        owner: u64,
        lock: FileLock,
        waits: bool,
        is_flock: bool,
    },
    /// The request with this id should end soon. Not answered.
    Interrupt {
        unique: u64,
    },
    /// Answer to a notification. Not answered.
    NotifyReply,
    /// Another request. `ENOSYS` is right, and most are not sent again after it.
    Unknown {
        opcode: u32,
    },
}

impl Op<'_> {
    /// Whether the kernel waits for a reply.
    pub fn is_answered(&self) -> bool {
        !matches!(
            self,
            Op::Forget { .. } | Op::BatchForget(_) | Op::Interrupt { .. } | Op::NotifyReply
        )
    }
}
