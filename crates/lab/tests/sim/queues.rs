//! Queue depth: requests in flight, refills, and batches of ended requests.

use super::support::*;

#[test]
fn a_queue_keeps_the_disk_busy() {
    // 1 MiB/s and 4 KiB: a request takes 3.90625 ms, and 32 of them are in flight.
    let jobs = "[j]\nrw=randread\nbs=4k\ndirect=1\nioengine=libaio\niodepth=32\nsize=4m\n";
    let results = run("null,rate=1M,latency=0ns", &[], jobs);
    let read = &results.rows[0].read;
    assert_eq!((read.ios, read.bytes), (1024, 4 << 20));
    assert_eq!(results.elapsed_ns, 4_000 * MS);
    assert_eq!(results.device.busy_ns, 4_000 * MS);
    assert_eq!(results.device.in_flight_max, 32);
    assert_eq!(read.latency.max_ns(), 125 * MS);
    assert_eq!(cgroup(&results, "/main").read_series.points().iter().sum::<u64>(), 4 << 20);
}

#[test]
fn a_queue_is_refilled_by_its_options() {
    // 40 requests, each a millisecond at the disk, one after the other.
    for (options, in_flight, latency_sum_ms) in [
        // An engine that waits for each.
        ("ioengine=psync\niodepth=4\n", 1, 40),
        // Submitted by threads of their own, it has a depth.
        ("ioengine=psync\niodepth=4\nio_submit_mode=offload\n", 4, 6 + 37 * 4),
        // 1, 2, 3, and then always 4.
        ("ioengine=libaio\niodepth=4\n", 4, 6 + 37 * 4),
        // Filled up when one is left: 1, 2, 3, 4, and then 2, 3, 4 twelve times.
        ("ioengine=libaio\niodepth=4\niodepth_low=1\n", 4, 10 + 12 * 9),
        // Four are taken at once, when the last of them has ended, and four made: 4 each time.
        ("ioengine=libaio\niodepth=4\niodepth_batch_complete_min=4\n", 4, 160),
        // Two are: 2, 2, 4, 4; then two each that find two under way, and are taken after 4. When only the last two are
        // awaited, each is taken as it ends.
        ("ioengine=libaio\niodepth=4\niodepth_batch_complete_min=2\n", 4, 12 + 36 * 4 - 1),
        // Thirteen times three, and one that waits for no others.
        ("ioengine=libaio\niodepth=3\niodepth_batch_complete_min=3\n", 3, 13 * 9 + 1),
    ] {
        let jobs = format!("[j]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\nnumber_ios=40\n{options}");
        let results = run(ONE_BY_ONE, &[], &jobs);
        let sum_ms = results.rows[0].read.latency.sum_ns() / u128::from(MS);
        let found = (results.rows[0].read.ios, results.device.in_flight_max, sum_ms);
        assert_eq!(found, (40, in_flight, latency_sum_ms), "{options}");
        assert_eq!(results.elapsed_ns, 40 * MS, "{options}");
    }
}

/// Requests that ended while the process was in fsync are taken when it comes back.
#[test]
fn batches_of_completions_and_fsyncs_do_not_deadlock() {
    for every in 1..=9 {
        for depth in 1..=6 {
            let jobs = format!(
                "[j]\nrw=randwrite\nbs=4k\ndirect=1\nsize=1g\nnumber_ios=16\nioengine=libaio\niodepth={depth}\niodepth_batch_complete_min={depth}\nfsync={every}\n"
            );
            let results = run(ONE_MS, &[], &jobs);
            let row = &results.rows[0];
            // None after the last, for there is no request before which it would be.
            assert_eq!((row.write.ios, row.sync.count()), (16, 15 / every), "{depth} {every}");
        }
    }
}

#[test]
fn the_device_window_is_the_disks_queue() {
    let jobs = "[j]\nrw=randread\nbs=4k\ndirect=1\nioengine=libaio\niodepth=64\nsize=4m\n";
    for (window, in_flight) in [("1", 1), ("8", 8), ("128", 64)] {
        let results = run(ONE_BY_ONE, &[("depth", window)], jobs);
        assert_eq!(results.device.in_flight_max, in_flight);
        assert_eq!(results.elapsed_ns, 1024 * MS);
    }
}
