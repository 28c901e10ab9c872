//! A server for tests: two devices, a noisy tenant among others.

use weir_server::status::{
    CgroupStatus, DeviceStatus, ExportStatus, Latency, LatencyByDirection, LimitWait, PerDimension,
    Percentiles, Status, WaitStatus, WatermarkStatus,
};

use super::reading::Reading;

const NOISY_RIOPS: u64 = 6000;

/// A cgroup after `seconds` in which it read so often, 4 KiB each.
fn cgroup(path: &str, riops: u64, io_max: Option<&str>, seconds: u64) -> CgroupStatus {
    let ios = riops * seconds;
    let is_held = ios > 0 && ["/", "/vms", "/vms/noisy"].contains(&path);
    let held = if is_held { NOISY_RIOPS * seconds } else { 0 };
    let wait_ns = PerDimension { riops: 2_000_000 * held, ..PerDimension::default() };
    let limits = vec![LimitWait { cgroup: Some("/vms/noisy".into()), wait_ns }];
    let recent = Percentiles {
        count: ios,
        p50_ns: 1_200_000,
        p99_ns: 5_980_000,
        p999_ns: 8_100_000,
        max_ns: 12_000_000,
    };
    let read = Latency { recent, total: recent };
    CgroupStatus {
        cgroup: path.into(),
        io_max: io_max.map(str::to_owned),
        io_weight: 100,
        limiter: "pace".into(),
        io_watermark: (path == "/").then(|| "90".to_owned()),
        connections: u32::from(path.starts_with("/vms/")),
        read_ios: ios,
        read_bytes: 4096 * ios,
        completed_ios: ios,
        throttled_ios: PerDimension { riops: held, ..PerDimension::default() },
        latency: if ios > 0 {
            LatencyByDirection { read, write: Latency::default() }
        } else {
            LatencyByDirection::default()
        },
        wait: WaitStatus {
            limits: if is_held { limits } else { Vec::new() },
            device_ns: 120_000 * ios,
            ..WaitStatus::default()
        },
        ..CgroupStatus::default()
    }
}

/// An export of `store` with the reads of a cgroup, each inside for 2.12 ms.
fn export(name: &str, cgroup: &str, riops: u64, seconds: u64) -> ExportStatus {
    let of = self::cgroup(cgroup, riops, None, seconds);
    ExportStatus {
        export: name.into(),
        device: "store".into(),
        cgroup: cgroup.into(),
        connections: u32::from(riops > 0),
        read_ios: of.read_ios,
        read_bytes: of.read_bytes,
        inside_ns: 2_120_000 * of.read_ios,
        latency: of.latency,
        ..ExportStatus::default()
    }
}

pub(super) fn status(seconds: u64) -> Status {
    let limit = |riops: u64| format!("rbps=max wbps=max riops={riops} wiops=max");
    let store = DeviceStatus {
        device: "store".into(),
        at_ns: seconds * 1_000_000_000,
        depth: 32,
        scheduler: "none".into(),
        in_flight: 21,
        throttled: 412,
        ready: 3,
        busy_ns: seconds * 900_000_000,
        utilisation_percent_500ms: Some(90.0),
        watermarks: vec![WatermarkStatus {
            watermark: "90".into(),
            watermark_percent: 90,
            cgroups: 5,
            multiplier: 1.5,
            lifted: false,
        }],
        cgroups: vec![
            cgroup("/", 6310, None, seconds),
            cgroup("/batch", 300, None, seconds),
            cgroup("/idle", 0, Some(&limit(50)), seconds),
            cgroup("/vms", 6010, Some(&limit(6000)), seconds),
            cgroup("/vms/db", 10, Some(&limit(200)), seconds),
            cgroup("/vms/noisy", NOISY_RIOPS, Some(&limit(4000)), seconds),
        ],
        ..DeviceStatus::default()
    };
    let spare = DeviceStatus {
        device: "spare".into(),
        at_ns: seconds * 1_000_000_000,
        depth: 8,
        scheduler: "none".into(),
        cgroups: vec![CgroupStatus { io_watermark: None, ..cgroup("/", 0, None, seconds) }],
        ..DeviceStatus::default()
    };
    Status {
        version: "0.1.0".into(),
        uptime_secs: seconds,
        generation: format!("{seconds}-a"),
        listeners: Default::default(),
        sandbox: Default::default(),
        recording: None,
        exports: vec![
            export("db", "/vms/db", 10, seconds),
            export("noisy", "/vms/noisy", NOISY_RIOPS, seconds),
            ExportStatus { device: "spare".into(), ..export("unused", "/", 0, seconds) },
        ],
        devices: vec![store, spare],
    }
}

pub(super) fn reading(seconds: u64) -> Reading {
    Reading::between(&status(seconds - 1), status(seconds))
}
