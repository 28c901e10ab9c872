//! Results made of fixed numbers: what a run of three jobs in four cgroups could come to.

use std::time::Duration;

use weir_engine::settings::{KernelProfile, SliceProfile};
use weir_engine::stats::{BfqCgroupStats, Blame, Counters, Moved, WaitCause};
use weir_engine::{Dimension, Direction, LimiterKind, Limits, PerDimension};
use weir_fio::{LatencyTarget, SteadyRate, SteadyState};
use weir_lab::results::{
    CauseLatency, CgroupResults, Changed, DeviceResults, Latency, LatencySeries,
    LatencyTargetResult, LimitWaits, Results, Row, Series, Steadiness, Transfers,
};

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// Numbers that look random and are the same everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// `count` times around `typical_ns`, one in 128 of them much longer.
pub(crate) fn latency(seed: u64, count: u64, typical_ns: u64) -> Latency {
    let (mut dice, mut times) = (Dice(seed), Latency::default());
    for index in 0..count {
        let spread = typical_ns / 2 + dice.below(typical_ns) + dice.below(typical_ns) / 2;
        times.record(if index % 128 == 127 { spread * (5 + dice.below(20)) } else { spread });
    }
    times
}

/// `bytes` from `from_ms` to `to_ms`, unevenly.
pub(crate) fn series(seed: u64, bytes: u64, from_ms: u64, to_ms: u64) -> Series {
    let (mut dice, mut series) = (Dice(seed), Series::default());
    let each = bytes / (to_ms - from_ms).max(1);
    for ms in from_ms..to_ms {
        series.add(ms * MS, each * 3 / 4 + dice.below(each / 2 + 1));
    }
    series
}

/// So many requests from `from_ms` to `to_ms`, at random.
fn counts(seed: u64, ios: u64, from_ms: u64, to_ms: u64) -> Series {
    let (mut dice, mut series) = (Dice(seed), Series::default());
    for _ in 0..ios {
        series.add((from_ms + dice.below(to_ms - from_ms)) * MS, 1);
    }
    series
}

pub(crate) fn transfers(ios: u64, block: u64, runtime_ns: u64, latency: Latency) -> Transfers {
    Transfers { ios, bytes: ios * block, latency, runtime_ns }
}

pub(crate) fn cgroup(path: &str, limits: PerDimension) -> CgroupResults {
    CgroupResults {
        path: path.into(),
        limits: Limits { max: limits, ..Limits::default() },
        weight: 100,
        counters: Counters::default(),
        bfq: BfqCgroupStats::default(),
        limit_waits: Vec::new(),
        latency: Latency::default(),
        latency_by_cause: Vec::new(),
        read_series: Series::default(),
        write_series: Series::default(),
        read_ios_series: Series::default(),
        write_ios_series: Series::default(),
        latency_series: LatencySeries::default(),
    }
}

fn moved(ios: u64, block: u64) -> Moved {
    Moved { bytes: ios * block, ios }
}

/// Blame of the device, its window, lifted limits and other clients, in nanoseconds.
fn blame([device_ns, window_ns, lifted_ns, others_ns]: [u64; 4]) -> Blame {
    let mut blame = Blame::default();
    (blame.device_ns, blame.window_ns) = (device_ns, window_ns);
    (blame.lifted_ns, blame.others_ns) = (lifted_ns, others_ns);
    blame
}

fn absorb_series(into: &mut Series, from: &Series) {
    for (index, &amount) in from.points().iter().enumerate() {
        into.add(index as u64 * from.interval_ns(), amount);
    }
}

/// A parent's figures include those of its children.
fn sum(parent: &mut CgroupResults, children: &[&CgroupResults]) {
    for child in children {
        parent.counters.absorb(&child.counters);
        parent.latency.absorb(&child.latency);
        absorb_series(&mut parent.read_series, &child.read_series);
        absorb_series(&mut parent.write_series, &child.write_series);
        absorb_series(&mut parent.read_ios_series, &child.read_ios_series);
        absorb_series(&mut parent.write_ios_series, &child.write_ios_series);
        for waits in &child.limit_waits {
            match parent.limit_waits.iter_mut().find(|known| known.path == waits.path) {
                Some(known) => {
                    for (mine, theirs) in known.wait_ns.iter_mut().zip(waits.wait_ns) {
                        *mine += theirs;
                    }
                }
                None => parent.limit_waits.push(waits.clone()),
            }
        }
    }
}

fn waits(path: &str, dimension: Dimension, wait_ns: u64) -> LimitWaits {
    let mut waits = LimitWaits { path: path.into(), wait_ns: [0; Dimension::COUNT] };
    waits.wait_ns[dimension as usize] = wait_ns;
    waits
}

