//! Devices: what a backend is, and its operations on a ring.

mod direct;
mod extents;
mod info;
mod job;
mod memory;
mod open;
mod ranges;
mod run;
mod state;
mod zeroing;

use std::io;
use std::ops::Range;

pub use direct::DirectMode;
pub use extents::DiskExtent;
pub use info::{DiskInfo, DiskKind};
use job::Work;
pub use open::{Backend, OpenError, OpenOptions};
pub(crate) use ranges::ClaimId;
pub(crate) use state::Disks;
pub use state::SyncFailures;
use state::{State, Store};
use zeroing::Zeroing;

use crate::completion::Completion;
use crate::core::{Landed, Origin};
use crate::net::is;
use crate::op::Op;
use crate::pool::IoBuf;
use crate::ring::Ring;

/// When a write counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// When the device has it; a later [`Ring::flush`] makes it last.
    #[default]
    Volatile,
    /// When it will survive a loss of power (FUA).
    Durable,
}

/// How [`Ring::write_zeroes`] may go about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZeroOptions {
    /// Keep the space allocated, so that later writes cannot run out of it (NBD's `NO_HOLE`). Otherwise the range
    /// may become a hole.
    pub keep_allocated: bool,
    /// Fail with `Unsupported`, changing nothing, where it would take as long as writing the zeroes (`FAST_ZERO`).
    pub fast_only: bool,
    /// When it counts as done.
    pub durability: Durability,
}

/// A device attached to a [`Ring`].
#[derive(Debug)]
pub struct Disk {
    index: u32,
    info: DiskInfo,
}

impl Disk {
    #[cfg(feature = "fake")]
    pub(crate) fn detached(info: DiskInfo) -> Disk {
        Disk { index: 0, info }
    }

    /// What kind of device it is and what it can do.
    pub fn info(&self) -> &DiskInfo {
        &self.info
    }
}

/// Operations on devices. Their errors always carry an errno: `EINVAL` for a read outside the device, `ENOSPC` for a
/// write there, `EROFS`, `EOPNOTSUPP`, `EIO` if the file was cut short, or what the kernel said.
impl Ring {
    /// Takes a backend into the ring's care, until the ring is dropped.
    pub fn attach(&mut self, backend: Backend) -> Disk {
        let info = backend.info.clone();
        let store = match backend.source {
            open::Source::File(fd) => Store::File(self.core.open(fd)),
            open::Source::Memory(memory) => Store::Memory(memory),
        };
        Disk { index: self.disks.insert(store, info.clone()), info }
    }

    /// Reads `buffer.len()` bytes at `offset`; ends in [`Completion::Read`].
    pub fn read(&mut self, disk: &Disk, offset: u64, mut buffer: IoBuf, token: u64) {
        let state = self.disks.get_mut(disk.index);
        let result = match (state.check_read(offset, buffer.len() as u64), &state.store) {
            (Ok(()), _) if buffer.is_empty() => Ok(()),
            (Ok(()), Store::Memory(memory)) => {
                memory.read(offset, &mut buffer);
                Ok(())
            }
            (Ok(()), _) if !state.takes(offset, buffer.len()) => {
                let job = state.job(disk.index, token, Work::Read { buffer, offset });
                self.start_job(job);
                return;
            }
            (Ok(()), &Store::File(file)) => {
                let op = Op::Read { file, offset, buffer, done: 0 };
                self.core.start(Origin::Caller(token), op);
                return;
            }
            (Err(error), _) => Err(error),
        };
        self.ready.push_back(Completion::Read { token, buffer, result });
    }

    /// Writes all of `buffer` at `offset`; ends in [`Completion::Written`]. Of two writes in flight to the same bytes
    /// either may be the last.
    pub fn write(
        &mut self,
        disk: &Disk,
        offset: u64,
        buffer: IoBuf,
        durability: Durability,
        token: u64,
    ) {
        let state = self.disks.get_mut(disk.index);
        let result = match (state.check_write(offset, buffer.len() as u64), &mut state.store) {
            (Ok(()), _) if buffer.is_empty() => Ok(()),
            (Ok(()), Store::Memory(memory)) => {
                memory.write(offset, &buffer);
                Ok(())
            }
            (Ok(()), &mut Store::File(file)) => {
                if !state.takes(offset, buffer.len()) {
                    let work = Work::Write { buffer, offset, durability };
                    let job = state.job(disk.index, token, work);
                    self.start_job(job);
                    return;
                }
                let durable = durability == Durability::Durable;
                let (done, failed, claim) = (0, None, None);
                let op = Op::Write { file, offset, buffer, done, durable, failed, claim };
                match state.info.direct {
                    true => self.start_claimed(disk.index, token, op),
                    false => self.core.start(Origin::Caller(token), op),
                }
                return;
            }
            (Err(error), _) => Err(error),
        };
        self.ready.push_back(Completion::Written { token, buffer, result });
    }

