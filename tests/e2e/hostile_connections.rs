//! Our own client, connecting without end: other clients can connect, and refused ones get the reason.

use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;

use weir_tests::nbd::{self, Client};
use weir_tests::{Place, Server, eventually};

fn serve(place: &Place) -> Server {
    Server::config(
        place,
        r#"
        max_connections = 20
        max_connections_per_client = 10
        listen = "127.0.0.1:0"
        [device.disk]
        path = "memory:1M"
        [export.a]
        device = "disk"
        cgroup = "/"
        max_connections = 12
        [export.b]
        device = "disk"
        cgroup = "/"
        "#,
    )
}

/// As the client of number `client`: over TCP each address is one.
fn dial(server: &Server, client: u8) -> UnixStream {
    nbd::dial_tcp_from(&server.tcp_uri(), Ipv4Addr::new(127, 0, 1, client))
}

#[test]
fn connections_of_one_client_or_export_leave_room_for_others() {
    let place = Place::new();
    let server = serve(&place);
    let connect = |client, export| Client::open(dial(&server, client), export);
    let mut inside: Vec<Client> = (0..10).map(|_| connect(1, "a").expect("a place")).collect();
    for _ in 0..100 {
        let refusal = connect(1, "a").expect_err("one client has its ten").to_string();
        assert!(refusal.contains("0x80000002"), "{refusal}");
    }
    // Another client gets in, until the export has its twelve.
    inside.extend((0..2).map(|_| connect(2, "a").expect("a place")));
    let refusal = connect(2, "a").expect_err("the export has its twelve").to_string();
    assert!(refusal.contains("0x80000002"), "{refusal}");
    inside.extend((0..8).map(|_| connect(2, "b").expect("another export has places")));
    let refusal = connect(3, "b").expect_err("the server has its twenty").to_string();
    assert!(refusal.contains("0x80000002"), "{refusal}");
    for client in &mut inside {
        client.read(0, 512).expect("those inside are served on");
    }
    let status = server.status();
    assert_eq!(status.number("connections_refused"), 102);
    let log = server.log();
    let lines = log.matches("connection refused").count() as u64;
    assert!(log.contains("this client has as many connections as one may have"), "{log}");
    assert_eq!(lines + status.number("log_lines_left_out"), 102, "{log}");
    drop(inside);
    eventually("their places are free", || connect(1, "a").is_ok());
    server.stop();
}

/// Silent connections make room for others, long before their handshake times out.
#[test]
fn connections_without_a_handshake_make_room_for_others() {
    let place = Place::new();
    let server = serve(&place);
    let silent: Vec<UnixStream> = (0..20).map(|number| dial(&server, 1 + number / 10)).collect();
    let mut good = None;
    eventually("a good client gets in", || {
        good = Client::open(dial(&server, 9), "a").ok();
        good.is_some()
    });
    good.expect("it got in").read(0, 512).expect("it is served");
    assert!(server.log().contains("it does not shake hands and others need its place"));
    drop(silent);
    server.stop();
}
