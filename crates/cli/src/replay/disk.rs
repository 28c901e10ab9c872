//! Files and block devices: threads that each do one request at a time.
//!
//! Not the server's ring: a replay wants few requests at once and each of them timed where it ends, and blocking calls
//! show what any program would see.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, ioctl_blksszget, seek};
use rustix::io::Errno;
use weir_engine::Op;

use super::fit::Room;
use super::target::{Done, EMPTY_HEAD, IN_FLIGHT_MAX, Job, looks_used, no_room};
use super::{Intent, Message};
use crate::clock;
use crate::failure::Failure;
use crate::pattern::pattern;

/// A longer request is carried out in pieces of this size, one after the other; block layers do the same.
const PIECE: usize = 1 << 20;

/// Memory for direct I/O begins at a multiple of this: no disk asks for more.
const ALIGN: usize = 4096;

/// An open file or block device, and the threads at it.
pub(super) struct Disk {
    file: Arc<File>,
    room: Room,
    jobs: Sender<Job>,
    inbox: Arc<Mutex<Receiver<Job>>>,
    done: Sender<Message>,
    filler: Arc<Aligned>,
    threads: usize,
    /// Requests given to the threads, and not known to be over: no fewer threads than these are needed.
    busy: Arc<std::sync::atomic::AtomicUsize>,
}

impl Disk {
    /// Opens it: a block device past the page cache, unless `intent` says otherwise; a file through it.
    ///
    /// A block device that is to be written to is opened exclusively, which the kernel refuses while it, or a part of
    /// it, is mounted or otherwise in use.
    pub(super) fn open(name: &str, intent: Intent, done: Sender<Message>) -> Result<Disk, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("{name}: {error}"));
        let is_device = std::fs::metadata(name).map_err(failed)?.file_type().is_block_device();
        let direct = intent.direct.unwrap_or(is_device);
        let mut flags = OFlags::empty();
        if direct {
            flags |= OFlags::DIRECT;
        }
        if is_device && intent.write && !intent.force {
            flags |= OFlags::EXCL;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(intent.write)
            .custom_flags(flags.bits().cast_signed())
            .open(name)
            .map_err(|error| refused(name, &error))?;
        let metadata = file.metadata().map_err(failed)?;
        if !is_device && !metadata.is_file() {
            return Err(Failure::wrong(format!("{name} is neither a file nor a block device")));
        }
        let size = match is_device {
            true => seek(&file, SeekFrom::End(0)).map_err(|error| failed(error.into()))?,
            false => metadata.len(),
        };
        let block = match (is_device, direct) {
            (true, _) => ioctl_blksszget(&file).map_err(|error| failed(error.into()))?,
            (false, true) => ALIGN as u32,
            (false, false) => 1,
        };
        let room = Room::new(size, block).ok_or_else(|| no_room(name, size))?;
        if intent.write && !intent.force && !is_empty(&file, room).map_err(failed)? {
            return Err(looks_used(name));
        }
        let (jobs, inbox) = channel();
        let filler = Arc::new(Aligned::filled(&pattern(if intent.write { PIECE } else { 0 })));
        Ok(Disk {
            file: Arc::new(file),
            room,
            jobs,
            inbox: Arc::new(Mutex::new(inbox)),
            done,
            filler,
            threads: 0,
            busy: Arc::default(),
        })
    }

    pub(super) fn room(&self) -> Room {
        self.room
    }

    /// Hands the request to a thread that has nothing to do; there is one, or there will be.
    pub(super) fn start(&mut self, job: Job) -> io::Result<()> {
        use std::sync::atomic::Ordering::Relaxed;
        let busy = self.busy.fetch_add(1, Relaxed) + 1;
        if busy > self.threads && self.threads < IN_FLIGHT_MAX {
            let (file, inbox, done) =
                (Arc::clone(&self.file), Arc::clone(&self.inbox), self.done.clone());
            let (filler, busy) = (Arc::clone(&self.filler), Arc::clone(&self.busy));
            let name = format!("replay-{}", self.threads);
            std::thread::Builder::new().name(name).spawn(move || {
                let mut buffer = Aligned::default();
                // Ends when the sender is gone, and so does the loop when the receiver is gone.
                while let Some(job) = next(&inbox) {
                    let result = carry_out(&file, job, &mut buffer, &filler);
                    let at_ns = clock::now_ns();
                    busy.fetch_sub(1, Relaxed);
                    if done.send(Message::Done(Done { number: job.number, at_ns, result })).is_err()
                    {
                        break;
                    }
                }
            })?;
            self.threads += 1;
        }
        self.jobs.send(job).map_err(io::Error::other)
    }
}

