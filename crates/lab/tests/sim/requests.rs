//! Requests other than plain reads: syncs, trims, verification; and those that never reach a disk.

use serde_json::json;

use super::support::*;

/// Writes, syncs and the end in microseconds of `[j]`, where each request takes a millisecond.
fn writes(options: &str) -> (u64, u64, u64) {
    let jobs = format!("[j]\nrw=write\nbs=4k\ndirect=1\nsize=1g\n{options}");
    let results = run(ONE_MS, &[], &jobs);
    let row = &results.rows[0];
    (row.write.ios, row.sync.count(), results.elapsed_ns / US)
}

#[test]
fn syncs_are_flushes_and_take_their_time() {
    for (options, expected) in [
        ("number_ios=8\n", (8, 0, 8_000)),
        // After the 2nd, 4th and 6th: before another request, as in fio.
        ("number_ios=8\nfsync=2\n", (8, 3, 11_000)),
        ("number_ios=8\nfdatasync=2\n", (8, 3, 11_000)),
        ("number_ios=8\nfsync=2\nend_fsync=1\n", (8, 4, 12_000)),
        ("number_ios=8\nfsync_on_close=1\n", (8, 1, 9_000)),
        ("number_ios=8\nnrfiles=4\nend_fsync=1\n", (8, 4, 12_000)),
        // Each write and its flush are one.
        ("number_ios=8\nsync=1\n", (8, 0, 16_000)),
        ("number_ios=8\nsync=dsync\nioengine=libaio\niodepth=4\n", (8, 0, 4_000)),
        // The sync at the end is for all that was written, so that is awaited.
        ("number_ios=8\nend_fsync=1\nioengine=libaio\niodepth=8\n", (8, 1, 2_000)),
        // So it is where there were syncs before: one at once after the fourth, and the other when all have ended.
        ("number_ios=8\nfsync=4\nend_fsync=1\nioengine=libaio\niodepth=8\n", (8, 2, 3_000)),
        // The time is up: the sync at the end is made all the same.
        ("runtime=5ms\ntime_based\nend_fsync=1\n", (5, 1, 6_000)),
        ("runtime=5ms\ntime_based\nend_fsync=1\nioengine=libaio\niodepth=2\n", (10, 1, 6_000)),
    ] {
        assert_eq!(writes(options), expected, "{options}");
    }
    let jobs = "[j]\nrw=write\nbs=4k\ndirect=1\nsize=1g\nnumber_ios=8\nend_fsync=1\nioengine=libaio\niodepth=8\n";
    let results = run("null,rate=4096000,latency=1ms", &[], jobs);
    // Writes end after 2 to 9 ms, the flush 1 ms later.
    assert_eq!(results.elapsed_ns, 10 * MS);
    assert_eq!(results.rows[0].sync.max_ns(), MS);
}

#[test]
fn trims_move_no_bytes_and_verification_reads() {
    let jobs = |rw: &str| format!("[j]\nrw={rw}\nbs=4k\ndirect=1\nsize=40k\n");
    let results = run(ONE_MS, &[], &jobs("trim"));
    let row = &results.rows[0];
    assert_eq!((row.trim.ios, row.trim.bytes, results.device.bytes), (10, 40 << 10, 0));
    assert_eq!(cgroup(&results, "/main").counters.discard.ios, 10);

    let results = run(ONE_MS, &[], &jobs("trimwrite"));
    let row = &results.rows[0];
    assert_eq!((row.trim.ios, row.write.ios, results.elapsed_ns), (10, 10, 20 * MS));

    let results = run(ONE_MS, &[], &jobs("randwrite\nverify=crc32c"));
    let row = &results.rows[0];
    assert_eq!((row.write.ios, row.read.ios, results.elapsed_ns), (10, 10, 20 * MS));
}

#[test]
fn the_null_engine_meets_no_disk() {
    let jobs = "[j]\nrw=randrw\nbs=4k\nsize=4m\nioengine=null\nrate_iops=500,500\n";
    let results = run(ONE_MS, &[], jobs);
    let row = &results.rows[0];
    // What a call takes, so that time goes on.
    assert_eq!((row.read.ios + row.write.ios, row.read.latency.max_ns()), (1024, 500));
    assert_eq!((results.device.ios, results.requests), (0, 0));
}

