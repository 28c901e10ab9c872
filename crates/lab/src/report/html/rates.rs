//! Charts of bandwidth and requests over time, with limits.

use weir_engine::stats::Moved;
use weir_engine::{Dimension, Direction, Resource};
use weir_units::{Bytes, BytesPerSec, IosPerSec};

use super::axis::Axis;
use super::chart::{Chart, Legend, Limit, Line, Mark, rest};
use super::over_time::{marks, per_second};
use super::palette::{Colour, Palette, jobs_that_share};
use crate::report::figures::per_sec;
use crate::results::{CgroupResults, Results, Row, Series};

/// Different limits of grey cgroups that are drawn.
const GREY_LIMITS_MAX: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Bytes,
    Requests,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct What {
    of: Of,
    is_write: bool,
}

impl What {
    fn name(self) -> &'static str {
        if self.is_write { "Writes" } else { "Reads" }
    }

    fn series(self, cgroup: &CgroupResults) -> &Series {
        match (self.of, self.is_write) {
            (Of::Bytes, false) => &cgroup.read_series,
            (Of::Bytes, true) => &cgroup.write_series,
            (Of::Requests, false) => &cgroup.read_ios_series,
            (Of::Requests, true) => &cgroup.write_ios_series,
        }
    }

    fn series_of_job(self, row: &Row) -> &Series {
        match (self.of, self.is_write) {
            (Of::Bytes, false) => &row.series.read,
            (Of::Bytes, true) => &row.series.write,
            (Of::Requests, false) => &row.series.read_ios,
            (Of::Requests, true) => &row.series.write_ios,
        }
    }

    fn moved_by_job(self, row: &Row) -> Moved {
        let transfers = if self.is_write { &row.write } else { &row.read };
        Moved { bytes: transfers.bytes, ios: transfers.ios }
    }

    fn moved(self, cgroup: &CgroupResults) -> Moved {
        if self.is_write { cgroup.counters.write } else { cgroup.counters.read }
    }

    fn amount(self, moved: Moved) -> u64 {
        match self.of {
            Of::Bytes => moved.bytes,
            Of::Requests => moved.ios,
        }
    }

    /// The lowest limit of a cgroup on this quantity, or else on the other one; of this direction alone, or of both
    /// together.
    fn limit(self, cgroup: &CgroupResults) -> Option<(Dimension, u64)> {
        let direction = if self.is_write { Direction::Write } else { Direction::Read };
        let least = |resource: Resource| {
            let counts = |of: &Dimension| of.limits(direction) && of.resource() == resource;
            let all = Dimension::ALL.into_iter().filter(counts);
            let set = all.filter_map(|of| Some((of, cgroup.limits.max.get(of)?.get())));
            set.min_by_key(|&(_, rate)| rate)
        };
        let (own, other) = match self.of {
            Of::Bytes => (Resource::Bytes, Resource::Ios),
            Of::Requests => (Resource::Ios, Resource::Bytes),
        };
        least(own).or_else(|| least(other))
    }

    fn is_of(self, resource: Resource) -> bool {
        (self.of == Of::Bytes) == (resource == Resource::Bytes)
    }

    fn axis(self, largest: u64) -> Axis {
        match self.of {
            Of::Bytes => Axis::rate(largest),
            Of::Requests => Axis::ios(largest),
        }
    }

    fn text(self, rate: u64) -> String {
        match self.of {
            Of::Bytes => BytesPerSec(rate).rounded().to_string(),
            Of::Requests => IosPerSec(rate).rounded().to_string(),
        }
    }
}

/// Charts of all runs, for each direction in use, with the same axes, so that heights compare.
pub(super) fn charts(of: Of, runs: &[(&str, &Results)], palette: &Palette) -> Vec<Chart> {
    let mut charts = Vec::new();
    for is_write in [false, true] {
        let what = What { of, is_write };
        let is_used = runs.iter().any(|(_, results)| {
            results.cgroups.iter().any(|cgroup| !what.series(cgroup).is_empty())
        });
        if !is_used {
            continue;
        }
        let drawn: Vec<Vec<Drawn>> =
            runs.iter().map(|(_, results)| drawn(results, what, palette)).collect();
        let elapsed_ns = runs.iter().map(|(_, results)| results.elapsed_ns).max().unwrap_or(0);
        for (who, part) in parts(drawn) {
            let largest = largest(&part);
            for (index, ((name, results), drawn)) in runs.iter().zip(&part).enumerate() {
                let of_run = if runs.len() > 1 { format!(", {name}") } else { String::new() };
                let title = format!("{}{who}{of_run}", what.name());
                let kind = if of == Of::Bytes { "bandwidth" } else { "iops" };
                let id = format!("{kind}{}-{index}", charts.len());
                let axes = (elapsed_ns, largest);
                charts.push(chart(what, id, title, drawn, axes, marks(results)));
            }
        }
    }
    charts
}

