//! Our own client: one socket, several devices; connections go from the thread that shook hands to their device's.

use std::io::Write;

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Server, eventually, pattern};

const MIB: usize = 1 << 20;

/// Three devices and the exports of `SIZES`.
fn serve(place: &Place) -> Server {
    let b = place.hole("b.img", 4 << 20);
    Server::config(
        place,
        &format!(
            r#"
            listen = "127.0.0.1:0"
            [device.a]
            path = "memory:1M"
            [device.b]
            path = {b:?}
            [device.c]
            path = "emulated:null,latency=50us,size=1M"
            [cgroup."/tenants/one"]
            [cgroup."/tenants/two"]
            [export.a]
            device = "a"
            cgroup = "/tenants/one"
            [export.b1]
            device = "b"
            cgroup = "/tenants/one"
            range = "1M..2M"
            [export.b2]
            device = "b"
            cgroup = "/tenants/two"
            range = "2M.."
            [export.c]
            device = "c"
            cgroup = "/tenants/two"
            "#
        ),
    )
}

const SIZES: [(&str, usize); 4] = [("a", MIB), ("b1", MIB), ("b2", 2 * MIB), ("c", MIB)];

#[test]
fn every_export_has_its_own_bytes() {
    let place = Place::new();
    let server = serve(&place);
    let bytes = |number: usize| pattern(30 + number as u64, SIZES[number].1);
    for (number, (name, size)) in SIZES.into_iter().enumerate() {
        let mut client = Client::open(nbd::dial(server.socket()), name).expect("an export");
        assert_eq!(client.size(), size as u64, "{name}");
        client.write(nbd::FUA, 0, &bytes(number)).expect("it can be written");
        client.read(size as u64 - 1, 2).expect_err("nothing behind its end");
    }
    let tcp = server.uris().iter().find(|uri| uri.starts_with("nbd://")).expect("a TCP port");
    for (number, (name, size)) in SIZES.into_iter().enumerate() {
        for stream in [nbd::dial(server.socket()), nbd::dial_tcp(tcp)] {
            let mut client = Client::open(stream, name).expect("an export");
            assert!(
                client.read(0, size as u32).expect("it can be read") == bytes(number),
                "{name}"
            );
        }
    }
    server.stop();
    let image = std::fs::read(place.file("b.img")).expect("it is there");
    assert!(image[..MIB] == vec![0; MIB] && image[MIB..2 * MIB] == bytes(1));
    assert!(image[2 * MIB..] == bytes(2));
}

/// Requests in the packet of the handshake arrive at the other device, too.
#[test]
fn a_connection_handed_to_another_device_thread_loses_no_byte() {
    let place = Place::new();
    let server = serve(&place);
    let payload = pattern(40, 100_000);
    for name in SIZES.map(|(name, _)| name) {
        for piece in [usize::MAX, 50_000, 130] {
            let head = nbd::request(Kind::Write as u16, 0, 7, 512, payload.len() as u32);
            let read = nbd::request(Kind::Read as u16, 0, 8, 0, 1);
            let hello = [&nbd::CLIENT_FLAGS.to_be_bytes()[..], &nbd::go(name)].concat();
            let everything = [&hello[..], &head, &payload, &read].concat();
            let mut stream = nbd::dial(server.socket());
            for piece in everything.chunks(piece.min(everything.len())) {
                stream.write_all(piece).expect("the server takes it");
            }
            let mut client = Client::accepted(stream).expect("a handshake");
            let mut answers = [0; 33];
            std::io::Read::read_exact(client.stream(), &mut answers).expect("two answers");
            // The read's one byte follows its head.
            let mut cookies = vec![answers[15], answers[31]];
            if answers[15] == 8 {
                cookies[1] = answers[32];
            }
            cookies.sort_unstable();
            assert_eq!(cookies, [7, 8], "{name}");
            assert!(client.read(512, payload.len() as u32).expect("it is there") == payload);
        }
    }
    server.stop();
}

#[test]
fn connections_handed_over_leak_no_descriptor() {
    let place = Place::new();
    let server = serve(&place);
    let files = server.open_files();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..50 {
                    let (name, _) = SIZES[(worker + round) % SIZES.len()];
                    let stream = nbd::dial(server.socket());
                    let mut client = Client::open(stream, name).expect("an export");
                    client.read(0, 4096).expect("it can be read");
                }
            });
        }
    });
    eventually("no connection left", || {
        server.devices().iter().all(|device| device.number("connections") == 0)
    });
    eventually("no descriptor left", || server.open_files() <= files);
    assert!(server.devices().iter().all(|device| device.balances() && device.is_idle()));
    server.stop();
}

#[test]
fn each_tenant_is_counted_on_each_device() {
    let place = Place::new();
    let server = serve(&place);
    for (name, _) in SIZES {
        let mut client = Client::open(nbd::dial(server.socket()), name).expect("an export");
        for number in 0..5 {
            client.read(number * 4096, 4096).expect("it can be read");
        }
    }
    let devices = server.devices();
    let reads = |device: usize, cgroup: &str| devices[device].cgroup(cgroup).number("read_ios");
    assert_eq!([reads(0, "/tenants/one"), reads(0, "/tenants")], [5, 5]);
    assert_eq!([1, 2].map(|_| 5), [reads(1, "/tenants/one"), reads(1, "/tenants/two")]);
    assert_eq!([reads(1, "/"), reads(2, "/tenants/two")], [10, 5]);
    server.stop();
}
