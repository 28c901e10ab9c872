//! The governor of `crates/govern` over modelled kernels and disks.

mod mix;
mod scenarios;
mod verdict;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use weir_lab::builder::{ScenarioBuilder, Source};
use weir_lab::results::{Results, Series};

/// Runs jobs under settings; on a device of `model`, if one is given.
fn run(settings: &[(&str, &str)], model: Option<&str>, jobs: &str) -> Results {
    let text = jobs.as_bytes().to_vec();
    let source = Source::Jobs { name: "test.fio".into(), text, env: BTreeMap::new() };
    let mut builder = ScenarioBuilder::new("test", source);
    if let Some(text) = model {
        builder.set_model(&weir_config::DeviceModel::from_str("model.toml", text).unwrap());
    }
    for (key, value) in settings {
        builder.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    let scenario = builder.build().unwrap_or_else(|error| panic!("{error}\n{jobs}"));
    weir_lab::sim::run(&scenario, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Sum of a series between two times.
fn between(series: &Series, from_ms: u64, to_ms: u64) -> f64 {
    let interval_ns = series.interval_ns();
    let at = |ms: u64| ((ms * 1_000_000 / interval_ns) as usize).min(series.points().len());
    series.points()[at(from_ms)..at(to_ms)].iter().sum::<u64>() as f64
}

/// Bytes a second of a cgroup between two times.
fn rate(results: &Results, path: &str, from_ms: u64, to_ms: u64) -> f64 {
    let cgroup = results.cgroups.iter().find(|cgroup| cgroup.path == path).unwrap();
    let bytes = between(&cgroup.read_series, from_ms, to_ms)
        + between(&cgroup.write_series, from_ms, to_ms);
    bytes * 1e3 / (to_ms - from_ms) as f64
}
