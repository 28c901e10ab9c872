//! Zeroing and discarding of a range: which calls to try, in which order.

use std::ops::Range;

use super::info::DiskKind;
use super::{Durability, ZeroOptions};

/// A way to get rid of a range without sending its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// fallocate: a hole, or a device's own zeroing that may unmap. Never falls back to writing.
    Punch,
    /// fallocate: zeroes in place. On a block device the kernel may have to write them.
    ZeroInPlace,
    /// A block device's discard; afterwards the range may read as anything.
    Discard,
}

impl Way {
    /// Its bit in a set of ways.
    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The mode for fallocate(2), or `None` for the one that has another call.
    pub(crate) fn mode(self) -> Option<i32> {
        match self {
            Way::Punch => Some(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE),
            Way::ZeroInPlace => Some(libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE),
            Way::Discard => None,
        }
    }
}

/// What to do when no way works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Otherwise {
    /// Write the zeroes.
    Write,
    /// Say so.
    Fail,
    /// Nothing: it was only advice.
    Ignore,
}

/// The plan for one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Zeroing {
    /// Whole blocks, for the ways.
    pub(crate) middle: Range<u64>,
    /// Parts of blocks before and behind, to be written with zeroes; may be empty.
    pub(crate) edges: [Range<u64>; 2],
    /// What to try on the middle, in order.
    pub(crate) ways: &'static [Way],
    pub(crate) otherwise: Otherwise,
    pub(crate) durability: Durability,
}

/// Plans [`crate::Ring::write_zeroes`] of `range` on a device with blocks of `block` bytes.
pub(crate) fn zero(range: Range<u64>, block: u64, kind: DiskKind, options: ZeroOptions) -> Zeroing {
    let ways: &[Way] = match (kind, options.keep_allocated, options.fast_only) {
        (DiskKind::Block, true, true) => &[],
        (DiskKind::Block, false, true) => &[Way::Punch],
        (_, true, _) => &[Way::ZeroInPlace],
        (_, false, _) => &[Way::Punch, Way::ZeroInPlace],
    };
    let otherwise = if options.fast_only { Otherwise::Fail } else { Otherwise::Write };
    let middle = whole_blocks(&range, block);
    // Without a whole block there is no middle to divide the range, and it is all edge.
    let edges = match middle.is_empty() {
        true => [range, 0..0],
        false => [range.start..middle.start, middle.end..range.end],
    };
    Zeroing { middle, edges, ways, otherwise, durability: options.durability }
}

/// Plans [`crate::Ring::trim`]: parts of blocks stay as they are, because nothing can be gained there.
pub(crate) fn trim(
    range: Range<u64>,
    block: u64,
    kind: DiskKind,
    durability: Durability,
) -> Zeroing {
    let ways: &[Way] =
        if kind == DiskKind::Block { &[Way::Discard, Way::Punch] } else { &[Way::Punch] };
    let middle = whole_blocks(&range, block);
    Zeroing { middle, edges: [0..0, 0..0], ways, otherwise: Otherwise::Ignore, durability }
}

fn whole_blocks(range: &Range<u64>, block: u64) -> Range<u64> {
    let (start, end) = (range.start.next_multiple_of(block), range.end / block * block);
    start..end.max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_divided_at_blocks() {
        let table = [
            (0..8192, 0..8192, [0..0, 8192..8192]),
            (1..8191, 4096..4096, [1..8191, 0..0]),
            (1..8193, 4096..8192, [1..4096, 8192..8193]),
            (4096..4097, 4096..4096, [4096..4097, 0..0]),
            (100..200, 4096..4096, [100..200, 0..0]),
            (4096..12_289, 4096..12_288, [4096..4096, 12_288..12_289]),
        ];
        for (range, middle, edges) in table {
            let plan = zero(range.clone(), 4096, DiskKind::File, ZeroOptions::default());
            assert_eq!((plan.middle, plan.edges), (middle, edges), "{range:?}");
        }
        let plan = trim(1..8193, 4096, DiskKind::File, Durability::Volatile);
        assert_eq!((plan.middle, plan.edges), (4096..8192, [0..0, 0..0]));
    }

    #[test]
    fn fast_zeroing_never_writes() {
        for kind in [DiskKind::File, DiskKind::Block] {
            for keep_allocated in [false, true] {
                let options = ZeroOptions { keep_allocated, fast_only: true, ..Default::default() };
                let plan = zero(0..4096, 512, kind, options);
                assert_eq!(plan.otherwise, Otherwise::Fail);
                // On a block device this one may write every byte.
                assert!(kind == DiskKind::File || !plan.ways.contains(&Way::ZeroInPlace));
                assert!(!keep_allocated || !plan.ways.contains(&Way::Punch));
            }
        }
    }
}
