//! Our own client: how a server ends.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{FrozenFileSystem, Place, Server, eventually, pattern};

/// Whether the server has closed the connection, in good order or with something of ours unread.
fn is_closed(error: &std::io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Waits until no new client is let in: the server has noticed the signal.
fn is_draining(server: &Server) {
    eventually("nobody is let in", || match UnixStream::connect(server.socket()) {
        Err(_) => true,
        // In the queue of a listener that is about to close.
        Ok(stream) => Client::open(stream, "").is_err(),
    });
}

#[test]
fn requests_in_flight_finish_after_a_signal() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let device = "emulated:null,latency=300ms,size=16M";
        let server = Server::image(&place, device, &["--depth", "8"]);
        let mut client = Client::of(&server);
        // More than `depth`: some are at the device, some wait for it.
        for number in 0..20 {
            client.send(Kind::Write, 0, number * 4096, 4096, &[1; 4096]).expect("it is taken");
            client.send(Kind::Read, 0, number * 4096, 4096, &[]).expect("it is taken");
        }
        let mut idle = Client::of(&server);
        eventually("all requests are inside", || {
            let status = server.status();
            status.number("in_flight") + status.number("ready") > 30
        });
        server.signal(signal);
        while client.pending() > 0 {
            let reply = client.receive().expect("what was under way is answered");
            assert_eq!(reply.error, 0);
        }
        let over = client.receive().expect_err("and nothing after it");
        assert!(is_closed(&over), "{over}");
        let over = idle.read(0, 512).expect_err("an idle connection is closed");
        assert!(is_closed(&over) || over.kind() == ErrorKind::Other, "{over}");
        let (socket, control) = (server.socket().to_owned(), server.control().to_owned());
        let log = server.log();
        assert_eq!(server.ended().code(), Some(0), "{log}");
        assert!(!socket.exists() && !control.exists(), "its sockets are still there");
    }
}

#[test]
fn limits_are_lifted_at_the_end() {
    for (limiter, cache) in [
        ("pace", "none"),
        ("pace", "writeback"),
        ("token", "none"),
        ("leaky", "none"),
        ("slice:6.12", "none"),
    ] {
        let place = Place::new();
        let image = place.hole("disk.img", 1 << 20);
        // At these limits the requests take minutes.
        let flags = ["--max", "wiops=1 riops=1", "--limiter", limiter, "--cache", cache];
        let server = Server::image(&place, &image, &flags);
        let mut client = Client::of(&server);
        let bytes = pattern(70, 100 * 4096);
        for (number, block) in bytes.chunks(4096).enumerate() {
            let offset = number as u64 * 4096;
            client.send(Kind::Write, nbd::FUA, offset, 4096, block).expect("it is taken");
            client.send(Kind::Read, 0, 512 << 10, 4096, &[]).expect("it is taken");
        }
        client.send(Kind::Flush, 0, 0, 0, &[]).expect("it is taken");
        eventually("most of them wait", || server.status().number("throttled") > 100);
        server.signal(Signal::TERM);
        while client.pending() > 0 {
            assert_eq!(client.receive().expect("it is answered").error, 0, "{limiter} {cache}");
        }
        let log = server.log_when_ended(0);
        assert!(log.contains("every request was finished"), "{log}");
        let image = std::fs::read(&image).expect("it is there");
        assert!(image[..bytes.len()] == bytes, "{limiter} {cache}");
    }
}

#[test]
fn requests_beyond_the_drain_time_are_cut_and_counted() {
    let place = Place::new();
    let device = "emulated:null,latency=1min,size=16M";
    let server = Server::image(&place, device, &["--depth", "8", "--drain-time", "100ms"]);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::of(&server)).collect();
    for client in &mut clients {
        for number in 0..10 {
            client.send(Kind::Write, 0, number * 4096, 4096, &[1; 4096]).expect("it is taken");
            client.send(Kind::Read, 0, number * 4096, 4096, &[]).expect("it is taken");
        }
    }
    eventually("all are inside", || {
        let status = server.status();
        status.number("in_flight") + status.number("ready") == 60
    });
    server.signal(Signal::TERM);
    for client in &mut clients {
        while client.pending() > 0 {
            let reply = client.receive().expect("what is cut is answered");
            assert_eq!(reply.error, nbd::ESHUTDOWN);
        }
        let over = client.receive().expect_err("and then the connection is closed");
        assert!(is_closed(&over), "{over}");
    }
    let log = server.log_when_ended(1);
    let last = log.lines().last().expect("it has said something");
    assert!(last.contains("requests cut at the end: 60, of them at the device: 8"), "{log}");
}

#[test]
fn requests_that_the_device_never_returns_are_counted() {
    let place = Place::new();
    let Some(file_system) = FrozenFileSystem::new(&place) else { return };
    let image = file_system.path().join("disk.img");
    std::fs::write(&image, vec![0; 1 << 20]).expect("there is room");
    let server = Server::image(&place, &image, &["--drain-time", "100ms"]);
    let mut client = Client::of(&server);
    file_system.freeze();
    client.send(Kind::Write, 0, 0, 4096, &[1; 4096]).expect("it is taken");
    eventually("it is at the device", || server.status().number("in_flight") == 1);
    server.signal(Signal::TERM);
    assert_eq!(client.receive().expect("what is cut is answered").error, nbd::ESHUTDOWN);
    eventually("the server gives up", || server.log().contains("does not answer"));
    // The kernel has it until it is done.
    file_system.thaw();
    let log = server.log_when_ended(1);
    assert!(log.contains("left=1") && log.contains("of them at the device: 1"), "{log}");
}