    /// Has the kernel find memory for up to `most` pages of what is written to a device in memory soon, so that the write
    /// itself does not wait for it: some microseconds each. Answers what it has not looked at. Nothing else changes, and
    /// other devices need none.
    ///
    /// # Errors
    /// What a write of that range would say.
    pub fn warm(&mut self, disk: &Disk, range: Range<u64>, most: usize) -> io::Result<Range<u64>> {
        let state = self.disks.get_mut(disk.index);
        state.check_write(range.start, range.end.saturating_sub(range.start))?;
        Ok(match &mut state.store {
            Store::Memory(memory) => memory.warm(range, most),
            Store::File(_) => range.end..range.end,
        })
    }

    /// Makes every write that has ended durable; ends in [`Completion::Done`]. Writes in flight may or may not be.
    ///
    /// When this, or a durable write, has failed, acknowledged bytes of any caller may be gone, and the kernel does not say
    /// so a second time: the next flush may succeed. [`Ring::sync_failures`] counts it, so that a server of several
    /// clients can tell each of them.
    pub fn flush(&mut self, disk: &Disk, token: u64) {
        let state = self.disks.get_mut(disk.index);
        if let Store::File(file) = state.store {
            let metadata = disk.info.kind == DiskKind::Block;
            self.core.start(Origin::Caller(token), Op::Sync { file, metadata });
            return;
        }
        self.ready.push_back(Completion::Done { token, result: Ok(()) });
    }

    /// The failures so far that may have cost other callers bytes that were acknowledged to them: of flushes, and of durable
    /// writes in the page cache whose bytes could be written but not made durable. A durable write that could not be
    /// written, because there is no space, has cost its own bytes only and is not among them.
    pub fn sync_failures(&self, disk: &Disk) -> SyncFailures {
        self.disks.get(disk.index).sync_failures
    }

    /// Asks the page cache to read `len` bytes at `offset` ahead; ends in [`Completion::Done`] when that has begun.
    /// Does nothing for a direct device, which has no cache, and for memory, which needs none.
    pub fn prefetch(&mut self, disk: &Disk, offset: u64, len: u32, token: u64) {
        let state = self.disks.get_mut(disk.index);
        let result = match (state.check_read(offset, u64::from(len)), &state.store) {
            (Ok(()), &Store::File(file)) if !disk.info.direct => {
                self.core.start(Origin::Caller(token), Op::Prefetch { file, offset, len });
                return;
            }
            (result, _) => result,
        };
        self.ready.push_back(Completion::Done { token, result });
    }

    /// Makes `len` bytes at `offset` read as zero, the quickest way the device has; ends in [`Completion::Done`].
    pub fn write_zeroes(
        &mut self,
        disk: &Disk,
        offset: u64,
        len: u64,
        options: ZeroOptions,
        token: u64,
    ) {
        self.start_zeroing(disk, offset, len, token, |state| {
            zeroing::zero(offset..offset + len, state.zeroing_block(), state.info.kind, options)
        });
    }

    /// Tells the device that `len` bytes at `offset` are not needed any more: they may read as zeroes, as before, or
    /// as anything. Only advice: where nothing can be done it succeeds too. Ends in [`Completion::Done`].
    pub fn trim(&mut self, disk: &Disk, offset: u64, len: u64, durability: Durability, token: u64) {
        self.start_zeroing(disk, offset, len, token, |state| {
            zeroing::trim(offset..offset + len, state.zeroing_block(), state.info.kind, durability)
        });
    }

    /// Bytes that the device has now: its size, or fewer where its file was cut short or the device has gone. From here on
    /// writes past them are refused with `EIO`. One system call, and none for memory.
    pub fn look(&mut self, disk: &Disk) -> u64 {
        let state = self.disks.get_mut(disk.index);
        if let Store::File(file) = state.store {
            // The position means nothing: all operations say where.
            let end = rustix::fs::seek(self.core.files.fd(file), rustix::fs::SeekFrom::End(0));
            state.present = end.unwrap_or(0).min(state.info.size);
        }
        state.present
    }

    /// Takes note that the device has grown, and gives the bytes that it has now: of a direct device, whole blocks. One that
    /// has not stays as it is. One system call, and none for memory.
    pub fn grow(&mut self, disk: &mut Disk) -> u64 {
        let state = self.disks.get_mut(disk.index);
        if let Store::File(file) = state.store {
            let end = rustix::fs::seek(self.core.files.fd(file), rustix::fs::SeekFrom::End(0));
            let mut end = end.unwrap_or(0);
            if state.info.direct {
                end -= end % u64::from(state.info.block_bytes);
            }
            if end > state.info.size {
                (state.info.size, state.present, disk.info.size) = (end, end, end);
            }
        }
        state.info.size
    }

