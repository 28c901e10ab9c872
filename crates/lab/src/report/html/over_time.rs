//! Lines and marks over time, from series and timed changes.

use weir_units::Nanos;

use super::chart::Mark;
use crate::report::figures::per_sec;
use crate::results::{Results, Series};

/// Points of a line, about; more would be noise at the width of a page.
const POINTS: u64 = 160;

/// Most intervals of zeroes after a series' last point.
const FILLED_MAX: u64 = 4 * POINTS;

/// Most changes that a chart marks; all are listed below the charts.
const MARKS_MAX: usize = 40;

/// Timed changes of a run, numbered from 1 on.
pub(super) fn marks(results: &Results) -> Vec<Mark> {
    let numbered = results.changes.iter().take(MARKS_MAX).enumerate();
    let marks = numbered.map(|(index, change)| Mark {
        at: change.at_ns as f64,
        name: (index + 1).to_string(),
        text: format!("{} {}", Nanos(change.at_ns).rounded(), change.setting),
    });
    marks.collect()
}

/// A series as rates, by time in nanoseconds: each point in the middle of its interval, the outermost at the edges of
/// the run. Zeroes follow the last point of a series up to the end.
pub(super) fn per_second(series: &Series, elapsed_ns: u64) -> Vec<(f64, f64)> {
    if series.is_empty() {
        return Vec::new();
    }
    let series = series.coarsened(elapsed_ns.div_ceil(POINTS));
    let interval = series.interval_ns();
    let mut amounts = series.points().to_vec();
    let whole = elapsed_ns.div_ceil(interval).min(FILLED_MAX) as usize;
    amounts.resize(amounts.len().max(whole), 0);
    // A part of an interval has a rate far above or below what the run did: a request more or less is much of it. So the
    // last, partial interval is one with that before it.
    if amounts.len() > 1 && amounts.len() as u64 * interval > elapsed_ns {
        let last = amounts.pop().unwrap_or(0);
        if let Some(before) = amounts.last_mut() {
            *before = before.saturating_add(last);
        }
    }
    let count = amounts.len();
    let points = amounts.into_iter().enumerate().filter_map(|(index, amount)| {
        let from = index as u64 * interval;
        let is_last = index + 1 == count;
        let until = if is_last { elapsed_ns } else { from.saturating_add(interval) };
        let time = until.min(elapsed_ns).saturating_sub(from);
        (time > 0).then(|| ((from + time / 2) as f64, per_sec(amount, time) as f64))
    });
    let mut points: Vec<(f64, f64)> = points.collect();
    if let [first, .., last] = points.as_mut_slice() {
        first.0 = 0.0;
        last.0 = elapsed_ns as f64;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn amounts_become_rates() {
        let mut series = Series::default();
        for ms in 0..4 {
            series.add(ms * MS, 10 * (ms + 1));
        }
        // The last interval lasts only half as long, and zeroes follow.
        let points = per_second(&series, 6 * MS);
        let rates: Vec<f64> = points.iter().map(|point| point.1).collect();
        assert_eq!(rates, [10_000.0, 20_000.0, 30_000.0, 40_000.0, 0.0, 0.0]);
        assert_eq!((points[0].0, points[1].0, points[5].0), (0.0, 1.5e6, 6e6));
        // A part of an interval is one with the interval before it.
        let points = per_second(&series, 3 * MS + MS / 2);
        assert_eq!(points.len(), 3);
        assert_eq!(points[2], (3.5e6, 46_667.0));
    }

    #[test]
    fn a_series_of_no_or_one_point_becomes_rates() {
        assert_eq!(per_second(&Series::default(), 5 * MS), []);
        let mut series = Series::default();
        series.add(0, 4096);
        assert_eq!(per_second(&series, MS / 2), [(250_000.0, 8_192_000.0)]);
        assert_eq!(per_second(&series, 0), []);
    }
}