/// A client that reconnects repeats them at the next server.
#[test]
fn requests_after_the_signal_are_not_answered() {
    let place = Place::new();
    let device = "emulated:null,latency=500ms,size=16M";
    let server = Server::image(&place, device, &[]);
    let mut client = Client::of(&server);
    client.send(Kind::Read, 0, 0, 4096, &[]).expect("it is taken");
    eventually("it is at the device", || server.status().number("in_flight") == 1);
    server.signal(Signal::TERM);
    is_draining(&server);
    // Its first request is under way, so the connection is still open; unless the machine is so slow that the half
    // second is over by now.
    let late = client.send(Kind::Write, 0, 0, 4096, &[9; 4096]);
    loop {
        match client.receive() {
            Ok(reply) => {
                assert_eq!(reply.error, 0);
                assert_ne!(Some(reply.cookie), late.as_ref().ok().copied(), "it came too late");
            }
            Err(error) if is_closed(&error) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_second_signal_ends_at_once() {
    for (first, second, code) in
        [(Signal::TERM, Signal::TERM, 143), (Signal::INT, Signal::INT, 130)]
    {
        let place = Place::new();
        // The end of this is not waited for.
        let flags = ["--drain-time", "1h"];
        let server = Server::image(&place, "emulated:null,latency=1min,size=1M", &flags);
        let mut client = Client::of(&server);
        for number in 0..1000 {
            client.send(Kind::Read, 0, number * 512, 512, &[]).expect("it is taken");
        }
        eventually("all of them wait", || {
            let status = server.status();
            status.number("in_flight") + status.number("ready") == 1000
        });
        server.signal(first);
        is_draining(&server);
        // Too soon after the first it does not count.
        eventually("its sockets are gone", || {
            server.signal(second);
            !server.socket().exists() && !server.control().exists()
        });
        let log = server.log_when_ended(code);
        assert!(log.contains("requests are cut") && log.contains("requests=1000"), "{log}");
        while client.pending() > 0 {
            assert_eq!(client.receive().expect("it is told").error, nbd::ESHUTDOWN);
        }
    }
}

/// As `timeout` does it: to its child, and then to the group that the child is in, too.
#[test]
fn two_signals_within_a_moment_count_as_one() {
    let place = Place::new();
    let device = "emulated:null,latency=20ms,size=1M";
    let server = Server::image(&place, device, &["--depth", "1"]);
    let mut client = Client::of(&server);
    for number in 0..50 {
        client.send(Kind::Read, 0, number * 512, 512, &[]).expect("it is taken");
    }
    eventually("most of them wait", || server.status().number("ready") > 30);
    for signal in [Signal::TERM, Signal::INT, Signal::TERM] {
        server.signal(signal);
    }
    while client.pending() > 0 {
        assert_eq!(client.receive().expect("it is answered").error, 0);
    }
    assert_eq!(server.ended().code(), Some(0));
}

/// A client that is sending when the signal comes may send all of it, and has the reply to what came before.
#[test]
fn requests_that_are_sent_at_the_signal_are_read_and_not_answered() {
    let place = Place::new();
    let server = Server::image(&place, "emulated:null,latency=300ms,size=64M", &[]);
    let mut client = Client::of(&server);
    client.send(Kind::Read, 0, 0, 4096, &[]).expect("it is taken");
    eventually("it is at the device", || server.status().number("in_flight") == 1);
    server.signal(Signal::TERM);
    is_draining(&server);
    let block = vec![7; 1 << 20];
    for number in 0..20 {
        client.send(Kind::Write, 0, number << 20, 1 << 20, &block).expect("it is read");
    }
    assert_eq!(client.receive().expect("it was taken before").error, 0);
    let over = client.receive().expect_err("the others were not");
    assert!(is_closed(&over), "{over}");
    assert_eq!(server.ended().code(), Some(0));
}

/// A client that takes nothing does not keep the server from ending.
#[test]
fn a_slow_reader_does_not_delay_the_end() {
    let place = Place::new();
    let server = Server::image(&place, "memory:64M", &[]);
    let mut slow = Client::of(&server);
    for number in 0..30 {
        slow.send(Kind::Read, 0, number << 20, 1 << 20, &[]).expect("it is taken");
    }
    let mut promising = Client::of(&server);
    let head = nbd::request(Kind::Write as u16, 0, 1, 0, 1 << 20);
    std::io::Write::write_all(promising.stream(), &head).expect("it is taken");
    Client::of(&server).read(0, 512).expect("a good client is served");
    server.stop();
}

#[test]
fn a_server_that_is_to_exit_last_ends_when_its_last_client_leaves() {
    let place = Place::new();
    let image = place.hole("disk.img", 1 << 20);
    let server = Server::image(&place, &image, &["--exit-last", "--max", "wiops=10"]);
    // A connection that chooses no export is no client.
    drop(UnixStream::connect(server.socket()));
    let mut first = Client::of(&server);
    let second = Client::of(&server);
    drop(second);
    eventually("one is left", || server.status().number("connections") == 1);
    for number in 0..20 {
        first.send(Kind::Write, 0, number * 4096, 4096, &[7; 4096]).expect("it is taken");
    }
    first.send(Kind::Disconnect, 0, 0, 0, &[]).expect("it is taken");
    drop(first);
    let log = server.log_when_ended(0);
    assert!(log.contains("the last client has left"), "{log}");
    assert!(std::fs::read(&image).expect("it is there")[..20 * 4096] == [7; 20 * 4096]);
}
