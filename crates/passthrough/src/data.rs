//! Requests on open files.

use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, fdatasync, fsync, seek};
use rustix::io::{Errno, Result, pread, pwrite};
use weir_fuse_proto::flags::WriteFlags;
use weir_fuse_proto::{Op, Request, reply};

use crate::buffer::Worker;
use crate::node::errno;
use crate::pass_through::PassThrough;

/// Most bytes of a copy in one call, so that a request ends within a time: a program asks again for the rest.
const COPY_MAX: u64 = 64 << 20;

impl PassThrough {
    pub(crate) fn data(&self, request: &Request<'_>, worker: &mut Worker) -> Result<()> {
        let unique = request.unique;
        match request.op {
            Op::Read { handle, offset, size, .. } => {
                let file = self.files.get(handle)?;
                return worker.reply.set_data(unique, size as usize, |bytes| {
                    let mut done = 0;
                    // The kernel takes less than it asked for as the end of the file.
                    while done < bytes.len() {
                        match pread(&file.fd, &mut bytes[done..], offset + done as u64) {
                            Ok(0) => break,
                            Ok(len) => done += len,
                            Err(Errno::INTR) => {}
                            Err(error) if done == 0 => return Err(error),
                            Err(_) => break,
                        }
                    }
                    Ok(done)
                });
            }
            Op::Write { handle, offset, data, write_flags, .. } => {
                let file = self.files.get(handle)?;
                worker.caller.kill_suidgid(write_flags.contains(WriteFlags::KILL_SUIDGID))?;
                let mut done = 0;
                while done < data.len() {
                    match pwrite(&file.fd, &data[done..], offset + done as u64) {
                        Ok(len) => done += len,
                        Err(Errno::INTR) => {}
                        Err(error) if done == 0 => return Err(error),
                        Err(_) => break,
                    }
                }
                worker.reply.set(&reply::written(unique, done as u32));
            }
            Op::Fallocate { handle, offset, len, mode } => {
                let file = self.files.get(handle)?;
                worker.caller.kill_suidgid(true)?;
                fallocate(&file.fd, FallocateFlags::from_bits_retain(mode), offset, len)?;
                worker.reply.set(&reply::ok(unique));
            }
            Op::Lseek { handle, offset, whence } => {
                // Numbers: lseek(2). The kernel does the others itself.
                let place = match whence {
                    3 => SeekFrom::Data(offset),
                    4 => SeekFrom::Hole(offset),
                    _ => return Err(Errno::INVAL),
                };
                let found = seek(&self.files.get(handle)?.fd, place)?;
                worker.reply.set(&reply::position(unique, found));
            }
            Op::CopyFileRange { handle, offset, to_handle, to_offset, len, is_wide, .. } => {
                let (from, to) = (self.files.get(handle)?, self.files.get(to_handle)?);
                worker.caller.kill_suidgid(true)?;
                let len = len.min(COPY_MAX) as usize;
                let (mut from_offset, mut to_offset) = (offset, to_offset);
                let copied = copy_file_range(
                    &from.fd,
                    Some(&mut from_offset),
                    &to.fd,
                    Some(&mut to_offset),
                    len,
                )?;
                match is_wide {
                    true => worker.reply.set(&reply::copied(unique, copied as u64)),
                    false => worker.reply.set(&reply::written(unique, copied as u32)),
                }
            }
            Op::Flush { handle, .. } => {
                // What closing a descriptor does below: NFS writes then, and tells what went wrong.
                let copy = rustix::io::dup(&self.files.get(handle)?.fd)?;
                weir_uring::close(copy).map_err(|error| errno(&error))?;
                worker.reply.set(&reply::ok(unique));
            }
            Op::Fsync { handle, data_only } | Op::Fsyncdir { handle, data_only } => {
                let file = self.files.get(handle)?;
                match data_only {
                    true => fdatasync(&file.fd)?,
                    false => fsync(&file.fd)?,
                }
                worker.reply.set(&reply::ok(unique));
            }
            _ => return Err(Errno::NOSYS),
        }
        Ok(())
    }
}
