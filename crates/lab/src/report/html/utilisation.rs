//! Chart of the disk's utilisation over time, with the watermark.

use super::axis::Axis;
use super::chart::{Chart, Legend, Limit, Line};
use super::over_time::{marks, per_second};
use super::palette::{COLOURS, Colour};
use crate::report::figures::percent_text;
use crate::results::Results;

/// One chart, a line for each run; None if no disk was ever busy.
pub(super) fn chart(runs: &[(&str, &Results)]) -> Option<Chart> {
    if runs.iter().all(|(_, results)| results.device.busy_series.is_empty()) {
        return None;
    }
    let elapsed_ns = runs.iter().map(|(_, results)| results.elapsed_ns).max().unwrap_or(0);
    let (mut lines, mut limits, mut legend) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (name, results)) in runs.iter().enumerate() {
        let colour = of_run(index, runs.len());
        let device = &results.device;
        let name = if runs.len() > 1 { (*name).to_owned() } else { "disk".to_owned() };
        let busy = per_second(&device.busy_series, results.elapsed_ns);
        let points =
            busy.into_iter().map(|(at, busy_ns)| (at, (busy_ns / 1e7).min(100.0))).collect();
        lines.push(Line { name: name.clone(), colour, points });
        let busy = percent_text(device.busy_ns.min(results.elapsed_ns), results.elapsed_ns);
        let mut more = format!("busy {busy} of the time");
        if let Some(watermark) = device.watermark_percent {
            more.push_str(&format!(", watermark {watermark} %"));
            // A run alone has a colour of its own, else that of the run.
            let colour = if runs.len() == 1 { Colour::Own(1) } else { colour };
            limits.push(Limit { colour, value: f64::from(watermark), is_about: false });
        }
        legend.push(Legend { name, colour, more });
    }
    let told = legend.iter().map(|entry| format!("{}: {}", entry.name, entry.more));
    let description = format!(
        "Share of the time with a request at the disk. {}.",
        told.collect::<Vec<_>>().join("; ")
    );
    Some(Chart {
        id: "utilisation".into(),
        title: "Disk busy".into(),
        description,
        x: Axis::time(elapsed_ns),
        y: Axis::percent(),
        lines,
        limits,
        // With several runs it would be unclear which run a mark belongs to.
        marks: match runs {
            [(_, one)] => marks(one),
            _ => Vec::new(),
        },
        legend,
        is_area: runs.len() == 1,
        is_wide: true,
    })
}

/// The colour of a run in comparisons; a run alone has the root's.
pub(super) fn of_run(index: usize, count: usize) -> Colour {
    if count == 1 { Colour::All } else { Colour::Own(index % COLOURS) }
}
