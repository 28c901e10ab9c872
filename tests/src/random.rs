//! Numbers and bytes that look random and are the same in every run.

/// A linear congruential generator with Knuth's constants (MMIX): its upper bits are good enough for tests.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Each seed is another sequence.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A number from 0 to `below` - 1.
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// `len` bytes in which every place, and every `seed`, is another.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(len + 4);
    while bytes.len() < len {
        bytes.extend_from_slice(&(random.below(1 << 31) as u32).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
