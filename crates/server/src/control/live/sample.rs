//! Live sample: what devices and cgroups did in a span of time, as `GET /v1/live` tells it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::status::{LimitWait, Percentiles, WatermarkStatus};

/// Data of an event of `GET /v1/live`. Counts and times are of the span alone; what is zero is left out.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub(in super::super) struct LiveSample {
    /// End of the span, in milliseconds since 1970.
    pub(super) at_ms: u64,
    /// Its length, in milliseconds.
    pub(super) span_ms: u64,
    /// When the server started, in milliseconds since 1970.
    pub(super) started_at_ms: u64,
    /// Version of the server.
    pub(super) version: &'static str,
    /// The devices, in the order of the configuration.
    pub(super) devices: Vec<LiveDevice>,
}

/// One device and the busiest of its cgroups.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
pub(in super::super) struct LiveDevice {
    /// Name in the configuration.
    pub(super) device: String,
    /// Whether its thread has answered. If not, all but its cgroups is left out.
    pub(super) is_up: bool,
    /// Its scheduler: `none` or `bfq`.
    pub(super) scheduler: String,
    /// Most requests at the device at once.
    pub(super) depth: u32,
    /// Requests at the device now.
    pub(super) in_flight: u32,
    /// Requests past the limits that wait for room at the device now.
    pub(super) ready: u32,
    /// Requests that wait for a limit now.
    pub(super) throttled: u32,
    /// Share of the span with at least one request at the device, in percent.
    pub(super) busy_percent: f64,
    /// What watermarks compare with: the share of the last half second that was used, by the device's model if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) utilisation_percent_500ms: Option<f64>,
    /// Each watermark in use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) watermarks: Vec<WatermarkStatus>,
    /// Time for which `bfq` kept the device free, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) idling_ns: u64,
    /// Flows that merged into another.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) merges: u64,
    /// Sets of flows that split.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) splits: u64,
    /// Busiest first.
    pub(super) cgroups: Vec<LiveCgroup>,
    /// Cgroups that are not among these.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) cgroups_omitted: u64,
}

/// One cgroup, with all below it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
pub(in super::super) struct LiveCgroup {
    /// Path, `/` for the root.
    pub(super) cgroup: String,
    /// Its own limits as set, by the key of `io.max`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) limits: BTreeMap<&'static str, u64>,
    /// What a watermark multiplies these by now; left out where they hold as set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit_multiplier: Option<f64>,
    /// Whether a watermark has lifted them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_lifted: bool,
    /// Open connections.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) connections: u64,
    /// Bytes read.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) read_bytes: u64,
    /// Reads.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) read_ios: u64,
    /// Bytes written, zeroes included.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) write_bytes: u64,
    /// Writes, zeroes included.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) write_ios: u64,
    /// Requests completed: what the waits are spread over.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) completed_ios: u64,
    /// Time that the device takes for its requests by its model, in nanoseconds; 0 without a model.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) modelled_ns: u64,
    /// Percentiles of the time that reads were inside the engine.
    #[serde(skip_serializing_if = "Percentiles::is_empty")]
    pub(super) read_latency: Percentiles,
    /// The same of all other requests.
    #[serde(skip_serializing_if = "Percentiles::is_empty")]
    pub(super) write_latency: Percentiles,
    /// How many requests took how long: pairs of the least time of a bin, in nanoseconds, and a count. Bins begin at powers
    /// of two and in the middle between them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) latency_bins: Vec<(u64, u64)>,
    /// Waits of completed requests for other things than limits, in nanoseconds, by cause.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) wait_ns: BTreeMap<&'static str, u64>,
    /// Waits for limits, its own and those of cgroups above; the longest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) limit_waits: Vec<LimitWait>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}
