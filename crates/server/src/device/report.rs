//! Status of a device, for `weir status`.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use weir_cache::writeback::OwnerStats;
use weir_engine::stats::{CgroupStats, TaskStats, WatermarkStats};
use weir_engine::{CgroupId, Dimension, Instant, LimiterKind, Path};

use super::reactor::{DeviceIo, Reactor};
use super::waits::{StallReason, Waits};
use crate::status::{
    BfqStatus, BurstLeft, CgroupStatus, DeviceStatus, LimitWait, PerDimension, TaskStatus,
    WaitStatus, WatermarkStatus,
};

/// Cgroups that one turn of the loop tells of; each takes a microsecond.
const CGROUPS_A_TURN: usize = 256;

/// A status in the making.
///
/// Its numbers are those of the turn in which it began, and its settings, and what is left of bursts, of the turns in which
/// it came to the cgroup.
pub(super) struct Report {
    /// `None` when it has been sent.
    reply: Option<oneshot::Sender<DeviceStatus>>,
    /// What is done of it.
    status: DeviceStatus,
    census: Vec<CgroupStats>,
    /// The first of `census` that it has not told of.
    next: usize,
    /// Where each cgroup is in `census`.
    places: Places,
    connections: BTreeMap<CgroupId, u32>,
    /// By path, as is what follows: waits outside the engine.
    outside: BTreeMap<String, Waits>,
    writeback: BTreeMap<String, OwnerStats>,
}

/// Where each cgroup is in a census.
type Places = BTreeMap<CgroupId, usize>;

impl Reactor {
    /// Goes on with the status that was asked for first. O(1); where it begins O(cgroups), a fifth of a microsecond for each.
    pub(super) fn report(&mut self, now: Instant) {
        let mut report = match self.io.report.take() {
            Some(report) => report,
            None => loop {
                let Some(reply) = self.io.status_waiters.pop_front() else { return };
                if !reply.is_closed() {
                    break Box::new(self.begin_report(now, reply));
                }
            },
        };
        let len = report.census.len();
        if report.reply.is_some() {
            let end = len.min(report.next + CGROUPS_A_TURN);
            // One may have been removed meanwhile.
            let there = report.census[report.next..end]
                .iter()
                .filter(|entry| self.engine.limits(entry.cgroup).is_some());
            let cgroups: Vec<_> = there.map(|entry| self.cgroup(entry, &report)).collect();
            report.status.cgroups.extend(cgroups);
            report.next = end;
            if end == len
                && let Some(reply) = report.reply.take()
            {
                // Where it is not taken, it is not waited for any more.
                drop(reply.send(std::mem::take(&mut report.status)));
            }
        } else {
            // To free all of it at once takes as long as to read it.
            report.census.truncate(len.saturating_sub(CGROUPS_A_TURN));
        }
        if report.reply.is_some() || report.census.len() > CGROUPS_A_TURN {
            self.io.report = Some(report);
        }
        self.io.is_busy |= self.io.report.is_some() || !self.io.status_waiters.is_empty();
    }

    /// Reads all counters at this moment. O(cgroups + connections).
    fn begin_report(&mut self, now: Instant, reply: oneshot::Sender<DeviceStatus>) -> Report {
        let census = self.engine.tree_stats();
        let places: Places =
            census.iter().enumerate().map(|(place, entry)| (entry.cgroup, place)).collect();
        let outside = self.waits_outside(&census, &places);
        let device = self.engine.device();
        let audit = self.engine.audit();
        let cached = self.io.cache.as_ref();
        let charged: u128 = audit.charged.iter().map(|charge| charge.bytes).sum();
        let status = DeviceStatus {
            device: self.io.name.clone(),
            path: self.io.path.clone(),
            at_ns: now.as_nanos(),
            size_bytes: self.io.storage.disk.info().size,
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
            connections: self.io.connections.len() as u32,
            connections_refused: self.io.connections.refused(),
            connections_dropped: self.io.connections.dropped(),
            log_lines_left_out: self.io.log_limit.left_out_total(),
            wakes_late: self.io.lateness.count(),
            wake_late_ns_max: self.io.lateness.max_ns(),
            audit_balances: audit.balances(),
            charged_bytes: u64::try_from(charged).unwrap_or(u64::MAX),
            tasks: self.tasks(&census, &places),
            cgroups: Vec::with_capacity(census.len()),
        };
        let connections = self.io.clients.connections();
        let writeback = self.writeback(&census);
        let reply = Some(reply);
        Report { reply, status, census, next: 0, places, connections, outside, writeback }
    }

