//! Traces, and fio's logs of requests as jobs.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::support::*;

/// A file that goes when the test does.
struct File(PathBuf);

impl File {
    fn new(ending: &str, text: impl AsRef<[u8]>) -> File {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-lab-{}-{number}.{ending}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Reads of 4 KiB, `every_us` apart, by disk in turn, as a server of Cambridge wrote them down.
fn msr(count: u64, every_us: u64, disks: u64) -> String {
    let line = |at| {
        let ticks = 128_166_372_000_000_000 + at * every_us * 10;
        format!("{ticks},srv,{},Read,{},4096,100\n", at % disks, at * 4096)
    };
    (0..count).map(line).collect()
}

fn replay(disk: &str, settings: Settings, file: &File) -> weir_lab::results::Results {
    finish(&trace_builder(disk, settings, &file.0)).unwrap()
}

#[test]
fn a_replay_keeps_scales_or_drops_the_times_of_its_trace() {
    let file = File::new("csv", msr(100, 10_000, 1));
    // The last is due after 990 ms, and takes 1.
    for (timing, elapsed_us) in [
        ("original", 991_000),
        ("100%", 991_000),
        ("200%", 496_000),
        ("50%", 1_981_000),
        ("1000%", 100_000),
    ] {
        let results = replay(ONE_MS, &[("trace.timing", timing)], &file);
        assert_eq!(results.elapsed_ns / US, elapsed_us, "{timing}");
        assert_eq!(results.rows[0].read.ios, 100);
        assert_eq!(results.rows[0].read.latency.max_ns(), MS);
    }
    // As fast as it goes, so many at a time.
    for (depth, elapsed_ms) in [("1", 100), ("4", 25), ("32", 4), ("100", 1)] {
        let settings = [("trace.timing", "asap"), ("trace.depth", depth), ("depth", "128")];
        assert_eq!(replay(ONE_MS, &settings, &file).elapsed_ns, elapsed_ms * MS, "{depth}");
    }
    // Original times do not wait for a disk that is too slow.
    let results = replay("null,rate=204800,latency=0ns", &[], &file);
    assert_eq!(results.elapsed_ns, 2 * SECOND);
    assert_eq!(results.rows[0].read.latency.max_ns(), 1010 * MS);
}

#[test]
fn each_disk_of_a_trace_is_a_client() {
    let file = File::new("csv", msr(90, 1_000, 3));
    let results = replay(ONE_MS, &[], &file);
    let rows: Vec<_> = results
        .rows
        .iter()
        .map(|row| (row.name.as_str(), row.read.ios, row.cgroup.as_str()))
        .collect();
    assert_eq!(rows, [("srv_0", 30, "/main"), ("srv_1", 30, "/main"), ("srv_2", 30, "/main")]);
    // Limits without a path are of all; with a cgroup each, of each.
    let results = replay(ONE_MS, &[("max", "riops=10"), ("burst", "riops=1")], &file);
    assert_eq!(results.elapsed_ns, 8901 * MS);
    let settings = [("home", "per-job"), ("max", "/srv_1 riops=10"), ("burst", "/srv_1 riops=1")];
    let results = replay(ONE_MS, &settings, &file);
    assert_eq!(row(&results, "srv_1").cgroup, "/srv_1");
    assert_eq!(row(&results, "srv_0").read.latency.max_ns(), MS);
    // The first comes after 1 ms, and 29 intervals pass.
    assert_eq!(results.elapsed_ns, 2902 * MS);
}

#[test]
fn a_trace_can_be_repeated() {
    let file = File::new("csv", msr(100, 10_000, 2));
    let settings = [("trace.repeat", "3"), ("home", "per-job")];
    let results = replay(ONE_MS, &settings, &file);
    // Three times 990 ms, and a microsecond between two.
    assert_eq!(results.elapsed_ns, 3 * 990 * MS + 2 * US + MS);
    let ios: Vec<_> = results.rows.iter().map(|row| (row.name.as_str(), row.read.ios)).collect();
    assert_eq!(ios, [("srv_0", 150), ("srv_1", 150)]);
}

#[test]
fn a_repeated_trace_keeps_the_names_of_its_streams() {
    // More than what is read ahead, with a stream that comes last of all.
    let mut text = msr(70_000, 100, 1);
    text += "128166372100000000,late,7,Read,0,4096,100\n";
    let file = File::new("csv", &text);
    let results = replay(ONE_MS, &[("trace.repeat", "2"), ("home", "per-job")], &file);
    let ios: Vec<_> = results.rows.iter().map(|row| (row.name.as_str(), row.read.ios)).collect();
    assert_eq!(ios, [("srv_0", 140_000), ("late_7", 2)]);
}

#[test]
fn oddities_of_a_trace_are_noted() {
    let mut text = msr(3, 1_000, 1);
    text += "nonsense\n";
    // A petabyte into the disk, and a time that runs back.
    text += "128166372000000000,srv,0,Write,1125899906842624,4096,100\n";
    let file = File::new("csv", &text);
    let results = replay("null,latency=1ms,size=1G", &[], &file);
    assert_eq!((results.rows[0].read.ios, results.rows[0].write.ios), (3, 1));
    let notes = results.notes.join("\n");
    for part in [
        "1 line makes no sense and was left out",
        "line 4:",
        "1 request lies beyond the end of the disk, wrapped around",
        "1 line goes back in time",
    ] {
        assert!(notes.contains(part), "{part}:\n{notes}");
    }
    // An offset on the last sector of the disk leaves room for that much.
    let file = File::new("csv", "128166372000000000,srv,0,Read,1073741312,4096,100\n");
    let results = replay("null,latency=1ms,size=1G", &[], &file);
    assert_eq!(results.device.bytes, 512);
}

/// Once, and each stream in it is reported as failed.
#[test]
fn a_broken_trace_is_replayed_up_to_the_break() {
    let whole = gzipped(&msr(20_000, 10, 2));
    let file = File::new("csv.gz", &whole[..whole.len() / 2]);
    let results = replay(ONE_MS, &[("trace.repeat", "3"), ("home", "per-job")], &file);
    assert_eq!(results.rows.len(), 2);
    let ios = results.rows.iter().map(|row| row.read.ios).sum::<u64>();
    assert!((1000..19_000).contains(&ios), "{ios}");
    assert_eq!(results.requests, ios);
    for row in &results.rows {
        let why = row.error.as_deref().expect("it did not end as it should");
        let line = format!("{}: reading line {} failed: ", file.0.display(), ios + 1);
        assert!(why.starts_with(&line), "{why}");
    }
    // It ends a job likewise, which goes on with what comes then.
    let log = (0..20_000).map(|at| format!("/dev/sdb read {} 4096\n", at * 4096));
    let log: String = ["fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n".into()]
        .into_iter()
        .chain(log)
        .collect();
    let log = gzipped(&log);
    let file = File::new("iolog", &log[..log.len() / 2]);
    let job = format!("[a]\nread_iolog={}\n[b]\nstonewall\nrw=read\nsize=4k\n", file.0.display());
    let results = run(ONE_MS, &[], &job);
    assert!(results.rows[0].read.ios > 0 && results.rows[0].error.is_some());
    assert_eq!((results.rows[1].read.ios, &results.rows[1].error), (1, &None));
    // Of that there is nothing that could be replayed.
    let file = File::new("csv.gz", &whole[..12]);
    let error = finish(&trace_builder(ONE_MS, &[("trace.format", "msr")], &file.0)).unwrap_err();
    assert!(error.to_string().contains("cannot be read: "), "{error}");
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

#[test]
fn a_trace_without_a_request_is_an_error() {
    for (text, reason) in [
        (
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n",
            "no request in 1 line read as msr",
        ),
        (
            "nonsense\nnonsense\n",
            "no request in 2 lines read as msr; 2 bad, the first is line 1: 1 columns where the format has 7",
        ),
    ] {
        let file = File::new("csv", text);
        let settings = [("trace.format", "msr"), ("trace.repeat", "1000000")];
        let error = finish(&trace_builder(ONE_MS, &settings, &file.0)).unwrap_err().to_string();
        assert_eq!(error, format!("{}: {reason}", file.0.display()));
    }
    let file = File::new("csv", msr(3, 1_000, 2));
    let error = finish(&trace_builder(ONE_MS, &[("trace.device", "srv_7")], &file.0)).unwrap_err();
    let reason = "no request in 3 lines read as msr; none of device srv_7, but of srv_0; srv_1";
    assert_eq!(error.to_string(), format!("{}: {reason}", file.0.display()));
    let gone = trace_builder(ONE_MS, &[], std::path::Path::new("/nowhere/trace.csv"));
    let error = finish(&gone).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/trace.csv: "), "{error}");
}

/// A start of a program: each read when the one before it is done, after a pause.
#[test]
fn a_start_is_shorter_on_a_faster_disk() {
    let line = |at: u64| {
        let (pause, since) = if at == 0 { ("0", 0) } else { (".004000", at * 12) };
        let time = format!("{}.{:06}", since / 1000, since % 1000 * 1000);
        format!(
            "app-1 {pause} 8 {} Rand 0 0 R {time} {}\n",
            at * 1000,
            if at == 0 { "START" } else { "C" }
        )
    };
    let file = File::new("trace", (0..50).map(line).collect::<String>());
    let took = |disk, timing| {
        let settings = [("trace.format", "startup"), ("trace.timing", timing)];
        let results = replay(disk, &settings, &file);
        assert_eq!(results.rows[0].read.ios, 50);
        assert_eq!(results.device.in_flight_max, 1);
        results.elapsed_ns
    };
    let slow = took("null,latency=8ms", "original");
    let fast = took("null,latency=4ms", "original");
    // 50 reads of half the time; the pauses, which are the program's, stay.
    assert_eq!(slow - fast, 50 * 4 * MS);
    assert_eq!(took("null,latency=8ms", "asap"), 50 * 8 * MS);
    // Pauses are the machine's, and a faster machine's are shorter.
    let pauses = slow - 400 * MS;
    assert_eq!(took("null,latency=8ms", "200%"), 400 * MS + pauses / 2);
}

const VERSION_TWO: &str = "fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x read 1048576 4096\n/dev/x wait 5000\n/dev/x write 5000 4096\n/dev/x wait 5000\n/dev/x trim 8192 4096\n/dev/x sync 0 0\n/dev/x close\n";
const VERSION_THREE: &str = "fio version 3 iolog\n0 /dev/x add\n0 /dev/x open\n0 /dev/x read 1048576 4096\n5000 /dev/x write 5000 4096\n10000 /dev/x trim 8192 4096\n20000 /dev/x sync 0 0\n20000 /dev/x close\n";

#[test]
fn jobs_replay_logs_of_fio() {
    let (two, three) = (File::new("log", VERSION_TWO), File::new("log", VERSION_THREE));
    for (file, options, expected_us, kinds) in [
        // One after the other, with the pauses: 1 + 5 + 1 + 5 + 1 + 1.
        (&two, "", 14_000, [1, 1, 1, 1]),
        (&two, "replay_no_stall=1\n", 4_000, [1, 1, 1, 1]),
        (&two, "replay_skip=sync,write\n", 12_000, [1, 0, 1, 0]),
        // At their times.
        (&three, "", 21_000, [1, 1, 1, 1]),
        (&three, "replay_time_scale=200\n", 11_000, [1, 1, 1, 1]),
        (&three, "replay_time_scale=50\n", 41_000, [1, 1, 1, 1]),
        (&three, "replay_no_stall=1\n", 4_000, [1, 1, 1, 1]),
        (&three, "replay_no_stall=1\nioengine=libaio\niodepth=8\n", 1_000, [1, 1, 1, 1]),
        (&three, "replay_skip=read,trim\n", 21_000, [0, 1, 0, 1]),
        // Not after its time.
        (&three, "runtime=7ms\n", 7_000, [1, 1, 0, 0]),
        // Nor what comes before it counts.
        (&three, "ramp_time=4ms\n", 21_000, [0, 1, 1, 1]),
        (&three, "startdelay=1\n", 1_021_000, [1, 1, 1, 1]),
        (&three, "max_latency=10us\n", 1_000, [1, 0, 0, 0]),
    ] {
        let jobs = format!("[j]\nread_iolog={}\ndirect=1\n{options}", file.0.display());
        let results = run(ONE_MS, &[], &jobs);
        let row = &results.rows[0];
        let found = [row.read.ios, row.write.ios, row.trim.ios, row.sync.count()];
        assert_eq!((found, results.elapsed_ns / US), (kinds, expected_us), "{options}");
        assert!(results.notes.is_empty(), "{:?}", results.notes);
    }
    // fio thinks after each request of a log as well.
    let jobs = format!("[j]\nread_iolog={}\ndirect=1\nthinktime=5ms\n", three.0.display());
    let notes = run(ONE_MS, &[], &jobs).notes;
    assert!(notes.iter().any(|note| note.starts_with("`thinktime` has no effect")), "{notes:?}");
}

#[test]
fn logs_beyond_the_end_of_the_disk_wrap_around() {
    let file = File::new(
        "log",
        "fio version 3 iolog\n0 /dev/x read 1048576 4096\n1000 /dev/x read 5000 4096\n",
    );
    let notes = |options: &str| {
        let jobs = format!("[j]\nread_iolog={}\ndirect=1\n{options}", file.0.display());
        let results = run("null,latency=1ms,size=512k", &[], &jobs);
        (results.notes.len(), results.device.bytes)
    };
    // The first lies beyond the end.
    assert_eq!(notes(""), (1, 8192));
    assert_eq!(notes("replay_scale=4\n"), (0, 8192));
    assert_eq!(notes("replay_scale=4\nreplay_align=4096\n"), (0, 8192));
}

#[test]
fn a_log_ends_with_the_others() {
    let text: String =
        (0..1000).map(|at| format!("{} /dev/x read {} 4096\n", at * 1000, at * 4096)).collect();
    let file = File::new("log", format!("fio version 3 iolog\n{text}"));
    let jobs = format!(
        "[j]\nread_iolog={}\ndirect=1\n[short]\nrw=read\ndirect=1\nsize=4k\nstartdelay=100ms\nexitall\n",
        file.0.display()
    );
    let results = run(ONE_MS, &[], &jobs);
    assert!(row(&results, "j").read.ios.abs_diff(101) <= 1, "{}", row(&results, "j").read.ios);
    assert!(results.elapsed_ns <= 102 * MS);
}

#[test]
fn clones_of_a_log_share_a_row_when_asked() {
    let file = File::new("log", VERSION_THREE);
    let jobs =
        format!("[j]\nread_iolog={}\ndirect=1\nnumjobs=3\ngroup_reporting\n", file.0.display());
    let results = run(ONE_MS, &[], &jobs);
    assert_eq!((results.rows.len(), results.rows[0].read.ios), (1, 3));
    assert_eq!(results.rows[0].runtime_ns, 21 * MS);
}

/// Two that begin beside each other merge until both read at random; after the split neither is raised.
#[test]
fn a_stream_that_is_never_raised_stays_so_after_a_split() {
    let mut dice = 1_u64;
    let mut anywhere = |count: usize| -> String {
        let mut one = || {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            format!("/dev/x read {} 4096\n", (dice >> 28) / 4096 * 4096)
        };
        (0..count).map(|_| one()).collect()
    };
    let open = "fio version 2 iolog\n/dev/x add\n/dev/x open\n";
    let stream: String = (0..20).map(|n| format!("/dev/x read {} 65536\n", n * 65_536)).collect();
    let a = File::new("never-a.iolog", format!("{open}{stream}{}/dev/x close\n", anywhere(2000)));
    let b = File::new(
        "never-b.iolog",
        format!("{open}/dev/x read 655360 65536\n{}/dev/x close\n", anywhere(2000)),
    );
    let jobs = format!(
        "[global]\ndirect=1\nioengine=libaio\nfilename=/dev/x\n[a]\nread_iolog={}\n[b]\nstartdelay=5ms\nread_iolog={}\n",
        a.0.display(),
        b.0.display()
    );
    let read = |policy| {
        let settings =
            [("scheduler", "bfq"), ("depth", "1"), ("low-latency", policy), ("stop-after", "8s")];
        let results = run("hdd7200", &settings, &jobs);
        let bfq = results.bfq.expect("its counts").stats;
        assert_eq!(bfq.merging.cooperations, 1);
        ([0, 1].map(|row: usize| results.rows[row].read.ios), bfq.raisings)
    };
    let ([a, b], raisings) = read("never");
    assert_eq!(raisings, [0, 0]);
    assert!(a.abs_diff(b) < (a + b) / 10, "{a} and {b}");
    assert!(read("auto").1[0] > 0, "else nothing is shown");
}

/// 200 reads a second with times of whole seconds: the disk could do them one by one, and does.
#[test]
fn a_trace_of_whole_seconds_is_no_burst() {
    let line = |at: u64| format!("{},{},8,0,1\n", 1_538_323_200 + at / 200, at * 8);
    let file = File::new("csv", (0..2000).map(line).collect::<String>());
    let results = replay(ONE_MS, &[("depth", "1")], &file);
    assert_eq!(results.rows[0].read.ios, 2000);
    assert_eq!(results.rows[0].read.latency.max_ns(), MS);
    assert_eq!(results.elapsed_ns / MS, 9996);
    let note = "its times are whole seconds; 1990 requests were moved, so that those of each second come evenly over it";
    assert!(results.notes.iter().any(|told| told.ends_with(note)), "{:?}", results.notes);
}

#[test]
fn a_trace_of_several_devices_says_so_and_one_can_be_taken() {
    let line = |at: u64| {
        let device = if at.is_multiple_of(4) { "253,0" } else { "8,0" };
        format!("{device} 0 {at} 0.{at:03} 7 Q R {} + 8 [dd]\n", at * 8)
    };
    let file = File::new("blkparse", (0..100).map(line).collect::<String>());
    let all = replay(ONE_MS, &[], &file);
    assert_eq!(all.rows[0].read.ios, 100);
    let told = all.notes.join("\n");
    assert!(
        told.contains(
            "requests of 2 devices, volumes or files (253,0; 8,0) are all on the one disk"
        ),
        "{told}"
    );
    assert!(told.contains("`--set trace.device=NAME`"), "{told}");
    let one = replay(ONE_MS, &[("trace.device", "8,0"), ("trace.repeat", "2")], &file);
    assert_eq!(one.rows[0].read.ios, 150);
    assert!(
        one.notes.join("\n").contains("25 requests of other devices left out"),
        "{:?}",
        one.notes
    );
}

#[test]
fn a_trace_of_completions_is_replayed_and_says_so() {
    let line = |at: u64| format!("8,0 1 {at} 0.{at:03} 0 C R {} + 8 [0]\n", at * 8);
    let file = File::new("blkparse", (0..10).map(line).collect::<String>());
    let results = replay(ONE_MS, &[], &file);
    assert_eq!((results.rows[0].name.as_str(), results.rows[0].read.ios), ("8,0", 10));
    assert!(
        results.notes.join("\n").contains("10 requests are there only as completed"),
        "{:?}",
        results.notes
    );
}

#[test]
fn metadata_of_a_trace_overtakes_data_at_a_limit() {
    let worst = |letters: &str| {
        let data = (0..50).map(|at| format!("8,0 0 {at} 0.000000 7 Q W {} + 8 [dd]\n", at * 8));
        let last = format!("8,0 0 50 0.100000 8 Q {letters} 8000 + 8 [jbd2]\n");
        let file = File::new("blkparse", data.chain([last]).collect::<String>());
        let settings = [("max", "wiops=10"), ("burst", "wiops=1")];
        row(&replay(ONE_MS, &settings, &file), "jbd2-8").write.latency.max_ns()
    };
    assert_eq!(worst("WSM"), MS);
    assert!(worst("WS") > 50 * MS);
}

#[test]
fn a_trace_by_columns_is_a_trace() {
    let file = File::new("csv", msr(100, 10_000, 2));
    let named = replay(ONE_MS, &[], &file);
    let columns = "csv:time_100ns=1,op=4,offset=5,bytes=6,stream=3";
    let by_columns = replay(ONE_MS, &[("trace.format", columns)], &file);
    assert_eq!((by_columns.requests, by_columns.elapsed_ns), (named.requests, named.elapsed_ns));
    assert_eq!(by_columns.rows[1].read.latency, named.rows[1].read.latency);
    assert_eq!(by_columns.rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["0", "1"]);
}
