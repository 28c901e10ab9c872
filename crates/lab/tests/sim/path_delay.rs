//! Path delay between disk and process.

use super::support::*;

const JOB: &str = "[j]\nrw=randread\nbs=4k\ndirect=1\nioengine=libaio\nsize=1g\nnumber_ios=1000\n";

#[test]
fn path_delay_adds_to_latency() {
    let results = run(ONE_MS, &[("way", "200us")], JOB);
    let read = &results.rows[0].read;
    assert_eq!((read.latency.min_ns(), read.latency.max_ns()), (1_200 * US, 1_200 * US));
    assert_eq!(results.elapsed_ns, 1_200 * MS);
    // Engine and disk know nothing of it.
    assert_eq!(cgroup(&results, "/main").latency.max_ns(), MS);
    assert_eq!((results.device.latency.max_ns(), results.device.busy_ns), (MS, 1_000 * MS));
    assert_eq!((results.way_ns, results.way_each_ns), (200 * US, 0));
}

#[test]
fn path_delay_hides_behind_the_disk_at_depth_two() {
    // 4 KiB a millisecond, one after the other: with two in flight the disk never waits but for the first.
    for (depth, elapsed_us) in [(1, 1_000 * 1_200), (2, 1_000 * 1_000 + 200)] {
        let results = run(ONE_BY_ONE, &[("way", "200us")], &format!("{JOB}iodepth={depth}\n"));
        assert_eq!(results.elapsed_ns / US, elapsed_us);
    }
}

#[test]
fn the_serial_part_limits_the_rate() {
    let way = [("way", "100us"), ("way-each", "10us")];
    for (depth, elapsed_us) in [
        // 100 us a request.
        (1, 1_000 * 100),
        // Four 10 us apart, again after 100 us.
        (4, 250 * 100 + 30),
        // One is always in the serial part, and the last takes the parallel rest.
        (10, 1_000 * 10 + 90),
        (64, 1_000 * 10 + 90),
    ] {
        let results = run(AT_ONCE, &way, &format!("{JOB}iodepth={depth}\n"));
        assert_eq!(results.elapsed_ns / US, elapsed_us, "{depth}");
    }
    // The default is no way at all: on this disk nothing would take any time.
    assert!(finish(&builder(AT_ONCE, &[], &format!("{JOB}time_based\nruntime=1\n"))).is_err());
}

/// Each time is equally likely.
#[test]
fn path_delay_is_drawn_from_a_list() {
    let results = run(ONE_MS, &[("way", "100us,200us, 900us")], &format!("{JOB}number_ios=3000\n"));
    let times = &results.rows[0].read.latency;
    assert_eq!((times.min_ns(), times.max_ns()), (1_100 * US, 1_900 * US));
    // A third of 3,000 each, five deviations of 26 around it.
    let mean_us = times.mean_ns() / 1e3;
    assert!((mean_us - 1_400.0).abs() < 33.0, "{mean_us}");
    assert_eq!(times.quantile_ns(50_000).abs_diff(1_200 * US) / (5 * US), 0);
    assert_eq!(results.way_ns, 400 * US);
    let another = run(ONE_MS, &[("way", "100us,200us,900us"), ("seed", "2")], JOB);
    assert_ne!(another.elapsed_ns, run(ONE_MS, &[("way", "100us,200us,900us")], JOB).elapsed_ns);
}

/// fsync, a write that is synced, the page cache, a trace.
#[test]
fn path_delay_applies_to_every_kind_of_request() {
    let ends_us = |options: &str| {
        let jobs = format!("[j]\nrw=write\nbs=4k\nsize=1g\nnumber_ios=10\n{options}");
        run(ONE_MS, &[("way", "200us")], &jobs).elapsed_ns / US
    };
    assert_eq!(ends_us("direct=1\n"), 12_000);
    assert_eq!(ends_us("direct=1\nfsync=1\nend_fsync=1\n"), 20 * 1_200);
    assert_eq!(ends_us("direct=1\nsync=1\n"), 20 * 1_200);
    // The cache takes half a microsecond and a copy of 4 KiB: one write of the 40 KiB, and the flush.
    let copies = 10 * (500 + 512) + 500;
    assert_eq!(ends_us("end_fsync=1\n"), 2 * 1_200 + copies / 1_000);
    let log = std::env::temp_dir().join(format!("weir-lab-way-{}.iolog", std::process::id()));
    std::fs::write(
        &log,
        "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf read 4096 4096\nf close\n",
    )
    .unwrap();
    let jobs = format!("[j]\nread_iolog={}\n", log.display());
    let ended = run(ONE_MS, &[("way", "200us")], &jobs).elapsed_ns / US;
    std::fs::remove_file(&log).unwrap();
    assert_eq!(ended, 2 * 1_200);
}

#[test]
fn a_serial_part_longer_than_the_delay_is_refused() {
    let error = builder(ONE_MS, &[("way", "20us"), ("way-each", "30us")], JOB).build().unwrap_err();
    assert_eq!(error.to_string(), "way-each: 30 us of each request, and the way takes 20 us");
}
