//! The status as Prometheus reads it.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use weir_config::is_of_client;

use crate::status::{BfqStatus, CgroupStatus, DeviceStatus, Status, WritebackStatus};

/// Content types of the answer, the default first: what Prometheus 2 and 3, and other collectors, understand.
pub(super) const CONTENT_TYPES: [&str; 2] = [prometheus_text::CONTENT_TYPE, OPENMETRICS];

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Cgroups of a device that are shown; each makes 17 series. Those further down the tree are in the counters of the
/// ones above them.
const CGROUPS_MAX: usize = 1000;

type Labels = Vec<(&'static str, String)>;
type Count = Family<Labels, Counter>;
type Seconds = Family<Labels, Counter<f64, AtomicU64>>;
type Level = Family<Labels, Gauge>;
type Ratio = Family<Labels, Gauge<f64, AtomicU64>>;

/// The families, made anew for each answer: what is gone from the status is gone from the metrics.
#[derive(Default)]
struct Families {
    size: Level,
    depth: Level,
    requests: Level,
    connections: Level,
    omitted: Level,
    balances: Level,
    busy: Seconds,
    dropped: Count,
    connections_refused: Count,
    accepts_failed: Count,
    recorded: Count,
    recording_dropped: Count,
    log_left_out: Count,
    late: Count,
    bytes: Count,
    ios: Count,
    failed: Count,
    held: Count,
    wait: Seconds,
    members: Level,
    slots: Count,
    idling: Seconds,
    injected: Count,
    merges: Count,
    refused: Count,
    splits: Count,
    raised: Level,
    utilisation: Ratio,
    watermark: Ratio,
    multiplier: Ratio,
    cache: Level,
    dirty: Level,
    taken: Count,
    hits: Count,
    overwritten: Count,
    coalesced: Count,
    written: Count,
    written_ios: Count,
    written_failed: Count,
    cache_waits: Count,
    cache_wait: Seconds,
}

/// `status` as text, and its content type by the header `Accept`.
pub(super) fn encode(status: &Status, accept: Option<&str>) -> (&'static str, String) {
    let families = Families::default();
    families.accepts_failed.get_or_create(&Labels::new()).inc_by(status.listeners.accepts_failed);
    if let Some(recording) = &status.recording {
        families.recorded.get_or_create(&Labels::new()).inc_by(recording.requests);
        let missing = recording.dropped.saturating_add(recording.lost);
        families.recording_dropped.get_or_create(&Labels::new()).inc_by(missing);
    }
    for device in &status.devices {
        families.device(device);
    }
    let mut registry = Registry::with_prefix("weir");
    families.register(&mut registry);
    let mut out = String::new();
    let (content_type, written) = match prefers_openmetrics(accept.unwrap_or_default()) {
        true => (OPENMETRICS, text::encode(&mut out, &registry)),
        false => (CONTENT_TYPES[0], prometheus_text::encode(&mut out, &registry)),
    };
    // Writing into a string fails only if a label cannot be written, and all of ours are strings.
    written.expect("labels are strings");
    (content_type, out)
}

/// Whether `Accept` names OpenMetrics with more weight than plain text.
fn prefers_openmetrics(accept: &str) -> bool {
    let (mut openmetrics, mut plain) = (0, 0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1000, thousandths);
        match &*name {
            "application/openmetrics-text" => openmetrics = openmetrics.max(weight),
            "text/plain" | "text/*" | "*/*" => plain = plain.max(weight),
            _ => {}
        }
    }
    openmetrics > plain
}

