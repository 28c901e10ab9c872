//! Operations of several steps: parts of blocks on a direct device, zeroing with its ways and fallbacks.
//!
//! A job only says what to do next and is told how it went; [`super::run`] does it.

use std::io;

use super::Durability;
use super::ranges::ClaimId;
use super::zeroing::{Otherwise, Way, Zeroing};
use crate::pool::IoBuf;

/// Bytes that a job reads or writes at once by way of its own buffer.
pub(crate) const BOUNCE: u64 = 256 << 10;

/// Bytes of zeroes written at once: bounded, so that a long range does not hold up the device.
pub(crate) const ZERO_CHUNK: u64 = 1 << 20;

/// One operation in several steps.
pub(crate) struct Job {
    pub(crate) token: u64,
    pub(crate) disk: u32,
    /// What it holds while it writes.
    pub(crate) claim: Option<ClaimId>,
    pub(crate) work: Work,
    block: u64,
    direct: bool,
    phase: Phase,
}

/// What was asked for.
pub(crate) enum Work {
    /// Read `buffer` at `offset`, not on block boundaries.
    Read { buffer: IoBuf, offset: u64 },
    /// Write `buffer` at `offset`, not on block boundaries.
    Write { buffer: IoBuf, offset: u64, durability: Durability },
    /// Zero or give up a range.
    Zero(Zeroing),
}

/// Where a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Trying a way on the middle.
    Way(usize),
    /// Writing zeroes to the middle, from here on.
    Fill(u64),
    /// In part number `part` of the range, from `at` on; `loaded` once its blocks are in the bounce buffer.
    Part { part: usize, at: u64, loaded: bool },
    /// Making it last.
    Sync,
    /// Nothing left.
    End,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Try a way.
    Try { way: Way, offset: u64, len: u64 },
    /// Write zeroes.
    WriteZeroes { offset: u64, len: u32 },
    /// Read whole blocks into the bounce buffer.
    Load { offset: u64, len: u32 },
    /// Write the bounce buffer, after [`Job::patch`].
    Store { offset: u64, len: u32, durable: bool },
    /// Make all ended writes durable.
    Sync,
    /// The job is over.
    End,
}

impl Job {
    /// A job on a device whose blocks are `block` bytes, `direct` if nothing but whole blocks can be read or written.
    pub(crate) fn new(token: u64, disk: u32, work: Work, block: u64, direct: bool) -> Job {
        let phase = match work {
            Work::Read { offset, .. } | Work::Write { offset, .. } => {
                Phase::Part { part: 0, at: offset, loaded: false }
            }
            Work::Zero(ref plan) if !plan.middle.is_empty() => Phase::Way(0),
            Work::Zero(ref plan) => Phase::Part { part: 0, at: plan.edges[0].start, loaded: false },
        };
        let mut job = Job { token, disk, claim: None, work, block, direct, phase };
        job.settle();
        job
    }

    /// What to do next; the same until [`Job::advance`] is told how it went.
    pub(crate) fn step(&self) -> Step {
        match (self.phase, &self.work) {
            (Phase::Way(index), Work::Zero(plan)) => {
                let (offset, len) = (plan.middle.start, plan.middle.end - plan.middle.start);
                Step::Try { way: plan.ways[index], offset, len }
            }
            (Phase::Fill(at), Work::Zero(plan)) => {
                Step::WriteZeroes { offset: at, len: (plan.middle.end - at).min(ZERO_CHUNK) as u32 }
            }
            (Phase::Part { part, at, .. }, Work::Zero(plan)) if !self.direct => {
                let len = (plan.edges[part].end - at).min(ZERO_CHUNK);
                Step::WriteZeroes { offset: at, len: len as u32 }
            }
            (Phase::Part { at, loaded, .. }, work) => {
                let (offset, len) = self.blocks(at);
                let durable = match work {
                    Work::Write { durability, .. } => *durability == Durability::Durable,
                    Work::Read { .. } | Work::Zero(_) => false,
                };
                if loaded {
                    Step::Store { offset, len, durable }
                } else {
                    Step::Load { offset, len }
                }
            }
            (Phase::Sync, _) => Step::Sync,
            (Phase::End, _) => Step::End,
            (Phase::Way(_) | Phase::Fill(_), _) => unreachable!("only zeroing has a middle"),
        }
    }

