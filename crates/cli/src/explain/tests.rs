//! Twelve situations, each with the first sentence that it must get.

use std::collections::BTreeMap;

use weir_server::status::{
    CacheStatus, CgroupStatus, DeviceStatus, ExportStatus, Latency, LatencyByDirection, LimitWait,
    PerDimension, Percentiles, Status, WaitStatus, WatermarkStatus,
};

use weir_engine::Limits;
use weir_text::{LimitKey, parse_limits};

use super::{Explanation, Finding};

const MS: u64 = 1_000_000;
/// Between the readings.
const INTERVAL_NS: u64 = 2_000 * MS;
/// Reads of each cgroup meanwhile.
const READS: u64 = 200;

fn riops(cgroup: &str, ns: u64) -> WaitStatus {
    let wait_ns = PerDimension { riops: ns, ..PerDimension::default() };
    let limits = vec![LimitWait { cgroup: Some(cgroup.into()), wait_ns }];
    WaitStatus { limits, device_ns: READS * MS, ..WaitStatus::default() }
}

fn window(ns: u64) -> WaitStatus {
    WaitStatus { window_ns: ns, device_ns: READS * MS, ..WaitStatus::default() }
}

fn latency(p99_ns: u64) -> Latency {
    let percentiles =
        Percentiles { count: READS, p99_ns, max_ns: p99_ns, ..Percentiles::default() };
    Latency { recent: percentiles, total: percentiles }
}

fn cgroup(path: &str, wait: WaitStatus) -> CgroupStatus {
    CgroupStatus {
        cgroup: path.into(),
        io_weight: 100,
        read_ios: READS,
        read_bytes: READS * 4096,
        completed_ios: READS,
        replied_ios: READS,
        wait,
        latency: LatencyByDirection { read: latency(59 * MS), ..LatencyByDirection::default() },
        ..CgroupStatus::default()
    }
}

fn limited(path: &str, wait: WaitStatus, max: &str) -> CgroupStatus {
    let max = Some(format!("rbps=max wbps=max {max} wiops=max"));
    CgroupStatus { io_max: max, ..cgroup(path, wait) }
}

fn device(cgroups: Vec<CgroupStatus>) -> DeviceStatus {
    let sum = |number: fn(&CgroupStatus) -> u64| cgroups.iter().map(number).sum();
    let root = CgroupStatus {
        cgroup: "/".into(),
        completed_ios: sum(|cgroup| cgroup.completed_ios),
        read_bytes: sum(|cgroup| cgroup.read_bytes),
        wait: WaitStatus {
            device_ns: sum(|cgroup| cgroup.wait.device_ns),
            ..WaitStatus::default()
        },
        ..CgroupStatus::default()
    };
    DeviceStatus {
        device: "disk".into(),
        at_ns: INTERVAL_NS,
        depth: 32,
        scheduler: "none".into(),
        cgroups: [vec![root], cgroups].concat(),
        ..DeviceStatus::default()
    }
}

fn status(device: DeviceStatus, exports: Vec<ExportStatus>) -> Status {
    Status {
        version: String::new(),
        uptime_secs: 1,
        generation: String::new(),
        listeners: Default::default(),
        sandbox: Default::default(),
        recording: None,
        devices: vec![device],
        exports,
    }
}

/// Of a server that had done nothing before.
fn explained_as(what: &str, device: DeviceStatus, exports: Vec<ExportStatus>) -> Explanation {
    let nothing = |cgroup: &CgroupStatus| CgroupStatus {
        cgroup: cgroup.cgroup.clone(),
        ..CgroupStatus::default()
    };
    let before = DeviceStatus {
        device: device.device.clone(),
        cgroups: device.cgroups.iter().map(nothing).collect(),
        ..DeviceStatus::default()
    };
    let before = status(before, Vec::new());
    let after = status(device, exports);
    let explanation = Explanation::of(&before, &after, what).expect("it is there");
    accepted(&explanation, &after.devices[0]);
    explanation
}

