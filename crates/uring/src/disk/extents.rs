//! Extents of a device: data and holes.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// A stretch of a device that is alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskExtent {
    /// First byte.
    pub offset: u64,
    /// Bytes, at least one.
    pub len: u64,
    /// Whether it may hold data. If not, it is a hole: nothing is allocated and it reads as zeroes.
    pub data: bool,
}

/// What the file system says about the stretch that begins at `offset`, up to `end`.
pub(super) fn next(fd: BorrowedFd<'_>, offset: u64, end: u64) -> io::Result<DiskExtent> {
    // Where something is not known, it is data: a reader then reads it.
    let all = |data| Ok(DiskExtent { offset, len: end - offset, data });
    let until = |stop: u64, data| Ok(DiskExtent { offset, len: stop.min(end) - offset, data });
    match seek(fd, SeekFrom::Data(offset)) {
        Ok(data) if data > offset => until(data, false),
        Ok(_) => match seek(fd, SeekFrom::Hole(offset)) {
            Ok(hole) if hole > offset => until(hole, true),
            // It became a hole in between, or the file system contradicts itself.
            Ok(_) => all(true),
            Err(errno) => Err(errno.into()),
        },
        // No data from here to the end of the file, which may have been cut short: what was there cannot be read.
        Err(Errno::NXIO) => match seek(fd, SeekFrom::End(0))? {
            size if size >= end => all(false),
            size if size > offset => until(size, false),
            _ => all(true),
        },
        Err(Errno::INVAL | Errno::OPNOTSUPP) => all(true),
        Err(errno) => Err(errno.into()),
    }
}
