//! Latency histogram of one thread: to add up, and to ask for quantiles.

use alloc::vec::Vec;

use crate::bins::{BINS, OCTAVES, place, start_ns};

/// An octave that is not there yet.
const ABSENT: u8 = u8::MAX;

/// Times, counted in bins whose width is 1/8 to 1/15 of the time: a quantile is off by 6.25 % at most, and by 2.3 % on
/// average. Times below about a microsecond count as one microsecond.
///
/// An octave is allocated when its first time comes: a histogram of the times of one device has some 64 bytes for each of a
/// few octaves, 2,048 bytes at most beside its 80.
///
/// Source: the bins of HdrHistogram, and their split by octaves so that memory goes where times are.
#[derive(Clone, Debug)]
pub struct Histogram {
    count: u64,
    sum_ns: u64,
    max_ns: u64,
    /// Index into `bins` for each octave.
    places: [u8; OCTAVES],
    bins: Vec<[u64; BINS]>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { count: 0, sum_ns: 0, max_ns: 0, places: [ABSENT; OCTAVES], bins: Vec::new() }
    }
}

/// A bin of a histogram that has any times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bin {
    /// Times in it are no shorter.
    pub start_ns: u64,
    /// Times in it are shorter.
    pub end_ns: u64,
    /// How many they are.
    pub count: u64,
}

impl Histogram {
    /// Counts a time. O(1); allocates for the first time of an octave.
    pub fn record(&mut self, ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        let (octave, bin) = place(ns);
        self.octave_mut(octave)[bin] += 1;
        self.count += 1;
    }

    /// Times that were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The longest, in nanoseconds; exact.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The least time that at least `per_mille` of 1,000 times do not exceed, in nanoseconds: the middle of its bin, and no
    /// longer than the longest. 0 without any.
    pub fn quantile_ns(&self, per_mille: u32) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(per_mille)).div_ceil(1_000).max(1) as u64;
        let mut seen = 0;
        for Bin { start_ns, end_ns, count } in self.bins() {
            seen += count;
            if seen >= wanted {
                return (start_ns + (end_ns - start_ns) / 2).min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// Bins that have any times, shortest first. O(octaves).
    pub fn bins(&self) -> impl Iterator<Item = Bin> {
        let octaves = self.places.iter().enumerate().filter(|&(_, &at)| at != ABSENT);
        octaves.flat_map(|(octave, &at)| {
            let bins = self.bins[usize::from(at)].iter().enumerate();
            bins.filter(|&(_, &count)| count > 0).map(move |(bin, &count)| Bin {
                start_ns: start_ns(octave, bin),
                end_ns: start_ns(octave, bin + 1),
                count,
            })
        })
    }

    /// Adds the times of another.
    pub fn absorb(&mut self, other: &Histogram) {
        for (octave, &at) in other.places.iter().enumerate().filter(|&(_, &at)| at != ABSENT) {
            self.add_octave(octave, other.bins[usize::from(at)]);
        }
        self.add_sum(other.sum_ns, other.max_ns);
    }

    /// What was counted since `before`, an earlier state of this one. The longest time is the end of the last bin then, if
    /// it is not longer than the longest of all.
    pub fn since(&self, before: &Histogram) -> Histogram {
        let mut since = Histogram::default();
        for (octave, &at) in self.places.iter().enumerate().filter(|&(_, &at)| at != ABSENT) {
            let mut counts = self.bins[usize::from(at)];
            if let Some(before) = before.bins.get(usize::from(before.places[octave])) {
                let pairs = counts.iter_mut().zip(before);
                pairs.for_each(|(count, &before)| *count = count.saturating_sub(before));
            }
            if counts != [0; BINS] {
                since.add_octave(octave, counts);
            }
        }
        let last = since.bins().last();
        since.max_ns = last.map_or(0, |bin| bin.end_ns.min(self.max_ns));
        since.sum_ns = self.sum_ns.saturating_sub(before.sum_ns);
        since
    }

    /// Adds the counts of one octave.
    pub(crate) fn add_octave(&mut self, octave: usize, counts: [u64; BINS]) {
        let mine = self.octave_mut(octave);
        mine.iter_mut().zip(counts).for_each(|(mine, count)| *mine += count);
        self.count += counts.iter().sum::<u64>();
    }

    pub(crate) fn add_sum(&mut self, sum_ns: u64, max_ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
        self.max_ns = self.max_ns.max(max_ns);
    }

    fn octave_mut(&mut self, octave: usize) -> &mut [u64; BINS] {
        if self.places[octave] == ABSENT {
            self.places[octave] = self.bins.len() as u8;
            self.bins.push([0; BINS]);
        }
        &mut self.bins[usize::from(self.places[octave])]
    }
}

/// Equal where the same times were counted, in whatever order.
impl PartialEq for Histogram {
    fn eq(&self, other: &Histogram) -> bool {
        self.sum_ns == other.sum_ns && self.max_ns == other.max_ns && self.bins().eq(other.bins())
    }
}

impl Eq for Histogram {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_off_by_a_sixteenth_at_most_and_by_a_fortieth_on_average() {
        let (mut sum_permille, mut tried) = (0, 0);
        for step in 0..20_000u64 {
            let ns = 1_300 + step * step * 7;
            let mut histogram = Histogram::default();
            histogram.record(ns);
            // The longest would be told exactly.
            histogram.record(1 << 40);
            let told = histogram.quantile_ns(500);
            let off = told.abs_diff(ns);
            assert!(off * 16 <= ns, "{ns} is told as {told}");
            sum_permille += off * 100_000 / ns;
            tried += 1;
        }
        assert!(sum_permille / tried < 2_500, "{}", sum_permille / tried);
    }

    #[test]
    fn quantiles_are_of_all_that_was_counted() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile_ns(500), histogram.max_ns()), (0, 0));
        for ms in 1..=1_000u64 {
            histogram.record(ms * 1_000_000);
        }
        for (per_mille, ms) in [(1, 1), (500, 500), (990, 990), (999, 999), (1_000, 1_000)] {
            let told = histogram.quantile_ns(per_mille);
            let exact = ms * 1_000_000;
            assert!(told.abs_diff(exact) * 16 <= exact, "{per_mille}: {told}");
        }
        assert_eq!(histogram.max_ns(), 1_000_000_000);
        assert_eq!(histogram.sum_ns(), 500_500_000_000);
    }

    #[test]
    fn what_is_absorbed_is_as_if_counted_together() {
        let (mut all, mut parts) = (Histogram::default(), [(); 3].map(|()| Histogram::default()));
        let mut ns = 900;
        for number in 0..3_000usize {
            ns = (ns * 31 + 17) % (1 << 44);
            all.record(ns);
            parts[number % 3].record(ns);
        }
        let mut sum = Histogram::default();
        parts.iter().for_each(|part| sum.absorb(part));
        assert_eq!(sum, all);
        assert_eq!(sum.count(), 3_000);
    }

    #[test]
    fn of_two_states_the_difference_is_what_came_between() {
        let mut before = Histogram::default();
        (1..100).for_each(|ms| before.record(ms * 1_000_000));
        let mut after = before.clone();
        assert_eq!(after.since(&before).count(), 0);
        [3_000_000, 3_000_000, 70_000].into_iter().for_each(|ns| after.record(ns));
        let since = after.since(&before);
        assert_eq!((since.count(), since.sum_ns()), (3, 6_070_000));
        assert!(since.max_ns() >= 3_000_000 && since.max_ns() <= 3_200_000, "not 99 ms: {since:?}");
        assert_eq!(before.since(&after).count(), 0, "not below zero");
    }
}
