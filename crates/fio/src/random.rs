//! Random numbers that are the same on every machine and in every version.
//!
//! The generators never change: reports name a seed, which must mean the same requests for good. So they are here in
//! full, and tested with their authors' vectors.

/// Next number of `state`, and the state after it: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom
/// number generators", 2014). Makes good 64-bit words of poor seeds.
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// xoshiro256++ 1.0 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021): 32 bytes, about a
/// nanosecond a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random([u64; 4]);

impl Random {
    /// The generator of this seed; all seeds are equally good.
    pub fn new(seed: u64) -> Random {
        let mut state = seed;
        Random(std::array::from_fn(|_| splitmix64(&mut state)))
    }

    /// 64 random bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        let s = &mut self.0;
        let word = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        word
    }

    /// A number from 0 to `bound` - 1; 0 for a bound of 0.
    ///
    /// By multiplication, without rejection: a number is off its fair share by less than `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 up to, not including, 1: a multiple of 2^-53.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.word() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, splitmix64};

    /// From the authors' C programs, as many libraries print them: SplitMix64 from 1234567, xoshiro256++ from 1, 2,
    /// 3, 4.
    #[test]
    fn generators_give_their_authors_vectors() {
        let mut state = 1_234_567;
        let words: [u64; 5] = std::array::from_fn(|_| splitmix64(&mut state));
        assert_eq!(
            words,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
        let mut random = Random([1, 2, 3, 4]);
        let words: [u64; 10] = std::array::from_fn(|_| random.word());
        assert_eq!(
            words,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386,
                9_228_616_714_210_784_205,
                9_973_669_472_204_895_162,
                14_011_001_112_246_962_877,
                12_406_186_145_184_390_807,
                15_849_039_046_786_891_736,
                10_450_023_813_501_588_000,
            ]
        );
    }

    #[test]
    fn bounds() {
        let mut random = Random::new(0);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] += 1;
            assert!((0.0..1.0).contains(&random.fraction()));
        }
        assert!(seen.iter().all(|count| (900..1100).contains(count)), "{seen:?}");
    }
}