    /// After a [`Step::Load`] into `bounce`: takes the asked bytes out of it, or puts the new ones in.
    pub(crate) fn patch(&mut self, bounce: &mut IoBuf) {
        let Phase::Part { part, at, .. } = self.phase else { unreachable!("nothing is loaded") };
        let (offset, _) = self.blocks(at);
        let stop = self.piece_end(part, at);
        let inside = (at - offset) as usize..(stop - offset) as usize;
        match &mut self.work {
            Work::Read { buffer, offset } => {
                let place = (at - *offset) as usize..(stop - *offset) as usize;
                buffer[place].copy_from_slice(&bounce[inside]);
            }
            Work::Write { buffer, offset, .. } => {
                let place = (at - *offset) as usize..(stop - *offset) as usize;
                bounce[inside].copy_from_slice(&buffer[place]);
            }
            Work::Zero(_) => bounce[inside].fill(0),
        }
    }

    /// Takes note that the step succeeded.
    pub(crate) fn advance(&mut self) {
        let step = self.step();
        self.phase = match (self.phase, step) {
            (Phase::Way(_), _) => Phase::Part { part: 0, at: self.part_start(0), loaded: false },
            (Phase::Fill(_), Step::WriteZeroes { offset, len }) => {
                Phase::Fill(offset + u64::from(len))
            }
            (Phase::Part { part, .. }, Step::WriteZeroes { offset, len }) => {
                Phase::Part { part, at: offset + u64::from(len), loaded: false }
            }
            (Phase::Part { part, at, loaded: false }, Step::Load { .. })
                if !matches!(self.work, Work::Read { .. }) =>
            {
                Phase::Part { part, at, loaded: true }
            }
            (Phase::Part { part, at, .. }, _) => {
                Phase::Part { part, at: self.piece_end(part, at), loaded: false }
            }
            (Phase::Fill(_) | Phase::Sync | Phase::End, _) => Phase::End,
        };
        self.settle();
    }

    /// Takes note that a way does not exist on this device; an error if there is nothing else to do.
    pub(crate) fn refuse(&mut self) -> io::Result<()> {
        let Phase::Way(index) = self.phase else { unreachable!("only ways are refused") };
        self.phase = Phase::Way(index + 1);
        self.settle_way()?;
        self.settle();
        Ok(())
    }

    /// Skips ways known not to work (a set of [`Way::bit`]) before the first step; an error as from `refuse`.
    pub(crate) fn skip(&mut self, refused: u8) -> io::Result<()> {
        while let (Phase::Way(index), Work::Zero(plan)) = (self.phase, &self.work) {
            match plan.ways.get(index) {
                Some(way) if refused & way.bit() == 0 => break,
                Some(_) => self.phase = Phase::Way(index + 1),
                None => self.settle_way()?,
            }
        }
        self.settle();
        Ok(())
    }

    /// The blocks it writes parts of, or all it writes, whichever must be claimed; `None` if it only reads.
    pub(crate) fn span(&self) -> Option<(u64, u64, bool)> {
        let (start, end, alone) = match &self.work {
            Work::Read { .. } => return None,
            Work::Write { buffer, offset, .. } => (*offset, offset + buffer.len() as u64, true),
            Work::Zero(plan) => {
                let all = [&plan.middle, &plan.edges[0], &plan.edges[1]];
                let ranges = all.iter().filter(|range| !range.is_empty());
                let start = ranges.clone().map(|range| range.start).min()?;
                let end = ranges.map(|range| range.end).max()?;
                (start, end, plan.edges.iter().any(|edge| !edge.is_empty()))
            }
        };
        Some((start / self.block * self.block, end.next_multiple_of(self.block), alone))
    }

    /// After the last way: what was planned for that case.
    fn settle_way(&mut self) -> io::Result<()> {
        let (Phase::Way(index), Work::Zero(plan)) = (self.phase, &self.work) else { return Ok(()) };
        if index < plan.ways.len() {
            return Ok(());
        }
        self.phase = match plan.otherwise {
            Otherwise::Write => Phase::Fill(plan.middle.start),
            Otherwise::Fail => return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            Otherwise::Ignore => Phase::End,
        };
        Ok(())
    }

