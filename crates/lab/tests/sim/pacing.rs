//! When requests are made: `rate`, `thinktime`, delays.

use weir_engine::Dimension;

use super::support::*;

/// Requests, and when all is over, of `[j]` with some options; each request takes a millisecond.
fn ends(options: &str) -> (u64, u64) {
    let jobs = format!("[j]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\n{options}");
    let results = run(ONE_MS, &[], &jobs);
    (results.rows[0].read.ios, results.elapsed_ns / US)
}

/// The job of the blk-throttle fix of 2018: a limit of 100 I/Os a second and 4 ms of thinking leave 6 ms of waiting.
#[test]
fn a_paced_reader_waits_the_rest_of_its_interval() {
    let jobs =
        "[j]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\nthinktime=4ms\nruntime=10\ntime_based\n";
    let settings = [("max", "riops=100"), ("burst", "riops=1")];
    let results = run("null,latency=10us", &settings, jobs);
    let read = &results.rows[0].read;
    assert_eq!(read.ios, 1001);
    // The first one does not wait.
    assert_eq!((read.latency.min_ns(), read.latency.max_ns()), (10 * US, 6 * MS));
    assert_eq!(read.latency.quantile_ns(1_000), 6 * MS);
    let main = cgroup(&results, "/main");
    assert_eq!(main.limit_waits[0].wait_ns[Dimension::Riops as usize], 1000 * (6 * MS - 10 * US));
    assert_eq!(main.counters.completed, 1001);
}

#[test]
fn a_pause_begins_when_all_requests_have_ended() {
    for (options, expected) in [
        // A pause of 4 ms after each request, the last included, as in fio.
        ("number_ios=10\nthinktime=4ms\n", (10, 50_000)),
        // After the third and the sixth.
        ("number_ios=7\nthinktime=4ms\nthinktime_blocks=3\n", (7, 15_000)),
        // Part of a pause may be spent computing, without effect.
        ("number_ios=10\nthinktime=4ms\nthinktime_spin=3ms\n", (10, 50_000)),
        // Two issued, awaited, a pause: four times.
        (
            "number_ios=8\nthinktime=4ms\nthinktime_blocks=2\nthinktime_blocks_type=issue\nioengine=libaio\niodepth=4\n",
            (8, 20_000),
        ),
        // Four are issued; when the first of them has ended, a fifth. The second to end asks for a pause, which waits for
        // all: 2 to 6 ms. Three more have ended meanwhile, so that one more request is enough: 7 to 11 ms. Then two.
        (
            "number_ios=8\nthinktime=4ms\nthinktime_blocks=2\nioengine=libaio\niodepth=4\n",
            (8, 12_000),
        ),
        // Five milliseconds of I/O, ten of thinking; the first time ten more of I/O. `thinktime_blocks` does not count unless
        // it is named.
        ("number_ios=30\nthinktime=10ms\nthinktime_iotime=5ms\n", (30, 70_000)),
        (
            "number_ios=20\nthinktime=10ms\nthinktime_iotime=5ms\nthinktime_blocks=2\n",
            (20, 120_000),
        ),
        (
            "number_ios=20\nthinktime=10ms\nthinktime_iotime=5ms\nthinktime_blocks=1\n",
            (20, 220_000),
        ),
        // The time is up in a pause.
        ("runtime=1\ntime_based\nthinktime=800ms\n", (2, 1_000_000)),
    ] {
        assert_eq!(ends(options), expected, "{options}");
    }
}

