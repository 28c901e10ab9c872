//! Attributes of files, as replies have them.

use std::time::Duration;

use crate::flags::OpenedFlags;
use crate::wire::{
    AttrOut, AttrReply, EntryOut, OpenOut, StatfsOut, StatxOut, StatxReply, StatxTime,
};

/// A time of a file. Nanoseconds are below 10^9; seconds before 1970 are negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Since 1970.
    pub seconds: i64,
    /// Of the second.
    pub nanoseconds: u32,
}

/// The kinds of files, by the four bits of `st_mode` that say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Named pipe.
    Fifo,
    /// Character device.
    Character,
    /// Directory.
    Directory,
    /// Block device.
    Block,
    /// Regular file.
    Regular,
    /// Symbolic link.
    Symlink,
    /// Socket.
    Socket,
    /// Not told.
    Unknown,
}

impl FileKind {
    /// The kind in a mode.
    pub const fn of_mode(mode: u32) -> FileKind {
        match mode >> 12 {
            0o01 => FileKind::Fifo,
            0o02 => FileKind::Character,
            0o04 => FileKind::Directory,
            0o06 => FileKind::Block,
            0o10 => FileKind::Regular,
            0o12 => FileKind::Symlink,
            0o14 => FileKind::Socket,
            _ => FileKind::Unknown,
        }
    }

    /// `DT_*` of a directory's entry; 0 where it is not told.
    pub const fn to_dirent(self) -> u32 {
        match self {
            FileKind::Fifo => 0o01,
            FileKind::Character => 0o02,
            FileKind::Directory => 0o04,
            FileKind::Block => 0o06,
            FileKind::Regular => 0o10,
            FileKind::Symlink => 0o12,
            FileKind::Socket => 0o14,
            FileKind::Unknown => 0,
        }
    }
}

/// The times of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// Last access.
    pub atime: Time,
    /// Last change of contents.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Birth, where it is known. Only STATX has it.
    pub btime: Option<Time>,
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// Inode number that programs see.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Units of 512 bytes that are allocated.
    pub blocks: u64,
    /// Its times.
    pub times: Timestamps,
    /// Kind and permissions, as `st_mode`.
    pub mode: u32,
    /// Names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file: major number.
    pub rdev_major: u32,
    /// Minor number.
    pub rdev_minor: u32,
    /// Preferred size of requests.
    pub blksize: u32,
}

impl Attr {
    /// As GETATTR and entries have it. A device number that does not fit in 32 bits is cut.
    pub(crate) fn to_wire(self) -> AttrOut {
        let Timestamps { atime, mtime, ctime, .. } = self.times;
        AttrOut {
            ino: self.ino,
            size: self.size,
            blocks: self.blocks,
            atime: atime.seconds,
            mtime: mtime.seconds,
            ctime: ctime.seconds,
            atime_ns: atime.nanoseconds,
            mtime_ns: mtime.nanoseconds,
            ctime_ns: ctime.nanoseconds,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: encode_device(self.rdev_major, self.rdev_minor),
            blksize: self.blksize,
            flags: 0,
        }
    }

    /// As GETATTR's reply has it.
    pub(crate) fn to_reply(self, valid: Duration) -> AttrReply {
        AttrReply {
            valid: valid.as_secs(),
            valid_ns: valid.subsec_nanos(),
            dummy: 0,
            attr: self.to_wire(),
        }
    }
}

/// The 32 bits of a device number in messages: the kernel's new encoding, 12 bits of major and 20 of minor number.
pub(crate) const fn encode_device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12)
}

/// Major and minor number in those 32 bits.
pub(crate) const fn decode_device(device: u32) -> (u32, u32) {
    ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xfff00))
}

/// Attributes of a file as STATX tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statx {
    /// What GETATTR tells too.
    pub attr: Attr,
    /// Which fields are valid (`STATX_*`).
    pub mask: u32,
    /// `STATX_ATTR_*`.
    pub attributes: u64,
    /// Which of those are known.
    pub attributes_mask: u64,
}

