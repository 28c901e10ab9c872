//! Jobs through the page cache: requests that reach the disk, their times, and their owners.

use super::support::*;

/// What a call costs for 4 KiB: the call and the copy.
const CALL_NS: u64 = 500 + 512;

/// Bytes a second that a cgroup wrote to the disk between two times.
fn rate_between(results: &weir_lab::results::Results, path: &str, from_ns: u64, to_ns: u64) -> f64 {
    let series = &cgroup(results, path).write_series;
    let interval_ns = series.interval_ns();
    let points = (from_ns / interval_ns) as usize..(to_ns / interval_ns) as usize;
    let seconds = (points.len() as u64 * interval_ns) as f64 / 1e9;
    let points = series.points().iter().take(points.end).skip(points.start);
    points.sum::<u64>() as f64 / seconds
}

#[test]
fn writeback_is_charged_to_the_writers() {
    let global = "[global]\nrw=write\nbs=64k\nsize=256m\nend_fsync=1\n";
    let jobs = format!("{global}[one]\ncgroup=one\n[two]\ncgroup=two\n");
    let settings = [("memory", "4G"), ("max", "/one wbps=4M"), ("max", "/two wbps=2M")];
    let results = run("disk2009", &settings, &jobs);
    for (path, limit) in [("/one", 4 << 20), ("/two", 2 << 20)] {
        // Both still have pages to be written then.
        let rate = rate_between(&results, path, 4 * SECOND, 60 * SECOND) / f64::from(limit);
        assert!((rate - 1.0).abs() < 0.01, "{path}: {rate} of its limit");
        assert_eq!(cgroup(&results, path).counters.write.bytes, 256 << 20);
    }
    // The first has written its file in half the time, and waited for no more.
    let sync = |name| row(&results, name).sync.max_ns();
    assert!(sync("one").abs_diff(64 * SECOND) < 500 * MS, "{}", sync("one"));
    assert!(sync("two").abs_diff(128 * SECOND) < 500 * MS, "{}", sync("two"));
}

/// The sum of the limits comes to the disk.
#[test]
fn the_dirty_limit_holds_writers_back() {
    let global = "[global]\nrw=write\nbs=64k\nsize=512m\ntime_based\nruntime=30\n";
    let jobs = format!("{global}[one]\ncgroup=p/one\n[two]\ncgroup=p/two\n");
    let settings = [("memory", "64M"), ("max", "/p wbps=4M")];
    let results = run("disk2009", &settings, &jobs);
    let rate = |path| rate_between(&results, path, 10 * SECOND, 30 * SECOND) / f64::from(4 << 20);
    assert!((rate("/p") - 1.0).abs() < 0.01, "{}", rate("/p"));
    assert!((rate("/p/one") - 0.5).abs() < 0.05, "{}", rate("/p/one"));
    // What they wrote is what was written back, and what may be dirty: a fifth of the memory.
    let written: u64 = results.rows.iter().map(|row| row.write.bytes).sum();
    let dirty = written - cgroup(&results, "/p").counters.write.bytes;
    assert!(dirty <= (64 << 20) / 5 + (128 << 10), "{dirty}");
}

#[test]
fn fsync_waits_for_the_disk_and_the_limit() {
    let jobs = "[j]\nrw=write\nbs=4k\nsize=32k\nend_fsync=1\n";
    // Eight copies, then one request and a flush.
    let results = run(ONE_MS, &[], jobs);
    assert_eq!(results.rows[0].write.latency.max_ns(), CALL_NS);
    assert_eq!(results.elapsed_ns, 8 * CALL_NS + 2 * MS + 500);
    assert_eq!((results.device.ios, results.device.bytes), (2, 32 << 10));
    // A fsync after every second write.
    let results = run(ONE_MS, &[], "[j]\nrw=write\nbs=4k\nsize=32k\nfsync=2\n");
    assert_eq!(results.rows[0].sync.count(), 3);
    assert_eq!(results.rows[0].sync.min_ns(), 2 * MS + 500);
    // O_SYNC: each write and a flush.
    let results = run(ONE_MS, &[], "[j]\nrw=write\nbs=4k\nsize=32k\nsync=1\n");
    assert_eq!(results.rows[0].write.latency.min_ns(), 2 * MS + CALL_NS);
    assert_eq!(results.device.ios, 16);
    // 8 MiB at 1 MiB/s, less the burst at the beginning.
    let jobs = "[j]\nrw=write\nbs=64k\nsize=8m\nend_fsync=1\n";
    let settings = [("max", "wbps=1M"), ("burst", "wbps=64k")];
    let results = run("ssd-sata", &settings, jobs);
    assert!((7 * SECOND..8200 * MS).contains(&results.rows[0].sync.max_ns()), "{results:?}");
    assert!(results.rows[0].write.latency.max_ns() < MS);
}

