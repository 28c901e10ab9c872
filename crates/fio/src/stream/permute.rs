//! Random permutation of blocks, without a list of those that are left.

/// The element `index` of the permutation of 0 to `count` - 1 with this `key`.
///
/// `index` is below `count`. O(1) in memory. Costs a few nanoseconds: a permutation of the next power of two, by
/// invertible steps (adding, multiplying by an odd number, folding the upper half on the lower), repeated until the
/// result is below `count`, less than twice on average. Source: Black and Rogaway, "Ciphers with arbitrary finite
/// domains" (cycle walking).
#[inline]
pub(super) fn shuffled(key: u64, count: u64, index: u64) -> u64 {
    if count <= 1 {
        return 0;
    }
    let bits = 64 - (count - 1).leading_zeros();
    let mask = u64::MAX >> (64 - bits);
    let fold = bits.div_ceil(2);
    let mut place = index;
    loop {
        // The multipliers are those of MurmurHash3 and SplitMix64, known to mix well.
        for (turn, factor) in [
            (0, 0xff51_afd7_ed55_8ccd_u64),
            (21, 0xbf58_476d_1ce4_e5b9),
            (43, 0x94d0_49bb_1331_11eb),
        ] {
            place = place.wrapping_add(key.rotate_right(turn)).wrapping_mul(factor) & mask;
            place ^= place >> fold;
        }
        if place < count {
            return place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shuffled;
    use crate::random::Random;

    #[test]
    fn a_permutation_has_each_block_once() {
        let mut random = Random::new(1);
        for count in (1..200).chain([255, 256, 257, 1000, 4095, 4096, 4097, 65_537]) {
            for _ in 0..4 {
                let key = random.word();
                let mut seen = vec![false; count as usize];
                for index in 0..count {
                    let place = shuffled(key, count, index) as usize;
                    assert!(!std::mem::replace(&mut seen[place], true), "{place} twice of {count}");
                }
            }
        }
    }

    /// Neighbours go apart, and every key has its own permutation.
    #[test]
    fn a_permutation_looks_random() {
        let count = 1 << 16;
        let mut random = Random::new(2);
        for _ in 0..8 {
            let key = random.word();
            let row: Vec<u64> = (0..count).map(|index| shuffled(key, count, index)).collect();
            let distance: u64 = row.windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum();
            // A third of the whole, as between any two of evenly spread places.
            let mean = distance / (count - 1);
            assert!(mean.abs_diff(count / 3) < count / 30, "{mean}");
            let other = row
                .iter()
                .zip(0..)
                .filter(|(place, index)| shuffled(!key, count, *index) == **place);
            assert!(other.count() < 16);
            // The half of one element says nothing about that of the next: counts of runs by length.
            let runs = row
                .windows(2)
                .filter(|pair| (pair[0] < count / 2) != (pair[1] < count / 2))
                .count() as u64;
            assert!(runs.abs_diff(count / 2) < count / 30, "{runs}");
        }
    }
}
