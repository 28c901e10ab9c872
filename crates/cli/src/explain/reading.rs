//! Reading of one cgroup on one device: what happened between two statuses.

use std::fmt;

use serde::Serialize;
use weir_server::status::{
    CgroupStatus, DeviceStatus, ExportStatus, LatencyByDirection, Percentiles, Status, WaitStatus,
};

use super::Finding;
use crate::status::{Cause, CgroupRates, Interval, causes};

/// Neighbours that are told of.
const NEIGHBOURS_MAX: usize = 3;

/// What is asked for is not in the status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NotThere(String);

impl fmt::Display for NotThere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.0.starts_with('/') { "cgroup" } else { "export" };
        write!(f, "there is no {kind} {:?}", self.0)
    }
}

/// Something that requests waited for; the dimensions of a cgroup's limit are one.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Held {
    #[serde(flatten)]
    pub(super) cause: Cause,
}

/// A cgroup beside the one that is explained.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Neighbour {
    pub(super) cgroup: String,
    /// Part of the device's work: by its model, else of the bytes.
    pub(super) share_percent: f64,
    pub(super) ios_per_sec: f64,
    pub(super) io_weight: u16,
}

/// Both readings of one cgroup.
pub(super) struct Reading<'a> {
    /// What was asked for, for sentences.
    pub(super) subject: String,
    pub(super) before: &'a DeviceStatus,
    pub(super) after: &'a DeviceStatus,
    pub(super) interval: Interval<'a>,
    pub(super) old: CgroupStatus,
    pub(super) new: CgroupStatus,
    /// Before and after; none where a cgroup was asked for.
    pub(super) exports: Vec<(ExportStatus, ExportStatus)>,
    pub(super) is_export: bool,
    /// Waits by cause, the longest first.
    pub(super) held: Vec<Held>,
    pub(super) several_devices: bool,
}

