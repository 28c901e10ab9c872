//! Runs of whole scenarios, against what arithmetic says.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use weir_engine::{Dimension, LimiterKind, Limits, Path, PerDimension};
use weir_lab::fio;
use weir_lab::results::Results;
use weir_lab::scenario::{CgroupSetting, Home, Scenario, ScenarioError, Work};
use weir_lab::sim;

fn scenario(disk: &str, jobs: &str) -> Scenario {
    let jobs = fio::parse("test.fio", jobs.as_bytes(), &BTreeMap::new()).unwrap();
    Scenario {
        title: "test".into(),
        disk: disk.parse().unwrap(),
        engine: weir_engine::Config::default(),
        cgroups: Vec::new(),
        home: Home::Shared(Path::parse("/main").unwrap()),
        cache: Default::default(),
        machine: Default::default(),
        seed: 1,
        until_ns: None,
        work: Work::Jobs(jobs),
    }
}

fn limited(mut scenario: Scenario, path: &str, max: PerDimension, burst: PerDimension) -> Scenario {
    let limits = Limits { max, burst, limiter: LimiterKind::Pace, ..Limits::default() };
    scenario.cgroups.push(CgroupSetting { path: Path::parse(path).unwrap(), weight: None, limits });
    scenario
}

fn run(scenario: &Scenario) -> Results {
    try_run(scenario).unwrap()
}

fn try_run(scenario: &Scenario) -> Result<Results, ScenarioError> {
    sim::run(scenario, &mut |_| ControlFlow::Continue(()))
}

const MS: u64 = 1_000_000;

/// The job of the blk-throttle fix of 2018: a limit of 100 I/Os a second and 4 ms of thinking leave 6 ms of waiting.
#[test]
fn a_paced_reader_waits_the_rest_of_its_interval() {
    let jobs =
        "[j]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\nthinktime=4ms\nruntime=10\ntime_based\n";
    let burst = PerDimension::NONE.with(Dimension::Riops, 1);
    let max = PerDimension::NONE.with(Dimension::Riops, 100);
    let results = run(&limited(scenario("null,latency=10us", jobs), "/main", max, burst));
    let read = &results.rows[0].read;
    assert_eq!(read.ios, 1001);
    // The first one does not wait.
    assert_eq!((read.latency.min_ns(), read.latency.max_ns()), (10_000, 6 * MS));
    assert_eq!(read.latency.quantile_ns(1_000), 6 * MS);
    let main = results.cgroups.iter().find(|cgroup| cgroup.path == "/main").unwrap();
    assert_eq!(main.limit_waits[0].wait_ns[Dimension::Riops as usize], 1000 * (6 * MS - 10_000));
    assert_eq!(main.counters.completed, 1001);
}

#[test]
fn a_queue_keeps_the_disk_busy() {
    // 1 MiB/s and 4 KiB: a request takes 3.90625 ms, and 32 of them are in flight.
    let jobs = "[j]\nrw=randread\nbs=4k\ndirect=1\nioengine=libaio\niodepth=32\nsize=4m\n";
    let results = run(&scenario("null,rate=1M,latency=0ns", jobs));
    let read = &results.rows[0].read;
    assert_eq!((read.ios, read.bytes), (1024, 4 << 20));
    assert_eq!(results.elapsed_ns, 4_000 * MS);
    assert_eq!(results.device.busy_ns, 4_000 * MS);
    assert_eq!(results.device.in_flight_max, 32);
    assert_eq!(results.device.busy_series.points().iter().sum::<u64>(), 4_000 * MS);
    assert_eq!(read.latency.max_ns(), 125 * MS);
    assert_eq!(results.cgroups[1].read_series.points().iter().sum::<u64>(), 4 << 20);
}

#[test]
fn the_same_seed_gives_the_same_results_and_another_does_not() {
    let jobs = "[a]\nrw=randread\ndirect=1\nsize=64m\nnumber_ios=2000\n[b]\nrw=randwrite\ndirect=1\nsize=64m\nnumber_ios=500\n";
    let first = scenario("hdd7200", jobs);
    let mut other = first.clone();
    other.seed = 2;
    assert_eq!(run(&first), run(&first));
    assert_ne!(run(&first), run(&other));
}

#[test]
fn stages_follow_each_other_and_delays_are_kept() {
    let jobs = "[global]\ndirect=1\nsize=4k\nrw=read\n[a]\nstartdelay=1\n[b]\n[c]\nstonewall\nstartdelay=500ms\n";
    let results = run(&scenario("null,latency=1ms", jobs));
    // a ends at 1.001 s, c begins half a second later.
    assert_eq!(results.elapsed_ns, 1_502 * MS);
    let ios: Vec<u64> = results.rows.iter().map(|row| row.read.ios).collect();
    assert_eq!(ios, [1, 1, 1]);
}

#[test]
fn rates_are_kept_and_caught_up() {
    let jobs = "[j]\nrw=read\nbs=4k\ndirect=1\nsize=1g\nrate_iops=100\nruntime=10\ntime_based\n";
    let results = run(&scenario("null,latency=1ms", jobs));
    assert_eq!(results.rows[0].read.ios, 1000);
    let jobs = "[j]\nrw=read\nbs=4k\ndirect=1\nsize=1g\nrate=1m\nruntime=10\ntime_based\n";
    let results = run(&scenario("null,latency=1ms", jobs));
    assert_eq!(results.rows[0].read.bytes, 10 << 20);
}

#[test]
fn what_takes_no_time_is_told() {
    let jobs = "[j]\nrw=read\nbs=4k\ndirect=1\nsize=1g\nruntime=10\ntime_based\n";
    let error = try_run(&scenario("null,latency=0ns", jobs)).unwrap_err();
    assert!(matches!(error, ScenarioError::Standstill { now_ns: 0, .. }), "{error}");
}

#[test]
fn files_must_fit_the_disk() {
    let jobs = "[j]\nrw=read\nbs=4k\ndirect=1\nsize=10g\n";
    let error = try_run(&scenario("null,size=1G", jobs)).unwrap_err();
    let expected = "the jobs' files take 10737418240 bytes, and the disk has 1073741824";
    assert_eq!(error.to_string(), expected);
}
