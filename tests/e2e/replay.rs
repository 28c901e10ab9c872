//! `weir replay`: the server gets the trace's requests, and nothing is written by mistake.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weir_tests::{LoopDevice, Place, Server, eventually, peer, wait, weir};

/// Result of a replay: exit status, report, and standard error.
struct Replayed {
    status: i32,
    report: Value,
    said: String,
}

impl Replayed {
    #[track_caller]
    fn number(&self, name: &str) -> u64 {
        let value = self.report.pointer(&format!("/{name}")).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("no number {name} in {:#}\n{}", self.report, self.said))
    }
}

/// `weir replay TRACE --to TARGET --format json FLAGS`, under way.
#[track_caller]
fn start(place: &Place, trace: &Path, to: &str, flags: &[&str]) -> Child {
    let file = |name| fs::File::create(place.file(name)).expect("a file can be made");
    Command::new(weir())
        .arg("replay")
        .arg(trace)
        .args(["--to", to, "--format", "json"])
        .args(flags)
        .stdin(Stdio::null())
        .stdout(file("replay.json"))
        .stderr(file("replay.log"))
        .spawn()
        .expect("it can be started")
}

/// Its end; only one at a time is at a place.
#[track_caller]
fn end(place: &Place, mut child: Child) -> Replayed {
    let status = wait(&mut child).expect("it ends");
    let read = |name| fs::read_to_string(place.file(name)).expect("it is there");
    let report = serde_json::from_str(&read("replay.json")).unwrap_or(Value::Null);
    let status = status.code().expect("no signal ends it");
    Replayed { status, report, said: read("replay.log") }
}

#[track_caller]
fn replay(place: &Place, trace: &Path, to: &str, flags: &[&str]) -> Replayed {
    end(place, start(place, trace, to, flags))
}

/// Two volumes, 40 requests each, a millisecond between them; the last of a volume is a write.
fn alibaba(place: &Place, writes: bool) -> PathBuf {
    let mut text = String::new();
    for index in 0..40_u64 {
        for volume in [7, 9] {
            let op = if writes && index == 39 { 'W' } else { 'R' };
            let offset = index * 4096 + volume * (1 << 30);
            text +=
                &format!("{volume},{op},{offset},4096,{}\n", 1_577_808_144_360_767 + index * 1000);
        }
        if index % 10 == 0 {
            text += "7,R,0,none,1\n";
        }
    }
    place.filled("alibaba.csv", text.as_bytes())
}

#[test]
fn replayed_reads_are_the_servers_reads() {
    let place = Place::new();
    let server = Server::image(&place, "emulated:null,latency=100us,size=16M", &[]);
    let trace = alibaba(&place, false);
    for time in ["original", "asap", "scaled:0.5"] {
        let before = server.status().cgroup("/main");
        let flags = ["--read-only", "--time", time];
        let replayed = replay(&place, &trace, server.uri(), &flags);
        assert_eq!(replayed.status, 0, "{}", replayed.said);
        assert_eq!(replayed.number("reads/requests"), 80);
        assert_eq!(replayed.number("reads/bytes"), 80 * 4096);
        assert_eq!(replayed.number("trace/bad_lines"), 4);
        assert_eq!(replayed.number("trace/streams"), 2);
        assert_eq!(replayed.number("trace/first_bad_lines/1/line"), 24);
        assert_eq!(replayed.number("target/size_bytes"), 16 << 20);
        // The volumes lie at 7 and 9 GiB.
        assert_eq!(replayed.number("wrapped"), 80);
        assert!(replayed.number("reads/latency_ns_p50") >= 100_000, "{:#}", replayed.report);
        assert!(replayed.number("reads/latency_ns_max") >= replayed.number("reads/latency_ns_p99"));
        assert_eq!(replayed.report["late"].is_null(), time == "asap");
        if time == "original" {
            assert!(replayed.number("elapsed_ns") >= 39_000_000);
        }
        let after = server.status().cgroup("/main");
        assert_eq!(after.number("read_ios") - before.number("read_ios"), 80);
        assert_eq!(after.number("read_bytes") - before.number("read_bytes"), 80 * 4096);
        assert_eq!(after.number("write_ios"), 0);
    }
    server.stop();
}

