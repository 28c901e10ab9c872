//! Promises of the governor, in single runs and over many mixes.

use super::mix::Mix;
use super::verdict::{Verdict, judge};
use super::{between, rate, run};

/// Two tenants limited to 4 and 2 MiB/s, and one without a limit from 6 to 12 s, on a disk of 20 MiB/s.
#[test]
fn two_tenants_have_the_disk_in_their_ratio_until_a_third_comes() {
    let jobs = "[global]\nrw=read\nbs=64k\ndirect=1\nsize=1g\ntime_based\nruntime=18\n\
                [a]\ncgroup=a\n[b]\ncgroup=b\n\
                [c]\ncgroup=c\nstartdelay=6\nruntime=6\nioengine=libaio\niodepth=4\n";
    for (kernel, version) in [("6.1", "2"), ("6.12", "2"), ("6.15", "1"), ("6.15", "2")] {
        let settings = [
            ("disk", "null,rate=20M"),
            ("max", "/a rbps=4M"),
            ("max", "/b rbps=2M"),
            ("kernel", kernel),
            ("govern", "90"),
            ("cgroup-version", version),
        ];
        let results = run(&settings, None, jobs);
        for (from_ms, to_ms) in [(3_000, 6_000), (14_000, 18_000)] {
            let [a, b] = ["/a", "/b"].map(|path| rate(&results, path, from_ms, to_ms));
            assert!((a / b - 2.0).abs() < 0.1, "{kernel}, version {version}: {a} and {b}");
            let busy = between(&results.device.busy_series, from_ms, to_ms);
            let busy = busy / ((to_ms - from_ms) as f64 * 1e6);
            assert!(busy >= 0.92, "{kernel}, version {version}: {busy}");
        }
        let governed = results.governed.unwrap();
        let back = governed
            .changes
            .iter()
            .find(|change| change.at_ns > 6_000_000_000 && change.lambda_ppm == 1_000_000)
            .unwrap();
        assert!(back.at_ns <= 6_200_000_000, "{kernel}, version {version}: {}", back.at_ns);
    }
}

/// Limits that an operator changes are adopted, and those of a lower level are raised with those above.
#[test]
fn changed_limits_are_adopted_on_all_levels() {
    let jobs = "[global]\nrw=read\nbs=64k\ndirect=1\nsize=1g\ntime_based\nruntime=12\nioengine=libaio\niodepth=4\n\
                [a]\ncgroup=top/a\n[b]\ncgroup=top/b\n";
    let settings = [
        ("disk", "null,rate=20M"),
        ("max", "/top rbps=6M"),
        ("max", "/top/a rbps=4M"),
        ("max", "/top/b rbps=2M"),
        ("at", "6s max=/top/b rbps=4M"),
        ("govern", "90"),
    ];
    let results = run(&settings, None, jobs);
    let ratio = |from_ms, to_ms| {
        rate(&results, "/top/a", from_ms, to_ms) / rate(&results, "/top/b", from_ms, to_ms)
    };
    assert!((ratio(3_000, 6_000) - 2.0).abs() < 0.15, "{}", ratio(3_000, 6_000));
    assert!((ratio(9_000, 12_000) - 1.0).abs() < 0.1, "{}", ratio(9_000, 12_000));
    for (from_ms, to_ms) in [(3_000, 6_000), (9_000, 12_000)] {
        let all = rate(&results, "/top", from_ms, to_ms);
        assert!(all > 0.9 * 20e6 * 1.048, "{all}");
    }
}

/// In mode gate limits go, and are back when a third comes.
#[test]
fn a_gate_is_open_while_no_other_needs_the_disk() {
    let jobs = "[global]\nrw=read\nbs=64k\ndirect=1\nsize=1g\ntime_based\nruntime=9\nioengine=libaio\niodepth=4\n\
                [a]\ncgroup=a\n[c]\ncgroup=c\nstartdelay=4\nruntime=3\n";
    let settings = [("disk", "null,rate=20M"), ("max", "/a rbps=2M"), ("govern", "90 mode=gate")];
    let results = run(&settings, None, jobs);
    let mib = |from_ms, to_ms| rate(&results, "/a", from_ms, to_ms) / f64::from(1 << 20);
    assert!(mib(1_000, 4_000) > 18.0, "{}", mib(1_000, 4_000));
    assert!((mib(4_300, 7_000) - 2.0).abs() < 0.2, "{}", mib(4_300, 7_000));
    let governed = results.governed.unwrap();
    assert!(governed.lifted_series.points().iter().sum::<u64>() > 4_000_000_000);
}

