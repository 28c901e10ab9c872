//! Families of a device's cgroups.

use weir_engine::stats::Counters;
use weir_engine::{Dimension, Direction};

use super::family::{Families, Labels, Name};
use crate::status::{DeviceStatus, WritebackStatus};
use crate::view::{CgroupMetrics, Sums};

/// Cgroups of a device that are shown.
const CGROUPS_MAX: usize = 1000;

/// Adds the busiest of `cgroups`, in the order of their paths. The root has a row where there are requests of its own.
pub(super) fn add(families: &mut Families, device: &DeviceStatus, cgroups: &[CgroupMetrics]) {
    let labels: Labels = vec![("device", device.device.clone())];
    let is_root = |cgroup: &CgroupMetrics| cgroup.path == "/";
    if let Some(root) = cgroups.iter().find(|cgroup| is_root(cgroup)) {
        moved(families, [Name::DeviceIos, Name::DeviceBytes], &labels, &root.all);
    }
    let rows = cgroups
        .iter()
        .filter(|cgroup| !is_root(cgroup) || cgroup.own_ios() > 0 || !cgroup.limits.max.is_none());
    let rows: Vec<&CgroupMetrics> = rows.collect();
    let omitted = rows.len().saturating_sub(CGROUPS_MAX);
    families.level(Name::DeviceOmitted, &labels, omitted as f64);
    let mut rows: Vec<&CgroupMetrics> = rows.into_iter().take(CGROUPS_MAX).collect();
    rows.sort_by(|one, other| one.path.cmp(&other.path));
    for cgroup in rows {
        let labels = with(&labels, "cgroup", &cgroup.path);
        row(families, device, cgroup, &labels);
    }
}

fn row(families: &mut Families, device: &DeviceStatus, cgroup: &CgroupMetrics, labels: &Labels) {
    let CgroupMetrics { own, all, .. } = cgroup;
    moved(families, [Name::CgroupIos, Name::CgroupBytes], labels, own);
    if cgroup.path != "/" {
        moved(families, [Name::SubtreeIos, Name::SubtreeBytes], labels, all);
    }
    families.count(Name::CgroupFailed, labels, own.counters.failed);
    families.level(Name::CgroupConnections, labels, own.waits.connections as f64);
    for (dimension, ios) in Dimension::ALL.into_iter().zip(own.counters.throttled) {
        if ios > 0 {
            families.count(Name::CgroupHeld, &with(labels, "limit", dimension.key()), ios);
        }
    }
    for (cause, nanos) in cgroup.wait_ns.iter().filter(|(_, nanos)| *nanos > 0) {
        families.seconds(Name::CgroupWait, &with(labels, "cause", cause), *nanos);
    }
    if let Some(latencies) = &own.latencies {
        for (name, direction) in ["read", "write"].into_iter().zip(Direction::BOTH) {
            let times = &latencies.of(direction).whole;
            if times.count() > 0 {
                families.times(Name::CgroupLatency, &with(labels, "direction", name), times);
            }
        }
    }
    let multiplier = device.multiplier(cgroup.watermark).unwrap_or(f64::INFINITY);
    for dimension in Dimension::ALL {
        let Some(limit) = cgroup.limits.max.get(dimension) else { continue };
        let (labels, limit) = (with(labels, "limit", dimension.key()), limit.get() as f64);
        families.level(Name::CgroupLimit, &labels, limit);
        families.level(Name::CgroupEffectiveLimit, &labels, limit * multiplier);
    }
    if device.cache.is_some() {
        writeback(families, &own.writeback.into(), labels);
    }
}

fn with(labels: &Labels, key: &'static str, value: &str) -> Labels {
    labels.iter().cloned().chain([(key, value.to_owned())]).collect()
}

/// Operations and bytes by what they do. Discards and the rest are there once there has been one.
fn moved(families: &mut Families, [ios, bytes]: [Name; 2], labels: &Labels, sums: &Sums) {
    let Counters { read, write, discard, other_ios, .. } = &sums.counters;
    for (op, moved) in [("read", read), ("write", write), ("discard", discard)] {
        if op != "discard" || moved.ios > 0 {
            families.count(ios, &with(labels, "op", op), moved.ios);
            families.count(bytes, &with(labels, "op", op), moved.bytes);
        }
    }
    if *other_ios > 0 {
        families.count(ios, &with(labels, "op", "other"), *other_ios);
    }
}

/// What the write-back cache has of a cgroup, and has done for it.
fn writeback(families: &mut Families, status: &WritebackStatus, labels: &Labels) {
    families.level(Name::CgroupDirty, labels, status.dirty_bytes as f64);
    for (name, count) in [
        (Name::WritebackTaken, status.taken_ios),
        (Name::WritebackHits, status.hit_ios),
        (Name::WritebackOverwritten, status.overwritten_bytes),
        (Name::WritebackCoalesced, status.coalesced_ios),
        (Name::WritebackBytes, status.written_bytes),
        (Name::WritebackIos, status.written_ios),
        (Name::WritebackFailed, status.failed_ios),
        (Name::WritebackWaits, status.waits),
        (Name::WritebackFlushWaits, status.flush_waits),
    ] {
        families.count(name, labels, count);
    }
    families.seconds(Name::WritebackWait, labels, status.wait_ns);
    families.seconds(Name::WritebackFlushWait, labels, status.flush_wait_ns);
}
