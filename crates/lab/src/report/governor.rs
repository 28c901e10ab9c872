//! The governor in the reports: its factor and the disk's use over time.

use serde_json::{Value, json};
use weir_units::Nanos;

use super::columns::{Columns, wrap};
use super::figures::percent;
use super::json::series;
use crate::results::{FactorChange, GovernResults, Series};

/// Lines of the table over time.
const LINES: u64 = 10;

/// The governor as lines for a terminal.
pub(super) fn lines(governed: &GovernResults, elapsed_ns: u64, width: usize) -> Vec<String> {
    let writes: u64 = governed.cgroups.iter().map(|cgroup| cgroup.writes).sum();
    let most = governed.cgroups.iter().map(|cgroup| cgroup.writes_per_sec_max).max().unwrap_or(0);
    let head = format!(
        "Governed up to {} %: {writes} writes of limits, at most {most} in a second to one cgroup",
        governed.watermark_percent
    );
    let mut lines = wrap(&head, width, 2);
    let mut table = Columns::new(1, &["  TIME", "LIMITS", "USED", "GATE OPEN"]);
    let step_ns = elapsed_ns.div_ceil(LINES).max(1);
    for from_ns in (0..elapsed_ns).step_by(step_ns as usize) {
        let to_ns = (from_ns + step_ns).min(elapsed_ns);
        let part = |series: &Series| part_between(series, from_ns, to_ns);
        let lifted = part(&governed.lifted_series);
        let time = 1.0 - lifted;
        let factor = part(&governed.lambda_series) / time;
        let factor = if time > 0.01 { format!("x{factor:.2}") } else { "-".to_owned() };
        let share = |part: f64| format!("{:.0} %", part * 100.0);
        let from = Nanos(from_ns).rounded().to_string();
        table.row(vec![
            format!("  from {from}"),
            factor,
            share(part(&governed.used_series)),
            if lifted > 0.0 { share(lifted) } else { "-".to_owned() },
        ]);
    }
    let is_gate = !governed.lifted_series.points().iter().all(|&point| point == 0);
    let table = if is_gate { table } else { table.without(&["GATE OPEN"]) };
    lines.extend(table.lines());
    lines
}

/// Mean of a series of times, as a part of the time from `from_ns` to `to_ns`.
fn part_between(series: &Series, from_ns: u64, to_ns: u64) -> f64 {
    let interval_ns = series.interval_ns();
    let points = (0u64..).zip(series.points());
    let sum: f64 = points
        .map(|(index, &amount)| {
            let begin = (index * interval_ns).max(from_ns);
            let end = ((index + 1) * interval_ns).min(to_ns);
            end.saturating_sub(begin) as f64 * amount as f64 / interval_ns as f64
        })
        .sum();
    sum / (to_ns - from_ns).max(1) as f64
}

/// The governor as JSON.
pub(super) fn json(governed: &GovernResults) -> Value {
    let cgroups = governed.cgroups.iter().map(|cgroup| {
        json!({
            "cgroup": cgroup.path,
            "io_max": cgroup.as_written.to_string(),
            "writes": cgroup.writes,
            "writes_per_sec_max": cgroup.writes_per_sec_max,
        })
    });
    json!({
        "watermark_percent": governed.watermark_percent,
        "cgroups": cgroups.collect::<Vec<_>>(),
        "changes": governed.changes.iter().map(change).collect::<Vec<_>>(),
        "changes_count": governed.changes_count,
        "lambda_series": series(&governed.lambda_series, "lambda_ns"),
        "used_series": series(&governed.used_series, "used_ns"),
        "lifted_series": series(&governed.lifted_series, "lifted_ns"),
    })
}

fn change(change: &FactorChange) -> Value {
    let lambda = (change.lambda_ppm < u64::MAX).then(|| change.lambda_ppm as f64 / 1e6);
    json!({
        "at_ns": change.at_ns,
        "lambda": lambda,
        "utilisation_percent": percent(change.utilisation_permille.into(), 1000),
        "state": change.state.name(),
    })
}
