//! Measurements of a kind of request.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Times beyond are counted as this: an hour.
const TIME_MAX_NS: u64 = 3_600_000_000_000;

/// Times in nanoseconds, to three digits.
pub(super) struct Times(Histogram<u64>);

impl Times {
    pub(super) fn new() -> Times {
        let times = Histogram::new_with_bounds(1, TIME_MAX_NS, 3);
        Times(times.expect("the bounds are in order and far enough apart"))
    }

    pub(super) fn note(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// A percentile; `None` without requests.
    pub(super) fn percentile(&self, percent: f64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(percent / 100.0))
    }

    pub(super) fn max(&self) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.max())
    }
}

/// One kind of request: reads, writes, discards or flushes.
pub(super) struct Figures {
    pub(super) bytes: u64,
    pub(super) errors: u64,
    pub(super) latencies: Times,
}

impl Figures {
    pub(super) fn new() -> Figures {
        Figures { bytes: 0, errors: 0, latencies: Times::new() }
    }

    /// A request was served.
    pub(super) fn note(&mut self, bytes: u32, latency_ns: u64) {
        self.bytes += u64::from(bytes);
        self.latencies.note(latency_ns);
    }

    pub(super) fn summary(&self, elapsed_ns: u64) -> Summary {
        let per_sec = |count: u64| count as f64 * 1e9 / elapsed_ns.max(1) as f64;
        Summary {
            requests: self.latencies.count(),
            errors: self.errors,
            bytes: self.bytes,
            ios_per_sec: per_sec(self.latencies.count()),
            bytes_per_sec: per_sec(self.bytes),
            latency_ns_p50: self.latencies.percentile(50.0),
            latency_ns_p99: self.latencies.percentile(99.0),
            latency_ns_p99_9: self.latencies.percentile(99.9),
            latency_ns_max: self.latencies.max(),
        }
    }
}

/// Figures of one kind for programs; latencies are `null` without requests.
#[derive(Serialize)]
pub(super) struct Summary {
    /// Completed requests; failed ones are in `errors` only.
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) bytes: u64,
    pub(super) ios_per_sec: f64,
    pub(super) bytes_per_sec: f64,
    pub(super) latency_ns_p50: Option<u64>,
    pub(super) latency_ns_p99: Option<u64>,
    pub(super) latency_ns_p99_9: Option<u64>,
    pub(super) latency_ns_max: Option<u64>,
}
