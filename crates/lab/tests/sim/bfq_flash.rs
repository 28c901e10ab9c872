//! `scheduler = "bfq"` on flash that queues commands: cgroups that want little, beside others that want all.
//!
//! Idling protects a share. What it costs the device must not be more than that, for any sharers: equal or unequal
//! weights, one flow in a cgroup or several, small requests or large ones.

use weir_lab::results::{Results, Row};

use crate::support;

const GLOBAL: &str =
    "[global]\ndirect=1\nioengine=libaio\ntime_based\nruntime=4\nramp_time=2\nsize=1g\n";

/// What `ssd-sata` does at its best, and a reader with one request of 4 KiB at a time, in bytes a second.
const BEST: u64 = 546_000_000;
const ONE_SMALL: u64 = 40_600_000;

/// Jobs of a cgroup: `flows` of them, each with `options`.
fn cgroup(name: &str, weight: u32, flows: u32, options: &str) -> String {
    let jobs = (0..flows).map(|flow| {
        let offset = if name == "big" { flow } else { 20 + flow };
        format!(
            "[{name}{flow}]\ncgroup={name}\ncgroup_weight={weight}\noffset={offset}g\n{options}\n"
        )
    });
    jobs.collect()
}

fn run(jobs: &str, settings: &[(&str, &str)]) -> Results {
    let settings = [&[("scheduler", "bfq")], settings].concat();
    support::run("ssd-sata", &settings, &format!("{GLOBAL}{jobs}"))
}

fn rows<'a>(results: &'a Results, cgroup: &'a str) -> impl Iterator<Item = &'a Row> {
    results.rows.iter().filter(move |row| row.name.starts_with(cgroup))
}

/// Bytes a second of a cgroup.
fn rate(results: &Results, cgroup: &str) -> u64 {
    rows(results, cgroup).map(|row| (row.read.bytes + row.write.bytes) / 4).sum()
}

/// Requests a second of a cgroup.
fn iops(results: &Results, cgroup: &str) -> u64 {
    rows(results, cgroup).map(|row| (row.read.ios + row.write.ios) / 4).sum()
}

fn p99_us(results: &Results, cgroup: &str) -> u64 {
    rows(results, cgroup).map(|row| row.read.latency.p99_ns() / 1_000).max().expect("a job")
}

/// A cgroup without a limit beside one that reads 1,000 blocks of 4 KiB a second.
#[test]
fn a_light_cgroup_costs_a_heavy_one_no_more_than_it_uses() {
    let small = "rw=randread\nbs=4k\niodepth=32";
    let one = format!("{small}\nrate_iops=1000");
    let four = format!("{small}\nrate_iops=250");
    let stream = |bs: &str, depth: u32| format!("rw=read\nbs={bs}\niodepth={depth}");
    // The big flows, how many, what they have alone; the small ones, how many; and what a read of these may take where
    // weights are equal, or its own is larger: what the device does in a millisecond, and one request more.
    let table = [
        (stream("128k", 32), 1, BEST, &one, 1, 2_000),
        (stream("128k", 8), 4, BEST, &four, 4, 2_500),
        (stream("128k", 1), 1, 340_000_000, &one, 1, 2_000),
        (stream("1m", 8), 1, BEST, &one, 1, 3_500),
        ("rw=write\nbs=128k\niodepth=32".into(), 1, BEST, &one, 1, 2_500),
    ];
    for (big, bigs, alone, small, smalls, most_us) in table {
        for weights in [[100, 100], [100, 300], [300, 100]] {
            let jobs =
                cgroup("big", weights[0], bigs, &big) + &cgroup("small", weights[1], smalls, small);
            let results = run(&jobs, &[]);
            let what =
                format!("{bigs} of {big:?} beside {smalls} of {small:?}, weights {weights:?}");
            let [big, reads, p99_us] =
                [rate(&results, "big"), iops(&results, "small"), p99_us(&results, "small")];
            assert!(big * 100 >= alone * 90, "{what}: {big} bytes/s of {alone}");
            assert!(reads >= 990, "{what}: {reads} reads a second");
            // With a third of the weight it is due later.
            let most_us = if weights[0] > weights[1] { 2 * most_us } else { most_us };
            assert!(p99_us <= most_us, "{what}: {p99_us} us");
        }
    }
}

