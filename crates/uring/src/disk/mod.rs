//! Devices: what a backend is, and its operations on a ring.

mod info;
mod memory;
mod open;
mod state;

use std::io;

pub use info::{DiskInfo, DiskKind};
pub use open::{Backend, OpenError, OpenOptions};
pub(crate) use state::{Disks, Store};

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
    /// What kind of device it is and what it can do.
    pub fn info(&self) -> &DiskInfo {
        &self.info
    }
}

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
        if let Err(error) = state.check_read(offset, buffer.len() as u64) {
            self.ready.push_back(Completion::Read { token, buffer, result: Err(error) });
            return;
        }
        match &mut state.store {
            Store::Memory(memory) => {
                memory.read(offset, &mut buffer);
                self.ready.push_back(Completion::Read { token, buffer, result: Ok(()) });
            }
            &mut Store::File(file) => {
                let op = Op::Read { file, offset, buffer, done: 0 };
                self.core.start(Origin::Caller(token), op);
            }
        }
    }

    /// Writes all of `buffer` at `offset`; ends in [`Completion::Written`].
    pub fn write(
        &mut self,
        disk: &Disk,
        offset: u64,
        buffer: IoBuf,
        durability: Durability,
        token: u64,
    ) {
        let state = self.disks.get_mut(disk.index);
        if let Err(error) = state.check_write(offset, buffer.len() as u64) {
            self.ready.push_back(Completion::Written { token, buffer, result: Err(error) });
            return;
        }
        match &mut state.store {
            Store::Memory(memory) => {
                memory.write(offset, &buffer);
                self.ready.push_back(Completion::Written { token, buffer, result: Ok(()) });
            }
            &mut Store::File(file) => {
                let durable = durability == Durability::Durable;
                let op = Op::Write { file, offset, buffer, done: 0, durable };
                self.core.start(Origin::Caller(token), op);
            }
        }
    }

    /// Makes every write that has ended durable; ends in [`Completion::Done`]. Writes in flight may or may not be.
    pub fn flush(&mut self, disk: &Disk, token: u64) {
        let state = self.disks.get_mut(disk.index);
        match state.store {
            Store::Memory(_) => self.ready.push_back(Completion::Done { token, result: Ok(()) }),
            Store::File(file) => {
                let metadata = disk.info.kind == DiskKind::Block;
                self.core.start(Origin::Caller(token), Op::Sync { file, metadata });
            }
        }
    }

    /// Makes `len` bytes at `offset` read as zero; ends in [`Completion::Done`].
    pub fn write_zeroes(
        &mut self,
        disk: &Disk,
        offset: u64,
        len: u64,
        options: ZeroOptions,
        token: u64,
    ) {
        let mode = match options.keep_allocated {
            true => libc::FALLOC_FL_ZERO_RANGE,
            false => libc::FALLOC_FL_PUNCH_HOLE,
        };
        let mode = mode | libc::FALLOC_FL_KEEP_SIZE;
        self.deallocate(disk, (offset, len), mode, options.durability, token);
    }

    /// Tells the device that `len` bytes at `offset` are not needed any more; ends in [`Completion::Done`].
    pub fn trim(&mut self, disk: &Disk, offset: u64, len: u64, durability: Durability, token: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        self.deallocate(disk, (offset, len), mode, durability, token);
    }

    fn deallocate(
        &mut self,
        disk: &Disk,
        (offset, len): (u64, u64),
        mode: i32,
        durability: Durability,
        token: u64,
    ) {
        let state = self.disks.get_mut(disk.index);
        let result = match (state.check_write(offset, len), &mut state.store) {
            (Err(error), _) => Err(error),
            (Ok(()), _) if len == 0 => Ok(()),
            (Ok(()), Store::Memory(memory)) => memory.zero(offset, len),
            (Ok(()), &mut Store::File(file)) => {
                let durable = durability == Durability::Durable;
                let op = Op::Fallocate { file, mode, offset, len, durable };
                self.core.start(Origin::Caller(token), op);
                return;
            }
        };
        self.ready.push_back(Completion::Done { token, result });
    }

    pub(crate) fn handle_disk(&mut self, landed: Landed) -> Option<Completion> {
        let Origin::Caller(token) = landed.origin;
        let interrupted = is(&landed.result, libc::EINTR) || is(&landed.result, libc::EAGAIN);
        match landed.op {
            op if interrupted => {
                self.core.start(landed.origin, op);
                None
            }
            Op::Read { file, offset, buffer, done } => {
                let result = match progress(landed.result, done, &buffer) {
                    Ok(done) if (done as usize) < buffer.len() => {
                        self.core.start(landed.origin, Op::Read { file, offset, buffer, done });
                        return None;
                    }
                    result => result.map(drop),
                };
                Some(Completion::Read { token, buffer, result })
            }
            Op::Write { file, offset, buffer, done, durable } => {
                let result = match progress(landed.result, done, &buffer) {
                    Ok(done) if (done as usize) < buffer.len() => {
                        let op = Op::Write { file, offset, buffer, done, durable };
                        self.core.start(landed.origin, op);
                        return None;
                    }
                    result => result.map(drop),
                };
                Some(Completion::Written { token, buffer, result })
            }
            Op::Fallocate { file, durable: true, .. } if landed.result.is_ok() => {
                self.core.start(landed.origin, Op::Sync { file, metadata: false });
                None
            }
            Op::Sync { .. } | Op::Fallocate { .. } => {
                Some(Completion::Done { token, result: landed.result.map(drop) })
            }
            op => unreachable!("not an operation on a disk: {op:?}"),
        }
    }
}

/// Bytes done after a step. No progress inside the device's size means that the file was cut short under us.
fn progress(result: io::Result<u32>, done: u32, buffer: &IoBuf) -> io::Result<u32> {
    match result? {
        0 if (done as usize) < buffer.len() => Err(io::ErrorKind::UnexpectedEof.into()),
        more => Ok(done + more),
    }
}
