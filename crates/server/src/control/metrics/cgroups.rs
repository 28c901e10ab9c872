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

#[cfg(test)]
mod tests {
    use weir_engine::{Limits, PerDimension};

    use super::*;
    use crate::control::metrics::{DeviceMetrics, ServerMetrics, encode};
    use crate::status::{CacheStatus, WatermarkStatus};

    fn cgroup(path: String, reads: u64) -> CgroupMetrics {
        let mut own = Sums::default();
        own.counters.read.ios = reads;
        CgroupMetrics {
            path,
            limits: Limits::default(),
            watermark: None,
            own,
            all: Sums::default(),
            wait_ns: Vec::new(),
        }
    }

    fn text(device: DeviceStatus, cgroups: Vec<CgroupMetrics>) -> String {
        let device = DeviceStatus { device: "disk".into(), ..device };
        let devices = vec![(true, device, DeviceMetrics { cgroups })];
        encode(&ServerMetrics { devices, ..ServerMetrics::default() }, None).1
    }

    #[track_caller]
    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
    }

    /// Of more than are shown those that did least are left out; what is shown is in the order of paths.
    #[test]
    fn a_thousand_cgroups_are_shown_the_busiest_ones() {
        let busiest_first = (0..1200).map(|place| cgroup(format!("/{place:04}"), 5000 - place));
        let mut cgroups: Vec<CgroupMetrics> = busiest_first.collect();
        // The busiest of all, with a path behind all others.
        cgroups.insert(0, cgroup("/z".into(), 9000));
        let text = text(DeviceStatus::default(), cgroups);
        has(&text, "weir_device_cgroups_omitted{device=\"disk\"} 201.0");
        let reads =
            |line: &&str| line.starts_with("weir_cgroup_ios_total") && line.contains("op=\"read\"");
        let shown: Vec<&str> = text.lines().filter(reads).collect();
        assert_eq!(shown.len(), 1000);
        let path = |line: &str| line.split("cgroup=\"").nth(1).map(|rest| rest[..5].to_owned());
        assert_eq!(path(shown[0]).as_deref(), Some("/0000"));
        assert_eq!(path(shown[998]).as_deref(), Some("/0998"));
        assert!(shown[999].contains("cgroup=\"/z\""), "{}", shown[999]);
    }

    #[test]
    fn limits_are_told_as_they_were_set_and_as_they_hold() {
        let mark = |watermark: &str, multiplier, lifted| WatermarkStatus {
            watermark: watermark.into(),
            watermark_percent: 90,
            cgroups: 1,
            multiplier,
            lifted,
        };
        let gate = "90 mode=gate";
        let watermarks = [("90", 2.5, false), (gate, 1.0, true)].map(|(watermark, by, lifted)| {
            let parsed = weir_text::parse_watermark(watermark).expect("a watermark");
            (parsed, mark(&weir_text::print_watermark(parsed), by, lifted))
        });
        let limited = |path: &str, watermark| {
            let max = PerDimension::NONE.with(Dimension::Riops, 200);
            let limits = Limits { max, ..Limits::default() };
            CgroupMetrics { limits, watermark, ..cgroup(path.into(), 1) }
        };
        let cgroups = vec![
            limited("/fixed", None),
            limited("/gated", Some(watermarks[1].0)),
            limited("/lent", Some(watermarks[0].0)),
        ];
        let device = DeviceStatus {
            watermarks: watermarks.map(|(_, status)| status).into(),
            ..DeviceStatus::default()
        };
        let text = text(device, cgroups);
        for (path, holds) in [("/fixed", "200.0"), ("/gated", "+Inf"), ("/lent", "500.0")] {
            let labels = format!("{{device=\"disk\",cgroup=\"{path}\",limit=\"riops\"}}");
            has(&text, &format!("weir_cgroup_limit{labels} 200.0"));
            has(&text, &format!("weir_cgroup_effective_limit{labels} {holds}"));
        }
    }

    #[test]
    fn a_cache_has_families_and_a_device_without_has_none() {
        let mut writer = cgroup("/vm".into(), 0);
        let stats = &mut writer.own.writeback;
        (stats.dirty_bytes, stats.taken_ios, stats.waits, stats.wait_ns) = (4096, 7, 2, 3_000_000);
        (stats.flush_waits, stats.flush_wait_ns) = (5, 500_000_000);
        let cache = Some(CacheStatus { size_bytes: 1 << 20, dirty_bytes: 4096 });
        let told = text(DeviceStatus { cache, ..DeviceStatus::default() }, vec![writer]);
        has(&told, "weir_cache_size_bytes{device=\"disk\"} 1048576.0");
        for line in [
            "weir_cgroup_dirty_bytes{device=\"disk\",cgroup=\"/vm\"} 4096.0",
            "weir_writeback_taken_total{device=\"disk\",cgroup=\"/vm\"} 7",
            "weir_writeback_waits_total{device=\"disk\",cgroup=\"/vm\"} 2",
            "weir_writeback_wait_seconds_total{device=\"disk\",cgroup=\"/vm\"} 0.003",
            "weir_writeback_flush_waits_total{device=\"disk\",cgroup=\"/vm\"} 5",
            "weir_writeback_flush_wait_seconds_total{device=\"disk\",cgroup=\"/vm\"} 0.5",
        ] {
            has(&told, line);
        }
        let told = text(DeviceStatus::default(), vec![cgroup("/vm".into(), 0)]);
        assert!(!told.contains("writeback") && !told.contains("dirty"), "{told}");
    }
}
