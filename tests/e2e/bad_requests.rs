//! Our own client, misbehaving once it has an export. It costs itself only.

use std::io::{ErrorKind, Read, Write};

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Server, eventually, pattern};

const MIB: u32 = 1 << 20;

/// A server, and a client that must not notice anything.
fn serve(place: &Place) -> (Server, Client) {
    let server = Server::image(place, "memory:64M", &["--listen", "127.0.0.1:0"]);
    let good = Client::of(&server);
    (server, good)
}

/// Whether the server has closed this connection, in good order or not.
fn is_closed(client: &mut Client) -> bool {
    loop {
        match client.stream().read(&mut [0; 4096]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            // A signal to the process, of another test for one, ends a wait that has a timeout.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return true,
        }
    }
}

#[test]
fn a_wrong_magic_ends_the_connection() {
    let place = Place::new();
    let (server, mut good) = serve(&place);
    for junk in
        [&[0; 28][..], &[0xff; 28], b"GET / HTTP/1.1\r\nHost: a.b\r\n\r\n", &pattern(1, 9999)]
    {
        let mut bad = Client::of(&server);
        bad.send(Kind::Read, 0, 0, 4096, &[]).expect("it is taken");
        // The server may hang up in the middle.
        let _ = bad.stream().write_all(junk);
        assert!(is_closed(&mut bad));
        good.read(0, 4096).expect("a good client is served");
    }
    eventually("they are counted", || server.status().number("connections_dropped") == 4);
    server.stop();
}

#[test]
fn lengths_beyond_reason_are_refused() {
    let place = Place::new();
    let (server, mut good) = serve(&place);
    let memory = server.resident_bytes();
    let mut bad = Client::of(&server);
    for (kind, len) in
        [(0, u32::MAX), (0, 33 * MIB), (5, u32::MAX), (6, u32::MAX), (4, u32::MAX), (7, 1), (77, 1)]
    {
        let head = nbd::request(kind, 0, 5, 0, len);
        bad.stream().write_all(&head).expect("it is taken");
        let mut reply = [0; 16];
        bad.stream().read_exact(&mut reply).expect("it is answered");
        assert_ne!(reply[4..8], [0; 4], "command {kind} of {len} bytes succeeds");
    }
    bad.read(0, 4096).expect("and the connection goes on");
    // A payload that could as well never end: the server need not wait for its end.
    bad.stream().write_all(&nbd::request(1, 0, 6, 0, u32::MAX)).expect("it is taken");
    assert!(is_closed(&mut bad));
    good.read(0, 4096).expect("a good client is served");
    let grown = server.resident_bytes().saturating_sub(memory);
    assert!(grown < 80 << 20, "grew by {grown} bytes");
    server.stop();
}

/// Connections that stop in the middle of a request may stay; they only must not be in the way of others.
#[test]
fn half_a_request_does_not_delay_other_clients() {
    let place = Place::new();
    let (server, mut good) = serve(&place);
    let files = server.open_files();
    let request = nbd::request(Kind::Write as u16, 0, 1, 0, 100);
    let whole = [&request[..], &[1; 100]].concat();
    let halves: Vec<Client> = (1..whole.len())
        .map(|len| {
            let mut bad = Client::of(&server);
            bad.stream().write_all(&whole[..len]).expect("it is taken");
            bad
        })
        .collect();
    good.write(0, 0, &pattern(52, 4096)).expect("a good client is served");
    assert!(good.read(0, 4096).expect("a good client is served") == pattern(52, 4096));
    drop(halves);
    eventually("no descriptor left behind", || server.open_files() <= files);
    // Half a write has written nothing.
    assert!(good.read(0, 4096).expect("a good client is served") == pattern(52, 4096));
    server.stop();
}
