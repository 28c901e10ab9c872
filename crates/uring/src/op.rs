//! An operation in flight: everything the kernel points at, and the entry that points at it.
#![allow(unsafe_code)]

use std::rc::Rc;

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::FsyncFlags;

use crate::disk::ClaimId;
use crate::files::Files;
use crate::fixed::FixedBuffers;
use crate::mapping::Mapping;
use crate::message::Message;
use crate::pool::IoBuf;
use crate::receive::GROUP;

/// `BLOCK_URING_CMD_DISCARD`, `_IO(0x12, 0)` of linux/blkdev.h (Linux 6.12): the offset goes into `addr`, the length
/// into `addr3`, which is where a command's own bytes begin.
const BLOCK_DISCARD: u32 = 0x1200;

/// An operation with all it needs, so that its holder holds the memory too.
#[derive(Debug)]
pub(crate) enum Op {
    /// Receive into a buffer of the kernel's choice.
    Receive { file: u32, most: u32 },
    /// Receive `buffer[done..]`.
    Fill { file: u32, buffer: IoBuf, done: u32 },
    /// Send what is left of a sealed message.
    Send { file: u32, message: Message },
    /// Wait for an eventfd to be written.
    Wake { file: u32 },
    /// End every other operation on the file.
    Cancel { file: u32 },
    /// Read `buffer[done..]` from `offset + done`.
    Read { file: u32, offset: u64, buffer: IoBuf, done: u32 },
    /// Write `buffer[done..]` to `offset + done`; `durable` before it ends. Keeps its claim on the range. `failed`: the errno
    /// of a durable write that failed, while the same bytes are written without that.
    Write {
        file: u32,
        offset: u64,
        buffer: IoBuf,
        done: u32,
        durable: bool,
        failed: Option<i32>,
        claim: Option<ClaimId>,
    },
    /// Write `len` zeroes at `offset`; at most as many as `zeroes` has.
    WriteZeroes { file: u32, offset: u64, len: u32, zeroes: Rc<Mapping> },
    /// Make all ended writes durable: data and what is needed to find it, or all metadata too.
    Sync { file: u32, metadata: bool },
    /// fallocate(2).
    Fallocate { file: u32, mode: i32, offset: u64, len: u64 },
    /// Have the page cache read ahead; the kernel takes lengths below 4 GiB.
    Prefetch { file: u32, offset: u64, len: u32 },
    /// A block device's discard.
    Discard { file: u32, offset: u64, len: u64 },
}

impl Op {
    /// The file it works on.
    pub(crate) fn file(&self) -> u32 {
        match *self {
            Op::Receive { file, .. }
            | Op::Fill { file, .. }
            | Op::Send { file, .. }
            | Op::Wake { file }
            | Op::Cancel { file }
            | Op::Read { file, .. }
            | Op::Write { file, .. }
            | Op::WriteZeroes { file, .. }
            | Op::Sync { file, .. }
            | Op::Fallocate { file, .. }
            | Op::Prefetch { file, .. }
            | Op::Discard { file, .. } => file,
        }
    }

    /// The entry for the kernel. Every address in it lies in memory that `self` owns (a buffer's chunk, a message's
    /// parts) and does not move when `self` does.
    pub(crate) fn entry(&mut self, files: &Files, fixed: &mut FixedBuffers) -> Entry {
        let (fd, flags) = files.target(self.file());
        let null: *mut u8 = std::ptr::null_mut();
        let entry = match self {
            Op::Receive { most, .. } => opcode::Recv::new(fd, null.cast(), *most)
                .buf_group(GROUP)
                .build()
                .flags(Flags::BUFFER_SELECT),
            Op::Fill { buffer, done, .. } => {
                let (start, len) = rest(buffer, *done);
                opcode::Recv::new(fd, start, len).flags(libc::MSG_WAITALL).build()
            }
            Op::Send { message, .. } => opcode::SendMsg::new(fd, message.header())
                .flags((libc::MSG_WAITALL | libc::MSG_NOSIGNAL) as u32)
                .build(),
            Op::Wake { .. } => opcode::PollAdd::new(fd, libc::POLLIN as u32).build(),
            Op::Cancel { file } => {
                // Names the file itself: the entry's own file flags must stay empty.
                return opcode::AsyncCancel2::new(files.cancel_all(*file)).build();
            }
            Op::Read { offset, buffer, done, .. } => {
                let (start, len) = rest(buffer, *done);
                let offset = *offset + u64::from(*done);
                match fixed.index(buffer) {
                    Some(index) => {
                        opcode::ReadFixed::new(fd, start, len, index).offset(offset).build()
                    }
                    None => opcode::Read::new(fd, start, len).offset(offset).build(),
                }
            }
            Op::Write { offset, buffer, done, durable, .. } => {
                let (start, len) = rest(buffer, *done);
                let offset = *offset + u64::from(*done);
                let durable = if *durable { libc::RWF_DSYNC } else { 0 };
                match fixed.index(buffer) {
                    Some(index) => opcode::WriteFixed::new(fd, start, len, index)
                        .offset(offset)
                        .rw_flags(durable)
                        .build(),
                    None => {
                        opcode::Write::new(fd, start, len).offset(offset).rw_flags(durable).build()
                    }
                }
            }
            Op::WriteZeroes { offset, len, zeroes, .. } => {
                assert!(*len as usize <= zeroes.len(), "{len} zeroes of {}", zeroes.len());
                opcode::Write::new(fd, zeroes.start().as_ptr(), *len).offset(*offset).build()
            }
            Op::Sync { metadata, .. } => {
                let flags = if *metadata { FsyncFlags::empty() } else { FsyncFlags::DATASYNC };
                opcode::Fsync::new(fd).flags(flags).build()
            }
            Op::Fallocate { mode, offset, len, .. } => {
                opcode::Fallocate::new(fd, *len).offset(*offset).mode(*mode).build()
            }
            Op::Prefetch { offset, len, .. } => {
                opcode::Fadvise::new(fd, i64::from(*len), libc::POSIX_FADV_WILLNEED)
                    .offset(*offset)
                    .build()
            }
            Op::Discard { offset, len, .. } => {
                let mut command = [0; 16];
                command[..8].copy_from_slice(&len.to_ne_bytes());
                opcode::UringCmd16::new(fd, BLOCK_DISCARD).addr(Some(*offset)).cmd(command).build()
            }
        };
        entry.flags(flags)
    }
}

/// Address and length of `buffer[done..]`.
fn rest(buffer: &IoBuf, done: u32) -> (*mut u8, u32) {
    assert!(done as usize <= buffer.len(), "{done} of {} bytes done", buffer.len());
    // SAFETY: inside the buffer, or one past its end, by the assertion. No safe way: an entry holds an address.
    let start = unsafe { buffer.start().add(done as usize) };
    (start.as_ptr(), buffer.len() as u32 - done)
}
