//! Latency histogram that one thread writes and others read.

use alloc::boxed::Box;

use once_cell::race::OnceBox;

use crate::atomic::{AtomicU64, Ordering};
use crate::bins::{BINS, OCTAVES, place};
use crate::histogram::Histogram;

/// A [`Histogram`] of one writer that other threads read.
///
/// Each bin is right by itself, and how many times there are is their sum: quantiles are of times that were counted. The sum
/// of the times and the longest may have one more. An octave is allocated when its first time comes.
#[derive(Debug, Default)]
pub struct SharedHistogram {
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
    octaves: [OnceBox<[AtomicU64; BINS]>; OCTAVES],
}

impl SharedHistogram {
    /// Counts a time. O(1). By one thread at a time: of two at once, one may be lost.
    #[inline]
    pub fn record(&self, ns: u64) {
        let (octave, bin) = place(ns);
        let octave =
            self.octaves[octave].get_or_init(|| Box::new([const { AtomicU64::new(0) }; BINS]));
        add(&octave[bin], 1);
        add(&self.sum_ns, ns);
        if ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.store(ns, Ordering::Relaxed);
        }
    }

    /// Adds what was counted to `histogram`, on any thread. O(octaves).
    pub fn add_to(&self, histogram: &mut Histogram) {
        for (octave, counts) in self.octaves.iter().enumerate() {
            if let Some(counts) = counts.get() {
                histogram.add_octave(
                    octave,
                    core::array::from_fn(|bin| counts[bin].load(Ordering::Relaxed)),
                );
            }
        }
        histogram.add_sum(self.sum_ns.load(Ordering::Relaxed), self.max_ns.load(Ordering::Relaxed));
    }
}

/// One writer needs no locked instruction.
#[inline]
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_counted() {
        let (shared, mut plain) = (SharedHistogram::default(), Histogram::default());
        let mut ns = 900;
        for _ in 0..3_000 {
            ns = (ns * 31 + 17) % (1 << 44);
            shared.record(ns);
            plain.record(ns);
        }
        let mut read = Histogram::default();
        shared.add_to(&mut read);
        assert_eq!(read, plain);
    }
}