#[test]
fn directions_can_be_reported_together() {
    let jobs = "[j]\nrw=randrw\nbs=4k\ndirect=1\nsize=400k\nunified_rw_reporting=";
    let results = run(ONE_MS, &[], &format!("{jobs}mixed\n"));
    // As in fio: this in the place of the three.
    let told = weir_lab::report::fio_json(&results);
    let [job, told] = [&told["jobs"][0], &told["jobs"][0]["mixed"]];
    assert_eq!((&told["total_ios"], &told["io_bytes"]), (&json!(100), &json!(400 << 10)));
    assert_eq!((job.get("read"), job.get("write"), job.get("trim")), (None, None, None));
    let table = weir_lab::report::table(&results, 100);
    assert!(table.contains("mixed  3.91 MiB/s  1.00k/s  1.00 ms"), "{table}");
    assert!(!table.contains("  read "), "{table}");
    // Ours has all keys always.
    let told = &weir_lab::report::json(&results)["jobs"][0];
    let ios = ["read", "write"].map(|name| told[name]["ios"].as_u64().unwrap());
    assert!(ios[0] > 0 && ios[1] > 0 && ios[0] + ios[1] == 100, "{told}");
    assert_eq!((&told["mixed"]["ios"], &told["trim"]["ios"]), (&json!(100), &json!(0)));
    assert!(results.notes.is_empty());
    let results = run(ONE_MS, &[], &format!("{jobs}none\n"));
    let row = &results.rows[0];
    assert!(row.read.ios > 0 && row.write.ios > 0 && results.notes.is_empty());
    assert_eq!(row.mixed, None);
    let results = run(ONE_MS, &[], &format!("{jobs}both\n"));
    let (row, mixed) = (&results.rows[0], results.rows[0].mixed.as_ref().unwrap());
    assert!(row.read.ios > 0 && row.write.ios > 0 && results.notes.is_empty());
    assert_eq!((mixed.ios, mixed.bytes, mixed.runtime_ns), (100, 400 << 10, row.runtime_ns));
    assert_eq!((mixed.latency.count(), mixed.iops()), (100, 1000.0));
    // As in fio, a further object beside the three; and a line of the table.
    let told = weir_lab::report::fio_json(&results);
    assert_eq!(told["jobs"][0]["mixed"]["total_ios"], 100);
    assert_eq!(weir_lab::report::json(&results)["jobs"][0]["mixed"]["ios"], 100);
    let table = weir_lab::report::table(&results, 100);
    assert!(table.contains("mixed  3.91 MiB/s  1.00k/s  1.00 ms"), "{table}");
}

/// Those of one process, or of all jobs that submit from threads.
#[test]
fn overlapping_requests_wait_for_each_other() {
    // Each 64 KiB begin 4 KiB after the last: no two of sixteen may be under way.
    let walk =
        "rw=write:-60k\nbs=64k\ndirect=1\nsize=1m\nnumber_ios=16\nioengine=libaio\niodepth=8\n";
    for (options, in_flight, elapsed_ms) in [
        ("", 8, 2),
        ("serialize_overlap=1\n", 1, 16),
        // Blocks beside each other do not overlap.
        ("serialize_overlap=1\nrw=write\n", 8, 2),
        // Nor do those of reads, which change nothing.
        ("serialize_overlap=1\nrw=read:-60k\n", 8, 2),
    ] {
        let results = run(ONE_MS, &[], &format!("[j]\n{walk}{options}"));
        let found = (results.device.in_flight_max, results.elapsed_ns / MS);
        assert_eq!(found, (in_flight, elapsed_ms), "{options}");
        let row = &results.rows[0];
        assert_eq!(row.read.ios + row.write.ios, 16, "{options}");
    }
    // Two jobs write the same blocks in the same order.
    let both = "[global]\nfilename=f\nrw=write\nbs=4k\ndirect=1\nsize=40k\nserialize_overlap=1\n";
    let ends_ms =
        |options: &str| run(ONE_MS, &[], &format!("{both}{options}[a]\n[b]\n")).elapsed_ns / MS;
    assert_eq!(ends_ms("ioengine=libaio\niodepth=4\n"), 3);
    // One block of each: what one has under way the other waits for.
    assert_eq!(ends_ms("io_submit_mode=offload\n"), 11);
}

#[test]
fn options_without_effect_are_noted_once() {
    let jobs = "[global]\nrw=read\ndirect=1\nsize=4k\nprio=3\n[a]\n[b]\nprioclass=2\n";
    let notes = run(ONE_MS, &[], jobs).notes;
    let told: Vec<&str> = notes.iter().filter_map(|note| note.split('`').nth(1)).collect();
    assert_eq!(told, ["prio", "prioclass"]);
}
