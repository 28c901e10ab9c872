//! Thousands of connections and requests, many of them cut off in the middle: nothing may stay behind. One test, alone
//! in its process, because it counts the process's descriptors.

mod common;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use common::{TempDir, configs, filled};
use weir_uring::{Backend, Completion, DirectMode, Durability, OpenOptions, Ring, Socket};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Knuth's MMIX generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

struct Peer {
    socket: Option<Socket>,
    theirs: UnixStream,
}

#[test]
fn a_dropped_ring_leaks_no_descriptor_or_mapping() {
    let dir = TempDir::new();
    let path = dir.file("image", 1 << 20);
    let before = descriptors();
    for (seed, config) in configs().iter().enumerate() {
        let mut ring = Ring::new(config).unwrap();
        churn(&mut ring, &path, seed as u64);
        drop(ring);
        assert_eq!(descriptors(), before, "after ring {seed}");
    }
}

fn churn(ring: &mut Ring, path: &std::path::Path, seed: u64) {
    let mut random = Random(seed);
    let options = OpenOptions { direct: DirectMode::Auto, ..OpenOptions::default() };
    let disk = ring.attach(Backend::open(path, options).unwrap());
    let (mut peers, mut next_token) = (HashMap::new(), 0u64);
    let (mut closed, mut requests) = (0, 0u32);
    while closed < 400 {
        while peers.len() < 20 {
            let (ours, theirs) = UnixStream::pair().unwrap();
            theirs.set_nonblocking(true).unwrap();
            let socket = ring.add_socket(ours).unwrap();
            ring.receive(&socket, next_token);
            peers.insert(next_token, Peer { socket: Some(socket), theirs });
            next_token += 1;
        }
        // Something happens at one of them.
        let at = random.below(20) as usize;
        let token = *peers.keys().nth(at).unwrap();
        let peer = peers.get_mut(&token).unwrap();
        let mut hung_up = false;
        match random.below(6) {
            0 => {
                if let Some(socket) = peer.socket.take() {
                    ring.close(socket, token);
                }
            }
            1 => hung_up = true,
            2 => drop(peer.theirs.read(&mut [0; 100_000])),
            3 => {
                if let (Some(socket), Some(buffer)) = (&peer.socket, ring.pool().get(50_000)) {
                    // Two receives at once: whichever gets the bytes; both must end.
                    ring.receive_into(socket, buffer, 0, token);
                }
            }
            _ => drop(peer.theirs.write(&[1; 1000])),
        }
        if hung_up {
            // Their end goes; ours sees the end, an error, or is in the middle of something.
            let (theirs, _) = UnixStream::pair().unwrap();
            peer.theirs = theirs;
        }
        let offset = random.below(1 << 19);
        if let Some(buffer) = ring.pool().get(1 + random.below(20_000) as usize) {
            requests += 1;
            match random.below(3) {
                0 => ring.read(&disk, offset, buffer, u64::MAX),
                1 => ring.write(&disk, offset, buffer, Durability::Volatile, u64::MAX),
                _ => ring.trim(&disk, offset, 4096, Durability::Volatile, u64::MAX),
            }
        }
        ring.wait(Some(0)).unwrap();
        while let Some(completion) = ring.poll_completion() {
            match completion {
                Completion::Received { token, result } => {
                    let peer = peers.get_mut(&token).expect("only Closed comes after close");
                    let socket = peer.socket.as_ref().expect("only Closed comes after close");
                    match result {
                        Ok(Some(bytes)) => {
                            let mut message = ring.message();
                            message.push_bytes(&bytes);
                            if ring.pool().get(4096).is_some() {
                                message.push_buffer(filled(ring, &[2; 4096]), 0..4096);
                            }
                            message.push_zeroes(random.below(300_000) as usize);
                            ring.send(socket, message, token);
                            ring.receive(socket, token);
                        }
                        Ok(None) | Err(_) => ring.close(peer.socket.take().unwrap(), token),
                    }
                }
                Completion::Closed { token } => {
                    assert!(peers.remove(&token).unwrap().socket.is_none());
                    closed += 1;
                }
                Completion::Read { result, .. }
                | Completion::Written { result, .. }
                | Completion::Done { result, .. } => {
                    result.unwrap();
                    requests -= 1;
                }
                Completion::Sent { token, .. } | Completion::Filled { token, .. } => {
                    assert!(peers[&token].socket.is_some(), "only Closed comes after close");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    // Close what is left; then everything must be back.
    for (token, peer) in &mut peers {
        if let Some(socket) = peer.socket.take() {
            ring.close(socket, *token);
        }
    }
    while !peers.is_empty() || requests > 0 {
        match ring.poll_completion() {
            Some(Completion::Closed { token }) => drop(peers.remove(&token)),
            Some(
                Completion::Read { .. } | Completion::Written { .. } | Completion::Done { .. },
            ) => {
                requests -= 1;
            }
            Some(other) => panic!("{other:?}"),
            None => ring.wait(None).unwrap(),
        }
    }
    assert_eq!(ring.pool().in_use(), 0);
    // What waits for wake-ups.
    assert_eq!(ring.in_flight(), 1);
}
