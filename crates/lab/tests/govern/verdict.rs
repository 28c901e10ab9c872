//! Verdicts on mixes: a run under a governor beside one with the same limits as they are.

use weir_lab::results::Results;

use super::mix::{COMES_MS, END_MS, GOES_MS, Mix};
use super::{between, rate, run};

/// The settled stretch before the other comes.
const SETTLED_MS: [u64; 2] = [5_000, COMES_MS];

/// What came of a mix.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict {
    /// Least of what a tenant got under the governor, as a part of that with hard limits: while limited tenants are
    /// alone, and while the other is there.
    pub(crate) least_alone: f64,
    pub(crate) least_beside: f64,
    /// Use of the disk: under hard limits, governed, and without limits.
    pub(crate) used: [f64; 3],
    /// Use as the governor saw it.
    pub(crate) seen: f64,
    /// Largest gain over hard limits by the least, of tenants whose limits bind.
    pub(crate) ratio: f64,
    /// Time until limits are as written, where the other fills the disk.
    pub(crate) back_ms: Option<f64>,
    /// The other fills the disk and limits were raised.
    pub(crate) must_go_back: bool,
    pub(crate) writes_per_sec: u32,
    /// Turns of the factor by more than a tenth while no tenant comes or goes.
    pub(crate) turns: u32,
    pub(crate) lambda: f64,
}

pub(crate) fn judge(mix: &Mix, is_loud: bool) -> Verdict {
    let disk = [("disk", mix.disk)];
    let disk: &[(&str, &str)] = if mix.model.is_some() { &[] } else { &disk };
    // Without limits, for what each could get.
    let free = run(disk, mix.model, &mix.jobs(false, COMES_MS, None));
    let paths: Vec<String> = mix.tenants.iter().map(|tenant| format!("/{}", tenant.name)).collect();
    let mut gets: Vec<f64> = paths.iter().map(|path| rate(&free, path, 4_000, COMES_MS)).collect();
    if let Some(other) = &mix.other {
        let alone = run(disk, mix.model, &mix.job_of_other());
        gets.push(rate(&alone, &format!("/{}", other.name), COMES_MS, GOES_MS) * 0.4);
    }
    let limits = mix.limits(&gets);
    let mut settings = vec![("limiter", "slice"), ("kernel", mix.kernel)];
    settings.extend(disk);
    settings.extend(limits.iter().map(|limit| ("max", limit.as_str())));
    let jobs = mix.jobs(true, END_MS, Some(&gets));
    let hard = run(&settings, mix.model, &jobs);
    settings.extend([("govern", "90"), ("cgroup-version", mix.version), ("pause-late", "100us")]);
    settings.push(("hiccup", "5ms"));
    let governed = run(&settings, mix.model, &jobs);
    let wanted = run(disk, mix.model, &mix.jobs(false, COMES_MS, Some(&gets)));
    let verdict = compare(mix, [&hard, &governed, &wanted], &paths);
    if is_loud {
        println!("{mix}\n  limits {limits:?}\n  {verdict:.3?}");
        for path in &paths {
            let rates = [&hard, &governed].map(|results| {
                [(5_000, COMES_MS), (COMES_MS, GOES_MS), (12_000, END_MS)]
                    .map(|(from, to)| rate(results, path, from, to) / 1e6)
            });
            println!("  {path} hard, governed: {rates:.2?}");
        }
        for change in &governed.governed.as_ref().unwrap().changes {
            let lambda = change.lambda_ppm as f64 / 1e6;
            let seconds = change.at_ns as f64 / 1e9;
            println!(
                "  {seconds:7.2} x{lambda:8.3} {} {:?}",
                change.utilisation_permille, change.state
            );
        }
    }
    verdict
}

