//! Series of an amount over time, in bounded memory.

/// Most points of a [`Series`].
pub const POINTS_MAX: usize = 1024;

/// The interval that a series begins with: 1 ms.
const FIRST_INTERVAL_NS: u64 = 1_000_000;

/// Amounts in intervals of equal length from time 0 on. Beyond [`POINTS_MAX`] points, pairs of intervals become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    interval_ns: u64,
    points: Vec<u64>,
}

impl Default for Series {
    fn default() -> Series {
        Series { interval_ns: FIRST_INTERVAL_NS, points: Vec::new() }
    }
}

impl Series {
    /// Adds an amount at a time. O(1) amortised.
    pub fn add(&mut self, at_ns: u64, amount: u64) {
        while at_ns / self.interval_ns >= POINTS_MAX as u64 {
            self.halve();
        }
        let index = (at_ns / self.interval_ns) as usize;
        if index >= self.points.len() {
            self.points.resize(index + 1, 0);
        }
        self.points[index] = self.points[index].saturating_add(amount);
    }

    /// Adds an amount that is spread evenly from `from_ns` to `to_ns`, or at the end if these are equal. Rounding
    /// loses nothing. O(intervals between).
    pub fn spread(&mut self, from_ns: u64, to_ns: u64, amount: u64) {
        let whole = to_ns.saturating_sub(from_ns);
        // Makes the intervals long enough before they are walked.
        self.add(to_ns.saturating_sub(1), 0);
        let (mut from, mut given) = (from_ns, 0);
        while from < to_ns {
            let end = (from / self.interval_ns + 1).saturating_mul(self.interval_ns).min(to_ns);
            let due = u128::from(amount) * u128::from(end - from_ns) / u128::from(whole);
            let due = u64::try_from(due).unwrap_or(u64::MAX);
            self.add(from, due - given);
            (from, given) = (end, due);
        }
        self.add(to_ns.saturating_sub(1), amount - given);
    }

    fn halve(&mut self) {
        self.interval_ns = self.interval_ns.saturating_mul(2);
        let pairs =
            self.points.chunks(2).map(|pair| pair.iter().fold(0, |a: u64, &b| a.saturating_add(b)));
        self.points = pairs.collect();
    }

    /// Adds another's amounts, time by time.
    pub fn absorb(&mut self, other: &Series) {
        let mut other = other.coarsened(self.interval_ns);
        while self.interval_ns < other.interval_ns {
            self.halve();
        }
        if self.points.len() < other.points.len() {
            std::mem::swap(&mut self.points, &mut other.points);
        }
        for (mine, theirs) in self.points.iter_mut().zip(other.points) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// The same with intervals at least as long as `interval_ns`, rounded up to what doubling reaches; for series
    /// that share an axis.
    #[must_use]
    pub fn coarsened(&self, interval_ns: u64) -> Series {
        let mut coarse = self.clone();
        while coarse.interval_ns < interval_ns {
            coarse.halve();
        }
        coarse
    }

    /// Length of an interval.
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// The amounts; nothing is known after the last.
    pub fn points(&self) -> &[u64] {
        &self.points
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_intervals_keep_all_amounts() {
        let mut series = Series::default();
        for ms in 0..5000u64 {
            series.add(ms * 1_000_000, ms);
        }
        assert_eq!(series.interval_ns(), 8_000_000);
        assert_eq!(series.points().len(), 625);
        assert_eq!(series.points()[1], (8..16).sum::<u64>());
        assert_eq!(series.points().iter().sum::<u64>(), (0..5000).sum::<u64>());
        assert_eq!(series.coarsened(9_000_000).points()[0], (0..16).sum::<u64>());
    }

    #[test]
    fn a_spread_amount_loses_nothing() {
        let mut series = Series::default();
        series.spread(500_000, 2_250_000, 1_750_000);
        assert_eq!(series.points(), [500_000, 1_000_000, 250_000]);
        series.spread(0, 3_000_000, 10);
        assert_eq!(series.points(), [500_003, 1_000_003, 250_004]);
        series.spread(5, 5, 7);
        assert_eq!(series.points()[0], 500_010);
    }
}
