//! Latencies: how long requests took, as percentiles.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Percentiles of some times, in nanoseconds, each off by 6.25 % at most; the longest time is exact where it is since the
/// start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// Requests counted.
    pub count: u64,
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// 999 of 1,000 took no longer.
    pub p999_ns: u64,
    /// None took longer.
    pub max_ns: u64,
}

impl Percentiles {
    /// Those of `times`.
    pub(crate) fn of(times: &weir_counters::Histogram) -> Percentiles {
        Percentiles {
            count: times.count(),
            p50_ns: times.quantile_ns(500),
            p99_ns: times.quantile_ns(990),
            p999_ns: times.quantile_ns(999),
            max_ns: times.max_ns(),
        }
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Latency of requests of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Of requests completed in the last 5 to 10 seconds.
    #[serde(default, skip_serializing_if = "Percentiles::is_empty")]
    pub recent: Percentiles,
    /// Of requests completed since the start.
    #[serde(default, skip_serializing_if = "Percentiles::is_empty")]
    pub total: Percentiles,
}

impl Latency {
    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.total.is_empty()
    }
}

/// Latencies by direction: reads, and writes with zeroes. Other requests (discards, flushes) count as writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LatencyByDirection {
    /// Reads.
    #[serde(default, skip_serializing_if = "Latency::is_empty")]
    pub read: Latency,
    /// Writes.
    #[serde(default, skip_serializing_if = "Latency::is_empty")]
    pub write: Latency,
}

impl LatencyByDirection {
    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty()
    }
}

/// Latencies by what requests waited for: `own_limit`, `other_limit` (a limit above), `other_clients`, `lifted_limit`,
/// `window` and `device`. Only requests that waited for it count.
pub type LatencyByCause = BTreeMap<String, LatencyByDirection>;
