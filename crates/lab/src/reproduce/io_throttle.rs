//! "cgroup: io-throttle controller" v16 (Andrea Righi, 2009): limits that bind only when the disk is busy.
//!
//! Two writers of 256 MiB in requests of 1 MiB, a cgroup each, on a disk of about 20 MiB/s: through the page cache
//! and around it, without limits, with hard limits of 4 and 2 MiB/s, and with the same under a watermark.
//!
//! Memory follows from the figures: 119 MiB were dirty when the limits held the writers back (case 3), a fifth of 600
//! MiB. That kernel let no task have all dirty memory, so each writer has half of it here. A thread of its own
//! carried io-throttle's delays, not the flusher; so the flusher's depth is not limited here.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::{Progress, ReproduceError, Reproduction, Run, spread};
use crate::builder::{ScenarioBuilder, Source};
use crate::results::{CgroupResults, Results};
use crate::sim;

pub(super) const REPRODUCTION: Reproduction = Reproduction {
    name: "io-throttle-watermark",
    source: "\"cgroup: io-throttle controller (v16)\", 2009, not merged",
    about: "limits of 4 and 2 MiB/s that bind only when the disk is busy",
    beside: &["disk_mib_per_sec", "duration_ratio"],
    run,
    published,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    Never,
    Always,
    Above(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    number: u8,
    direct: bool,
    hold: Hold,
}

const CASES: [Case; 8] = [
    Case { number: 1, direct: false, hold: Hold::Never },
    Case { number: 2, direct: true, hold: Hold::Never },
    Case { number: 3, direct: false, hold: Hold::Always },
    Case { number: 4, direct: true, hold: Hold::Always },
    Case { number: 5, direct: false, hold: Hold::Above(90) },
    Case { number: 6, direct: true, hold: Hold::Above(90) },
    Case { number: 7, direct: false, hold: Hold::Above(100) },
    Case { number: 8, direct: true, hold: Hold::Above(100) },
];

impl Case {
    fn name(self) -> String {
        let way = if self.direct { "direct" } else { "buffered" };
        let hold = match self.hold {
            Hold::Never => "no limits".into(),
            Hold::Always => "limits".into(),
            Hold::Above(percent) => format!("watermark {percent}"),
        };
        format!("{} {way}, {hold}", self.number)
    }
}

#[derive(Debug, Clone, Copy)]
struct Mode {
    name: &'static str,
    /// What follows the percentage.
    settings: &'static str,
    limiter: &'static str,
    /// Of each writer.
    burst: Option<&'static str>,
}

const MODES: [Mode; 2] = [
    // io-throttle's own buckets, with room for a request each. Its sampling period is not known. With periods much
    // longer than a request the disk is idle for whole ones; with shorter ones the limits make no difference.
    Mode {
        name: "gate",
        settings: " mode=gate period=50ms",
        limiter: "token",
        burst: Some("wbps=1M"),
    },
    Mode { name: "proportional", settings: "", limiter: "pace", burst: None },
];

const MIB: f64 = 1_048_576.0;

fn run(progress: Progress<'_>) -> Result<Vec<Run>, ReproduceError> {
    let mut plan: Vec<(Case, Mode)> = Vec::new();
    for case in CASES {
        let modes = if matches!(case.hold, Hold::Above(_)) { &MODES[..] } else { &MODES[1..] };
        plan.extend(modes.iter().map(|&mode| (case, mode)));
    }
    let one = |index: u32| {
        let (case, mode) = plan[index as usize];
        let name = match case.hold {
            Hold::Above(_) => format!("{}, {}", case.name(), mode.name),
            Hold::Never | Hold::Always => case.name(),
        };
        let results = simulate(case, mode)?;
        Ok(Run { setting: name, figures: figures(&results) })
    };
    spread::all(plan.len() as u32, progress, one).into_iter().collect()
}

fn simulate(case: Case, mode: Mode) -> Result<Results, ReproduceError> {
    let direct = u8::from(case.direct);
    let jobs = format!(
        "[global]\nrw=write\nbs=1m\nsize=256m\nioengine=psync\nend_fsync=1\ndirect={direct}\n\
         [one]\ncgroup=one\n[two]\ncgroup=two\n"
    );
    let source =
        Source::Jobs { name: "writers.fio".into(), text: jobs.into(), env: BTreeMap::new() };
    let mut builder = ScenarioBuilder::new(case.name(), source);
    for (key, value) in [
        ("disk", "disk2009"),
        ("memory", "600M"),
        ("dirty-each", "60M"),
        ("flusher-depth", "1000"),
        ("limiter", mode.limiter),
    ] {
        builder.set(key, value)?;
    }
    if case.hold != Hold::Never {
        builder.set("max", "/one wbps=4M")?;
        builder.set("max", "/two wbps=2M")?;
        for writer in ["/one", "/two"] {
            if let Some(burst) = mode.burst {
                builder.set("burst", &format!("{writer} {burst}"))?;
            }
        }
    }
    if let Hold::Above(percent) = case.hold {
        builder.set("watermark", &format!("{percent}{}", mode.settings))?;
    }
    Ok(sim::run(&builder.build()?, &mut |_| ControlFlow::Continue(()))?)
}

/// Figures of the writers and the disk. `dd` does not wait for its data to be on the disk, so the time of the last
/// sync is taken off.
fn figures(results: &Results) -> Vec<(&'static str, f64)> {
    let seconds = |row: usize| {
        let row = &results.rows[row];
        (row.runtime_ns - row.sync.max_ns()) as f64 / 1e9
    };
    let bytes = |row: usize| results.rows[row].write.bytes as f64;
    let (first, second) = (seconds(0), seconds(1));
    let together = together(results);
    vec![
        ("first_mb_per_sec", bytes(0) / first / 1e6),
        ("second_mb_per_sec", bytes(1) / second / 1e6),
        ("duration_s_first", first),
        ("duration_s_second", second),
        ("duration_ratio", second / first),
        ("disk_mib_per_sec", results.device.bytes as f64 / results.elapsed_ns as f64 * 1e9 / MIB),
        ("first_at_disk_mib_per_sec", together.rates[0]),
        ("second_at_disk_mib_per_sec", together.rates[1]),
        ("split_at_disk", together.rates[0] / together.rates[1]),
    ]
}

/// The time in which both have something to write.
struct Together {
    /// MiB a second at the disk, of each.
    rates: [f64; 2],
}

/// Rates at the disk from when both had begun until one of them was done, less a second at either end.
fn together(results: &Results) -> Together {
    let cgroup = |path: &str| {
        let found = results.cgroups.iter().find(|cgroup| cgroup.path == path);
        found.expect("both writers have one")
    };
    let both = [cgroup("/one"), cgroup("/two")];
    let interval_ns = both.map(|cgroup| cgroup.write_series.interval_ns());
    let interval_ns = interval_ns[0].max(interval_ns[1]);
    let series = both.map(|cgroup: &CgroupResults| cgroup.write_series.coarsened(interval_ns));
    let points = series.each_ref().map(|series| series.points());
    let busy = |points: &[u64]| {
        let first = points.iter().position(|&bytes| bytes > 0).unwrap_or(0);
        let last = points.iter().rposition(|&bytes| bytes > 0).unwrap_or(0);
        (first, last)
    };
    let margin = (1_000_000_000 / interval_ns) as usize;
    let ((one_from, one_to), (two_from, two_to)) = (busy(points[0]), busy(points[1]));
    let from = one_from.max(two_from) + margin;
    let to = one_to.min(two_to).saturating_sub(margin).max(from + 1);
    let time = (to - from) as f64 * interval_ns as f64 / 1e9;
    let rates = points.map(|points| {
        let bytes: u64 = points.iter().take(to).skip(from).sum();
        bytes as f64 / MIB / time
    });
    Together { rates }
}

fn published() -> Vec<Run> {
    // MB/s and seconds of each writer as `dd` printed them, and MiB/s of the disk.
    let figures = [
        [19.7, 21.1, 13.63, 12.74, 17.6],
        [12.0, 11.7, 22.39, 22.95, 18.9],
        [6.3, 2.4, 42.43, 111.63, 6.03],
        [4.2, 2.1, 64.26, 128.28, 5.98],
        [32.0, 21.4, 8.39, 12.54, 16.9],
        [14.0, 11.0, 19.18, 24.35, 19.6],
        [28.2, 23.4, 9.52, 11.48, 17.2],
        [14.3, 11.7, 18.71, 23.01, 18.4],
    ];
    let run = |(case, [first, second, first_s, second_s, disk]): (Case, [f64; 5])| Run {
        setting: case.name(),
        figures: vec![
            ("first_mb_per_sec", first),
            ("second_mb_per_sec", second),
            ("duration_s_first", first_s),
            ("duration_s_second", second_s),
            ("duration_ratio", second_s / first_s),
            ("disk_mib_per_sec", disk),
        ],
    };
    CASES.into_iter().zip(figures).map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(what: &str, got: f64, wanted: f64, percent: f64) {
        let off = (got / wanted - 1.0).abs() * 100.0;
        assert!(off <= percent, "{what}: {got:.4}, not {wanted} +- {percent} %");
    }

    /// The ranges of spec/throttle 2.7, and goals for `proportional`.
    #[test]
    fn what_was_accepted_comes_out() {
        let runs = run(&|_, _| {}).unwrap();
        let figure = |setting: &str, name| {
            let found = runs.iter().find(|run| run.setting == setting);
            found.unwrap_or_else(|| panic!("{setting}")).figure(name).unwrap()
        };
        for limits in ["3 buffered, limits", "4 direct, limits"] {
            close(limits, figure(limits, "first_at_disk_mib_per_sec"), 4.0, 1.0);
            close(limits, figure(limits, "second_at_disk_mib_per_sec"), 2.0, 1.0);
        }
        let ratio = figure("4 direct, limits", "duration_ratio");
        close("ratio of finish times", ratio, 1.996, 1.0);
        for (number, way, percent) in
            [(5, "buffered", 90), (6, "direct", 90), (7, "buffered", 100), (8, "direct", 100)]
        {
            let unlimited = if way == "direct" { "2 direct" } else { "1 buffered" };
            let unlimited = figure(&format!("{unlimited}, no limits"), "disk_mib_per_sec");
            let case = format!("{number} {way}, watermark {percent}");
            let gate = format!("{case}, gate");
            assert!(figure(&gate, "disk_mib_per_sec") > 0.9 * unlimited, "{gate}");
            assert!(figure(&gate, "duration_ratio") > 1.1, "{gate}");
            let steered = format!("{case}, proportional");
            assert!(figure(&steered, "disk_mib_per_sec") >= 0.98 * unlimited, "{steered}");
            close(&steered, figure(&steered, "split_at_disk"), 2.0, 2.0);
        }
    }
}
