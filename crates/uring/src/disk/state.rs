//! The ring's side of its devices.

use std::io;

use super::info::{DiskInfo, DiskKind};
use super::job::{BOUNCE, Job, Work};
use super::memory::Memory;
use super::ranges::Ranges;
use crate::op::Op;
use crate::pool::BufferPool;

/// Where the bytes are.
pub(crate) enum Store {
    /// Behind a descriptor of the ring.
    File(u32),
    /// Here.
    Memory(Memory),
}

/// What waits for its claim.
pub(crate) enum Waiting {
    /// A plain write, with the caller's token.
    Write(u64, Op),
    /// A job, by its number.
    Job(u32),
}

/// One attached device.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) info: DiskInfo,
    /// Bytes that it had when it was looked at last: fewer than at first where it was cut short or is gone.
    pub(crate) present: u64,
    /// Used on direct devices only: elsewhere the kernel keeps parts of a block apart.
    pub(crate) ranges: Ranges<Waiting>,
    /// Ways ([`super::zeroing::Way::bit`]) that the device turned out not to have.
    pub(crate) refused: u8,
    pub(crate) sync_failures: SyncFailures,
}

/// Failures to make acknowledged bytes of any caller durable.
///
/// The kernel throws such bytes away, or keeps them as if they were clean, and tells the next caller that all is well. So
/// each caller has to be told once by its server. (The same lesson in other programs: PostgreSQL's
/// `data_sync_retry`, QEMU's inconsistent page cache; the kernel's own answer is `errseq_t`, once for each open file.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SyncFailures {
    /// How many there were.
    pub count: u64,
    /// The errno of the last one.
    pub errno: i32,
}

impl SyncFailures {
    pub(crate) fn note(&mut self, errno: i32) {
        (self.count, self.errno) = (self.count + 1, errno);
    }
}

/// All attached devices, and the jobs on them.
pub(crate) struct Disks {
    states: Vec<State>,
    jobs: Vec<Option<Job>>,
    vacant: Vec<u32>,
    /// Buffers for jobs. Apart from the ring's pool, because a job whose caller holds the whole budget must end.
    pub(crate) bounces: BufferPool,
    /// Jobs that wait for one of them.
    pub(crate) bounceless: std::collections::VecDeque<u32>,
}

/// Jobs that work at once by way of a bounce buffer; further ones wait. Such requests are the exception.
const BOUNCES: usize = 16;

impl Disks {
    pub(crate) fn new() -> io::Result<Disks> {
        let bounces = BufferPool::new(BOUNCES * BOUNCE as usize)?;
        let (states, jobs, vacant) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Disks { states, jobs, vacant, bounces, bounceless: Default::default() })
    }

    pub(crate) fn insert(&mut self, store: Store, info: DiskInfo) -> u32 {
        self.states.push(State {
            store,
            present: info.size,
            info,
            ranges: Ranges::new(),
            refused: 0,
            sync_failures: SyncFailures::default(),
        });
        self.states.len() as u32 - 1
    }

    pub(crate) fn get(&self, index: u32) -> &State {
        &self.states[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut State {
        &mut self.states[index as usize]
    }

    /// The device that uses a file of the ring.
    pub(crate) fn of_file(&self, file: u32) -> u32 {
        let index = self
            .states
            .iter()
            .position(|state| matches!(state.store, Store::File(it) if it == file));
        index.expect("a device's file") as u32
    }

    pub(crate) fn add_job(&mut self, job: Job) -> u32 {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() as u32 - 1
        });
        self.jobs[number as usize] = Some(job);
        number
    }

    pub(crate) fn job_mut(&mut self, number: u32) -> &mut Job {
        self.jobs[number as usize].as_mut().expect("a job that runs")
    }

    pub(crate) fn remove_job(&mut self, number: u32) -> Job {
        self.vacant.push(number);
        self.jobs[number as usize].take().expect("a job that runs")
    }
}

impl State {
    /// A job on this device, which is number `disk`.
    pub(crate) fn job(&self, disk: u32, token: u64, work: Work) -> Job {
        Job::new(token, disk, work, u64::from(self.info.block_bytes), self.info.direct)
    }

    /// Whether a read or write of `len` bytes at `offset` can go to the device as it is.
    pub(crate) fn takes(&self, offset: u64, len: usize) -> bool {
        let block = u64::from(self.info.block_bytes);
        !self.info.direct || (offset.is_multiple_of(block) && (len as u64).is_multiple_of(block))
    }

    /// Blocks for fallocate and discard: byte by byte on a buffered file, the device's blocks otherwise.
    pub(crate) fn zeroing_block(&self) -> u64 {
        match self.info.kind {
            DiskKind::Block => u64::from(self.info.block_bytes),
            _ if self.info.direct => u64::from(self.info.block_bytes),
            _ => 1,
        }
    }

    /// Whether `offset..offset + len` may be read: `EINVAL` outside the device.
    pub(crate) fn check_read(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check_inside(offset, len, libc::EINVAL)
    }

    /// Whether it may be written: `ENOSPC` outside the device, `EROFS` if nothing may be, `EIO` where the device has
    /// nothing any more. A write there would make a file that was cut short grow again, with zeroes for what is lost.
    pub(crate) fn check_write(&self, offset: u64, len: u64) -> io::Result<()> {
        if self.info.read_only {
            return Err(io::Error::from_raw_os_error(libc::EROFS));
        }
        self.check_inside(offset, len, libc::ENOSPC)?;
        match offset + len > self.present {
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
            false => Ok(()),
        }
    }

    fn check_inside(&self, offset: u64, len: u64, errno: i32) -> io::Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.info.size => Ok(()),
            _ => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(direct: bool) -> State {
        let info = DiskInfo {
            kind: DiskKind::File,
            size: 8192,
            read_only: false,
            direct,
            block_bytes: if direct { 512 } else { 1 },
            rotational: None,
        };
        let mut disks = Disks::new().unwrap();
        disks.insert(Store::File(0), info);
        disks.states.remove(0)
    }

    #[test]
    fn only_whole_blocks_go_to_a_direct_device_as_they_are() {
        for (offset, len, whole) in
            [(0, 512, true), (512, 1024, true), (1, 512, false), (0, 1, false)]
        {
            assert_eq!(state(true).takes(offset, len), whole);
            assert!(state(false).takes(offset, len));
        }
    }

    #[test]
    fn ranges_are_checked_without_overflow() {
        let state = state(false);
        for (offset, len, errno) in [
            (0, 8192, None),
            (8192, 0, None),
            (8192, 1, Some(libc::EINVAL)),
            (u64::MAX, 2, Some(libc::EINVAL)),
        ] {
            let error = state.check_read(offset, len).err().and_then(|error| error.raw_os_error());
            assert_eq!(error, errno, "{len} at {offset}");
        }
        assert_eq!(state.check_write(1, 8192).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    }
}
