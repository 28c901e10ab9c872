//! Connections, against real sockets.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use common::{TempDir, filled, next, pattern, small_ring};
use weir_uring::{Completion, Ring};

fn connection(ring: &mut Ring) -> (weir_uring::Socket, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (ring.add_socket(ours).unwrap(), theirs)
}

#[test]
fn accepts_unix_and_tcp_also_from_non_blocking_listeners() {
    let dir = TempDir::new();
    let mut ring = small_ring();
    let path = dir.path().join("socket");
    let unix = UnixListener::bind(&path).unwrap();
    unix.set_nonblocking(true).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let unix = ring.add_socket(unix).unwrap();
    let tcp = ring.add_socket(tcp).unwrap();
    ring.accept(&unix, 1);
    ring.accept(&tcp, 2);
    let mut clients: (UnixStream, TcpStream) =
        (UnixStream::connect(&path).unwrap(), TcpStream::connect(address).unwrap());
    let mut seen = [false; 2];
    let mut connections = Vec::new();
    for _ in 0..2 {
        let Completion::Accepted { token, result } = next(&mut ring) else { panic!() };
        seen[token as usize - 1] = true;
        connections.push(ring.add_socket(result.unwrap()).unwrap());
    }
    for connection in &connections {
        let mut hello = ring.message();
        hello.push_bytes(b"hello");
        ring.send(connection, hello, 9);
        assert!(matches!(next(&mut ring), Completion::Sent { token: 9, result: Ok(()) }));
    }
    assert_eq!(seen, [true; 2]);
    let mut bytes = [[0; 5]; 2];
    clients.0.read_exact(&mut bytes[0]).unwrap();
    clients.1.read_exact(&mut bytes[1]).unwrap();
    assert_eq!(bytes, [*b"hello"; 2]);
}

#[test]
fn a_receive_gets_bytes_and_then_the_end_of_stream() {
    let mut ring = small_ring();
    let (ours, mut theirs) = connection(&mut ring);
    theirs.write_all(b"one").unwrap();
    theirs.write_all(b"two").unwrap();
    ring.receive(&ours, 7);
    let Completion::Received { token: 7, result } = next(&mut ring) else { panic!() };
    assert_eq!(&result.unwrap().unwrap()[..], b"onetwo");
    drop(theirs);
    ring.receive(&ours, 8);
    assert!(matches!(next(&mut ring), Completion::Received { token: 8, result: Ok(None) }));
}

#[test]
fn receives_straight_into_a_buffer() {
    let mut ring = small_ring();
    let (ours, mut theirs) = connection(&mut ring);
    let bytes = pattern(0, 300_000);
    let mut buffer = ring.pool().get(bytes.len()).unwrap();
    buffer[..100].copy_from_slice(&bytes[..100]);
    ring.receive_into(&ours, buffer, 100, 1);
    let writer = std::thread::spawn(move || {
        for part in bytes[100..].chunks(70_001) {
            theirs.write_all(part).unwrap();
        }
        (theirs, bytes)
    });
    let Completion::Filled { token: 1, buffer, result } = next(&mut ring) else { panic!() };
    result.unwrap();
    let (mut theirs, bytes) = writer.join().unwrap();
    assert!(buffer[..] == bytes);

    ring.receive_into(&ours, buffer, 299_990, 2);
    theirs.write_all(b"short").unwrap();
    drop(theirs);
    let Completion::Filled { token: 2, result, .. } = next(&mut ring) else { panic!() };
    assert_eq!(result.unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn gathers_and_continues_partial_sends() {
    let mut ring = small_ring();
    let (ours, mut theirs) = connection(&mut ring);
    let mut message = ring.message();
    let mut wanted = Vec::new();
    // 1,500 pieces are more vectors than one call takes, and 2 MB more than a socket holds.
    for turn in 0..500 {
        let header = [turn as u8; 16];
        message.push_bytes(&header);
        wanted.extend(header);
        if turn % 2 == 0 {
            let bytes = pattern(turn, 4096);
            message.push_buffer(filled(&ring, &bytes), 1..4095);
            wanted.extend(&bytes[1..4095]);
        } else {
            message.push_zeroes(3000);
            wanted.resize(wanted.len() + 3000, 0);
        }
    }
    message.push_zeroes(200_000);
    wanted.resize(wanted.len() + 200_000, 0);
    assert_eq!(message.len(), wanted.len());
    assert!(ring.pool().in_use() > 0);
    ring.send(&ours, message, 5);
    let reader = std::thread::spawn(move || {
        let mut found = vec![0; wanted.len()];
        theirs.read_exact(&mut found).unwrap();
        assert!(found == wanted);
    });
    assert!(matches!(next(&mut ring), Completion::Sent { token: 5, result: Ok(()) }));
    assert_eq!(ring.pool().in_use(), 0);
    reader.join().unwrap();
}

#[test]
fn a_send_to_a_closed_socket_is_an_error_not_a_signal() {
    let mut ring = small_ring();
    let (ours, theirs) = connection(&mut ring);
    drop(theirs);
    let mut message = ring.message();
    message.push_bytes(b"anyone?");
    ring.send(&ours, message, 1);
    let Completion::Sent { token: 1, result } = next(&mut ring) else { panic!() };
    assert_eq!(result.unwrap_err().kind(), ErrorKind::BrokenPipe);
}
