//! Messages of the control socket besides [`crate::status`]: requests, answers, refusals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::Changes;
use crate::status::RecordingStatus;
use crate::tenants::Edit;

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
    /// Whether it is forgotten when the configuration is read again, or the server ends; else it is kept in a file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runtime: bool,
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
    /// As of [`SetRequest`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runtime: bool,
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
    /// As of [`SetRequest`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runtime: bool,
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

/// Body of `POST /v1/record`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordRequest {
    /// Whether devices are to be recorded from now on.
    pub on: bool,
}

/// Answer to `GET /v1/record` and `POST /v1/record`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RecordReply {
    /// How the recording is.
    pub recording: RecordingStatus,
    /// Generation of what is set, as in the header `ETag`.
    #[serde(default)]
    pub generation: String,
}

/// Body of `POST /v1/change`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// What to do: all of it, or nothing.
    pub edits: Vec<Edit>,
    /// Whether it is forgotten when the configuration is read again, or the server ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runtime: bool,
    /// Whether exports that have connections are removed, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Body of `POST /v1/reload`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    /// Whether exports that have connections are removed, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Answer to `POST /v1/change` and `POST /v1/reload`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChangeReply {
    /// What has changed.
    pub changes: Changes,
    /// Generation after the change, as in the header `ETag`.
    pub generation: String,
}

/// Body of `POST /v1/resize`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeRequest {
    /// The device, whose file has grown.
    pub device: String,
}

/// Answer to `POST /v1/resize`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ResizeReply {
    /// The device.
    pub device: String,
    /// Bytes that it had.
    pub old_size_bytes: u64,
    /// Bytes that it has.
    pub size_bytes: u64,
    /// Exports that have grown with it: new connections find them so.
    pub exports: Vec<String>,
    /// Generation after the change, as in the header `ETag`.
    pub generation: String,
}

/// Answer to `GET /v1/differences`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DifferencesReply {
    /// What the files say and does not run, a line each: `+ export vm9`, `~ cgroup /vm1 io.weight: 100 -> 200`.
    pub differences: Vec<String>,
    /// The present generation.
    pub generation: String,
}

/// Answer to `GET /v1/devices`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DevicesReply {
    /// The devices, in the order of the configuration.
    pub devices: Vec<DeviceEntry>,
    /// The present generation.
    pub generation: String,
}

/// One device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeviceEntry {
    /// Its name.
    pub device: String,
    /// File, block device or specification.
    pub path: String,
    /// Its bytes.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Names of its exports.
    pub exports: Vec<String>,
}

/// Answer to `GET /v1/exports`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExportsReply {
    /// The exports, in the order of the configuration.
    pub exports: Vec<ExportEntry>,
    /// The present generation.
    pub generation: String,
}

/// One export.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExportEntry {
    /// Its name.
    pub export: String,
    /// Its device.
    pub device: String,
    /// The cgroup of its connections in the configuration.
    pub cgroup: String,
    /// Its bytes.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Shown to clients that list exports.
    pub description: String,
    /// Connections that have chosen it.
    pub connections: u32,
    /// NBD URIs that lead to it.
    pub uris: Vec<String>,
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
