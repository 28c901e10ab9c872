//! Times of single waits, as the engine counts them.

use weir_engine::Direction;
use weir_engine::stats::{Latencies, WaitCause};

/// How long requests of a cgroup, and of all below it, waited for one cause, in one direction; requests that did not wait
/// for it are not counted. Percentiles are off by 6.25 % at most, the longest is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CauseLatency {
    /// What they waited for.
    pub cause: WaitCause,
    /// Their direction.
    pub direction: Direction,
    /// Requests that did.
    pub ios: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// 999 of 1,000 took no longer.
    pub p99_9_ns: u64,
    /// None took longer.
    pub max_ns: u64,
}

impl CauseLatency {
    /// Those of `latencies` that there are, in the order of causes.
    pub(crate) fn all(latencies: &Latencies) -> Vec<CauseLatency> {
        let pairs = WaitCause::ALL
            .into_iter()
            .flat_map(|cause| Direction::BOTH.map(|direction| (cause, direction)));
        let of = |(cause, direction): (WaitCause, Direction)| {
            let times = latencies.of(direction).cause(cause);
            (times.count() > 0).then(|| CauseLatency {
                cause,
                direction,
                ios: times.count(),
                p50_ns: times.quantile_ns(500),
                p99_ns: times.quantile_ns(990),
                p99_9_ns: times.quantile_ns(999),
                max_ns: times.max_ns(),
            })
        };
        pairs.filter_map(of).collect()
    }
}
