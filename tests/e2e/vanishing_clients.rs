//! Our own client, closed without a disconnect: its requests leave nothing behind.

use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Server, eventually, pattern};

const MIB: u32 = 1 << 20;

/// Makes the end of a TCP connection a reset instead of a goodbye.
fn will_reset(client: &mut Client) {
    let stream = client.stream().try_clone().expect("a socket can be shared");
    let linger = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&stream, linger).expect("TCP has this option");
}

/// A connection over TCP or a Unix socket, in turn.
fn connect(server: &Server, round: u32) -> Client {
    let stream = match round % 2 {
        0 => nbd::dial(server.socket()),
        _ => nbd::dial_tcp(&server.tcp_uri()),
    };
    let mut client = Client::open(stream, "").expect("the server lets clients in");
    if round % 4 == 3 {
        will_reset(&mut client);
    }
    client
}

/// All requests are gone, and so are the connections but `left`.
fn settles(server: &Server, left: u64, files: usize) {
    eventually("nothing is left of them", || {
        let status = server.status();
        status.is_idle() && status.number("connections") == left && server.open_files() <= files
    });
    assert!(server.status().balances());
}

#[test]
fn a_client_that_vanishes_with_requests_at_the_device_is_cleaned_up() {
    let place = Place::new();
    let flags = ["--listen", "127.0.0.1:0", "--depth", "8"];
    let server = Server::image(&place, "emulated:null,latency=20ms,size=64M", &flags);
    let mut good = Client::of(&server);
    let files = server.open_files();
    for round in 0..12 {
        let mut client = connect(&server, round);
        for number in 0..20 {
            let offset = number * u64::from(MIB);
            client.send(Kind::Read, 0, offset, MIB, &[]).expect("it is taken");
            client.send(Kind::Write, 0, offset, 4096, &[1; 4096]).expect("it is taken");
            client.send(Kind::WriteZeroes, 0, offset, MIB, &[]).expect("it is taken");
            client.send(Kind::Flush, 0, 0, 0, &[]).expect("it is taken");
        }
        if round % 3 == 0 {
            // Not even the first answer is waited for, mostly; here it is.
            client.receive().expect("it is answered");
        }
    }
    good.read(0, 4096).expect("a good client is served");
    settles(&server, 1, files);
    server.stop();
}

#[test]
fn a_client_that_vanishes_with_throttled_requests_is_cleaned_up() {
    let place = Place::new();
    let flags = ["--listen", "127.0.0.1:0", "--max", "riops=1 wiops=1", "--burst", "4"];
    let server = Server::image(&place, "memory:64M", &flags);
    let files = server.open_files();
    for round in 0..12 {
        let mut client = connect(&server, round);
        for number in 0..50 {
            client.send(Kind::Read, 0, number * 4096, 4096, &[]).expect("it is taken");
            client.send(Kind::Write, 0, number * 4096, 4096, &[1; 4096]).expect("it is taken");
        }
    }
    settles(&server, 0, files);
    // Waiting requests were withdrawn: they neither delay later ones nor were they carried out.
    let main = server.status().cgroup("/main");
    assert!(main.number("completed_ios") < 12 * 100);
    server.set("/main", "io.max", "riops=max wiops=max");
    let mut client = Client::of(&server);
    client.write(0, 0, &pattern(53, 4096)).expect("a good client is served");
    assert!(client.read(0, 4096).expect("a good client is served") == pattern(53, 4096));
    server.stop();
}

/// Half a payload, many times: were its memory not given back, the server would run out of it.
#[test]
fn a_client_that_vanishes_within_a_payload_is_cleaned_up() {
    let place = Place::new();
    let server = Server::image(&place, "memory:64M", &["--listen", "127.0.0.1:0"]);
    let mut good = Client::of(&server);
    good.write(0, 0, &pattern(54, MIB as usize)).expect("a good client is served");
    let files = server.open_files();
    let half = pattern(55, 20 << 20);
    for round in 0..24 {
        let mut client = connect(&server, round);
        let head = nbd::request(Kind::Write as u16, 0, 1, 0, 32 * MIB);
        client.stream().write_all(&head).expect("it is taken");
        client
            .stream()
            .write_all(&half[..1 + half.len() / 24 * round as usize])
            .expect("it is taken");
    }
    settles(&server, 1, files);
    assert!(good.read(0, MIB).expect("a good client is served") == pattern(54, MIB as usize));
    // As much as may be in memory at once, and more.
    for round in 0..10 {
        good.write(0, 0, &pattern(round, 32 * MIB as usize)).expect("there is memory");
    }
    let resident = server.resident_bytes();
    assert!(resident < 480 << 20, "{resident} bytes");
    server.stop();
}

#[test]
fn a_client_that_vanishes_after_connecting_is_cleaned_up() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &["--listen", "127.0.0.1:0"]);
    let files = server.open_files();
    let address = server.tcp_uri();
    let address = address.trim_start_matches("nbd://").trim_end_matches('/');
    for round in 0..200 {
        let stream = match round % 2 {
            0 => nbd::dial(server.socket()),
            _ => UnixStream::from(OwnedFd::from(TcpStream::connect(address).expect("it listens"))),
        };
        if round % 4 == 3 {
            let linger = Some(Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(&stream, linger).expect("TCP has this option");
        }
        drop(stream);
    }
    settles(&server, 0, files);
    Client::of(&server).read(0, 512).expect("a good client is served");
    server.stop();
}
