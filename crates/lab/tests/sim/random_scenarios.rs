//! Random scenarios: whatever the jobs, limits and disks, every run comes to its end and its books balance. With more
//! cases: `PROPTEST_CASES=10000 cargo test -p weir-lab --test sim random`.

use std::ops::ControlFlow;

use proptest::prelude::*;
use proptest::sample::select;

use weir_lab::sim;

use super::support::*;

/// Disks, and what no request can be faster than at them, in nanoseconds.
const DISKS: &[(&str, u64)] = &[
    ("null,latency=100us", 100 * US),
    ("null,rate=20M,latency=50us", 50 * US),
    ("null,rate=1M,latency=10us", 10 * US),
    ("hdd7200", 0),
    ("disk2009", 0),
    ("ssd-sata", 0),
    ("ssd-nvme", 0),
];

/// One of these values for an option, or none of it.
fn option(name: &'static str, values: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just(String::new()),
        1 => select(values).prop_map(move |value| format!("{name}={value}\n")),
    ]
}

fn job() -> impl Strategy<Value = String> {
    let what = (
        select(
            &[
                "read",
                "write",
                "randread",
                "randwrite",
                "rw",
                "randrw",
                "trim",
                "randtrim",
                "trimwrite",
                "read:8k",
                "randread:4",
            ][..],
        ),
        select(&["bs=4k", "bs=64k", "bs=512,8k", "bsrange=4k-32k", "bssplit=4k/50:64k/50"][..]),
        select(&["psync", "libaio", "io_uring"][..]),
        select(&["1", "2", "7", "32"][..]),
        any::<bool>(),
    );
    let pacing = (
        option("thinktime", &["100us", "3ms"]),
        option("thinktime_blocks", &["2", "5"]),
        option("thinktime_blocks_type", &["issue", "complete"]),
        option("thinktime_iotime", &["2ms"]),
        option("rate", &["1m", "200k,50k"]),
        option("rate_process", &["poisson"]),
        option("rate_ignore_thinktime", &["1"]),
        option("flow", &["1", "3"]),
        option("flow_sleep", &["1ms"]),
    );
    let syncs = (
        option("fsync", &["1", "3"]),
        option("fdatasync", &["2"]),
        option("end_fsync", &["1"]),
        option("sync", &["sync", "dsync"]),
        option("iodepth_low", &["1", "3"]),
        option("iodepth_batch_complete_min", &["2", "32"]),
        option("max_latency", &["20ms"]),
        option("verify", &["crc32c"]),
        option("pre_read", &["1"]),
        option("serialize_overlap", &["1", "1\nio_submit_mode=offload"]),
    );
    let ends = (
        option("numjobs", &["2", "3"]),
        option("loops", &["2"]),
        option("startdelay", &["5ms", "1ms-20ms"]),
        option("ramp_time", &["3ms"]),
        select(&["runtime=30ms\n", "runtime=80ms\ntime_based\n", ""][..]),
        select(
            &[
                "",
                "",
                "stonewall\n",
                "exitall\n",
                "exitall\nexit_what=all\n",
                "new_group\n",
                "group_reporting\n",
            ][..],
        ),
        option("cgroup", &["a", "a/b", "c"]),
        option("nrfiles", &["3"]),
        option("norandommap", &["1"]),
        option("unified_rw_reporting", &["mixed", "both"]),
    );
    (what, pacing, syncs, ends).prop_map(
        |((rw, bs, engine, depth, direct), pacing, syncs, ends)| {
            let mut text = format!(
                "rw={rw}\n{bs}\nioengine={engine}\niodepth={depth}\ndirect={}\n",
                u8::from(direct)
            );
            // Bounded: without a time, by so many requests.
            text += "size=1m\nnumber_ios=60\n";
            let (a, b, c, d, e, f, g, h, i) = pacing;
            for part in [a, b, c, d, e, f, g, h, i] {
                text += &part;
            }
            let (a, b, c, d, e, f, g, h, i, j) = syncs;
            for part in [a, b, c, d, e, f, g, h, i, j] {
                text += &part;
            }
            let (a, b, c, d, e, f, g, h, i, j) = ends;
            for part in [&a, &b, &c, &d, e, f, &g, &h, &i, &j] {
                text += part;
            }
            text
        },
    )
}

