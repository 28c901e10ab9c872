//! Our own client, which disconnects (`NBD_CMD_DISC`) with requests in flight, without waiting for the replies.

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Server, eventually, pattern};

const MIB: u32 = 1 << 20;

/// Sends a disconnect request and closes the connection.
fn leave(mut client: Client) {
    client.send(Kind::Disconnect, 0, 0, 0, &[]).expect("it is taken");
}

/// The connection of the client that left is over, and all `count` writes have been carried out.
fn all_are_done(server: &Server, count: u64) {
    eventually("its connection is closed", || server.status().number("connections") == 0);
    let status = server.status();
    assert_eq!(status.cgroup("/main").number("write_ios"), count);
    assert!(status.balances());
}

#[test]
fn throttled_requests_complete_after_a_disconnect() {
    for cache in ["none", "writeback"] {
        let place = Place::new();
        let image = place.hole("disk.img", 1 << 20);
        let limits = ["--max", "wiops=40", "--burst", "1", "--cache", cache];
        let flags = [&limits[..], &["--listen", "127.0.0.1:0"]].concat();
        let server = Server::image(&place, &image, &flags);
        let bytes = pattern(71, 40 * 4096);
        let streams = [nbd::dial(server.socket()), nbd::dial_tcp(&server.tcp_uri())];
        for (stream, half) in streams.into_iter().zip(bytes.chunks(20 * 4096).enumerate()) {
            let (number, blocks) = half;
            let mut client = Client::open(stream, "").expect("the server lets clients in");
            for (block, offset) in
                blocks.chunks(4096).zip((number as u64 * 20 * 4096..).step_by(4096))
            {
                // Past the cache, so that each is a request at the device.
                client.send(Kind::Write, nbd::FUA, offset, 4096, block).expect("it is taken");
            }
            leave(client);
        }
        all_are_done(&server, 40);
        assert!(std::fs::read(&image).expect("it is there")[..bytes.len()] == bytes);
        server.stop();
    }
}

/// More than the server takes in at once: much of it is in the socket yet, and the goodbye after it, when the first reply
/// finds a closed socket.
#[test]
fn unread_requests_complete_after_a_disconnect() {
    let place = Place::new();
    let server = Server::image(&place, "memory:64M", &["--max", "rwiops=100", "--burst", "1"]);
    let mut client = Client::of(&server);
    for number in 0..60 {
        client.send(Kind::Read, 0, 0, MIB, &[]).expect("it is taken");
        client.send(Kind::Write, 0, number * 512, 512, &[7; 512]).expect("it is taken");
    }
    leave(client);
    all_are_done(&server, 60);
    server.stop();
}

#[test]
fn throttled_requests_of_a_killed_client_are_withdrawn() {
    let place = Place::new();
    let server = Server::image(&place, "memory:64M", &["--max", "rwiops=1", "--burst", "1"]);
    let mut client = Client::of(&server);
    for number in 0..60 {
        client.send(Kind::Read, 0, 0, MIB, &[]).expect("it is taken");
        client.send(Kind::Write, 0, number * 512, 512, &[7; 512]).expect("it is taken");
    }
    drop(client);
    // At the limit it would take two minutes.
    eventually("its connection is closed", || server.status().number("connections") == 0);
    assert!(server.status().cgroup("/main").number("write_ios") < 60);
    server.stop();
}