/// Sums of many cgroups get charts of their own: beside them the lines of each would be flat.
fn parts(drawn: Vec<Vec<Drawn>>) -> Vec<(&'static str, Vec<Vec<Drawn>>)> {
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

struct Drawn {
    name: String,
    colour: Colour,
    points: Vec<(f64, f64)>,
    mean: u64,
    limit: Option<(u64, bool, String)>,
    /// Whether it has children, so that its line is their sum.
    is_sum: bool,
}

impl Drawn {
    fn highest(&self) -> u64 {
        self.points.iter().map(|&(_, rate)| rate as u64).max().unwrap_or(0)
    }
}

fn drawn(results: &Results, what: What, palette: &Palette) -> Vec<Drawn> {
    let jobs = jobs_that_share(results);
    let jobs: Vec<_> = jobs.iter().filter(|(row, _)| !what.series_of_job(row).is_empty()).collect();
    // A cgroup whose jobs have lines is their sum.
    let has_jobs = |cgroup: &CgroupResults| {
        jobs.iter().filter(|(row, _)| row.cgroup == cgroup.path).count() > 1
    };
    let shown = results.cgroups.iter().filter(|cgroup| {
        let is_told = is_told_by_a_child(results, cgroup, what)
            || (has_jobs(cgroup) && cgroup.path != "/" && limit(cgroup, what).is_none());
        !what.series(cgroup).is_empty() && !is_told
    });
    let of_cgroups = shown.map(|cgroup| Drawn {
        name: cgroup.path.clone(),
        colour: palette.colour(&cgroup.path),
        points: per_second(what.series(cgroup), results.elapsed_ns),
        mean: per_sec(what.amount(what.moved(cgroup)), results.elapsed_ns),
        limit: limit(cgroup, what).map(|(rate, is_about, text)| match results.changes.is_empty() {
            true => (rate, is_about, text),
            false => (rate, is_about, format!("{text} at the end")),
        }),
        is_sum: has_jobs(cgroup) || is_any_below(results, cgroup, |_| true),
    });
    let of_jobs = jobs.iter().map(|(row, label)| Drawn {
        name: format!("{label} in {}", row.cgroup),
        colour: palette.colour_of_job(&row.cgroup, label),
        points: per_second(what.series_of_job(row), results.elapsed_ns),
        mean: per_sec(what.amount(what.moved_by_job(row)), results.elapsed_ns),
        limit: None,
        is_sum: false,
    });
    of_cgroups.chain(of_jobs).collect()
}

/// Whether all bytes of a cgroup are one child's, whose line would cover its own, and it has no limit to show.
fn is_told_by_a_child(results: &Results, cgroup: &CgroupResults, what: What) -> bool {
    limit(cgroup, what).is_none()
        && is_any_below(results, cgroup, |other| what.moved(other) == what.moved(cgroup))
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

/// The limit on the chart's quantity, whether it is an estimate, and its text.
fn limit(cgroup: &CgroupResults, what: What) -> Option<(u64, bool, String)> {
    let (dimension, rate) = what.limit(cgroup)?;
    let of_both = if dimension.is_rw() { " for reads and writes" } else { "" };
    if what.is_of(dimension.resource()) {
        return Some((rate, false, format!("limit {}{of_both}", what.text(rate))));
    }
    // The mean size of requests converts between limits on requests and on bytes.
    let moved = what.moved(cgroup);
    let mean = moved.bytes.checked_div(moved.ios)?;
    let each = Bytes(mean).rounded();
    Some(match what.of {
        Of::Bytes => {
            let text = format!("limit {}={rate}, about {each} each", dimension.key());
            (rate.saturating_mul(mean), true, text)
        }
        Of::Requests => {
            let rounded = BytesPerSec(rate).rounded();
            let text = format!("limit {rounded}{of_both}, about {each} each");
            (rate.checked_div(mean)?, true, text)
        }
    })
}

/// End of the axis: above all lines, and above limits that do not flatten them.
fn largest(drawn: &[Vec<Drawn>]) -> u64 {
    let all = || drawn.iter().flatten();
    let largest = all().map(Drawn::highest).max().unwrap_or(0);
    let near = all().filter_map(|drawn| drawn.limit.as_ref().map(|limit| limit.0));
    near.filter(|&limit| limit / 2 <= largest).fold(largest, u64::max)
}

fn chart(
    what: What,
    id: String,
    title: String,
    drawn: &[Drawn],
    (elapsed_ns, largest): (u64, u64),
    marks: Vec<Mark>,
) -> Chart {
    let y = what.axis(largest.saturating_add(largest / 20));
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
        description: describe(what, drawn),
        id,
        title,
        x: Axis::time(elapsed_ns),
        y,
        lines: drawn
            .iter()
            .map(|drawn| Line {
                name: drawn.name.clone(),
                colour: drawn.colour,
                points: drawn.points.clone(),
            })
            .collect(),
        limits,
        marks,
        legend: legend(what, drawn, largest),
        is_area: false,
        is_wide: false,
    }
}

fn legend(what: What, drawn: &[Drawn], largest: u64) -> Vec<Legend> {
    let own = drawn.iter().filter(|drawn| drawn.colour != Colour::Rest);
    let mut legend: Vec<Legend> = own
        .map(|drawn| {
            let mean = what.text(drawn.mean);
            let limit = drawn.limit.as_ref().map_or(String::new(), |(value, _, text)| {
                let place = if *value > largest { " (above)" } else { "" };
                format!(", {text}{place}")
            });
            Legend {
                name: drawn.name.clone(),
                colour: drawn.colour,
                more: format!("{mean}{limit}"),
            }
        })
        .collect();
    legend.extend(rest(drawn.len() - legend.len()));
    legend
}

fn describe(what: What, drawn: &[Drawn]) -> String {
    let told = drawn.iter().filter(|drawn| drawn.colour != Colour::Rest).map(|drawn| {
        let limit = drawn.limit.as_ref().map_or(String::new(), |(_, _, text)| format!(", {text}"));
        format!("{}: {} on average{limit}", drawn.name, what.text(drawn.mean))
    });
    let kind = match what.of {
        Of::Bytes => "Bandwidth",
        Of::Requests => "Requests a second",
    };
    format!("{kind} over time. {}.", told.collect::<Vec<_>>().join("; "))
}
