//! Our own client, while the scheduler of its device is switched and set.

use weir_tests::nbd::{Client, Kind, dial};
use weir_tests::{Place, Server, eventually};

/// Two tenants of weights 1 : 3 on a slow device that takes one request at a time.
const CONFIG: &str = r#"
    [device.disk]
    path = "emulated:null,latency=1ms,size=64M"
    depth = 1
    scheduler = "bfq"
    [device.disk.bfq]
    low_latency = false
    slice_idle = 0
    max_budget = "64K"
    [cgroup."/a"]
    "io.prio.class" = "restrict-to-be"
    [cgroup."/b"]
    "io.bfq.weight" = 300
    [export.a]
    device = "disk"
    cgroup = "/a"
    [export.b]
    device = "disk"
    cgroup = "/b"
"#;

/// Setting that `weir set / KEY VALUE` prints, without the device's name.
#[track_caller]
fn set(server: &Server, key: &str, value: &str) -> String {
    let ran = server.ask("set", &["/", key, value]);
    assert!(ran.status.success(), "{ran:?}");
    ran.stdout.trim_end().trim_start_matches("disk ").to_owned()
}

#[test]
fn queued_requests_are_served_by_the_new_scheduler() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    assert_eq!(server.status().cgroup("/b").number("io_weight"), 300);
    let mut clients =
        ["a", "b"].map(|export| Client::open(dial(server.socket()), export).expect("it is there"));
    let mut sent = [0_u64; 2];
    for number in 0..400 {
        let which = number % 2;
        let offset = (number * 37 % 64) as u64 * 4096;
        let data = vec![number as u8; 4096];
        clients[which].send(Kind::Write, 0, offset, 4096, &data).expect("it is taken");
        sent[which] += 1;
    }
    eventually("they have all arrived, and most of them wait", || {
        let status = server.status();
        let done = |cgroup| status.cgroup(cgroup).number("completed_ios");
        status.number("ready") + status.number("in_flight") + done("/") == 400
            && status.number("ready") > 0
    });
    for scheduler in ["none", "bfq", "none", "bfq"] {
        assert_eq!(set(&server, "io.scheduler", scheduler), scheduler);
    }
    for client in &mut clients {
        while client.pending() > 0 {
            assert_eq!(client.receive().expect("every request is answered").error, 0);
        }
    }
    let status = server.status();
    for (cgroup, sent) in ["/a", "/b"].into_iter().zip(sent) {
        assert_eq!(status.cgroup(cgroup).number("completed_ios"), sent);
    }
    assert!(status.is_idle() && status.balances());
    // Its books have gone on: every slot but the one under way has ended for a reason.
    let ended: u64 =
        ["no_more_requests", "too_idle", "budget_timeout", "budget_exhausted", "preempted"]
            .map(|why| status.number(&format!("bfq/expirations/{why}")))
            .iter()
            .sum();
    let given = status.number("bfq/selections");
    assert!(given > 0 && given >= ended, "{given} given, {ended} ended");
    server.stop();
}

#[test]
fn settings_read_back_and_bad_ones_are_explained() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    let now = set(&server, "io.bfq", "slice_idle=1500us stable=kernel");
    for word in ["slice_idle=1500us", "stable=kernel", "low_latency=0", "max_budget=64KiB"] {
        assert!(now.split(' ').any(|said| said == word), "no {word} in {now}");
    }
    // Its output is valid input.
    assert_eq!(set(&server, "io.bfq", &now), now);
    assert_eq!(set(&server, "io.bfq", &format!("disk {now}")), now);
    for (key, value, words) in [
        ("io.bfq", "slice_idle=-1", "slice_idle = -1: allowed are 0 to 10s"),
        ("io.bfq", "slice_idel=1", "did you mean `slice_idle`?"),
        ("io.bfq", "low_latency=1 timeout_sync=0", "allowed are 1ms to 60s"),
        ("io.bfq", "stable_create_window=700", "longer than stable_anchor_life of 600ms"),
        ("io.bfq", "merge_rules=kernel", "switch to another first"),
        ("io.bfq", "dusk low_latency=1", "did you mean \"disk\"?"),
        ("io.scheduler", "cfq", "available: none, bfq"),
    ] {
        let ran = server.ask("set", &["/", key, value]);
        assert_eq!(ran.status.code(), Some(2), "{key} {value}: {ran:?}");
        assert!(ran.stdout.is_empty() && ran.stderr.contains(words), "{ran:?}");
        assert_eq!(set(&server, "io.bfq", "slice_idle=1500us"), now, "{key} {value}");
    }
    let ran = server.ask("set", &["/a", "io.prio.class", "idle"]);
    assert_eq!(ran.stdout, "disk idle\n", "{ran:?}");
    let ran = server.ask("status", &["--interval", "10ms"]);
    assert!(ran.stdout.contains("scheduler bfq"), "{ran:?}");
    for policy in ["never", "inherit"] {
        let ran = server.ask("set", &["/a", "io.bfq.low_latency", policy]);
        assert_eq!(ran.stdout, format!("disk {policy}\n"), "{ran:?}");
    }
    let ran = server.ask("set", &["/a", "io.prio.class", "rt"]);
    assert!(ran.stderr.contains("available: no-change, promote-to-rt"), "{ran:?}");
    let ran = server.ask("set", &["/a", "io.scheduler", "none"]);
    assert!(ran.stderr.contains("belongs to the device"), "{ran:?}");
    server.stop();
}