    /// Moves on from phases that have nothing left to do.
    fn settle(&mut self) {
        loop {
            self.phase = match (self.phase, &self.work) {
                (Phase::Fill(at), Work::Zero(plan)) if at >= plan.middle.end => {
                    Phase::Part { part: 0, at: plan.edges[0].start, loaded: false }
                }
                (Phase::Part { part, at, .. }, _) if at >= self.part_end(part) => {
                    match (&self.work, part) {
                        (Work::Zero(plan), 0) => {
                            Phase::Part { part: 1, at: plan.edges[1].start, loaded: false }
                        }
                        (Work::Zero(plan), _) if plan.durability == Durability::Durable => {
                            Phase::Sync
                        }
                        _ => Phase::End,
                    }
                }
                _ => return,
            };
        }
    }

    fn part_start(&self, part: usize) -> u64 {
        match &self.work {
            Work::Read { offset, .. } | Work::Write { offset, .. } => *offset,
            Work::Zero(plan) => plan.edges[part].start,
        }
    }

    fn part_end(&self, part: usize) -> u64 {
        match &self.work {
            Work::Read { buffer, offset } | Work::Write { buffer, offset, .. } => {
                offset + buffer.len() as u64
            }
            Work::Zero(plan) => plan.edges[part].end,
        }
    }

    /// Where the piece that starts at `at` ends: with its part, or with the bounce buffer.
    fn piece_end(&self, part: usize, at: u64) -> u64 {
        self.part_end(part).min(at / self.block * self.block + BOUNCE)
    }

