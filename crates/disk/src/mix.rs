//! Integer hash.

/// A bijective mix of 64 bits; 0 stays 0.
///
/// Source: the finishing step of SplitMix64, Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators"
/// (2014).
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