fn settings() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let maybe = |key: &'static str, values: &'static [&'static str]| {
        prop_oneof![Just(None), select(values).prop_map(move |value| Some((key, value)))]
    };
    let first = (
        maybe("max", &["/a riops=500", "/a rbps=2M wbps=4M", "/a/b wiops=300"]),
        maybe("max", &["/ rbps=8M", "/main riops=2k wiops=1k", "/c wbps=1M"]),
        maybe("burst", &["/a riops=1", "/a wbps=64k"]),
        maybe("weight", &["/a 1", "/c 1000"]),
        maybe("limiter", &["pace", "slice", "slice:4.18,hz=1000", "token", "leaky"]),
        maybe("depth", &["1", "4"]),
        maybe("memory", &["64k", "1M", "256M"]),
        maybe("forks", &["j0"]),
        maybe("timer-late", &["1ms"]),
        maybe("way", &["1ms", "30us"]),
        maybe("stop-after", &["50ms"]),
    );
    const TUNED: &[&str] =
        &["slice_idle=0", "low_latency=0", "low_latency=0 stable=intent", "max_budget=32"];
    let then = (
        maybe("scheduler", &["bfq"]),
        maybe("bfq", TUNED),
        maybe("at", &["3ms scheduler=bfq", "20ms scheduler=none", "5ms depth=2"]),
        maybe("at", &["7ms max=/a riops=100", "7ms max=/main wbps=1M", "0s weight=/a 7"]),
        maybe("at", &["30ms limiter=token", "9ms watermark=50", "12ms bfq.slice_idle=0"]),
    );
    (first, then).prop_map(|((a, b, c, d, e, f, g, h, i, j, k), (l, m, n, o, p))| {
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p].into_iter().flatten().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300),
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_scenarios_end_and_their_audits_balance(
        jobs in prop::collection::vec(job(), 1..4),
        disk in select(DISKS),
        steady in option("ss", &["iops:100%\nss_dur=1", "bw_slope:30%\nss_dur=2", "iops:9\nss_dur=1\nss_ramp=1"]),
        searches in option("latency_window", &["50ms\nlatency_target=2ms\nlatency_percentile=60", "200ms\nlatency_target=20ms\nlatency_percentile=90\nlatency_run=1", "1s\nlatency_target=50ms"]),
        settings in settings(),
        seed in 0u64..1000,
    ) {
        let mut text = format!("[global]\n{steady}{searches}");
        for (number, job) in jobs.iter().enumerate() {
            text += &format!("[j{number}]\n{job}");
        }
        let mut builder = builder(disk.0, &settings, &text);
        builder.set("seed", &seed.to_string()).unwrap();
        // What contradicts itself is refused, which is an end as well.
        let Ok(scenario) = builder.build() else { return Ok(()) };
        let mut looks = 0;
        let results = sim::run(&scenario, &mut |_| {
            looks += 1;
            // A look every 65,536 events; the jobs make 2,000 requests at most.
            if looks > 30 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let results = match results {
            Ok(results) => results,
            Err(error) => return Err(TestCaseError::fail(format!("{error}\n{text}{settings:?}"))),
        };
        prop_assert!(looks <= 30, "no end in sight\n{}{:?}", text, settings);
        sound(&results);
        prop_assert!(results.device.ios == 0 || results.device.latency.min_ns() >= disk.1);
        let is_stopped = settings.iter().any(|(key, _)| *key == "stop-after");
        for row in &results.rows {
            // Only rows that were stopped, or ended by another, are empty.
            let ios = row.read.ios + row.write.ios + row.trim.ios;
            let may_be_idle = is_stopped || text.contains("exitall") || text.contains("ramp_time") || text.contains("runtime=30ms");
            prop_assert!(ios > 0 || may_be_idle, "{}\n{}{:?}", row.name, text, settings);
        }
    }
}
