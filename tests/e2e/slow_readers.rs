//! Our own client, asking for much and taking nothing. The others are served on.

use weir_tests::nbd::{Client, Kind};
use weir_tests::{Place, Server, pattern};

const MIB: u32 = 1 << 20;

/// Asks for `count` MiB and never reads an answer.
fn greedy(server: &Server, count: u64) -> Client {
    let mut client = Client::of(server);
    for number in 0..count {
        client.send(Kind::Read, 0, number % 32 * u64::from(MIB), MIB, &[]).expect("it is taken");
    }
    client
}

/// Several clients that write and read, each in a MiB of its own.
fn work(server: &Server, workers: u64, rounds: u64) {
    std::thread::scope(|scope| {
        for worker in 0..workers {
            scope.spawn(move || {
                let mut client = Client::of(server);
                for round in 0..rounds {
                    let bytes = pattern(worker * 1000 + round, 64 << 10);
                    let offset = (32 + worker) * u64::from(MIB) + round * 512;
                    client.write(0, offset, &bytes).expect("a good client is served");
                    assert!(
                        client.read(offset, 64 << 10).expect("a good client is served") == bytes
                    );
                }
            });
        }
    });
}

#[test]
fn a_few_cost_little() {
    let place = Place::new();
    let server = Server::image(&place, "memory:64M", &[]);
    work(&server, 4, 10);
    let before = server.resident_bytes();
    let slow: Vec<Client> = (0..4).map(|_| greedy(&server, 100)).collect();
    work(&server, 8, 50);
    // Each may hold 16 MiB, a sixteenth of what there is for requests.
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 100 << 20, "grew by {grown} bytes");
    assert_eq!(server.status().number("connections_dropped"), 0);
    // They are slow, not bad: what they asked for is still to be had.
    for mut client in slow {
        while client.pending() > 0 {
            assert_eq!(client.receive().expect("it is answered").data.len(), MIB as usize);
        }
    }
    server.stop();
}

/// More than there is memory for: those who take nothing make room for those who do.
#[test]
fn too_many_have_to_go() {
    let place = Place::new();
    let server = Server::image(&place, "memory:64M", &[]);
    let slow: Vec<Client> = (0..24).map(|_| greedy(&server, 20)).collect();
    work(&server, 8, 20);
    assert!(server.status().number("connections_dropped") > 0);
    let resident = server.resident_bytes();
    assert!(resident < 512 << 20, "{resident} bytes");
    drop(slow);
    Client::of(&server).read(0, 32 * MIB).expect("all memory is free again");
    server.stop();
}
