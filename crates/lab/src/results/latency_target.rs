//! Result of a search for the depth that keeps a `latency_target`.

use std::fmt;

use weir_fio::LatencyTarget;

/// Result of a `latency_target`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyTargetResult {
    /// The target.
    pub target: LatencyTarget,
    /// Depth at the end; of several jobs in a row, the least.
    pub depth: u32,
    /// Whether the search had ended, or follows the disk for as long as it runs (`latency_run`).
    pub is_sure: bool,
}

impl LatencyTargetResult {
    /// Result of two jobs that are reported together.
    pub(crate) fn and(self, other: LatencyTargetResult) -> LatencyTargetResult {
        let least = if other.depth < self.depth { other } else { self };
        LatencyTargetResult { is_sure: self.is_sure && other.is_sure, ..least }
    }
}

impl fmt::Display for LatencyTargetResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LatencyTargetResult { target: LatencyTarget { time, percentile, .. }, depth, is_sure } =
            self;
        let ended = if *is_sure { "" } else { ", and it was still searching" };
        write!(
            f,
            "depth {depth} for {percentile} % of latencies within {time:?} (latency_target){ended}"
        )
    }
}
