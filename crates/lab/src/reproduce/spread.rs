//! Runs with many seeds on all cores, and the spread of their figures.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Gets the numbers of finished runs and of all.
pub type Progress<'a> = &'a (dyn Fn(u32, u32) + Sync);

/// Results of `run` for 0, 1, … `count` - 1, in this order, however many cores run them.
pub(super) fn all<T: Send>(
    count: u32,
    progress: Progress<'_>,
    run: impl Fn(u32) -> T + Sync,
) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, done) = (AtomicU32::new(0), AtomicU32::new(0));
    let results = Mutex::new((0..count).map(|_| None).collect::<Vec<Option<T>>>());
    std::thread::scope(|scope| {
        for _ in 0..cores.min(count as usize) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        break;
                    }
                    let result = run(at);
                    let mut results =
                        results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    results[at as usize] = Some(result);
                    drop(results);
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, count);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.into_iter().map(|result| result.expect("each was run")).collect()
}

/// Values of one figure over all seeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spread {
    /// Ascending.
    values: Vec<u64>,
}

impl Spread {
    /// At least one value.
    pub(super) fn new(mut values: Vec<u64>) -> Spread {
        assert!(!values.is_empty(), "a spread of nothing");
        values.sort_unstable();
        Spread { values }
    }

    /// Rounded down.
    pub(super) fn mean(&self) -> u64 {
        let sum: u128 = self.values.iter().map(|&value| u128::from(value)).sum();
        (sum / self.values.len() as u128) as u64
    }

    /// The least value that so many percent of all do not exceed; 100 is the largest.
    pub(super) fn percentile(&self, percent: u32) -> u64 {
        let rank = (self.values.len() as u64 * u64::from(percent)).div_ceil(100).max(1);
        self.values[rank as usize - 1]
    }

    pub(super) fn least(&self) -> u64 {
        self.values[0]
    }

    pub(super) fn above(&self, value: u64) -> usize {
        self.values.len() - self.values.partition_point(|&one| one <= value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_spread_are_ranks() {
        let spread = Spread::new((1..=50).rev().collect());
        assert_eq!((spread.least(), spread.mean(), spread.percentile(100)), (1, 25, 50));
        assert_eq!(
            (spread.percentile(50), spread.percentile(90), spread.percentile(1)),
            (25, 45, 1)
        );
        assert_eq!((spread.above(0), spread.above(48), spread.above(50)), (50, 2, 0));
        assert_eq!(Spread::new(vec![7]).percentile(50), 7);
    }

    #[test]
    fn results_are_in_order_and_progress_is_reported() {
        let told = AtomicU32::new(0);
        let progress = |done: u32, all: u32| {
            assert!((1..=all).contains(&done) && all == 20);
            told.fetch_add(1, Ordering::Relaxed);
        };
        assert_eq!(all(20, &progress, |at| at * at), (0..20).map(|at| at * at).collect::<Vec<_>>());
        assert_eq!(told.load(Ordering::Relaxed), 20);
        assert!(all(0, &progress, |at| at).is_empty());
    }
}