impl<'a> Reading<'a> {
    pub(super) fn of(
        before: &'a Status,
        after: &'a Status,
        what: &str,
    ) -> Result<Reading<'a>, NotThere> {
        let not_there = || NotThere(what.to_owned());
        let is_export = !what.starts_with('/');
        let named = after.exports.iter().find(|export| export.export == what);
        let path = match is_export {
            true => &named.ok_or_else(not_there)?.cgroup,
            false => what,
        };
        let on = |device: &&DeviceStatus| {
            !is_export || named.is_some_and(|export| export.device == device.device)
        };
        let mut readings: Vec<Reading<'a>> = Vec::new();
        for device in after.devices.iter().filter(on) {
            let Some(new) = device.cgroups.iter().find(|cgroup| cgroup.cgroup == *path) else {
                continue;
            };
            let Some(earlier) = before.devices.iter().find(|old| old.device == device.device)
            else {
                continue;
            };
            let old = earlier.cgroups.iter().find(|old| old.cgroup == *path).cloned();
            let exports = after.exports.iter().filter(|export| match is_export {
                true => export.export == what,
                false => export.cgroup == *path && export.device == device.device,
            });
            let exports = exports.map(|export| {
                let old = before.exports.iter().find(|old| old.export == export.export);
                (old.cloned().unwrap_or_default(), export.clone())
            });
            let old = old.unwrap_or_default();
            let completed = new.completed_ios.saturating_sub(old.completed_ios);
            readings.push(Reading {
                subject: if is_export { format!("export {what:?}") } else { what.to_owned() },
                before: earlier,
                after: device,
                interval: Interval::new(earlier, device),
                held: grouped(causes(&old.wait, &new.wait, completed)),
                old,
                new: new.clone(),
                exports: exports.collect(),
                is_export,
                several_devices: after.devices.len() > 1,
            });
        }
        readings.into_iter().max_by_key(Reading::waits_ns).ok_or_else(not_there)
    }

    pub(super) fn interval_ns(&self) -> u64 {
        self.after.at_ns.saturating_sub(self.before.at_ns).max(1)
    }

    /// How much a counter of the cgroup grew.
    pub(super) fn grew(&self, counter: impl Fn(&CgroupStatus) -> u64) -> u64 {
        counter(&self.new).saturating_sub(counter(&self.old))
    }

    pub(super) fn completed(&self) -> u64 {
        self.grew(|cgroup| cgroup.completed_ios)
    }

    pub(super) fn per_sec(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.interval_ns() as f64
    }

    /// All waits of the requests that completed meanwhile.
    pub(super) fn waits_ns(&self) -> u64 {
        waits_ns(&self.new.wait).saturating_sub(waits_ns(&self.old.wait))
    }

    /// Mean time of a request inside.
    pub(super) fn mean_ns(&self) -> u64 {
        self.waits_ns().checked_div(self.completed()).unwrap_or_default()
    }

    /// Requests inside at once, on average, by Little's law.
    pub(super) fn inside_mean(&self) -> f64 {
        self.waits_ns() as f64 / self.interval_ns() as f64
    }

    /// Requests of all cgroups at the device at once, on average.
    pub(super) fn at_device_mean(&self) -> f64 {
        let device_ns =
            |device: &DeviceStatus| device.cgroups.first().map_or(0, |root| root.wait.device_ns);
        let grew = device_ns(self.after).saturating_sub(device_ns(self.before));
        grew as f64 / self.interval_ns() as f64
    }

    /// Mean time of a request at the device.
    pub(super) fn device_ns_mean(&self) -> u64 {
        let grew = self.grew(|cgroup| cgroup.wait.device_ns);
        grew.checked_div(self.completed()).unwrap_or_default()
    }

    /// Mean time that a flush waited for writes in the cache, of those that did.
    pub(super) fn flush_wait_ns_mean(&self) -> u64 {
        let waited_ns = self.grew(|cgroup| cgroup.writeback.flush_wait_ns);
        let waits = self.grew(|cgroup| cgroup.writeback.flush_waits);
        waited_ns.checked_div(waits).unwrap_or_default()
    }

    /// Part of the time for which `bfq` kept the device free.
    pub(super) fn idling_percent(&self) -> f64 {
        let idling = |device: &DeviceStatus| device.bfq.idling_ns.values().sum::<u64>();
        let grew = idling(self.after).saturating_sub(idling(self.before));
        100.0 * grew as f64 / self.interval_ns() as f64
    }

    /// Whether most requests were reads.
    pub(super) fn reads_most(&self) -> bool {
        let writes = self.grew(|cgroup| cgroup.write_ios)
            + self.grew(|cgroup| cgroup.other_ios + cgroup.discard_ios);
        self.grew(|cgroup| cgroup.read_ios) >= writes
    }

    /// Latencies of the last seconds in the direction that had most requests.
    pub(super) fn recent(&self, latency: &LatencyByDirection) -> Percentiles {
        if self.reads_most() { latency.read.recent } else { latency.write.recent }
    }

    /// 99 of 100 requests took no longer lately.
    pub(super) fn p99_ns(&self) -> Option<u64> {
        let latency = match self.exports.first() {
            Some((_, export)) if self.is_export => &export.latency,
            _ => &self.new.latency,
        };
        let recent = self.recent(latency);
        (!recent.is_empty()).then_some(recent.p99_ns)
    }

    pub(super) fn rates(&self, cgroup: &CgroupStatus) -> CgroupRates {
        self.interval.rates(cgroup)
    }

    /// A cgroup's part of the device's work, in percent.
    pub(super) fn share_percent(&self, cgroup: &CgroupStatus) -> f64 {
        self.rates(cgroup).share()
    }

    /// A cgroup of the device.
    pub(super) fn cgroup(&self, path: &str) -> Option<&CgroupStatus> {
        self.after.cgroups.iter().find(|cgroup| cgroup.cgroup == path)
    }

    pub(super) fn has_children(&self) -> bool {
        let path = &self.new.cgroup;
        let mut cgroups = self.after.cgroups.iter().map(|cgroup| &cgroup.cgroup);
        cgroups.any(|other| other != path && is_at_or_below(other, path))
    }

    /// The nearest cgroup with a limit, from this one upwards.
    pub(super) fn nearest_limit(&self) -> Option<&CgroupStatus> {
        let above = |cgroup: &&CgroupStatus| is_at_or_below(&self.new.cgroup, &cgroup.cgroup);
        let limited = self.after.cgroups.iter().filter(above);
        limited.filter(|cgroup| cgroup.io_max.is_some()).max_by_key(|cgroup| cgroup.cgroup.len())
    }

    /// The limit that holds most.
    pub(super) fn limit(&self) -> Option<&Cause> {
        self.held.iter().map(|held| &held.cause).find(|cause| cause.cause == "limit")
    }

    /// Cgroups that compete in what the finding is about, the busiest first.
    pub(super) fn neighbours(&self, finding: Finding) -> Vec<Neighbour> {
        let top = match finding {
            Finding::LimitAbove => self.limit().and_then(|limit| limit.cgroup.clone()),
            Finding::OtherClients => self.nearest_limit().map(|cgroup| cgroup.cgroup.clone()),
            Finding::Weight | Finding::DeviceFull | Finding::Idling | Finding::DeviceSlow => {
                Some("/".to_owned())
            }
            _ => None,
        };
        top.map(|top| self.beside(&top)).unwrap_or_default()
    }

    fn beside(&self, top: &str) -> Vec<Neighbour> {
        let path = &self.new.cgroup;
        let is_beside = |cgroup: &&CgroupStatus| {
            let Some(parent) = parent(&cgroup.cgroup) else { return false };
            is_at_or_below(parent, top)
                && is_at_or_below(path, parent)
                && parent != path
                && !is_at_or_below(path, &cgroup.cgroup)
        };
        let beside = self.after.cgroups.iter().filter(is_beside).map(|cgroup| Neighbour {
            cgroup: cgroup.cgroup.clone(),
            share_percent: self.share_percent(cgroup),
            ios_per_sec: self.rates(cgroup).completed_ios_per_sec,
            io_weight: cgroup.io_weight,
        });
        let mut beside: Vec<Neighbour> = beside.filter(|other| other.ios_per_sec > 0.0).collect();
        beside.sort_by(|one, other| other.share_percent.total_cmp(&one.share_percent));
        beside.truncate(NEIGHBOURS_MAX);
        beside
    }
}

fn waits_ns(wait: &WaitStatus) -> u64 {
    let limits = wait.limits.iter().map(|limit| limit.wait_ns.sum());
    limits.chain(wait.beside_limits().map(|(_, ns)| ns)).sum()
}

/// The cgroup above; none above the root.
pub(super) fn parent(path: &str) -> Option<&str> {
    match path.rfind('/')? {
        0 if path.len() == 1 => None,
        0 => Some("/"),
        at => Some(&path[..at]),
    }
}

/// Whether `path` is `top` or below it.
pub(super) fn is_at_or_below(path: &str, top: &str) -> bool {
    top == "/"
        || path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Dimensions of one cgroup's limit as one cause, with the dimension that held most.
fn grouped(causes: Vec<Cause>) -> Vec<Held> {
    let mut groups: Vec<Cause> = Vec::new();
    for cause in causes {
        let same =
            |group: &&mut Cause| (group.cause, &group.cgroup) == (cause.cause, &cause.cgroup);
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.wait_ns_mean += cause.wait_ns_mean;
                group.percent += cause.percent;
            }
            None => groups.push(cause),
        }
    }
    groups.sort_by(|one, other| other.percent.total_cmp(&one.percent));
    groups.into_iter().map(|cause| Held { cause }).collect()
}
