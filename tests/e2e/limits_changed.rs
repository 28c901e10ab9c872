//! Our own client: limits, schedulers and their settings that change under load lose nothing, repeat nothing and reorder nothing.

use std::sync::atomic::{AtomicUsize, Ordering};

use weir_tests::nbd::{Client, Kind};
use weir_tests::{Place, Random, Server, pattern};

const WORKERS: u64 = 4;
const IN_FLIGHT: u64 = 16;
const REQUESTS: u64 = 1500;
const BLOCK: usize = 4096;

/// Settings in turns: some hold requests back, some let them go.
const SETTINGS: [(&str, &str, &str); 20] = [
    ("/main", "io.max", "riops=2000 wiops=1000"),
    ("/main", "io.limiter", "token"),
    ("/", "io.scheduler", "bfq"),
    ("/main", "io.prio.class", "idle"),
    ("/main", "io.max", "rbps=8M wbps=max"),
    ("/main", "io.limiter", "leaky"),
    ("/", "io.depth", "1"),
    ("/main", "io.max", "riops=max wiops=500 rbps=max"),
    ("/main", "io.limiter", "slice"),
    ("/", "io.bfq", "slice_idle=0 max_budget=32 fifo_expire_sync=1"),
    ("/", "io.scheduler", "none"),
    ("/main", "io.weight", "500"),
    ("/main", "io.prio.class", "promote-to-rt"),
    ("/main", "io.max", "riops=max wiops=max rbps=max wbps=max"),
    ("/main", "io.limiter", "pace"),
    ("/", "io.scheduler", "bfq"),
    ("/", "io.depth", "64"),
    ("/", "io.bfq", "slice_idle=8 max_budget=0 fifo_expire_sync=125"),
    ("/main", "io.max", "wbps=4M"),
    ("/", "io.scheduler", "none"),
];

/// Writes and reads blocks of its own, `IN_FLIGHT` at once, until `REQUESTS` have been answered.
fn work(server: &Server, worker: u64) {
    let mut client = Client::of(server);
    let mut random = Random::new(worker);
    // Content of each block, and whether the request in flight is a write.
    let mut blocks: Vec<(u64, bool)> = vec![(0, false); IN_FLIGHT as usize];
    let mut by_cookie = std::collections::BTreeMap::new();
    let offset = |slot: usize| (worker * IN_FLIGHT + slot as u64) * BLOCK as u64;
    let mut send = |client: &mut Client, slot: usize, blocks: &mut [(u64, bool)]| {
        let (seed, is_write) = &mut blocks[slot];
        *is_write = *seed == 0 || random.below(2) == 0;
        let at = offset(slot);
        if *is_write {
            *seed = 1 + random.below(1 << 30);
            client.send(Kind::Write, 0, at, BLOCK as u32, &pattern(*seed, BLOCK))
        } else {
            client.send(Kind::Read, 0, at, BLOCK as u32, &[])
        }
        .expect("the server takes requests")
    };
    for slot in 0..IN_FLIGHT as usize {
        by_cookie.insert(send(&mut client, slot, &mut blocks), slot);
    }
    for answered in 1..=REQUESTS {
        let reply = client.receive().expect("every request is answered");
        assert_eq!(reply.error, 0);
        let slot = by_cookie.remove(&reply.cookie).expect("no reply comes twice");
        let (seed, is_write) = blocks[slot];
        assert!(is_write || reply.data == pattern(seed, BLOCK), "worker {worker}, block {slot}");
        if answered + client.pending() as u64 >= REQUESTS {
            continue;
        }
        by_cookie.insert(send(&mut client, slot, &mut blocks), slot);
    }
    assert_eq!(client.pending(), 0);
}

#[test]
fn no_request_is_lost_while_limits_change() {
    let place = Place::new();
    let image = place.hole("disk.img", 1 << 20);
    let server = Server::image(&place, image, &["--max", "riops=1000"]);
    let working = AtomicUsize::new(WORKERS as usize);
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (server, working) = (&server, &working);
            scope.spawn(move || {
                work(server, worker);
                working.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for (set, (cgroup, key, value)) in SETTINGS.into_iter().cycle().enumerate() {
            // Each of them at least once, and then for as long as there is work.
            if set >= SETTINGS.len() && working.load(Ordering::Relaxed) == 0 {
                break;
            }
            server.set(cgroup, key, value);
        }
    });
    let status = server.status();
    let main = status.cgroup("/main");
    assert_eq!(main.number("completed_ios"), WORKERS * REQUESTS);
    assert_eq!(main.number("read_ios") + main.number("write_ios"), WORKERS * REQUESTS);
    assert_eq!(main.number("failed_ios"), 0);
    assert!(status.balances() && status.is_idle());
    server.stop();
}

/// With one request at the device at a time, answers come in the order of the requests, whatever is set meanwhile.
#[test]
fn requests_keep_their_order_while_limits_change() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &["--depth", "1", "--max", "riops=1"]);
    let mut client = Client::of(&server);
    let sent: Vec<u64> = (0..300)
        .map(|number| client.send(Kind::Read, 0, number * 512, 512, &[]).expect("it is taken"))
        .collect();
    let mut answered = Vec::new();
    let mut receive = |client: &mut Client, count: usize| {
        for _ in 0..count {
            answered.push(client.receive().expect("every request is answered").cookie);
        }
    };
    // The burst that a limit has without a word about it.
    receive(&mut client, 4);
    for limiter in ["token", "leaky", "slice:4.18", "pace"] {
        server.set("/main", "io.limiter", limiter);
        server.set("/main", "io.max", "riops=2000");
        receive(&mut client, 20);
        server.set("/main", "io.max", "riops=1");
    }
    server.set("/main", "io.max", "riops=max");
    let left = client.pending();
    receive(&mut client, left);
    assert_eq!(answered, sent);
    server.stop();
}

#[test]
fn a_refused_setting_changes_nothing() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &["--max", "riops=100 wbps=1M"]);
    let before = server.status().cgroup("/main").io_max().map(str::to_owned);
    for (key, value) in [
        ("io.max", "riops=200 wbps=0"),
        ("io.max", "riops=200 nonsense=1"),
        ("io.max", "riops=200 rbps=99999999999999999999999"),
        ("io.max", "disk riops="),
        ("io.max", "otherdisk riops=200"),
        ("io.weight", "0"),
        ("io.weight", "10001"),
        ("io.limiter", "magic"),
        ("io.nonsense", "1"),
        ("io.burst", "riops=99999999999"),
    ] {
        let ran = server.ask("set", &["/main", key, value]);
        assert_eq!(ran.status.code(), Some(2), "{key} {value}: {ran:?}");
        assert!(ran.stdout.is_empty() && ran.stderr.starts_with("error: "), "{ran:?}");
        assert_eq!(server.status().cgroup("/main").io_max().map(str::to_owned), before);
    }
    server.stop();
}
