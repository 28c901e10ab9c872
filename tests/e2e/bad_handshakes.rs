//! Our own client, misbehaving before it has an export. It costs itself only.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use weir_tests::nbd::{self, Client};
use weir_tests::{Place, Server, eventually, pattern};

/// Reads until the server closes the connection.
fn read_to_end(stream: &mut UnixStream) {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            // With a timeout on the socket a signal to the process ends the wait: of another test, for one.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Closed with bytes of ours unread.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the server does not close the connection: {error}"),
        }
    }
}

/// Sends `bytes`; the server may hang up in the middle.
fn send(stream: &mut UnixStream, bytes: &[u8]) {
    match stream.write_all(bytes) {
        Err(error)
            if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) =>
        {
            panic!("the server takes nothing: {error}")
        }
        _ => {}
    }
}

fn hello(rest: &[&[u8]]) -> Vec<u8> {
    [&nbd::CLIENT_FLAGS.to_be_bytes(), &rest.concat()[..]].concat()
}

/// The head of an option that announces `len` bytes of data.
fn announced(number: u32, len: u32) -> Vec<u8> {
    let head = [&nbd::OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &len.to_be_bytes()];
    head.concat()
}

/// Invalid handshakes, with their names.
fn rubbish() -> Vec<(&'static str, Vec<u8>)> {
    let mut long_name = vec![0xff, 0xff, 0xff, 0xff];
    long_name.resize(100, b'x');
    vec![
        ("a request for a page", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("zeroes", vec![0; 1 << 20]),
        ("noise", pattern(50, 1 << 20)),
        ("unknown client flags", 0x8000_0003u32.to_be_bytes().to_vec()),
        ("a wrong option magic", hello(&[&[0; 16]])),
        ("a name longer than its option", {
            let mut bytes = hello(&[&nbd::option(nbd::OPT_GO, &long_name)]);
            // Continues to negotiate, which the server may allow; then aborts.
            bytes.extend(nbd::option(2, &[]));
            bytes
        }),
        ("options without end", hello(&vec![&nbd::option(3, &[])[..]; 20_000])),
        ("unknown options without end", hello(&vec![&nbd::option(99, &[1, 2, 3])[..]; 20_000])),
        ("an export that is not there, the old way", hello(&[&nbd::option(1, b"nope")])),
    ]
}

#[test]
fn a_connection_that_sends_garbage_is_closed() {
    let place = Place::new();
    let flags = ["--listen", "127.0.0.1:0"];
    let server = Server::image(&place, "memory:1M", &flags);
    let mut good = Client::of(&server);
    good.write(0, 0, &pattern(51, 4096)).expect("a good client is served");
    let tcp = server.tcp_uri();
    let (files, memory) = (server.open_files(), server.resident_bytes());
    for round in 0..5 {
        for (what, bytes) in rubbish() {
            for mut stream in [nbd::dial(server.socket()), nbd::dial_tcp(&tcp)] {
                eprintln!("round {round}: {what}");
                // Answers are read beside it: some of this is long enough to be answered while it is sent.
                let mut reader = stream.try_clone().expect("a socket can be shared");
                std::thread::scope(|scope| {
                    scope.spawn(|| send(&mut stream, &bytes));
                    read_to_end(&mut reader);
                });
                assert!(good.read(0, 4096).expect("a good client is served") == pattern(51, 4096));
            }
        }
    }
    eventually("no descriptor left behind", || server.open_files() <= files);
    let grown = server.resident_bytes().saturating_sub(memory);
    assert!(grown < 16 << 20, "grew by {grown} bytes");
    server.stop();
}

/// Connections that stop in the middle of a handshake: the others go on, and the place they take is not for ever.
#[test]
fn a_silent_connection_is_closed() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &["--listen", "127.0.0.1:0"]);
    let tcp = server.tcp_uri();
    let (files, memory) = (server.open_files(), server.resident_bytes());
    let whole = hello(&[&nbd::go("")]);
    let mut silent = Vec::new();
    for len in 0..whole.len() {
        for mut stream in [nbd::dial(server.socket()), nbd::dial_tcp(&tcp)] {
            stream.write_all(&whole[..len]).expect("the server listens");
            silent.push(stream);
        }
    }
    // Options with endless data: neither kept nor waited for.
    for (number, len) in [(nbd::OPT_GO, u32::MAX), (0x1234, 1 << 30)] {
        let mut stream = nbd::dial(server.socket());
        send(&mut stream, &hello(&[&announced(number, len), &vec![0; 8 << 20]]));
        silent.push(stream);
    }
    let grown = server.resident_bytes().saturating_sub(memory);
    assert!(grown < 16 << 20, "grew by {grown} bytes");
    let mut good = Client::of(&server);
    for _ in 0..100 {
        good.read(0, 4096).expect("a good client is served");
    }
    // Half closed: it will never say more, but could listen.
    for stream in silent.iter().step_by(3) {
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    }
    for stream in &mut silent {
        read_to_end(stream);
    }
    good.read(0, 4096).expect("a good client is served");
    drop(good);
    eventually("no descriptor left behind", || server.open_files() <= files);
    assert_eq!(server.status().number("connections"), 0);
    server.stop();
}
