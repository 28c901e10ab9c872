//! Requests other than plain reads: syncs, trims, verification; and those that never reach a disk.

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
fn trims_move_nothing_and_verification_reads_again() {
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
    let row = &results.rows[0];
    assert_eq!((row.read.ios, row.write.ios), (100, 0));
    assert_eq!(results.notes, ["`j`: its figures for reads are of all directions together"]);
    let results = run(ONE_MS, &[], &format!("{jobs}none\n"));
    let row = &results.rows[0];
    assert!(row.read.ios > 0 && row.write.ios > 0 && results.notes.is_empty());
}

#[test]
fn options_without_an_effect_are_told_once() {
    let jobs = "[global]\nrw=read\ndirect=1\nsize=4k\nrate_min=1k\nprio=3\n[a]\n[b]\nserialize_overlap=1\n[c]\nunified_rw_reporting=both\n";
    let notes = run(ONE_MS, &[], jobs).notes;
    let told: Vec<&str> = notes.iter().filter_map(|note| note.split('`').nth(1)).collect();
    assert_eq!(told, ["rate_min", "prio", "serialize_overlap", "unified_rw_reporting=both"]);
}
