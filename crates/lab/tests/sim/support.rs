//! Support of these tests: scenarios from settings, and what must hold of all results.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use weir_lab::builder::{ScenarioBuilder, Source};
use weir_lab::results::{CgroupResults, Results, Row};
use weir_lab::scenario::{ScenarioError, Trace};
use weir_lab::sim;

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Every request takes a millisecond, however many there are.
pub(crate) const ONE_MS: &str = "null,latency=1ms";
/// 4 KiB take a millisecond, one request after the other.
pub(crate) const ONE_BY_ONE: &str = "null,rate=4096000,latency=0ns";
/// No disk to wait for.
pub(crate) const AT_ONCE: &str = "null,latency=0ns";

pub(crate) type Settings<'a> = &'a [(&'a str, &'a str)];

pub(crate) fn builder(disk: &str, settings: Settings, jobs: &str) -> ScenarioBuilder {
    let text = jobs.as_bytes().to_vec();
    let source = Source::Jobs { name: "test.fio".into(), text, env: BTreeMap::new() };
    with(ScenarioBuilder::new("test", source), disk, settings)
}

pub(crate) fn trace_builder(
    disk: &str,
    settings: Settings,
    trace: &std::path::Path,
) -> ScenarioBuilder {
    with(ScenarioBuilder::new("test", Source::Trace(Trace::new(trace))), disk, settings)
}

fn with(mut builder: ScenarioBuilder, disk: &str, settings: Settings) -> ScenarioBuilder {
    builder.set("disk", disk).unwrap();
    for (key, value) in settings {
        builder.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    builder
}

/// Runs jobs to their end.
#[track_caller]
pub(crate) fn run(disk: &str, settings: Settings, jobs: &str) -> Results {
    finish(&builder(disk, settings, jobs)).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
pub(crate) fn finish(builder: &ScenarioBuilder) -> Result<Results, ScenarioError> {
    let scenario = builder.build().unwrap_or_else(|error| panic!("{error}"));
    let results = sim::run(&scenario, &mut |_| ControlFlow::Continue(()))?;
    sound(&results);
    Ok(results)
}

/// What holds of all results, whatever ran.
#[track_caller]
pub(crate) fn sound(results: &Results) {
    let device = &results.device;
    let root = cgroup(results, "/");
    let counters = &root.counters;
    let (charged, leaves) = (counters.read.bytes + counters.write.bytes, leaves(results));
    assert_eq!(leaves, charged, "what each cgroup was charged for is what the root was");
    let dispatched =
        counters.read.ios + counters.write.ios + counters.discard.ios + counters.other_ios;
    if dispatched == device.ios {
        assert_eq!(charged, device.bytes, "what cgroups were charged for went to the disk");
    } else {
        // The flusher's, when the last process ended.
        assert!(dispatched > device.ios && charged >= device.bytes);
    }
    assert_eq!(counters.completed, device.ios);
    assert_eq!(root.latency.count(), device.ios);
    assert_eq!(device.latency.count(), device.ios);
    assert!(device.busy_ns <= results.elapsed_ns);
    assert_eq!(device.busy_series.points().iter().sum::<u64>(), device.busy_ns);
    if results.cgroups.len() <= 64 {
        let points = |series: &weir_lab::results::Series| series.points().iter().sum::<u64>();
        assert_eq!(points(&root.read_series) + points(&root.write_series), device.bytes);
        let ios = points(&root.read_ios_series) + points(&root.write_ios_series);
        let others = counters.discard.ios + counters.other_ios;
        assert!(ios <= device.ios && ios + others >= device.ios, "{ios}, {others}, {device:?}");
    }
    for row in &results.rows {
        for moved in [&row.read, &row.write, &row.trim] {
            assert_eq!(moved.latency.count(), moved.ios, "{}", row.name);
        }
        assert!(row.runtime_ns <= results.elapsed_ns, "{}", row.name);
    }
    assert!(results.requests >= device.ios);
}

/// Bytes of all cgroups, each without those below it.
fn leaves(results: &Results) -> u64 {
    let own = results.cgroups.iter().map(|one| {
        let bytes =
            |cgroup: &CgroupResults| cgroup.counters.read.bytes + cgroup.counters.write.bytes;
        let below = results.cgroups.iter().filter(|other| {
            let parent = other.path.rsplit_once('/').map(|(parent, _)| parent);
            other.path != "/" && parent == Some(one.path.trim_end_matches('/'))
        });
        bytes(one) - below.map(bytes).sum::<u64>()
    });
    own.sum()
}

#[track_caller]
pub(crate) fn cgroup<'r>(results: &'r Results, path: &str) -> &'r CgroupResults {
    let found = results.cgroups.iter().find(|cgroup| cgroup.path == path);
    found.unwrap_or_else(|| panic!("no cgroup {path}"))
}

#[track_caller]
pub(crate) fn row<'r>(results: &'r Results, name: &str) -> &'r Row {
    results.rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name}"))
}

/// When reads of `len` bytes came back to a cgroup, in milliseconds, and how many: `0: 10, 111: 10`. For runs of less
/// than 1.024 s.
#[track_caller]
pub(crate) fn timeline(results: &Results, path: &str, len: u64) -> String {
    let series = &cgroup(results, path).read_series;
    assert_eq!(series.interval_ns(), MS, "the run is too long for a timeline");
    let points = series.points().iter().enumerate().filter(|(_, bytes)| **bytes > 0);
    let told = points.map(|(ms, bytes)| {
        assert_eq!(bytes % len, 0);
        format!("{ms}: {}", bytes / len)
    });
    told.collect::<Vec<_>>().join(", ")
}

/// The same of times that are known.
pub(crate) fn times(times: &[(u64, u64)]) -> String {
    let told = times.iter().map(|(ms, count)| format!("{ms}: {count}"));
    told.collect::<Vec<_>>().join(", ")
}
