//! "block, bfq: let a queue be merged only shortly after starting I/O" (Valente and Ruocco, 2017, Linux 4.14).
//!
//! An application starts while others read and write sequentially. Before the change two queues merged whenever their
//! requests came close to each other, related or not: a reader whose file lies beside those of the application got
//! the weight of the application's queue, and the start took 7.5 s instead of 6.5 s. With the change a queue merges
//! only within 100 ms after it has begun.
//!
//! The application is the recorded start of xterm: 632 reads of its own and 86 of the X server, each after the one
//! before it. The published one was lxterminal, of which there is no recording. The disk is that of the report, a
//! FUJITSU MHX2300BT. The background's files lie at random among the 80 GB of the application's, anew for each seed.

use std::sync::Arc;

use weir_disk::Spec;
use weir_engine::settings::{BfqSettings, MergeSettings, MergeWindow};
use weir_engine::{Config, Op, SchedulerKind};
use weir_fio::random::Random;

use super::spread::{self, Spread};
use super::{Progress, ReproduceError, Reproduction, Run};
use crate::sim::playback::{self, Play, Played, Stream};
use crate::sim::recording::Recording;

pub(super) const REPRODUCTION: Reproduction = Reproduction {
    name: "spurious-merges",
    source: "Linux 4.14, \"block, bfq: let a queue be merged only shortly after starting I/O\", 2017",
    about: "an application starts while strangers read and write beside its files",
    beside: &[],
    run,
    published,
};

const RECORDING: &[u8] = include_bytes!("../../data/xterm.trace.gz");

/// The setting whose median defines outliers.
const AFTER: &str = "after: within 100 ms";

const SEEDS: u32 = 50;

/// Sequential readers and writers in the background. The report says "some"; the suite that it used takes five of
/// each.
const READERS: u32 = 5;
const WRITERS: u32 = 5;

/// The background runs for so long before the application starts.
const BEGINS_NS: u64 = 2_000_000_000;

const FILE_BYTES: u64 = 1 << 30;

/// Linux reads 128 KiB ahead, and the next when the reader comes to them; it writes back in larger pieces, and many
/// at a time.
const READ_BYTES: u32 = 128 << 10;
const WRITE_BYTES: u32 = 512 << 10;

/// A start is an outlier when it takes so many percent of the median of [`AFTER`].
const OUTLIER_PERCENT: u64 = 110;

fn settings() -> Vec<(&'static str, Config)> {
    let bfq = |setting, bfq: BfqSettings| {
        (setting, Config { scheduler: SchedulerKind::Bfq, bfq, ..Config::default() })
    };
    let weir = BfqSettings::DEFAULT;
    // Stable merging came four years later.
    let kernel = MergeSettings { stable: None, ..MergeSettings::KERNEL };
    let before = MergeSettings { merge_window: MergeWindow::Unlimited, ..kernel };
    vec![
        bfq("before: at any time", weir.with_merging(before)),
        bfq(AFTER, weir.with_merging(kernel)),
        bfq("Weir's bfq", weir),
        ("none", Config::default()),
    ]
}

fn run(progress: Progress<'_>) -> Result<Vec<Run>, ReproduceError> {
    let recording = Recording::start_up(RECORDING).map(Arc::new).map_err(|error| {
        ReproduceError::Recording { name: "xterm.trace.gz", reason: error.to_string() }
    })?;
    let settings = settings();
    let count = settings.len() as u32 * SEEDS;
    let played = spread::all(count, progress, |at| {
        play(&recording, settings[(at / SEEDS) as usize].1, u64::from(at % SEEDS) + 1, true)
    });
    let alone = play(&recording, Config::default(), 1, false);
    let of = |wanted| {
        let at = settings.iter().position(|(setting, _)| *setting == wanted);
        &played[at.expect("one of the settings") * SEEDS as usize..][..SEEDS as usize]
    };
    let usual = Spread::new(took(of(AFTER)));
    let limit_ns = usual.percentile(50) * OUTLIER_PERCENT / 100;
    let runs = settings.iter().zip(played.chunks(SEEDS as usize));
    let runs = runs.map(|((setting, _), played)| figures(setting, played, limit_ns));
    Ok([figures("idle disk", &[alone], limit_ns)].into_iter().chain(runs).collect())
}

fn took(played: &[Played]) -> Vec<u64> {
    played.iter().map(|played| played.took_ns).collect()
}

