//! Requests of a plain job: one file, one direction, one length, no syncs, random places.

use std::mem::offset_of;

use super::permute::shuffled;
use super::plan::{Place, Plan, READ, TRIM, WRITE};
use super::size::Sizes;
use super::{Access, Step};
use crate::Mix;
use crate::random::Random;

/// State of a plain job besides its random numbers, in one place: most jobs are plain, and with a thousand of them
/// each cache line that a request touches has to be fetched. Makes the same requests as [`super::maker::Maker`].
#[derive(Debug, Clone)]
#[repr(C)]
pub(super) struct Plain {
    /// Of the region, in its file.
    start: u64,
    pub(super) blocks: u64,
    pub(super) len: u32,
    align: u32,
    /// While it is lent out: in the [`Run`] how many more may be made, in the stream how many were lent.
    pub(super) left: u32,
    access: Access,
    pub(super) is_once: bool,
    /// Key of the permutation, if each block has its turn once, and the position in it.
    key: u64,
    pub(super) index: u64,
}

impl Plain {
    /// A pass over the file of `plan`, if it is a plain one. `key` is that of the permutation.
    pub(super) fn of(plan: &Plan, key: u64) -> Option<Plain> {
        let (direction, access) = match plan.mix {
            Mix::Read => (READ, Access::Read),
            Mix::Write => (WRITE, Access::Write),
            Mix::Trim => (TRIM, Access::Trim),
            Mix::ReadWrite | Mix::TrimWrite => return None,
        };
        let is_once = match plan.place {
            Place::Once => true,
            Place::Anywhere => false,
            Place::Sequential { .. } | Place::Random(_) => return None,
        };
        let ([region], Sizes::Fixed(len)) = (&*plan.regions, &plan.sizes[direction]) else {
            return None;
        };
        let (blocks, align) = (region.blocks[direction], plan.align[direction]);
        // Every block has room for a whole request.
        let is_roomy =
            blocks.saturating_sub(1).saturating_mul(align).saturating_add(*len) <= region.bytes;
        let is_one = plan.zones.is_none() && plan.open_files > 0;
        let is_plain = is_roomy && is_one && !plan.is_syncing;
        let len = u32::try_from(*len).ok().filter(|_| is_plain)?;
        let (start, align) = (region.start, u32::try_from(align).ok()?);
        Some(Plain { start, blocks, len, align, left: 0, access, is_once, key, index: 0 })
    }

    /// The next request; None at the end of the permutation.
    #[inline]
    pub(super) fn next(&mut self, random: &mut Random) -> Option<Step> {
        let block = if self.is_once {
            if self.index == self.blocks {
                return None;
            }
            self.index += 1;
            shuffled(self.key, self.blocks, self.index - 1)
        } else {
            random.below(self.blocks)
        };
        let offset = self.start + block * u64::from(self.align);
        Some(Step::Io { access: self.access, file: 0, offset, len: self.len })
    }

    pub(super) fn left_in_pass(&self) -> u64 {
        if self.is_once { self.blocks - self.index } else { u64::MAX }
    }
}

/// Next requests of a plain job, which depend on nothing else, so that a caller can keep them beside its own data of
/// the process. [`super::Stream::lend`] fills it, [`super::Stream::take_back`] takes it back.
///
/// One cache line, and some of the next where each block has its turn once.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct Run {
    random: Random,
    plain: Plain,
}

const _: () = assert!(offset_of!(Run, plain) + offset_of!(Plain, key) <= 64);

impl Run {
    /// A run without requests.
    pub fn empty() -> Run {
        let (start, blocks, len, align) = (0, 0, 0, 1);
        let (left, access, is_once, key, index) = (0, Access::Read, false, 0, 0);
        Run {
            random: Random::new(0),
            plain: Plain { start, blocks, len, align, left, access, is_once, key, index },
        }
    }

    /// Takes the requests that `plain` lends, at most as many as are left of the permutation.
    pub(super) fn fill(&mut self, random: &Random, plain: &Plain) {
        self.random = random.clone();
        self.plain = plain.clone();
    }

    /// Its position, and requests that were not made; none are left then.
    pub(super) fn drain(&mut self) -> (Random, Plain, u32) {
        let left = std::mem::take(&mut self.plain.left);
        (self.random.clone(), self.plain.clone(), left)
    }

    /// The next request; None when the stream is to be asked again.
    #[inline]
    pub fn poll(&mut self) -> Option<Step> {
        self.plain.left = self.plain.left.checked_sub(1)?;
        self.plain.next(&mut self.random)
    }
}
