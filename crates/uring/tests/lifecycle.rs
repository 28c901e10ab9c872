//! Ends: closing, dropping, waking, waiting, running out.

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use common::{TempDir, filled, next, pattern, rings, small_ring};
use weir_uring::{Backend, Completion, Durability, OpenOptions, Ring, Socket, Waker, monotonic_ns};

fn connection(ring: &mut Ring) -> (Socket, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (ring.add_socket(ours).unwrap(), theirs)
}

/// A send that a peer that does not read never lets finish.
fn stuck_send(ring: &mut Ring, socket: &Socket, token: u64) {
    let mut message = ring.message();
    message.push_buffer(filled(ring, &pattern(0, 1 << 20)), 0..1 << 20);
    message.push_zeroes(16 << 20);
    ring.send(socket, message, token);
}

#[test]
fn closing_completes_each_operation_in_flight_once() {
    for mut ring in rings() {
        let (socket, mut theirs) = connection(&mut ring);
        ring.receive(&socket, 1);
        let buffer = ring.pool().get(100_000).unwrap();
        ring.receive_into(&socket, buffer, 10, 2);
        stuck_send(&mut ring, &socket, 3);
        let before = ring.in_flight();
        ring.wait(Some(0)).unwrap();
        assert!(ring.poll_completion().is_none());
        ring.close(socket, 4);
        assert!(matches!(next(&mut ring), Completion::Closed { token: 4 }));
        assert_eq!(ring.in_flight(), before - 3);
        assert_eq!(ring.pool().in_use(), 0);
        // The peer reads what had gone out, then the end.
        let read = theirs.read_to_end(&mut Vec::new()).unwrap();
        assert!(read > 0 && read < 17 << 20, "{read} bytes");
    }
}

#[test]
fn closing_at_once_also_ends_what_the_kernel_has_not_seen() {
    for mut ring in rings() {
        let (socket, theirs) = connection(&mut ring);
        ring.receive(&socket, 1);
        stuck_send(&mut ring, &socket, 2);
        ring.close(socket, 3);
        assert!(matches!(next(&mut ring), Completion::Closed { token: 3 }));
        assert_eq!(ring.pool().in_use(), 0);
        drop(theirs);
        // The place is used again, by a socket that has nothing to do with the old one.
        let (socket, mut theirs) = connection(&mut ring);
        theirs.write_all(b"new").unwrap();
        ring.receive(&socket, 5);
        let Completion::Received { token: 5, result } = next(&mut ring) else { panic!() };
        assert_eq!(&result.unwrap().unwrap()[..], b"new");
        ring.close(socket, 6);
        assert!(matches!(next(&mut ring), Completion::Closed { token: 6 }));
    }
}

#[test]
fn a_released_socket_lives_on_with_its_other_descriptor() {
    for mut ring in rings() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut other = ours.try_clone().unwrap();
        let socket = ring.add_socket(ours).unwrap();
        ring.release(socket, 1);
        assert!(matches!(next(&mut ring), Completion::Closed { token: 1 }));
        theirs.write_all(b"still here").unwrap();
        let mut bytes = [0; 10];
        other.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"still here");
    }
}

#[test]
fn dropping_the_ring_takes_every_buffer_back() {
    let dir = TempDir::new();
    for mut ring in rings() {
        let path = dir.file("image", 1 << 20);
        let disk = ring.attach(Backend::open(&path, OpenOptions::default()).unwrap());
        let pool = ring.pool().clone();
        let (socket, _theirs) = connection(&mut ring);
        stuck_send(&mut ring, &socket, 1);
        ring.receive(&socket, 2);
        for block in 0..64 {
            ring.read(&disk, block * 4096, pool.get(4096).unwrap(), block);
            let bytes = filled(&ring, &[1; 5000]);
            ring.write(&disk, block * 5000, bytes, Durability::Volatile, block);
        }
        ring.flush(&disk, 3);
        let kept = pool.get(4096).unwrap();
        drop(ring);
        assert_eq!(pool.in_use(), 4096);
        drop(kept);
        assert_eq!(pool.in_use(), 0);
    }
}