    /// What requests of each cgroup and all below it have waited for outside the engine, by path. What those of removed
    /// cgroups had is the root's. O(connections + cgroups that have waited × depth).
    fn waits_outside(
        &mut self,
        census: &[CgroupStats],
        places: &Places,
    ) -> BTreeMap<String, Waits> {
        let DeviceIo { waits, connections, .. } = &mut self.io;
        let root = self.engine.root();
        let mut removed = Waits::default();
        waits.retain(|cgroup, waits| {
            let is_there = places.contains_key(cgroup);
            if !is_there {
                removed.absorb(waits);
            }
            is_there
        });
        waits.entry(root).or_default().absorb(&removed);
        let mut own = waits.clone();
        for (_, connection) in connections.iter() {
            if let (Some(bound), Some(_)) = (&connection.bound, &connection.socket) {
                let member = bound.member;
                let mut cgroups = [member.counted_in(), member.cgroup].into_iter();
                let cgroup = cgroups.find(|cgroup| places.contains_key(cgroup));
                own.entry(cgroup.unwrap_or(root)).or_default().absorb(&connection.waits);
            }
        }
        let mut sums = BTreeMap::new();
        for (cgroup, waits) in own {
            let path = &census[places[&cgroup]].path;
            add_up(&mut sums, path, |sum: &mut Waits| sum.absorb(&waits));
        }
        sums
    }

    /// What the cache has and has done for each cgroup and all below it, by path; nothing without a cache.
    fn writeback(&self, census: &[CgroupStats]) -> BTreeMap<String, OwnerStats> {
        let mut sums = BTreeMap::new();
        let Some(cached) = &self.io.cache else { return sums };
        for entry in census {
            let stats = cached.stats(entry.cgroup);
            if stats != OwnerStats::default() {
                add_up(&mut sums, &entry.path, |sum: &mut OwnerStats| sum.absorb(&stats));
            }
        }
        sums
    }

    /// Connections that limits have held back. O(connections).
    fn tasks(&self, census: &[CgroupStats], places: &Places) -> Vec<TaskStatus> {
        let connections = self.io.connections.iter().filter_map(|(_, connection)| {
            let member = connection.bound?.member;
            let stats = self.engine.task_stats(member.task)?;
            (stats != TaskStats::default()).then(|| TaskStatus {
                client: connection.peer.to_string(),
                connection: connection.serial,
                cgroup: path_of(member.counted_in(), census, places),
                throttled_ios: per_dimension(stats.throttled),
                wait_ns: per_dimension(stats.wait_ns),
            })
        });
        let mut tasks: Vec<TaskStatus> = connections.collect();
        tasks.sort_by_key(|task| task.connection);
        tasks
    }

    fn cgroup(&self, entry: &CgroupStats, report: &Report) -> CgroupStatus {
        let left = Dimension::ALL.into_iter().filter_map(|dimension| {
            let left = self.engine.burst_left(entry.cgroup, dimension)?;
            Some(BurstLeft { dimension: dimension.key().into(), left })
        });
        let counters = &entry.counters;
        let blame = &counters.blame;
        let waits = blame.limits.iter().map(|limit| LimitWait {
            cgroup: path_of(limit.cgroup, &report.census, &report.places),
            wait_ns: per_dimension(limit.wait_ns),
        });
        let path = entry.path.as_str();
        let outside = report.outside.get(path).copied().unwrap_or_default();
        CgroupStatus {
            burst_left: left.collect(),
            connections: report.connections.get(&entry.cgroup).copied().unwrap_or_default(),
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
                connection_ns: outside.stalled_ns(StallReason::Itself),
                memory_ns: outside.stalled_ns(StallReason::Memory),
                queue_ns: outside.stalled_ns(StallReason::Queue),
                unsent_ns: outside.stalled_ns(StallReason::Sending),
                turn_ns: outside.stalled_ns(StallReason::Turn),
                payload_ns: outside.payload_ns,
                sending_ns: outside.sending_ns,
            },
            replied_ios: outside.replied_ios,
            inside_ns: outside.inside_ns,
            bfq: entry.bfq.into(),
            writeback: report.writeback.get(path).copied().unwrap_or_default().into(),
            ..self.cgroup_settings(entry.cgroup, &entry.path)
        }
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
            io_watermark: self.engine.watermark(cgroup).map(weir_text::print_watermark),
            limiter: limiter_name(limits.limiter),
            ..CgroupStatus::default()
        }
    }
}

fn path_of(cgroup: CgroupId, census: &[CgroupStats], places: &Places) -> Option<String> {
    places.get(&cgroup).map(|&place| census[place].path.clone())
}

/// Adds to the sum of the cgroup at `path` and to those of all above it. O(depth × log cgroups).
fn add_up<T: Default>(sums: &mut BTreeMap<String, T>, path: &str, mut add: impl FnMut(&mut T)) {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
    let above = ends.map(|end| &path[..end]).chain((path != "/").then_some(path));
    for path in std::iter::once("/").chain(above) {
        match sums.get_mut(path) {
            Some(sum) => add(sum),
            None => add(sums.entry(path.to_owned()).or_default()),
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

fn per_dimension(values: [u64; Dimension::COUNT]) -> PerDimension {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cgroup_has_is_added_to_all_above_it() {
        let mut sums = BTreeMap::new();
        for (path, number) in [("/", 1), ("/a", 10), ("/a/b", 100), ("/ab", 1000)] {
            add_up(&mut sums, path, |sum: &mut u32| *sum += number);
        }
        let sums: Vec<(&str, u32)> = sums.iter().map(|(path, sum)| (path.as_str(), *sum)).collect();
        assert_eq!(sums, [("/", 1111), ("/a", 110), ("/a/b", 100), ("/ab", 1000)]);
    }
}
