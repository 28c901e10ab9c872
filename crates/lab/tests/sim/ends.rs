//! Order of starts and ends of jobs.

use weir_lab::scenario::ScenarioError;

use super::support::*;

const GLOBAL: &str = "[global]\nrw=read\nbs=4k\ndirect=1\nsize=1m\n";

fn ios(jobs: &str) -> (Vec<u64>, u64) {
    let results = run(ONE_MS, &[], &format!("{GLOBAL}{jobs}"));
    (results.rows.iter().map(|row| row.read.ios).collect(), results.elapsed_ns / US)
}

#[test]
fn stages_follow_each_other_and_delays_are_kept() {
    let jobs = "[global]\ndirect=1\nsize=4k\nrw=read\n[a]\nstartdelay=1\n[b]\n[c]\nstonewall\nstartdelay=500ms\n";
    let results = run(ONE_MS, &[], jobs);
    // a ends at 1.001 s, c begins half a second later.
    assert_eq!(results.elapsed_ns, 1_502 * MS);
    let ios: Vec<u64> = results.rows.iter().map(|row| row.read.ios).collect();
    assert_eq!(ios, [1, 1, 1]);
}

#[test]
fn exitall_and_wait_for_end_and_start_other_jobs() {
    for (jobs, expected) in [
        // b starts when all of a have ended.
        ("[a]\nnumber_ios=3\nnumjobs=2\n[b]\nwait_for=a\nnumber_ios=2\n", (vec![3, 3, 2], 5_000)),
        // The first to end takes the others of its group with it.
        ("[a]\nnumber_ios=3\nexitall\n[b]\ntime_based\nruntime=10\n", (vec![3, 3], 3_000)),
        (
            "[a]\nnumber_ios=3\nexitall\n[b]\nstartdelay=1\n[c]\nstonewall\nnumber_ios=4\n",
            (vec![3, 0, 4], 7_000),
        ),
        // All of them: those of later stages do not even start.
        (
            "[a]\nnumber_ios=3\nexitall\nexit_what=all\n[b]\ntime_based\nruntime=10\n[c]\nstonewall\nnumber_ios=4\n",
            (vec![3, 3, 0], 3_000),
        ),
        (
            "[a]\nnumber_ios=3\nexitall\nexit_what=stonewall\n[b]\nnew_group\ntime_based\nruntime=10\n[c]\nstonewall\nnumber_ios=4\n",
            (vec![3, 3, 4], 7_000),
        ),
        // b's group is its own.
        (
            "[a]\nnumber_ios=3\nexitall\nexit_what=group\n[b]\nnew_group\nnumber_ios=6\n",
            (vec![3, 6], 6_000),
        ),
        // One that waits for the stopped can start, and one that was stopped in its pause ends at once.
        (
            "[a]\nnumber_ios=3\nexitall\n[b]\nthinktime=1s\ntime_based\nruntime=10\n[c]\nstonewall\nnumber_ios=1\n",
            (vec![3, 1, 1], 4_000),
        ),
        // c waits for one that is stopped before it starts.
        (
            "[a]\nnumber_ios=3\nexitall\n[b]\nwait_for=a\n[c]\nnew_group\nwait_for=b\nnumber_ios=2\n",
            (vec![3, 0, 2], 5_000),
        ),
        // Whichever job says it, it is for all; and which end with a job is that job's to say. As in fio.
        ("[a]\nnumber_ios=3\n[b]\nexitall\n", (vec![3, 3], 3_000)),
        ("[a]\nnumber_ios=3\n[b]\n[c]\nnew_group\nexitall\nnumber_ios=6\n", (vec![3, 3, 6], 6_000)),
        (
            "[a]\nnumber_ios=3\n[b]\nexitall\nexit_what=all\n[c]\nnew_group\n",
            (vec![3, 3, 3], 3_000),
        ),
        ("[a]\nnumber_ios=3\n[b]\nnew_group\nexitall\n[c]\n", (vec![3, 256, 256], 256_000)),
        // A later end stops whom the first could not: those of another scope.
        (
            "[global]\nexitall\n[a]\nnumber_ios=2\n[b]\nexit_what=all\nnumber_ios=5\n[c]\nnew_group\nnumber_ios=9\n",
            (vec![2, 2, 2], 2_000),
        ),
    ] {
        assert_eq!(ios(jobs), expected, "{jobs}");
    }
}

