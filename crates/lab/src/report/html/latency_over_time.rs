//! Charts of latency over time: percentiles of all requests, p99 of each cgroup, and heat maps.

use std::collections::BTreeMap;

use weir_units::Nanos;

use super::axis::Axis;
use super::chart::{Chart, Legend, Line, rest};
use super::heat::{Cell, HeatMap};
use super::over_time::marks;
use super::palette::{Colour, Palette};
use crate::results::{LatencySeries, Results};

/// Percentiles of all requests, in thousandths.
const PERCENTILES: [(&str, u64, usize); 3] = [("p50", 500, 0), ("p99", 990, 1), ("p99.9", 999, 3)];

/// Charts of all runs with the same axes, and a heat map of each run.
pub(super) fn charts(runs: &[(&str, &Results)], palette: &Palette) -> (Vec<Chart>, Vec<HeatMap>) {
    let all = || runs.iter().filter_map(|(_, results)| results.cgroups.first());
    let all = || all().map(|root| &root.latency_series).filter(|series| !series.is_empty());
    let bins = || all().flat_map(|series| (0..series.len()).flat_map(|at| series.bins(at)));
    let Some(least) = bins().map(|(start, _, _)| start).min() else {
        return (Vec::new(), Vec::new());
    };
    let largest = bins().map(|(_, end, _)| end).max().unwrap_or(least);
    let elapsed_ns = runs.iter().map(|(_, results)| results.elapsed_ns).max().unwrap_or(0);
    let axes = || (Axis::time(elapsed_ns), Axis::latency(least.max(1), largest));
    let (mut charts, mut heat_maps) = (Vec::new(), Vec::new());
    for (index, (name, results)) in runs.iter().enumerate() {
        let of_run = |title: &str| match runs.len() {
            1 => title.to_owned(),
            _ => format!("{title}, {name}"),
        };
        let Some(root) = results.cgroups.first().map(|root| &root.latency_series) else { continue };
        if root.is_empty() {
            continue;
        }
        let percentiles = PERCENTILES.map(|(name, per_mille, colour)| {
            let points = quantiles(root, results.elapsed_ns, per_mille);
            Line { name: name.into(), colour: Colour::Own(colour), points }
        });
        let cgroups = results.cgroups.iter().skip(1).filter(|cgroup| {
            !cgroup.latency_series.is_empty() && !has_below(results, &cgroup.path)
        });
        let cgroups = cgroups.map(|cgroup| Line {
            name: cgroup.path.clone(),
            colour: palette.colour(&cgroup.path),
            points: quantiles(&cgroup.latency_series, results.elapsed_ns, 990),
        });
        let lines: [(&str, Vec<Line>); 2] = [
            ("Percentiles of all requests", percentiles.into()),
            ("p99 of each cgroup", cgroups.collect()),
        ];
        for (kind, (title, lines)) in lines.into_iter().enumerate() {
            if !lines.is_empty() {
                let id = format!("latency-over-time{index}-{kind}");
                charts.push(chart(id, of_run(title), lines, axes(), results));
            }
        }
        let (x, y) = axes();
        heat_maps.push(HeatMap {
            id: format!("heat{index}"),
            title: of_run("How many requests took how long"),
            x,
            y,
            cells: cells(root, results.elapsed_ns),
        });
    }
    (charts, heat_maps)
}

fn has_below(results: &Results, path: &str) -> bool {
    results.cgroups.iter().any(|other| {
        other.path.strip_prefix(path).is_some_and(|below| below.starts_with('/'))
            && !other.latency_series.is_empty()
    })
}

fn quantiles(series: &LatencySeries, elapsed_ns: u64, per_mille: u64) -> Vec<(f64, f64)> {
    let interval = series.interval_ns();
    let points = (0..series.len()).filter_map(|at| {
        let middle = (at as u64 * interval + interval / 2).min(elapsed_ns);
        Some((middle as f64, series.quantile_ns(at, per_mille)? as f64))
    });
    points.collect()
}

fn cells(series: &LatencySeries, elapsed_ns: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for at in 0..series.len() {
        let count: u64 = series.bins(at).map(|(_, _, count)| count).sum();
        let from = at as u64 * series.interval_ns();
        let to = (from + series.interval_ns()).min(elapsed_ns);
        cells.extend(series.bins(at).map(|(least, longer, of_bin)| Cell {
            x: (from as f64, to as f64),
            y: (least as f64, longer as f64),
            share: of_bin as f64 / count.max(1) as f64,
        }));
    }
    cells
}

fn chart(
    id: String,
    title: String,
    lines: Vec<Line>,
    (x, y): (Axis, Axis),
    results: &Results,
) -> Chart {
    let largest: BTreeMap<&str, f64> = lines
        .iter()
        .map(|line| (line.name.as_str(), line.points.iter().fold(0.0, |most, at| at.1.max(most))))
        .collect();
    let text = |line: &Line| Nanos(largest[line.name.as_str()] as u64).rounded();
    let own = || lines.iter().filter(|line| line.colour != Colour::Rest);
    let mut legend: Vec<Legend> = own()
        .map(|line| Legend {
            name: line.name.clone(),
            colour: line.colour,
            more: format!("at most {}", text(line)),
        })
        .collect();
    legend.extend(rest(lines.len() - legend.len()));
    let told: Vec<String> = own().map(|line| format!("{}: {}", line.name, text(line))).collect();
    Chart {
        description: format!("Latency over time. At most {}.", told.join("; ")),
        id,
        title,
        x,
        y,
        lines,
        limits: Vec::new(),
        marks: marks(results),
        legend,
        is_area: false,
        is_wide: false,
    }
}
