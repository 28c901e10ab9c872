//! Histogram of latencies, in a few kilobytes.

/// Buckets of a power of two: a quantile is off by at most 1/512 of itself.
const PARTS: usize = 256;
const PARTS_LOG: u32 = PARTS.trailing_zeros();

/// Pages: one for times below [`PARTS`] nanoseconds, which are exact, and one for each power of two above.
const PAGES: usize = 64 - PARTS_LOG as usize + 1;

/// A histogram of times in nanoseconds, log-linear, with exact count, sum, minimum and maximum.
///
/// A page of 1 KiB for each power of two with a time in it, so that 100,000 processes can have one each. Recording is
/// O(1). A bucket saturates at 2^32 - 1 times.
// One cache line: with a thousand tenants each time recorded is a miss in every line it touches.
#[derive(Clone, Default)]
#[repr(align(64))]
pub struct Latency {
    /// The page of the last time, since the next one is mostly on it too, and its index. It is not among `pages`;
    /// None while it is empty.
    recent: Option<Page>,
    pages: Option<Box<Pages>>,
    recent_at: u8,
    /// The bucket of the last time, and how many times in it are not on the page yet: with many histograms of equal
    /// times, only this line has to be fetched.
    part: u8,
    pending: u32,
    count: u64,
    sum_ns: u128,
    /// The longest, and the difference of the shortest from the largest possible time: both are maxima.
    max_ns: u64,
    below_ns: u64,
}

/// Counts by bucket of one power of two.
type Page = Box<[u32; PARTS]>;
type Pages = [Option<Page>; PAGES];

const _: () = assert!(size_of::<Latency>() == 64 && PAGES <= 256 && PARTS <= 256);

impl Latency {
    /// Adds a time.
    pub fn record(&mut self, time_ns: u64) {
        let (page, part) = place(time_ns);
        if (page, part) != (self.recent_at.into(), self.part.into()) {
            self.turn_to(page, part);
        }
        self.pending = self.pending.saturating_add(1);
        self.max_ns = self.max_ns.max(time_ns);
        self.below_ns = self.below_ns.max(u64::MAX - time_ns);
        self.count += 1;
        self.sum_ns += u128::from(time_ns);
    }

    /// Adds all times of another.
    pub fn absorb(&mut self, other: &Latency) {
        if other.count == 0 {
            return;
        }
        for (page, part, theirs) in other.places() {
            if (page, part) != (self.recent_at.into(), self.part.into()) {
                self.turn_to(page, part);
            }
            self.pending = self.pending.saturating_add(theirs);
        }
        self.max_ns = self.max_ns.max(other.max_ns);
        self.below_ns = self.below_ns.max(other.below_ns);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The shortest; 0 if there is none.
    pub fn min_ns(&self) -> u64 {
        if self.count == 0 { 0 } else { u64::MAX - self.below_ns }
    }

    /// The longest; 0 if there is none.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The sum of all.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The mean; 0 if there is none.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    /// Standard deviation, each time taken as the middle of its bucket; 0 if there is none.
    pub fn deviation_ns(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let mean = self.mean_ns();
        let squares = self.buckets().map(|(low, high, count)| {
            let off = (low as f64 + high as f64) / 2.0 - mean;
            off * off * f64::from(count)
        });
        (squares.sum::<f64>() / self.count as f64).sqrt()
    }

    /// The least time that `thousandths_of_percent` of all times do not exceed, 0 to 100,000: 99,900 is p99.9. The
    /// middle of its bucket, within minimum and maximum; 0 if there is none.
    pub fn quantile_ns(&self, thousandths_of_percent: u32) -> u64 {
        let rank = u128::from(self.count) * u128::from(thousandths_of_percent.min(100_000));
        // The first is the minimum, also for 0 %.
        let rank = rank.div_ceil(100_000).max(1);
        let mut seen = 0u128;
        for (low, high, count) in self.buckets() {
            seen += u128::from(count);
            if seen >= rank {
                return (low + (high - low) / 2).clamp(self.min_ns(), self.max_ns);
            }
        }
        self.max_ns
    }

    /// The median.
    pub fn p50_ns(&self) -> u64 {
        self.quantile_ns(50_000)
    }

    /// 99th percentile.
    pub fn p99_ns(&self) -> u64 {
        self.quantile_ns(99_000)
    }

    /// 99.9th percentile.
    pub fn p99_9_ns(&self) -> u64 {
        self.quantile_ns(99_900)
    }

    /// Buckets with times, ascending: first and last time of each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        self.places().map(|(page, part, count)| {
            let (low, high) = bounds(page, part);
            (low, high, count)
        })
    }

    /// The same by page and index.
    fn places(&self) -> impl Iterator<Item = (usize, usize, u32)> + '_ {
        let recent = usize::from(self.recent_at);
        let pages = (0..PAGES).filter(move |&page| page == recent || self.page(page).is_some());
        let all = pages.flat_map(|page| (0..PARTS).map(move |part| (page, part)));
        let counted = all.map(move |(page, part)| {
            let is_last = (page, part) == (recent, self.part.into());
            let pending = if is_last { self.pending } else { 0 };
            let noted = self.page(page).map_or(0, |counts| counts[part]);
            (page, part, noted.saturating_add(pending))
        });
        counted.filter(|&(_, _, count)| count > 0)
    }

    fn page(&self, page: usize) -> Option<&Page> {
        match usize::from(self.recent_at) == page {
            true => self.recent.as_ref(),
            false => self.pages.as_ref()?[page].as_ref(),
        }
    }

    /// Writes the pending count, and moves to another bucket.
    fn turn_to(&mut self, page: usize, part: usize) {
        if self.pending > 0 {
            let counts = self.recent.get_or_insert_with(|| Box::new([0; PARTS]));
            let count = &mut counts[usize::from(self.part)];
            *count = count.saturating_add(self.pending);
            self.pending = 0;
        }
        if page != usize::from(self.recent_at) {
            self.turn_page(page);
        }
        self.part = part as u8;
    }

    /// Puts the recent page back and takes out another, if there is one.
    #[inline(never)]
    fn turn_page(&mut self, page: usize) {
        if let Some(recent) = self.recent.take() {
            let pages = self.pages.get_or_insert_with(|| Box::new([const { None }; PAGES]));
            pages[usize::from(self.recent_at)] = Some(recent);
            self.recent = pages[page].take();
        }
        self.recent_at = page as u8;
    }
}

