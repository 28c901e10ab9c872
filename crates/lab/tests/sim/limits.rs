//! Limits as processes meet them. The times of `slice` are those of the worked vectors of
//! spec/throttle 1.13 and 1.14, of `pace` what 100 a second are.

use super::support::*;

/// A reader that makes so many requests at once.
fn at_once(name: &str, cgroup: &str, count: u32, len: &str) -> String {
    format!(
        "[{name}]\ncgroup={cgroup}\nrw=randread\nbs={len}\ndirect=1\nsize=1g\nioengine=libaio\niodepth={count}\nnumber_ios={count}\n"
    )
}

/// With a burst of one request where there are bursts.
fn limited(limiter: &str, max: &[&str], jobs: &str) -> weir_lab::results::Results {
    let mut settings: Vec<(&str, &str)> = max.iter().map(|max| ("max", *max)).collect();
    let bursts: Vec<String> = max
        .iter()
        .filter_map(|max| max.split_once(" riops="))
        .map(|(path, _)| format!("{path} riops=1"))
        .collect();
    if ["pace", "token"].contains(&limiter) {
        settings.extend(bursts.iter().map(|burst| ("burst", burst.as_str())));
    }
    match limiter.strip_prefix("kernel ") {
        Some(kernel) => settings.extend([("limiter", "slice:6.1,hz=1000"), ("kernel", kernel)]),
        None => settings.push(("limiter", limiter)),
    }
    run(AT_ONCE, &settings, jobs)
}

/// The job of the report of 2018: 100 reads a second, 4 ms of thinking after each. The reads that wait, and until when.
#[test]
fn a_thinking_reader_waits_as_in_each_kernel() {
    let jobs =
        "[j]\ncgroup=t\nrw=randread\nbs=4k\ndirect=1\nsize=4g\nthinktime=4ms\nnumber_ios=60\n";
    for (limiter, waits) in [
        ("slice:K418,hz=1000,slice=20ms", &[(8, 31), (39, 51), (59, 71), (79, 91), (99, 111)][..]),
        ("slice:K419a,hz=1000,slice=20ms", &[(8, 21), (29, 41), (49, 61), (69, 81), (89, 101)]),
        ("slice:K419,hz=1000,slice=20ms", &[(8, 20), (28, 40), (48, 60), (68, 80), (88, 100)]),
        ("slice:K612,hz=1000,slice=20ms", &[(8, 20), (28, 40), (48, 60), (68, 80), (88, 100)]),
        ("slice:K615,hz=1000,slice=20ms", &[(8, 20), (28, 40), (48, 60), (68, 80), (88, 100)]),
        ("slice:K418,hz=1000", &[(40, 111), (151, 211), (251, 311)]),
        ("slice:K419,hz=1000", &[(40, 100), (140, 200), (240, 300)]),
        ("slice:6.12,hz=1000", &[(40, 100), (140, 200), (240, 300)]),
        ("slice:6.15,hz=1000", &[(40, 100), (140, 200), (240, 300)]),
        ("slice:K418,hz=250,slice=20ms", &[(8, 32), (40, 52), (60, 72)]),
        ("slice:K419,hz=250,slice=20ms", &[(8, 20), (28, 40), (48, 60)]),
        ("slice:K418,hz=100,slice=20ms", &[(8, 40), (52, 80), (92, 120)]),
        ("slice:K419,hz=100,slice=20ms", &[(8, 20), (28, 40), (48, 60)]),
    ] {
        let results = limited(limiter, &["/t riops=100"], jobs);
        // All that do not wait follow each other by 4 ms.
        let (mut at, mut expected) = (0, Vec::new());
        let last = waits[waits.len() - 1].1;
        while at <= last {
            let waited = waits.iter().find(|(submitted, _)| *submitted == at);
            at = waited.map_or(at, |(_, dispatched)| *dispatched);
            expected.push((at, 1));
            at += 4;
        }
        let told = timeline(&results, "/t", 4096);
        let expected = times(&expected);
        assert!(told.starts_with(&expected), "{limiter}\n{told}\n{expected}");
    }
}