    /// The whole blocks around the piece that starts at `at`: offset and length.
    fn blocks(&self, at: u64) -> (u64, u32) {
        let Phase::Part { part, .. } = self.phase else { unreachable!("only parts have blocks") };
        let start = at / self.block * self.block;
        let end = self.piece_end(part, at).next_multiple_of(self.block);
        (start, (end - start) as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::super::ZeroOptions;
    use super::super::info::DiskKind;
    use super::super::zeroing::zero;
    use super::*;
    use crate::pool::BufferPool;

    const BLOCK: u64 = 512;

    /// A device of bytes that takes whole blocks only if `direct`, and has the ways of `ways`.
    struct Device {
        bytes: Vec<u8>,
        direct: bool,
        ways: u8,
        steps: u32,
    }

    impl Device {
        fn new(direct: bool, ways: u8) -> Device {
            let bytes = (0..2_000 * BLOCK).map(|at| (at % 251) as u8 + 1).collect();
            Device { bytes, direct, ways, steps: 0 }
        }

        fn range(&mut self, offset: u64, len: u64) -> Range<usize> {
            assert!(len > 0, "a step that does nothing");
            assert!(!self.direct || offset.is_multiple_of(BLOCK) && len.is_multiple_of(BLOCK));
            self.steps += 1;
            offset as usize..(offset + len) as usize
        }

        /// Does what the job says until its end.
        fn run(&mut self, job: &mut Job, pool: &BufferPool) -> io::Result<()> {
            job.skip(0)?;
            let mut bounce = None;
            loop {
                match job.step() {
                    Step::Try { way, .. } if self.ways & way.bit() == 0 => job.refuse()?,
                    Step::Try { offset, len, .. } => {
                        let range = self.range(offset, len);
                        self.bytes[range].fill(0);
                        job.advance();
                    }
                    Step::WriteZeroes { offset, len } => {
                        assert!(u64::from(len) <= ZERO_CHUNK);
                        let range = self.range(offset, len.into());
                        self.bytes[range].fill(0);
                        job.advance();
                    }
                    Step::Load { offset, len } => {
                        assert!(u64::from(len) <= BOUNCE);
                        let mut buffer = pool.get(len as usize).unwrap();
                        let range = self.range(offset, len.into());
                        buffer.copy_from_slice(&self.bytes[range]);
                        job.patch(&mut buffer);
                        job.advance();
                        bounce = Some(buffer);
                    }
                    Step::Store { offset, len, .. } => {
                        let range = self.range(offset, len.into());
                        self.bytes[range].copy_from_slice(&bounce.take().expect("loaded before"));
                        job.advance();
                    }
                    Step::Sync => job.advance(),
                    Step::End => return Ok(()),
                }
            }
        }
    }

    const RANGES: [(u64, u64); 8] = [
        (0, 512),
        (1, 511),
        (1, 1),
        (511, 2),
        (100, 5_000),
        (512, 700_001),
        (777, 900_000),
        (1_000_000, 24_000),
    ];

    #[test]
    fn parts_of_blocks_are_read_and_written() {
        let pool = BufferPool::new(4 << 20).unwrap();
        for (offset, len) in RANGES {
            let mut device = Device::new(true, 0);
            let mut wanted = device.bytes.clone();
            let place = offset as usize..(offset + len) as usize;

            let mut buffer = pool.get(len as usize).unwrap();
            buffer.fill(255);
            wanted[place.clone()].fill(255);
            let work = Work::Write { buffer, offset, durability: Durability::Volatile };
            let mut job = Job::new(1, 0, work, BLOCK, true);
            assert_eq!(
                job.span(),
                Some((offset / BLOCK * BLOCK, (offset + len).next_multiple_of(BLOCK), true))
            );
            device.run(&mut job, &pool).unwrap();
            assert!(device.bytes == wanted, "write of {len} at {offset}");

            let buffer = pool.get(len as usize).unwrap();
            let mut job = Job::new(1, 0, Work::Read { buffer, offset }, BLOCK, true);
            assert_eq!(job.span(), None);
            device.run(&mut job, &pool).unwrap();
            let Work::Read { buffer, .. } = job.work else { unreachable!() };
            assert!(buffer[..] == wanted[place], "read of {len} at {offset}");
        }
    }

    #[test]
    fn zeroing_zeroes_its_range_only_whatever_the_device_has() {
        let pool = BufferPool::new(4 << 20).unwrap();
        let every = [Way::Punch, Way::ZeroInPlace, Way::Discard].map(Way::bit);
        for direct in [true, false] {
            for ways in [0, every[0], every[1], every[0] | every[1] | every[2]] {
                for keep_allocated in [false, true] {
                    for (offset, len) in RANGES {
                        let mut device = Device::new(direct, ways);
                        let mut wanted = device.bytes.clone();
                        wanted[offset as usize..(offset + len) as usize].fill(0);
                        let options = ZeroOptions { keep_allocated, ..ZeroOptions::default() };
                        let block = if direct { BLOCK } else { 1 };
                        let plan = zero(offset..offset + len, block, DiskKind::File, options);
                        let mut job = Job::new(1, 0, Work::Zero(plan), block, direct);
                        device.run(&mut job, &pool).unwrap();
                        assert!(device.bytes == wanted, "{len} at {offset}, ways {ways:b}");
                        assert!(!keep_allocated || device.steps < 20, "{} steps", device.steps);
                    }
                }
            }
        }
    }

    #[test]
    fn fast_zeroing_fails_before_it_changes_anything() {
        let pool = BufferPool::new(4 << 20).unwrap();
        let options = ZeroOptions { fast_only: true, ..ZeroOptions::default() };
        let plan = zero(100..5000, BLOCK, DiskKind::File, options);
        let mut device = Device::new(true, 0);
        let mut job = Job::new(1, 0, Work::Zero(plan.clone()), BLOCK, true);
        let error = device.run(&mut job, &pool).unwrap_err();
        assert_eq!((error.raw_os_error(), device.steps), (Some(libc::EOPNOTSUPP), 0));
        // Known beforehand, it is not even tried.
        let mut job = Job::new(1, 0, Work::Zero(plan), BLOCK, true);
        assert!(job.skip(Way::Punch.bit() | Way::ZeroInPlace.bit()).is_err());
    }

    #[test]
    fn durable_zeroing_ends_with_a_sync() {
        let options = ZeroOptions { durability: Durability::Durable, ..ZeroOptions::default() };
        let plan = zero(0..512, BLOCK, DiskKind::File, options);
        let mut job = Job::new(1, 0, Work::Zero(plan), BLOCK, true);
        job.skip(0).unwrap();
        assert_eq!(job.step(), Step::Try { way: Way::Punch, offset: 0, len: 512 });
        job.advance();
        assert_eq!(job.step(), Step::Sync);
        job.advance();
        assert_eq!(job.step(), Step::End);
    }
}