#[test]
fn without_fsync_a_write_ends_in_memory() {
    let results = run(ONE_MS, &[], "[j]\nrw=write\nbs=4k\nsize=32k\n");
    assert_eq!((results.elapsed_ns, results.device.ios), (8 * CALL_NS, 0));
    // Half a minute later the flusher comes.
    let jobs =
        "[j]\nrw=write\nbs=4k\nsize=32k\n[later]\nrw=read\ndirect=1\nsize=4k\nstartdelay=40\n";
    let results = run(ONE_MS, &[], jobs);
    assert_eq!(cgroup(&results, "/main").counters.write.bytes, 32 << 10);
}

#[test]
fn read_ahead_makes_small_sequential_reads_fast() {
    let took = |disk, direct| {
        let jobs = format!("[j]\nrw=read\nbs=4k\nsize=16m\ndirect={direct}\n");
        let results = run(disk, &[], &jobs);
        assert_eq!(results.device.bytes, 16 << 20);
        (results.elapsed_ns, results.device.ios)
    };
    // A disk that does not read ahead by itself turns once for each direct read.
    for (disk, times) in [("ssd-sata", 4), ("hdd7200,readahead=0", 10)] {
        let (buffered, direct) = (took(disk, 0), took(disk, 1));
        assert!(times * buffered.0 < direct.0, "{disk}: {buffered:?} {direct:?}");
        // 256 KiB at a time, but for the first few: fio says that it reads in order.
        assert_eq!(direct.1, 4096);
        assert!(buffered.1.abs_diff(64) < 8, "{buffered:?}");
    }
    // One that does is as fast either way: the platters set the pace.
    let (buffered, direct) = (took("hdd7200", 0), took("hdd7200", 1));
    assert!(buffered.0.abs_diff(direct.0) < direct.0 / 50, "{buffered:?} {direct:?}");
}

#[test]
fn a_cached_file_is_not_read_from_the_disk() {
    let again = |invalidate| {
        let jobs = format!(
            "[global]\nrw=read\nbs=4k\nsize=16m\nfilename=f\n[first]\n[second]\nwait_for=first\ninvalidate={invalidate}\n"
        );
        let results = run("hdd7200", &[], &jobs);
        let second = row(&results, "second").read.latency.max_ns();
        (results.device.bytes >> 20, second)
    };
    assert_eq!(again(0), (16, CALL_NS));
    // fio drops a job's file from the cache first, unless told not to.
    let (mib, latency) = again(1);
    assert_eq!(mib, 32);
    assert!(latency > MS);
}

#[test]
fn depth_does_not_speed_up_copies() {
    let ended = ["ioengine=psync", "ioengine=libaio\niodepth=32"].map(|engine| {
        let jobs = format!(
            "[global]\nbs=4k\nsize=1m\nfilename=f\n[warm]\nrw=read\n[j]\nstonewall\nrw=randread\ninvalidate=0\nloops=4\n{engine}\n"
        );
        let results = run(ONE_MS, &[], &jobs);
        row(&results, "j").runtime_ns
    });
    assert_eq!(ended, [1024 * CALL_NS; 2]);
}

