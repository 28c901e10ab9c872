//! A newcomer beside twenty tenants, with `weir top` and `weir explain` alone: one tenant is noisy, one is behind a limit of its
//! ancestor that was forgotten. Both are named, and mended by the commands that are printed.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir_tests::nbd::{Client, Kind, dial};
use weir_tests::{Place, Server, eventually};

const TENANTS: usize = 20;
const NOISY: usize = 13;
const FORGOTTEN: usize = 7;
/// Rounds of asking and doing what is said; each halves or doubles a limit.
const ROUNDS: usize = 6;

fn cgroup(tenant: usize) -> String {
    match tenant {
        FORGOTTEN => "/vms/old/t07".into(),
        tenant => format!("/vms/t{tenant:02}"),
    }
}

/// 1,000 reads of 4 KiB a second, of which the requests at the device wait for each other.
fn twenty_tenants(place: &Place) -> Server {
    let mut config = String::from(
        "[device.store]\npath = \"emulated:null,rate=4M,latency=100us,size=16M\"\n\
         [cgroup.\"/vms/old\"]\n\"io.max\" = \"store riops=20\"\n",
    );
    for tenant in 1..=TENANTS {
        let cgroup = cgroup(tenant);
        let _ = writeln!(
            config,
            "[cgroup.\"{cgroup}\"]\n[export.t{tenant:02}]\ndevice = \"store\"\ncgroup = \"{cgroup}\""
        );
    }
    Server::config(place, &config)
}

/// Reads with `depth` requests inside and `pause` after each reply.
fn read(server: &Server, tenant: usize, is_over: &AtomicBool) {
    let (depth, pause_ms) = match tenant {
        NOISY => (64, 0),
        FORGOTTEN => (1, 25),
        _ => (1, 200),
    };
    let mut client =
        Client::open(dial(server.socket()), &format!("t{tenant:02}")).expect("it is there");
    while !is_over.load(Ordering::Relaxed) {
        while client.pending() < depth {
            client.send(Kind::Read, 0, 0, 4096, &[]).expect("it is taken");
        }
        assert_eq!(client.receive().expect("it is answered").error, 0);
        if pause_ms > 0 {
            thread::park_timeout(Duration::from_millis(pause_ms));
        }
    }
}

fn explain(server: &Server, what: &str) -> Value {
    let ran = server.ask("explain", &[what, "--format", "json", "--interval", "500ms"]);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Does what `weir explain` says, until it finds something else than `finding`.
fn mend(server: &Server, what: &str, finding: &str) {
    let mut last = Value::Null;
    for _ in 0..ROUNDS {
        last = explain(server, what);
        if last["finding"] != finding {
            return;
        }
        let command = last["advice"][0]["command"].as_str().expect("it says what to do");
        let ran = server.run_printed(command);
        assert!(ran.status.success(), "{command}: {ran:?}");
    }
    panic!("still {finding}: {last:#}");
}

#[test]
fn a_newcomer_names_the_noisy_tenant_and_the_forgotten_limit_and_mends_both() {
    let place = Place::new();
    let server = twenty_tenants(&place);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for tenant in 1..=TENANTS {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || read(server, tenant, is_over));
        }
        let story = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut picture = String::new();
            eventually("the noisy tenant is first", || {
                picture = server.ask("top", &["--once", "--interval", "500ms"]).stdout;
                let rows = picture.lines().skip_while(|line| !line.starts_with("CGROUP")).skip(1);
                let first = rows.map(str::trim_start).find(|row| row.starts_with('t'));
                first.is_some_and(|row| row.starts_with("t13 "))
            });
            assert!(picture.contains("\nt13 "), "the exports' rows, too:\n{picture}");

            let mut victim = Value::Null;
            eventually("the device is slow for others", || {
                victim = explain(&server, "/vms/t03");
                victim["finding"] == "device_slow"
            });
            assert_eq!(victim["neighbours"][0]["cgroup"], cgroup(NOISY), "{victim:#}");
            mend(&server, "/vms/t03", "device_slow");

            let mut held = Value::Null;
            eventually("the forgotten limit is found", || {
                held = explain(&server, &cgroup(FORGOTTEN));
                held["finding"] == "limit_above"
            });
            let first = held["sentences"][0].as_str().expect("a sentence");
            assert!(first.contains("the limit of /vms/old above it, riops=20"), "{first}");
            mend(&server, &cgroup(FORGOTTEN), "limit_above");

            // What held them is gone, and did not come back with the other change.
            for what in ["/vms/t03", &cgroup(FORGOTTEN)] {
                mend(&server, what, "device_slow");
                eventually("nothing holds it", || {
                    let found = explain(&server, what)["finding"].clone();
                    ["nothing_wrong", "shallow_client"].iter().any(|fine| found == *fine)
                });
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        story.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    server.stop();
}
