//! Our own client, announcing much and sending nothing. The others are served on.

use std::io::Write;

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Server, pattern};

const MIB: u32 = 1 << 20;

/// As many payloads announced as there is memory for, none of them sent.
#[test]
fn promises_do_not_keep_others_from_writing() {
    let place = Place::new();
    let server = Server::image(&place, "memory:64M", &[]);
    let mut promising: Vec<Client> = (0..8).map(|_| Client::of(&server)).collect();
    for client in &mut promising {
        let head = nbd::request(Kind::Write as u16, 0, 1, 0, 32 * MIB);
        client.stream().write_all(&head).expect("it is taken");
        // So that the server has seen the head for certain: it takes a byte of payload only behind it.
        client.stream().write_all(&[1]).expect("it is taken");
    }
    let mut good = Client::of(&server);
    for round in 0..20 {
        let bytes = pattern(round, 64 << 10);
        good.write(0, 0, &bytes).expect("a good client may write");
        assert!(good.read(0, 64 << 10).expect("and read") == bytes);
    }
    server.stop();
}