#[test]
fn receives_wait_for_a_shared_buffer() {
    for mut ring in rings() {
        // The ring has four buffers.
        let mut peers: Vec<(Socket, UnixStream)> = (0..12).map(|_| connection(&mut ring)).collect();
        for (token, (socket, theirs)) in peers.iter_mut().enumerate() {
            theirs.write_all(&[token as u8; 3]).unwrap();
            ring.receive(socket, token as u64);
        }
        let mut held = Vec::new();
        let mut seen = [false; 12];
        for _ in 0..3 {
            while held.len() < 4 {
                let Completion::Received { token, result } = next(&mut ring) else { panic!() };
                let bytes = result.unwrap().unwrap();
                assert_eq!(bytes[..], [token as u8; 3]);
                assert!(!std::mem::replace(&mut seen[token as usize], true));
                held.push(bytes);
            }
            ring.wait(Some(0)).unwrap();
            assert!(ring.poll_completion().is_none(), "there was no buffer left");
            held.clear();
        }
        assert_eq!(seen, [true; 12]);
    }
}

#[test]
fn closing_a_socket_that_waits_for_a_buffer() {
    let mut ring = small_ring();
    let mut peers: Vec<(Socket, UnixStream)> = (0..6).map(|_| connection(&mut ring)).collect();
    let mut held = Vec::new();
    for (token, (socket, theirs)) in peers.iter_mut().enumerate() {
        theirs.write_all(b"x").unwrap();
        ring.receive(socket, token as u64);
        if token < 4 {
            held.push(next(&mut ring));
        }
    }
    ring.wait(Some(0)).unwrap();
    assert!(ring.poll_completion().is_none());
    let (socket, _theirs) = peers.remove(4);
    ring.close(socket, 44);
    assert!(matches!(next(&mut ring), Completion::Closed { token: 44 }));
    held.clear();
    assert!(matches!(next(&mut ring), Completion::Received { token: 5, result: Ok(Some(_)) }));
}

#[test]
fn idle_connections_hold_no_buffers() {
    let mut ring = small_ring();
    let mut peers: Vec<(Socket, UnixStream)> = (0..200).map(|_| connection(&mut ring)).collect();
    for (token, (socket, _)) in peers.iter().enumerate() {
        ring.receive(socket, token as u64);
    }
    ring.wait(Some(0)).unwrap();
    assert!(ring.poll_completion().is_none());
    // Four buffers, and any of two hundred connections can be heard.
    for token in [199, 0, 100, 57, 3, 198] {
        peers[token].1.write_all(b"here").unwrap();
        let Completion::Received { token: from, result } = next(&mut ring) else { panic!() };
        assert_eq!(from, token as u64);
        assert_eq!(&result.unwrap().unwrap()[..], b"here");
    }
    assert_eq!(ring.pool().in_use(), 0);
}

/// The completion queue of a small ring has 32 places.
#[test]
fn more_completions_at_once_than_the_queue_holds() {
    for mut ring in rings() {
        let (sockets, theirs): (Vec<Socket>, Vec<UnixStream>) =
            (0..200).map(|_| connection(&mut ring)).unzip();
        for (token, socket) in sockets.iter().enumerate() {
            ring.receive(socket, token as u64);
        }
        ring.wait(Some(0)).unwrap();
        drop(theirs);
        let mut seen = [false; 200];
        for _ in 0..200 {
            let Completion::Received { token, result: Ok(None) } = next(&mut ring) else {
                panic!()
            };
            assert!(!std::mem::replace(&mut seen[token as usize], true));
        }
    }
}

#[test]
fn other_threads_wake_the_ring() {
    for mut ring in rings() {
        for wakers in [1, 5] {
            let threads: Vec<_> = (0..wakers)
                .map(|_| {
                    let waker: Waker = ring.waker();
                    std::thread::spawn(move || waker.wake())
                })
                .collect();
            assert!(matches!(next(&mut ring), Completion::Woken));
            for thread in threads {
                thread.join().unwrap();
            }
            // Wake-ups that came later than the first was seen count as one more at most.
            ring.wait(Some(0)).unwrap();
            while let Some(completion) = ring.poll_completion() {
                assert!(matches!(completion, Completion::Woken));
                ring.wait(Some(0)).unwrap();
            }
        }
    }
    let waker = small_ring().waker();
    waker.wake();
}

#[test]
fn waiting_ends_at_its_deadline_and_not_before() {
    for mut ring in rings() {
        for ahead in [0, 300_000, 1_500_000] {
            let deadline = monotonic_ns() + ahead;
            ring.wait(Some(deadline)).unwrap();
            assert!(monotonic_ns() >= deadline);
            assert!(ring.poll_completion().is_none());
        }
        ring.wait(Some(0)).unwrap();
    }
}
