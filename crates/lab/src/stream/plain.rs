//! The requests of a plain job: one file, one direction, one length, no syncs, random places.

use super::permute::shuffled;
use super::plan::{Place, Plan, READ, TRIM, WRITE};
use super::size::Sizes;
use super::{Access, Step};
use crate::fio::Mix;
use crate::random::Random;

/// All that a plain job's next request depends on but the dice, in one place: most jobs are such, and with a thousand of
/// them each line of memory that a request touches has to be fetched first. What comes of it is what
/// [`super::maker::Maker`] would make of the same plan.
#[derive(Debug, Clone)]
pub(super) struct Plain {
    access: Access,
    is_once: bool,
    len: u32,
    /// Of the region, in its file.
    start: u64,
    blocks: u64,
    align: u64,
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
        let is_plain = is_roomy && plan.open_files > 0 && !plan.is_syncing;
        let len = u32::try_from(*len).ok().filter(|_| is_plain)?;
        Some(Plain { access, is_once, len, start: region.start, blocks, align, key, index: 0 })
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
        let offset = self.start + block * self.align;
        Some(Step::Io { access: self.access, file: 0, offset, len: self.len })
    }
}