#[test]
fn a_request_that_takes_too_long_ends_its_job() {
    let jobs = "[slow]\nmax_latency=500us\n[fine]\nmax_latency=1ms\nnumber_ios=5\n";
    let results = run(ONE_MS, &[], &format!("{GLOBAL}{jobs}"));
    let [slow, fine] = &results.rows[..] else { panic!() };
    let error = "a request took 1000000 ns, more than its max_latency";
    assert_eq!((slow.error.as_deref(), slow.read.ios), (Some(error), 1));
    assert_eq!((&fine.error, fine.read.ios), (&None, 5));
    assert_eq!(results.elapsed_ns, 5 * MS);
}

#[test]
fn a_run_can_be_stopped_at_a_time() {
    let jobs = format!("{GLOBAL}[j]\nrate_iops=100\ntime_based\nruntime=100\n");
    let results = run(ONE_MS, &[("stop-after", "995ms")], &jobs);
    assert_eq!((results.elapsed_ns, results.rows[0].read.ios), (995 * MS, 100));
    assert_eq!(results.rows[0].runtime_ns, 995 * MS);
}

/// Runtimes of stages add up; without a runtime there is no end.
#[test]
fn progress_follows_from_runtimes() {
    let ends_ns = |jobs: &str, settings: Settings| {
        let jobs = format!("{GLOBAL}time_based\n[a]\nruntime=10\n{jobs}");
        let scenario = builder("null,latency=100us", settings, &jobs).build().unwrap();
        let mut seen = None;
        let stopped = weir_lab::sim::run(&scenario, &mut |progress| {
            seen = progress.ends_ns;
            std::ops::ControlFlow::Break(())
        });
        assert!(stopped.unwrap().elapsed_ns < 10 * SECOND);
        seen.map(|ends_ns| ends_ns / SECOND)
    };
    let later = "[b]\nstonewall\nruntime=3\nramp_time=1\n[c]\nruntime=1\nstartdelay=5\n";
    assert_eq!(ends_ns("", &[]), Some(10));
    assert_eq!(ends_ns(later, &[]), Some(16));
    assert_eq!(ends_ns(later, &[("stop-after", "12s")]), Some(12));
    assert_eq!(ends_ns("[b]\nstonewall\nnumber_ios=5\n", &[]), None);
}

#[test]
fn a_run_that_takes_no_time_is_an_error() {
    let jobs = format!("{GLOBAL}[j]\nruntime=10\ntime_based\n");
    let error = finish(&builder(AT_ONCE, &[], &jobs)).unwrap_err();
    assert!(matches!(error, ScenarioError::Standstill { now_ns: 0, .. }), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn files_must_fit_the_disk() {
    let jobs = "[j]\nrw=read\nbs=4k\ndirect=1\nsize=10g\n";
    let error = finish(&builder("null,size=1G", &[], jobs)).unwrap_err();
    let expected = "the jobs' files take 10.0 GiB (10737418240 bytes), and the disk has 1.00 GiB (1073741824 bytes)";
    assert_eq!(error.to_string(), expected);
    assert!(error.hint().is_some());
}

/// As in fio: there is nothing else of it.
#[test]
fn all_counts_of_a_job_that_ends_in_its_ramp_time() {
    let ends = |jobs: &str| {
        let jobs = format!("[global]\nbs=4k\nsize=40k\ndirect=1\nramp_time=1\n{jobs}");
        let results = run("null,latency=1ms", &[], &jobs);
        let rows = results
            .rows
            .iter()
            .map(|row| (row.read.ios + row.write.ios, row.sync.count(), row.processes_ns / MS));
        rows.collect::<Vec<_>>()
    };
    assert_eq!(ends("[a]\nrw=read\n"), [(10, 0, 10)]);
    assert_eq!(ends("[a]\nrw=write\nfsync=5\n"), [(10, 1, 11)]);
    assert_eq!(ends("[a]\nrw=randrw\nioengine=libaio\niodepth=4\n"), [(10, 0, 3)]);
    // Ended by another, and not yet begun.
    let others = "[b]\nrw=read\nsize=1g\n[c]\nrw=read\nstartdelay=1\n";
    let all = format!("[a]\nrw=read\nexitall\nexit_what=all\n{others}");
    let found = ends(&all);
    assert_eq!((found[0], found[2]), ((10, 0, 10), (0, 0, 0)));
    assert!(found[1].0.abs_diff(10) <= 1, "{found:?}");
    // Of one that goes on, only what follows.
    let both = "group_reporting\n[a]\nrw=read\n[b]\nrw=read\nsize=4400k\n";
    assert_eq!(ends(both), [(10 + 101, 0, 10 + 100)]);
}
