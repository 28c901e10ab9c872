//! Status of a running server; the JSON of the control socket, with stable names.

mod bfq;
mod export;
mod latency;
mod recording;
mod sandbox;
mod writeback;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::Watermark;

pub use self::bfq::{BfqCgroupStatus, BfqStatus};
pub use self::export::ExportStatus;
pub use self::latency::{Latency, LatencyByCause, LatencyByDirection, Percentiles};
pub use self::recording::RecordingStatus;
pub use self::sandbox::{LandlockStatus, MissingStatus, SandboxStatus};
pub use self::writeback::{CacheStatus, WritebackStatus};

/// Everything, at one moment for each device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Version of the server.
    pub version: String,
    /// Seconds since the server started.
    pub uptime_secs: u64,
    /// Generation of what is set, as in the header `ETag`: another one after each change, and after a restart.
    #[serde(default)]
    pub generation: String,
    /// The sockets on which connections come in.
    #[serde(default)]
    pub listeners: ListenersStatus,
    /// What the server has given up after its start.
    #[serde(default)]
    pub sandbox: SandboxStatus,
    /// The recording; none without `[record]`.
    #[serde(default)]
    pub recording: Option<RecordingStatus>,
    /// One for each device, in the order of the configuration.
    pub devices: Vec<DeviceStatus>,
    /// One for each export, in the order of their names.
    #[serde(default)]
    pub exports: Vec<ExportStatus>,
}

/// All listeners of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListenersStatus {
    /// Times that one could not accept a connection, as without file descriptors. Each is tried again.
    pub accepts_failed: u64,
    /// Time for which they rested after that, in nanoseconds.
    pub rest_ns: u64,
    /// Log lines about that which were left out because there were too many.
    pub log_lines_left_out: u64,
}

/// One device and the cgroups on it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeviceStatus {
    /// Name in the configuration.
    pub device: String,
    /// File, block device or specification.
    pub path: String,
    /// When this was read, in nanoseconds of the server's monotonic clock: rates are differences of two readings.
    pub at_ns: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Most requests at the device at once.
    pub depth: u32,
    /// Its scheduler: `none` or `bfq`.
    pub scheduler: String,
    /// How `bfq` decides and what it has done, also while it is not the scheduler.
    #[serde(default)]
    pub bfq: BfqStatus,
    /// Its write-back cache; `None` where there is none.
    #[serde(default)]
    pub cache: Option<CacheStatus>,
    /// Requests at the device.
    pub in_flight: u32,
    /// Requests past the limits, waiting for room at the device.
    pub ready: u32,
    /// Requests waiting for a limit.
    pub throttled: u32,
    /// Time with at least one request at the device, in nanoseconds since the start.
    pub busy_ns: u64,
    /// The share of the last half second with at least one request at the device, in percent, or of what the device can do
    /// where it has a model; only where a watermark asks for it.
    #[serde(default)]
    pub utilisation_percent_500ms: Option<f64>,
    /// Each watermark in use.
    #[serde(default)]
    pub watermarks: Vec<WatermarkStatus>,
    /// Open connections.
    pub connections: u32,
    /// Connections refused because there are as many as the server, a client or an export may have; counted at the first
    /// device, whose thread lets them in.
    #[serde(default)]
    pub connections_refused: u64,
    /// Connections closed because their client broke the protocol or stalled for too long.
    pub connections_dropped: u64,
    /// Log lines about clients that were left out because there were too many of their kind.
    #[serde(default)]
    pub log_lines_left_out: u64,
    /// Wake-ups for a limit that came more than 1 ms late, and the latest one.
    pub wakes_late: u64,
    /// Latest wake-up for a limit, in nanoseconds after it was due.
    pub wake_late_ns_max: u64,
    /// Whether everything dispatched was charged.
    pub audit_balances: bool,
    /// Bytes charged, reads and writes.
    pub charged_bytes: u64,
    /// Cgroups, parents before children; the root first.
    pub cgroups: Vec<CgroupStatus>,
    /// Open connections that limits have held back, each a task.
    #[serde(default)]
    pub tasks: Vec<TaskStatus>,
}