#[test]
fn a_rare_read_is_served_soon_beside_a_stream() {
    // Each read comes long after the last one was forgotten.
    let jobs = cgroup("big", 100, 1, "rw=read\nbs=128k\niodepth=32")
        + &cgroup("small", 100, 1, "rw=randread\nbs=4k\nrate_iops=20");
    let results = run(&jobs, &[]);
    assert!(rate(&results, "big") * 100 >= BEST * 97, "{} bytes/s", rate(&results, "big"));
    assert!(p99_us(&results, "small") <= 2_000, "{} us", p99_us(&results, "small"));
}

#[test]
fn two_saturating_cgroups_share_by_weight() {
    let read = |rw: &str, bs: &str, depth: u32| format!("rw={rw}\nbs={bs}\niodepth={depth}");
    let kinds = [
        [read("read", "128k", 32), read("read", "128k", 32)],
        [read("read", "128k", 4), read("read", "128k", 4)],
        [read("randread", "4k", 32), read("randread", "4k", 32)],
    ];
    for [one, other] in kinds {
        for weights in [[100, 100], [100, 300], [300, 100]] {
            let jobs = cgroup("big", weights[0], 1, &one) + &cgroup("small", weights[1], 1, &other);
            let results = run(&jobs, &[]);
            let [mine, theirs] = ["big", "small"].map(|cgroup| rate(&results, cgroup));
            let due = (mine + theirs) * u64::from(weights[0]) / u64::from(weights[0] + weights[1]);
            assert!(
                mine.abs_diff(due) * 50 <= due,
                "{one:?}, weights {weights:?}: {mine} of {due} bytes/s"
            );
            assert!((mine + theirs) * 100 >= 400_000_000 * 97, "{one:?}: {mine} and {theirs}");
        }
    }
}

#[test]
fn flows_at_depth_one_do_not_slow_each_other() {
    // One request of 4 KiB at a time each: no flow loses anything to another, whatever the weights.
    let small = "rw=randread\nbs=4k";
    for weights in [[100, 100], [100, 900]] {
        let jobs = cgroup("big", weights[0], 2, small) + &cgroup("small", weights[1], 2, small);
        let results = run(&jobs, &[]);
        for name in ["big", "small"] {
            let rate = rate(&results, name);
            assert!(rate * 100 >= 2 * ONE_SMALL * 90, "{weights:?}: {rate} bytes/s of {name}");
        }
    }
}

#[test]
fn a_reader_at_depth_one_gets_its_share_of_device_time() {
    // The stream is alone at first, so that it is known what the device does. Each has half of the time then.
    let stream = "rw=read\nbs=128k\niodepth=32\nruntime=8\nramp_time=3";
    let jobs = cgroup("big", 100, 1, stream)
        + &cgroup("small", 100, 1, "rw=randread\nbs=4k\nstartdelay=2\nruntime=6\nramp_time=1");
    let results = run(&jobs, &[]);
    let [big, small] = ["big", "small"].map(|cgroup| {
        let row = rows(&results, cgroup).next().expect("a job");
        row.read.bytes * 1_000_000_000 / row.read.runtime_ns
    });
    assert!(big * 100 >= BEST * 40, "{big} bytes/s of the stream");
    assert!(small * 100 >= ONE_SMALL * 40, "{small} bytes/s of the reader");
}

#[test]
fn a_stream_is_as_fast_with_bfq_as_without_below_a_watermark() {
    // Limits bind above 90 % only, and the stream's is far below what it has until then. A device that is kept free is not
    // used, and limits would not bind, with most of it left.
    let jobs = cgroup("big", 100, 1, "rw=read\nbs=128k\niodepth=32")
        + &cgroup("small", 100, 1, "rw=randread\nbs=4k\niodepth=32\nrate_iops=1000");
    let [turns, bfq] = ["none", "bfq"].map(|scheduler| {
        let settings = [("scheduler", scheduler), ("max", "/big rbps=20M"), ("watermark", "90")];
        let results = run(&jobs, &settings);
        assert!(iops(&results, "small") >= 990, "{scheduler}");
        rate(&results, "big")
    });
    assert!(bfq * 100 >= turns * 90, "{bfq} bytes/s, {turns} without a scheduler");
}