/// Ten seconds of a database, a web server and a nightly copy on one disk. `seed` shifts times and amounts a little,
/// `slow` makes all requests take that many times as long.
pub(crate) fn tenants(seed: u64, slow: u64) -> Results {
    let elapsed_ns = 10_000 * MS;
    let none = PerDimension::NONE;

    let mut db = cgroup("/vms/db", none.with(Dimension::Riops, 150));
    db.counters.read = moved(1_500, 4096);
    db.counters.write = moved(400, 8192);
    db.counters.completed = 1_912;
    db.counters.other_ios = 12;
    db.counters.throttled = [0, 0, 1_210, 0, 0, 0];
    db.counters.blame = blame([3_100 * MS, 120 * MS, 0, 640 * MS]);
    let wait = |cause, direction, ios, typical_ns| CauseLatency {
        cause,
        direction,
        ios,
        p50_ns: typical_ns,
        p99_ns: 3 * typical_ns,
        p99_9_ns: 4 * typical_ns,
        max_ns: 5 * typical_ns,
    };
    db.latency_by_cause = vec![
        wait(WaitCause::OwnLimit, Direction::Read, 1210, 7 * MS * slow),
        wait(WaitCause::Device, Direction::Read, 1500, 2 * MS * slow),
        wait(WaitCause::Device, Direction::Write, 400, 2 * MS * slow),
    ];
    db.limit_waits = vec![waits("/vms/db", Dimension::Riops, 9_000 * MS * slow)];
    db.latency = latency(seed, 1_912, 6 * MS * slow);
    db.read_series = series(seed + 1, 1_500 * 4096, 0, 10_000);
    db.write_series = series(seed + 2, 400 * 8192, 0, 10_000);
    db.read_ios_series = counts(seed + 21, 1_500, 0, 10_000);
    db.write_ios_series = counts(seed + 22, 400, 0, 10_000);

    let mut web = cgroup("/vms/web", none);
    web.weight = 300;
    web.counters.read = moved(800, 65_536);
    web.counters.completed = 800;
    web.counters.throttled = [310, 0, 0, 0, 0, 0];
    web.counters.blame = blame([2_400 * MS, 0, 30 * MS, 1_900 * MS]);
    web.limit_waits = vec![waits("/vms", Dimension::Rbps, 1_100 * MS)];
    web.latency = latency(seed + 3, 800, 4 * MS * slow);
    web.read_series = series(seed + 4, 800 * 65_536, 2_000, 9_000);
    web.read_ios_series = counts(seed + 24, 800, 2_000, 9_000);

    let mut vms = cgroup("/vms", none.with(Dimension::Rbps, 8 * MIB));
    sum(&mut vms, &[&db, &web]);

    let mut batch = cgroup("/batch", none.with(Dimension::Wbps, 20 * MIB));
    batch.limits.burst = none.with(Dimension::Wbps, MIB);
    batch.limits.limiter =
        LimiterKind::Slice(SliceProfile { kernel: KernelProfile::K612, hz: 250, slice_ticks: 25 });
    batch.counters.write = moved(192, MIB);
    batch.counters.completed = 192;
    batch.counters.throttled = [0, 188, 0, 0, 0, 0];
    batch.counters.blame = blame([3_900 * MS, 45 * MS, 0, 0]);
    batch.limit_waits = vec![waits("/batch", Dimension::Wbps, 31_000 * MS)];
    batch.latency = latency(seed + 5, 192, 190 * MS);
    batch.write_series = series(seed + 6, 192 * MIB, 0, 10_000);
    batch.write_ios_series = counts(seed + 26, 192, 0, 10_000);

    let mut root = cgroup("/", none);
    sum(&mut root, &[&vms, &batch]);

    let device = DeviceResults {
        busy_ns: 9_400 * MS,
        ios: root.counters.completed,
        bytes: root.counters.read.bytes + root.counters.write.bytes,
        latency: latency(seed + 7, root.counters.completed, 5 * MS),
        busy_series: series(seed + 8, 9_400 * MS, 0, 10_000),
        in_flight_max: 31,
        watermark_percent: Some(90),
    };
    let rows = vec![
        Row {
            name: "db".into(),
            cgroup: "/vms/db".into(),
            processes: 1,
            runtime_ns: elapsed_ns,
            processes_ns: elapsed_ns,
            read: transfers(1_500, 4096, elapsed_ns, latency(seed + 9, 1_500, 7 * MS * slow)),
            write: transfers(400, 8192, elapsed_ns, latency(seed + 10, 400, 2 * MS * slow)),
            sync: latency(seed + 11, 12, 21 * MS),
            depth: 16,
            options: vec![("rw".into(), "randrw".into()), ("bs".into(), "4k,8k".into())],
            ..Row::default()
        },
        Row {
            name: "web".into(),
            group: 1,
            cgroup: "/vms/web".into(),
            processes: 4,
            runtime_ns: 7_000 * MS,
            processes_ns: 4 * 7_000 * MS,
            read: transfers(800, 65_536, 7_000 * MS, latency(seed + 12, 800, 5 * MS * slow)),
            steady: Some(Steadiness {
                rule: SteadyState {
                    of: SteadyRate::Iops,
                    by_slope: true,
                    limit: 1.0,
                    in_percent: true,
                },
                seconds: 3,
                attained_ns: Some(7_000 * MS),
                criterion: Some(0.865),
                slope: Some(-1.0),
                deviation: Some(1.0),
                rates: vec![[117, 117 * 65_536], [115, 115 * 65_536], [115, 115 * 65_536]],
            }),
            latency_target: Some(LatencyTargetResult {
                target: LatencyTarget {
                    time: Duration::from_millis(20),
                    window: Duration::from_secs(2),
                    percentile: 99.5,
                    runs_on: false,
                },
                depth: 3,
                is_sure: true,
            }),
            depth: 1,
            ..Row::default()
        },
        Row {
            name: "copy".into(),
            group: 2,
            cgroup: "/batch".into(),
            processes: 1,
            error: Some("no space left on the disk at offset 201326592".into()),
            runtime_ns: elapsed_ns,
            processes_ns: elapsed_ns,
            write: transfers(192, MIB, elapsed_ns, latency(seed + 13, 192, 195 * MS)),
            depth: 4,
            ..Row::default()
        },
    ];
    Results {
        title: "tenants.fio".into(),
        disk: "hdd7200,capacity=500107862016,rpm=7200,ncq=31".into(),
        scheduler: "none".into(),
        depth: 32,
        seed,
        way_ns: 40_000,
        way_each_ns: 6_500,
        elapsed_ns,
        requests: root.counters.completed,
        rows,
        cgroups: vec![root, vms, db, web, batch],
        device,
        bfq: None,
        governed: None,
        changes: vec![Changed { at_ns: elapsed_ns / 3, setting: "max=/batch wbps=8M".into() }],
        notes: vec![
            "2 options have no effect in the lab: ioscheduler (line 4), thread (line 9)".into(),
        ],
    }
}