impl DeviceStatus {
    /// What limits that go by `watermark` are multiplied by now; `None` where they are lifted.
    pub(crate) fn multiplier(&self, watermark: Option<Watermark>) -> Option<f64> {
        let name = watermark.map(weir_text::print_watermark);
        let mark = self.watermarks.iter().find(|mark| Some(&mark.watermark) == name.as_ref());
        mark.map_or(Some(1.0), |mark| (!mark.lifted).then_some(mark.multiplier))
    }
}

/// What limits did to one connection since it was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TaskStatus {
    /// The other end: a process, an address, or neither is known.
    pub client: String,
    /// Numbers connections of this device in the order in which they came.
    pub connection: u64,
    /// Its cgroup; `None` if that has been removed.
    pub cgroup: Option<String>,
    /// Requests that had to wait, by the limit that stopped them first.
    pub throttled_ios: PerDimension,
    /// How long they waited in all, in nanoseconds, by the limit.
    pub wait_ns: PerDimension,
}

/// One cgroup on one device. Counters are since the start and include everything below it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct CgroupStatus {
    /// Path, `/` for the root.
    pub cgroup: String,
    /// `io.max` as it would be read back; `None` without limits.
    pub io_max: Option<String>,
    /// `io.burst`, where set.
    pub io_burst: Option<String>,
    /// `io.peak`, where set.
    pub io_peak: Option<String>,
    /// `io.weight`.
    pub io_weight: u16,
    /// `io.prio.class`: `no-change`, `promote-to-rt`, `restrict-to-be` or `idle`.
    #[serde(default)]
    pub io_prio_class: String,
    /// `io.bfq.low_latency`: `auto`, `never` or `interactive`; `None` goes by what is set above.
    #[serde(default)]
    pub io_bfq_low_latency: Option<String>,
    /// `io.watermark`, where set here; of the root, the device's.
    #[serde(default)]
    pub io_watermark: Option<String>,
    /// `pace`, `slice:VERSION`, `token` or `leaky`.
    pub limiter: String,
    /// What is left of the burst, per limited dimension that has one.
    pub burst_left: Vec<BurstLeft>,
    /// Open connections in this cgroup itself.
    pub connections: u32,
    /// Bytes read.
    pub read_bytes: u64,
    /// Reads.
    pub read_ios: u64,
    /// Bytes written, zeroes included.
    pub write_bytes: u64,
    /// Writes, zeroes included.
    pub write_ios: u64,
    /// Bytes discarded.
    pub discard_bytes: u64,
    /// Discards.
    pub discard_ios: u64,
    /// Flushes, cache and status requests.
    pub other_ios: u64,
    /// Requests the device failed.
    pub failed_ios: u64,
    /// Requests completed: what the waits below are spread over.
    pub completed_ios: u64,
    /// Time that the device takes for what went there by its `model`, in nanoseconds; 0 without a model.
    #[serde(default)]
    pub modelled_ns: u64,
    /// Requests that had to wait for a limit, by dimension.
    pub throttled_ios: PerDimension,
    /// What completed requests waited for, in nanoseconds.
    pub wait: WaitStatus,
    /// Replies sent, those to refused requests included.
    #[serde(default)]
    pub replied_ios: u64,
    /// Time from the arrival of each head to the end of the send of its reply, in nanoseconds, measured apart from `wait`:
    /// without a write-back cache it is the sum of all of that.
    #[serde(default)]
    pub inside_ns: u64,
    /// Time inside the engine: from the arrival of a request to its completion by the device.
    #[serde(default, skip_serializing_if = "LatencyByDirection::is_empty")]
    pub latency: LatencyByDirection,
    /// The same by what requests waited for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub latency_by_cause: LatencyByCause,
    /// What the scheduler `bfq` has done for it.
    #[serde(default)]
    pub bfq: BfqCgroupStatus,
    /// What the write-back cache has of it, and has done for it; zeroes where there is no cache.
    #[serde(default)]
    pub writeback: WritebackStatus,
}

