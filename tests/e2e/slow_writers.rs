//! Our own client, announcing much and sending nothing. The others are served on.

use std::io::Write;

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Server, eventually, pattern};

const MIB: u32 = 1 << 20;

/// Two exports of one device, so that this process is two clients.
fn serve(place: &Place) -> Server {
    Server::config(
        place,
        r#"
        [device.disk]
        path = "memory:64M"
        [cgroup."/bad"]
        [cgroup."/good"]
        [export.bad]
        device = "disk"
        cgroup = "/bad"
        [export.good]
        device = "disk"
        cgroup = "/good"
        "#,
    )
}

fn connect(server: &Server, export: &str) -> Client {
    Client::open(nbd::dial(server.socket()), export).expect("an export")
}

/// Announces the largest of writes and sends one byte of it.
fn promise(server: &Server) -> Client {
    let mut client = connect(server, "bad");
    let head = nbd::request(Kind::Write as u16, 0, 1, 0, 32 * MIB);
    client.stream().write_all(&head).expect("it is taken");
    client.stream().write_all(&[1]).expect("it is taken");
    client
}

fn write_and_read(mut good: Client) {
    for round in 0..20 {
        let bytes = pattern(round, 64 << 10);
        good.write(0, 0, &bytes).expect("a good client may write");
        assert!(good.read(0, 64 << 10).expect("and read") == bytes);
    }
}

/// More payload announced than there is memory for.
#[test]
fn announced_payload_does_not_stop_other_clients() {
    let place = Place::new();
    let server = serve(&place);
    let promising: Vec<Client> = (0..8).map(|_| promise(&server)).collect();
    write_and_read(connect(&server, "good"));
    assert_eq!(server.status().number("connections_dropped"), 0);
    drop(promising);
    write_and_read(connect(&server, "bad"));
    server.stop();
}

/// A client's other connections find memory beside its announced payload.
#[test]
fn announced_payload_does_not_stop_the_clients_other_connections() {
    let place = Place::new();
    let server = serve(&place);
    let promising: Vec<Client> = (0..3).map(|_| promise(&server)).collect();
    // Answered by the thread that has seen the promises before.
    server.status();
    write_and_read(connect(&server, "bad"));
    assert_eq!(server.status().number("connections_dropped"), 0);
    drop(promising);
    server.stop();
}

/// Without free memory, stalled payload loses its memory after a while.
#[test]
fn stalled_payload_makes_room_for_the_same_client() {
    let place = Place::new();
    let server = serve(&place);
    let promising: Vec<Client> = (0..6).map(|_| promise(&server)).collect();
    eventually("one has to go", || server.status().number("connections_dropped") > 0);
    write_and_read(connect(&server, "bad"));
    drop(promising);
    server.stop();
}