#[test]
fn reads_submitted_at_once_leave_as_in_each_kernel() {
    let reads = |count, len| at_once("j", "t", count, len);
    for (limiter, max, jobs, len, expected) in [
        // B: 64 KiB under 1 MiB/s.
        (
            "kernel 6.1",
            "/t rbps=1048576",
            reads(12, "64k"),
            65536,
            "0: 1, 125: 2, 250: 1, 312: 2, 437: 1, 501: 2, 625: 2, 750: 1",
        ),
        // C: 4 KiB under 1 MiB/s.
        (
            "kernel 4.19",
            "/t rbps=1048576",
            reads(80, "4k"),
            4096,
            "0: 25, 101: 26, 203: 25, 301: 4",
        ),
        // D: 100 a second.
        (
            "kernel 4.18",
            "/t riops=100",
            reads(45, "4k"),
            4096,
            "0: 10, 111: 10, 211: 10, 311: 10, 411: 5",
        ),
        (
            "kernel K419a",
            "/t riops=100",
            reads(45, "4k"),
            4096,
            "0: 10, 101: 10, 201: 10, 301: 10, 401: 5",
        ),
        (
            "kernel 4.19",
            "/t riops=100",
            reads(45, "4k"),
            4096,
            "0: 10, 100: 10, 200: 10, 300: 10, 400: 5",
        ),
        (
            "kernel 6.12",
            "/t riops=100",
            reads(45, "4k"),
            4096,
            "0: 10, 100: 10, 200: 10, 300: 10, 400: 5",
        ),
        (
            "kernel 6.15",
            "/t riops=100",
            reads(45, "4k"),
            4096,
            "0: 10, 100: 10, 200: 10, 300: 10, 400: 5",
        ),
        // L: both limits.
        (
            "kernel 6.1",
            "/t rbps=1048576 riops=10",
            reads(6, "64k"),
            65536,
            "0: 1, 125: 1, 200: 1, 300: 1, 400: 1, 500: 1",
        ),
        (
            "kernel 6.12",
            "/t rbps=1048576 riops=10",
            reads(6, "64k"),
            65536,
            "0: 1, 125: 1, 226: 1, 327: 1, 428: 1, 529: 1",
        ),
    ] {
        let results = limited(limiter, &[max], &jobs);
        assert_eq!(timeline(&results, "/t", len), expected, "{limiter} {max}");
    }
}

#[test]
fn a_limit_of_a_few_requests_a_second_is_exact() {
    // F: five a second; A and H: bytes, and a parent that allows less than its child.
    let six = at_once("j", "t", 6, "4k");
    assert_eq!(limited("kernel 4.19", &["/t riops=5"], &six).elapsed_ns, 1600 * MS);
    assert_eq!(limited("kernel 6.12", &["/t riops=5"], &six).elapsed_ns, 1206 * MS);
    let writes = "[j]\ncgroup=t\nrw=randwrite\nbs=10k\ndirect=1\nsize=1g\nioengine=libaio\niodepth=2\nnumber_ios=2\n";
    for (kernel, second_ms) in [("kernel 6.1", 20_000), ("kernel 6.15", 20_001)] {
        let results = limited(kernel, &["/t wbps=1024"], writes);
        let latency = &results.rows[0].write.latency;
        assert_eq!((latency.min_ns(), latency.max_ns()), (10_000 * MS, second_ms * MS), "{kernel}");
    }
    let four = at_once("j", "p/c", 4, "8k");
    let results = limited("kernel 6.1", &["/p rbps=4096", "/p/c rbps=8192"], &four);
    let latency = &results.rows[0].read.latency;
    assert_eq!((latency.min_ns(), latency.max_ns()), (2_000 * MS, 8_000 * MS));
    assert_eq!(latency.sum_ns(), u128::from(20_000 * MS));
}

