//! Path delay: time that a completed request takes back from the disk to its process.

use weir_fio::random::Random;

use crate::scenario;

/// Keeps its random numbers apart from those of streams and processes, which have the same seed.
const SALT: u64 = 0x7761_7973_7761_7973;

/// Serial stage, which requests pass one at a time in the order of completion, and a parallel rest.
#[derive(Debug)]
pub(super) struct PathDelay {
    times_ns: Vec<u64>,
    each_ns: u64,
    /// When the serial stage is free again.
    free_ns: u64,
    random: Random,
}

impl PathDelay {
    pub(super) fn new(delay: &scenario::PathDelay, seed: u64) -> PathDelay {
        let takes_time = delay.times_ns.iter().any(|&time_ns| time_ns > 0);
        PathDelay {
            times_ns: if takes_time { delay.times_ns.clone() } else { Vec::new() },
            each_ns: delay.each_ns,
            free_ns: 0,
            random: Random::new(seed ^ SALT),
        }
    }

    #[inline]
    pub(super) fn takes_time(&self) -> bool {
        !self.times_ns.is_empty()
    }

    /// When a request that the disk completes now is back.
    pub(super) fn arrival_ns(&mut self, now_ns: u64) -> u64 {
        let time_ns = match self.times_ns.as_slice() {
            [one] => *one,
            several => several[self.random.below(several.len() as u64) as usize],
        };
        self.free_ns = self.free_ns.max(now_ns).saturating_add(self.each_ns);
        self.free_ns.saturating_add(time_ns.saturating_sub(self.each_ns))
    }
}
