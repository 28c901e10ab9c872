//! "Blk-throttle: reduce tail io latency when iops limit is enforced" (Liu Bo, 2018, Linux 4.19).
//!
//! One reader of 4 KiB at depth 1, with 4 ms of thinking after each read and a limit of 100 a second, on a null
//! device. (Its own cap of 4 MB/s was a budget of 20 reads for every 20 ms, ten times what is read, so that a read
//! took microseconds. A disk that takes a millisecond for each would differ, and is not used here.) Before the change
//! a read over the limit waited for the end of its slice and 10 ms more; after it, for the end of its slice. The mean
//! cannot change: 100 reads a second leave 10 ms for each, of which 4 are thinking.
//!
//! The figures were taken with slices of 20 ms and 1000 ticks a second: they show multiples of a tick. Timers of that
//! kernel rang up to a tick late, and a program is no clock; the machine here is as late (`timer-late`, `pause-late`,
//! `hiccup`). That matters: with exact pauses the tail before the change never appears.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::{Progress, ReproduceError, Reproduction, Run, spread};
use crate::builder::{ScenarioBuilder, Source};
use crate::sim;

pub(super) const REPRODUCTION: Reproduction = Reproduction {
    name: "blk-throttle-tail",
    source: "Linux 4.19, \"Blk-throttle: reduce tail io latency when iops limit is enforced\", 2018",
    about: "a read over its limit waits for its slice to end, and no longer",
    beside: &[],
    run,
    published,
};

const JOB: &str = "\
[global]
rw=randread
bs=4k
direct=1
numjobs=1
time_based=1
runtime=60
group_reporting=1

[file1]
size=4G
ioengine=libaio
iodepth=1
rate_iops=50000
norandommap=1
thinktime=4ms
";

/// Name, limiter, and whether its timers ring a tick late. Weir sleeps until an instant, not for ticks.
const SETTINGS: [(&str, &str, bool); 6] = [
    ("Linux 4.18: before", "slice:K418,hz=1000,slice=20ms", true),
    ("Linux 4.19: after", "slice:K419a,hz=1000,slice=20ms", true),
    ("Linux 6.12", "slice:6.12", true),
    ("Linux 6.15 and later", "slice:6.15", true),
    ("Weir, pace, burst 1", "pace", false),
    ("Weir, pace, as it comes", "pace", false),
];

fn run(progress: Progress<'_>) -> Result<Vec<Run>, ReproduceError> {
    let one = |index: u32| {
        let (setting, limiter, ticks) = SETTINGS[index as usize];
        let text = JOB.as_bytes().to_vec();
        let source = Source::Jobs { name: "seed.fio".into(), text, env: BTreeMap::new() };
        let mut builder = ScenarioBuilder::new(setting, source);
        let mut settings = vec![
            ("disk", "null,latency=2us"),
            ("limiter", limiter),
            ("max", "riops=100"),
            ("pause-late", "80us"),
            ("hiccup", "1ms"),
        ];
        match (limiter, ticks) {
            // A tick of today's kernels is 4 ms (250 a second), of those of the report 1 ms.
            (limiter, true) if limiter.contains("hz=1000") => {
                settings.push(("timer-late", "1ms"));
            }
            (_, true) => settings.push(("timer-late", "4ms")),
            (_, false) => {}
        }
        if setting.ends_with("burst 1") {
            settings.push(("burst", "riops=1"));
        }
        for (key, value) in settings {
            builder.set(key, value)?;
        }
        let results = sim::run(&builder.build()?, &mut |_| ControlFlow::Continue(()))?;
        let read = &results.rows[0].read;
        let us = |thousandths| read.latency.quantile_ns(thousandths) as f64 / 1000.0;
        let figures = vec![
            ("iops", (read.iops() * 1000.0).round() / 1000.0),
            ("latency_us_mean", read.latency.mean_ns().round() / 1000.0),
            ("latency_us_p50", us(50_000)),
            ("latency_us_p90", us(90_000)),
            ("latency_us_p95", us(95_000)),
            ("latency_us_p99", us(99_000)),
            ("latency_us_p99_9", us(99_900)),
            ("latency_us_max", read.latency.max_ns() as f64 / 1000.0),
        ];
        Ok(Run { setting: setting.into(), figures })
    };
    spread::all(SETTINGS.len() as u32, progress, one).into_iter().collect()
}

fn published() -> Vec<Run> {
    let run = |setting: &str, values: [f64; 8]| {
        let names = [
            "iops",
            "latency_us_mean",
            "latency_us_p50",
            "latency_us_p90",
            "latency_us_p95",
            "latency_us_p99",
            "latency_us_p99_9",
            "latency_us_max",
        ];
        Run { setting: setting.into(), figures: names.into_iter().zip(values).collect() }
    };
    vec![
        run("before", [99.0, 5929.81, 6.0, 12_911.0, 22_676.0, 23_725.0, 23_987.0, 28_887.0]),
        run("after", [100.0, 5961.58, 47.0, 11_994.0, 11_994.0, 11_994.0, 12_125.0, 12_393.0]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges of spec/throttle 1.13.
    #[test]
    fn the_published_tail_comes_out() {
        let runs = run(&|_, _| {}).unwrap();
        let figures = |at: usize| {
            let run: &Run = &runs[at];
            let figure = |name| run.figure(name).unwrap();
            (figure("iops"), figure("latency_us_mean"), figure("latency_us_p99"))
        };
        let (before, after, weir) = (figures(0), figures(1), figures(4));
        for (iops, mean, _) in [before, after, weir] {
            assert!((99.0..=100.5).contains(&iops), "{iops}");
            assert!((5_700.0..=6_100.0).contains(&mean), "{mean}");
        }
        assert!((22_000.0..=24_500.0).contains(&before.2), "{}", before.2);
        assert!((11_500.0..=12_500.0).contains(&after.2), "{}", after.2);
        assert!(weir.2 <= 6_200.0, "{}", weir.2);
    }
}
