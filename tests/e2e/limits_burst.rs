//! Our own client: how many requests of a burst get through a limit. Counted against the server's clock.

use weir_tests::nbd::{Client, Kind};
use weir_tests::{Device, Place, Server, eventually, pattern};

const SENT: u64 = 20;
const BURST: u64 = 8;

/// Requests that a limit of one a second has let go at `device`'s moment, at most, since `start_ns`.
fn allowed(device: &Device, start_ns: u64) -> u64 {
    BURST + (device.number("at_ns") - start_ns) / 1_000_000_000 + 1
}

/// Sends `SENT` requests at once under a limit of one a second and a burst of `BURST`, then lifts the limit.
fn exactly_a_burst_goes_through(kind: Kind, limiter: &str) {
    let place = Place::new();
    // All holes, which cost the disk nothing.
    let image = place.hole("disk.img", 1 << 20);
    let dimension = match kind {
        Kind::Read | Kind::Cache => "riops",
        _ => "wiops",
    };
    let (max, burst) = (format!("{dimension}=1"), BURST.to_string());
    let flags = ["--max", &max, "--burst", &burst, "--limiter", limiter, "--direct", "off"];
    let server = Server::image(&place, image, &flags);
    let start_ns = server.status().number("at_ns");
    let mut client = Client::of(&server);
    for number in 0..SENT {
        let payload = if kind == Kind::Write { pattern(number, 512) } else { Vec::new() };
        let (offset, len) = if kind == Kind::Flush { (0, 0) } else { (number * 4096, 512) };
        client.send(kind, 0, offset, len, &payload).expect("the server takes requests");
    }
    for _ in 0..BURST {
        assert_eq!(client.receive().expect("the burst goes through").error, 0);
    }
    let mut status = server.status();
    eventually("all requests are inside", || {
        status = server.status();
        status.number("throttled") + status.cgroup("/main").number("completed_ios") == SENT
    });
    let done = status.cgroup("/main").number("completed_ios");
    let allowed = allowed(&status, start_ns);
    assert!((BURST..=allowed).contains(&done), "{done} of {kind:?} are done, {allowed} may be");
    assert!(status.balances());

    server.set("/main", "io.max", &format!("{dimension}=max"));
    while client.pending() > 0 {
        assert_eq!(client.receive().expect("the rest goes through").error, 0);
    }
    let main = server.status().cgroup("/main");
    assert_eq!(main.number("completed_ios"), SENT);
    let waited = main.number(&format!("throttled_ios/{dimension}"));
    assert!(waited >= SENT - allowed, "{waited} of {kind:?} have waited");
    server.stop();
}

#[test]
fn a_burst_of_reads_of_holes_is_bounded_with_pace() {
    exactly_a_burst_goes_through(Kind::Read, "pace");
}

#[test]
fn a_burst_of_reads_of_holes_is_bounded_with_token() {
    exactly_a_burst_goes_through(Kind::Read, "token");
}

#[test]
fn a_burst_of_writes_is_bounded() {
    exactly_a_burst_goes_through(Kind::Write, "pace");
}

#[test]
fn a_burst_of_trims_is_bounded() {
    exactly_a_burst_goes_through(Kind::Trim, "pace");
}

#[test]
fn a_burst_of_zeroes_is_bounded() {
    exactly_a_burst_goes_through(Kind::WriteZeroes, "pace");
}

#[test]
fn a_burst_of_flushes_is_bounded() {
    exactly_a_burst_goes_through(Kind::Flush, "pace");
}

#[test]
fn a_burst_of_prefetches_is_bounded() {
    exactly_a_burst_goes_through(Kind::Cache, "pace");
}

/// Eight connections of one client have one burst between them, not one each.
#[test]
fn a_burst_over_many_connections_is_bounded() {
    let place = Place::new();
    let burst = BURST.to_string();
    let server = Server::image(&place, "memory:1M", &["--max", "riops=1", "--burst", &burst]);
    let start_ns = server.status().number("at_ns");
    let mut clients: Vec<Client> = (0..8).map(|_| Client::of(&server)).collect();
    for client in &mut clients {
        for number in 0..10 {
            client.send(Kind::Read, 0, number * 512, 512, &[]).expect("the server takes requests");
        }
    }
    let mut status = server.status();
    eventually("all requests are inside", || {
        status = server.status();
        let done = status.cgroup("/main").number("completed_ios");
        done >= BURST && status.number("throttled") + done == 80
    });
    let done = status.cgroup("/main").number("completed_ios");
    let allowed = allowed(&status, start_ns);
    assert!(done <= allowed, "{done} are done, {allowed} may be");
    server.set("/main", "io.max", "riops=max");
    for client in &mut clients {
        while client.pending() > 0 {
            assert_eq!(client.receive().expect("the rest goes through").error, 0);
        }
    }
    server.stop();
}