/// A dependent request is never beside its predecessor at the server.
#[test]
fn a_startup_trace_is_replayed_one_by_one() {
    let place = Place::new();
    let server = Server::image(&place, "emulated:null,latency=2ms,size=16M", &[]);
    let line = |index: u64| {
        format!("app-1 .000010 8 {} Rand -1 0 R {}.{:06} C\n", index * 64, 1, index * 10)
    };
    let trace = place.filled("app.trace", (0..25).map(line).collect::<String>().as_bytes());
    let flags = ["--read-only", "--time", "asap", "--loop", "2"];
    let replayed = replay(&place, &trace, server.uri(), &flags);
    assert_eq!((replayed.status, replayed.number("reads/requests")), (0, 50), "{}", replayed.said);
    assert_eq!(replayed.number("trace/passes"), 2);
    // Only the first of the second pass does not wait.
    assert!(replayed.number("elapsed_ns") >= 49 * 2_000_000, "{:#}", replayed.report);
    assert_eq!(server.status().cgroup("/main").number("read_ios"), 50);
    server.stop();
}

#[test]
fn replay_writes_only_with_write_and_not_to_a_used_device() {
    let place = Place::new();
    let server = Server::image(&place, "memory:16M", &[]);
    let uri = server.uri().to_owned();
    let trace = alibaba(&place, true);
    let counts = || {
        let main = server.status().cgroup("/main");
        (main.number("write_ios"), main.number("write_bytes"))
    };

    let refused = replay(&place, &trace, &uri, &[]);
    assert_eq!(refused.status, 2);
    assert!(refused.said.contains("alibaba.csv:83: this is a write"), "{}", refused.said);

    let left_out = replay(&place, &trace, &uri, &["--read-only", "--time", "asap"]);
    assert_eq!((left_out.status, left_out.number("left_out")), (0, 2), "{}", left_out.said);
    assert_eq!(left_out.number("reads/requests"), 78);
    assert_eq!(counts(), (0, 0));

    let written = replay(&place, &trace, &uri, &["--write", "--time", "asap"]);
    assert_eq!((written.status, written.number("writes/requests")), (0, 2), "{}", written.said);
    assert_eq!(counts(), (2, 2 * 4096));

    // Now there is something, within the first mebibyte.
    let refused = replay(&place, &trace, &uri, &["--write", "--time", "asap"]);
    assert_eq!(refused.status, 2);
    assert!(refused.said.contains("does not look empty"), "{}", refused.said);
    assert_eq!(counts(), (2, 2 * 4096));

    let forced = replay(&place, &trace, &uri, &["--write", "--force", "--time", "asap"]);
    assert_eq!(forced.status, 0, "{}", forced.said);
    assert_eq!(counts(), (4, 4 * 4096));
    server.stop();
}

/// Every operation, longer requests than are sent whole, and places that do not fit, on a file.
#[test]
fn a_replay_to_a_file_writes_what_the_trace_has() {
    let place = Place::new();
    let file = place.hole("target.img", 4 << 20);
    let iolog = "fio version 3 iolog\n0 /f add\n0 /f open\n\
                 1 /f write 0 8192\n2 /f write 2097152 1048577\n3 /f sync 0 0\n4 /f read 4194304 512\n\
                 5 /f trim 4096 4096\n6 /f write 0 8388608\n6 /f close\n";
    let trace = place.filled("all.iolog", iolog.as_bytes());
    let to = file.to_str().expect("a path of ours");
    // One after the other, so that the last write is the last.
    let replayed = replay(&place, &trace, to, &["--write", "--depth", "1"]);
    assert_eq!(replayed.status, 0, "{}", replayed.said);
    assert_eq!(replayed.number("writes/requests"), 3);
    assert_eq!(replayed.number("writes/bytes"), 8192 + 1_048_577 + (4 << 20));
    let others =
        ["reads", "discards", "flushes"].map(|kind| replayed.number(&format!("{kind}/requests")));
    assert_eq!(others, [1, 1, 1]);
    assert_eq!((replayed.number("wrapped"), replayed.number("clipped")), (1, 1));
    let bytes = fs::read(&file).expect("it is there");
    assert_eq!(bytes.len(), 4 << 20);
    let zeroes = bytes.chunks(4096).filter(|block| block.iter().all(|&byte| byte == 0)).count();
    assert_eq!(zeroes, 0, "all of it was written, after the trim");

    let refused = replay(&place, &trace, to, &["--write"]);
    assert_eq!(refused.status, 2, "{}", refused.said);
    let nowhere = replay(&place, &trace, "nowhere.img", &["--read-only"]);
    assert_eq!(nowhere.status, 1, "{}", nowhere.said);
    assert!(nowhere.said.contains("nowhere.img"), "{}", nowhere.said);
}