/// The time begins when the files are in memory.
#[test]
fn pre_read_files_are_cached_at_the_start() {
    let jobs = "[j]\nrw=randread\nbs=4k\nsize=16m\nnrfiles=3\npre_read=1\nruntime=1\ntime_based\n[next]\nwait_for=j\nrw=read\ndirect=1\nsize=4k\n";
    let results = run("ssd-sata", &[], jobs);
    let row = row(&results, "j");
    assert_eq!(row.read.latency.max_ns(), CALL_NS);
    assert!((SECOND..SECOND + CALL_NS).contains(&row.runtime_ns));
    // All of the three files, and the other's block.
    assert!(results.device.bytes.abs_diff(16 << 20) < 32 << 10, "{}", results.device.bytes);
    assert!(results.elapsed_ns > SECOND + 20 * MS && results.notes.is_empty());
    // Stopped while it reads, it never starts; past the page cache there is nothing to read.
    let jobs = "[j]\nrw=read\nbs=4k\nsize=64m\npre_read=1\n[a]\nrw=read\ndirect=1\nsize=4k\nexitall\n[d]\nstonewall\nrw=read\ndirect=1\nsize=40k\npre_read=1\n";
    let results = run("ssd-sata", &[], jobs);
    let ios: Vec<u64> = results.rows.iter().map(|row| row.read.ios).collect();
    assert_eq!(ios, [0, 1, 10]);
}

#[test]
fn a_small_memory_evicts() {
    let jobs = "[j]\nrw=read\nbs=4k\nsize=16m\nloops=2\n";
    assert_eq!(run("ssd-sata", &[("memory", "64M")], jobs).device.bytes >> 20, 16);
    assert_eq!(run("ssd-sata", &[("memory", "8M")], jobs).device.bytes >> 20, 32);
}

/// As in Linux 6.18, at 132 KiB, 256 KiB, 1 MiB and 2 MiB.
#[test]
fn long_random_reads_have_no_read_ahead() {
    for bs in ["132k", "256k", "1m", "2m"] {
        let jobs = format!("[j]\nrw=randread\nbs={bs}\nsize=1g\nio_size=64m\n");
        let results = run("ssd-sata", &[], &jobs);
        let asked = results.rows[0].read.bytes;
        assert_eq!(results.device.bytes, asked.next_multiple_of(4096), "{bs}");
        assert!(asked >= 63 << 20);
    }
    let jobs = "[j]\nrw=randread\nbs=132k\nsize=1g\nruntime=20\ntime_based\n";
    let results = run("ssd-sata", &[("max", "rbps=10M")], jobs);
    let rate = results.rows[0].read.bytes_per_sec() / f64::from(10 << 20);
    assert!((0.97..1.03).contains(&rate), "{rate} of the limit");
}

/// Bytes of a sequential request, and bytes read for each random one, as in Linux 6.18.
#[test]
fn fadvise_hint_sets_read_ahead() {
    let run = |options: &str| {
        run("ssd-sata", &[], &format!("[j]\nsize=1g\nio_size=64m\nioengine=psync\n{options}\n"))
    };
    for (options, kib) in [
        ("rw=read\nbs=64k", 256),
        ("rw=read\nbs=132k", 256),
        ("rw=read\nbs=1m", 1024),
        ("rw=read\nbs=64k\nfadvise_hint=0", 128),
        ("rw=read\nbs=256k\nfadvise_hint=0", 256),
        ("rw=read\nbs=1m\nfadvise_hint=0", 1024),
        ("rw=read\nbs=64k\nfadvise_hint=random", 64),
    ] {
        let device = run(options).device;
        let each = device.bytes as f64 / device.ios as f64 / 1024.0 / f64::from(kib);
        assert!((0.93..1.01).contains(&each), "{options}: {each} of {kib} KiB");
    }
    for (options, times) in [
        ("bs=132k", 1.0),
        ("bs=1m", 1.0),
        ("bs=2m", 1.0),
        ("bs=132k\nfadvise_hint=0", 1.0),
        ("bs=1m\nfadvise_hint=0", 1.0),
        ("bs=2m\nfadvise_hint=0", 1.81),
    ] {
        let results = run(&format!("rw=randread\n{options}"));
        let more = results.device.bytes as f64 / results.rows[0].read.bytes as f64 / times;
        assert!((0.85..1.15).contains(&more), "{options}: {more} of {times}");
    }
}
