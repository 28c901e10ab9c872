//! `latency_target`: jobs that look for the depth at which their requests do not take longer.

use std::time::Duration;

use weir_lab::results::Results;

use super::support::*;

/// A request takes a millisecond for each one that is in flight.
fn search(options: &str) -> Results {
    run(ONE_BY_ONE, &[], &job(options))
}

fn job(options: &str) -> String {
    let global = "[a]\nrw=randread\nbs=4k\ndirect=1\nioengine=libaio\niodepth=64\nsize=4m\nnorandommap\ntime_based\nruntime=60\n\
                  latency_target=19500us\nlatency_window=1s\nlatency_percentile=90\n";
    format!("{global}{options}\n")
}

fn found(results: &Results) -> (u32, bool) {
    let found = results.rows[0].latency_target.expect("a job that searches");
    (found.depth, found.is_sure)
}

/// 1, 2, 4, 8, 16, and 32, all of which have to come back before 24, 20, 18, and 19, for one second more.
#[test]
fn the_window_at_the_found_depth_is_reported() {
    let results = search("");
    assert_eq!(found(&results), (19, true));
    let row = &results.rows[0];
    assert_eq!(row.read.ios, 1000 + 18, "those that were in flight at its end are its own");
    assert_eq!(row.runtime_ns, 1018 * MS);
    assert_eq!(row.read.latency.max_ns(), 19 * MS);
    assert_eq!(results.elapsed_ns, (11_018 + 31 + 23 + 19) * MS);
    assert_eq!(
        results.notes,
        ["`a`: depth 19 for 90 % of latencies within 19.5ms (latency_target)"]
    );
    // As many as the job may have are not too many, or its ramp takes longer.
    assert_eq!(found(&search("iodepth=12")), (12, true));
    assert_eq!(found(&search("ramp_time=5")), (19, true));
    // Less than a batch is taken all the same, and of more all wait for the eighth.
    assert_eq!(found(&search("iodepth_batch_complete_min=8")), (16, true));
    // Filled up again where four are left: seldom so many.
    assert_eq!(found(&search("iodepth_low=4")), (20, true));
    // A job with pauses or a rate never has more than one in flight, whatever its depth.
    assert_eq!(found(&search("thinktime=1ms")), (64, true));
    assert_eq!(found(&search("rate_iops=100")), (64, true));
}

#[test]
fn a_search_without_a_result_reports_all_requests() {
    let early = search("runtime=5500ms");
    assert_eq!(found(&early), (32, false));
    assert_eq!((early.rows[0].read.ios, early.rows[0].runtime_ns), (5531, 5531 * MS));
    assert!(early.notes[0].ends_with("and it was still searching"), "{:?}", early.notes);
    let short = search("time_based=0\nio_size=4m");
    assert_eq!((found(&short), short.rows[0].read.ios), ((2, false), 1024));

    // It ends with the request with which it would have begun to count.
    let at_once = search("iodepth=1\ntime_based=0\nnumber_ios=1000");
    assert_eq!((found(&at_once), at_once.rows[0].read.ios), ((1, true), 1000));

    // A target that was kept, and is not any more in the last window: it goes back a step a window.
    let settings = [("home", "/"), ("at", "10500ms max=/ riops=500")];
    let slower = |runtime| run(ONE_BY_ONE, &settings, &job(&format!("runtime={runtime}")));
    assert_eq!(found(&slower(13)).0, 17);
    assert_eq!((found(&slower(13)).1, found(&slower(40))), (false, (9, true)));

    let on = search("latency_run=1");
    assert_eq!((on.rows[0].runtime_ns / SECOND, on.rows[0].read.ios / 1000), (60, 60));
    assert!(matches!(found(&on), (19 | 20, true)));
    // A target that cannot be kept, and more than one may be late: one by one, to the end.
    let hopeless = search("latency_target=500us");
    assert_eq!((found(&hopeless), hopeless.rows[0].read.ios), ((1, false), 60_000));
}

#[test]
fn a_target_for_all_that_depth_one_misses_is_an_error() {
    let results = search("latency_percentile=100\nlatency_target=500us");
    let error = "a request took 1000000 ns, more than its latency_target, at a depth of 1";
    assert_eq!(results.rows[0].error.as_deref(), Some(error));
    assert_eq!(results.rows[0].read.ios, 1);
    // 32 at once: each that is late on its way back is one more, as in fio.
    let all = search("latency_percentile=100");
    assert!(all.rows[0].error.is_some());
    // One that is too many, when 12 are allowed, takes back no other.
    assert_eq!(found(&search("latency_percentile=100\niodepth=19")), (19, true));
}

/// With one job and with several of a row.
#[test]
fn a_search_follows_the_latencies_of_a_limit() {
    let settings = [("home", "/"), ("at", "20s max=/a riops=100")];
    let job = "[global]\ncgroup=a\nrw=randread\nbs=4k\ndirect=1\nioengine=libaio\niodepth=16\nsize=1m\ntime_based\nruntime=60\n\
               latency_target=95ms\nlatency_window=500ms\nlatency_percentile=50\nlatency_run=1\n[a]\n";
    let results = run(ONE_MS, &settings, job);
    // Of ten one is late, and that is tried again and again.
    assert!(matches!(found(&results).0, 9 | 10), "{:?}", results.notes);
    let both = run(
        ONE_MS,
        &[("home", "/"), ("max", "/a riops=100")],
        &format!("{job}numjobs=2\ngroup_reporting\n"),
    );
    let (depth, _) = found(&both);
    assert!((3..=6).contains(&depth), "{:?}", both.notes);
}

#[test]
fn a_target_needs_a_window() {
    let job = "[a]\nrw=read\nsize=1m\nlatency_target=10ms\n";
    let error = finish(&builder(ONE_MS, &[], job)).unwrap_err().to_string();
    assert!(error.contains("latency_target needs a latency_window, such as"), "{error}");
    let window_alone =
        run(ONE_MS, &[], "[a]\nrw=read\nsize=1m\ndirect=1\nlatency_window=10s\nlatency_run=1\n");
    assert_eq!(window_alone.rows[0].latency_target, None);
    let target = search("").rows[0].latency_target.unwrap().target;
    assert_eq!(
        (target.time, target.window),
        (Duration::from_micros(19_500), Duration::from_secs(1))
    );
}
