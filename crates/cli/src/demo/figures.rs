//! Measurements of a demo's job.

use hdrhistogram::Histogram;

/// Latencies beyond are counted as this: nothing here comes near.
const LATENCY_MAX_NS: u64 = 100_000_000_000;

/// Latency of the machine itself that is worth telling: a sixth of the wait that is to be shown.
const LATE_NS: u64 = 1_000_000;

/// The figures of one job, as they are written for programs.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub(super) struct Summary {
    ios_per_sec: f64,
    latency_us_mean: f64,
    latency_us_p50: f64,
    latency_us_p99: f64,
    latency_us_p99_9: f64,
    latency_us_max: f64,
    /// Part of the pauses that the machine ended more than 1 ms late.
    late_pauses_percent: f64,
}

/// Latencies of one job since it began.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    began_ns: u64,
    latencies: Histogram<u64>,
    /// Pauses that ended more than [`LATE_NS`] late.
    late: u64,
}

impl Figures {
    /// None yet.
    pub(super) fn new(began_ns: u64) -> Figures {
        let latencies = Histogram::new_with_bounds(1_000, LATENCY_MAX_NS, 3)
            .expect("the bounds are in order and far enough apart");
        Figures { began_ns, latencies, late: 0 }
    }

    /// One read took `latency_ns`.
    pub(super) fn note(&mut self, latency_ns: u64) {
        self.latencies.saturating_record(latency_ns);
    }

    /// A pause ended `late_ns` after it should have.
    pub(super) fn note_pause(&mut self, late_ns: u64) {
        self.late += u64::from(late_ns > LATE_NS);
    }

    /// Part of the pauses that the machine ended more than 1 ms late, and so delayed its own reads too.
    pub(super) fn late_percent(&self) -> f64 {
        100.0 * self.late as f64 / self.latencies.len().max(1) as f64
    }

    /// Resets all figures at `now_ns`.
    pub(super) fn begin_anew(&mut self, now_ns: u64) {
        self.began_ns = now_ns;
        self.latencies.reset();
        self.late = 0;
    }

    /// Reads a second until `now_ns`.
    pub(super) fn ios_per_sec(&self, now_ns: u64) -> f64 {
        let elapsed = now_ns.saturating_sub(self.began_ns).max(1);
        self.latencies.len() as f64 * 1e9 / elapsed as f64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.latencies.is_empty()
    }

    pub(super) fn mean_ms(&self) -> f64 {
        self.latencies.mean() / 1e6
    }

    /// The latency that `percent` of the reads did not exceed.
    pub(super) fn percentile_ms(&self, percent: f64) -> f64 {
        self.latencies.value_at_percentile(percent) as f64 / 1e6
    }

    pub(super) fn max_ms(&self) -> f64 {
        self.latencies.max() as f64 / 1e6
    }

    /// All of them, at `now_ns`.
    pub(super) fn summary(&self, now_ns: u64) -> Summary {
        let us = |ms: f64| (ms * 1e3).round();
        Summary {
            ios_per_sec: self.ios_per_sec(now_ns),
            latency_us_mean: us(self.mean_ms()),
            latency_us_p50: us(self.percentile_ms(50.0)),
            latency_us_p99: us(self.percentile_ms(99.0)),
            latency_us_p99_9: us(self.percentile_ms(99.9)),
            latency_us_max: us(self.max_ms()),
            late_pauses_percent: self.late_percent(),
        }
    }

    /// Part of the reads in each of `columns` columns of `width_us` each; the last has all beyond too.
    pub(super) fn columns(&self, columns: usize, width_us: u64) -> Vec<f64> {
        let mut parts = vec![0.0; columns];
        for value in self.latencies.iter_recorded() {
            let column = value.value_iterated_to() / (width_us * 1_000);
            let column = usize::try_from(column).unwrap_or(usize::MAX).min(columns - 1);
            parts[column] += value.count_since_last_iteration() as f64;
        }
        let all = self.latencies.len().max(1) as f64;
        parts.iter().map(|part| part / all).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_columns() {
        let mut figures = Figures::new(0);
        (0..98).for_each(|_| figures.note(6_000_000));
        figures.note(11_900_000);
        figures.note(500_000_000);
        assert_eq!(figures.ios_per_sec(1_000_000_000), 100.0);
        assert!((figures.percentile_ms(50.0) - 6.0).abs() < 0.01);
        assert!((figures.percentile_ms(99.0) - 11.9).abs() < 0.02);
        assert_eq!(figures.columns(4, 3_000), [0.0, 0.0, 0.98, 0.02]);
        figures.begin_anew(5);
        assert!(figures.is_empty());
        assert_eq!(figures.columns(2, 1_000), [0.0, 0.0]);
    }
}