/// Each command is one that the argument parser takes, and a server with these cgroups, one after the other.
#[track_caller]
fn accepted(explanation: &Explanation, device: &DeviceStatus) {
    let mut cgroups = device.cgroups.clone();
    for command in commands(explanation) {
        assert_eq!(crate::examples::refusal(command, false), None, "{command}");
        let words = crate::examples::words(command);
        let [_, set, path, key, value] = &words[..] else { panic!("{command}") };
        assert_eq!(set, "set");
        let value = value.strip_prefix("disk ").unwrap_or(value);
        let cgroup = cgroups.iter_mut().find(|cgroup| cgroup.cgroup == *path);
        let cgroup = cgroup.unwrap_or_else(|| panic!("no {path}: {command}"));
        assert_eq!(path == "/", key == "io.bfq", "{command}");
        assert!(!weir_config::is_of_client(path), "{command}");
        let limits = |key, text: &Option<String>, value: &str| {
            let text = text.as_deref().unwrap_or_default();
            let old = parse_limits(key, text, weir_engine::PerDimension::NONE).expect("a status");
            parse_limits(key, value, old).expect(command)
        };
        match key.as_str() {
            "io.max" => {
                cgroup.io_max = Some(limits(LimitKey::Max, &cgroup.io_max, value).to_string());
            }
            "io.peak" => {
                cgroup.io_peak = Some(limits(LimitKey::Peak, &cgroup.io_peak, value).to_string());
            }
            "io.weight" => {
                weir_text::parse_weight(weir_text::WeightKey::Io, value).expect(command);
            }
            "io.bfq" => {
                let defaults = weir_engine::settings::BfqSettings::DEFAULT;
                weir_text::parse_bfq(value, defaults).expect(command);
            }
            key => panic!("{key}"),
        }
        let limiter = weir_config::parse_limiter(match cgroup.limiter.as_str() {
            "" => "pace",
            limiter => limiter,
        });
        let limits = Limits {
            max: limits(LimitKey::Max, &cgroup.io_max, ""),
            peak: limits(LimitKey::Peak, &cgroup.io_peak, ""),
            limiter: limiter.expect("a status"),
            ..Limits::default()
        };
        limits.validate().expect(command);
    }
}

#[track_caller]
fn expect(device: DeviceStatus, finding: Finding, first: &str) -> Explanation {
    let explanation = explained_as("/vm1", device, Vec::new());
    assert_eq!(explanation.sentences[0], first);
    assert_eq!(explanation.finding, finding);
    explanation
}

fn commands(explanation: &Explanation) -> Vec<&str> {
    explanation.advice.iter().filter_map(|advice| advice.command.as_deref()).collect()
}

#[test]
fn own_limit() {
    let explanation = expect(
        device(vec![limited("/vm1", riops("/vm1", 49 * READS * MS), "riops=100")]),
        Finding::OwnLimit,
        "/vm1 is held by its own limit of riops=100: 98 % of the time of its requests, p99 of reads 59.0 ms.",
    );
    assert_eq!(
        explanation.sentences[1],
        "On average a request took 50.0 ms: riops of /vm1 49.0 ms (98 %), the device 1.00 ms (2 %)."
    );
    assert_eq!(commands(&explanation), ["weir set /vm1 io.max riops=200"]);
}

#[test]
fn limit_of_an_ancestor() {
    let wait = riops("/vms", 9 * READS * MS);
    let parent = limited("/vms", WaitStatus::default(), "riops=100");
    let cgroups = vec![parent, cgroup("/vms/vm1", wait.clone()), cgroup("/vms/vm2", wait)];
    let explanation = explained_as("/vms/vm1", device(cgroups), Vec::new());
    assert_eq!(explanation.finding, Finding::LimitAbove);
    assert_eq!(
        explanation.sentences[0],
        "/vms/vm1 is held by the limit of /vms above it, riops=100: 90 % of the time of its requests, p99 of reads 59.0 ms."
    );
    let names: Vec<_> = explanation.neighbours.iter().map(|other| &other.cgroup).collect();
    assert_eq!(names, ["/vms/vm2"]);
    assert_eq!(
        commands(&explanation),
        ["weir set /vms io.max riops=200", "weir set /vms/vm1 io.weight 200"]
    );
}

