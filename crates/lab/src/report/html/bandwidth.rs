//! Bandwidth over time of each cgroup, with its limits.

use weir_engine::units::{Bytes, BytesPerSec};
use weir_engine::{Dimension, Moved};

use super::axis::Axis;
use super::chart::{Chart, Legend, Limit, Line, rest};
use super::over_time::per_second;
use super::palette::{Colour, Palette};
use crate::report::figures::per_sec;
use crate::results::{CgroupResults, Results, Series};

/// Different limits of cgroups without a colour of their own that are drawn.
const GREY_LIMITS_MAX: usize = 4;

/// Reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Read,
    Write,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Read => "Reads",
            Side::Write => "Writes",
        }
    }

    fn series(self, cgroup: &CgroupResults) -> &Series {
        match self {
            Side::Read => &cgroup.read_series,
            Side::Write => &cgroup.write_series,
        }
    }

    fn moved(self, cgroup: &CgroupResults) -> Moved {
        match self {
            Side::Read => cgroup.counters.read,
            Side::Write => cgroup.counters.write,
        }
    }

    fn dimensions(self) -> (Dimension, Dimension) {
        match self {
            Side::Read => (Dimension::Rbps, Dimension::Riops),
            Side::Write => (Dimension::Wbps, Dimension::Wiops),
        }
    }
}

/// Charts of all runs, each direction that was in use, with the same axes: what looks higher is more.
pub(super) fn charts(runs: &[(&str, &Results)], palette: &Palette) -> Vec<Chart> {
    let mut charts = Vec::new();
    for side in [Side::Read, Side::Write] {
        let is_used = runs.iter().any(|(_, results)| {
            results.cgroups.iter().any(|cgroup| !side.series(cgroup).is_empty())
        });
        if !is_used {
            continue;
        }
        let drawn: Vec<Vec<Drawn<'_>>> =
            runs.iter().map(|(_, results)| drawn(results, side, palette)).collect();
        let elapsed_ns = runs.iter().map(|(_, results)| results.elapsed_ns).max().unwrap_or(0);
        for (what, part) in parts(drawn) {
            let largest = largest(&part);
            for (index, ((name, _), drawn)) in runs.iter().zip(&part).enumerate() {
                let of_run = if runs.len() > 1 { format!(", {name}") } else { String::new() };
                let title = format!("{}{what}{of_run}", side.name());
                let id = format!("bandwidth{}-{index}", charts.len());
                charts.push(chart(id, title, drawn, elapsed_ns, largest));
            }
        }
    }
    charts
}

/// Sums of many cgroups would press the lines of each to the ground: then they get charts of their own.
fn parts(drawn: Vec<Vec<Drawn<'_>>>) -> Vec<(&'static str, Vec<Vec<Drawn<'_>>>)> {
    const TOO_MUCH: u64 = 3;
    let highest = |is_sum: bool| {
        let lines = drawn.iter().flatten().filter(|drawn| drawn.is_sum == is_sum);
        lines.map(Drawn::highest).max().unwrap_or(0)
    };
    let (of_one, of_sums) = (highest(false), highest(true));
    if of_one == 0 || of_sums / TOO_MUCH <= of_one {
        return vec![("", drawn)];
    }
    let (mut sums, mut ones) = (Vec::new(), Vec::new());
    for run in drawn {
        let (sum, one) = run.into_iter().partition(|drawn| drawn.is_sum);
        sums.push(sum);
        ones.push(one);
    }
    vec![(", cgroups with others below", sums), (", cgroups by themselves", ones)]
}

/// What a chart shows of a cgroup.
struct Drawn<'r> {
    path: &'r str,
    colour: Colour,
    points: Vec<(f64, f64)>,
    mean: u64,
    limit: Option<(u64, bool, String)>,
    /// Whether others are below it, so that it shows what they do together.
    is_sum: bool,
}

impl Drawn<'_> {
    fn highest(&self) -> u64 {
        self.points.iter().map(|&(_, rate)| rate as u64).max().unwrap_or(0)
    }
}

fn drawn<'r>(results: &'r Results, side: Side, palette: &Palette) -> Vec<Drawn<'r>> {
    let shown = results.cgroups.iter().filter(|cgroup| {
        !side.series(cgroup).is_empty() && !is_told_by_a_child(results, cgroup, side)
    });
    let drawn = shown.map(|cgroup| Drawn {
        path: &cgroup.path,
        colour: palette.colour(&cgroup.path),
        points: per_second(side.series(cgroup), results.elapsed_ns),
        mean: per_sec(side.moved(cgroup).bytes, results.elapsed_ns),
        limit: limit(cgroup, side),
        is_sum: is_any_below(results, cgroup, |_| true),
    });
    drawn.collect()
}

