//! Programs of one tenant that each hold the largest buffer: a reply that is not read, or a payload that is not sent.
//! Other tenants find memory.

use std::io::Write;
use std::net::Ipv4Addr;

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Server, eventually, pattern};

const MIB: u32 = 1 << 20;

/// One tenant for hostile programs and one for a good one, over TCP: there each address is a client.
fn serve(place: &Place) -> Server {
    Server::config(
        place,
        r#"
        listen = "127.0.0.1:0"
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

/// As the client of number `client`, of export `export`.
fn connect(server: &Server, client: u8, export: &str) -> Client {
    let stream = nbd::dial_tcp_from(&server.tcp_uri(), Ipv4Addr::new(127, 0, 1, client));
    Client::open(stream, export).expect("an export")
}

/// Twelve clients of one tenant ask for 32 MiB each, by `begin`, and do nothing more.
fn one_tenant_takes_all(begin: impl Fn(&mut Client)) {
    let place = Place::new();
    let server = serve(&place);
    let mut good = connect(&server, 100, "good");
    let bad: Vec<Client> = (0..12)
        .map(|client| {
            let mut bad = connect(&server, client, "bad");
            begin(&mut bad);
            bad
        })
        .collect();
    for round in 0..20 {
        let bytes = pattern(round, 2 * MIB as usize);
        good.write(0, 0, &bytes).expect("a good client may write");
        assert!(good.read(0, 2 * MIB).expect("and read") == bytes);
    }
    // It found memory at once: no connection was dropped for it.
    assert_eq!(server.status().number("connections_dropped"), 0);
    // Another program of the same tenant waits until stalled connections are dropped, each with a log line.
    let mut beside = connect(&server, 200, "bad");
    for _ in 0..10 {
        beside.read(0, 32 * MIB).expect("it is served at last");
        beside.write(0, 0, &pattern(1, 32 * MIB as usize)).expect("it is served at last");
    }
    let dropped = server.status().number("connections_dropped");
    let told = server.log().matches("others need the memory").count() as u64;
    assert!(dropped > 0 && told > 0, "{dropped} dropped, {told} told");
    drop(bad);
    eventually("they are gone", || server.status().number("connections") == 2);
    server.stop();
}

#[test]
fn replies_that_one_tenant_does_not_read_leave_memory_for_others() {
    one_tenant_takes_all(|bad| {
        bad.send(Kind::Read, 0, 0, 32 * MIB, &[]).expect("it is taken");
    });
}

#[test]
fn payloads_that_one_tenant_does_not_send_leave_memory_for_others() {
    one_tenant_takes_all(|bad| {
        let head = nbd::request(Kind::Write as u16, 0, 1, 0, 32 * MIB);
        bad.stream().write_all(&head).expect("it is taken");
    });
}