/// A weight counts among siblings: of a cgroup deep below a limit it is the ancestor's beside the neighbour.
#[test]
fn weights_are_changed_where_the_neighbour_competes() {
    let wait = riops("/vms", 9 * READS * MS);
    let parent = limited("/vms", WaitStatus::default(), "riops=100");
    let mut ours = cgroup("/vms/ours", WaitStatus::default());
    let theirs = cgroup("/vms/theirs", wait.clone());
    let cgroups = |ours: CgroupStatus| {
        let deep = cgroup("/vms/ours/deep", wait.clone());
        device(vec![parent.clone(), ours, deep, theirs.clone()])
    };
    let explanation = explained_as("/vms/ours/deep", cgroups(ours.clone()), Vec::new());
    assert_eq!(commands(&explanation)[1], "weir set /vms/ours io.weight 200");
    ours.io_weight = 10_000;
    let explanation = explained_as("/vms/ours/deep", cgroups(ours), Vec::new());
    assert_eq!(commands(&explanation)[1], "weir set /vms/theirs io.weight 50");
}

#[test]
fn a_burst_stays_faster_than_the_raised_limit() {
    let wait = riops("/vm1", 49 * READS * MS);
    let vm = CgroupStatus {
        io_peak: Some("rbps=max wbps=max riops=150 wiops=max".into()),
        ..limited("/vm1", wait.clone(), "riops=100")
    };
    let explanation = explained_as("/vm1", device(vec![vm]), Vec::new());
    assert_eq!(
        commands(&explanation),
        ["weir set /vm1 io.peak riops=400", "weir set /vm1 io.max riops=200"]
    );
    let largest = limited("/vm1", wait, "riops=4294967294");
    let explanation = explained_as("/vm1", device(vec![largest]), Vec::new());
    assert_eq!(commands(&explanation), ["weir set /vm1 io.max riops=max"]);
}

#[test]
fn limits_that_no_command_changes_have_none() {
    let path = "/vm1/client:process 7 of db";
    let vm = limited(path, riops(path, 49 * READS * MS), "riops=100");
    let explanation = explained_as(path, device(vec![vm]), Vec::new());
    assert_eq!(explanation.finding, Finding::OwnLimit);
    assert_eq!(commands(&explanation), [""; 0]);
    assert!(explanation.advice[0].effect.contains("`weir reload`"));
}

#[test]
fn neighbour_under_the_same_limit() {
    let wait = WaitStatus { other_clients_ns: 9 * READS * MS, ..riops("/vms", READS * MS / 2) };
    let parent = limited("/vms", WaitStatus::default(), "riops=100");
    let cgroups = vec![parent, cgroup("/vms/vm1", wait.clone()), cgroup("/vms/vm2", wait)];
    let explanation = explained_as("/vms/vm1", device(cgroups), Vec::new());
    assert_eq!(explanation.finding, Finding::OtherClients);
    assert_eq!(
        explanation.sentences[0],
        "/vms/vm1 waits while the rate of the limit of /vms goes to other clients: 86 % of the time of its requests, p99 of reads 59.0 ms; /vms/vm2 had it most, by what it did meanwhile."
    );
}

#[test]
fn small_weight_on_a_full_device() {
    let mut other = cgroup("/vm2", window(0));
    (other.io_weight, other.read_bytes) = (900, 9 * READS * 4096);
    let disk = device(vec![cgroup("/vm1", window(9 * READS * MS)), other]);
    let explanation = expect(
        DeviceStatus { scheduler: "bfq".into(), ..disk },
        Finding::Weight,
        "/vm1 has 10 % of the work of the full device disk by its weight of 100 beside /vm2 with 900 and 90 %: 90 % of the time of its requests, p99 of reads 59.0 ms.",
    );
    assert_eq!(commands(&explanation), ["weir set /vm1 io.weight 200"]);
}

