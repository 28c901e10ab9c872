//! How a device is, for `weir status`.

use std::collections::{BTreeMap, BTreeSet};

use weir_engine::writeback::OwnerStats;
use weir_engine::{
    Census, CgroupId, Dimension, Instant, LimiterKind, Path, TaskStats, WatermarkStats,
};

use super::waits::{Waits, Why};
use super::worker::{Desk, Worker};
use crate::status::{
    BfqStatus, BurstLeft, CgroupStatus, DeviceStatus, LimitWait, PerDimension, TaskStatus,
    WaitStatus, WatermarkStatus,
};

impl Worker {
    /// Everything at this moment. O(cgroups).
    pub(super) fn status(&mut self, now: Instant) -> DeviceStatus {
        let census = self.engine.census();
        let outside = self.waits_outside(&census);
        let device = self.engine.device();
        let audit = self.engine.audit();
        let paths: BTreeMap<_, _> =
            census.iter().map(|entry| (entry.cgroup, entry.path.as_str())).collect();
        let connections = self.desk.clients.connections();
        let cached = self.desk.cache.as_ref();
        let writeback = self.writeback(&census);
        let charged: u128 = audit.charged.iter().map(|charge| charge.bytes).sum();
        DeviceStatus {
            device: self.desk.name.clone(),
            path: self.desk.path.clone(),
            at_ns: now.as_nanos(),
            size_bytes: self.desk.storage.disk.info().size,
            depth: device.depth,
            scheduler: device.scheduler.name().into(),
            bfq: BfqStatus::new(&self.engine.bfq_settings(), &self.engine.bfq_stats()),
            cache: cached.map(|cached| cached.status()),
            in_flight: device.in_flight,
            ready: device.ready,
            throttled: device.throttled,
            busy_ns: device.busy_ns,
            utilisation_percent_500ms: device
                .utilisation
                .map(|share| share.millionths() as f64 / 10_000.0),
            watermarks: self.engine.watermarks().into_iter().map(watermark).collect(),
            connections: self.desk.connections.len() as u32,
            connections_refused: self.desk.connections_refused,
            accept_rest_ns: self.desk.accept_rest_ns,
            connections_dropped: self.desk.connections_dropped,
            accepts_failed: self.desk.accepts_failed,
            log_lines_left_out: self.desk.log_limit.left_out_total(),
            wakes_late: self.desk.wakes_late,
            wake_late_ns_max: self.desk.wake_late_ns_max,
            audit_balances: audit.balances(),
            charged_bytes: u64::try_from(charged).unwrap_or(u64::MAX),
            tasks: self.tasks(&paths),
            cgroups: census
                .iter()
                .map(|entry| {
                    let connections = connections.get(&entry.cgroup).copied().unwrap_or_default();
                    let writeback = writeback.get(entry.path.as_str()).copied().unwrap_or_default();
                    let cgroup = self.cgroup(entry, &paths, connections);
                    let mut cgroup = CgroupStatus { writeback: writeback.into(), ..cgroup };
                    let outside = outside.get(&entry.path).copied().unwrap_or_default();
                    cgroup.replied_ios = outside.replied_ios;
                    cgroup.inside_ns = outside.inside_ns;
                    cgroup.wait.connection_ns = outside.stalled_ns(Why::Itself);
                    cgroup.wait.memory_ns = outside.stalled_ns(Why::Memory);
                    cgroup.wait.queue_ns = outside.stalled_ns(Why::Queue);
                    cgroup.wait.unsent_ns = outside.stalled_ns(Why::Sending);
                    cgroup.wait.turn_ns = outside.stalled_ns(Why::Turn);
                    cgroup.wait.payload_ns = outside.payload_ns;
                    cgroup.wait.sending_ns = outside.sending_ns;
                    cgroup
                })
                .collect(),
        }
    }

    /// What requests of each cgroup and all below it have waited for outside the engine, by path. What those of removed
    /// cgroups had is the root's. O(cgroups + connections).
    fn waits_outside(&mut self, census: &[Census]) -> BTreeMap<String, Waits> {
        let Desk { waits, connections, .. } = &mut self.desk;
        let there: BTreeSet<CgroupId> = census.iter().map(|entry| entry.cgroup).collect();
        let root = self.engine.root();
        let mut removed = Waits::default();
        waits.retain(|cgroup, waits| {
            let is_there = there.contains(cgroup);
            if !is_there {
                removed.absorb(waits);
            }
            is_there
        });
        waits.entry(root).or_default().absorb(&removed);
        let mut own = waits.clone();
        for (_, connection) in connections.iter() {
            if let (Some(bound), Some(_)) = (&connection.bound, &connection.socket) {
                let cgroup = Some(bound.member.cgroup).filter(|cgroup| there.contains(cgroup));
                own.entry(cgroup.unwrap_or(root)).or_default().absorb(&connection.waits);
            }
        }
        let mut sums: BTreeMap<String, Waits> = BTreeMap::new();
        // Children before parents.
        for entry in census.iter().rev() {
            let sum = sums.entry(entry.path.clone()).or_default();
            sum.absorb(&own.get(&entry.cgroup).copied().unwrap_or_default());
            let sum = *sum;
            if let Some((parent, name)) = entry.path.rsplit_once('/')
                && !name.is_empty()
            {
                let parent = if parent.is_empty() { "/" } else { parent };
                sums.entry(parent.to_owned()).or_default().absorb(&sum);
            }
        }
        sums
    }

