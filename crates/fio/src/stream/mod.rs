//! Streams: the requests that one process of a fio job makes, in order.
//!
//! [`Stream`] returns the next request or sync. Its time, and the number of requests in flight, are the caller's. It follows
//! fio 3.33 in all options that shape requests: `rw` in all modes with `:N` and `rw_sequencer`, mixes, block sizes and
//! their alignment, regions, strided zones, limits, distributions, several files, syncs and verification. `tests/stream`
//! has requests that fio wrote down.
//!
//! Intended differences from fio:
//!
//! - Random numbers, and with them each single offset: xoshiro256++, never to change, from the seed, the job's line, name
//!   and clone. `randseed` replaces the seed. In fio, as here, two jobs with one `randseed` differ. `randrepeat=0` and
//!   `allrandrepeat` change only this: with `randrepeat` (the default) each pass over a region with a random map has the
//!   same order, in fio too.
//! - Random map: fio draws and looks for the next free block; here each pass walks a permutation, which is fairer and needs
//!   no memory. Jobs with varying lengths draw, look and mark blocks in a bitmap, as fio does, up to 2^26 blocks, and
//!   above without a map. A mix has one map for both directions, where fio takes each in its own unit; blocks longer than
//!   the shortest of the other direction walk a permutation there.
//! - `random_distribution=zipf` is exact; fio's is an approximation, and sums up to ten million terms first.
//! - `random_distribution=normal` is a bell around its centre, as the HOWTO says. fio 3.33 scatters it over the file like
//!   `zipf`, and hardly heeds the deviation.
//! - Absolute zones are cut at the region's end; fio 3.33 makes a few places of what is beyond.
//! - `zonemode=strided` counts bytes in a zone for each file; fio for all files of a job together. Random requests stay in
//!   their zone, use the rest of one that the file's end cuts, and begin again in one whose blocks are all touched before
//!   its turn is over; fio ends the pass for the latter two.
//! - `fill_device` goes to the end of the region given by the file; here the space is never used up.
//! - Walks backwards (`rw=read:-8k`) start at the region's start and go on at its end, with `offset` too.
//! - `verify_only` reads in the order of the writes.
//! - Verification is in fio's order (of the writes; of the offsets where blocks may have been written twice, and here also
//!   for a mix with rates). It remembers at most a million blocks, and has no part after a `time_based` run, since fio's
//!   ends with the time too.

mod distribution;
mod error;
mod maker;
mod marks;
mod permute;
mod plain;
mod plan;
mod size;
mod verify;

pub use error::StreamError;
pub use plain::Run;
pub use plan::job_seed;

use std::cmp::Ordering;

use crate::{Job, Mix};
use maker::Maker;
use plan::Plan;
use verify::Verify;

/// A step of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A request.
    Io {
        /// Operation.
        access: Access,
        /// Index of the file, from 0.
        file: u32,
        /// First byte, from the file's start.
        offset: u64,
        /// Bytes, at least 1; the request ends within the file.
        len: u32,
    },
    /// Everything written to a file must be on the medium.
    Sync {
        /// Index of the file, from 0.
        file: u32,
        /// Without the file's metadata (`fdatasync`).
        data_only: bool,
    },
}

/// Operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Trim: the bytes are no longer needed.
    Trim,
}

/// Requests of one process, in their order.
///
/// Takes less than a kilobyte, and some 150 bytes for each further file. Jobs with a random map and varying lengths
/// need a bit for each block; jobs that verify in the order of offsets, some 24 bytes for each written block. A step
/// of a plain job costs 10 to 30 ns (the latter for a random map with just more blocks than a power of two), one of
/// `zipf` some 200 ns. Only those notes of blocks allocate.
// Fields of each step first: with many processes the time goes into fetching them.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct Stream {
    phase: Phase,
    /// Whether the last step was one of verification.
    is_verifying: bool,
    /// Whether the files have no room left: the next pass is to begin.
    is_spent: bool,
    /// From the plan: whether only time ends it, and whether writes follow trims.
    is_endless: bool,
    is_trim_write: bool,
    loops_left: u32,
    /// Bytes and requests so far, and all bytes, verification included.
    made_bytes: u64,
    made_requests: u64,
    moved_bytes: u64,
    /// Most of the first two, over all loops.
    bytes_max: u64,
    requests_max: u64,
    verify: Option<Box<Verify>>,
    maker: Maker,
    plan: Box<Plan>,
}

/// Position in a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Making,
    /// Syncs of all files from this one on.
    Closing(u32),
    Verifying,
    /// Another pass, or the end.
    Deciding,
    Over,
}

