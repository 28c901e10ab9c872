//! Our own client: a device with a write-back cache. Write-back is charged to the writer; flushed bytes are durable.

use std::fs;
use std::os::unix::net::UnixStream;

use weir_tests::nbd::{Client, Kind};
use weir_tests::{LoopDevice, Place, Server, eventually, pattern, peer};

const PIECE: usize = 64 << 10;
const EIO: u32 = 5;

/// Connects to one of several exports.
fn client(server: &Server, export: &str) -> Client {
    let stream = UnixStream::connect(server.socket()).expect("it listens");
    Client::open(stream, export).expect("the export is there")
}

/// Writes `bytes` in pieces, one after the other.
fn write(client: &mut Client, bytes: &[u8]) {
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        client.write(0, (number * PIECE) as u64, piece).expect("it is taken");
    }
}

/// The error of a flush, 0 if it went well.
fn flush(client: &mut Client) -> u32 {
    client.send(Kind::Flush, 0, 0, 0, &[]).expect("it is taken");
    client.receive().expect("it is answered").error
}

#[test]
fn write_back_is_charged_to_the_writer_and_delays_no_other_cgroup() {
    let place = Place::new();
    let server = Server::config(
        &place,
        r#"
        [device.disk]
        path = "memory:32M"
        cache = "writeback"
        cache_size = "16M"
        [cgroup."/slow"]
        "io.max" = "disk wbps=512K"
        "io.burst" = "disk wbps=64K"
        [cgroup."/free"]
        [export.slow]
        device = "disk"
        cgroup = "/slow"
        range = "0..16M"
        [export.free]
        device = "disk"
        cgroup = "/free"
        range = "16M..32M"
        "#,
    );
    let (mut slow, mut free) = (client(&server, "slow"), client(&server, "free"));
    let bytes = pattern(3, 4 << 20);
    // Eight seconds' worth, at once.
    write(&mut slow, &bytes);
    slow.send(Kind::Flush, 0, 0, 0, &[]).expect("it is taken");
    write(&mut free, &bytes);
    assert_eq!(flush(&mut free), 0);
    let status = server.status();
    let (theirs, ours) = (status.cgroup("/slow"), status.cgroup("/free"));
    assert_eq!(ours.number("writeback/dirty_bytes"), 0);
    assert_eq!(ours.number("write_bytes"), 4 << 20);
    assert!(theirs.number("writeback/dirty_bytes") > 0, "{theirs:?}");
    let dirty = status.cgroup("/").number("writeback/dirty_bytes");
    assert_eq!(dirty, theirs.number("writeback/dirty_bytes"), "the root has all of it");
    assert_eq!(status.number("cache/dirty_bytes"), dirty);
    // Waiting writes do not stop reads.
    let mut other = client(&server, "slow");
    let there = other.read(0, bytes.len() as u32).expect("it is there");
    assert!(there == bytes);
    let last = bytes.len() - PIECE;
    assert!(other.read(last as u64, PIECE as u32).expect("it is there") == bytes[last..]);
    assert!(server.status().cgroup("/slow").number("writeback/hit_ios") > 0);
    server.set("/slow", "io.max", "disk wbps=max");
    assert_eq!(slow.receive().expect("the flush is over").error, 0);
    let slow = server.status().cgroup("/slow");
    assert_eq!((slow.number("writeback/dirty_bytes"), slow.number("write_bytes")), (0, 4 << 20));
    assert_eq!(slow.number("writeback/flush_waits"), 1);
    assert!(slow.number("writeback/flush_wait_ns") > ours.number("writeback/flush_wait_ns"));
    assert!(server.status().balances());
    server.stop();
}

