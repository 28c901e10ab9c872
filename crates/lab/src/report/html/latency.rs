//! Charts of latency by percentile: of cgroups, jobs and whole runs.

use std::collections::BTreeSet;

use weir_units::Nanos;

use super::axis::{Axis, Scale, Unit};
use super::chart::{Chart, GREY_MAX, Legend, Line, rest};
use super::palette::{Colour, Palette};
use super::utilisation::of_run;
use crate::report::figures::{Labels, Line as Requests, lines};
use crate::results::{Latency, Results, Row};

/// Places along an axis that a line tells apart.
const STEPS: f64 = 400.0;

struct Times<'r> {
    name: String,
    colour: Colour,
    latency: &'r Latency,
}

/// Charts of all runs with the same axes: all requests of each run, if there are several; cgroups; jobs.
pub(super) fn charts(runs: &[(&str, &Results)], palette: &Palette) -> Vec<Chart> {
    let of_run = |title: &str, name: &str| match runs.len() {
        1 => title.to_owned(),
        _ => format!("{title}, {name}"),
    };
    let mut plots: Vec<(String, Vec<Times<'_>>)> = Vec::new();
    if runs.len() > 1 {
        plots.push(("All requests, run by run".into(), whole_runs(runs)));
    }
    for (name, results) in runs {
        plots.push((of_run("In the engine, by cgroup", name), cgroups(results, palette)));
    }
    for kind in ["read", "write", "trim", "sync"] {
        for (name, results) in runs {
            let title = format!("As processes see it, {kind}s by job");
            plots.push((of_run(&title, name), jobs(results, kind, palette)));
        }
    }
    plots.retain(|(_, times)| !times.is_empty());
    let all = || plots.iter().flat_map(|(_, times)| times).map(|times| times.latency);
    let least = all().map(Latency::min_ns).min().unwrap_or(0);
    let largest = all().map(Latency::max_ns).max().unwrap_or(0);
    let count = all().map(Latency::count).max().unwrap_or(0);
    let (x, y) = (Axis::percentile(count), Axis::latency(least, largest));
    let charts = plots.into_iter().enumerate();
    let mut charts: Vec<Chart> = charts
        .map(|(index, (title, times))| chart(format!("latency{index}"), title, &times, &x, &y))
        .collect();
    // Charts of one kind stand beside each other.
    if let Some(first) = charts.first_mut() {
        first.is_wide = runs.len() > 1;
    }
    charts
}

fn whole_runs<'r>(runs: &[(&'r str, &'r Results)]) -> Vec<Times<'r>> {
    let roots = runs.iter().enumerate().filter_map(|(index, (name, results))| {
        let root = results.cgroups.first()?;
        let colour = of_run(index, runs.len());
        Some(Times { name: (*name).to_owned(), colour, latency: &root.latency })
    });
    roots.filter(|times| times.latency.count() > 0).collect()
}

fn cgroups<'r>(results: &'r Results, palette: &Palette) -> Vec<Times<'r>> {
    let measured = results.cgroups.iter().filter(|cgroup| cgroup.latency.count() > 0);
    let times = measured.map(|cgroup| Times {
        name: cgroup.path.clone(),
        colour: palette.colour(&cgroup.path),
        latency: &cgroup.latency,
    });
    let times: Vec<Times<'_>> = times.collect();
    // The root and an only child would be the same line twice.
    match times.len() {
        2 => times.into_iter().filter(|times| times.colour != Colour::All).collect(),
        _ => times,
    }
}

fn jobs<'r>(results: &'r Results, kind: &str, palette: &Palette) -> Vec<Times<'r>> {
    let used = |row: &'r Row| lines(row).into_iter().find(|line| line.kind == kind);
    let used: Vec<(&Row, Requests<'r>)> =
        results.rows.iter().filter_map(|row| Some((row, used(row)?))).collect();
    // A job that is alone in its cgroup has its colour.
    let mut seen = BTreeSet::new();
    let is_told_by_cgroup =
        used.iter().all(|(row, _)| row.cgroup != "/" && seen.insert(row.cgroup.as_str()));
    let labels = Labels::of(results);
    let times = used.iter().map(|(row, line)| {
        let name = labels.label(row);
        let colour = match is_told_by_cgroup {
            true => palette.colour(&row.cgroup),
            false => palette.colour_of_job(&row.cgroup, &name),
        };
        Times { name, colour, latency: line.latency }
    });
    times.collect()
}

fn chart(id: String, title: String, times: &[Times<'_>], x: &Axis, y: &Axis) -> Chart {
    let told = times.iter().filter(|times| times.colour != Colour::Rest);
    let mut legend: Vec<Legend> = told
        .map(|times| Legend {
            name: times.name.clone(),
            colour: times.colour,
            more: format!(
                "p50 {}, p99 {}",
                Nanos(times.latency.p50_ns()).rounded(),
                Nanos(times.latency.p99_ns()).rounded()
            ),
        })
        .collect();
    let description = legend.iter().map(|entry| format!("{}: {}", entry.name, entry.more));
    let description =
        format!("Latency by percentile. {}.", description.collect::<Vec<_>>().join("; "));
    legend.extend(rest(times.len() - legend.len()));
    let mut grey = 0;
    let drawn = times.iter().filter(|times| {
        grey += usize::from(times.colour == Colour::Rest);
        times.colour != Colour::Rest || grey <= GREY_MAX
    });
    let lines = drawn.map(|times| Line {
        name: times.name.clone(),
        colour: times.colour,
        points: points(times.latency, x, y),
    });
    Chart {
        id,
        title,
        description,
        x: x.clone(),
        y: y.clone(),
        lines: lines.collect(),
        limits: Vec::new(),
        marks: Vec::new(),
        legend,
        is_area: false,
        is_wide: false,
    }
}

/// Shares of requests, with the time that they do not exceed. A line begins with the shortest time and ends with the
/// longest, which is its last request's.
fn points(times: &Latency, x: &Axis, y: &Axis) -> Vec<(f64, f64)> {
    debug_assert_eq!((x.unit, y.unit), (Unit::Percentile, Unit::Latency));
    let end = match x.scale {
        Scale::Nines(nines) => nines,
        _ => 5.0,
    };
    let count = times.count() as f64;
    if times.count() < 2 {
        return (times.count() == 1).then(|| (0.5, times.max_ns() as f64)).into_iter().collect();
    }
    // The share is unknown beyond the last request but one.
    let last_share = (1.0 - 1.0 / count).min(1.0 - libm::pow(10.0, -end));
    let mut points: Vec<(f64, f64)> = vec![(0.0, times.min_ns() as f64)];
    let mut seen = 0u64;
    for (low, high, inside) in times.buckets() {
        let middle = (low + (high - low) / 2).clamp(times.min_ns(), times.max_ns()) as f64;
        let before = (seen as f64 / count).min(last_share);
        seen += u64::from(inside);
        let after = (seen as f64 / count).min(last_share);
        for point in [(before, middle), (after, middle)] {
            let last = points[points.len() - 1];
            let is_apart = x.scale.place(point.0) - x.scale.place(last.0) > 1.0 / STEPS
                || y.scale.place(point.1) - y.scale.place(last.1) > 1.0 / STEPS;
            if is_apart {
                points.push(point);
            }
        }
    }
    points.push((last_share, times.max_ns() as f64));
    points
}
