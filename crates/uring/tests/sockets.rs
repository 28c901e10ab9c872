//! Connections, against real sockets.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use common::{filled, next, pattern, small_ring};
use weir_uring::{Completion, Ring};

fn connection(ring: &mut Ring) -> (weir_uring::Socket, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (ring.add_socket(ours).unwrap(), theirs)
}

#[test]
fn a_connection_that_does_not_block_is_taken_too() {
    let mut ring = small_ring();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(true).unwrap();
    let connection = ring.add_socket(accepted).unwrap();
    // Nothing has come yet: a descriptor that does not block would answer at once.
    ring.receive(&connection, 1);
    ring.wait(Some(0)).unwrap();
    assert!(ring.poll_completion().is_none());
    client.write_all(b"hello").unwrap();
    let Completion::Received { token: 1, result } = next(&mut ring) else { panic!() };
    assert_eq!(&result.unwrap().unwrap()[..], b"hello");
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
