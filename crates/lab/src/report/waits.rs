//! Percentiles of single waits, for the table and the JSON.

use serde_json::{Map, Value, json};
use weir_engine::Direction;
use weir_engine::stats::WaitCause;
use weir_units::Nanos;

use super::columns::{Columns, clean, shortened};
use super::figures::round;
use crate::results::{CauseLatency, CgroupResults, Results};

/// Rows of the table.
const LISTED_MAX: usize = 40;
/// Characters of a path.
const NAME_MAX: usize = 32;

const HEAD: [&str; 8] = ["EACH WAIT", "FOR", "", "IOS", "P50", "P99", "P99.9", "MAX"];

/// Waits of the cgroups without others below that waited for more than the device, as lines; none where none did.
pub(super) fn table(results: &Results, width: usize) -> Vec<String> {
    let is_leaf = |cgroup: &CgroupResults| {
        let below = format!("{}/", cgroup.path.trim_end_matches('/'));
        !results.cgroups.iter().any(|other| {
            other.path != cgroup.path
                && other.path.starts_with(&below)
                && other.counters.completed > 0
        })
    };
    let waited = |cgroup: &&CgroupResults| {
        cgroup.latency_by_cause.iter().any(|wait| wait.cause != WaitCause::Device)
    };
    let cgroups: Vec<&CgroupResults> = results
        .cgroups
        .iter()
        .filter(waited)
        .filter(|cgroup| is_leaf(cgroup))
        .take(LISTED_MAX)
        .collect();
    if cgroups.is_empty() {
        return Vec::new();
    }
    let paths: Vec<String> = cgroups.iter().map(|cgroup| clean(&cgroup.path)).collect();
    let mut all = Columns::new(3, &HEAD);
    let rows = cgroups.iter().zip(shortened(&paths, NAME_MAX)).flat_map(|(cgroup, path)| {
        let waits = cgroup.latency_by_cause.iter().enumerate();
        waits.map(move |(at, wait)| (if at == 0 { path.clone() } else { String::new() }, wait))
    });
    let count = rows.clone().count();
    rows.take(LISTED_MAX).for_each(|(path, wait)| all.row(cells(path, wait)));
    let mut shown = all.without(&[]);
    for hidden in [&["P50"][..], &["P50", "P99.9"], &["P50", "P99.9", "IOS"]] {
        if shown.width() <= width {
            break;
        }
        shown = all.without(hidden);
    }
    let more = count.checked_sub(LISTED_MAX).filter(|&more| more > 0);
    let more = more.map(|more| format!("and {more} more; the JSON has all"));
    shown.lines().into_iter().chain(more).collect()
}

fn cells(path: String, wait: &CauseLatency) -> Vec<String> {
    let cause = match wait.cause {
        WaitCause::OwnLimit => "its own limit",
        WaitCause::OtherLimit => "a limit above",
        WaitCause::OtherClients => "other clients' turns",
        WaitCause::LiftedLimit => "limits lifted since",
        WaitCause::Window => "room at the device",
        _ => "the device",
    };
    let times = [wait.p50_ns, wait.p99_ns, wait.p99_9_ns, wait.max_ns];
    let times = times.map(|ns| Nanos(ns).rounded().to_string());
    [path, cause.into(), direction(wait).into(), wait.ios.to_string()]
        .into_iter()
        .chain(times)
        .collect()
}

fn direction(wait: &CauseLatency) -> &'static str {
    match wait.direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}

/// By cause, and by direction.
pub(super) fn json(cgroup: &CgroupResults) -> Value {
    let mut causes = Map::new();
    for wait in &cgroup.latency_by_cause {
        let us = |ns: u64| round(ns as f64 / 1000.0, 3);
        let figures = json!({
            "ios": wait.ios,
            "latency_us_p50": us(wait.p50_ns),
            "latency_us_p99": us(wait.p99_ns),
            "latency_us_p99_9": us(wait.p99_9_ns),
            "latency_us_max": us(wait.max_ns),
        });
        let cause = causes.entry(wait.cause.key()).or_insert_with(|| json!({}));
        cause[direction(wait)] = figures;
    }
    causes.into()
}
