//! `flow`: jobs that keep in step.

use super::support::*;

#[test]
fn jobs_of_a_flow_keep_their_proportions() {
    let jobs = "[global]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\nruntime=10\ntime_based\n[fast]\nflow=3\nioengine=libaio\niodepth=8\n[slow]\nflow=1\nrate_iops=50\n[free]\nflow=1\nflow_id=7\n";
    let results = run(ONE_MS, &[], jobs);
    let ios = |name| row(&results, name).read.ios;
    assert_eq!(ios("slow"), 500);
    assert!(ios("fast").abs_diff(1500) <= 4, "{}", ios("fast"));
    assert_eq!(ios("free"), 10_000);
}

#[test]
fn the_last_job_of_a_flow_goes_at_its_own_pace() {
    let jobs = "[global]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\n[a]\nflow=1\nnumber_ios=100\nrate_iops=100\n[b]\nflow=1\nnumber_ios=300\n";
    let results = run(ONE_MS, &[], jobs);
    // a's last is made at 990 ms. By then b has made as many, and then 200 more of 1 ms.
    assert!(results.elapsed_ns.abs_diff(1190 * MS) <= 2 * MS, "{}", results.elapsed_ns);
    // One that has to look again only every 50 ms falls behind.
    let sleepy =
        run(ONE_MS, &[], &jobs.replace("number_ios=300", "number_ios=300\nflow_sleep=50ms"));
    assert!(sleepy.elapsed_ns >= results.elapsed_ns);
    assert_eq!(sleepy.rows[1].read.ios, 300);
}

#[test]
fn a_flow_that_waits_ends_with_its_time() {
    let jobs = "[global]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\n[a]\nflow=1\nnumber_ios=2\nrate_iops=1\nthinktime=5\n[b]\nflow=1\nruntime=500ms\ntime_based\n";
    let results = run(ONE_MS, &[], jobs);
    assert_eq!(row(&results, "b").runtime_ns, 500 * MS);
    assert!(row(&results, "b").read.ios <= 3);
}
