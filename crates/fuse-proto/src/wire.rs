//! The protocol's numbers and layouts. All numbers are in the byte order of the machine.
#![allow(missing_docs, reason = "names and fields are the protocol's own")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Major version of the protocol.
pub const MAJOR: u32 = 7;
/// Lowest minor version that is spoken (Linux 5.4).
pub const MINOR_MIN: u32 = 31;
/// Highest minor version that is spoken.
pub const MINOR_MAX: u32 = 45;

/// Request types (`FUSE_*`).
pub mod opcode {
    #![allow(missing_docs, reason = "the names are the protocol's own")]
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const POLL: u32 = 40;
    pub const NOTIFY_REPLY: u32 = 41;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const SYNCFS: u32 = 50;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
    pub const COPY_FILE_RANGE_64: u32 = 53;
}

/// Notifications (`FUSE_NOTIFY_*`).
pub mod notification {
    #![allow(missing_docs, reason = "the names are the protocol's own")]
    pub const POLL: i32 = 1;
    pub const INVAL_INODE: i32 = 2;
    pub const INVAL_ENTRY: i32 = 3;
    pub const DELETE: i32 = 6;
    pub const RESEND: i32 = 7;
}

/// Extensions of requests below this type are security contexts, and the type is their number.
pub const SECURITY_CONTEXTS_MAX: u32 = 31;
/// Extension with supplementary groups of the caller.
pub const EXTENSION_GROUPS: u32 = 32;

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
        #[repr(C)]
        pub struct $name {
            $(pub $field: $kind,)*
        }
    )*};
}

layouts! {
    /// Head of every request. `extensions` is in units of eight bytes, at the end of the message.
    InHeader {
        len: u32, opcode: u32, unique: u64, node: u64, uid: u32, gid: u32, pid: u32,
        extensions: u16, padding: u16,
    }
    /// Head of every reply, and of every notification, whose `unique` is 0.
    OutHeader { len: u32, error: i32, unique: u64 }
    /// Head of an extension; `size` includes it.
    ExtensionHeader { size: u32, kind: u32 }

    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    InitInExt { flags2: u32, unused: [u32; 11] }
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16,
        congestion_threshold: u16, max_write: u32, time_gran: u32, max_pages: u16,
        map_alignment: u16, flags2: u32, max_stack_depth: u32, request_timeout: u16,
        unused: [u16; 11],
    }
    ForgetIn { lookups: u64 }
    ForgetOne { node: u64, lookups: u64 }
    BatchForgetIn { count: u32, dummy: u32 }
    GetattrIn { flags: u32, dummy: u32, fh: u64 }
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: i64, mtime: i64,
        ctime: i64, atime_ns: u32, mtime_ns: u32, ctime_ns: u32, mode: u32, unused4: u32, uid: u32,
        gid: u32, unused5: u32,
    }
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 }
    MkdirIn { mode: u32, umask: u32 }
    RenameIn { new_parent: u64 }
    Rename2In { new_parent: u64, flags: u32, padding: u32 }
    LinkIn { node: u64 }
    OpenIn { flags: u32, open_flags: u32 }
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    OpenOut { fh: u64, flags: u32, backing_id: i32 }
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64 }
    ReadIn {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    WriteIn {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    WriteOut { size: u32, padding: u32 }
    StatfsOut {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32,
        frsize: u32, padding: u32, spare: [u32; 6],
    }
    FsyncIn { fh: u64, flags: u32, padding: u32 }
    SetxattrIn { size: u32, flags: u32 }
    SetxattrInExt { size: u32, flags: u32, setxattr_flags: u32, padding: u32 }
    GetxattrIn { size: u32, padding: u32 }
    GetxattrOut { size: u32, padding: u32 }
    LockIn { fh: u64, owner: u64, start: u64, end: u64, kind: u32, pid: u32, flags: u32, padding: u32 }
    LockOut { start: u64, end: u64, kind: u32, pid: u32 }
    AccessIn { mask: u32, padding: u32 }
    InterruptIn { unique: u64 }
    FallocateIn { fh: u64, offset: u64, len: u64, mode: u32, padding: u32 }
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32 }
    LseekOut { offset: u64 }
    CopyFileRangeIn {
        fh_in: u64, offset_in: u64, node_out: u64, fh_out: u64, offset_out: u64, len: u64, flags: u64,
    }
    CopyFileRangeOut { len: u64 }
    SyncfsIn { padding: u64 }
    StatxIn { getattr_flags: u32, reserved: u32, fh: u64, flags: u32, mask: u32 }

    AttrOut {
        ino: u64, size: u64, blocks: u64, atime: i64, mtime: i64, ctime: i64, atime_ns: u32,
        mtime_ns: u32, ctime_ns: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32,
        blksize: u32, flags: u32,
    }
    AttrReply { valid: u64, valid_ns: u32, dummy: u32, attr: AttrOut }
    EntryOut {
        node: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_ns: u32,
        attr_valid_ns: u32, attr: AttrOut,
    }
    CreateOut { entry: EntryOut, open: OpenOut }
    Dirent { ino: u64, offset: u64, name_len: u32, kind: u32 }
    StatxTime { seconds: i64, ns: u32, reserved: i32 }
    StatxOut {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16,
        spare: u16, ino: u64, size: u64, blocks: u64, attributes_mask: u64, atime: StatxTime,
        btime: StatxTime, ctime: StatxTime, mtime: StatxTime, rdev_major: u32, rdev_minor: u32,
        dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    StatxReply { valid: u64, valid_ns: u32, flags: u32, spare: [u64; 2], stat: StatxOut }

    NotifyInvalInodeOut { node: u64, offset: i64, len: i64 }
    NotifyInvalEntryOut { parent: u64, name_len: u32, flags: u32 }
    NotifyDeleteOut { parent: u64, child: u64, name_len: u32, padding: u32 }
}

/// Bytes of an [`InHeader`].
pub const IN_HEADER_LEN: usize = size_of::<InHeader>();
/// Bytes of an [`OutHeader`].
pub const OUT_HEADER_LEN: usize = size_of::<OutHeader>();
/// Least size of a buffer that `/dev/fuse` is read into (`FUSE_MIN_READ_BUFFER`).
pub const READ_BUFFER_MIN: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_the_sizes_the_protocol_gives() {
        let sizes = [
            (IN_HEADER_LEN, 40),
            (OUT_HEADER_LEN, 16),
            (size_of::<InitIn>() + size_of::<InitInExt>(), 64),
            (size_of::<InitOut>(), 64),
            (size_of::<SetattrIn>(), 88),
            (size_of::<ReadIn>(), 40),
            (size_of::<WriteIn>(), 40),
            (size_of::<StatfsOut>(), 80),
            (size_of::<LockIn>(), 48),
            (size_of::<CopyFileRangeIn>(), 56),
            (size_of::<AttrOut>(), 88),
            (size_of::<AttrReply>(), 104),
            (size_of::<EntryOut>(), 128),
            (size_of::<CreateOut>(), 144),
            (size_of::<Dirent>(), 24),
            (size_of::<StatxOut>(), 256),
            (size_of::<StatxReply>(), 288),
            (size_of::<NotifyInvalEntryOut>(), 16),
        ];
        for (index, (size, wanted)) in sizes.into_iter().enumerate() {
            assert_eq!(size, wanted, "row {index}");
        }
    }
}
