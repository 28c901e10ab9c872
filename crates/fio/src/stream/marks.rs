//! Bitmap of the parts of a region that have been touched.

/// A bit for each unit of a region, and above them one for each full word, up to one word: the next free unit is
/// found in O(log units).
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    /// Units first; each level is a 64th of the one before.
    levels: Box<[Box<[u64]>]>,
}

impl Marks {
    pub(super) fn new(units: u64) -> Marks {
        let mut levels = Vec::new();
        let mut words = units.div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words as usize].into());
            if words == 1 {
                return Marks { levels: levels.into() };
            }
            words = words.div_ceil(64);
        }
    }

    pub(super) fn clear(&mut self) {
        self.levels.iter_mut().for_each(|level| level.fill(0));
    }

    pub(super) fn is_free(&self, unit: u64) -> bool {
        self.levels[0][(unit / 64) as usize] >> (unit % 64) & 1 == 0
    }

    /// Free units in a row from `first` on, at most `count`.
    pub(super) fn free_run(&self, first: u64, count: u64) -> u64 {
        (0..count).find(|more| !self.is_free(first + more)).unwrap_or(count)
    }

    /// The first free unit from `unit` on. Units beyond the last, up to a multiple of 64, are free as long as nothing
    /// touches them.
    pub(super) fn next_free(&self, unit: u64) -> Option<u64> {
        let mut at = unit;
        let mut level = 0;
        // Up to where a word has room.
        let mut found = loop {
            let word = *self.levels.get(level)?.get((at / 64) as usize)?;
            let free = !word & (u64::MAX << (at % 64));
            if free != 0 {
                break at / 64 * 64 + u64::from(free.trailing_zeros());
            }
            at = at / 64 + 1;
            level += 1;
        };
        // And down to the unit. There may be fewer words than a level has bits for.
        for level in self.levels[..level].iter().rev() {
            let word = *level.get(found as usize)?;
            found = found * 64 + u64::from((!word).trailing_zeros());
        }
        Some(found)
    }

    /// Touches `count` units. Those beyond the last are a part of a unit at the region's end, which is never drawn.
    pub(super) fn touch(&mut self, first: u64, count: u64) {
        for unit in first..first + count {
            let mut at = unit;
            for level in &mut self.levels {
                let Some(word) = level.get_mut((at / 64) as usize) else { return };
                *word |= 1 << (at % 64);
                if *word != u64::MAX {
                    break;
                }
                at /= 64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Marks;

    #[test]
    fn runs() {
        let mut marks = Marks::new(130);
        assert_eq!(marks.free_run(0, 130), 130);
        marks.touch(60, 10);
        assert_eq!(marks.free_run(0, 130), 60);
        assert_eq!(marks.free_run(60, 5), 0);
        assert_eq!(marks.free_run(70, 60), 60);
        marks.touch(120, 1000);
        assert_eq!(marks.free_run(70, 60), 50);
        marks.clear();
        assert_eq!(marks.free_run(0, 130), 130);
    }

    proptest! {
        #[test]
        fn the_next_free_unit_is_found_at_every_level(
            units in prop_oneof![1..200_u64, 3_900..4_300_u64, 260_000..264_000_u64],
            runs in prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64), 0..12),
            from in prop::collection::vec(0.0..1.0_f64, 12),
        ) {
            let mut marks = Marks::new(units);
            let mut touched = vec![false; units as usize];
            let part = |share: f64, of: u64| (share * of as f64) as u64;
            for (first, count) in runs {
                let first = part(first, units);
                // Long ones more often than short ones, so that whole words of words are full.
                let count = part(count.sqrt(), units - first) + 1;
                marks.touch(first, count);
                touched[first as usize..][..count as usize].fill(true);
            }
            for from in from {
                let from = part(from, units);
                let after = touched[from as usize..].iter().position(|touched| !touched);
                let expected = after.map(|after| from + after as u64);
                prop_assert_eq!(marks.next_free(from).filter(|unit| *unit < units), expected);
            }
        }
    }
}
