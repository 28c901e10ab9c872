//! Our own client: failures of a device are reported once to each connection that may have lost bytes, and at the end.

use std::fs;

use rustix::process::Signal;
use weir_tests::nbd::{Client, FUA, Kind};
use weir_tests::{LoopDevice, Place, Server, SmallFileSystem, eventually, pattern};

const MIB: u64 = 1 << 20;
const PIECE: usize = 64 << 10;
const EIO: u32 = 5;
const ENOSPC: u32 = 28;

/// The error of a request, 0 if it went well.
fn outcome(client: &mut Client, kind: Kind, flags: u16, offset: u64, bytes: &[u8]) -> u32 {
    client.send(kind, flags, offset, bytes.len() as u32, bytes).expect("it is taken");
    client.receive().expect("it is answered").error
}

fn flush(client: &mut Client) -> u32 {
    outcome(client, Kind::Flush, 0, 0, &[])
}

/// A durable write that finds no space has cost nothing but itself.
#[test]
fn a_durable_write_without_space_fails_alone() {
    let place = Place::new();
    let Some(small) = SmallFileSystem::new(&place, 2 * MIB) else { return };
    let image = small.hole("disk.img", 16 * MIB);
    let server = Server::image(&place, &image, &[]);
    let (mut writer, mut other) = (Client::of(&server), Client::of(&server));
    assert_eq!(outcome(&mut other, Kind::Write, 0, 0, &pattern(1, PIECE)), 0);
    let far = 8 * MIB;
    assert_eq!(outcome(&mut writer, Kind::Write, FUA, far, &vec![1; 4 << 20]), ENOSPC);
    for client in [&mut writer, &mut other, &mut Client::of(&server)] {
        assert_eq!([flush(client), flush(client)], [0, 0]);
    }
    let log = server.log();
    assert!(log.contains("WARN") && log.contains("No space left on device"), "{log}");
    small.resize(32 * MIB);
    assert_eq!(outcome(&mut writer, Kind::Write, FUA, far, &vec![1; 4 << 20]), 0);
    drop((writer, other));
    server.stop();
}

/// The kernel takes bytes of a block device into its page cache and cannot write them: one flush fails.
#[test]
fn a_failed_flush_is_reported_once_to_each_connection() {
    let place = Place::new();
    let Some(small) = SmallFileSystem::new(&place, 2 * MIB) else { return };
    let file = small.hole("disk.img", 16 * MIB);
    let Some(device) = LoopDevice::new(&file, 4096) else { return };
    let server = Server::image(&place, device.path(), &["--direct", "off"]);
    let (mut writer, mut other) = (Client::of(&server), Client::of(&server));
    assert_eq!(outcome(&mut writer, Kind::Write, 0, 0, &pattern(2, 4 << 20)), 0);
    let told = flush(&mut writer);
    assert!([EIO, ENOSPC].contains(&told), "{told}");
    assert_eq!(flush(&mut writer), 0, "once");
    small.resize(32 * MIB);
    assert_eq!(flush(&mut other), told, "its bytes may be among them");
    assert_eq!(flush(&mut other), 0, "once");
    assert_eq!(flush(&mut Client::of(&server)), 0, "it has written nothing before");
    assert_eq!(outcome(&mut writer, Kind::Write, FUA, 0, &pattern(3, 4 << 20)), 0);
    assert_eq!([flush(&mut writer), flush(&mut other)], [0, 0]);
    drop((writer, other));
    server.stop();
}

#[test]
fn a_full_file_system_is_enospc_through_the_cache() {
    let place = Place::new();
    let Some(small) = SmallFileSystem::new(&place, 2 * MIB) else { return };
    let image = small.hole("disk.img", 16 * MIB);
    let server = Server::image(&place, &image, &["--cache", "writeback", "--cache-size", "16M"]);
    let (mut writer, mut other) = (Client::of(&server), Client::of(&server));
    let bytes = pattern(4, 4 << 20);
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        let offset = (number * PIECE) as u64;
        assert_eq!(outcome(&mut writer, Kind::Write, 0, offset, piece), 0);
    }
    assert_eq!(flush(&mut writer), ENOSPC);
    assert_eq!(flush(&mut other), ENOSPC);
    // With room the next flush writes it, without a wait for the next retry.
    small.resize(32 * MIB);
    let told = [flush(&mut writer), flush(&mut writer)];
    assert!(told[0] == 0 || told[0] == ENOSPC, "{told:?}");
    assert_eq!(told[1], 0);
    assert!(fs::read(&image).expect("the image is there")[..bytes.len()] == bytes);
    drop((writer, other));
    server.stop();
}

/// Twelve MiB are acknowledged, and the file system takes four: these are written, the rest is named.
#[test]
fn lost_ranges_are_logged_at_the_end_and_all_others_written() {
    let place = Place::new();
    let Some(small) = SmallFileSystem::new(&place, 4 * MIB) else { return };
    let image = small.hole("disk.img", 16 * MIB);
    let server = Server::image(&place, &image, &["--cache", "writeback", "--cache-size", "16M"]);
    let mut client = Client::of(&server);
    let bytes = pattern(5, 12 << 20);
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        let offset = (number * PIECE) as u64;
        assert_eq!(outcome(&mut client, Kind::Write, 0, offset, piece), 0);
    }
    drop(client);
    let log = place.file("nbd.log");
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(1));
    let log = fs::read_to_string(log).expect("the log is there");
    let last = log.lines().last().expect("it has said something");
    assert!(last.contains("lost") && last.contains("No space left on device"), "{log}");
    let found = fs::read(&image).expect("the image is there");
    let written = |block: &usize| found[block * 4096..][..4096] == bytes[block * 4096..][..4096];
    let blocks = (0..bytes.len() / 4096).filter(written).count();
    assert!(blocks * 4096 >= 3 << 20, "only {blocks} blocks are written: {log}");
    let lost = bytes.len() - blocks * 4096;
    assert!(last.contains(&format!("{lost} bytes")), "{lost} bytes are not there: {last}");
}

#[test]
fn a_last_flush_that_fails_ends_with_an_error() {
    let place = Place::new();
    let Some(small) = SmallFileSystem::new(&place, 2 * MIB) else { return };
    let file = small.hole("disk.img", 16 * MIB);
    let Some(device) = LoopDevice::new(&file, 4096) else { return };
    let server = Server::image(&place, device.path(), &["--direct", "off"]);
    let mut client = Client::of(&server);
    assert_eq!(outcome(&mut client, Kind::Write, 0, 0, &pattern(6, 4 << 20)), 0);
    drop(client);
    let log = place.file("nbd.log");
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(1));
    let log = fs::read_to_string(log).expect("the log is there");
    let last = log.lines().last().expect("it has said something");
    assert!(last.contains("the last flush failed"), "{log}");
}

/// A client that fails a thousand requests makes a few lines, and they count the others.
#[test]
fn a_flood_of_failures_makes_few_log_lines() {
    let place = Place::new();
    let Some(small) = SmallFileSystem::new(&place, MIB) else { return };
    let image = small.hole("disk.img", 64 * MIB);
    let server = Server::image(&place, &image, &[]);
    let mut client = Client::of(&server);
    let mut failed = 0;
    for number in 0..600 {
        let offset = number * PIECE as u64;
        failed += u32::from(outcome(&mut client, Kind::Write, 0, offset, &[1; PIECE]) == ENOSPC);
    }
    assert!(failed > 500);
    eventually("the log has it", || server.log().contains("No space left on device"));
    let lines = server.log().matches("No space left on device").count();
    assert!(lines <= 20, "{lines} lines for {failed} failures");
    drop(client);
    server.stop();
}