#[test]
fn rates_are_kept_and_caught_up() {
    for (options, requests) in [
        ("rate_iops=100\nruntime=10\ntime_based\n", 1000),
        ("rate=1m\nruntime=10\ntime_based\n", 2560),
        // 400 KiB a second are 100 requests of 4 KiB, and 50 of 8 KiB.
        ("rate=400k\nruntime=10\ntime_based\nbs=8k\n", 500),
        // A rate that the disk does not reach.
        ("rate_iops=50000\nruntime=1\ntime_based\n", 1000),
        // Ten requests in a row, then a pause that is longer than what they leave: after the first ten, which end at
        // 91 ms, it is 110 ms from one row to the next. 16 rows begin from 191 ms to 1.9 s.
        ("rate_iops=100\nthinktime=100ms\nthinktime_blocks=10\nruntime=1900ms\ntime_based\n", 170),
        // Not caught up: 10 ms apart in the row as well, and the next right after the pause: 190 ms a row.
        (
            "rate_iops=100\nthinktime=100ms\nthinktime_blocks=10\nrate_ignore_thinktime=1\nruntime=1900ms\ntime_based\n",
            100,
        ),
        // Pauses shorter than an interval make it longer: 10 ms and 5 ms.
        ("rate_iops=100\nthinktime=5ms\nrate_ignore_thinktime=1\nruntime=3\ntime_based\n", 200),
    ] {
        assert_eq!(ends(options).0, requests, "{options}");
    }
}

/// Reads, writes and milliseconds of fio 3.33 for the same jobs, on a file in memory.
#[test]
fn each_direction_has_a_rate() {
    for (options, theirs) in [
        // Whichever is due first goes, whatever the shares of the mix.
        ("rate_iops=300\n", (128, 128, 423)),
        ("rate_iops=300\nrwmixread=80\n", (128, 128, 423)),
        ("rate=1m,2m\nioengine=libaio\niodepth=4\n", (86, 170, 332)),
        ("rate_iops=200,600\nsize=2m\nioengine=libaio\niodepth=8\n", (128, 384, 638)),
        ("rate_iops=200\nnumber_ios=100\nrwmixread=90\n", (50, 50, 245)),
        ("rate=1m\nbs=4k,16k\nnorandommap\nsize=2m\n", (256, 64, 996)),
        ("rate_iops=300\nnrfiles=4\nsize=4m\n", (512, 512, 1703)),
        // A direction without a rate does not wait for one with a rate; a share of none stays none.
        ("rate=1m,\nrwmixread=30\n", (1, 255, 0)),
        ("rate_iops=,300\n", (255, 1, 0)),
        ("rate_iops=256\nrwmixread=100\nsize=2m\n", (512, 0, 1996)),
        ("rate_iops=300,200\nrwmixread=0\n", (0, 256, 1275)),
        // What is read again has no rate.
        ("rate_iops=300\nverify=crc32c\n", (256, 128, 423)),
    ] {
        let jobs = format!("[j]\nrw=randrw\nbs=4k\ndirect=1\nsize=1m\n{options}");
        let results = run("null,latency=1us", &[], &jobs);
        let row = &results.rows[0];
        let (reads, writes, ms) = theirs;
        // Where both are due at once, either may be the first.
        assert!(row.read.ios.abs_diff(reads) <= 1, "{options}: {}", row.read.ios);
        assert!(row.write.ios.abs_diff(writes) <= 1, "{options}: {}", row.write.ios);
        assert!((results.elapsed_ns / MS).abs_diff(ms) <= 1, "{options}: {}", results.elapsed_ns);
    }
}

/// Milliseconds of fio 3.33. As its HOWTO says, a rate of requests is one of bytes: of the smallest.
#[test]
fn a_rate_of_requests_of_any_size_is_one_of_the_smallest() {
    for (options, ms) in [
        ("rw=read\nrate_iops=500\nbsrange=4k-16k\n", 508..=512),
        ("rw=write\nrate_iops=500\nbsrange=4k-16k\n", 500..=512),
        // Not with arrivals by chance.
        ("rw=randwrite\nrate_iops=300\nrate_process=poisson\nbsrange=4k-16k\n", 300..=480),
    ] {
        let results = run("null", &[], &format!("[j]\ndirect=1\nsize=1m\n{options}"));
        assert!(ms.contains(&(results.elapsed_ns / MS)), "{options}: {}", results.elapsed_ns);
    }
}

