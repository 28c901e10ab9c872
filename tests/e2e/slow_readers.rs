//! Our own client, asking for much and taking nothing. The others are served on.

use weir_tests::nbd::{self, Client, Kind};
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
fn a_few_slow_readers_cost_little_memory() {
    let place = Place::new();
    let server = Server::image(&place, "memory:64M", &[]);
    work(&server, 4, 10);
    let before = server.resident_bytes();
    let slow: Vec<Client> = (0..4).map(|_| greedy(&server, 100)).collect();
    work(&server, 8, 50);
    // Each may hold 16 MiB, a sixteenth of the memory for requests.
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 100 << 20, "grew by {grown} bytes");
    assert_eq!(server.status().number("connections_dropped"), 0);
    // They are slow, not hostile: they still get their replies.
    for mut client in slow {
        while client.pending() > 0 {
            assert_eq!(client.receive().expect("it is answered").data.len(), MIB as usize);
        }
    }
    server.stop();
}

/// More than there is memory for: they get less, and cost the other connections of their client nothing.
#[test]
fn many_slow_readers_of_one_client_get_less_memory() {
    let place = Place::new();
    let server = Server::image(&place, "memory:64M", &[]);
    let slow: Vec<Client> = (0..24).map(|_| greedy(&server, 20)).collect();
    work(&server, 8, 20);
    let resident = server.resident_bytes();
    assert!(resident < 512 << 20, "{resident} bytes");
    assert_eq!(server.status().number("connections_dropped"), 0);
    drop(slow);
    Client::of(&server).read(0, 32 * MIB).expect("all memory is free again");
    server.stop();
}

/// Many clients that read nothing do not delay others either.
#[test]
fn many_slow_readers_do_not_delay_other_clients() {
    let place = Place::new();
    let mut config = String::from("[device.disk]\npath = \"memory:64M\"\n");
    for name in (0..=40).map(|number| format!("c{number}")) {
        // A cgroup of its own makes another client of the same process.
        config += &format!("[cgroup.\"/{name}\"]\n");
        config += &format!("[export.{name}]\ndevice = \"disk\"\ncgroup = \"/{name}\"\n");
    }
    let server = Server::config(&place, &config);
    let connect = |name: &str| Client::open(nbd::dial(server.socket()), name).expect("an export");
    let slow: Vec<Client> = (1..=40)
        .map(|number| {
            let mut client = connect(&format!("c{number}"));
            for block in 0..20 {
                client.send(Kind::Read, 0, block * u64::from(MIB), MIB, &[]).expect("it is taken");
            }
            client
        })
        .collect();
    let mut good = connect("c0");
    for round in 0..50 {
        let bytes = pattern(round, 1 << 20);
        good.write(0, 0, &bytes).expect("a good client is served");
        assert!(good.read(0, MIB).expect("a good client is served") == bytes);
    }
    // They want more than they get, but no other does: they may stay, and take it later.
    assert_eq!(server.status().number("connections_dropped"), 0);
    for mut client in slow {
        while client.pending() > 0 {
            assert_eq!(client.receive().expect("it is answered").data.len(), MIB as usize);
        }
    }
    server.stop();
}
