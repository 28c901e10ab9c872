//! Flash translation layer of a sample of the pages: pages that garbage collection copies.
//!
//! A map of every page of a terabyte would take a gigabyte. Instead one page of each *stretch* of the disk, chosen by a hash,
//! stands for the stretch, and the flash is smaller by the same factor. A write counts when it touches such a page. A pass
//! over the disk touches each of them once, whatever the sizes of its writes, and random writes touch them like any other.
//! So the sample is a disk of fewer pages under the same load, and the valid share of a block at collection does not depend
//! on the number of pages.

use alloc::vec;
use alloc::vec::Vec;

use super::spec::{SsdSpec, SsdState};
use crate::mix::mix;

/// Bytes that are mapped together.
const PAGE: u64 = 4096;

/// Most pages of the sample: about 600 KB of memory with 7 % of over-provisioning.
const SAMPLE_MAX: u64 = 1 << 16;

/// Pages in a block of the sample, at most: enough blocks to choose among.
const BLOCK_MAX: u64 = 64;

/// Random passes over the disk that make it [`SsdState::Aged`].
const AGED_PASSES: u64 = 4;

/// Blocks over which the share to copy is averaged, so that it changes no faster than with many small blocks.
const SMOOTH: u64 = 8;

/// A page of the sample's flash, or of its address space, plus one; 0 for none.
type Place = u32;

/// The sample: where each of its pages is, and what is left in each block.
#[derive(Clone, Debug)]
pub(super) struct Translation {
    /// Pages that each page of the sample stands for, as a power of two.
    stretch_shift: u32,
    per_block: u32,
    /// Place of each page.
    map: Vec<Place>,
    /// Page of each place.
    holds: Vec<Place>,
    /// Valid pages of each block.
    valid: Vec<u32>,
    /// The block being written, and how much of it is.
    open: u32,
    written: u32,
    /// Blocks from here on were never written; the last one is the first spare.
    fresh: u32,
    /// The erased block that valid pages move to.
    spare: u32,
    copied: u64,
    freed: u64,
}

impl Translation {
    pub(super) fn new(spec: &SsdSpec) -> Translation {
        let pages = spec.size.div_ceil(PAGE).max(1);
        let stretch_shift = pages.div_ceil(SAMPLE_MAX).next_power_of_two().trailing_zeros();
        let sample = pages.div_ceil(1 << stretch_shift);
        let per_block = (sample / 64).clamp(4, BLOCK_MAX);
        let flash = (u128::from(sample) * u128::from(100 + spec.op) / 100) as u64;
        // At least one block more than the data takes, so that one of them always has invalid pages; and the spare.
        let blocks = flash.div_ceil(per_block).max(sample.div_ceil(per_block) + 1) + 1;
        let mut translation = Translation {
            stretch_shift,
            per_block: per_block as u32,
            map: vec![0; sample as usize],
            holds: vec![0; (blocks * per_block) as usize],
            valid: vec![0; blocks as usize],
            open: 0,
            written: 0,
            fresh: 1,
            spare: blocks as u32 - 1,
            copied: 0,
            freed: 0,
        };
        if spec.state != SsdState::Fresh {
            (0..sample).for_each(|page| translation.place(page as u32));
        }
        if spec.state == SsdState::Aged {
            let place = |n: u64| ((u128::from(mix(n)) * u128::from(sample)) >> 64) as u32;
            (1..=AGED_PASSES * sample).for_each(|n| translation.place(place(n)));
        }
        translation
    }

    /// Whether blocks have to be erased before they are written.
    pub(super) fn is_recycling(&self) -> bool {
        self.fresh == self.valid.len() as u32 - 1
    }

    /// Ratio of copied to written pages: `(copies, writes)`, not `(_, 0)`.
    pub(super) fn share(&self) -> (u64, u64) {
        (self.copied, self.freed.max(1))
    }

    /// Writes data. A step for each stretch (16 MiB on a disk of 1 TB) that it touches.
    pub(super) fn write(&mut self, offset: u64, len: u64) {
        for page in self.touched(offset, len) {
            if self.stands_in(page, offset, len) {
                self.place(page as u32);
            }
        }
    }

    /// Discards data. The same cost.
    pub(super) fn discard(&mut self, offset: u64, len: u64) {
        for page in self.touched(offset, len) {
            if self.stands_in(page, offset, len) {
                self.forget(page as u32);
            }
        }
    }

    /// The stretches that a range touches.
    fn touched(&self, offset: u64, len: u64) -> core::ops::Range<u64> {
        let stretch = PAGE << self.stretch_shift;
        let end = offset.saturating_add(len).div_ceil(stretch).min(self.map.len() as u64);
        offset / stretch..end
    }

    /// Whether a range touches the page that stands for a stretch.
    fn stands_in(&self, stretch: u64, offset: u64, len: u64) -> bool {
        let page =
            (stretch << self.stretch_shift) + (mix(stretch) & ((1 << self.stretch_shift) - 1));
        offset < (page + 1) * PAGE && page * PAGE < offset.saturating_add(len)
    }

    fn forget(&mut self, page: u32) {
        let place = core::mem::take(&mut self.map[page as usize]);
        if let Some(place) = place.checked_sub(1) {
            self.holds[place as usize] = 0;
            self.valid[(place / self.per_block) as usize] -= 1;
        }
    }

    fn place(&mut self, page: u32) {
        self.forget(page);
        if self.written == self.per_block {
            self.open_block();
        }
        self.append(page);
    }

