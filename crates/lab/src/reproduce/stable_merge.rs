//! "block, bfq: boost throughput by extending queue-merging times" (Pedroni and Valente, 2021, Linux 5.14).
//!
//! SQLite's part of the Phoronix suite on a disk with platters: processes insert rows, one transaction a row, and so
//! wait for the disk most of the time. With the longer times of stable merging it took 97.02 s instead of 111.02 s.
//!
//! The requests were recorded from real processes (`bench/record_sqlite.py`): process, operation, synchronous or not,
//! and dependencies, with the commits of the file system's journal. Here they have the same dependencies. There are
//! fewer rows than in the suite, so only ratios of times compare.

use std::sync::Arc;

use weir_disk::Spec;
use weir_engine::settings::{BfqSettings, MergeSettings, StableTimes};
use weir_engine::{Config, SchedulerKind};

use super::spread::{self, Spread};
use super::{Progress, ReproduceError, Reproduction, Run};
use crate::sim::playback::{self, Play, Played};
use crate::sim::recording::Recording;

pub(super) const REPRODUCTION: Reproduction = Reproduction {
    name: "stable-merge",
    source: "Linux 5.14, \"block, bfq: boost throughput by extending queue-merging times\", 2021",
    about: "processes that each insert rows into a SQLite database of their own",
    beside: &[],
    run,
    published,
};

const RECORDING: &[u8] = include_bytes!("../../data/sqlite.rec.gz");

const SEEDS: u32 = 20;

/// Name, engine, and whether all processes share one queue.
fn settings() -> Vec<(&'static str, Config, bool)> {
    let bfq = |setting, bfq: BfqSettings| {
        (setting, Config { scheduler: SchedulerKind::Bfq, bfq, ..Config::default() }, false)
    };
    let (weir, kernel) = (BfqSettings::DEFAULT, MergeSettings::KERNEL);
    let not_idling = weir_text::parse_bfq("slice_idle=0", weir).expect("a setting");
    let as_meant = MergeSettings { stable: Some(StableTimes::INTENT), ..kernel };
    vec![
        bfq("before: 180/180/200 ms", weir.with_merging(MergeSettings::KERNEL_BEFORE_2021)),
        bfq("after: 600/180/600 ms", weir.with_merging(kernel)),
        bfq("as meant: 600/600/600 ms", weir.with_merging(as_meant)),
        bfq("no stable merging", weir.with_merging(MergeSettings { stable: None, ..kernel })),
        bfq("after, slice_idle=0", not_idling.with_merging(kernel)),
        bfq("Weir's bfq", weir),
        ("none", Config::default(), false),
        ("in order of arrival", Config::default(), true),
    ]
}

fn run(progress: Progress<'_>) -> Result<Vec<Run>, ReproduceError> {
    let recording = Recording::unpack(RECORDING).map(Arc::new).map_err(|error| {
        ReproduceError::Recording { name: "sqlite.rec.gz", reason: error.to_string() }
    })?;
    let settings = settings();
    let count = settings.len() as u32 * SEEDS;
    let played = spread::all(count, progress, |at| {
        let (_, engine, one_queue) = settings[(at / SEEDS) as usize];
        play(&recording, engine, one_queue, u64::from(at % SEEDS) + 1)
    });
    let runs = settings.iter().zip(played.chunks(SEEDS as usize));
    Ok(runs.map(|((setting, ..), played)| figures(setting, played)).collect())
}

fn play(recording: &Arc<Recording>, engine: Config, one_queue: bool, seed: u64) -> Played {
    let disk: Spec = "hdd7200".parse().expect("a preset");
    playback::play(Play {
        disk,
        engine,
        recording: recording.clone(),
        one_queue,
        background: Vec::new(),
        begins_ns: 0,
        late_ns: 100_000,
        seed,
    })
}

