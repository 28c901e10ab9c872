//! Runs of zeroes in what was read: they are told as holes, and not sent.

use std::ops::Range;

/// Bytes of a block that is zero as a whole or not: the shortest hole that is told. Below it a chunk's head, and what a
/// client does with one, cost about as much as the bytes.
pub(super) const BLOCK_BYTES: usize = 64 << 10;
/// Bytes that are looked at before it is asked whether to go on.
const STEP_BYTES: usize = 4096;

/// A part of what was read, and whether it is zero.
pub(super) type Run = (Range<usize>, bool);

/// Parts of `bytes`, in order, each with whether it is zero; neighbours differ. `offset` is where they lie in the export:
/// blocks are aligned there, as holes of files are.
pub(super) fn runs(offset: u64, bytes: &[u8]) -> Runs<'_> {
    let to_boundary = (BLOCK_BYTES as u64 - offset % BLOCK_BYTES as u64) as usize;
    let first = if to_boundary == BLOCK_BYTES { 0 } else { to_boundary.min(bytes.len()) };
    Runs { bytes, at: 0, first, seen: None }
}

pub(super) struct Runs<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the first whole block begins.
    first: usize,
    /// The block at `at`, if it has been looked at.
    seen: Option<(usize, bool)>,
}

impl Runs<'_> {
    /// The block at `at`: where it ends, and whether it is zero. A part of one never is: it is too short for a hole.
    fn block(&self, at: usize) -> (usize, bool) {
        if at < self.first {
            return (self.first, false);
        }
        match self.bytes.get(at..at + BLOCK_BYTES) {
            Some(block) => (at + BLOCK_BYTES, is_zero(block)),
            None => (self.bytes.len(), false),
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let start = self.at;
        if start == self.bytes.len() {
            return None;
        }
        let (mut end, zero) = self.seen.take().unwrap_or_else(|| self.block(start));
        while end < self.bytes.len() {
            let (next, next_zero) = self.block(end);
            if next_zero != zero {
                self.seen = Some((next, next_zero));
                break;
            }
            end = next;
        }
        self.at = end;
        Some((start..end, zero))
    }
}

/// Whether all is zero. Of most data a few bytes are looked at.
fn is_zero(block: &[u8]) -> bool {
    block.starts_with(&[0; 16])
        && block.chunks(STEP_BYTES).all(|step| step.iter().fold(0, |all, byte| all | byte) == 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BLOCK_BYTES, runs};

    fn lens(offset: u64, bytes: &[u8]) -> Vec<(usize, bool)> {
        runs(offset, bytes).map(|(range, zero)| (range.len(), zero)).collect()
    }

    #[test]
    fn only_whole_aligned_blocks_are_holes() {
        const B: usize = BLOCK_BYTES;
        let zeroes = vec![0; 3 * B];
        assert_eq!(lens(0, &zeroes), [(3 * B, true)]);
        assert_eq!(lens(512, &zeroes), [(B - 512, false), (2 * B, true), (512, false)]);
        assert_eq!(lens(B as u64, &zeroes[..B - 1]), [(B - 1, false)]);
        assert_eq!(lens(7, &zeroes[..100]), [(100, false)]);
        assert_eq!(lens(0, &[]), []);
        for at in [B, 2 * B - 1] {
            let mut bytes = zeroes.clone();
            bytes[at] = 1;
            assert_eq!(lens(0, &bytes), [(B, true), (B, false), (B, true)], "{at}");
        }
    }

    proptest! {
        #[test]
        fn runs_cover_all_and_holes_are_zero(
            offset in 0..1_u64 << 20,
            len in 0..300_000_usize,
            data in proptest::collection::vec((0..300_000_usize, 1..70_000_usize), 0..4),
        ) {
            let mut bytes = vec![0; len];
            for (at, count) in data {
                let end = (at + count).min(len);
                bytes[at.min(end)..end].fill(0xda);
            }
            let (mut at, mut last) = (0, None);
            for (range, zero) in runs(offset, &bytes) {
                prop_assert_eq!(range.start, at);
                prop_assert!(range.end > at && last != Some(zero));
                if zero {
                    prop_assert!(range.len() >= BLOCK_BYTES);
                    prop_assert!(bytes[range.clone()].iter().all(|&byte| byte == 0));
                }
                (at, last) = (range.end, Some(zero));
            }
            prop_assert_eq!(at, len);
        }
    }
}
