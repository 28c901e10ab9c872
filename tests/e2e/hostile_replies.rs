//! Our own client, sending requests without end and reading no reply: unsent replies stop the reading of requests.

use std::io::Write;
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_tests::nbd::{self, Client};
use weir_tests::{Place, Server, eventually};

const REQUEST_BYTES: u64 = 28;
/// More than sockets and a bounded server take: 224 MB of requests, 320 MB of replies.
const REQUESTS: u64 = 8 << 20;
const EACH: u64 = 4096;

/// Sends `head` over and over until the server takes no more, while another client reads.
fn floods(what: &str, flags: &[&str], head: &[u8]) {
    let place = Place::new();
    let server = Server::image(&place, "memory:64M", flags);
    let mut good = Client::of(&server);
    let mut bad = Client::of(&server);
    good.read(0, 4096).expect("a good client is served");
    let before = server.resident_bytes();
    let sent = AtomicU64::new(0);
    let stream = bad.stream().try_clone().expect("a socket can be shared");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let some = head.repeat(EACH as usize);
            while sent.load(Ordering::Relaxed) < REQUESTS && (&stream).write_all(&some).is_ok() {
                sent.fetch_add(EACH, Ordering::Relaxed);
            }
        });
        let mut seen = 0;
        eventually("the server takes no more", || {
            (0..200).for_each(|_| drop(good.read(0, 4096).expect("a good client is served")));
            let before = std::mem::replace(&mut seen, sent.load(Ordering::Relaxed));
            seen == before && seen > 0
        });
        let grown = server.resident_bytes().saturating_sub(before);
        stream.shutdown(Shutdown::Both).expect("it is open");
        assert!(seen < REQUESTS, "{what}: all of {} bytes are taken", REQUESTS * REQUEST_BYTES);
        assert!(grown < 32 << 20, "{what}: grew by {grown} bytes");
    });
    good.read(0, 4096).expect("a good client is served");
    server.stop();
}

#[test]
fn unread_error_replies_stop_reading_from_their_client() {
    floods("an unknown command", &[], &nbd::request(99, 0, 1, 0, 0));
    floods("reads past the end", &["--max", "riops=100"], &nbd::request(0, 0, 1, u64::MAX, 4096));
}

#[test]
fn unread_short_replies_stop_reading_from_their_client() {
    floods("flushes", &[], &nbd::request(nbd::Kind::Flush as u16, 0, 1, 0, 0));
    floods("cached flushes", &["--cache", "writeback"], &nbd::request(3, 0, 1, 0, 0));
    floods("prefetches", &[], &nbd::request(nbd::Kind::Cache as u16, 0, 1, 0, 4096));
}
