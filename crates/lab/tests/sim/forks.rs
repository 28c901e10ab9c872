//! Programs that are started again and again.

use super::support::*;

#[test]
fn each_loop_of_a_forking_job_is_a_child() {
    let jobs = "[tool]\nrw=randread\nbs=4k\ndirect=1\nsize=40k\nloops=5\nthinktime=1ms\n";
    let (alone, forked) = (run(ONE_MS, &[], jobs), run(ONE_MS, &[("forks", "tool")], jobs));
    assert_eq!(forked.rows, alone.rows);
    assert_eq!(forked.elapsed_ns, alone.elapsed_ns);
    assert_eq!(forked.notes, ["5 child processes made the loops of `tool`"]);
    assert!(alone.notes.is_empty());
}

#[test]
fn passes_of_time_based_jobs_are_children_too() {
    let jobs = "[tool]\nrw=read\nbs=4k\ndirect=1\nsize=40k\nruntime=1\ntime_based\nnumjobs=2\n";
    let results = run(ONE_MS, &[("forks", "tool")], jobs);
    assert_eq!(results.rows[0].read.ios, 1000);
    // 100 each.
    assert_eq!(results.notes, ["200 child processes made the loops of `tool`"]);
    assert_eq!(results.elapsed_ns, SECOND);
}

#[test]
fn children_get_no_more_than_their_cgroup() {
    let jobs = "[global]\nrw=read\nbs=4k\ndirect=1\nruntime=10\ntime_based\n[tool]\ncgroup=p/a\nsize=8k\n[steady]\ncgroup=p/b\nsize=1g\n";
    for limiter in ["pace", "slice:6.12", "token", "leaky"] {
        let all = [
            ("forks", "tool"),
            ("max", "/p riops=100"),
            ("limiter", limiter),
            ("burst", "/p riops=1"),
        ];
        let has_burst = ["pace", "token"].contains(&limiter);
        let settings = if has_burst { &all[..] } else { &all[..3] };
        let results = run("null,latency=10us", settings, jobs);
        let [tool, steady] = [0, 1].map(|at| results.rows[at].read.ios);
        assert!((980..=1012).contains(&(tool + steady)), "{limiter}: {tool} + {steady}");
        assert!(tool.abs_diff(steady) <= 12, "{limiter}: {tool} and {steady}");
    }
}

#[test]
fn writeback_for_an_exited_child_is_charged_to_its_cgroup() {
    let jobs = "[tool]\ncgroup=t\nrw=write\nbs=64k\nsize=1m\nloops=20\n[sync]\nwait_for=tool\nrw=write\nbs=4k\nsize=4k\nend_fsync=1\nfilename=tool.0.0\n";
    let settings = [("forks", "tool"), ("memory", "4M"), ("max", "/t wbps=4M")];
    let results = run("null,rate=100M", &settings, jobs);
    assert_eq!(row(&results, "tool").write.bytes, 20 << 20);
    assert!(cgroup(&results, "/t").counters.write.bytes > 4 << 20);
    assert!(results.notes[0].starts_with("20 child processes"), "{:?}", results.notes);
}

#[test]
fn an_unknown_forking_job_is_an_error() {
    let builder = builder(ONE_MS, &[("forks", "tol")], "[tool]\nrw=read\nsize=4k\n");
    let weir_lab::builder::BuildError::Setting(error) = builder.build().unwrap_err() else {
        panic!()
    };
    assert_eq!(error.to_string(), "forks: there is no job \"tol\"");
    assert_eq!(error.hint.as_deref(), Some("did you mean `tool`?"));
}
