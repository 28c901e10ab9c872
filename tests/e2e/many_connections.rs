//! Our own client: a thousand connections at once.

use std::io::Write;
use std::path::Path;

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Server, eventually, pattern, raise_open_files};

const CONNECTIONS: usize = 1000;
const BLOCK: usize = 4096;

/// All connect before the first of them is answered; gives the clients in their order.
fn connect(socket: &Path, count: usize) -> Vec<Client> {
    let hello = [&nbd::CLIENT_FLAGS.to_be_bytes()[..], &nbd::go("")].concat();
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = nbd::dial(socket);
        stream.write_all(&hello).expect("the server takes a handshake");
        streams.push(stream);
    }
    let client = |stream| Client::accepted(stream).expect("the server answers every handshake");
    streams.into_iter().map(client).collect()
}

/// Every client asks before the first answer is read, each for another block.
fn all_read(clients: &mut [Client], bytes: &[u8]) {
    let place = |number: usize| number * BLOCK % bytes.len();
    for (number, client) in clients.iter_mut().enumerate() {
        let offset = place(number) as u64;
        client.send(Kind::Read, 0, offset, BLOCK as u32, &[]).expect("the server takes requests");
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let reply = client.receive().expect("the server answers");
        assert_eq!(reply.error, 0);
        assert!(reply.data == bytes[place(number)..][..BLOCK], "connection {number}");
    }
}

#[test]
fn a_thousand_connections_are_served_and_cost_little() {
    raise_open_files();
    let place = Place::new();
    let bytes = pattern(20, 1 << 20);
    let image = place.filled("disk.img", &bytes);
    let server = Server::config(
        &place,
        &format!(
            r#"
            max_connections_per_client = 1024
            [device.disk]
            path = {image:?}
            [cgroup."/main"]
            [export.""]
            device = "disk"
            cgroup = "/main"
            "#
        ),
    );
    // Warm-up: allocations for the first client.
    all_read(&mut connect(server.socket(), 100), &bytes);
    let connected = |count: u64| {
        eventually(&format!("{count} connections"), || {
            server.status().number("connections") == count
        });
    };
    connected(0);
    let (files, memory) = (server.open_files(), server.resident_bytes());

    let mut clients = connect(server.socket(), CONNECTIONS);
    all_read(&mut clients, &bytes);
    let status = server.status();
    assert_eq!(status.number("connections"), CONNECTIONS as u64);
    assert_eq!(status.cgroup("/main").number("connections"), CONNECTIONS as u64);
    assert!(status.balances());
    // A receive buffer of the server has 32 KiB: idle connections must not have one each.
    let each = server.resident_bytes().saturating_sub(memory) / CONNECTIONS as u64;
    assert!(each < 12 << 10, "an idle connection takes {each} bytes");
    all_read(&mut clients, &bytes);

    drop(clients);
    connected(0);
    eventually("no descriptor left behind", || server.open_files() <= files);
    // Again: the memory was returned.
    all_read(&mut connect(server.socket(), CONNECTIONS), &bytes);
    let grown = server.resident_bytes().saturating_sub(memory);
    assert!(grown < CONNECTIONS as u64 * (16 << 10), "grew by {grown} bytes");
    server.stop();
}

#[test]
fn a_connection_beyond_the_maximum_is_refused_until_another_leaves() {
    let place = Place::new();
    let server = Server::config(
        &place,
        r#"
        max_connections = 4
        [device.disk]
        path = "memory:1M"
        [export.""]
        device = "disk"
        cgroup = "/"
        "#,
    );
    let mut clients: Vec<Client> = (0..4).map(|_| Client::of(&server)).collect();
    let refusal = Client::open(nbd::dial(server.socket()), "").expect_err("there are four");
    // NBD_REP_ERR_POLICY, and words.
    assert!(refusal.to_string().contains("0x80000002"), "{refusal}");
    assert_eq!(server.status().number("connections_refused"), 1);
    for client in &mut clients {
        client.read(0, 512).expect("those inside are served on");
    }
    clients.pop();
    eventually("a place is free", || Client::open(nbd::dial(server.socket()), "").is_ok());
    server.stop();
}

#[test]
fn a_flood_of_failed_accepts_makes_few_log_lines() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &[]);
    let files = server.open_files() as u64;
    let mut waiting = Vec::new();
    let mut failed = 0;
    eventually("a hundred accepts have failed", || {
        // With descriptors again the control socket answers, and waiting clients are accepted.
        server.limit_open_files(1000);
        failed = server.whole_status().number("listeners/accepts_failed");
        server.limit_open_files(files);
        waiting.push(nbd::dial(server.socket()));
        failed >= 100
    });
    server.limit_open_files(1000);
    drop(waiting);
    Client::of(&server).read(0, 512).expect("it serves on");
    let status = server.whole_status();
    let left_out = status.number("listeners/log_lines_left_out");
    let lines = server.log().matches("cannot accept a connection").count() as u64;
    assert!(
        lines >= 1 && lines + left_out == status.number("listeners/accepts_failed"),
        "{}",
        server.log()
    );
    // A slow machine takes long to make a hundred fail: a line every two seconds then.
    assert!(lines * 2 < failed, "{lines} lines tell of {failed} failed accepts");
    server.stop();
}