    /// What the cache has and has done for each cgroup and all below it; nothing without a cache.
    fn writeback<'a>(&self, census: &'a [Census]) -> BTreeMap<&'a str, OwnerStats> {
        let mut sums: BTreeMap<&str, OwnerStats> = BTreeMap::new();
        let Some(cached) = &self.desk.cache else { return sums };
        // Children before parents.
        for entry in census.iter().rev() {
            let path = entry.path.as_str();
            let sum = sums.entry(path).or_default();
            sum.absorb(&cached.stats(entry.cgroup));
            let sum = *sum;
            if let Some((parent, name)) = path.rsplit_once('/')
                && !name.is_empty()
            {
                let parent = if parent.is_empty() { "/" } else { parent };
                sums.entry(parent).or_default().absorb(&sum);
            }
        }
        sums
    }

    /// Connections that limits have held back. O(connections).
    fn tasks(&self, paths: &BTreeMap<CgroupId, &str>) -> Vec<TaskStatus> {
        let connections = self.desk.connections.iter().filter_map(|(_, connection)| {
            let member = connection.bound?.member;
            let stats = self.engine.task_stats(member.task)?;
            (stats != TaskStats::default()).then(|| TaskStatus {
                client: connection.peer.to_string(),
                connection: connection.serial,
                cgroup: paths.get(&member.cgroup).map(|path| (*path).to_owned()),
                throttled_ios: per_dimension(stats.throttled),
                wait_ns: per_dimension(stats.wait_ns),
            })
        });
        let mut tasks: Vec<TaskStatus> = connections.collect();
        tasks.sort_by_key(|task| task.connection);
        tasks
    }

    fn cgroup(
        &self,
        entry: &Census,
        paths: &BTreeMap<CgroupId, &str>,
        connections: u32,
    ) -> CgroupStatus {
        let left = Dimension::ALL.into_iter().filter_map(|dimension| {
            let left = self.engine.burst_left(entry.cgroup, dimension)?;
            Some(BurstLeft { dimension: dimension.key().into(), left })
        });
        let counters = &entry.counters;
        let blame = &counters.blame;
        let waits = blame.limits.iter().map(|limit| LimitWait {
            cgroup: paths.get(&limit.cgroup).map(|path| (*path).to_owned()),
            wait_ns: per_dimension(limit.wait_ns),
        });
        CgroupStatus {
            burst_left: left.collect(),
            connections,
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
            wait: WaitStatus {
                limits: waits.collect(),
                other_clients_ns: blame.others_ns,
                lifted_ns: blame.lifted_ns,
                window_ns: blame.window_ns,
                device_ns: blame.device_ns,
                ..WaitStatus::default()
            },
            bfq: entry.bfq.into(),
            ..self.cgroup_settings(entry.cgroup, &entry.path)
        }
    }

    /// How the device and the cgroup at `path` are set, and nothing else. O(depth × log cgroups).
    pub(super) fn settings(&self, now: Instant, path: &Path) -> DeviceStatus {
        let device = self.engine.device();
        let found = self.engine.find_cgroup(path);
        DeviceStatus {
            device: self.desk.name.clone(),
            path: self.desk.path.clone(),
            at_ns: now.as_nanos(),
            depth: device.depth,
            scheduler: device.scheduler.name().into(),
            bfq: BfqStatus::new(&self.engine.bfq_settings(), &self.engine.bfq_stats()),
            cgroups: found
                .map(|cgroup| self.cgroup_settings(cgroup, path.as_str()))
                .into_iter()
                .collect(),
            ..DeviceStatus::default()
        }
    }

    fn cgroup_settings(&self, cgroup: CgroupId, path: &str) -> CgroupStatus {
        let limits = self.engine.limits(cgroup).unwrap_or_default();
        let text =
            |values: weir_engine::PerDimension| (!values.is_none()).then(|| values.to_string());
        let low_latency = self.engine.low_latency(cgroup);
        CgroupStatus {
            cgroup: path.to_owned(),
            io_max: text(limits.max),
            io_burst: text(limits.burst),
            io_peak: text(limits.peak),
            io_weight: self.engine.weight(cgroup).unwrap_or_default().get(),
            io_prio_class: self.engine.prio_class(cgroup).unwrap_or_default().name().into(),
            io_bfq_low_latency: low_latency.map(|policy| policy.name().to_owned()),
            io_watermark: self.engine.watermark(cgroup).map(|mark| mark.to_string()),
            limiter: limiter_name(limits.limiter),
            ..CgroupStatus::default()
        }
    }
}

fn watermark(stats: WatermarkStats) -> WatermarkStatus {
    WatermarkStatus {
        watermark: stats.watermark.to_string(),
        watermark_percent: stats.watermark.percent(),
        cgroups: stats.cgroups,
        multiplier: stats.multiplier_thousandths as f64 / 1000.0,
        lifted: stats.is_open,
    }
}

fn per_dimension(values: [u64; Dimension::COUNT]) -> PerDimension {
    let [rbps, wbps, riops, wiops, rwbps, rwiops] = values;
    PerDimension { rbps, wbps, riops, wiops, rwbps, rwiops }
}

/// As `io.limiter` names it.
fn limiter_name(limiter: LimiterKind) -> String {
    match limiter {
        LimiterKind::Pace => "pace".into(),
        LimiterKind::Token => "token".into(),
        LimiterKind::Leaky => "leaky".into(),
        LimiterKind::Slice(profile) => {
            let millis = u32::from(profile.slice_ticks) * 1000 / u32::from(profile.hz.max(1));
            format!("slice:{:?},hz={},slice={millis}ms", profile.kernel, profile.hz)
        }
    }
}