fn figures(setting: &str, played: &[Played]) -> Run {
    let spread = Spread::new(played.iter().map(|one| one.took_ns).collect());
    let seconds = |ns: u64| (ns / 1_000_000) as f64 / 1000.0;
    Run {
        setting: setting.into(),
        figures: vec![
            ("duration_s_least", seconds(spread.least())),
            ("duration_s_mean", seconds(spread.mean())),
            ("duration_s_max", seconds(spread.percentile(100))),
            (
                "stable_merges",
                mean(played, |one| {
                    one.bfq.merging.stable_late + one.bfq.merging.stable_at_creation
                }),
            ),
            ("cancelled", mean(played, |one| one.bfq.merging.stable_cancelled)),
            ("cooperations", mean(played, |one| one.bfq.merging.cooperations)),
            ("splits", mean(played, |one| one.bfq.merging.splits)),
            ("idling_ms", mean(played, |one| one.bfq.idling_ns.iter().sum::<u64>() / 1_000_000)),
        ],
    }
}

/// To a hundredth.
fn mean(played: &[Played], figure: impl Fn(&Played) -> u64) -> f64 {
    let sum: u64 = played.iter().map(figure).sum();
    (sum * 100 / played.len() as u64) as f64 / 100.0
}

fn published() -> Vec<Run> {
    let run = |setting: &str, seconds| Run {
        setting: setting.into(),
        figures: vec![("duration_s_mean", seconds)],
    };
    vec![run("before", 111.02), run("after", 97.02)]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weir_engine::Op;

    use super::*;

    #[test]
    fn processes_of_the_recording_wait_for_each_row() {
        let recording = Arc::new(Recording::unpack(RECORDING).unwrap());
        let names: BTreeSet<&str> =
            recording.processes.iter().map(|process| process.name.as_str()).collect();
        for copy in 1..=8 {
            for round in 0..=3 {
                assert!(names.contains(format!("sqlite3-{copy}.{round}").as_str()));
            }
        }
        // The journal has its own level, by ext4, so that it never merges stably.
        let journal = recording.processes.iter().position(|process| process.name == "jbd2");
        let journal = journal.expect("the file system has one");
        assert!(
            recording
                .processes
                .iter()
                .enumerate()
                .all(|(at, one)| { one.level == if at == journal { 3 } else { 4 } })
        );
        let (mut flushes, mut waiting) = (0, 0);
        for asked in recording.asked.iter().filter(|asked| asked.process as usize != journal) {
            flushes += u32::from(asked.op == Op::Flush);
            let after = recording.after(asked).iter().map(|&at| recording.asked[at as usize]);
            waiting += u32::from(after.clone().any(|one| one.process as usize == journal));
            assert!(asked.sync && asked.len <= 1 << 20);
        }
        // A row makes a process wait for its own flushes, or for the journal, three times and more.
        assert!(flushes + waiting >= 8 * 3 * 100 * 3, "{flushes} {waiting}");
    }

    #[test]
    fn weirs_bfq_is_as_fast_as_no_scheduler_for_processes_that_wait_for_each_other() {
        let recording = Arc::new(Recording::unpack(RECORDING).unwrap());
        let mean_ns = |engine, one_queue| {
            let took = (1..=5).map(|seed| play(&recording, engine, one_queue, seed).took_ns);
            took.sum::<u64>() / 5
        };
        let all: Vec<_> = settings()
            .into_iter()
            .map(|(setting, engine, one_queue)| (setting, mean_ns(engine, one_queue)))
            .collect();
        let best = all.iter().map(|(_, ns)| *ns).min().unwrap();
        let ours = all.iter().find(|(setting, _)| *setting == "Weir's bfq").unwrap().1;
        assert!(ours * 100 <= best * 102, "{all:?}");
    }

    #[test]
    fn every_setting_plays_the_recording_to_its_end() {
        let recording = Arc::new(Recording::unpack(RECORDING).unwrap());
        let requests = recording.asked.len() as u64;
        for (setting, engine, one_queue) in settings() {
            let played = play(&recording, engine, one_queue, 1);
            assert_eq!(played.requests, requests, "{setting}");
            // Each of 8 copies waits for 300 transactions, and each of those for several turns of the disk.
            assert!(played.took_ns > 300 * 3 * 8_333_333, "{setting}: {played:?}");
        }
        let (_, engine, one_queue) = settings()[0];
        let again = || play(&recording, engine, one_queue, 2);
        assert_eq!(again(), again());
    }
}
