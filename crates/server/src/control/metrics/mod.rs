//! The server as Prometheus reads it.

mod cgroups;
mod devices;
mod exports;
mod family;

use prometheus_client::encoding::{prometheus_text, text};
use weir_counters::Histogram;

use self::family::{Families, Name};
use crate::status::{DeviceStatus, ExportStatus, ListenersStatus, RecordingStatus};
use crate::view::CgroupMetrics;

/// Content types of the answer, the default first: what Prometheus 2 and 3, and other collectors, understand.
pub(super) const CONTENT_TYPES: [&str; 2] = [prometheus_text::CONTENT_TYPE, OPENMETRICS];

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All that is exported.
#[derive(Debug, Default)]
pub(super) struct ServerMetrics {
    /// In seconds since 1970.
    pub(super) started_at: f64,
    /// Changes since the start.
    pub(super) changes: u64,
    pub(super) last_reload: Option<LastReload>,
    pub(super) listeners: ListenersStatus,
    /// None without `[record]`.
    pub(super) recording: Option<RecordingStatus>,
    /// Whether its thread has answered, what it has told, and its cgroups.
    pub(super) devices: Vec<(bool, DeviceStatus, DeviceMetrics)>,
    pub(super) exports: Vec<ExportMetrics>,
}

/// The last time that the configuration was read again.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastReload {
    pub(super) is_successful: bool,
    /// In seconds since 1970.
    pub(super) at: f64,
}

/// The cgroups of a device.
#[derive(Debug, Default)]
pub struct DeviceMetrics {
    /// Busiest first.
    pub(crate) cgroups: Vec<CgroupMetrics>,
}

/// One export.
#[derive(Debug)]
pub struct ExportMetrics {
    pub(crate) status: ExportStatus,
    /// Of reads, and of all others.
    pub(crate) times: [Histogram; 2],
}

/// `metrics` as text, and its content type by the header `Accept`.
pub(super) fn encode(metrics: &ServerMetrics, accept: Option<&str>) -> (&'static str, String) {
    let registry = families(metrics).into_registry();
    let mut out = String::new();
    let (content_type, written) = match prefers_openmetrics(accept.unwrap_or_default()) {
        true => (OPENMETRICS, text::encode(&mut out, &registry)),
        false => (CONTENT_TYPES[0], prometheus_text::encode(&mut out, &registry)),
    };
    // Writing into a string fails only if a label cannot be written, and all of ours are strings.
    written.expect("labels are strings");
    (content_type, out)
}

fn families(metrics: &ServerMetrics) -> Families {
    let mut families = Families::default();
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    families.level(Name::BuildInfo, &version, 1.0);
    families.level(Name::StartTime, &Vec::new(), metrics.started_at);
    families.count(Name::ConfigChanges, &Vec::new(), metrics.changes);
    if let Some(LastReload { is_successful, at }) = metrics.last_reload {
        families.level(Name::ReloadSuccessful, &Vec::new(), f64::from(u8::from(is_successful)));
        families.level(Name::ReloadTime, &Vec::new(), at);
    }
    families.count(Name::AcceptsFailed, &Vec::new(), metrics.listeners.accepts_failed);
    if let Some(recording) = &metrics.recording {
        families.count(Name::RecordingRequests, &Vec::new(), recording.requests);
        let missing = recording.dropped.saturating_add(recording.lost);
        families.count(Name::RecordingDropped, &Vec::new(), missing);
    }
    for (is_up, device, DeviceMetrics { cgroups }) in &metrics.devices {
        devices::add(&mut families, *is_up, device);
        cgroups::add(&mut families, device, cgroups);
    }
    metrics.exports.iter().for_each(|export| exports::add(&mut families, export));
    families
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_families_have_help_and_the_samples_of_both_formats_are_the_same() {
        let mut times = Histogram::default();
        [5_000, 300_000, 300_000, 20_000_000_000].into_iter().for_each(|ns| times.record(ns));
        let status = ExportStatus {
            export: "vm\"1".into(),
            device: "disk0".into(),
            read_ios: 4,
            read_bytes: 4096,
            ..ExportStatus::default()
        };
        let device = DeviceStatus { device: "disk0".into(), ..DeviceStatus::default() };
        let metrics = ServerMetrics {
            started_at: 1.5,
            last_reload: Some(LastReload { is_successful: false, at: 2.5 }),
            devices: vec![(true, device, DeviceMetrics::default())],
            exports: vec![ExportMetrics { status, times: [times, Histogram::default()] }],
            ..ServerMetrics::default()
        };
        let (content_type, text) = encode(&metrics, Some("application/openmetrics-text"));
        assert_eq!(content_type, OPENMETRICS);
        let (content_type, plain) = encode(&metrics, None);
        assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
        assert_eq!(encode(&metrics, None).1, plain, "in the same order each time");
        for line in [
            r#"process_start_time_seconds 1.5"#,
            r#"weir_config_last_reload_successful 0.0"#,
            r#"weir_device_up{device="disk0"} 1.0"#,
            r#"weir_export_requests_total{device="disk0",export="vm\"1",op="read"} 4"#,
            r#"weir_export_bytes_total{device="disk0",export="vm\"1",op="read"} 4096"#,
            r#"weir_export_latency_seconds_count{device="disk0",export="vm\"1",op="read"} 4"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
        }
        for (le, count) in
            [("1e-05", 1), ("0.0001", 1), ("0.00025", 1), ("0.0005", 3), ("10", 3), ("+Inf", 4)]
        {
            let bucket = format!("export=\"vm\\\"1\",op=\"read\",le=\"{le}\"}} {count}");
            assert!(plain.contains(&bucket), "{bucket} is not in:\n{plain}");
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
