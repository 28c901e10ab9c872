//! Latencies over time, in bounded memory: a small histogram for each interval.

/// Most intervals of a [`LatencySeries`]: columns of a heat map.
pub const COLUMNS_MAX: usize = 128;

/// Bins of a power of two, of equal width: a quantile is off by at most a seventh of itself.
const PARTS: u64 = 4;
/// The first bin has all times below 2^10 ns, about a microsecond; the last all from 2^36 ns on, about a minute.
const FIRST_LOG: u32 = 10;
const LOGS: usize = 26;
const BINS: usize = 1 + PARTS as usize * LOGS;

/// The interval that a series begins with: 1 ms.
const FIRST_INTERVAL_NS: u64 = 1_000_000;

/// Counts of one interval.
type Column = Box<[u32; BINS]>;

/// Times in intervals of equal length from time 0 on. Beyond [`COLUMNS_MAX`] columns, pairs of intervals become one. A
/// column has 420 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencySeries {
    interval_ns: u64,
    columns: Vec<Option<Column>>,
}

impl Default for LatencySeries {
    fn default() -> LatencySeries {
        LatencySeries { interval_ns: FIRST_INTERVAL_NS, columns: Vec::new() }
    }
}

impl LatencySeries {
    /// Adds a time that a request took which ended at `at_ns`. O(1) amortised.
    pub fn record(&mut self, at_ns: u64, took_ns: u64) {
        while at_ns / self.interval_ns >= COLUMNS_MAX as u64 {
            self.halve();
        }
        let index = (at_ns / self.interval_ns) as usize;
        if index >= self.columns.len() {
            self.columns.resize(index + 1, None);
        }
        let column = self.columns[index].get_or_insert_with(|| Box::new([0; BINS]));
        let bin = &mut column[bin(took_ns)];
        *bin = bin.saturating_add(1);
    }

    fn halve(&mut self) {
        self.interval_ns = self.interval_ns.saturating_mul(2);
        let columns = std::mem::take(&mut self.columns);
        let mut columns = columns.into_iter();
        while let Some(mut first) = columns.next() {
            if let Some(second) = columns.next().flatten() {
                add(&mut first, &second);
            }
            self.columns.push(first);
        }
    }

    /// Adds another's times.
    pub fn absorb(&mut self, other: &LatencySeries) {
        let mut other = other.clone();
        while other.interval_ns < self.interval_ns {
            other.halve();
        }
        while self.interval_ns < other.interval_ns {
            self.halve();
        }
        if self.columns.len() < other.columns.len() {
            self.columns.resize(other.columns.len(), None);
        }
        for (mine, theirs) in self.columns.iter_mut().zip(&other.columns) {
            if let Some(theirs) = theirs {
                add(mine, theirs);
            }
        }
    }

    /// Length of an interval.
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// Intervals up to the last that has a time.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether no time was added.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Bins of an interval that have any times: the least and the first longer time, in nanoseconds, and how many.
    pub fn bins(&self, index: usize) -> impl Iterator<Item = (u64, u64, u64)> {
        let column = self.columns.get(index).and_then(Option::as_ref);
        let bins = column.into_iter().flat_map(|column| column.iter().enumerate());
        bins.filter(|&(_, &count)| count > 0)
            .map(|(bin, &count)| (start_ns(bin), start_ns(bin + 1), u64::from(count)))
    }

    /// The middle of the bin that the time is in which `per_mille` of 1,000 times of an interval do not exceed; `None`
    /// without any.
    pub fn quantile_ns(&self, index: usize, per_mille: u64) -> Option<u64> {
        let count: u64 = self.bins(index).map(|(_, _, count)| count).sum();
        let wanted = (count * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        self.bins(index).find_map(|(start, end, count)| {
            seen += count;
            (seen >= wanted).then_some(start + (end - start) / 2)
        })
    }
}

fn add(sum: &mut Option<Column>, more: &[u32; BINS]) {
    let sum = sum.get_or_insert_with(|| Box::new([0; BINS]));
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
}

fn bin(ns: u64) -> usize {
    if ns < 1 << FIRST_LOG {
        return 0;
    }
    let log = ns.ilog2();
    let part = (ns >> (log - PARTS.ilog2())) % PARTS;
    (1 + (log - FIRST_LOG) as usize * PARTS as usize + part as usize).min(BINS - 1)
}

/// The least time of a bin.
fn start_ns(bin: usize) -> u64 {
    let Some(above) = bin.checked_sub(1) else { return 0 };
    let (log, part) = (FIRST_LOG + above as u32 / PARTS as u32, above as u64 % PARTS);
    (1 << log) + ((part << log) / PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn each_time_is_in_the_bin_that_is_told_of_it() {
        for ns in [0, 1, 1023, 1024, 1279, 1280, 5_000_000, 3_000_000_017, 60_000_000_000] {
            let at = bin(ns);
            assert!(start_ns(at) <= ns && ns < start_ns(at + 1), "{ns} is in {at}");
        }
        assert_eq!(bin(u64::MAX), BINS - 1);
    }

    #[test]
    fn quantiles_are_of_their_interval() {
        let mut series = LatencySeries::default();
        for number in 0..1000u64 {
            series.record(500 * MS, if number < 985 { 100_000 } else { 10 * MS });
        }
        series.record(2 * MS, 3 * MS);
        let at = (500 * MS / series.interval_ns()) as usize;
        let near =
            |found: Option<u64>, ns: u64| found.is_some_and(|found| found.abs_diff(ns) <= ns / 7);
        assert!(near(series.quantile_ns(at, 500), 100_000));
        assert!(near(series.quantile_ns(at, 990), 10 * MS));
        assert!(near(series.quantile_ns(0, 990), 3 * MS));
        assert_eq!(series.quantile_ns(at - 1, 500), None);
        assert!(series.len() <= COLUMNS_MAX);
    }

    #[test]
    fn what_is_added_up_has_all_times() {
        let [mut one, mut other] = [(); 2].map(|()| LatencySeries::default());
        (0..300).for_each(|ms| one.record(ms * MS, 5000));
        (0..2000).for_each(|ms| other.record(ms * MS, 7000));
        let count = |series: &LatencySeries| -> u64 {
            (0..series.len()).flat_map(|at| series.bins(at)).map(|(_, _, count)| count).sum()
        };
        one.absorb(&other);
        assert_eq!((count(&one), one.interval_ns(), one.len()), (2300, 16 * MS, 125));
        other.absorb(&LatencySeries::default());
        assert_eq!(count(&other), 2000);
    }
}
