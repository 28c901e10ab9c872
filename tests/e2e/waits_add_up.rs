//! Our own client, waiting for everything that there is to wait for in a server: each wait is blamed on something.

use std::io::Write;

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Server, eventually, pattern};

const MIB: u32 = 1 << 20;

fn serve(place: &Place, queue: u32) -> Server {
    Server::config(
        place,
        &format!(
            r#"
            listen = "127.0.0.1:0"
            [device.disk]
            path = "emulated:null,latency=100us,size=64M"
            queue = {queue}
            [cgroup."/vm"]
            "io.max" = "disk wbps=16M"
            [export.""]
            device = "disk"
            cgroup = "/vm"
            "#
        ),
    )
}

fn answered(client: &mut Client) {
    while client.pending() > 0 {
        assert_eq!(client.receive().expect("it is answered").error, 0);
    }
}

/// The waits of all causes are the time from the arrival of each request to the end of the send of its reply, which the
/// server measures apart from them; and something waited for each of `causes`.
fn adds_up(server: &Server, replies: u64, causes: &[&str]) {
    let mut vm = server.status().cgroup("/vm");
    eventually("every reply is sent", || {
        vm = server.status().cgroup("/vm");
        vm.number("replied_ios") == replies
    });
    let (waits, inside) = (vm.waits_ns(), vm.number("inside_ns"));
    assert!(waits.abs_diff(inside) <= inside / 100, "{waits} ns of waits, {inside} ns inside");
    for cause in causes {
        assert!(vm.number(&format!("wait/{cause}_ns")) > 0, "nothing waited for {cause}");
    }
}

#[test]
fn waits_add_up_behind_throttled_writes() {
    let place = Place::new();
    let server = serve(&place, 65_536);
    let mut client = Client::of(&server);
    let bytes = pattern(1, MIB as usize);
    for number in 0..24 {
        client.send(Kind::Write, 0, number * u64::from(MIB), MIB, &bytes).expect("it is taken");
    }
    // Behind more writes than a connection may have inside: it waits with them.
    client.send(Kind::Read, 0, 0, 4096, &[]).expect("it is taken");
    // Refused, and answered all the same.
    client.send(Kind::Read, 0, u64::MAX, 4096, &[]).expect("it is taken");
    let mut refused = 0;
    while client.pending() > 0 {
        refused += u32::from(client.receive().expect("it is answered").error != 0);
    }
    assert_eq!(refused, 1);
    adds_up(&server, 26, &["connection", "device"]);
    server.stop();
}

#[test]
fn waits_add_up_with_a_full_queue_and_a_slow_client() {
    let place = Place::new();
    let server = serve(&place, 40);
    let mut client = Client::of(&server);
    // At once, and the payload of a write behind them late.
    let reads: Vec<u8> =
        (0..200).flat_map(|cookie| nbd::request(0, 0, cookie, 0, MIB / 4)).collect();
    client.stream().write_all(&reads).expect("it is taken");
    let head = nbd::request(Kind::Write as u16, 0, 200, 0, MIB);
    client.stream().write_all(&head).expect("it is taken");
    let mut replies = 0;
    let mut bytes = vec![0; 16 + MIB as usize / 4];
    while replies < 200 {
        std::io::Read::read_exact(client.stream(), &mut bytes).expect("it is answered");
        replies += 1;
    }
    client.stream().write_all(&pattern(2, MIB as usize)).expect("it is taken");
    std::io::Read::read_exact(client.stream(), &mut bytes[..16]).expect("it is answered");
    adds_up(&server, 201, &["queue", "sending", "payload", "device"]);
    answered(&mut client);
    server.stop();
}

/// Clients of one tenant that take no replies: another one waits for their memory.
#[test]
fn waits_add_up_when_others_hold_the_memory() {
    let place = Place::new();
    let server = serve(&place, 65_536);
    let mut holders: Vec<Client> = (0..4)
        .map(|number| {
            let from = std::net::Ipv4Addr::new(127, 0, 1, number);
            let stream = nbd::dial_tcp_from(&server.tcp_uri(), from);
            let mut client = Client::open(stream, "").expect("an export");
            client.send(Kind::Read, 0, 0, 32 * MIB, &[]).expect("it is taken");
            client
        })
        .collect();
    let mut client = Client::of(&server);
    for _ in 0..4 {
        client.send(Kind::Read, 0, 0, 32 * MIB, &[]).expect("it is taken");
    }
    // Memory is freed as they read their replies.
    holders.iter_mut().for_each(answered);
    answered(&mut client);
    adds_up(&server, 8, &["memory", "sending", "device"]);
    server.stop();
}