/// Two exports of the same blocks. The flush of one needs blocks of the other, which has a limit of its own.
#[test]
fn a_flush_goes_past_the_limits_of_an_export_that_shares_its_blocks() {
    let place = Place::new();
    let server = Server::config(
        &place,
        r#"
        [device.disk]
        path = "memory:32M"
        cache = "writeback"
        cache_size = "16M"
        [cgroup."/slow"]
        "io.max" = "disk wbps=256K"
        "io.burst" = "disk wbps=64K"
        [cgroup."/free"]
        [export.slow]
        device = "disk"
        cgroup = "/slow"
        [export.free]
        device = "disk"
        cgroup = "/free"
        "#,
    );
    let (mut slow, mut free) = (client(&server, "slow"), client(&server, "free"));
    // Eight seconds' worth.
    let bytes = pattern(3, 2 << 20);
    write(&mut slow, &bytes);
    free.write(0, 16 << 20, &[7; 4096]).expect("it is taken");
    assert_eq!(flush(&mut free), 0);
    let theirs = server.status().cgroup("/slow");
    assert_eq!(theirs.number("writeback/dirty_bytes"), 0, "{theirs:?}");
    assert_eq!(theirs.number("write_bytes"), 2 << 20, "its owner is charged");
    assert_eq!(server.status().cgroup("/free").number("write_bytes"), 4096);
    // It owes nearly all of that, so it may have no more dirty than before: the rest waits.
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        let offset = (8 << 20) + (number * PIECE) as u64;
        slow.send(Kind::Write, 0, offset, PIECE as u32, piece).expect("it is taken");
    }
    let theirs = server.status().cgroup("/slow");
    let taken = theirs.number("writeback/dirty_bytes") + theirs.number("write_bytes");
    assert!(taken < 4 << 20, "{theirs:?}");
    assert!(theirs.number("writeback/waiting_ios") > 0, "{theirs:?}");
    server.set("/slow", "io.max", "disk wbps=max");
    while slow.pending() > 0 {
        assert_eq!(slow.receive().expect("it is answered").error, 0);
    }
    assert!(server.status().balances());
    server.stop();
}

#[test]
fn adjacent_blocks_are_written_back_in_one_request() {
    let place = Place::new();
    let image = place.hole("disk.img", 4 << 20);
    let server = Server::image(&place, &image, &["--cache", "writeback"]);
    let mut client = Client::of(&server);
    let bytes = pattern(4, 1 << 20);
    // Every fourth block first.
    for turn in [3, 0, 2, 1] {
        for number in (turn..256).step_by(4) {
            let piece = &bytes[number * 4096..][..4096];
            client.write(0, number as u64 * 4096, piece).expect("it is taken");
        }
    }
    assert_eq!(flush(&mut client), 0);
    let main = server.status().cgroup("/main");
    assert_eq!(main.number("writeback/written_bytes"), 1 << 20);
    assert_eq!(main.number("writeback/written_ios"), 2, "512 KiB at once: {main:?}");
    assert_eq!(main.number("writeback/coalesced_ios"), 254);
    assert!(fs::read(&image).expect("the image is there")[..1 << 20] == bytes);
    server.stop();
}

#[test]
fn writes_beyond_the_cache_wait_and_complete() {
    let place = Place::new();
    let image = place.hole("disk.img", 16 << 20);
    let flags = ["--cache", "writeback", "--cache-size", "1M", "--max", "wbps=64M"];
    let server = Server::image(&place, &image, &flags);
    let mut client = Client::of(&server);
    let bytes = pattern(5, 16 << 20);
    let mut unanswered = 0;
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        let (offset, len) = ((number * PIECE) as u64, piece.len() as u32);
        client.send(Kind::Write, 0, offset, len, piece).expect("it is taken");
        unanswered += 1;
        if unanswered == 32 {
            assert_eq!(client.receive().expect("it is answered").error, 0);
            unanswered -= 1;
        }
        if number % 64 == 63 {
            assert!(server.status().number("cache/dirty_bytes") <= 1 << 20);
        }
    }
    while client.pending() > 0 {
        assert_eq!(client.receive().expect("it is answered").error, 0);
    }
    assert!(server.status().cgroup("/main").number("writeback/waits") > 0);
    assert!(client.read(0, 16 << 20).expect("it is there") == bytes);
    assert_eq!(flush(&mut client), 0);
    assert!(fs::read(&image).expect("the image is there") == bytes);
    server.stop();
}

#[test]
fn a_failed_write_back_fails_the_next_flush_of_each_connection() {
    let place = Place::new();
    let image = place.hole("disk.img", 1 << 20);
    let Some(blockdev) = peer("blockdev") else { return };
    let Some(device) = LoopDevice::new(&image, 512) else { return };
    let path = device.path().to_str().expect("a plain name").to_owned();
    let server = Server::image(&place, device.path(), &["--cache", "writeback"]);
    let (mut writer, mut other) = (Client::of(&server), Client::of(&server));
    let bytes = pattern(6, PIECE);
    writer.write(0, 0, &bytes).expect("it is taken");
    blockdev.run(&["--setro", &path]);
    assert_eq!(flush(&mut writer), EIO);
    assert_eq!(flush(&mut other), EIO, "it has not been told yet");
    let failed = server.status().cgroup("/main").number("writeback/failed_ios");
    assert!(failed > 0);
    // Nothing is lost yet.
    assert!(other.read(0, PIECE as u32).expect("it is in the cache") == bytes);
    blockdev.run(&["--setrw", &path]);
    // Failures since the last flush count, though no request waited for them.
    flush(&mut writer);
    assert_eq!(flush(&mut writer), 0);
    flush(&mut other);
    assert_eq!(flush(&mut other), 0);
    assert_eq!(server.status().number("cache/dirty_bytes"), 0);
    server.stop();
    drop(device);
    assert!(fs::read(&image).expect("the image is there")[..PIECE] == bytes);
}

