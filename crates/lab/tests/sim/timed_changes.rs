//! Settings that change while a run goes on.

use weir_engine::SchedulerKind;
use weir_engine::stats::{BfqStats, IdlingCause};
use weir_lab::results::{Changed, Results, Series};
use weir_lab::scenario::ScenarioError;

use super::support::*;

/// A reader of 4 KiB blocks, one at a time, for two seconds.
const READER: &str = "[a]\nrw=randread\nsize=64m\nbs=4k\ndirect=1\ntime_based\nruntime=2\n";

/// Bytes before and after a time in the run.
fn halves(series: &Series, at_ns: u64) -> [u64; 2] {
    let middle = (at_ns / series.interval_ns()) as usize;
    let (before, after) = series.points().split_at(middle.min(series.points().len()));
    [before, after].map(|points| points.iter().sum())
}

fn changes(results: &Results) -> Vec<(u64, &str)> {
    results.changes.iter().map(|Changed { at_ns, setting }| (*at_ns, setting.as_str())).collect()
}

#[test]
fn a_timed_limit_comes_and_goes() {
    // A millisecond each: 1,000 a second, but for half a second in the middle.
    let settings = [("at", "500ms max=riops=100"), ("at", "1s max=riops=max")];
    let results = run(ONE_MS, &settings, READER);
    let reads = &cgroup(&results, "/main").read_ios_series;
    let [first, rest] = halves(reads, SECOND / 2);
    let [middle, last] = {
        let [both, last] = halves(reads, SECOND);
        [both - first, last]
    };
    assert_eq!(middle + last, rest);
    assert!((499..=501).contains(&first), "{first}");
    assert!((45..=55).contains(&middle), "{middle}");
    assert!((980..=1_001).contains(&last), "{last}");
    let at = |ms, what| (ms * MS, what);
    assert_eq!(changes(&results), [at(500, "max=riops=100"), at(1_000, "max=riops=max")]);
    assert!(results.notes.is_empty(), "{:?}", results.notes);
}

#[test]
fn timed_weights_and_schedulers_take_effect() {
    let jobs = "[global]\nrw=read\nbs=128k\ndirect=1\nsize=1g\nioengine=libaio\niodepth=8\ntime_based\nruntime=12\n\
                [a]\ncgroup=a\n[b]\ncgroup=b\n";
    let settings = [
        ("scheduler", "bfq"),
        ("depth", "1"),
        ("weight", "/a 100"),
        ("at", "4s weight=/b 300"),
        ("at", "8s scheduler=none"),
    ];
    let results = run("hdd7200", &settings, jobs);
    let [a, b] = ["/a", "/b"].map(|path| {
        let series = &cgroup(&results, path).read_series;
        let [first, rest] = halves(series, 4 * SECOND);
        let [until, last] = halves(series, 8 * SECOND);
        [first, rest - last, last, until]
    });
    let share = |part: usize| b[part] as f64 / a[part] as f64;
    assert!((0.9..1.1).contains(&share(0)), "equal weights: {a:?} {b:?}");
    assert!((2.7..3.3).contains(&share(1)), "1 to 3: {a:?} {b:?}");
    assert!((0.9..1.1).contains(&share(2)), "turns: {a:?} {b:?}");
    // What bfq did is told although it is not the scheduler any more.
    assert_eq!(results.scheduler, "bfq");
    assert!(results.bfq.is_some_and(|bfq| bfq.stats.selections > 10));
    assert_eq!(cgroup(&results, "/b").weight, 300);
}

#[test]
fn timed_bfq_settings_take_effect() {
    let settings = [("scheduler", "bfq"), ("at", "1s bfq.slice_idle=0")];
    let thinks = format!("{READER}thinktime=3ms\n");
    let [whole, half] = [&settings[..1], &settings].map(|settings| {
        let bfq = run("hdd7200", settings, &thinks).bfq.expect("it was the scheduler");
        let BfqStats { idling_ns, .. } = bfq.stats;
        (
            bfq.settings.slice_idle().as_millis(),
            idling_ns[IdlingCause::Guarantees.index()] + idling_ns[IdlingCause::Throughput.index()],
        )
    });
    assert_eq!((whole.0, half.0), (8, 0));
    assert!(half.1 > 0 && half.1 < whole.1 * 6 / 10, "{half:?} of {whole:?}");
}

#[test]
fn timed_changes_are_deterministic() {
    let settings = [
        ("at", "100ms scheduler=bfq"),
        ("at", "300ms max=rbps=200k"),
        ("at", "300ms limiter=token"),
        ("at", "700ms depth=1"),
        ("at", "900ms watermark=50"),
        ("at", "1100ms low-latency=never"),
        ("at", "1200ms prio-class=idle"),
        ("at", "1300ms scheduler=none"),
    ];
    let [one, two] = [(); 2].map(|()| run("hdd7200", &settings, READER));
    assert_eq!(one.changes.len(), settings.len());
    assert_eq!(one, two);
}

#[test]
fn a_change_after_the_end_is_noted() {
    let results = run(ONE_MS, &[("at", "1s depth=2"), ("at", "2500ms max=/x riops=7")], READER);
    assert_eq!(changes(&results), [(SECOND, "depth=2")]);
    let note = "`max=/x riops=7` was to be set at 2.50 s: the run was over before";
    assert_eq!(results.notes, [note]);
}

#[test]
fn a_refused_change_is_an_error_before_the_run() {
    let settings = [("scheduler", "bfq"), ("at", "1s bfq.merge_rules=kernel")];
    let error = finish(&builder(ONE_MS, &settings, READER)).unwrap_err();
    let ScenarioError::Change { at_ns: SECOND, .. } = &error else { panic!("{error:?}") };
    let told = "at 1 s, bfq.merge_rules=kernel: merge_rules cannot change while bfq is the scheduler: switch to another first";
    assert_eq!(error.to_string(), told);
    let switched = [("at", "1s bfq.merge_rules=kernel"), ("at", "1s scheduler=bfq")];
    let results = run(ONE_MS, &switched, READER);
    assert_eq!(results.scheduler, SchedulerKind::None.name(), "as it began");
}