/// Past the page cache, in the device's own blocks; and not while another process has it.
#[test]
fn a_replay_to_a_block_device_opens_it_exclusively() {
    let place = Place::new();
    let image = place.hole("disk.img", 8 << 20);
    let Some(device) = LoopDevice::new(&image, 4096) else { return };
    let iolog =
        "fio version 2 iolog\n/f write 512 512\n/f read 4608 512\n/f trim 8192 4096\n/f sync\n";
    let trace = place.filled("small.iolog", iolog.as_bytes());
    let to = device.path().to_str().expect("a path of ours");

    // As a mounted file system holds it.
    let mut exclusive = fs::File::options();
    exclusive.read(true).custom_flags(OFlags::EXCL.bits().cast_signed());
    let held = exclusive.open(device.path()).expect("nobody has it");
    let refused = replay(&place, &trace, to, &["--write"]);
    assert_eq!(refused.status, 2, "{}", refused.said);
    assert!(refused.said.contains("is in use"), "{}", refused.said);
    assert!(fs::read(&image).expect("it is there").iter().all(|&byte| byte == 0));
    drop(held);

    let written = replay(&place, &trace, to, &["--write"]);
    assert_eq!(written.status, 0, "{}", written.said);
    let kinds = ["reads", "writes", "discards", "flushes"];
    assert_eq!(kinds.map(|kind| written.number(&format!("{kind}/requests"))), [1; 4]);
    assert_eq!((written.number("widened"), written.number("writes/bytes")), (2, 4096));
    let bytes = fs::read(&image).expect("it is there");
    let used = bytes.chunks(4096).map(|block| block.iter().any(|&byte| byte != 0));
    assert!(used.eq((0..2048).map(|block| block == 0)), "the first block and no other");
}

#[test]
fn an_interrupted_replay_reports_its_part() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &[]);
    // An hour between the two.
    let trace = place.filled("long.csv", b"1,R,0,512,0\n1,R,512,512,3600000000\n");
    let child = start(&place, &trace, server.uri(), &[]);
    eventually("the first is served", || server.status().cgroup("/main").number("read_ios") == 1);
    kill_process(Pid::from_child(&child), Signal::INT).expect("it waits for the second");
    let replayed = end(&place, child);
    assert_eq!(replayed.status, 130, "{}", replayed.said);
    assert_eq!(replayed.report["ended"], "signal");
    assert_eq!((replayed.number("issued"), replayed.number("reads/requests")), (1, 1));
    server.stop();
}

/// A server that goes away ends a replay, and does not hang it.
#[test]
fn a_replay_ends_when_its_server_is_gone() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &[]);
    let trace = place.filled("long.csv", b"1,R,0,512,0\n1,R,512,512,3600000000\n");
    let child = start(&place, &trace, server.uri(), &[]);
    eventually("the first is served", || server.status().cgroup("/main").number("read_ios") == 1);
    server.kill();
    let replayed = end(&place, child);
    assert_eq!(replayed.status, 1, "{}", replayed.said);
    assert_eq!(replayed.report["ended"], "failed");
    assert!(replayed.said.contains("the server closed the connection"), "{}", replayed.said);
}

/// The readable part of a truncated trace is replayed before the error.
#[test]
fn a_truncated_trace_is_replayed_up_to_its_end() {
    let place = Place::new();
    let Some(gzip) = peer("gzip") else { return };
    let server = Server::image(&place, "memory:1M", &[]);
    // Numbers that differ: compressed, they are still far more than is looked at to tell the format.
    let line =
        |index: u32| format!("1,R,{},512,{index}\n", index.wrapping_mul(2_654_435_761) / 512 * 512);
    let plain = place.filled("whole.csv", (0..40_000).map(line).collect::<String>().as_bytes());
    gzip.run(&["--keep", plain.to_str().expect("a path of ours")]);
    let bytes = fs::read(place.file("whole.csv.gz")).expect("it is there");
    let trace = place.filled("cut.gz", &bytes[..bytes.len() / 2]);
    let replayed = replay(&place, &trace, server.uri(), &["--time", "asap", "--depth", "256"]);
    assert_eq!(
        (replayed.status, &replayed.report["ended"]),
        (1, &"failed".into()),
        "{}",
        replayed.said
    );
    let lines = replayed.number("trace/lines");
    assert!((10_000..30_000).contains(&lines), "{lines} of 40,000 lines");
    assert_eq!(replayed.number("reads/requests"), lines);
    assert!(replayed.said.contains(&format!("reading line {}", lines + 1)), "{}", replayed.said);
    server.stop();
}