#[test]
fn verification_is_not_paced() {
    for (options, ms) in [
        // A pause after each of 64 writes; with a backlog also after what is read among them.
        ("thinktime=2ms\n", 128),
        ("thinktime=2ms\nverify_backlog=4\n", 256),
        ("rate_iops=400\n", 157),
        ("rate_iops=200,400\nverify_backlog=4\n", 157),
        ("rate_iops=400\nloops=3\n", 477),
    ] {
        let jobs = format!("[j]\nrw=write\nbs=4k\ndirect=1\nsize=256k\nverify=crc32c\n{options}");
        let results = run("null,latency=1us", &[], &jobs);
        assert_eq!(results.rows[0].read.ios, results.rows[0].write.ios);
        assert!((results.elapsed_ns / MS).abs_diff(ms) <= 1, "{options}: {}", results.elapsed_ns);
    }
}

/// After the first cycle that is checked: from 2 s on.
#[test]
fn a_minimum_that_is_not_reached_ends_the_job() {
    let run = |options: &str| {
        let jobs = format!(
            "[j]\nrw=randrw\nbs=4k\ndirect=1\nsize=1g\nruntime=10\ntime_based\nrwmixread=100\n{options}"
        );
        let results = run(ONE_MS, &[], &jobs);
        (results.rows[0].error.clone().unwrap_or_default(), results.elapsed_ns / MS)
    };
    let fine = (String::new(), 10_000);
    // 1,000 requests a second.
    assert_eq!(run("rate_iops_min=900\n"), fine);
    let (why, when_ms) = run("rate_iops_min=1100\n");
    assert!(
        why.starts_with("reads at 1.00k/s in a cycle")
            && why.ends_with("less than its rate_iops_min of 1100/s"),
        "{why}"
    );
    assert!(when_ms.abs_diff(3_000) < 5, "{when_ms}");
    let (why, when_ms) = run("rate_min=4m,1m\nrate_cycle=500\n");
    assert!(why.contains("less than its rate_min of 4 MiB/s"), "{why}");
    assert!(when_ms.abs_diff(2_500) < 5, "{when_ms}");
    // There are too few writes; a direction without requests is not checked.
    let (why, _) = run("rate_min=,1m\nrwmixread=99\n");
    assert!(why.starts_with("writes at "), "{why}");
    assert_eq!(run("rate_min=,1m\n"), fine);
    // One value is for every direction.
    assert!(run("rate_iops_min=900\nrwmixread=99\n").0.starts_with("writes at "));
    // A rate in bytes: a minimum of requests is not asked for.
    assert_eq!(run("rate=1m,1m\nrate_iops_min=100k\n"), fine);
    assert_eq!(run("rate=1m,1m\nrate_min=1000k,1k\n"), fine);
    // A cycle that is never over.
    assert_eq!(run("rate_min=1g\nrate_cycle=9s\n"), fine);
}

#[test]
fn poisson_arrivals_have_the_mean_of_their_rate() {
    let jobs = "[j]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\nioengine=libaio\niodepth=64\nrate_process=poisson\nruntime=20\ntime_based\n";
    for (rate, mean) in [("rate_iops=1000\n", 20_000), ("rate=4000k\n", 20_000)] {
        let jobs = format!("{jobs}{rate}");
        let ios = |seed| {
            let results = run("null,latency=10us", &[("seed", seed)], &jobs);
            (results.rows[0].read.ios, results.elapsed_ns)
        };
        let first = ios("1");
        assert_eq!(first, ios("1"));
        // Five times the deviation, which is the root of the mean.
        assert!(first.0.abs_diff(mean) < 708, "{first:?}");
        assert_ne!(first.0, ios("2").0);
    }
    // Not evenly: with 10 ms a request and 100 a second, the disk is idle for a third of the time, and queues form.
    let jobs = "[j]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\nioengine=libaio\niodepth=64\nrate_process=poisson\nrate_iops=100\nruntime=200\ntime_based\n";
    let results = run("null,rate=819200,latency=0ns", &[], jobs);
    // A queue with random arrivals and equal service, half of its capacity used, holds a request 1.5 times as long as
    // the service takes (Pollaczek and Khinchine).
    let mean = results.rows[0].read.latency.mean_ns() / 5e6;
    assert!((mean - 1.5).abs() < 0.06, "{mean}");
}

