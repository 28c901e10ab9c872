//! `weir explain` beside our own client: its finding is what was set up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir_tests::nbd::{Client, Kind};
use weir_tests::{Place, Server, eventually};

/// Exports `a` and `b`, of the cgroups `/vms/a` and `/vms/b`. `settings` are the lines of the device, `/vms` and these two.
fn serve(place: &Place, latency: &str, settings: [&str; 4]) -> Server {
    serve_with(place, "", latency, settings)
}

/// With other sections before.
fn serve_with(place: &Place, sections: &str, latency: &str, settings: [&str; 4]) -> Server {
    let [device, vms, a, b] = settings;
    Server::config(
        place,
        &format!(
            r#"
            {sections}
            [device.disk]
            path = "emulated:null,latency={latency},size=64M"
            {device}
            [cgroup."/vms"]
            {vms}
            [cgroup."/vms/a"]
            {a}
            [cgroup."/vms/b"]
            {b}
            [export.a]
            device = "disk"
            cgroup = "/vms/a"
            [export.b]
            device = "disk"
            cgroup = "/vms/b"
            "#
        ),
    )
}

const RIOPS_200: &str = r#""io.max" = "disk riops=200""#;

/// Reads with `depth` requests inside and `pause` after each reply, until `is_over`.
fn read(server: &Server, export: &str, depth: usize, pause: Duration, is_over: &AtomicBool) {
    let mut client =
        Client::open(weir_tests::nbd::dial(server.socket()), export).expect("it is there");
    while !is_over.load(Ordering::Relaxed) {
        while client.pending() < depth {
            client.send(Kind::Read, 0, 0, 4096, &[]).expect("it is taken");
        }
        assert_eq!(client.receive().expect("it is answered").error, 0);
        if !pause.is_zero() {
            thread::park_timeout(pause);
        }
    }
}

/// While `depths` of requests of `a` and `b` are inside, `weir explain WHAT` comes to `finding`, with these words. The server
/// accepts the commands that it prints.
fn finds(server: &Server, what: &str, load: [(usize, u64); 2], finding: &str, words: &[&str]) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (export, (depth, pause_ms)) in ["a", "b"].into_iter().zip(load) {
            let is_over = &is_over;
            if depth > 0 {
                scope.spawn(move || {
                    read(server, export, depth, Duration::from_millis(pause_ms), is_over);
                });
            }
        }
        let mut last = String::new();
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(finding, || {
                let flags = [what, "--format", "json", "--interval", "300ms"];
                last = server.ask("explain", &flags).stdout;
                last.contains(&format!("\"finding\": \"{finding}\""))
            });
        }));
        is_over.store(true, Ordering::Relaxed);
        assert!(looked.is_ok(), "{last}");
        for word in words {
            assert!(last.contains(word), "{word}: {last}");
        }
        let explanation: Value = serde_json::from_str(&last).expect("it is JSON");
        for command in commands(&explanation) {
            let ran = server.run_printed(command);
            assert!(ran.status.success(), "{command}: {ran:?}");
        }
    });
}

fn commands(explanation: &Value) -> Vec<&str> {
    let advice = explanation["advice"].as_array().expect("a list");
    advice.iter().filter_map(|advice| advice["command"].as_str()).collect()
}

#[test]
fn own_limit_is_explained() {
    let place = Place::new();
    let server = serve(&place, "1ms", ["", "", RIOPS_200, ""]);
    let words = [
        "its own limit of riops=200",
        "weir set /vms/a io.max riops=400",
        "the server records nothing",
    ];
    finds(&server, "/vms/a", [(8, 0), (0, 0)], "own_limit", &words);
    finds(&server, "a", [(8, 0), (0, 0)], "own_limit", &["export \\\"a\\\" is held"]);
    server.stop();
}