#[test]
fn slow_device() {
    let wait = WaitStatus { device_ns: 20 * READS * MS, ..WaitStatus::default() };
    let explanation = expect(
        device(vec![cgroup("/vm1", wait)]),
        Finding::DeviceSlow,
        "The device disk is slow for /vm1: it takes 20.0 ms for a request on average; 100 % of the time of its requests, p99 of reads 59.0 ms.",
    );
    assert_eq!(commands(&explanation), [""; 0]);
}

#[test]
fn full_device() {
    let cgroups = vec![cgroup("/vm1", window(9 * READS * MS)), cgroup("/vm2", window(0))];
    let explanation = expect(
        device(cgroups),
        Finding::DeviceFull,
        "/vm1 waits for room at device disk, which has the 32 requests that it may have at once: 90 % of the time of its requests, p99 of reads 59.0 ms.",
    );
    assert_eq!(commands(&explanation), ["weir set /vm2 io.max rwiops=50"]);
}

/// The kernel's limiter has no limit for both directions together, and a name may need quotes.
#[test]
fn a_neighbour_under_the_kernels_limiter_is_limited_in_its_words() {
    let other = CgroupStatus { limiter: "slice:6.15".into(), ..cgroup("/vm $2", window(0)) };
    let cgroups = vec![cgroup("/vm1", window(9 * READS * MS)), other];
    let explanation = explained_as("/vm1", device(cgroups), Vec::new());
    assert_eq!(commands(&explanation), [r#"weir set '/vm $2' io.max "riops=50 wiops=50""#]);
}

#[test]
fn device_kept_free() {
    let mut disk = device(vec![cgroup("/vm1", window(9 * READS * MS))]);
    disk.scheduler = "bfq".into();
    disk.bfq.idling_ns = BTreeMap::from([("guarantees".into(), INTERVAL_NS / 5 * 4)]);
    expect(
        disk,
        Finding::Idling,
        "/vm1 waits while bfq keeps device disk free for the next request of a flow, 80 % of the time: 90 % of the time of its requests, p99 of reads 59.0 ms.",
    );
}

fn writer() -> CgroupStatus {
    let mut vm = cgroup("/vm1", window(0));
    (vm.read_ios, vm.write_ios, vm.writeback.taken_ios) = (0, READS, READS);
    vm.writeback.written_bytes = 8 << 20;
    vm
}

fn with_cache(vm: CgroupStatus) -> DeviceStatus {
    DeviceStatus { cache: Some(CacheStatus::default()), ..device(vec![vm]) }
}

#[test]
fn flush_behind_writes() {
    let export = ExportStatus {
        export: "db".into(),
        device: "disk".into(),
        cgroup: "/vm1".into(),
        write_ios: READS,
        other_ios: READS / 10,
        latency: LatencyByDirection { write: latency(40 * MS), ..LatencyByDirection::default() },
        ..ExportStatus::default()
    };
    for (what, subject) in [("/vm1", "/vm1"), ("db", "export \"db\"")] {
        let mut vm = writer();
        (vm.writeback.flush_waits, vm.writeback.flush_wait_ns) = (READS / 10, 4 * READS * MS);
        vm.inside_ns = 5 * READS * MS;
        let explanation = explained_as(what, with_cache(vm.clone()), vec![export.clone()]);
        assert_eq!(explanation.finding, Finding::Flush);
        assert_eq!(
            explanation.sentences[0],
            format!(
                "Flushes of {subject} wait for what was written before them to leave the write-back cache: 10.0 flushes/s, 40.0 ms each, at 4.0 MiB/s; p99 of writes and flushes 40.0 ms."
            )
        );
        // The same flushes beside much that takes longer are not what holds it.
        vm.inside_ns *= 4;
        let explanation = explained_as(what, with_cache(vm), vec![export.clone()]);
        assert_ne!(explanation.finding, Finding::Flush);
    }
}

#[test]
fn full_cache() {
    let mut vm = writer();
    (vm.writeback.waits, vm.writeback.wait_ns) = (READS, 7 * READS * MS);
    expect(
        with_cache(vm),
        Finding::CacheFull,
        "The write-back cache is full for /vm1: 100.0 writes/s wait for room in it, 7.00 ms each.",
    );
}

#[test]
fn quota_of_a_connection() {
    let wait = WaitStatus { connection_ns: 9 * READS * MS, ..window(0) };
    expect(
        device(vec![cgroup("/vm1", wait)]),
        Finding::ConnectionQuota,
        "/vm1 waits behind its own earlier requests: its connection has as much inside as a connection may have; 90 % of the time of its requests, p99 of reads 59.0 ms.",
    );
}

#[test]
fn client_with_one_request_at_a_time() {
    let wait = WaitStatus { device_ns: 18 * INTERVAL_NS / 20, ..WaitStatus::default() };
    let mut vm = cgroup("/vm1", wait);
    (vm.read_ios, vm.completed_ios) = (2_000, 2_000);
    expect(
        device(vec![vm]),
        Finding::ShallowClient,
        "Nothing in Weir holds /vm1: its client has 0.9 requests inside at once, on average, and device disk may have 32, p99 of reads 59.0 ms.",
    );
}

#[test]
fn nothing_wrong() {
    let explanation = expect(
        device(vec![cgroup("/vm1", window(0))]),
        Finding::NothingWrong,
        "Nothing is wrong with /vm1: its 100.0 requests/s take 1.00 ms on average, p99 of reads 59.0 ms.",
    );
    assert_eq!(explanation.advice, []);
}

#[test]
fn no_requests() {
    let idle = CgroupStatus { cgroup: "/vm1".into(), ..CgroupStatus::default() };
    let explanation = explained_as("/vm1", device(vec![idle]), Vec::new());
    assert_eq!(explanation.finding, Finding::NoRequests);
}

#[test]
fn a_slow_client_is_outside_weir() {
    let wait = WaitStatus { sending_ns: 9 * READS * MS, ..window(0) };
    let explanation = explained_as("/vm1", device(vec![cgroup("/vm1", wait)]), Vec::new());
    assert_eq!(explanation.finding, Finding::ClientSlow);
    assert!(explanation.sentences[0].ends_with("The cause is outside Weir."));
}

/// What `weir status` shows beside each other without a word: a watermark of 90 that binds at a low utilisation.
#[test]
fn a_watermark_beside_an_idling_device_is_explained() {
    let mut disk = device(vec![limited("/vm1", riops("/vm1", 49 * READS * MS), "riops=100")]);
    disk.scheduler = "bfq".into();
    disk.cgroups[0].io_watermark = Some("90".into());
    disk.cgroups[1].throttled_ios.riops = READS;
    disk.busy_ns = INTERVAL_NS / 10;
    disk.bfq.idling_ns = BTreeMap::from([("throughput".into(), INTERVAL_NS)]);
    disk.watermarks = vec![WatermarkStatus {
        watermark: "90".into(),
        watermark_percent: 90,
        cgroups: 2,
        multiplier: 12.9,
        lifted: false,
    }];
    let explanation = explained_as("/vm1", disk, Vec::new());
    assert_eq!(
        explanation.sentences.last().expect("sentences"),
        "Limits go by the watermark 90: they are multiplied by 12.9 now; limits hold although 10 % of the device is used: bfq keeps it free 100 % of the time, for the next request of the flow whose turn it is (slice_idle=0 ends that)."
    );
}

#[test]
fn what_is_not_there_is_said() {
    let [before, after] = [(); 2].map(|()| status(device(Vec::new()), Vec::new()));
    let refused = |what| Explanation::of(&before, &after, what).unwrap_err().to_string();
    assert_eq!(refused("/vm9"), "there is no cgroup \"/vm9\"");
    assert_eq!(refused("db"), "there is no export \"db\"");
}