    /// The extent that begins at `offset`, as far as it is alike, up to `end` at most. Only files have holes.
    ///
    /// The one call here that is carried out at once: io_uring has no such operation. Costs one or two system calls,
    /// which may read the file's map from the device when it is not in memory; so ask for few at a time.
    ///
    /// # Errors
    /// `EINVAL` for an empty range or one outside the device; what the file system says.
    pub fn extent(&mut self, disk: &Disk, offset: u64, end: u64) -> io::Result<DiskExtent> {
        let state = self.disks.get_mut(disk.index);
        let len = end.checked_sub(offset).filter(|&len| len > 0);
        let len = len.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        state.check_read(offset, len)?;
        match state.store {
            Store::File(file) if disk.info.kind == DiskKind::File => {
                extents::next(self.core.files.fd(file), offset, end)
            }
            _ => Ok(DiskExtent { offset, len, data: true }),
        }
    }

    fn start_zeroing(
        &mut self,
        disk: &Disk,
        offset: u64,
        len: u64,
        token: u64,
        plan: impl FnOnce(&State) -> Zeroing,
    ) {
        let state = self.disks.get_mut(disk.index);
        let result = match (state.check_write(offset, len), &mut state.store) {
            (Ok(()), _) if len == 0 => Ok(()),
            (Ok(()), Store::Memory(memory)) => memory.zero(offset, len),
            (Ok(()), Store::File(_)) => {
                let work = Work::Zero(plan(state));
                let job = state.job(disk.index, token, work);
                self.start_job(job);
                return;
            }
            (Err(error), _) => Err(error),
        };
        self.ready.push_back(Completion::Done { token, result });
    }

    /// Takes an operation back that has ended: goes on if it did only a part, and tells its starter otherwise.
    pub(crate) fn handle_disk(&mut self, landed: Landed) -> Option<Completion> {
        let Landed { origin, mut op, result, .. } = landed;
        if is(&result, libc::EINTR) || is(&result, libc::EAGAIN) {
            self.core.start(origin, op);
            return None;
        }
        let result = match progress(&mut op, result) {
            Ok(false) => {
                self.core.start(origin, op);
                return None;
            }
            Ok(true) => Ok(()),
            Err(error) => Err(error),
        };
        let Some(result) = self.look_into_failure(&mut op, result) else {
            self.core.start(origin, op);
            return None;
        };
        match (origin, op) {
            (Origin::Job(number), op) => {
                self.job_landed(number, op, result);
                None
            }
            (Origin::Caller(token), Op::Read { buffer, .. }) => {
                Some(Completion::Read { token, buffer, result })
            }
            (Origin::Caller(token), Op::Write { file, buffer, claim, .. }) => {
                if let Some(claim) = claim {
                    self.release_claim(self.disks.of_file(file), claim);
                }
                Some(Completion::Written { token, buffer, result })
            }
            (Origin::Caller(token), _) => Some(Completion::Done { token, result }),
        }
    }

    /// Finds out what the failure of an operation means for acknowledged bytes of others. `None`: it is to be started again
    /// for that. What it is answered with does not change.
    ///
    /// A durable write on a file in the page cache fails alike when it cannot be written and when the kernel could not write
    /// back what lies before it in the same file. So the same bytes are written again without making them last: if that
    /// succeeds, it was the latter.
    fn look_into_failure(&mut self, op: &mut Op, result: io::Result<()>) -> Option<io::Result<()>> {
        let disk = match op {
            Op::Sync { file, .. } | Op::Write { file, .. } => self.disks.of_file(*file),
            _ => return Some(result),
        };
        let state = self.disks.get_mut(disk);
        let errno = result.as_ref().err().map(|error| error.raw_os_error().unwrap_or(libc::EIO));
        match (op, errno) {
            (Op::Sync { .. }, Some(errno)) => state.sync_failures.note(errno),
            (Op::Write { durable, failed, .. }, Some(errno)) if *durable && !state.info.direct => {
                (*durable, *failed) = (false, Some(errno));
                return None;
            }
            (Op::Write { failed: Some(first), .. }, second) => {
                if second.is_none() {
                    state.sync_failures.note(*first);
                }
                return Some(Err(io::Error::from_raw_os_error(*first)));
            }
            _ => {}
        }
        Some(result)
    }
}

/// Takes note of how far an operation came; whether that was all. No progress inside the device's size means that the
/// file was cut short under us.
fn progress(op: &mut Op, result: io::Result<u32>) -> io::Result<bool> {
    let more = result?;
    let left = match op {
        Op::Read { buffer, done, .. } | Op::Write { buffer, done, .. } => {
            *done += more;
            buffer.len() - *done as usize
        }
        Op::WriteZeroes { offset, len, .. } => {
            *offset += u64::from(more);
            *len -= more;
            *len as usize
        }
        _ => return Ok(true),
    };
    if more == 0 && left > 0 {
        return Err(io::Error::from_raw_os_error(libc::EIO));
    }
    Ok(left == 0)
}