fn compare(mix: &Mix, [hard, governed, free]: [&Results; 3], paths: &[String]) -> Verdict {
    let outcome = governed.governed.as_ref().unwrap();
    let mut verdict =
        Verdict { least_alone: f64::MAX, least_beside: f64::MAX, ratio: 1.0, ..Verdict::default() };
    let [from, to] = SETTLED_MS;
    let mut gains: Vec<f64> = Vec::new();
    for (tenant, path) in mix.tenants.iter().zip(paths) {
        // Some requests more or less are chance.
        let slack = |from, to| 4e3 * tenant.block_bytes() / (to - from) as f64;
        let gain = |from, to| {
            (rate(governed, path, from, to) + slack(from, to)) / rate(hard, path, from, to).max(1.0)
        };
        let alone = gain(tenant.starts_ms + 500, COMES_MS);
        verdict.least_alone = verdict.least_alone.min(alone);
        verdict.least_beside = verdict.least_beside.min(gain(COMES_MS + 200, GOES_MS));
        // It could have more, and its limit bound.
        let is_bound = rate(hard, path, from, to) < 0.9 * rate(free, path, from, to);
        let is_often = rate(hard, path, from, to) >= 10.0 * tenant.block_bytes();
        if tenant.is_open && is_bound && is_often {
            gains.push(rate(governed, path, from, to) / rate(hard, path, from, to));
        }
    }
    if let Some(least) = gains.iter().copied().reduce(f64::min) {
        verdict.ratio = gains.iter().copied().fold(0.0, f64::max) / least;
    }
    let time_ns = (to - from) as f64 * 1e6;
    verdict.seen = between(&outcome.used_series, from, to) / time_ns;
    let used = |results: &Results| match mix.model {
        None => between(&results.device.busy_series, from, to) / time_ns,
        // Of what the disk does, its cost: what each gets without limits fills it.
        Some(_) => {
            let parts = paths
                .iter()
                .map(|path| rate(results, path, from, to) / rate(free, path, from, to).max(1.0));
            parts.sum::<f64>() / paths.len() as f64
        }
    };
    verdict.used = [used(hard), between(&outcome.used_series, from, to) / time_ns, used(free)];
    if mix.model.is_none() {
        verdict.used[1] = used(governed);
    }
    verdict.writes_per_sec =
        outcome.cgroups.iter().map(|cgroup| cgroup.writes_per_sec_max).max().unwrap_or(0);
    let comes_ns = COMES_MS * 1_000_000;
    let before = outcome.changes.iter().take_while(|change| change.at_ns <= comes_ns);
    let lambda_ppm = before.last().map_or(1_000_000, |change| change.lambda_ppm);
    verdict.lambda = lambda_ppm as f64 / 1e6;
    let back = outcome
        .changes
        .iter()
        .find(|change| change.at_ns > comes_ns && change.lambda_ppm == 1_000_000);
    verdict.back_ms = back.map(|change| (change.at_ns - comes_ns) as f64 / 1e6);
    // Full with limits as they are: what it wants is not there.
    let busy = between(&hard.device.busy_series, COMES_MS, GOES_MS);
    let is_full = busy >= 0.97 * (GOES_MS - COMES_MS) as f64 * 1e6;
    let is_open = mix.other.as_ref().is_some_and(|other| other.is_open);
    verdict.must_go_back = is_open && is_full && lambda_ppm > 1_050_000;
    let settled =
        outcome.changes.iter().filter(|change| (3_500_000_000..comes_ns).contains(&change.at_ns));
    let mut extreme: Option<(f64, i8)> = None;
    for change in settled {
        let lambda = change.lambda_ppm as f64;
        let Some((at, way)) = extreme else {
            extreme = Some((lambda, 0));
            continue;
        };
        let moved = lambda / at;
        if !(1.0 / 1.1..=1.1).contains(&moved) {
            let now = if moved > 1.0 { 1 } else { -1 };
            verdict.turns += u32::from(way != 0 && way != now);
            extreme = Some((lambda, now));
        } else if (way > 0 && lambda > at) || (way < 0 && lambda < at) {
            extreme = Some((lambda, way));
        }
    }
    verdict
}