/// `0.25` as 250, and 0 for what is no weight (RFC 9110, 12.4.2).
fn thousandths(weight: &str) -> u32 {
    let (whole, part) = weight.split_once('.').unwrap_or((weight, ""));
    let digits = format!("{part:0<3}");
    match (whole, digits.get(..3).and_then(|digits| digits.parse::<u32>().ok())) {
        ("1", Some(0)) => 1000,
        ("0", Some(part)) => part,
        _ => 0,
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

impl Families {
    fn device(&self, device: &DeviceStatus) {
        let with = |more: &[(&'static str, &str)]| -> Labels {
            let mut labels = vec![("device", device.device.clone())];
            labels.extend(more.iter().map(|(key, value)| (*key, (*value).to_owned())));
            labels
        };
        let level = |family: &Level, labels, value: u64| {
            family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        level(&self.size, with(&[]), device.size_bytes);
        level(&self.depth, with(&[]), device.depth.into());
        for (state, count) in
            [("in_flight", device.in_flight), ("ready", device.ready), ("held", device.throttled)]
        {
            level(&self.requests, with(&[("state", state)]), count.into());
        }
        level(&self.connections, with(&[]), device.connections.into());
        level(&self.balances, with(&[]), device.audit_balances.into());
        // Clients come and go, and what they do is in the counters of the cgroup above.
        let cgroups: Vec<&CgroupStatus> =
            device.cgroups.iter().filter(|cgroup| !is_of_client(&cgroup.cgroup)).collect();
        let omitted = cgroups.len().saturating_sub(CGROUPS_MAX);
        level(&self.omitted, with(&[]), omitted as u64);
        self.busy.get_or_create(&with(&[])).inc_by(seconds(device.busy_ns));
        self.dropped.get_or_create(&with(&[])).inc_by(device.connections_dropped);
        self.connections_refused.get_or_create(&with(&[])).inc_by(device.connections_refused);
        self.log_left_out.get_or_create(&with(&[])).inc_by(device.log_lines_left_out);
        self.late.get_or_create(&with(&[])).inc_by(device.wakes_late);
        if let Some(percent) = device.utilisation_percent_500ms {
            self.utilisation.get_or_create(&with(&[])).set(percent / 100.0);
        }
        for mark in &device.watermarks {
            let labels = with(&[("watermark", &mark.watermark)]);
            self.watermark.get_or_create(&labels).set(f64::from(mark.watermark_percent) / 100.0);
            self.multiplier.get_or_create(&labels).set(mark.multiplier);
        }
        self.bfq(&device.bfq, &with);
        if let Some(cache) = &device.cache {
            level(&self.cache, with(&[]), cache.size_bytes);
            for cgroup in cgroups.iter().take(CGROUPS_MAX) {
                self.writeback(&cgroup.writeback, &with(&[("cgroup", &cgroup.cgroup)]));
            }
        }
        for cgroup in cgroups.iter().take(CGROUPS_MAX) {
            self.cgroup(cgroup, &with(&[("cgroup", &cgroup.cgroup)]));
        }
    }

    /// What the scheduler of that name has done, by kind.
    fn bfq(&self, bfq: &BfqStatus, with: &impl Fn(&[(&'static str, &str)]) -> Labels) {
        for (family, label, counts) in [
            (&self.slots, "ended", &bfq.expirations),
            (&self.injected, "kind", &bfq.injections),
            (&self.merges, "kind", &bfq.merges),
            (&self.refused, "reason", &bfq.refusals),
        ] {
            for (kind, &count) in counts {
                family.get_or_create(&with(&[(label, kind)])).inc_by(count);
            }
        }
        for (cause, &nanos) in &bfq.idling_ns {
            self.idling.get_or_create(&with(&[("cause", cause)])).inc_by(seconds(nanos));
        }
        self.splits.get_or_create(&with(&[])).inc_by(bfq.splits);
        self.raised.get_or_create(&with(&[])).set(bfq.raised_flows.into());
    }

    /// What the write-back cache has of a cgroup, and has done for it.
    fn writeback(&self, status: &WritebackStatus, labels: &Labels) {
        let dirty = i64::try_from(status.dirty_bytes).unwrap_or(i64::MAX);
        self.dirty.get_or_create(labels).set(dirty);
        for (family, count) in [
            (&self.taken, status.taken_ios),
            (&self.hits, status.hit_ios),
            (&self.overwritten, status.overwritten_bytes),
            (&self.coalesced, status.coalesced_ios),
            (&self.written, status.written_bytes),
            (&self.written_ios, status.written_ios),
            (&self.written_failed, status.failed_ios),
            (&self.cache_waits, status.waits),
        ] {
            family.get_or_create(labels).inc_by(count);
        }
        self.cache_wait.get_or_create(labels).inc_by(seconds(status.wait_ns));
    }

    fn cgroup(&self, cgroup: &CgroupStatus, labels: &Labels) {
        let with = |key, value: &str| -> Labels {
            labels.iter().cloned().chain([(key, value.to_owned())]).collect()
        };
        for (op, bytes, ios) in [
            ("read", cgroup.read_bytes, cgroup.read_ios),
            ("write", cgroup.write_bytes, cgroup.write_ios),
            ("discard", cgroup.discard_bytes, cgroup.discard_ios),
        ] {
            self.bytes.get_or_create(&with("op", op)).inc_by(bytes);
            self.ios.get_or_create(&with("op", op)).inc_by(ios);
        }
        self.ios.get_or_create(&with("op", "other")).inc_by(cgroup.other_ios);
        self.failed.get_or_create(labels).inc_by(cgroup.failed_ios);
        for (limit, ios) in cgroup.throttled_ios.pairs() {
            self.held.get_or_create(&with("limit", limit)).inc_by(ios);
        }
        for (cause, nanos) in causes(cgroup) {
            self.wait.get_or_create(&with("cause", cause)).inc_by(seconds(nanos));
        }
        self.members.get_or_create(labels).set(cgroup.connections.into());
    }

    fn register(self, registry: &mut Registry) {
        let mut add = |name, help, level: Level| registry.register(name, help, level);
        add("device_depth", "Requests that may be at the device at once", self.depth);
        add("device_requests", "Requests inside, by where they are", self.requests);
        add("device_connections", "Open connections", self.connections);
        add("device_audit_balances", "1 while everything dispatched was charged", self.balances);
        add("device_cgroups_omitted", "Cgroups too many to be shown here", self.omitted);
        add("cgroup_connections", "Open connections in the cgroup itself", self.members);
        add("bfq_raised_flows", "Flows whose weight is raised", self.raised);
        let mut add = |name, help, ratio: Ratio| registry.register(name, help, ratio);
        add(
            "device_utilisation_ratio",
            "Share of the last half second with a request at the device, where a watermark asks",
            self.utilisation,
        );
        add("device_watermark_ratio", "Utilisation from which on limits bind", self.watermark);
        add("device_limit_multiplier", "What limits are multiplied by", self.multiplier);
        registry.register_with_unit("device_size", "Size", Unit::Bytes, self.size);
        let help = "What may be in the write-back cache";
        registry.register_with_unit("cache_size", help, Unit::Bytes, self.cache);
        let help = "Written and not on the device yet";
        registry.register_with_unit("cgroup_dirty", help, Unit::Bytes, self.dirty);
        let mut add = |name, help, count: Count| registry.register(name, help, count);
        add(
            "device_connections_dropped",
            "Clients that broke the protocol or stalled",
            self.dropped,
        );
        let help = "Connections beyond what the server, a client or an export may have";
        add("device_connections_refused", help, self.connections_refused);
        let help = "Times that a listener could not accept";
        add("accepts_failed", help, self.accepts_failed);
        add("recording_requests", "Requests recorded", self.recorded);
        let help = "Entries that are missing in the recording";
        add("recording_entries_dropped", help, self.recording_dropped);
        let help = "Log lines about clients that were left out";
        add("device_log_lines_left_out", help, self.log_left_out);
        add("device_wakes_late", "Wake-ups for a limit more than 1 ms late", self.late);
        add("bfq_slots", "Slots ended, by why", self.slots);
        add("bfq_injections", "Requests in the gaps of others", self.injected);
        add("bfq_merges", "Flows that merged", self.merges);
        add("bfq_merges_refused", "Merges looked for and refused", self.refused);
        add("bfq_splits", "Merged flows that parted", self.splits);
        add("cgroup_ios", "Operations past the limits", self.ios);
        add("cgroup_ios_failed", "Operations that the device failed", self.failed);
        add("cgroup_ios_held", "Operations that had to wait for a limit", self.held);
        add("writeback_taken", "Writes answered from memory", self.taken);
        add("writeback_hits", "Reads answered from memory", self.hits);
        add("writeback_ios", "Requests that wrote back", self.written_ios);
        add("writeback_ios_failed", "Of these, failed by the device", self.written_failed);
        add("writeback_coalesced", "Writes that went back with a neighbour's", self.coalesced);
        add("writeback_waits", "Writes that waited for room", self.cache_waits);
        registry.register_with_unit("cgroup", "Bytes past the limits", Unit::Bytes, self.bytes);
        let help = "Bytes that were written back";
        registry.register_with_unit("writeback", help, Unit::Bytes, self.written);
        let help = "Bytes written again before they were written back";
        registry.register_with_unit("writeback_overwritten", help, Unit::Bytes, self.overwritten);
        let mut add = |name, help, time: Seconds| {
            registry.register_with_unit(name, help, Unit::Seconds, time);
        };
        add("writeback_wait", "Time that writes waited for room", self.cache_wait);
        add("bfq_idling", "Time for which the device was kept free", self.idling);
        add("device_busy", "Time with a request at the device", self.busy);
        add("cgroup_wait", "What completed requests waited for, summed", self.wait);
    }
}

/// Waits by cause. Which ancestor is in the status; here it would make a series for each pair.
fn causes(cgroup: &CgroupStatus) -> impl Iterator<Item = (&'static str, u64)> {
    let wait = &cgroup.wait;
    let sum = |own: bool| -> u64 {
        wait.limits
            .iter()
            .filter(|limit| (limit.cgroup.as_deref() == Some(cgroup.cgroup.as_str())) == own)
            .map(|limit| limit.wait_ns.sum())
            .sum()
    };
    let limits = [("own_limit", sum(true)), ("other_limit", sum(false))];
    limits.into_iter().chain(wait.beside_limits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{CacheStatus, LimitWait, PerDimension, WaitStatus};

    #[test]
    fn waits_are_split_by_whose_limit_it_was() {
        let wait_ns = PerDimension { riops: 2_500_000_000, ..PerDimension::default() };
        let limit = |cgroup: &str| LimitWait { cgroup: Some(cgroup.into()), wait_ns };
        let cgroup = CgroupStatus {
            cgroup: "/a\"b".into(),
            read_bytes: 4096,
            wait: WaitStatus {
                limits: vec![limit("/a\"b"), limit("/")],
                device_ns: 1_000,
                ..WaitStatus::default()
            },
            ..CgroupStatus::default()
        };
        let client = CgroupStatus { cgroup: "/a\"b/client:process 1".into(), ..cgroup.clone() };
        let writeback = WritebackStatus {
            dirty_bytes: 8192,
            written_bytes: 4096,
            wait_ns: 500_000_000,
            ..WritebackStatus::default()
        };
        let cgroup = CgroupStatus { writeback, ..cgroup };
        let bfq = BfqStatus {
            expirations: [("too_idle".to_owned(), 3)].into(),
            idling_ns: [("throughput".to_owned(), 1_500_000_000)].into(),
            raised_flows: 2,
            ..BfqStatus::default()
        };
        let device = DeviceStatus {
            device: "disk0".into(),
            cache: Some(CacheStatus { size_bytes: 1 << 20, dirty_bytes: 8192 }),
            bfq,
            utilisation_percent_500ms: Some(87.5),
            watermarks: vec![crate::status::WatermarkStatus {
                watermark: "90".into(),
                watermark_percent: 90,
                cgroups: 3,
                multiplier: 2.5,
                lifted: false,
            }],
            cgroups: vec![cgroup, client],
            ..DeviceStatus::default()
        };
        let status = Status {
            exports: Vec::new(),
            version: "1".into(),
            uptime_secs: 1,
            listeners: Default::default(),
            sandbox: crate::status::SandboxStatus::default(),
            recording: None,
            generation: "1-a".into(),
            devices: vec![device],
        };
        let openmetrics = Some("application/openmetrics-text;version=1.0.0");
        let (content_type, text) = encode(&status, openmetrics);
        assert_eq!(content_type, OPENMETRICS);
        let (content_type, plain) = encode(&status, None);
        assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
        let samples = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let mut lines: Vec<String> = lines.map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(samples(&plain), samples(&text));
        assert!(!text.contains("client:"), "{text}");
        // What `promtool check metrics` asks for: a help text under the name that the samples have.
        for line in plain.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(plain.contains(&format!("# HELP {name} ")), "{name} has no help:\n{plain}");
        }
        for line in [
            r#"weir_cgroup_bytes_total{device="disk0",cgroup="/a\"b",op="read"} 4096"#,
            r#"weir_cgroup_wait_seconds_total{device="disk0",cgroup="/a\"b",cause="own_limit"} 2.5"#,
            r#"weir_cgroup_wait_seconds_total{device="disk0",cgroup="/a\"b",cause="other_limit"} 2.5"#,
            r#"weir_device_cgroups_omitted{device="disk0"} 0"#,
            r#"weir_bfq_slots_total{device="disk0",ended="too_idle"} 3"#,
            r#"weir_bfq_idling_seconds_total{device="disk0",cause="throughput"} 1.5"#,
            r#"weir_cache_size_bytes{device="disk0"} 1048576"#,
            r#"weir_cgroup_dirty_bytes{device="disk0",cgroup="/a\"b"} 8192"#,
            r#"weir_writeback_bytes_total{device="disk0",cgroup="/a\"b"} 4096"#,
            r#"weir_writeback_wait_seconds_total{device="disk0",cgroup="/a\"b"} 0.5"#,
            r#"weir_bfq_raised_flows{device="disk0"} 2"#,
            r#"weir_device_utilisation_ratio{device="disk0"} 0.875"#,
            r#"weir_device_watermark_ratio{device="disk0",watermark="90"} 0.9"#,
            r#"weir_device_limit_multiplier{device="disk0",watermark="90"} 2.5"#,
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
        }
    }

    #[test]
    fn plain_text_unless_openmetrics_is_preferred() {
        for (accept, preferred) in [
            ("", false),
            ("*/*", false),
            ("text/html,*/*;q=0.8", false),
            ("text/plain;version=0.0.4;q=0.3,*/*;q=0.2", false),
            ("application/openmetrics-text", true),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=2", false),
            // As Prometheus asks.
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                true,
            ),
        ] {
            assert_eq!(prefers_openmetrics(accept), preferred, "{accept}");
        }
    }
}