impl Statx {
    pub(crate) fn to_reply(self, valid: Duration) -> StatxReply {
        let Attr { times, .. } = self.attr;
        let time = |time: Time| StatxTime {
            seconds: time.seconds,
            ns: time.nanoseconds,
            ..StatxTime::default()
        };
        let stat = StatxOut {
            mask: self.mask,
            blksize: self.attr.blksize,
            attributes: self.attributes,
            nlink: self.attr.nlink,
            uid: self.attr.uid,
            gid: self.attr.gid,
            // The permissions and kind have 16 bits.
            mode: self.attr.mode as u16,
            ino: self.attr.ino,
            size: self.attr.size,
            blocks: self.attr.blocks,
            attributes_mask: self.attributes_mask,
            atime: time(times.atime),
            btime: time(times.btime.unwrap_or_default()),
            ctime: time(times.ctime),
            mtime: time(times.mtime),
            rdev_major: self.attr.rdev_major,
            rdev_minor: self.attr.rdev_minor,
            ..StatxOut::default()
        };
        StatxReply {
            valid: valid.as_secs(),
            valid_ns: valid.subsec_nanos(),
            stat,
            ..StatxReply::default()
        }
    }
}

/// A name's node, with its attributes. Each reply with one is a lookup, which a FORGET takes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Node id by which the kernel names the file from now on. 0 says that there is none, to be cached.
    pub node: u64,
    /// Makes a node id unique that is used again.
    pub generation: u64,
    /// For how long the name may be cached.
    pub name_valid: Duration,
    /// For how long the attributes may be cached.
    pub attr_valid: Duration,
    /// Attributes.
    pub attr: Attr,
}

impl Entry {
    pub(crate) fn to_wire(self) -> EntryOut {
        EntryOut {
            node: self.node,
            generation: self.generation,
            entry_valid: self.name_valid.as_secs(),
            attr_valid: self.attr_valid.as_secs(),
            entry_valid_ns: self.name_valid.subsec_nanos(),
            attr_valid_ns: self.attr_valid.subsec_nanos(),
            attr: self.attr.to_wire(),
        }
    }
}

/// An open file or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The server's mark, given back with each request on the open file.
    pub handle: u64,
    /// How the kernel treats it.
    pub flags: OpenedFlags,
}

impl Opened {
    pub(crate) fn to_wire(self) -> OpenOut {
        OpenOut { fh: self.handle, flags: self.flags.bits(), backing_id: 0 }
    }
}

/// Room in a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of statfs(2)")]
pub struct StatFs {
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
    pub bsize: u32,
    pub namelen: u32,
    pub frsize: u32,
}

impl StatFs {
    pub(crate) fn to_wire(self) -> StatfsOut {
        let StatFs { blocks, bfree, bavail, files, ffree, bsize, namelen, frsize } = self;
        StatfsOut {
            blocks,
            bfree,
            bavail,
            files,
            ffree,
            bsize,
            namelen,
            frsize,
            ..StatfsOut::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_come_back() {
        for (major, minor) in [(0, 0), (8, 1), (259, 7), (0xfff, 0xf_ffff)] {
            assert_eq!(decode_device(encode_device(major, minor)), (major, minor));
        }
        // /dev/sda1, as stat(1) shows it.
        assert_eq!(encode_device(8, 1), 0x801);
    }

    #[test]
    fn kinds_have_the_numbers_of_modes_and_entries() {
        assert_eq!(FileKind::of_mode(0o100_644), FileKind::Regular);
        assert_eq!(FileKind::of_mode(0o040_755).to_dirent(), 4);
        assert_eq!(FileKind::of_mode(0o777), FileKind::Unknown);
        assert_eq!(FileKind::of_mode(0o777).to_dirent(), 0);
    }
}
