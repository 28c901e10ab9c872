//! Our own client, asking for far more than its limit lets through. Other tenants go on.

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Server, eventually, pattern};

const MIB: u32 = 1 << 20;

/// One tenant under limits that let next to nothing through, and one without.
fn serve(place: &Place) -> (Server, Client) {
    let server = Server::config(
        place,
        r#"
        [device.disk]
        path = "memory:64M"
        [cgroup."/limited"]
        "io.max" = "disk wbps=16K riops=1"
        [cgroup."/free"]
        [export.limited]
        device = "disk"
        cgroup = "/limited"
        [export.free]
        device = "disk"
        cgroup = "/free"
        "#,
    );
    let good = Client::open(nbd::dial(server.socket()), "free").expect("an export");
    (server, good)
}

/// `connections` of the limited tenant ask until the server takes no more, while the free one goes on.
fn one_goes_on(
    connections: u64,
    kind: Kind,
    len: u32,
    count: u64,
    mut good: impl FnMut(&mut Client),
) {
    let place = Place::new();
    let (server, mut client) = serve(&place);
    std::thread::scope(|scope| {
        for number in 0..connections {
            let server = &server;
            scope.spawn(move || {
                let stream = nbd::dial(server.socket());
                let mut client = Client::open(stream, "limited").expect("an export");
                let payload =
                    if kind == Kind::Write { pattern(number, len as usize) } else { Vec::new() };
                // Stops where the server takes no more, until the limit is lifted.
                for _ in 0..count {
                    client.send(kind, 0, 0, len, &payload).expect("it is taken at last");
                }
                while client.pending() > 0 {
                    assert_eq!(client.receive().expect("it is answered").error, 0);
                }
            });
        }
        let mut waiting = 0;
        eventually("the server takes no more", || {
            good(&mut client);
            let before = std::mem::replace(&mut waiting, server.status().number("throttled"));
            waiting == before && waiting >= connections
        });
        (0..20).for_each(|_| good(&mut client));
        server.set("/limited", "io.max", "wbps=max riops=max");
    });
    assert!(server.status().is_idle() && server.status().balances());
    server.stop();
}

/// More payload than there is memory for.
#[test]
fn a_backlog_of_writes_does_not_stop_other_writers() {
    let bytes = pattern(80, 64 << 10);
    one_goes_on(20, Kind::Write, MIB, 16, |good| {
        good.write(0, 0, &bytes).expect("a good client may write");
    });
}

/// More requests than there are places in the queue.
#[test]
fn a_backlog_of_reads_does_not_stop_other_clients() {
    one_goes_on(80, Kind::Read, 512, 1024, |good| {
        good.read(0, 4096).expect("a good client may read");
        good.write(0, 0, &[1; 4096]).expect("a good client may write");
        good.call(Kind::Flush, 0, 0, 0).expect("a good client may flush");
    });
}