/// Whether a mix is without the shortfalls that decision 62 tells of.
fn is_good(verdict: &Verdict) -> bool {
    let is_used = verdict.used[2] < 0.97 || verdict.seen >= 0.9;
    is_used && verdict.ratio <= 1.1 && verdict.turns <= 1 && verdict.least_beside >= 0.95
}

#[test]
fn random_mixes_are_governed() {
    let verdicts: Vec<(Mix, Verdict)> = (0..24)
        .map(|seed| {
            let mix = Mix::new(seed);
            let verdict = judge(&mix, false);
            (mix, verdict)
        })
        .collect();
    for (mix, verdict) in &verdicts {
        assert!(verdict.least_alone >= 0.95, "{mix}: {verdict:?}");
        assert!(verdict.writes_per_sec <= 4, "{mix}: {verdict:?}");
        let is_back = verdict.back_ms.is_some_and(|ms| ms <= 200.0);
        assert!(is_back || !verdict.must_go_back, "{mix}: {verdict:?}");
    }
    let others: Vec<String> = verdicts
        .iter()
        .filter(|(_, verdict)| !is_good(verdict))
        .map(|(mix, verdict)| format!("{mix}: {verdict:?}"))
        .collect();
    assert!(others.len() <= 4, "{others:#?}");
}

/// Prints what came of mixes of the seeds `GOVERN_SEEDS` (`FROM..TO`); of each if `GOVERN_LOUD` is set.
#[test]
#[ignore = "takes minutes; `make soak-govern`"]
fn soak() {
    let text = std::env::var("GOVERN_SEEDS").unwrap_or_else(|_| "0..1000".into());
    let (from, to) = text.split_once("..").expect("FROM..TO");
    let seeds = from.parse::<u64>().unwrap()..to.parse().unwrap();
    let is_loud = std::env::var_os("GOVERN_LOUD").is_some();
    let verdicts: Vec<(u64, Verdict)> =
        seeds.map(|seed| (seed, judge(&Mix::new(seed), is_loud))).collect();
    report(&verdicts);
}

fn report(verdicts: &[(u64, Verdict)]) {
    for version in ["1", "2"] {
        let of: Vec<(u64, Verdict)> = verdicts
            .iter()
            .filter(|(seed, _)| Mix::new(*seed).version == version)
            .cloned()
            .collect();
        println!("cgroups of version {version}");
        report_some(&of);
    }
}

fn report_some(verdicts: &[(u64, Verdict)]) {
    let check = |name: &str, is_wrong: &dyn Fn(&Verdict) -> bool| {
        let wrong: Vec<u64> =
            verdicts.iter().filter(|(_, one)| is_wrong(one)).map(|(seed, _)| *seed).collect();
        println!(
            "{name}: {} of {}: {:?}",
            wrong.len(),
            verdicts.len(),
            &wrong[..wrong.len().min(40)]
        );
    };
    check("alone below 95 %", &|one| one.least_alone < 0.95);
    check("beside below 95 %", &|one| one.least_beside < 0.95);
    check("used below 90 % where possible", &|one| one.used[2] >= 0.97 && one.used[1] < 0.9);
    check("  by what it saw", &|one| one.used[2] >= 0.97 && one.seen < 0.9);
    check("  possible", &|one| one.used[2] >= 0.97);
    check("ratio beyond 10 %", &|one| one.ratio > 1.1);
    check("must go back", &|one| one.must_go_back);
    check("  not within 200 ms", &|one| {
        one.must_go_back && one.back_ms.is_none_or(|ms| ms > 200.0)
    });
    check("more than 4 writes", &|one| one.writes_per_sec > 4);
    check("turns", &|one| one.turns > 1);
    let mean = |of: &dyn Fn(&Verdict) -> f64| {
        verdicts.iter().map(|(_, one)| of(one)).sum::<f64>() / verdicts.len() as f64
    };
    println!(
        "mean use hard {:.3}, governed {:.3}, without limits {:.3}; ratio {:.3}; factor {:.2}",
        mean(&|one| one.used[0]),
        mean(&|one| one.used[1]),
        mean(&|one| one.used[2]),
        mean(&|one| one.ratio),
        mean(&|one| one.lambda)
    );
}