/// One watermark of a device, and what it does now.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WatermarkStatus {
    /// As `io.watermark`.
    pub watermark: String,
    /// In percent.
    pub watermark_percent: u8,
    /// Cgroups that go by it, those without limits included.
    pub cgroups: u32,
    /// What their limits were multiplied by over the last half second: 1 where they held as written.
    pub multiplier: f64,
    /// Whether limits are lifted now, in mode `gate`.
    pub lifted: bool,
}

/// A number for each key of `io.max`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PerDimension {
    /// Bytes read.
    pub rbps: u64,
    /// Bytes written.
    pub wbps: u64,
    /// Reads.
    pub riops: u64,
    /// Writes.
    pub wiops: u64,
    /// Bytes read and written.
    #[serde(default)]
    pub rwbps: u64,
    /// Reads and writes.
    #[serde(default)]
    pub rwiops: u64,
}

impl PerDimension {
    /// Each key with its number, in the order in which `io.max` prints them.
    pub fn pairs(&self) -> [(&'static str, u64); 6] {
        let PerDimension { rbps, wbps, riops, wiops, rwbps, rwiops } = *self;
        [
            ("rbps", rbps),
            ("wbps", wbps),
            ("riops", riops),
            ("wiops", wiops),
            ("rwbps", rwbps),
            ("rwiops", rwiops),
        ]
    }

    /// All of them together.
    pub fn sum(&self) -> u64 {
        self.pairs().iter().map(|(_, number)| number).sum()
    }
}

/// What is left of a burst.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BurstLeft {
    /// A key of `io.max`.
    pub dimension: String,
    /// Bytes or I/Os.
    pub left: u64,
}

/// Blame: summed waits in nanoseconds. They add up to the time requests spent inside.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct WaitStatus {
    /// Own limits and those of ancestors, each by itself.
    pub limits: Vec<LimitWait>,
    /// While a limit's rate went to other clients.
    pub other_clients_ns: u64,
    /// Limits that were lifted meanwhile.
    pub lifted_ns: u64,
    /// Room at the device.
    pub window_ns: u64,
    /// The device.
    pub device_ns: u64,
    /// The connection's own quota, before more was read from it.
    #[serde(default)]
    pub connection_ns: u64,
    /// Buffer memory.
    #[serde(default)]
    pub memory_ns: u64,
    /// A place in the queue of the device.
    #[serde(default)]
    pub queue_ns: u64,
    /// Earlier replies to be taken by the client, before more was read from it.
    #[serde(default)]
    pub unsent_ns: u64,
    /// Other connections' turns to be read from.
    #[serde(default)]
    pub turn_ns: u64,
    /// Payload on its way from the client.
    #[serde(default)]
    pub payload_ns: u64,
    /// Replies on their way to the client.
    #[serde(default)]
    pub sending_ns: u64,
}

impl WaitStatus {
    /// Waits for other things than limits, in nanoseconds, by the name of the cause.
    pub fn beside_limits(&self) -> [(&'static str, u64); 11] {
        [
            ("other_clients", self.other_clients_ns),
            ("lifted_limit", self.lifted_ns),
            ("window", self.window_ns),
            ("device", self.device_ns),
            ("connection", self.connection_ns),
            ("memory", self.memory_ns),
            ("queue", self.queue_ns),
            ("unsent", self.unsent_ns),
            ("turn", self.turn_ns),
            ("payload", self.payload_ns),
            ("sending", self.sending_ns),
        ]
    }
}

/// Waits for one cgroup's limit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LimitWait {
    /// Whose limit; `None` if it has been removed.
    pub cgroup: Option<String>,
    /// Nanoseconds by dimension.
    pub wait_ns: PerDimension,
}