/// Eight requests at once under 200 a second wait 40 ms each; when they come as they came, twice the limit holds none of
/// them.
#[test]
fn what_a_limit_would_do_is_tried_on_what_was_recorded() {
    let place = Place::new();
    let record = "[record]\ndirectory = \"rec\"\nfile_time = \"1s\"";
    let server = serve_with(&place, record, "1ms", ["", "", RIOPS_200, ""]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| read(&server, "a", 8, Duration::ZERO, &is_over));
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let flags = ["/vms/a", "--interval", "300ms", "--format", "json"];
            let mut explanation = Value::Null;
            eventually("a figure", || {
                let ran = server.ask("explain", &flags);
                explanation = serde_json::from_str(&ran.stdout).expect("it is JSON");
                let recorded = explanation["simulation"]["requests"].as_u64();
                recorded.is_some_and(|requests| requests > 400)
            });
            assert_eq!(explanation["simulation"]["device"], "emulated", "{explanation}");
            let figure = &explanation["advice"][0]["what_if"];
            let ns = |name: &str| figure[name].as_u64().expect("a figure");
            assert!(ns("p99_ns") < ns("p99_ns_recorded") / 2, "{explanation}");
            let text = server.ask("explain", &["/vms/a", "--interval", "300ms"]).stdout;
            assert!(text.contains("\n  with riops=400: p99 "), "{text}");
            let plain = server.ask("explain", &["a", "--interval", "300ms", "--no-what-if"]).stdout;
            assert!(plain.contains("riops=400") && !plain.contains("imulated"), "{plain}");
            let off = server.ask("record", &["stop"]);
            assert!(off.status.success(), "{off:?}");
            let text = server.ask("explain", &["/vms/a", "--interval", "300ms"]).stdout;
            assert!(text.contains("Not simulated: the recording is off"), "{text}");
        }));
        is_over.store(true, Ordering::Relaxed);
        asked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    server.stop();
}

#[test]
fn limit_of_an_ancestor_is_explained() {
    let place = Place::new();
    let server = serve(&place, "1ms", ["", RIOPS_200, "", ""]);
    let words = ["the limit of /vms above it, riops=200", "weir set /vms io.max riops=400"];
    finds(&server, "/vms/a", [(1, 0), (0, 0)], "limit_above", &words);
    server.stop();
}

#[test]
fn neighbour_under_the_same_limit_is_explained() {
    let place = Place::new();
    let server = serve(&place, "1ms", ["", RIOPS_200, "", "\"io.weight\" = 1000"]);
    let words = ["/vms/b had it most", "weir set /vms/a io.weight 200"];
    finds(&server, "/vms/a", [(1, 0), (16, 0)], "other_clients", &words);
    server.stop();
}

#[test]
fn slow_device_is_explained() {
    let place = Place::new();
    let server = serve(&place, "20ms", [""; 4]);
    finds(
        &server,
        "/vms/a",
        [(4, 0), (0, 0)],
        "device_slow",
        &["The device disk is slow for /vms/a"],
    );
    server.stop();
}

#[test]
fn full_device_is_explained() {
    let place = Place::new();
    let server = serve(&place, "5ms", ["depth = 1", "", "", ""]);
    finds(&server, "/vms/a", [(8, 0), (8, 0)], "device_full", &["weir set /vms/b io.max rwiops="]);
    server.stop();
}

#[test]
fn client_with_one_request_at_a_time_is_explained() {
    let place = Place::new();
    let server = serve(&place, "1ms", [""; 4]);
    finds(&server, "/vms/a", [(1, 0), (0, 0)], "shallow_client", &["Nothing in Weir holds /vms/a"]);
    server.stop();
}

#[test]
fn nothing_wrong_is_said() {
    let place = Place::new();
    let server = serve(&place, "100us", [""; 4]);
    finds(&server, "/vms/a", [(1, 20), (0, 0)], "nothing_wrong", &["Nothing is wrong with /vms/a"]);
    let missing = server.ask("explain", &["/vms/c", "--interval", "10ms"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert!(missing.stderr.contains("there is no cgroup \"/vms/c\""), "{missing:?}");
    server.stop();
}
