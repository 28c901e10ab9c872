//! Attributes of files of the source.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::Result;
use weir_fuse_proto::{Attr, Statx, Time, Timestamps};

/// The kernel's answer about an open file, which may be open with `O_PATH`.
pub(crate) fn stat(file: impl AsFd) -> Result<rustix::fs::Statx> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW, mask)
}

fn time(time: rustix::fs::StatxTimestamp) -> Time {
    Time { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
}

/// As replies have them.
pub(crate) fn attr(stat: &rustix::fs::Statx) -> Attr {
    let has_btime = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    Attr {
        ino: stat.stx_ino,
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        times: Timestamps {
            atime: time(stat.stx_atime),
            mtime: time(stat.stx_mtime),
            ctime: time(stat.stx_ctime),
            btime: has_btime.then(|| time(stat.stx_btime)),
        },
        mode: stat.stx_mode.into(),
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        rdev_major: stat.stx_rdev_major,
        rdev_minor: stat.stx_rdev_minor,
        blksize: stat.stx_blksize,
    }
}

/// As STATX has them.
pub(crate) fn extended(stat: &rustix::fs::Statx) -> Statx {
    let known = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    Statx {
        attr: attr(stat),
        mask: stat.stx_mask & known.bits(),
        attributes: stat.stx_attributes.bits(),
        attributes_mask: stat.stx_attributes_mask.bits(),
    }
}