impl Stream {
    /// The requests of `job` on `files`: bytes of each of its files, in the order of [`Job::files`].
    ///
    /// The same job, files and seed give the same requests, on every machine. Jobs of one file, and clones, differ
    /// with one seed. Options about time, and `read_iolog`, have no effect.
    ///
    /// # Errors
    /// [`StreamError`]: no request could be made, or not all that the job wants.
    pub fn new(job: &Job, files: &[u64], seed: u64) -> Result<Stream, StreamError> {
        let seed = job_seed(job, seed);
        let plan = Box::new(Plan::new(job, files, seed)?);
        let maker = Maker::new(&plan, seed);
        let verify = plan.verify.map(|verify| Box::new(Verify::new(verify, &maker)));
        Ok(Stream {
            phase: Phase::Making,
            is_verifying: false,
            is_spent: false,
            is_endless: plan.is_endless,
            is_trim_write: plan.mix == Mix::TrimWrite,
            made_bytes: 0,
            made_requests: 0,
            moved_bytes: 0,
            loops_left: plan.loops - 1,
            bytes_max: plan.bytes.saturating_mul(plan.loops.into()),
            requests_max: plan.requests_max(),
            verify,
            maker,
            plan,
        })
    }

    /// The next step; None at the end of this loop, but never for a `time_based` job, which ends with its time.
    ///
    /// As in fio, a loop ends with a pass over the files, or with the bytes (`io_size`, `size`) or requests
    /// (`number_ios`) of all loops together; after the last one passes go on if `io_size` asks for more. After its
    /// requests come the syncs of `end_fsync` and `fsync_on_close`, and then the reads of `verify`.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "a stream goes on after None, with `restart`"
    )]
    pub fn next(&mut self) -> Option<Step> {
        if self.phase == Phase::Making
            && self.verify.is_none()
            && self.has_more()
            && let Some(step) = self.maker.make(&self.plan)
        {
            self.account(&step);
            return Some(step);
        }
        self.next_rare()
    }

    /// Puts the next requests of a plain job into `run`, which is empty, up to the end of a loop or pass. Until
    /// [`Stream::take_back`] no other method may be called.
    pub fn lend(&mut self, run: &mut Run) {
        let Some(plain) = &mut self.maker.plain else { return };
        if self.phase != Phase::Making || self.verify.is_some() {
            return;
        }
        let bytes = self.bytes_max.saturating_sub(self.made_bytes);
        let requests = self.requests_max.saturating_sub(self.made_requests);
        let in_loop = bytes.div_ceil(u64::from(plain.len).max(1)).min(requests);
        // Endless streams do not count what they make.
        let in_loop = if self.is_endless && in_loop > 0 { u64::MAX } else { in_loop };
        plain.left = u32::try_from(in_loop.min(plain.left_in_pass())).unwrap_or(u32::MAX);
        run.fill(&self.maker.random, plain);
    }

    /// Takes back what [`Stream::lend`] has lent, and counts what was made of it.
    pub fn take_back(&mut self, run: &mut Run) {
        let lent = self.maker.plain.as_ref().map_or(0, |plain| plain.left);
        if lent == 0 {
            return;
        }
        let (random, plain, left) = run.drain();
        let made = u64::from(lent - left);
        let bytes = made * u64::from(plain.len);
        self.maker.random = random;
        self.maker.plain = Some(plain);
        self.moved_bytes += bytes;
        let counts = u64::from(!self.is_endless);
        self.made_bytes += bytes * counts;
        self.made_requests += made * counts;
    }

    /// Begins another loop of `loops`, after [`Stream::next`] has ended one; after the last, all of them again.
    ///
    /// As in fio, files that were gone through begin again, in the same order under `randrepeat`; if all bytes or
    /// requests are made, only the syncs at the end come again. Without effect on `time_based` jobs.
    pub fn restart(&mut self) {
        if self.is_spent {
            self.begin_pass();
        }
        match self.loops_left.checked_sub(1) {
            Some(left) => self.loops_left = left,
            None => {
                self.loops_left = self.plan.loops - 1;
                self.requests_max = self.plan.requests_max();
                (self.made_bytes, self.made_requests, self.moved_bytes) = (0, 0, 0);
            }
        }
        if !self.has_more() {
            self.loops_left = 0;
        }
        self.is_verifying = false;
        self.phase = Phase::Making;
    }

    /// Raises `number_ios`, for all loops together.
    pub fn allow(&mut self, requests: u64) {
        self.requests_max = self.requests_max.saturating_add(requests);
    }

    /// Whether no further loop begins: all is made, and the syncs at the end have come by themselves once.
    pub fn is_exhausted(&self) -> bool {
        !self.has_more() && (self.loops_left == 0 || !self.plan.syncs_at_end)
    }

    #[inline]
    fn has_more(&self) -> bool {
        self.made_bytes < self.bytes_max && self.made_requests < self.requests_max
    }

    /// Whether the last step was a sync of `end_fsync` or `fsync_on_close`, which covers all requests before.
    pub fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing(_))
    }

    /// The time is up: only the syncs of `end_fsync` and `fsync_on_close` are left.
    pub fn stop(&mut self) {
        self.verify = None;
        self.is_verifying = false;
        // Enough for any limit, so that no pass follows.
        self.moved_bytes = u64::MAX;
        self.phase = match self.phase {
            Phase::Making => Phase::Closing(0),
            Phase::Closing(file) => Phase::Closing(file),
            Phase::Verifying | Phase::Deciding | Phase::Over => Phase::Over,
        };
    }

    /// Compares the due times of the next read and write, by their rates; a mix chooses the next direction by it. By
    /// default neither waits for its rate.
    pub fn steer(&mut self, due: Ordering) {
        self.maker.steer(due);
    }

    /// Whether the reads of `verify` after all requests are under way.
    pub fn is_rereading(&self) -> bool {
        self.phase == Phase::Verifying && self.is_verifying
    }

    /// Whether the last step reads again what the job wrote.
    pub fn is_verifying(&self) -> bool {
        self.is_verifying
    }

    #[inline]
    fn account(&mut self, step: &Step) {
        let Step::Io { access, len, .. } = *step else { return };
        let len = u64::from(len);
        self.moved_bytes += len;
        // A trim and its write are one, and fio counts the second.
        if access != Access::Trim || !self.is_trim_write {
            // Endless streams have no limit.
            let counts = u64::from(!self.is_endless);
            self.made_bytes += len * counts;
            self.made_requests += counts;
        }
    }

    #[inline(never)]
    fn next_rare(&mut self) -> Option<Step> {
        self.is_verifying = false;
        // A pass without requests would be followed by another such.
        let mut is_fresh = false;
        loop {
            match self.phase {
                Phase::Making => {
                    if let Some(read) = self.verify.as_mut().and_then(|v| v.backlog(&self.plan)) {
                        return Some(self.verifying(read));
                    }
                    if !self.has_more() {
                        self.phase = Phase::Closing(0);
                    } else if let Some(step) = self.maker.make(&self.plan) {
                        self.account(&step);
                        if let Some(step) = self.noted(step) {
                            return Some(step);
                        }
                    } else if !is_fresh && (self.plan.is_endless || self.made_requests == 0) {
                        // The pass was through when the last loop ended, but had not been noticed.
                        is_fresh = true;
                        if self.plan.is_endless {
                            self.maker.begin_pass(&self.plan);
                        } else {
                            self.begin_pass();
                        }
                    } else {
                        self.is_spent = true;
                        self.phase = Phase::Closing(0);
                    }
                }
                Phase::Closing(file) => {
                    if self.plan.syncs_at_end && (file as usize) < self.plan.regions.len() {
                        self.phase = Phase::Closing(file + 1);
                        return Some(Step::Sync { file, data_only: false });
                    }
                    self.phase = Phase::Verifying;
                }
                Phase::Verifying => {
                    if let Some(read) = self.verify.as_mut().and_then(|v| v.next(&self.plan)) {
                        return Some(self.verifying(read));
                    }
                    self.phase = Phase::Deciding;
                }
                Phase::Deciding => {
                    // fio does not begin a pass for less than one of the largest blocks.
                    let is_more = self.is_spent
                        && self.loops_left == 0
                        && self.plan.is_repeating
                        && self.has_more()
                        && self.plan.bytes.saturating_sub(self.moved_bytes) >= self.plan.block_max;
                    self.phase = if is_more { Phase::Making } else { Phase::Over };
                    if is_more {
                        self.begin_pass();
                    }
                }
                Phase::Over => return None,
            }
        }
    }

    fn begin_pass(&mut self) {
        self.is_spent = false;
        self.maker.begin_pass(&self.plan);
        if let Some(verify) = &mut self.verify {
            verify.begin_pass(&self.maker);
        }
    }

    /// A step as seen by verification; None for one that `verify_only` leaves out.
    fn noted(&mut self, step: Step) -> Option<Step> {
        let is_only = self.plan.verify.is_some_and(|verify| verify.is_only);
        match (step, &mut self.verify) {
            (Step::Io { access, file, offset, len }, _) if is_only => {
                self.is_verifying = access == Access::Write;
                self.is_verifying.then(|| verify::read(file, offset, len))
            }
            (step, Some(verify)) => {
                verify.note(&step);
                Some(step)
            }
            (step, None) => Some(step),
        }
    }

    fn verifying(&mut self, read: Step) -> Step {
        if let Step::Io { len, .. } = read {
            self.moved_bytes += u64::from(len);
        }
        self.is_verifying = true;
        read
    }
}