#[test]
fn dirty_bytes_are_bounded_by_ten_seconds_of_the_limit() {
    let place = Place::new();
    let flags = ["--cache", "writeback", "--max", "wbps=200K wiops=200"];
    let server = Server::image(&place, "memory:16M", &flags);
    let mut client = Client::of(&server);
    for number in 0..64 {
        let piece = pattern(number, PIECE);
        client.send(Kind::Write, 0, number * PIECE as u64, PIECE as u32, &piece).expect("taken");
    }
    let dirty = |server: &Server| server.status().number("cache/dirty_bytes");
    eventually("it has its share", || dirty(&server) > 1_900_000);
    assert!(dirty(&server) <= 200 * 1024 * 10);
    // Raised while writes wait.
    server.set("/main", "io.max", "disk wbps=400K");
    server.set("/main", "io.max", "disk wbps=max wiops=max");
    while client.pending() > 0 {
        assert_eq!(client.receive().expect("it is answered").error, 0);
    }
    assert_eq!(flush(&mut client), 0);
    assert_eq!(client.read(0, PIECE as u32).expect("it is there"), pattern(0, PIECE));
    server.stop();
}

#[test]
fn sigterm_writes_back_every_dirty_block() {
    let place = Place::new();
    let image = place.hole("disk.img", 8 << 20);
    let limits = ["--max", "wbps=1M", "--burst", "64K", "--cache", "writeback"];
    let server = Server::image(&place, &image, &limits);
    let mut client = Client::of(&server);
    let bytes = pattern(7, 8 << 20);
    write(&mut client, &bytes);
    eventually("it is all in the cache", || server.status().number("cache/dirty_bytes") > 4 << 20);
    drop(client);
    server.stop();
    assert!(fs::read(&image).expect("the image is there") == bytes);
}

#[test]
fn zeroes_and_trims_replace_cached_blocks() {
    let place = Place::new();
    let image = place.filled("disk.img", &pattern(8, 256 << 10));
    let server = Server::image(&place, &image, &["--cache", "writeback"]);
    let mut client = Client::of(&server);
    let mut wanted = pattern(8, 256 << 10);
    let mut write = |client: &mut Client, at: usize, len: usize, seed: u64| {
        let bytes = pattern(seed, len);
        client.write(0, at as u64, &bytes).expect("it is taken");
        wanted[at..at + len].copy_from_slice(&bytes);
    };
    // Parts of blocks, some of them written twice, some zeroed, one durable in the midst.
    write(&mut client, 1000, 70_000, 1);
    write(&mut client, 3000, 17, 2);
    client.call(Kind::WriteZeroes, 0, 5000, 9000).expect("zeroed");
    write(&mut client, 6000, 100, 3);
    let durable = pattern(9, 5000);
    client.write(weir_tests::nbd::FUA, 60_001, &durable).expect("written");
    write(&mut client, 61_000, 10, 4);
    client.call(Kind::Trim, 0, 200_000, 10_000).expect("trimmed");
    let mut zeroed = wanted.clone();
    zeroed[5000..14_000].fill(0);
    zeroed[6000..6100].copy_from_slice(&pattern(3, 100));
    zeroed[60_001..65_001].copy_from_slice(&durable);
    zeroed[61_000..61_010].copy_from_slice(&pattern(4, 10));
    let check = |found: &[u8], what: &str| {
        let differs = (0..zeroed.len())
            .filter(|at| !(200_000..210_000).contains(at))
            .find(|&at| found[at] != zeroed[at]);
        assert_eq!(differs, None, "{what}");
    };
    check(&client.read(0, 256 << 10).expect("it is there"), "before a flush");
    assert_eq!(flush(&mut client), 0);
    check(&client.read(0, 256 << 10).expect("it is there"), "after a flush");
    check(&fs::read(&image).expect("the image is there"), "in the image");
    server.stop();
}
