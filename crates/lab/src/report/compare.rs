//! Comparison of two runs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_units::{BytesPerSec, IosPerSec, Nanos};

use super::columns::{Columns, clean, shortened, wrap};
use super::figures::{Labels, per_sec, quotient, round};
use super::notes::notes;
use crate::results::{CgroupResults, Latency, Results, Transfers};

/// Pairs that the table lists; the JSON has all.
const LISTED_MAX: usize = 100;
/// Characters of a run's name in the table.
const NAME_MAX: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figures {
    bandwidth_bytes_per_sec: u64,
    ios_per_sec: f64,
    /// p50, p99, p99.9 and the maximum; None if there was no request.
    latency_ns: Option<[u64; 4]>,
}

const LATENCIES: [&str; 4] =
    ["latency_us_p50", "latency_us_p99", "latency_us_p99_9", "latency_us_max"];

/// The same job or cgroup in both runs, or in one of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    /// A job's label or a cgroup's path.
    pub(super) name: String,
    /// A job's cgroup; empty for cgroups.
    pub(super) cgroup: String,
    /// `read`, `write`, `trim` or `mixed` of a job, `all` of a cgroup.
    pub(super) direction: &'static str,
    pub(super) a: Option<Figures>,
    pub(super) b: Option<Figures>,
}

/// Two runs, job by job and cgroup by cgroup; see [`compare`].
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    names: [String; 2],
    notes: [Vec<String>; 2],
    pub(super) jobs: Vec<Pair>,
    pub(super) cgroups: Vec<Pair>,
}

/// Compares two named runs. Jobs match by name, clone and place among those of that name, cgroups by path. What only
/// one run has is kept, without ratios. O((rows + cgroups) log).
pub fn compare(a: (&str, &Results), b: (&str, &Results)) -> Comparison {
    Comparison {
        names: [a.0.to_owned(), b.0.to_owned()],
        notes: [a.1.notes.clone(), b.1.notes.clone()],
        jobs: pairs(job_figures(a.1), job_figures(b.1)),
        cgroups: pairs(cgroup_figures(a.1), cgroup_figures(b.1)),
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Clone)]
struct Key {
    name: String,
    clone: u32,
    nth: usize,
    direction: &'static str,
}

struct Side {
    name: String,
    cgroup: String,
    figures: Figures,
}

type Sides = Vec<(Key, Side)>;

fn job_figures(results: &Results) -> Sides {
    let mut seen: BTreeMap<(&str, u32), usize> = BTreeMap::new();
    let labels = Labels::of(results);
    let mut sides = Vec::new();
    for row in &results.rows {
        let nth = seen.entry((&row.name, row.clone)).or_default();
        for (direction, moved) in row.moved().filter(|(_, moved)| moved.ios > 0) {
            let key = Key { name: row.name.clone(), clone: row.clone, nth: *nth, direction };
            let figures = Figures::of_job(moved);
            sides
                .push((key, Side { name: labels.label(row), cgroup: row.cgroup.clone(), figures }));
        }
        *nth += 1;
    }
    sides
}

fn cgroup_figures(results: &Results) -> Sides {
    let active = results.cgroups.iter().filter(|cgroup| cgroup.counters.completed > 0);
    let sides = active.map(|cgroup| {
        let name = cgroup.path.clone();
        let key = Key { name: name.clone(), clone: 0, nth: 0, direction: "all" };
        let figures = Figures::of_cgroup(cgroup, results.elapsed_ns);
        (key, Side { name, cgroup: String::new(), figures })
    });
    sides.collect()
}

/// Everything of `a` in its order, then what only `b` has.
fn pairs(a: Sides, b: Sides) -> Vec<Pair> {
    let order: Vec<Key> = b.iter().map(|(key, _)| key.clone()).collect();
    let mut others: BTreeMap<Key, Side> = b.into_iter().collect();
    let mut pairs = Vec::new();
    for (key, Side { name, cgroup, figures }) in a {
        let b = others.remove(&key).map(|other| other.figures);
        pairs.push(Pair { name, cgroup, direction: key.direction, a: Some(figures), b });
    }
    for key in order {
        if let Some(Side { name, cgroup, figures }) = others.remove(&key) {
            let direction = key.direction;
            pairs.push(Pair { name, cgroup, direction, a: None, b: Some(figures) });
        }
    }
    pairs
}

