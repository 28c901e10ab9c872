//! Our own client, several times over: a share of a limit is a client's, however many connections it opens and however
//! much it asks for at once. A client is a process on a Unix socket, an address on TCP.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Server, eventually};

/// Connections of each client, and reads that each of them asks for at once.
const CLIENTS: [(u32, u64); 3] = [(8, 32), (3, 85), (1, 256)];
/// Reads of the measurement: each client has enough left after it.
const READS: u64 = 120;

/// The number of replies that each client has got, once all that the server has completed have come.
fn replies(server: &Server, got: &[AtomicU64; 3]) -> [u64; 3] {
    let mut found = [0; 3];
    eventually("all replies have come", || {
        found = got.each_ref().map(|count| count.load(Ordering::Relaxed));
        found.iter().sum::<u64>() == server.status().cgroup("/main").number("completed_ios")
    });
    found
}

#[test]
fn clients_share_equally_whatever_their_number_of_connections() {
    let place = Place::new();
    let flags = ["--max", "riops=1", "--burst", "1", "--listen", "127.0.0.1:0"];
    let server = Server::image(&place, "memory:1M", &flags);
    let tcp = server.tcp_uri();
    let dial = |client: usize| match client {
        0 => nbd::dial(server.socket()),
        1 => nbd::dial_tcp(&tcp),
        _ => nbd::dial_tcp_from(&tcp, Ipv4Addr::new(127, 0, 0, 2)),
    };
    let mut connections = Vec::new();
    for (number, (count, reads)) in CLIENTS.into_iter().enumerate() {
        for _ in 0..count {
            let mut client = Client::open(dial(number), "").expect("the server lets clients in");
            for block in 0..reads {
                client.send(Kind::Read, 0, block * 512, 512, &[]).expect("it is taken");
            }
            connections.push((number, client));
        }
    }
    let sent: u64 = CLIENTS.iter().map(|&(count, reads)| u64::from(count) * reads).sum();
    eventually("all wait", || {
        let status = server.status();
        status.number("throttled") + status.cgroup("/main").number("completed_ios") == sent
    });

    let got = [const { AtomicU64::new(0) }; 3];
    thread::scope(|scope| {
        for (number, mut client) in connections {
            let got = &got[number];
            scope.spawn(move || {
                while client.pending() > 0 {
                    assert_eq!(client.receive().expect("it is answered").error, 0);
                    got.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let before = replies(&server, &got);
        let completed = || server.status().cgroup("/main").number("completed_ios");
        let enough = completed() + READS;
        server.set("/main", "io.max", "riops=100");
        eventually("some have gone", || completed() >= enough);
        // So few go now that all of their replies can be counted.
        server.set("/main", "io.max", "riops=1");
        let after = replies(&server, &got);
        server.set("/main", "io.max", "riops=max");
        let had = [0, 1, 2].map(|number| after[number] - before[number]);
        let (least, most) = (had.iter().min().expect("three"), had.iter().max().expect("three"));
        assert!(*least >= READS / 3 - 3 && most - least <= 3, "they have had {had:?}");
    });
    server.stop();
}