fn play(recording: &Arc<Recording>, engine: Config, seed: u64, has_background: bool) -> Played {
    let disk: Spec = "hdd4200".parse().expect("a preset");
    let background = if has_background { background(recording, seed) } else { Vec::new() };
    playback::play(Play {
        disk,
        engine,
        recording: recording.clone(),
        one_queue: false,
        background,
        begins_ns: BEGINS_NS,
        late_ns: 100_000,
        seed,
    })
}

/// Readers and writers with files at random places among those of the application.
fn background(recording: &Recording, seed: u64) -> Vec<Stream> {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let places = recording.end() / FILE_BYTES * (FILE_BYTES / u64::from(WRITE_BYTES));
    let mut stream = |op, len, depth| Stream {
        op,
        sync: op == Op::Read,
        level: 4,
        offset: random.below(places) * u64::from(WRITE_BYTES),
        size: FILE_BYTES,
        len,
        depth,
    };
    let mut streams: Vec<Stream> = (0..READERS).map(|_| stream(Op::Read, READ_BYTES, 2)).collect();
    streams.extend((0..WRITERS).map(|_| stream(Op::Write, WRITE_BYTES, 8)));
    streams
}

fn figures(setting: &str, played: &[Played], limit_ns: u64) -> Run {
    let spread = Spread::new(took(played));
    let seconds = |ns: u64| (ns / 1_000_000) as f64 / 1000.0;
    let bytes: u64 = played.iter().map(|one| one.background_bytes).sum();
    let took: u64 = played.iter().map(|one| one.took_ns).sum();
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(took.max(1)) / 1000;
    Run {
        setting: setting.into(),
        figures: vec![
            ("startup_s_least", seconds(spread.least())),
            ("startup_s_p50", seconds(spread.percentile(50))),
            ("startup_s_mean", seconds(spread.mean())),
            ("startup_s_p90", seconds(spread.percentile(90))),
            ("startup_s_max", seconds(spread.percentile(100))),
            ("merges", mean(played, |one| one.bfq.merging.cooperations)),
            ("idling_ms", mean(played, |one| one.bfq.idling_ns.iter().sum::<u64>() / 1_000_000)),
            ("outliers", spread.above(limit_ns) as f64),
            ("background_mb_per_sec", rate as f64 / 1000.0),
        ],
    }
}

/// To a hundredth.
fn mean(played: &[Played], figure: impl Fn(&Played) -> u64) -> f64 {
    let sum: u64 = played.iter().map(figure).sum();
    (sum * 100 / played.len() as u64) as f64 / 100.0
}

fn published() -> Vec<Run> {
    let run = |setting: &str, figures| Run { setting: setting.into(), figures };
    vec![
        run("before, now and then", vec![("startup_s_max", 7.5)]),
        run("after", vec![("startup_s_p50", 6.5), ("startup_s_max", 6.5), ("outliers", 0.0)]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xterm_starts_in_four_seconds_on_an_idle_disk() {
        let recording = Arc::new(Recording::start_up(RECORDING).unwrap());
        let of = |process| recording.asked.iter().filter(|one| one.process == process).count();
        assert_eq!((recording.processes.len(), of(0), of(1)), (2, 632, 86));
        let alone = play(&recording, Config::default(), 1, false);
        assert_eq!((alone.requests, alone.background_bytes), (718, 0));
        // 178 jumps, most of them short, and 2.4 s between requests.
        assert!((3_000_000_000..4_500_000_000).contains(&alone.took_ns), "{alone:?}");
    }

    #[test]
    fn injection_does_not_delay_a_flow_that_returns_at_once() {
        // A reader was taken for a waker of the application: it had 16 requests injected in each idle wait, and one
        // at the disk beside each of the application's own. These two starts took 25 and 30 s.
        let recording = Arc::new(Recording::start_up(RECORDING).unwrap());
        for seed in [30, 36] {
            let config = settings()[2].1;
            let took_ns = play(&recording, config, seed, true).took_ns;
            assert!(took_ns < 12_000_000_000, "seed {seed}: {took_ns} ns");
        }
    }

    #[test]
    fn each_seed_places_its_files_anew_within_the_disk() {
        let recording = Arc::new(Recording::start_up(RECORDING).unwrap());
        let one = background(&recording, 1);
        assert_eq!(one, background(&recording, 1));
        assert_ne!(one, background(&recording, 2));
        assert_eq!(one.iter().filter(|stream| stream.op == Op::Read && stream.sync).count(), 5);
        assert_eq!(one.iter().filter(|stream| stream.op == Op::Write && !stream.sync).count(), 5);
        let disk: Spec = "hdd4200".parse().unwrap();
        for seed in 1..=u64::from(SEEDS) {
            for stream in background(&recording, seed) {
                assert!(stream.offset + stream.size <= disk.size());
            }
        }
    }
}