#[test]
fn a_delay_is_drawn_from_its_range() {
    let jobs = "[j]\nrw=read\ndirect=1\nsize=4k\nstartdelay=1-3\n";
    let delays: Vec<u64> = (0..50)
        .map(|seed: u32| run(ONE_MS, &[("seed", &seed.to_string())], jobs).elapsed_ns - MS)
        .collect();
    assert!(delays.iter().all(|delay| (SECOND..=3 * SECOND).contains(delay)), "{delays:?}");
    let mean = delays.iter().sum::<u64>() / 50;
    assert!(mean.abs_diff(2 * SECOND) < 350 * MS, "{mean}");
    // Clones do not start together.
    let jobs = "[j]\nrw=read\ndirect=1\nsize=4k\nstartdelay=1-3\nnumjobs=3\n[k]\nrw=read\ndirect=1\nsize=4k\nstonewall\n";
    let results = run(ONE_MS, &[], jobs);
    assert_eq!(results.device.in_flight_max, 1);
}

/// A thousand a second: as many as `number_ios` says in the ramp, or after it, with the one that ends where it ends.
#[test]
fn number_ios_counts_anew_after_the_ramp() {
    for (options, expected) in [
        ("number_ios=1500\nramp_time=1\n", (1500, 2_499_000)),
        ("number_ios=500\nloops=3\nramp_time=1\n", (1500, 2_499_000)),
        ("number_ios=6000\nramp_time=1\nioengine=libaio\niodepth=4\n", (6000, 2_499_000)),
        ("number_ios=500\nramp_time=1\n", (500, 500_000)),
        ("number_ios=1500\nramp_time=1\nsize=8000k\n", (1001, 2_000_000)),
        ("number_ios=150\nramp_time=1\nrate_iops=100\n", (150, 2_491_000)),
    ] {
        assert_eq!(ends(options), expected, "{options}");
    }
}

#[test]
fn ramp_time_goes_before_the_runtime_and_is_not_reported() {
    let jobs = "[j]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\nruntime=2\nramp_time=1\ntime_based\n";
    let results = run(ONE_MS, &[], jobs);
    let row = &results.rows[0];
    // Ends at 1.000, 1.001, ... 3.000 s.
    assert_eq!((row.read.ios, row.runtime_ns), (2001, 2 * SECOND));
    assert_eq!((results.elapsed_ns, results.device.ios), (3 * SECOND, 3000));
}

#[test]
fn a_runtime_ends_what_is_longer_and_only_time_based_goes_on() {
    for (options, expected) in [
        ("runtime=1\nnumber_ios=10\n", (10, 10_000)),
        ("runtime=1\nsize=40k\n", (10, 10_000)),
        ("runtime=1\nsize=40k\ntime_based\n", (1000, 1_000_000)),
        ("runtime=5ms\n", (5, 5_000)),
        ("loops=3\nsize=40k\n", (30, 30_000)),
        ("loops=2\nnumber_ios=5\n", (10, 10_000)),
        ("io_size=80k\nsize=40k\n", (20, 20_000)),
        // What is under way at the end of the time is awaited.
        ("runtime=1500us\ntime_based\n", (2, 2_000)),
    ] {
        assert_eq!(ends(options), expected, "{options}");
    }
}

#[test]
fn a_late_machine_stretches_pauses() {
    let jobs = "[j]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\nnumber_ios=1000\nthinktime=4ms\n";
    let late = run(ONE_MS, &[("pause-late", "80us")], jobs);
    assert_eq!(late.elapsed_ns, 1000 * (5 * MS + 80 * US));
    let with_hiccups = run(ONE_MS, &[("pause-late", "80us"), ("hiccup", "1ms")], jobs);
    let hiccups = (with_hiccups.elapsed_ns - late.elapsed_ns) / MS;
    // One in ten: five deviations of 9.5.
    assert!(hiccups.abs_diff(100) < 48, "{hiccups}");
}
