//! libnbd: a limit for each client of an export, below the limits of its cgroup, counted against the server's clock.

use std::fs;

use weir_tests::nbd::{Client, Kind};
use weir_tests::{Place, Server, eventually, python};

/// Reads a second of each client, and how many of these go at once.
const RATE: u64 = 20;
const BURST: u64 = 4;
/// Reads of each client: more than would go through while the test looks.
const READS: u64 = 400;

fn config(client_max: &str) -> String {
    format!(
        "[device.disk]\npath = \"memory:1M\"\n[cgroup.\"/vm1\"]\n[export.\"\"]\ndevice = \"disk\"\n\
         cgroup = \"/vm1\"\n{client_max}\n"
    )
}

/// Has the running server read `config` instead.
fn reload(place: &Place, server: &Server, from: &str, to: &str) {
    let path = place.file("weir.toml");
    let text = fs::read_to_string(&path).expect("it is there");
    assert!(text.contains(from), "{text}");
    fs::write(&path, text.replace(from, to)).expect("a file can be written");
    let ran = server.ask("reload", &[]);
    assert!(ran.status.success(), "{ran:?}");
}

/// What each client has done that has a limit.
fn done(status: &weir_tests::Device) -> Vec<u64> {
    let clients = status.cgroups_below("/vm1/client:");
    clients.iter().map(|client| client.number("completed_ios")).collect()
}

#[test]
fn two_clients_have_a_limit_each_and_more_than_one_together() {
    let Some(reads) = python("reads.py") else { return };
    let place = Place::new();
    let limit = format!("client_max = \"riops={RATE}\"");
    let server = Server::config(&place, &config(&limit));
    let mut before_ns = server.status().number("at_ns");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| reads.run(&[server.uri(), &READS.to_string()]));
        }
        eventually("both are past their burst by far", || {
            let status = server.status();
            let (done, at_ns) = (done(&status), status.number("at_ns"));
            let sum: u64 = done.iter().sum();
            if sum == 0 {
                before_ns = at_ns;
            }
            let allowed = BURST + RATE * (at_ns - before_ns) / 1_000_000_000 + 1;
            assert!(done.iter().all(|&done| done <= allowed), "{done:?} of {allowed}");
            // The later one alone has done more since it came than two limits and one differ by at the start.
            let is_past = done.len() == 2 && done.iter().all(|&done| done >= 2 * RATE);
            assert!(!is_past || sum > allowed, "{done:?} together, {allowed} of one");
            is_past
        });
        let status = server.status();
        for client in status.cgroups_below("/vm1/client:") {
            assert!(client.io_max().expect("its limit").contains("riops=20"), "{client:?}");
            assert!(client.number("throttled_ios/riops") > 0, "{client:?}");
        }
        let why = server.ask("status", &["--interval", "200ms"]).stdout;
        assert!(why.contains("riops of /vm1/client:process"), "{why}");
        reload(&place, &server, &limit, "");
    });
    let status = server.status();
    assert_eq!(status.cgroup("/vm1").number("read_ios"), 2 * READS);
    eventually("their cgroups are gone", || server.status().cgroups() == 2);
    assert!(server.status().balances());
    server.stop();
}

#[test]
fn a_limit_that_is_set_holds_for_clients_that_are_connected() {
    let place = Place::new();
    let server = Server::config(&place, &config(""));
    let mut client = Client::of(&server);
    client.read(0, 512).expect("it is served");
    assert_eq!(server.status().cgroups(), 2, "without a limit there is none");
    reload(&place, &server, "cgroup = \"/vm1\"", "cgroup = \"/vm1\"\nclient_max = \"riops=1\"");
    for number in 0..10 {
        client.send(Kind::Read, 0, number * 512, 512, &[]).expect("it is taken");
    }
    eventually("what is not of the burst waits", || server.status().number("throttled") > 0);
    // The same process is the same client.
    let mut second = Client::of(&server);
    second.send(Kind::Read, 0, 0, 512, &[]).expect("it is taken");
    let status = server.status();
    assert_eq!(status.cgroups_below("/vm1/client:").len(), 1);
    let refused = server.ask("set", &["/vm1/client:x", "io.max", "riops=2", "--create"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("client_max"), "{}", refused.stderr);
    reload(&place, &server, "riops=1\"", "riops=100k\"");
    let max = |status: &weir_tests::Device| {
        status.cgroups_below("/vm1/client:")[0].io_max().map(str::to_owned)
    };
    assert!(max(&server.status()).expect("a limit").contains("riops=100000"));
    for client in [&mut client, &mut second] {
        while client.pending() > 0 {
            assert_eq!(client.receive().expect("it is answered").error, 0);
        }
    }
    reload(&place, &server, "client_max = \"riops=100k\"", "");
    assert_eq!(max(&server.status()), None);
    drop((client, second));
    eventually("the cgroup is gone", || server.status().cgroups() == 2);
    server.stop();
}