fn next(inbox: &Mutex<Receiver<Job>>) -> Option<Job> {
    // A thread that panicked while waiting has taken nothing.
    inbox.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn refused(name: &str, error: &io::Error) -> Failure {
    let failure = Failure::failed(format!("{name}: {error}"));
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::BUSY) => Failure::wrong(format!(
            "{name} is in use: it, or a part of it, is mounted or has an owner"
        ))
        .hint(
            "unmount it, or leave writes out with --read-only; --force writes all the same"
                .to_owned(),
        ),
        Some(Errno::ACCESS | Errno::PERM) => failure
            .hint("block devices belong to root; a file or an NBD URI needs no rights".to_owned()),
        Some(Errno::INVAL) => failure.hint(
            "its file system may have no direct I/O; --direct off goes through the page cache"
                .to_owned(),
        ),
        _ => failure,
    }
}

/// Whether the beginning is all zeroes.
fn is_empty(file: &File, room: Room) -> io::Result<bool> {
    let mut buffer = Aligned::default();
    let head = buffer.slice(EMPTY_HEAD.min(room.size()) as usize);
    file.read_exact_at(head, 0)?;
    Ok(head.iter().all(|&byte| byte == 0))
}

fn carry_out(file: &File, job: Job, buffer: &mut Aligned, filler: &Aligned) -> io::Result<()> {
    let pieces = (0..u64::from(job.len)).step_by(PIECE).map(|at| {
        let len = PIECE.min((u64::from(job.len) - at) as usize);
        (job.offset + at, len)
    });
    match job.op {
        Op::Read => {
            for (offset, len) in pieces {
                file.read_exact_at(buffer.slice(len), offset)?;
            }
            Ok(())
        }
        Op::Write => {
            for (offset, len) in pieces {
                file.write_all_at(filler.of_len(len), offset)?;
            }
            Ok(())
        }
        Op::Discard => {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            Ok(fallocate(file, mode, job.offset, u64::from(job.len))?)
        }
        Op::Flush => file.sync_data(),
        Op::WriteZeroes | Op::Cache | Op::Status => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Memory that begins at a multiple of [`ALIGN`].
#[derive(Default)]
struct Aligned {
    bytes: Vec<u8>,
}

impl Aligned {
    fn filled(bytes: &[u8]) -> Aligned {
        let mut aligned = Aligned::default();
        aligned.slice(bytes.len()).copy_from_slice(bytes);
        aligned
    }

    fn slice(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len + ALIGN {
            self.bytes = vec![0; len + ALIGN];
        }
        let start = self.start();
        &mut self.bytes[start..][..len]
    }

    fn of_len(&self, len: usize) -> &[u8] {
        &self.bytes[self.start()..][..len]
    }

    fn start(&self) -> usize {
        let address = self.bytes.as_ptr().addr();
        address.next_multiple_of(ALIGN) - address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned() {
        let mut aligned = Aligned::default();
        for len in [1, 512, 4096, 100_000] {
            let slice = aligned.slice(len);
            assert_eq!((slice.len(), slice.as_ptr().addr() % ALIGN), (len, 0));
        }
        let filled = Aligned::filled(&pattern(5000));
        assert_eq!(filled.of_len(5000), pattern(5000));
        assert_eq!(filled.of_len(512).as_ptr().addr() % ALIGN, 0);
    }
}