impl Figures {
    fn of_job(moved: &Transfers) -> Figures {
        Figures::of(moved.bytes, moved.ios, moved.runtime_ns, &moved.latency)
    }

    fn of_cgroup(cgroup: &CgroupResults, elapsed_ns: u64) -> Figures {
        let counters = &cgroup.counters;
        let bytes = counters.read.bytes.saturating_add(counters.write.bytes);
        Figures::of(bytes, counters.completed, elapsed_ns, &cgroup.latency)
    }

    fn of(bytes: u64, ios: u64, time_ns: u64, times: &Latency) -> Figures {
        Figures {
            bandwidth_bytes_per_sec: per_sec(bytes, time_ns),
            ios_per_sec: round(quotient(ios, time_ns) * 1e9, 3),
            latency_ns: (times.count() > 0)
                .then(|| [times.p50_ns(), times.p99_ns(), times.p99_9_ns(), times.max_ns()]),
        }
    }

    fn json(&self) -> Value {
        let mut value = json!({
            "bandwidth_bytes_per_sec": self.bandwidth_bytes_per_sec,
            "ios_per_sec": self.ios_per_sec,
        });
        for (index, name) in LATENCIES.into_iter().enumerate() {
            let ns = self.latency_ns.map(|latency| latency[index]);
            value[name] = ns.map(|ns| round(ns as f64 / 1000.0, 3)).into();
        }
        value
    }

    pub(super) fn cells(&self) -> [String; 6] {
        let time = |index: usize| {
            self.latency_ns.map_or("-".into(), |times| Nanos(times[index]).rounded().to_string())
        };
        let iops = IosPerSec(self.ios_per_sec.round() as u64).rounded();
        let bandwidth = BytesPerSec(self.bandwidth_bytes_per_sec).rounded();
        [bandwidth.to_string(), iops.to_string(), time(0), time(1), time(2), time(3)]
    }
}

impl Pair {
    /// `b / a` of bandwidth, IOPS, p50, p99, p99.9 and maximum; None where either is unknown or `a` is 0.
    pub(super) fn ratios(&self) -> [Option<f64>; 6] {
        let (Some(a), Some(b)) = (&self.a, &self.b) else { return [None; 6] };
        let ratio = |a: f64, b: f64| (a > 0.0).then(|| round(b / a, 4));
        let time = |index: usize| {
            let (a, b) = (a.latency_ns?[index], b.latency_ns?[index]);
            ratio(a as f64, b as f64)
        };
        let rates = (a.bandwidth_bytes_per_sec as f64, b.bandwidth_bytes_per_sec as f64);
        [
            ratio(rates.0, rates.1),
            ratio(a.ios_per_sec, b.ios_per_sec),
            time(0),
            time(1),
            time(2),
            time(3),
        ]
    }

    fn json(&self, what: &str) -> Value {
        let [bandwidth, ios, p50, p99, p99_9, max] = self.ratios();
        let mut value = json!({
            what: self.name,
            "a": self.a.map(|figures| figures.json()),
            "b": self.b.map(|figures| figures.json()),
            "ratio": {
                "bandwidth": bandwidth,
                "ios": ios,
                "latency_p50": p50,
                "latency_p99": p99,
                "latency_p99_9": p99_9,
                "latency_max": max,
            },
        });
        if what == "job" {
            value["cgroup"] = self.cgroup.as_str().into();
            value["direction"] = self.direction.into();
        }
        value
    }
}

