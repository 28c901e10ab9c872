//! Our own client: durability of writes, FUA and flushes on each backend when the server is killed.
//!
//! One table: every backend, with a write-back cache and without, against every way to make something durable.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::process::Signal;
use weir_tests::nbd::{Client, FUA, Kind};
use weir_tests::{LoopDevice, Place, Server, pattern, weir};

use crate::disk_mount::Mounted;

const SIZE: u64 = 4 << 20;
/// Extents of each way: whole blocks and parts of them.
const START: usize = 10_000;
const LEN: usize = 100_000;
/// The part of it that a second request meets.
const MIDDLE: std::ops::Range<usize> = START + 30_000..START + 70_001;

/// Allowed bytes after the server was killed.
#[derive(Clone, Copy, Debug)]
enum Promise {
    /// The old or the new ones, each by itself.
    OldOrNew,
    New,
    /// Zeroes in the middle; around it the old or the new ones.
    ZeroesInside,
    /// Anything in the middle; around it the old or the new ones.
    AnythingInside,
    /// Those of a second write in the middle; around it the old or the new ones.
    SecondInside,
}

/// A way to write, and its promise.
type Way = (&'static str, fn(&mut Client, &mut Client, &[u8]), Promise);

fn write(client: &mut Client, flags: u16, at: usize, bytes: &[u8]) {
    client.write(flags, at as u64, bytes).expect("it is taken");
}

fn call(client: &mut Client, kind: Kind, flags: u16, at: usize, len: usize) {
    client.call(kind, flags, at as u64, len as u32).expect("it is done");
}

/// The bytes of the second write.
fn second() -> Vec<u8> {
    pattern(77, MIDDLE.len())
}

const WAYS: [Way; 7] = [
    ("plain", |one, _, new| write(one, 0, START, new), Promise::OldOrNew),
    ("FUA", |one, _, new| write(one, FUA, START, new), Promise::New),
    (
        "flush",
        |one, _, new| {
            write(one, 0, START, new);
            call(one, Kind::Flush, 0, 0, 0);
        },
        Promise::New,
    ),
    (
        "flush of another connection",
        |one, other, new| {
            write(one, 0, START, new);
            call(other, Kind::Flush, 0, 0, 0);
        },
        Promise::New,
    ),
    (
        "zeroes with FUA over what is not flushed",
        |one, other, new| {
            write(one, 0, START, new);
            call(other, Kind::WriteZeroes, FUA, MIDDLE.start, MIDDLE.len());
        },
        Promise::ZeroesInside,
    ),
    (
        "trim with FUA over what is not flushed",
        |one, other, new| {
            write(one, 0, START, new);
            call(other, Kind::Trim, FUA, MIDDLE.start, MIDDLE.len());
        },
        Promise::AnythingInside,
    ),
    (
        "FUA over what is not flushed",
        |one, other, new| {
            write(one, 0, START, new);
            write(other, FUA, MIDDLE.start, &second());
        },
        Promise::SecondInside,
    ),
];

/// Backend, its flags, and whether its bytes survive the server.
struct Backend {
    name: &'static str,
    path: PathBuf,
    flags: Vec<&'static str>,
    survives: bool,
}

fn backends(place: &Place, device: Option<&LoopDevice>) -> Vec<Backend> {
    let mut backends = Vec::new();
    let mut add = |name, path: PathBuf, flags, survives| {
        backends.push(Backend { name, path, flags, survives });
    };
    for &mode in place.direct_modes() {
        add("file", place.hole(&format!("{mode}.img"), SIZE), vec!["--direct", mode], true);
    }
    if let Some(device) = device {
        for mode in ["off", "on"] {
            add("block device", device.path().into(), vec!["--direct", mode], true);
        }
    }
    for (name, what) in [
        ("memory", "memory:4M"),
        ("emulated platters", "emulated:hdd7200,size=4M"),
        ("emulated flash", "emulated:ssd-nvme,size=4M"),
        ("emulated null", "emulated:null,size=4M"),
    ] {
        add(name, what.into(), Vec::new(), false);
    }
    backends
}

#[test]
fn every_backend_keeps_flushed_bytes_when_the_server_is_killed() {
    let place = Place::new();
    let under_loop = place.hole("loop.img", SIZE);
    let device = LoopDevice::new(&under_loop, 512);
    for backend in backends(&place, device.as_ref()) {
        for cache in [&[][..], &["--cache", "writeback"]] {
            for (number, (way, make, promise)) in WAYS.into_iter().enumerate() {
                let what = format!("{} {:?} {cache:?}: {way}", backend.name, backend.flags);
                let flags = [&backend.flags[..], cache].concat();
                let server = Server::image(&place, &backend.path, &flags);
                let (mut one, mut other) = (Client::of(&server), Client::of(&server));
                let old = pattern(number as u64, SIZE as usize);
                let new = pattern(100 + number as u64, LEN);
                write(&mut one, 0, 0, &old);
                call(&mut one, Kind::Flush, 0, 0, 0);
                make(&mut one, &mut other, &new);
                let seen = other.read(0, SIZE as u32).expect("it is there");
                check(&format!("{what}, before"), &seen, &old, &new, whole(promise));
                let log = server.log();
                server.kill();
                let server = Server::image(&place, &backend.path, &flags);
                let found = Client::of(&server).read(0, SIZE as u32).expect("it is there");
                if backend.survives {
                    check(&what, &found, &old, &new, promise);
                } else {
                    assert!(found.iter().all(|&byte| byte == 0), "{what}: memory is new");
                    assert!(log.contains("gone when the server ends"), "{what}: {log}");
                }
                assert_eq!(log.contains("gone when the server ends"), !backend.survives, "{what}");
                server.stop();
            }
        }
    }
}

/// Bytes that a read sees at once, and a crash may lose.
fn whole(promise: Promise) -> Promise {
    match promise {
        Promise::OldOrNew => Promise::New,
        other => other,
    }
}

#[track_caller]
fn check(what: &str, found: &[u8], old: &[u8], new: &[u8], promise: Promise) {
    let second = second();
    for (at, &byte) in found.iter().enumerate() {
        let is_new = (START..START + LEN).contains(&at).then(|| byte == new[at - START]);
        let inside = MIDDLE.contains(&at).then(|| at - MIDDLE.start);
        let is_kept = match (is_new, promise, inside) {
            (None, ..) => byte == old[at],
            (Some(is_new), Promise::New, _) => is_new,
            (_, Promise::ZeroesInside, Some(_)) => byte == 0,
            (_, Promise::AnythingInside, Some(_)) => true,
            (_, Promise::SecondInside, Some(inside)) => byte == second[inside],
            (Some(is_new), ..) => is_new || byte == old[at],
        };
        assert!(is_kept, "{what}: byte {at} is {byte}, by {promise:?}");
    }
}

/// A mounted disk has its bytes in the memory of its server: other processes see synced ones, until the server ends.
#[test]
fn a_mounted_disk_keeps_synced_bytes_while_its_server_lives() {
    let place = Place::new();
    type Write = fn(&File, &[u8]);
    let ways: [(&str, Write); 4] = [
        ("plain", |file, new| file.write_all_at(new, START as u64).expect("written")),
        ("fsync", |file, new| {
            file.write_all_at(new, START as u64).expect("written");
            file.sync_all().expect("synced");
        }),
        ("zeroes, then fsync", |file, _| {
            let mode = FallocateFlags::ZERO_RANGE;
            fallocate(file, mode, START as u64, LEN as u64).expect("zeroed");
            file.sync_all().expect("synced");
        }),
        ("a hole, then fsync", |file, _| {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(file, mode, START as u64, LEN as u64).expect("punched");
            file.sync_all().expect("synced");
        }),
    ];
    let Some(mounted) = Mounted::new(&place, &[]) else { return };
    for (number, (way, make)) in ways.into_iter().enumerate() {
        for flags in [OFlags::empty(), OFlags::DSYNC] {
            let old = pattern(number as u64, 200_000);
            let new = pattern(50 + number as u64, LEN);
            let flags = flags.bits().cast_signed();
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(flags);
            let file = options.open(mounted.file()).expect("it is there");
            file.write_all_at(&old, 0).expect("written");
            make(&file, &new);
            let mut found = vec![1; 200_000];
            let other = File::open(mounted.file()).expect("it is there");
            other.read_exact_at(&mut found, 0).expect("read");
            let inside = &found[START..START + LEN];
            match way {
                "plain" | "fsync" => assert!(inside == new, "{way}"),
                _ => assert!(inside.iter().all(|&byte| byte == 0), "{way}"),
            }
            assert!(found[..START] == old[..START] && found[START + LEN..] == old[START + LEN..]);
        }
    }
    mounted.signal(Signal::KILL);
    drop(mounted);
    let place = Place::new();
    let Some(mounted) = Mounted::new(&place, &[]) else { return };
    let mut found = vec![1; 200_000];
    let file = File::open(mounted.file()).expect("it is there");
    file.read_exact_at(&mut found, 0).expect("read");
    assert!(found.iter().all(|&byte| byte == 0), "memory is new");
}

/// In the lab nothing is stored, but a write that is to be durable takes the time of the medium, and a plain one does not.
#[test]
fn durable_writes_take_the_mediums_time_in_the_lab() {
    let place = Place::new();
    // Program time of the flash, and a track of the platters.
    for (disk, least_us) in [("ssd-nvme", 400.0), ("hdd7200", 1_000.0)] {
        let mean_us = |option: &str, kind: &str| {
            let job = format!(
                "[job]\nrw=randwrite\nbs=4k\nsize=64m\nnumber_ios=200\ndirect=1\nioengine=psync\n{option}\n"
            );
            let job = place.filled(&format!("{disk}-{option}.fio"), job.as_bytes());
            let ran = std::process::Command::new(weir())
                .args(["lab", "run"])
                .arg(&job)
                .args(["--disk", disk, "--format", "json"])
                .output()
                .expect("weir can be started");
            let text = String::from_utf8_lossy(&ran.stdout).into_owned();
            let report: serde_json::Value =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
            let mean = &report["jobs"][0][kind]["latency_us_mean"];
            mean.as_f64().unwrap_or_else(|| panic!("no mean of {kind}: {report:#}"))
        };
        let plain = mean_us("", "write");
        assert!(plain < least_us / 2.0, "{disk}: a plain write takes {plain} us");
        for option in ["sync=dsync", "sync=sync"] {
            let durable = mean_us(option, "write");
            assert!(durable > least_us, "{disk}, {option}: {durable} us");
        }
        assert!(mean_us("fsync=1", "sync") > least_us, "{disk}: fsync");
    }
}
