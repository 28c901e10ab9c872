//! `steadystate`: jobs that end once their rate is steady.

use weir_lab::results::{Results, Row, Steadiness};

use super::support::*;

const GLOBAL: &str =
    "[global]\nrw=read\nbs=4k\ndirect=1\nsize=1m\ntime_based\nruntime=60\nss_dur=5\n";

fn steady(jobs: &str) -> Results {
    run(ONE_MS, &[], &format!("{GLOBAL}{jobs}"))
}

fn of(row: &Row) -> &Steadiness {
    row.steady.as_ref().expect("a row that is watched")
}

#[test]
fn a_job_ends_when_its_rate_has_been_steady() {
    for (options, seconds) in [
        ("ss=iops:1%", 5),
        ("ss=bw:8k", 5),
        ("ss=iops_slope:1\nss_dur=1", 1),
        ("steadystate=iops_slope:0.1%", 5),
        ("ss=bw_slope:0.1%", 5),
        ("ss=iops:1%\nss_ramp=3", 8),
        ("ss=iops:1%\nsteadystate_duration=10s", 10),
        // What is done in a ramp_time counts nowhere.
        ("ss=iops:1%\nramp_time=4", 9),
        ("ss=iops:1%\nramp_time=4\nss_ramp=6", 11),
        ("ss=iops:1%\nstartdelay=2", 7),
    ] {
        let results = steady(&format!("[a]\n{options}\n"));
        let row = &results.rows[0];
        assert_eq!(of(row).attained_ns, Some(seconds * SECOND), "{options}");
        // It makes no further request, and waits for the one under way.
        assert_eq!(results.elapsed_ns.div_ceil(MS), seconds * 1000 + 1, "{options}");
        let rates = of(row).rates.len() as u64;
        assert_eq!((rates, of(row).rates[0]), (of(row).seconds, [1000, 4_096_000]), "{options}");
        assert!(results.notes.iter().any(|note| note.starts_with("`a`: steady at ")), "{options}");
    }
}

/// A limit that nothing is below, too little time, no duration: as in fio, the job ends as without the option.
#[test]
fn a_job_whose_rate_is_never_steady_goes_on() {
    for (options, seconds) in [
        ("ss=iops:0", 60),
        ("ss=iops:0\nss_dur=1", 60),
        ("ss=iops:1%\nruntime=4", 4),
        ("ss=iops:1%\nss_ramp=100", 60),
        ("ss=iops:1%\nthinktime=100s\nss_ramp=1", 60),
    ] {
        let results = steady(&format!("[a]\n{options}\n"));
        assert_eq!(of(&results.rows[0]).attained_ns, None, "{options}");
        assert_eq!(results.elapsed_ns / SECOND, seconds, "{options}");
        assert!(results.notes[0].contains("not steady"), "{options}: {:?}", results.notes);
    }
    let results = steady("[a]\nss=iops:1%\nss_dur=0\n");
    assert_eq!((&results.rows[0].steady, results.elapsed_ns), (&None, 60 * SECOND));
}

/// A second process doubles the rate after four seconds. By the slope of the sum it is steady when that has run for
/// five; alone the first is steady at once.
#[test]
fn jobs_that_are_reported_together_are_steady_together() {
    let jobs = "[a]\nss=iops_slope:1%\n[b]\nstartdelay=4\nss=iops_slope:1%\n";
    let together = steady(&jobs.replacen("[a]\n", "[global]\ngroup_reporting\n[a]\n", 1));
    assert_eq!(of(&together.rows[0]).attained_ns, Some(9 * SECOND));
    assert_eq!((together.rows.len(), together.elapsed_ns / SECOND), (1, 9));
    let apart = steady(jobs);
    let attained = apart.rows.iter().map(|row| of(row).attained_ns.unwrap() / SECOND);
    assert_eq!(attained.collect::<Vec<_>>(), [5, 9]);
}

/// A job of another group goes on. As in fio, a second rule in a group is refused.
#[test]
fn steadystate_applies_to_the_group() {
    let jobs = "[global]\ngroup_reporting\n[a]\nss=iops:1%\nss_dur=7\nnumjobs=3\n[d]\nnew_group\nruntime=20\n";
    let results = steady(jobs);
    assert_eq!(of(&results.rows[0]).attained_ns, Some(7 * SECOND));
    assert_eq!((results.rows[0].processes, &results.rows[1].steady), (3, &None));
    assert_eq!((results.rows[0].runtime_ns / SECOND, results.elapsed_ns / SECOND), (7, 20));
    for other in ["", "ss=iops:1%\nss_ramp=1\n", "ss=iops:1%\nss_dur=6\n", "ss=bw:1%\n"] {
        let jobs = format!("{GLOBAL}group_reporting\n[a]\nss=iops:1%\n[b]\n{other}");
        let error = finish(&builder(ONE_MS, &[], &jobs)).unwrap_err().to_string();
        assert!(error.contains("it is reported with `a`, whose steadystate"), "{other}: {error}");
    }
}

/// Jobs that waited for it start.
#[test]
fn a_job_of_a_steady_group_does_not_start_any_more() {
    let jobs = "[global]\nrw=read\nbs=4k\ngroup_reporting\nss=iops:1%\nss_dur=1\n\
                [a]\ndirect=1\nsize=40k\n[b]\npre_read=1\nsize=40m\n\
                [c]\nstonewall\ndirect=1\nsize=12k\nss_dur=0\n";
    let results = run(ONE_BY_ONE, &[], jobs);
    assert_eq!(of(&results.rows[0]).attained_ns, Some(SECOND));
    let ios: Vec<u64> = results.rows.iter().map(|row| row.read.ios).collect();
    assert_eq!(ios, [10, 3]);
}

/// The rate of a limit that changes: seconds of 1,000, then of 500 requests.
#[test]
fn criteria_of_steadystate_are_slope_and_deviation() {
    let settings = [("home", "/"), ("at", "3s max=/a riops=500")];
    let job = |rule| format!("{GLOBAL}[a]\ncgroup=a\nruntime=5500ms\nss={rule}\n");
    let told = |rule| {
        let results = run(ONE_MS, &settings, &job(rule));
        let told = of(&results.rows[0]).clone();
        assert_eq!(told.attained_ns, None);
        told
    };
    let told_all = told("iops:0.001%");
    assert_eq!(told_all.rates.len(), 5);
    let rates: Vec<u64> = told_all.rates.iter().map(|rates| rates[0]).collect();
    assert!(rates[..3].iter().all(|rate| rate.abs_diff(1000) <= 1), "{rates:?}");
    assert!(rates[3..].iter().all(|rate| rate.abs_diff(500) <= 10), "{rates:?}");
    // The mean is 800; the line through 1000, 1000, 1000, 500, 500 falls by 150 a second.
    let near =
        |is: Option<f64>, to: f64| assert!((is.unwrap() - to).abs() < 6.0, "{is:?}, not {to}");
    near(told_all.deviation, 300.0);
    near(told_all.slope, -150.0);
    near(told_all.criterion, 300.0 / 8.0);
    near(told("iops_slope:0.001%").criterion, 150.0 / 8.0);
    near(told("iops_slope:0.001").criterion, 150.0);
}
