//! Our own client: one limit for reads and writes together, counted against the server's clock.

use weir_tests::nbd::{Client, Kind};
use weir_tests::{Place, Server, eventually, pattern};

const SENT: u64 = 20;
const BURST: u64 = 8;

fn send(client: &mut Client, number: u64) {
    let (offset, seed) = (number * 4096, number + 1);
    let sent = match number % 2 {
        0 => client.send(Kind::Read, 0, offset, 512, &[]),
        _ => client.send(Kind::Write, 0, offset, 512, &pattern(seed, 512)),
    };
    sent.expect("the server takes requests");
}

/// Sends as many reads as writes at once under a limit of one a second for both, then lifts the limit.
fn exactly_a_burst_of_both_goes_through(limiter: &str) {
    let place = Place::new();
    let burst = BURST.to_string();
    let flags = ["--max", "rwiops=1", "--burst", &burst, "--limiter", limiter];
    let server = Server::image(&place, "memory:1M", &flags);
    let start_ns = server.status().number("at_ns");
    let mut client = Client::of(&server);
    (0..SENT).for_each(|number| send(&mut client, number));
    let mut status = server.status();
    eventually("all requests are inside", || {
        status = server.status();
        let done = status.cgroup("/main").number("completed_ios");
        done >= BURST && status.number("throttled") + done == SENT
    });
    let main = status.cgroup("/main");
    let done = main.number("completed_ios");
    let allowed = BURST + (status.number("at_ns") - start_ns) / 1_000_000_000 + 1;
    assert!(done <= allowed, "{done} are done, {allowed} may be");
    assert_eq!(main.io_max(), Some("rbps=max wbps=max riops=max wiops=max rwiops=1"));
    assert!(status.balances());

    server.set("/main", "io.max", "rwiops=max");
    while client.pending() > 0 {
        assert_eq!(client.receive().expect("the rest goes through").error, 0);
    }
    let status = server.status();
    let main = status.cgroup("/main");
    assert_eq!(main.number("read_ios") + main.number("write_ios"), SENT);
    let waited = main.number("throttled_ios/rwiops");
    assert!(waited >= SENT - allowed, "{waited} have waited");
    server.stop();
}

#[test]
fn reads_and_writes_share_a_total_limit_with_pace() {
    exactly_a_burst_of_both_goes_through("pace");
}

#[test]
fn reads_and_writes_share_a_total_limit_with_token() {
    exactly_a_burst_of_both_goes_through("token");
}

/// The status has the limit that a connection waited for; slices have no total limit.
#[test]
fn a_total_limit_is_shown_and_refused_with_slice() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &["--max", "rwbps=64K rwiops=1k"]);
    let mut client = Client::of(&server);
    for number in 0..60 {
        send(&mut client, number);
    }
    while client.pending() > 0 {
        assert_eq!(client.receive().expect("64 KiB a second").error, 0);
    }
    let tasks = server.ask("status", &["--tasks"]).stdout;
    assert!(tasks.contains(" rwbps ") || tasks.contains(" rwiops "), "{tasks}");
    let refused = server.ask("set", &["/main", "io.limiter", "slice"]);
    assert_eq!(refused.status.code(), Some(2));
    let why = "the slice limiter is the kernel's, which has no limit on reads and writes together";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    server.stop();
}

#[test]
fn a_watermark_is_set_and_shown_and_refused_out_of_range() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &["--max", "rwbps=4M"]);
    server.set("/main", "io.watermark", "90");
    assert_eq!(server.status().cgroup("/main").text("io_watermark"), Some("90"));
    server.set("/main", "io.watermark", "80 mode=gate");
    let refused = server.ask("set", &["/main", "io.watermark", "101"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stderr.starts_with("error: "), "{}", refused.stderr);
    let held = server.status().cgroup("/main").text("io_watermark").map(str::to_owned);
    assert!(held.is_some_and(|held| held.starts_with("80 mode=gate")));
    server.set("/main", "io.watermark", "inherit");
    assert_eq!(server.status().cgroup("/main").text("io_watermark"), None);
    server.stop();
}
