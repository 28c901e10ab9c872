//! Rows of the view as the status has them.

use std::collections::BTreeMap;

use weir_engine::stats::{Latencies, WaitCause};
use weir_engine::{Dimension, Direction, LimiterKind};

use super::record::CgroupSettings;
use super::tree::{Detail, Row, Sums, View};
use crate::device::{DeviceReport, StallReason};
use crate::status::{
    CgroupStatus, DeviceStatus, Latency, LatencyByCause, LatencyByDirection, LimitWait,
    PerDimension, Percentiles, TaskStatus, WaitStatus,
};

impl View {
    /// The whole status of a device. O(cgroups × log cgroups).
    pub(crate) fn device_status(&self, report: DeviceReport) -> DeviceStatus {
        let DeviceReport { mut status, tasks, mut bursts, writeback } = report;
        let rows = self.rows(&writeback, Detail::All);
        let cgroups = rows.iter().map(|row| CgroupStatus {
            burst_left: bursts.remove(&row.record.cgroup).unwrap_or_default(),
            ..self.status_of(row)
        });
        status.cgroups = cgroups.collect();
        let tasks = tasks.into_iter().map(|task| TaskStatus {
            client: task.client,
            connection: task.connection,
            cgroup: self.path_of(task.cgroup),
            throttled_ios: per_dimension(task.stats.throttled),
            wait_ns: per_dimension(task.stats.wait_ns),
        });
        status.tasks = tasks.collect();
        status
    }

    /// A row as the status has it. O(limits that were waited for × depth).
    pub(crate) fn status_of(&self, row: &Row<'_>) -> CgroupStatus {
        let Sums { counters, bfq, waits, writeback, .. } = &row.all;
        let blame = &counters.blame;
        let limits = blame.limits.iter().map(|limit| LimitWait {
            cgroup: self.path_of(limit.cgroup),
            wait_ns: per_dimension(limit.wait_ns),
        });
        CgroupStatus {
            connections: u32::try_from(row.own.waits.connections).unwrap_or(u32::MAX),
            read_bytes: counters.read.bytes,
            read_ios: counters.read.ios,
            write_bytes: counters.write.bytes,
            write_ios: counters.write.ios,
            discard_bytes: counters.discard.bytes,
            discard_ios: counters.discard.ios,
            other_ios: counters.other_ios,
            failed_ios: counters.failed,
            completed_ios: counters.completed,
            modelled_ns: counters.modelled_ns,
            throttled_ios: per_dimension(counters.throttled),
            wait: WaitStatus { limits: limits.collect(), ..waits_beside_limits(&row.all) },
            replied_ios: waits.replied_ios,
            inside_ns: waits.inside_ns,
            latency: latency(&row.all, None),
            latency_by_cause: by_cause(&row.all),
            bfq: (*bfq).into(),
            writeback: (*writeback).into(),
            ..row.record.settings.status(&row.path)
        }
    }
}

impl CgroupSettings {
    /// The settings of the cgroup at `path`, and nothing else.
    pub(crate) fn status(&self, path: &str) -> CgroupStatus {
        let CgroupSettings { limits, weight, prio_class, low_latency, watermark } = self;
        let text =
            |values: weir_engine::PerDimension| (!values.is_none()).then(|| values.to_string());
        CgroupStatus {
            cgroup: path.to_owned(),
            io_max: text(limits.max),
            io_burst: text(limits.burst),
            io_peak: text(limits.peak),
            io_weight: weight.get(),
            io_prio_class: prio_class.name().into(),
            io_bfq_low_latency: low_latency.map(|policy| policy.name().to_owned()),
            io_watermark: watermark.map(weir_text::print_watermark),
            limiter: limiter_name(limits.limiter),
            ..CgroupStatus::default()
        }
    }
}

/// What was waited for, but for limits.
pub(crate) fn waits_beside_limits(Sums { counters, waits, .. }: &Sums) -> WaitStatus {
    let blame = &counters.blame;
    WaitStatus {
        limits: Vec::new(),
        other_clients_ns: blame.others_ns,
        lifted_ns: blame.lifted_ns,
        window_ns: blame.window_ns,
        device_ns: blame.device_ns,
        connection_ns: waits.stalled_ns(StallReason::Itself),
        memory_ns: waits.stalled_ns(StallReason::Memory),
        queue_ns: waits.stalled_ns(StallReason::Queue),
        unsent_ns: waits.stalled_ns(StallReason::Sending),
        turn_ns: waits.stalled_ns(StallReason::Turn),
        payload_ns: waits.payload_ns,
        sending_ns: waits.sending_ns,
    }
}

/// Percentiles of the whole time inside, or of the waits for one thing.
fn latency(sums: &Sums, cause: Option<WaitCause>) -> LatencyByDirection {
    let of = |latencies: &Option<Box<Latencies>>, direction| {
        let times = latencies.as_ref().map(|latencies| latencies.of(direction));
        let times = times.map(|times| cause.map_or(&times.whole, |cause| times.cause(cause)));
        times.map(Percentiles::of).unwrap_or_default()
    };
    let [read, write] = Direction::BOTH.map(|direction| Latency {
        recent: of(&sums.recent, direction),
        total: of(&sums.latencies, direction),
    });
    LatencyByDirection { read, write }
}

fn by_cause(sums: &Sums) -> LatencyByCause {
    if sums.latencies.is_none() {
        return BTreeMap::new();
    }
    let causes = WaitCause::ALL.map(|cause| (cause.key().to_owned(), latency(sums, Some(cause))));
    causes.into_iter().filter(|(_, latency)| !latency.is_empty()).collect()
}

/// Numbers by dimension, as the status has them.
pub(crate) fn per_dimension(values: [u64; Dimension::COUNT]) -> PerDimension {
    let [rbps, wbps, riops, wiops, rwbps, rwiops] = values;
    PerDimension { rbps, wbps, riops, wiops, rwbps, rwiops }
}

/// As `io.limiter` names it.
fn limiter_name(limiter: LimiterKind) -> String {
    match limiter {
        LimiterKind::Slice(profile) => {
            let millis = u32::from(profile.slice_ticks) * 1000 / u32::from(profile.hz.max(1));
            format!("slice:{:?},hz={},slice={millis}ms", profile.kernel, profile.hz)
        }
        _ => limiter.name().into(),
    }
}
