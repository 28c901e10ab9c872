//! Exports: what their clients have had.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LatencyByDirection;

/// One export. Counters are since it was added, or since the start; each request counts at one export only.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExportStatus {
    /// Its name.
    pub export: String,
    /// The device behind it.
    pub device: String,
    /// The cgroup of its clients, unless a `[peer]` section puts them elsewhere.
    pub cgroup: String,
    /// Open connections.
    pub connections: u32,
    /// Reads answered.
    pub read_ios: u64,
    /// Bytes of these.
    pub read_bytes: u64,
    /// Writes answered, zeroes included.
    pub write_ios: u64,
    /// Bytes of these.
    pub write_bytes: u64,
    /// Discards answered.
    pub discard_ios: u64,
    /// Bytes of these.
    pub discard_bytes: u64,
    /// Flushes, block status, cache requests answered.
    pub other_ios: u64,
    /// Of all of these, those answered with an error.
    pub failed_ios: u64,
    /// Times of all of these, summed, in nanoseconds, as `latency` has them.
    #[serde(default)]
    pub inside_ns: u64,
    /// From the arrival of a request's head until its reply goes to the socket.
    #[serde(default)]
    pub latency: LatencyByDirection,
}