/// As `0.52x`.
pub(super) fn ratio_text(ratio: Option<f64>) -> String {
    match ratio {
        None => "-".into(),
        Some(ratio) if ratio >= 99.95 => format!("{ratio:.0}x"),
        Some(ratio) if ratio >= 9.995 => format!("{ratio:.1}x"),
        Some(ratio) if ratio < 0.095 && ratio > 0.0 => format!("{ratio:.4}x"),
        Some(ratio) => format!("{ratio:.2}x"),
    }
}

impl Comparison {
    /// The comparison as text: for each pair a line of the first run, one of the second, and their ratios (second to
    /// first), in lines of at most `width` characters where possible.
    pub fn table(&self, width: usize) -> String {
        let mut parts = Vec::new();
        let names = self.names.each_ref().map(|name| clean(name));
        let short = shortened(&names, NAME_MAX);
        let [a, b] = [short[0].as_str(), short[1].as_str()];
        parts.push(wrap(&format!("{a} and {b}; ratios are {b} / {a}"), width, 2));
        for (title, pairs) in [("JOBS", &self.jobs), ("CGROUPS", &self.cgroups)] {
            if !pairs.is_empty() {
                parts.push(self.part(title, pairs, [a, b], width));
            }
        }
        let [of_a, of_b] = &self.notes;
        let notes = notes([(self.names[0].as_str(), &of_a[..]), (&self.names[1], of_b)], width);
        if !notes.is_empty() {
            parts.push(notes);
        }
        parts.iter().map(|part| part.join("\n") + "\n").collect::<Vec<_>>().join("\n")
    }

    fn part(&self, title: &str, pairs: &[Pair], names: [&str; 2], width: usize) -> Vec<String> {
        let listed = &pairs[..pairs.len().min(LISTED_MAX)];
        let head = [title, "BANDWIDTH", "IOPS", "P50", "P99", "P99.9", "MAX"];
        let mut columns = Columns::new(1, &head);
        for pair in listed {
            for (name, figures) in names.into_iter().zip([pair.a, pair.b]) {
                let cells = match figures {
                    Some(figures) => figures.cells(),
                    None => std::array::from_fn(|_| "-".to_owned()),
                };
                columns.row(std::iter::once(format!("  {name}")).chain(cells).collect());
            }
            let ratios = pair.ratios().map(ratio_text);
            columns.row(std::iter::once("  ratio".to_owned()).chain(ratios).collect());
        }
        let spare: &[&str] = if columns.width() > width { &["P99.9"] } else { &[] };
        let mut lines = columns.without(spare).lines().into_iter();
        let mut text: Vec<String> = lines.next().into_iter().collect();
        for pair in listed {
            text.extend(wrap(&clean(&pair.title()), width, 2));
            text.extend(lines.by_ref().take(3));
        }
        if pairs.len() > LISTED_MAX {
            text.push(format!("and {} more; the JSON has all", pairs.len() - LISTED_MAX));
        }
        text
    }

    /// The comparison as JSON; `docs/lab-json.md` explains the names.
    pub fn json(&self) -> Value {
        let list = |pairs: &[Pair], what: &str| {
            pairs.iter().map(|pair| pair.json(what)).collect::<Vec<_>>()
        };
        json!({
            "a": self.names[0],
            "b": self.names[1],
            "jobs": list(&self.jobs, "job"),
            "cgroups": list(&self.cgroups, "cgroup"),
            "notes": { "a": self.notes[0], "b": self.notes[1] },
        })
    }
}

impl Pair {
    pub(super) fn title(&self) -> String {
        match self.cgroup.is_empty() {
            true => self.name.clone(),
            false => format!("{}  {}  {}", self.name, self.direction, self.cgroup),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_the_digits_that_matter() {
        let texts =
            [Some(0.0), Some(0.0123), Some(0.5), Some(9.99), Some(12.34), Some(123.4), None];
        assert_eq!(
            texts.map(ratio_text),
            ["0.00x", "0.0123x", "0.50x", "9.99x", "12.3x", "123x", "-"]
        );
    }
}
