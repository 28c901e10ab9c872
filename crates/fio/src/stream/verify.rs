//! Verification: reads of written blocks.

use std::collections::BTreeMap;

use super::maker::Maker;
use super::plan::{Plan, VerifyPlan};
use super::{Access, Step};

/// Most written blocks that are remembered one by one. Blocks beyond are not verified.
const PIECES_MAX: usize = 1 << 20;

/// Blocks written and not read since.
#[derive(Debug, Clone)]
pub(super) struct Verify {
    plan: VerifyPlan,
    written: Written,
    /// Reads left of the batch.
    batch_left: u64,
    is_after_read: bool,
}

#[derive(Debug, Clone)]
enum Written {
    /// In the order of the writes: a second maker makes them again, so many behind the first.
    Behind { twin: Box<Maker>, count: u64 },
    /// In the order of files and offsets, with lengths. A write drops all blocks that it overlaps.
    Sorted(BTreeMap<(u32, u64), u32>),
}

impl Verify {
    pub(super) fn new(plan: VerifyPlan, maker: &Maker) -> Verify {
        let written = if plan.is_sorted {
            Written::Sorted(BTreeMap::new())
        } else {
            Written::Behind { twin: Box::new(maker.clone()), count: 0 }
        };
        Verify { plan, written, batch_left: 0, is_after_read: false }
    }

    /// The maker has begun a pass, and made nothing of it.
    pub(super) fn begin_pass(&mut self, maker: &Maker) {
        match &mut self.written {
            Written::Behind { twin, count } => {
                (**twin).clone_from(maker);
                *count = 0;
            }
            Written::Sorted(pieces) => pieces.clear(),
        }
    }

    pub(super) fn note(&mut self, step: &Step) {
        let Step::Io { access, file, offset, len } = *step else { return };
        self.is_after_read = access == Access::Read;
        if access == Access::Write {
            match &mut self.written {
                Written::Behind { count, .. } => *count += 1,
                Written::Sorted(pieces) => remember(pieces, file, offset, len),
            }
        }
    }

    /// A read that `verify_backlog` wants before the next request.
    pub(super) fn backlog(&mut self, plan: &Plan) -> Option<Step> {
        let backlog = self.plan.backlog?;
        let count = match &self.written {
            Written::Behind { count, .. } => *count,
            Written::Sorted(pieces) => pieces.len() as u64,
        };
        if count == 0 {
            return None;
        }
        if self.batch_left == 0 {
            if self.is_after_read || !count.is_multiple_of(backlog) {
                return None;
            }
            self.batch_left = self.plan.batch.max(1);
        }
        self.batch_left -= 1;
        self.is_after_read = true;
        self.next(plan)
    }

    /// The next read; None when all is read.
    pub(super) fn next(&mut self, plan: &Plan) -> Option<Step> {
        match &mut self.written {
            Written::Behind { count: 0, .. } => None,
            Written::Behind { twin, count } => {
                *count -= 1;
                loop {
                    match twin.make(plan) {
                        Some(Step::Io { access: Access::Write, file, offset, len }) => {
                            return Some(read(file, offset, len));
                        }
                        Some(_) => {}
                        // Only an endless stream goes on past a pass with unread writes.
                        None => twin.begin_pass(plan),
                    }
                }
            }
            Written::Sorted(pieces) => {
                let ((file, offset), len) = pieces.pop_first()?;
                Some(read(file, offset, len))
            }
        }
    }
}

pub(super) fn read(file: u32, offset: u64, len: u32) -> Step {
    Step::Io { access: Access::Read, file, offset, len }
}

fn remember(pieces: &mut BTreeMap<(u32, u64), u32>, file: u32, offset: u64, len: u32) {
    let end = offset + u64::from(len);
    while let Some((&(found, start), &length)) = pieces.range(..(file, end)).next_back()
        && found == file
        && start + u64::from(length) > offset
    {
        pieces.remove(&(file, start));
    }
    if pieces.len() < PIECES_MAX {
        pieces.insert((file, offset), len);
    }
}