#[test]
fn children_share_what_their_parents_allow() {
    // I: two without limits of their own.
    let jobs = at_once("x", "p/x", 30, "4k") + &at_once("y", "p/y", 10, "4k");
    let results = limited("kernel 4.19", &["/p riops=100"], &jobs);
    assert_eq!(timeline(&results, "/p/x", 4096), "0: 10, 100: 5, 200: 5, 300: 10");
    assert_eq!(timeline(&results, "/p/y", 4096), "100: 5, 200: 5");
    // K: three levels.
    let jobs = at_once("one", "g/p/c1", 8, "4k") + &at_once("two", "g/p/c2", 12, "4k");
    let max = ["/g riops=50", "/g/p riops=100", "/g/p/c1 riops=30"];
    let results = limited("kernel 4.19", &max, &jobs);
    assert_eq!(timeline(&results, "/g/p/c1", 4096), "0: 3, 200: 2, 300: 3");
    assert_eq!(timeline(&results, "/g/p/c2", 4096), "0: 2, 100: 5, 200: 3, 300: 2");
    assert_eq!(timeline(&results, "/g", 4096), "0: 5, 100: 5, 200: 5, 300: 5");
}

#[test]
fn paced_reads_leave_evenly_after_their_burst() {
    let jobs = at_once("j", "t", 45, "4k");
    let burst_of_ten = |limiter| {
        let settings = [("limiter", limiter), ("max", "/t riops=100"), ("burst", "/t riops=10")];
        timeline(&run(AT_ONCE, &settings, &jobs), "/t", 4096)
    };
    let after_ten: Vec<_> = [(0, 10)].into_iter().chain((1..=35).map(|at| (10 * at, 1))).collect();
    assert_eq!(burst_of_ten("pace"), times(&after_ten));
    let evenly: Vec<_> = (0..45).map(|at| (10 * at, 1)).collect();
    let results = limited("pace", &["/t riops=100"], &jobs);
    assert_eq!(timeline(&results, "/t", 4096), times(&evenly));
    // A token bucket gives no more than its burst and its rate either.
    let results = limited("token", &["/t riops=100"], &jobs);
    let points = cgroup(&results, "/t").read_series.points();
    let mut so_far = 0;
    for (ms, bytes) in points.iter().enumerate() {
        so_far += bytes / 4096;
        assert!(so_far <= 2 + ms as u64 / 10, "{so_far} after {ms} ms");
    }
    assert_eq!(so_far, 45);
}

/// The examples of io-throttle's two strategies.
#[test]
fn buckets_leak_and_fill_as_in_io_throttle() {
    let jobs = "[j]\ncgroup=t\nrw=read\nbs=1m\ndirect=1\nsize=1g\nnumber_ios=3\nstartdelay=1ms\n";
    let results = limited("leaky", &["/t rbps=4M"], jobs);
    assert_eq!(timeline(&results, "/t", 1 << 20), "250: 1, 500: 1, 750: 1");
    let settings = [("limiter", "token"), ("max", "/t rbps=8M"), ("burst", "/t rbps=8M")];
    let results = run(AT_ONCE, &settings, &at_once("j", "t", 10, "1m"));
    assert_eq!(timeline(&results, "/t", 1 << 20), "0: 8, 125: 1, 250: 1");
}

#[test]
fn every_level_of_limits_holds_and_siblings_share_by_weight() {
    let global = "[global]\nrw=read\nbs=64k\ndirect=1\nioengine=libaio\niodepth=8\nsize=1g\ntime_based\nruntime=10\n";
    let jobs = format!("{global}[a]\ncgroup=all/a\n[b]\ncgroup=all/b\n[c]\ncgroup=all/c\n");
    let mib = |results: &weir_lab::results::Results, path: &str| {
        cgroup(results, path).counters.read.bytes as f64 / 10_485_760.0
    };
    let max = ("max", "/all rbps=70M");
    let weights =
        [max, ("weight", "/all/a 100"), ("weight", "/all/b 200"), ("weight", "/all/c 400")];
    let results = run("null,latency=100us", &weights, &jobs);
    for (path, share) in [("/all", 70.0), ("/all/a", 10.0), ("/all/b", 20.0), ("/all/c", 40.0)] {
        let found = mib(&results, path);
        assert!((found / share - 1.0).abs() < 0.02, "{path}: {found} of {share}");
    }
    // c's own limit is below its share; what it leaves is the others'.
    let settings = [&weights[..], &[("max", "/all/c rbps=10M")]].concat();
    let results = run("null,latency=100us", &settings, &jobs);
    for (path, share) in [("/all", 70.0), ("/all/a", 20.0), ("/all/b", 40.0), ("/all/c", 10.0)] {
        let found = mib(&results, path);
        assert!((found / share - 1.0).abs() < 0.02, "{path}: {found} of {share}");
    }
}