impl PartialEq for Latency {
    /// Compares what is known of the times, in whichever order they came.
    fn eq(&self, other: &Latency) -> bool {
        let told = |it: &Latency| (it.count, it.sum_ns, it.min_ns(), it.max_ns);
        told(self) == told(other) && self.buckets().eq(other.buckets())
    }
}

impl std::fmt::Debug for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Latency")
            .field("count", &self.count)
            .field("min_ns", &self.min_ns())
            .field("p50_ns", &self.p50_ns())
            .field("p99_ns", &self.p99_ns())
            .field("max_ns", &self.max_ns)
            .finish()
    }
}

fn place(time_ns: u64) -> (usize, usize) {
    if time_ns < PARTS as u64 {
        return (0, time_ns as usize);
    }
    let shift = time_ns.ilog2() - PARTS_LOG;
    (shift as usize + 1, (time_ns >> shift) as usize - PARTS)
}

fn bounds(page: usize, part: usize) -> (u64, u64) {
    debug_assert!(page < PAGES);
    match page.checked_sub(1) {
        None => (part as u64, part as u64),
        Some(shift) => {
            let low = ((PARTS + part) as u64) << shift;
            (low, low + ((1u64 << shift) - 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_in_its_bucket() {
        let around = (0..64).flat_map(|power| {
            let at = 1u64 << power;
            [at - 1, at, at + 1, at + at / 3]
        });
        for time in around.chain([u64::MAX]) {
            let (page, part) = place(time);
            let (low, high) = bounds(page, part);
            assert!((low..=high).contains(&time), "{time}: {low}..={high}");
            assert!((high - low) as f64 <= low as f64 / 256.0, "{time}: {low}..={high}");
        }
    }

    #[test]
    fn quantiles_agree_with_sorted_times() {
        let mut times = Latency::default();
        assert_eq!((times.p50_ns(), times.max_ns(), times.mean_ns()), (0, 0, 0.0));
        for time in 1..=1000 {
            times.record(time * 1000);
        }
        for (thousandths, exact) in
            [(0, 1), (100, 1), (50_000, 500), (99_000, 990), (99_900, 999), (100_000, 1000)]
        {
            let told = times.quantile_ns(thousandths) as f64;
            assert!(
                (told / (f64::from(exact) * 1000.0) - 1.0).abs() <= 1.0 / 256.0,
                "{told} {exact}"
            );
        }
        assert_eq!((times.min_ns(), times.max_ns(), times.count()), (1000, 1_000_000, 1000));
        assert_eq!(times.mean_ns(), 500_500.0);
        // Of the numbers 1 to n it is the root of (n^2 - 1) / 12.
        assert!((times.deviation_ns() / 288_675.0 - 1.0).abs() < 0.001);
    }

    #[test]
    fn a_single_time_is_exact() {
        let mut times = Latency::default();
        times.record(6_000_123);
        assert_eq!((times.p50_ns(), times.p99_9_ns()), (6_000_123, 6_000_123));
    }

    #[test]
    fn no_order_of_times_loses_one() {
        let mut times = Latency::default();
        let mut counts = std::collections::BTreeMap::new();
        let rounds = [0, 0, 5, 5, 1000, 1000, 1001, 5, 70_000, 1000, 70_000, 70_000, 0];
        for time in rounds.repeat(3) {
            times.record(time);
            let (page, part) = place(time);
            *counts.entry(bounds(page, part)).or_insert(0) += 1;
            let told: Vec<(u64, u64, u32)> = times.buckets().collect();
            let expected = counts.iter().map(|(&(low, high), &count)| (low, high, count));
            assert_eq!(told, expected.collect::<Vec<_>>());
        }
        assert_eq!(times.count(), 39);
    }

    #[test]
    fn two_absorbed_halves_equal_the_whole() {
        let (mut all, mut even, mut odd) =
            (Latency::default(), Latency::default(), Latency::default());
        for time in 0..5000u64 {
            let time = time * time;
            all.record(time);
            if time % 2 == 0 { &mut even } else { &mut odd }.record(time);
        }
        even.absorb(&odd);
        even.absorb(&Latency::default());
        assert_eq!(even, all);
    }
}