/// Nothing ran.
pub(crate) fn nothing() -> Results {
    Results {
        title: "empty.fio".into(),
        disk: "null".into(),
        scheduler: "none".into(),
        cgroups: vec![cgroup("/", PerDimension::NONE)],
        ..Results::default()
    }
}

/// One request of 6 ms.
pub(crate) fn one_request() -> Results {
    let mut results = nothing();
    results.title = "one.fio".into();
    (results.elapsed_ns, results.requests, results.depth) = (6 * MS, 1, 1);
    let mut times = Latency::default();
    times.record(6 * MS);
    let root = &mut results.cgroups[0];
    root.counters.read = moved(1, 4096);
    root.counters.completed = 1;
    root.counters.blame.device_ns = 6 * MS;
    root.latency = times.clone();
    root.read_series.add(6 * MS - 1, 4096);
    root.read_ios_series.add(6 * MS - 1, 1);
    results.rows = vec![Row {
        name: "one".into(),
        cgroup: "/".into(),
        processes: 1,
        runtime_ns: 6 * MS,
        processes_ns: 6 * MS,
        read: transfers(1, 4096, 6 * MS, times.clone()),
        depth: 1,
        ..Row::default()
    }];
    results.device.busy_series.spread(0, 6 * MS, 6 * MS);
    results.device.busy_ns = 6 * MS;
    (results.device.ios, results.device.bytes, results.device.latency) = (1, 4096, times);
    results.device.in_flight_max = 1;
    results
}

/// Sixty-four tenants with limits of their own, the first of which wants most.
pub(crate) fn many() -> Results {
    let mut results = nothing();
    results.title = "sixty-four.fio".into();
    results.elapsed_ns = 5_000 * MS;
    let mut root = cgroup("/", PerDimension::NONE);
    let mut below = Vec::new();
    for index in 0..64u64 {
        let path = format!("/tenants/of-a-long-name/{index:02}");
        let limit = (1 + index % 5) * MIB;
        let mut one = cgroup(&path, PerDimension::NONE.with(Dimension::Rbps, limit));
        let ios = 60 + (64 - index) * (64 - index) / 4;
        one.counters.read = moved(ios, 16_384);
        one.counters.completed = ios;
        one.counters.throttled[0] = ios / 2;
        one.counters.blame = blame([ios * MS / 3, 0, 0, index * 9 * MS]);
        one.limit_waits = vec![waits(&path, Dimension::Rbps, ios * 2 * MS)];
        one.latency = latency(index, ios, (1 + index / 3) * MS);
        one.read_series = series(index, ios * 16_384, 20 * index, 5_000);
        one.read_ios_series = counts(index, ios, 20 * index, 5_000);
        results.rows.push(Row {
            name: "tenant".into(),
            clone: index as u32,
            cgroup: path,
            processes: 1,
            runtime_ns: results.elapsed_ns,
            processes_ns: results.elapsed_ns,
            read: transfers(ios, 16_384, results.elapsed_ns, one.latency.clone()),
            depth: 1,
            ..Row::default()
        });
        below.push(one);
    }
    sum(&mut root, &below.iter().collect::<Vec<_>>());
    results.requests = root.counters.completed;
    results.device.busy_ns = root.counters.blame.device_ns.min(results.elapsed_ns);
    results.device.busy_series = series(5, results.device.busy_ns, 0, 5_000);
    results.cgroups = vec![root];
    results.cgroups.extend(below);
    results
}
