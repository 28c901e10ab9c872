//! Bitmap of the bytes of a block that are cached.

use std::ops::Range;

use crate::writeback::BLOCK_BYTES;

const BITS: usize = 64;
/// Bytes in a block.
pub(crate) const BLOCK: usize = BLOCK_BYTES as usize;

/// The bytes of a block that has only some.
#[derive(Clone, Debug)]
pub(crate) struct Valid(Box<[u64; BLOCK / BITS]>);

impl Valid {
    pub(crate) fn none() -> Valid {
        Valid(Box::new([0; BLOCK / BITS]))
    }

    pub(crate) fn all() -> Valid {
        Valid(Box::new([u64::MAX; BLOCK / BITS]))
    }

    pub(crate) fn insert(&mut self, bytes: Range<usize>) {
        self.each_word(bytes, |word, mask| *word |= mask);
    }

    pub(crate) fn remove(&mut self, bytes: Range<usize>) {
        self.each_word(bytes, |word, mask| *word &= !mask);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.iter().all(|&word| word == u64::MAX)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// The first run of bytes that are there, inside `within`.
    pub(crate) fn first_run(&self, within: Range<usize>) -> Option<Range<usize>> {
        let start = self.find(within.clone(), true)?;
        let end = self.find(start..within.end, false).unwrap_or(within.end);
        Some(start..end)
    }

    /// The first byte inside `within` that is there, or is not.
    fn find(&self, within: Range<usize>, is_there: bool) -> Option<usize> {
        let mut at = within.start;
        while at < within.end {
            let word = self.0[at / BITS];
            let word = if is_there { word } else { !word };
            let rest = word >> (at % BITS);
            if rest != 0 {
                let found = at + rest.trailing_zeros() as usize;
                return (found < within.end).then_some(found);
            }
            at = (at / BITS + 1) * BITS;
        }
        None
    }

    fn each_word(&mut self, bytes: Range<usize>, change: impl Fn(&mut u64, u64)) {
        let mut at = bytes.start;
        while at < bytes.end {
            let end = bytes.end.min((at / BITS + 1) * BITS);
            let mask = u64::MAX >> (BITS - (end - at)) << (at % BITS);
            change(&mut self.0[at / BITS], mask);
            at = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_are_bytes(
            ranges in prop::collection::vec((0..BLOCK, 1..300usize, any::<bool>()), 1..20),
            within in (0..BLOCK, 0..BLOCK),
        ) {
            let mut valid = Valid::none();
            let mut plain = vec![false; BLOCK];
            for (start, len, is_there) in ranges {
                let range = start..(start + len).min(BLOCK);
                plain[range.clone()].fill(is_there);
                if is_there { valid.insert(range) } else { valid.remove(range) }
            }
            prop_assert_eq!(valid.is_empty(), !plain.contains(&true));
            prop_assert_eq!(valid.is_full(), !plain.contains(&false));
            let within = within.0.min(within.1)..within.0.max(within.1);
            let start = within.clone().find(|&at| plain[at]);
            let run = start.map(|start| {
                start..(start..within.end).find(|&at| !plain[at]).unwrap_or(within.end)
            });
            prop_assert_eq!(valid.first_run(within), run);
        }
    }

    #[test]
    fn all_and_none() {
        assert!(Valid::all().is_full() && Valid::none().is_empty());
        assert_eq!(Valid::all().first_run(5..BLOCK), Some(5..BLOCK));
        assert_eq!(Valid::none().first_run(0..BLOCK), None);
    }
}