/// Whether everything that a cgroup moved went through one below it, whose line would cover its own, and it has no
/// limit to show.
fn is_told_by_a_child(results: &Results, cgroup: &CgroupResults, side: Side) -> bool {
    limit(cgroup, side).is_none()
        && is_any_below(results, cgroup, |other| side.moved(other) == side.moved(cgroup))
}

fn is_any_below(
    results: &Results,
    cgroup: &CgroupResults,
    is_meant: impl Fn(&CgroupResults) -> bool,
) -> bool {
    let prefix = cgroup.path.trim_end_matches('/');
    results.cgroups.iter().any(|other| {
        let below = other.path.strip_prefix(prefix);
        below.is_some_and(|below| below.len() > 1 && below.starts_with('/')) && is_meant(other)
    })
}

/// The limit in bytes a second, whether it is only about that, and how it is set.
fn limit(cgroup: &CgroupResults, side: Side) -> Option<(u64, bool, String)> {
    let (bytes, ios) = side.dimensions();
    if let Some(rate) = cgroup.limits.max.get(bytes) {
        return Some((rate.get(), false, format!("limit {}", BytesPerSec(rate.get()).rounded())));
    }
    // A limit on requests is one on bytes as far as requests are of one size: the mean stands for it.
    let rate = cgroup.limits.max.get(ios)?.get();
    let moved = side.moved(cgroup);
    let mean = moved.bytes.checked_div(moved.ios)?;
    let text = format!("limit {}={rate}, about {} each", ios.key(), Bytes(mean).rounded());
    Some((rate.saturating_mul(mean), true, text))
}

/// The end of the axis: all lines, and limits that are near enough not to press them down.
fn largest(drawn: &[Vec<Drawn<'_>>]) -> u64 {
    let all = || drawn.iter().flatten();
    let largest = all().map(Drawn::highest).max().unwrap_or(0);
    let near = all().filter_map(|drawn| drawn.limit.as_ref().map(|limit| limit.0));
    near.filter(|&limit| limit / 2 <= largest).fold(largest, u64::max)
}

fn chart(id: String, title: String, drawn: &[Drawn<'_>], elapsed_ns: u64, largest: u64) -> Chart {
    let y = Axis::rate(largest.saturating_add(largest / 20));
    let mut limits = Vec::new();
    let mut grey = Vec::new();
    for drawn in drawn {
        let Some((value, is_about, _)) = drawn.limit else { continue };
        if value > largest {
            continue;
        }
        if drawn.colour == Colour::Rest {
            if grey.contains(&value) || grey.len() == GREY_LIMITS_MAX {
                continue;
            }
            grey.push(value);
        }
        limits.push(Limit { colour: drawn.colour, value: value as f64, is_about });
    }
    Chart {
        description: describe(drawn),
        id,
        title,
        x: Axis::time(elapsed_ns),
        y,
        lines: drawn
            .iter()
            .map(|drawn| Line {
                name: drawn.path.into(),
                colour: drawn.colour,
                points: drawn.points.clone(),
            })
            .collect(),
        limits,
        legend: legend(drawn, largest),
        is_area: false,
        is_wide: false,
    }
}

fn legend(drawn: &[Drawn<'_>], largest: u64) -> Vec<Legend> {
    let own = drawn.iter().filter(|drawn| drawn.colour != Colour::Rest);
    let mut legend: Vec<Legend> = own
        .map(|drawn| {
            let mean = BytesPerSec(drawn.mean).rounded();
            let limit = drawn.limit.as_ref().map_or(String::new(), |(value, _, text)| {
                let place = if *value > largest { " (above)" } else { "" };
                format!(", {text}{place}")
            });
            Legend { name: drawn.path.into(), colour: drawn.colour, more: format!("{mean}{limit}") }
        })
        .collect();
    legend.extend(rest(drawn.len() - legend.len()));
    legend
}

fn describe(drawn: &[Drawn<'_>]) -> String {
    let told = drawn.iter().filter(|drawn| drawn.colour != Colour::Rest).map(|drawn| {
        let limit = drawn.limit.as_ref().map_or(String::new(), |(_, _, text)| format!(", {text}"));
        format!("{}: {} on average{limit}", drawn.path, BytesPerSec(drawn.mean).rounded())
    });
    format!("Bandwidth over time. {}.", told.collect::<Vec<_>>().join("; "))
}
