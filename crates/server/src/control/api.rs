//! Messages of the control socket besides [`crate::status`]: requests, answers, refusals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Body of `POST /v1/set`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    /// Path of the cgroup, `/` for the root.
    pub cgroup: String,
    /// `io.max`, `io.burst`, `io.peak`, `io.weight` (or `io.bfq.weight`), `io.prio.class`, `io.bfq.low_latency`, `io.limiter`,
    /// `io.watermark`; of the root, for the device: `io.depth`, `io.scheduler`, `io.bfq`, `io.watermark`.
    pub key: String,
    /// The value as in the configuration. The three limits, and `io.bfq`, may begin with a device or `*`; with one
    /// device they need not.
    pub value: String,
    /// The device, where the value does not name one. Without either, what is no limit is set on every device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Whether a cgroup that is not there is created; else it is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create: bool,
}

/// Body of `POST /v1/remove`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveRequest {
    /// Path of the cgroup, which has no children.
    pub cgroup: String,
    /// On this device only; else on every device that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Body of `POST /v1/move`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// Path of the cgroup, which moves with everything below it.
    pub cgroup: String,
    /// Path of its new parent.
    pub parent: String,
    /// On this device only; else on every device that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Answer to `POST /v1/set`: what holds now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SetReply {
    /// The cgroup.
    pub cgroup: String,
    /// The key.
    pub key: String,
    /// Whether there was no such cgroup before: nothing is in it yet.
    pub created: bool,
    /// What each device that was asked reads back.
    pub devices: Vec<ReadBack>,
    /// Generation after the change, as in the header `ETag`.
    #[serde(default)]
    pub generation: String,
}

/// A setting as one device reads it back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReadBack {
    /// The device.
    pub device: String,
    /// The whole value, keys that were not named included.
    pub value: String,
}

/// Answer to `POST /v1/remove` and `POST /v1/move`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DoneReply {
    /// The devices that did it.
    pub devices: Vec<String>,
    /// Generation after the change, as in the header `ETag`.
    #[serde(default)]
    pub generation: String,
}

/// Answer to `GET /healthz` and `GET /readyz`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HealthReply {
    /// The devices, all of which answer.
    pub devices: Vec<String>,
}

/// Body of every answer that is not 200.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReply {
    /// What is wrong.
    pub error: Refusal,
}

/// Why a request was refused. Nothing has changed, unless the message names a device that has; a cgroup that the
/// request was the first to name may be there, without limits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// What is wrong: what was asked, what is allowed.
    pub message: String,
    /// What would be right, where that can be told.
    pub hint: Option<String>,
    /// The part of the request that is meant: `cgroup`, `key`, `device`, or the key that was set.
    pub key: Option<String>,
}
