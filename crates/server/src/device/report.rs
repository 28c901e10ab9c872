//! Status of a device: what its thread alone knows.

use std::collections::BTreeMap;

use weir_cache::writeback::OwnerStats;
use weir_engine::stats::{TaskStats, WatermarkStats};
use weir_engine::{CgroupId, Dimension, Instant, Path};

use super::published::settings;
use super::reactor::Reactor;
use crate::status::{BfqStatus, BurstLeft, DeviceStatus, WatermarkStatus};

/// Cgroups with a burst of which is told what is left, and connections that limits have held back. Each takes a fraction of a
/// microsecond of the thread.
const LISTED_MAX: usize = 256;

/// How a device is, but for its cgroups, of which its `view::Board` has the rest.
#[derive(Debug, Default)]
pub struct DeviceReport {
    /// Without cgroups and tasks.
    pub status: DeviceStatus,
    /// Connections that limits have held back.
    pub(crate) tasks: Vec<TaskReport>,
    /// What is left of bursts.
    pub(crate) bursts: BTreeMap<CgroupId, Vec<BurstLeft>>,
    /// What a write-back cache counts, where there is one.
    pub(crate) writeback: BTreeMap<CgroupId, OwnerStats>,
}

/// What limits did to one connection.
#[derive(Debug)]
pub(crate) struct TaskReport {
    pub(crate) client: String,
    pub(crate) connection: u64,
    pub(crate) cgroup: CgroupId,
    pub(crate) stats: TaskStats,
}

impl Reactor {
    /// Answers those that have asked for a status. O(connections), and O(cgroups) where there is a write-back cache.
    pub(super) fn report(&mut self, now: Instant) {
        for reply in std::mem::take(&mut self.io.status_waiters) {
            if !reply.is_closed() {
                // Where it is not taken, it is not waited for any more.
                drop(reply.send(self.device_report(now)));
            }
        }
    }

    fn device_report(&self, now: Instant) -> DeviceReport {
        let device = self.engine.device();
        let audit = self.engine.audit();
        let charged: u128 = audit.charged.iter().map(|charge| charge.bytes).sum();
        let io = &self.io;
        let status = DeviceStatus {
            device: io.name.clone(),
            path: io.path.clone(),
            at_ns: now.as_nanos(),
            size_bytes: io.storage.disk.info().size,
            depth: device.depth,
            scheduler: device.scheduler.name().into(),
            bfq: BfqStatus::new(&self.engine.bfq_settings(), &self.engine.bfq_stats()),
            cache: io.cache.as_ref().map(|cached| cached.status()),
            in_flight: device.in_flight,
            ready: device.ready,
            throttled: device.throttled,
            busy_ns: device.busy_ns,
            utilisation_percent_500ms: device
                .utilisation
                .map(|share| share.millionths() as f64 / 10_000.0),
            watermarks: self.engine.watermarks().into_iter().map(watermark).collect(),
            connections: io.connections.len() as u32,
            connections_refused: io.connections.refused(),
            connections_dropped: io.connections.dropped(),
            log_lines_left_out: io.log_limit.left_out_total(),
            wakes_late: io.lateness.count(),
            wake_late_ns_max: io.lateness.max_ns(),
            audit_balances: audit.balances(),
            charged_bytes: u64::try_from(charged).unwrap_or(u64::MAX),
            tasks: Vec::new(),
            cgroups: Vec::new(),
        };
        let bursts = io.published.bursts().take(LISTED_MAX);
        let bursts = bursts.map(|cgroup| (cgroup, self.bursts_left(cgroup))).collect();
        let writeback = io.cache.as_ref().map(|cached| cached.all_stats()).unwrap_or_default();
        DeviceReport { status, tasks: self.tasks(), bursts, writeback }
    }

    fn bursts_left(&self, cgroup: CgroupId) -> Vec<BurstLeft> {
        let left = Dimension::ALL.into_iter().filter_map(|dimension| {
            let left = self.engine.burst_left(cgroup, dimension)?;
            Some(BurstLeft { dimension: dimension.key().into(), left })
        });
        left.collect()
    }

    /// Connections that limits have held back, the oldest first. O(connections).
    fn tasks(&self) -> Vec<TaskReport> {
        let connections = self.io.connections.iter().filter_map(|(_, connection)| {
            let member = connection.bound?.member;
            let stats = self.engine.task_stats(member.task)?;
            (stats != TaskStats::default()).then_some((connection, member.counted_in(), stats))
        });
        let tasks = connections.take(LISTED_MAX).map(|(connection, cgroup, stats)| TaskReport {
            client: connection.peer.to_string(),
            connection: connection.serial,
            cgroup,
            stats,
        });
        let mut tasks: Vec<TaskReport> = tasks.collect();
        tasks.sort_by_key(|task| task.connection);
        tasks
    }

    /// How the device and the cgroup at `path` are set, and nothing else. O(depth × log cgroups).
    pub(super) fn settings(&self, now: Instant, path: &Path) -> DeviceStatus {
        let device = self.engine.device();
        let found = self.engine.find_cgroup(path);
        DeviceStatus {
            device: self.io.name.clone(),
            path: self.io.path.clone(),
            at_ns: now.as_nanos(),
            depth: device.depth,
            scheduler: device.scheduler.name().into(),
            bfq: BfqStatus::new(&self.engine.bfq_settings(), &self.engine.bfq_stats()),
            cgroups: found
                .map(|cgroup| settings(&self.engine, cgroup).status(path.as_str()))
                .into_iter()
                .collect(),
            ..DeviceStatus::default()
        }
    }
}

fn watermark(stats: WatermarkStats) -> WatermarkStatus {
    WatermarkStatus {
        watermark: weir_text::print_watermark(stats.watermark),
        watermark_percent: stats.watermark.percent(),
        cgroups: stats.cgroups,
        multiplier: stats.multiplier_thousandths as f64 / 1000.0,
        lifted: stats.is_open,
    }
}
