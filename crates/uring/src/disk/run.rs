//! Doing what jobs say.

use std::io;
use std::rc::Rc;

use super::job::{Job, Step, Work};
use super::ranges::{Claim, ClaimId};
use super::state::{Store, Waiting};
use super::zeroing::Way;
use crate::completion::Completion;
use crate::core::Origin;
use crate::op::Op;
use crate::ring::Ring;

impl Ring {
    /// Starts a job of several steps; its completion comes when the last has ended.
    pub(super) fn start_job(&mut self, mut job: Job) {
        let state = self.disks.get_mut(job.disk);
        if let Err(error) = job.skip(state.refused) {
            self.complete_job(job, Err(error));
            return;
        }
        let (disk, span) = (job.disk, job.span());
        let direct = state.info.direct;
        let number = self.disks.add_job(job);
        match span {
            Some((start, end, alone)) if direct => {
                let claim = Claim { start, end, alone };
                let state = self.disks.get_mut(disk);
                if let Some(granted) = state.ranges.claim(claim, Waiting::Job(number)) {
                    self.start_granted(granted);
                }
            }
            _ => self.step_job(number),
        }
    }

    /// Starts a plain write on a direct device, now or when no other write changes its blocks any more.
    pub(super) fn start_claimed(&mut self, disk: u32, token: u64, op: Op) {
        let Op::Write { offset, ref buffer, .. } = op else { unreachable!("only writes claim") };
        let claim = Claim { start: offset, end: offset + buffer.len() as u64, alone: false };
        let state = self.disks.get_mut(disk);
        if let Some(granted) = state.ranges.claim(claim, Waiting::Write(token, op)) {
            self.start_granted(granted);
        }
    }

    /// Gives a claim back and starts what waited for it.
    pub(super) fn release_claim(&mut self, disk: u32, claim: ClaimId) {
        self.disks.get_mut(disk).ranges.release(claim);
        while let Some(granted) = self.disks.get_mut(disk).ranges.poll_granted() {
            self.start_granted(granted);
        }
    }

    /// Goes on with a job whose step has ended; `op` is what did it.
    pub(super) fn job_landed(&mut self, number: u32, op: Op, result: io::Result<()>) {
        let job = self.disks.job_mut(number);
        let step = job.step();
        match (step, result, op) {
            (Step::Load { .. }, Ok(()), Op::Read { buffer: mut bounce, .. }) => {
                job.patch(&mut bounce);
                job.advance();
                if let Step::Store { offset, len, durable } = job.step() {
                    debug_assert_eq!(len as usize, bounce.len());
                    let file = self.file(number);
                    let (buffer, done) = (bounce, 0);
                    let (failed, claim) = (None, None);
                    let op = Op::Write { file, offset, buffer, done, durable, failed, claim };
                    self.core.start(Origin::Job(number), op);
                    return;
                }
            }
            (Step::Try { way, .. }, Err(error), _) if is_refusal(way, &error) => {
                let refused = job.refuse();
                let disk = job.disk;
                self.disks.get_mut(disk).refused |= way.bit();
                if let Err(error) = refused {
                    self.finish_job(number, Err(error));
                    return;
                }
            }
            (_, Ok(()), _) => job.advance(),
            (_, Err(error), _) => {
                self.finish_job(number, Err(error));
                return;
            }
        }
        // A bounce buffer that was in `op` is free again by now.
        self.step_job(number);
        self.serve_bounceless();
    }

    fn start_granted(&mut self, (claim, waiting): (ClaimId, Waiting)) {
        match waiting {
            Waiting::Write(token, mut op) => {
                if let Op::Write { claim: place, .. } = &mut op {
                    *place = Some(claim);
                }
                self.core.start(Origin::Caller(token), op);
            }
            Waiting::Job(number) => {
                self.disks.job_mut(number).claim = Some(claim);
                self.step_job(number);
            }
        }
    }

    /// Starts the next step of a job, or ends it.
    fn step_job(&mut self, number: u32) {
        let file = self.file(number);
        let op = match self.disks.job_mut(number).step() {
            Step::End => {
                self.finish_job(number, Ok(()));
                return;
            }
            Step::Try { way, offset, len } => match way.mode() {
                Some(mode) => Op::Fallocate { file, mode, offset, len },
                None => Op::Discard { file, offset, len },
            },
            Step::WriteZeroes { offset, len } => {
                Op::WriteZeroes { file, offset, len, zeroes: Rc::clone(&self.zeroes) }
            }
            Step::Load { offset, len } => match self.disks.bounces.get(len as usize) {
                Some(buffer) => Op::Read { file, offset, buffer, done: 0 },
                None => {
                    self.disks.bounceless.push_back(number);
                    return;
                }
            },
            Step::Sync => Op::Sync { file, metadata: false },
            Step::Store { .. } => unreachable!("follows its load at once"),
        };
        self.core.start(Origin::Job(number), op);
    }

    fn serve_bounceless(&mut self) {
        // Each try takes a buffer or puts the job back at the end, so once around is enough.
        for _ in 0..self.disks.bounceless.len() {
            let Some(number) = self.disks.bounceless.pop_front() else { break };
            self.step_job(number);
        }
    }

    fn finish_job(&mut self, number: u32, result: io::Result<()>) {
        let mut job = self.disks.remove_job(number);
        let (disk, claim) = (job.disk, job.claim.take());
        self.complete_job(job, result);
        if let Some(claim) = claim {
            self.release_claim(disk, claim);
        }
        self.serve_bounceless();
    }

    fn complete_job(&mut self, job: Job, result: io::Result<()>) {
        let token = job.token;
        self.ready.push_back(match job.work {
            Work::Read { buffer, .. } => Completion::Read { token, buffer, result },
            Work::Write { buffer, .. } => Completion::Written { token, buffer, result },
            Work::Zero(_) => Completion::Done { token, result },
        });
    }

    fn file(&mut self, number: u32) -> u32 {
        let disk = self.disks.job_mut(number).disk;
        match self.disks.get_mut(disk).store {
            Store::File(file) => file,
            Store::Memory(_) => unreachable!("memory needs no jobs"),
        }
    }
}

/// Whether an error says that the device or the kernel does not know a way, not that it failed.
fn is_refusal(way: Way, error: &io::Error) -> bool {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY | libc::EREMOTEIO) => true,
        // What kernels before 6.12 say to the command.
        Some(libc::EINVAL) => way == Way::Discard,
        _ => false,
    }
}