    fn append(&mut self, page: u32) {
        let place = self.open * self.per_block + self.written;
        self.holds[place as usize] = page + 1;
        self.map[page as usize] = place + 1;
        self.valid[self.open as usize] += 1;
        self.written += 1;
    }

    /// Opens an unwritten block, or else the spare with the valid pages of the block that has fewest.
    fn open_block(&mut self) {
        self.written = 0;
        if !self.is_recycling() {
            self.open = self.fresh;
            self.fresh += 1;
            return;
        }
        (self.open, self.spare) = (self.spare, self.emptiest());
        let first = self.spare * self.per_block;
        for place in first..first + self.per_block {
            if let Some(page) = core::mem::take(&mut self.holds[place as usize]).checked_sub(1) {
                self.append(page);
            }
        }
        self.valid[self.spare as usize] = 0;
        // Decaying sums, weighted by freed pages, so that all due copies are made in the long run.
        let one = 1 << 16;
        self.copied += u64::from(self.written) * one;
        self.copied -= self.copied / SMOOTH;
        self.freed += u64::from(self.per_block - self.written) * one;
        self.freed -= self.freed / SMOOTH;
    }

    /// The block with the fewest valid pages, the lowest of several.
    fn emptiest(&self) -> u32 {
        let block = |index: &u32| self.valid[*index as usize];
        let blocks = 0..self.valid.len() as u32;
        blocks.filter(|index| *index != self.spare).min_by_key(block).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sample: &Translation) {
        let mut valid = vec![0; sample.valid.len()];
        for (place, holds) in sample.holds.iter().enumerate() {
            if let Some(page) = holds.checked_sub(1) {
                assert_eq!(sample.map[page as usize] as usize, place + 1);
                valid[place / sample.per_block as usize] += 1;
            }
        }
        assert_eq!(valid, sample.valid);
        assert_eq!(valid[sample.spare as usize], 0);
        let mapped = sample.map.iter().filter(|place| **place != 0).count();
        assert_eq!(mapped as u32, valid.iter().sum());
    }

    fn amplification(sample: &Translation) -> f64 {
        let (copied, freed) = sample.share();
        1.0 + copied as f64 / freed as f64
    }

    /// What random writes cost if the oldest block is won back: the share `u` that is still valid then is
    /// `exp(-a (1 - u))` for `a` times as much flash as data (Desnoyers, "Analytic Modeling of SSD Write Performance",
    /// 2012). The emptiest block is a little better, the more so the smaller the blocks.
    fn oldest_first(flash: f64) -> f64 {
        let valid = (0..1000).fold(0.5f64, |valid, _| (-flash * (1.0 - valid)).exp());
        1.0 / (1.0 - valid)
    }

    #[test]
    fn random_writes_cost_what_the_over_provisioning_says() {
        for (size, ops) in [(1 << 26, &[7, 28, 100][..]), (500_107_862_016, &[7])] {
            for &op in ops {
                let spec = SsdSpec { size, op, state: SsdState::Aged, ..SsdSpec::SATA };
                let sample = Translation::new(&spec);
                check(&sample);
                let flash = ((sample.valid.len() as f64 - 1.0) * f64::from(sample.per_block))
                    / sample.map.len() as f64;
                let (seen, bound) = (amplification(&sample), oldest_first(flash));
                assert!(seen < bound && seen > bound * 0.85, "{op} %: {seen} for {bound}");
            }
        }
    }

    #[test]
    fn writing_in_order_touches_each_page_once_and_copies_nothing() {
        let spec = SsdSpec { size: 500_107_862_016, ..SsdSpec::SATA };
        let whole = Translation::new(&spec);
        let stretch = PAGE << whole.stretch_shift;
        // Each stretch has one page that stands for it, as seen by writes of any size.
        for number in 0..100 {
            let first = number * stretch;
            let touches = |len: u64| {
                let inside = (first..first + stretch).step_by(len as usize);
                inside.filter(|at| whole.stands_in(number, *at, len)).count()
            };
            assert_eq!([4096, 128 << 10, stretch].map(touches), [1, 1, 1]);
        }
        let mut sample = whole;
        for len in [stretch, stretch / 2, 1 << 30] {
            for at in (0..spec.size).step_by(len as usize) {
                sample.write(at, len.min(spec.size - at));
            }
        }
        check(&sample);
        assert!(sample.is_recycling());
        assert_eq!(sample.copied, 0);
    }

    #[test]
    fn what_is_discarded_is_not_copied() {
        let spec = SsdSpec { size: 1 << 30, state: SsdState::Aged, ..SsdSpec::SATA };
        let mut sample = Translation::new(&spec);
        sample.discard(0, 1 << 30);
        check(&sample);
        assert!(sample.map.iter().all(|place| *place == 0));
        for n in 0..50 {
            sample.write(n << 20, 1 << 20);
        }
        let before = sample.copied;
        sample.write(0, 1 << 29);
        assert!(sample.copied < before, "{} then {}", before, sample.copied);
    }

    #[test]
    fn small_disks_have_room_to_move() {
        for size in [512, 4096, 1 << 20, (1 << 20) + 512] {
            let spec = SsdSpec { size, op: 1, state: SsdState::Aged, ..SsdSpec::SATA };
            let mut sample = Translation::new(&spec);
            for n in 0..10_000 {
                sample.write(mix(n) % size / 512 * 512, 512);
            }
            check(&sample);
        }
    }
}
