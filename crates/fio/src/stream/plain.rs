//! The requests of a plain job: one file, one direction, one length, no syncs, random places.

use std::mem::offset_of;

use super::permute::shuffled;
use super::plan::{Place, Plan, READ, TRIM, WRITE};
use super::size::Sizes;
use super::{Access, Step};
use crate::Mix;
use crate::random::Random;

/// All that a plain job's next request depends on but the dice, in one place: most jobs are such, and with a thousand of
/// them each line of memory that a request touches has to be fetched first. What comes of it is what
/// [`super::maker::Maker`] would make of the same plan.
#[derive(Debug, Clone)]
#[repr(C)]
pub(super) struct Plain {
    /// Of the region, in its file.
    start: u64,
    pub(super) blocks: u64,
    pub(super) len: u32,
    align: u32,
    /// As long as it is lent out: how many more may be made in the [`Run`], and in the stream how many were lent.
    pub(super) left: u32,
    access: Access,
    pub(super) is_once: bool,
    /// Of the shuffled row, where each block has its turn once: which row, and how far it is.
    key: u64,
    pub(super) index: u64,
}

impl Plain {
    /// A pass over the file of `plan`, if it is a plain one. `key` is that of the shuffled row.
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
        // No place has too little room.
        let is_roomy =
            blocks.saturating_sub(1).saturating_mul(align).saturating_add(*len) <= region.bytes;
        let is_one = plan.zones.is_none() && plan.open_files > 0;
        let is_plain = is_roomy && is_one && !plan.is_syncing;
        let len = u32::try_from(*len).ok().filter(|_| is_plain)?;
        let (start, align) = (region.start, u32::try_from(align).ok()?);
        Some(Plain { start, blocks, len, align, left: 0, access, is_once, key, index: 0 })
    }

    /// The next request; None when the row is through.
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

    /// How many are left of the row.
    pub(super) fn in_row(&self) -> u64 {
        if self.is_once { self.blocks - self.index } else { u64::MAX }
    }
}

/// The next requests of a plain job, for as long as they depend on nothing but this: so they can be made where the rest
/// of what a process needs for each of them is. What [`super::Stream::lend`] has filled goes back with
/// [`super::Stream::take_back`].
///
/// One line of cache, and some of the next where each block has its turn once.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct Run {
    random: Random,
    plain: Plain,
}

const _: () = assert!(offset_of!(Run, plain) + offset_of!(Plain, key) <= 64);

impl Run {
    /// One with no request in it.
    pub fn empty() -> Run {
        let (start, blocks, len, align) = (0, 0, 0, 1);
        let (left, access, is_once, key, index) = (0, Access::Read, false, 0, 0);
        Run {
            random: Random::new(0),
            plain: Plain { start, blocks, len, align, left, access, is_once, key, index },
        }
    }

    /// The requests that `plain` lends, at most as many as are left of the row.
    pub(super) fn fill(&mut self, random: &Random, plain: &Plain) {
        self.random = random.clone();
        self.plain = plain.clone();
    }

    /// Where it has come to, and how many were not made; there are none left then.
    pub(super) fn drain(&mut self) -> (Random, Plain, u32) {
        let left = std::mem::take(&mut self.plain.left);
        (self.random.clone(), self.plain.clone(), left)
    }

    /// The next request; None when the stream is to be asked again.
    #[inline]
    pub fn next(&mut self) -> Option<Step> {
        self.plain.left = self.plain.left.checked_sub(1)?;
        self.plain.next(&mut self.random)
    }
}