/// Under a limit of 1,000 a second. The reader at depth one waits for two turns at most, where order of arrival would
/// have it wait for 33.
#[test]
fn a_reader_at_depth_one_has_half_beside_one_at_depth_32() {
    let job = |name: &str, depth: u32| {
        format!(
            "[{name}]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\nioengine=libaio\niodepth={depth}\ntime_based\nruntime=10\n"
        )
    };
    let jobs = job("greedy", 32) + &job("polite", 1);
    for limiter in ["pace", "token"] {
        let settings = [("limiter", limiter), ("max", "riops=1000")];
        let results = run("null,latency=10us", &settings, &jobs);
        let of = |name: &str| {
            let row = results.rows.iter().find(|row| row.name == name).expect("it ran");
            &row.read.latency
        };
        for name in ["greedy", "polite"] {
            let reads = of(name).count();
            assert!((4_900..=5_100).contains(&reads), "{limiter} {name}: {reads} in ten seconds");
        }
        let p99 = of("polite").p99_ns();
        assert!(p99 <= 2_100_000, "{limiter}: p99 {p99} ns");
    }
}

#[test]
fn a_late_timer_delays_only_throttled_requests() {
    let jobs = at_once("j", "t", 12, "64k");
    let settings =
        [("max", "/t rbps=1048576"), ("limiter", "slice:6.1,hz=1000"), ("timer-late", "1ms")];
    let told = timeline(&run(AT_ONCE, &settings, &jobs), "/t", 65536);
    assert_eq!(told, "0: 1, 126: 2, 251: 1, 313: 2, 438: 1, 502: 2, 626: 2, 751: 1");
}

#[test]
fn waits_are_blamed_on_their_limit() {
    let results =
        limited("pace", &["/p riops=50", "/p/c riops=100"], &at_once("j", "p/c", 10, "4k"));
    let waits = &cgroup(&results, "/p/c").limit_waits;
    let of = |path: &str| {
        waits
            .iter()
            .filter(|wait| wait.path == path)
            .map(|wait| wait.wait_ns.iter().sum::<u64>())
            .sum::<u64>()
    };
    // 0, 20, 40, ... 180 ms in all, some of it for each of the two.
    assert_eq!(of("/p") + of("/p/c"), 900 * MS);
    assert!(of("/p") > 0 && of("/p/c") > 0);
}

#[test]
fn limits_that_no_job_meets_are_noted() {
    let jobs = "[web]\nrw=randread\ndirect=1\nsize=1g\nnumber_ios=10\n";
    let note = "limits of /web had nothing to do: no request came from there. `web` is in /main; a job's `cgroup` names \
                another, and `--set home=per-job` gives each job its own";
    assert_eq!(run(ONE_MS, &[("max", "/web riops=100")], jobs).notes, [note]);
    assert_eq!(run(ONE_MS, &[("max", "riops=100")], jobs).notes, [""; 0]);
}

/// Ten reads at once, of which a burst of one goes and the others follow each other by 10 ms.
#[test]
fn single_waits_are_told_by_cause() {
    let jobs = at_once("j", "t", 10, "4k");
    let results = limited("pace", &["/t riops=100"], &jobs);
    for path in ["/t", "/"] {
        let waits = &cgroup(&results, path).latency_by_cause;
        let found: Vec<_> = waits.iter().map(|wait| (wait.cause.key(), wait.ios)).collect();
        assert_eq!(found, [("own_limit", 9), ("device", 10)], "{path}");
        assert_eq!(waits[0].max_ns, 90 * MS);
        assert!(waits[0].p50_ns.abs_diff(50 * MS) <= 4 * MS, "{} ns", waits[0].p50_ns);
    }
}
