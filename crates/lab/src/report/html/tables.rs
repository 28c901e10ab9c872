//! Tables of the page: runs, jobs, cgroups, and ratios of two runs.

use weir_units::{BytesPerSec, Ios, IosPerSec, Nanos};

use super::markup::{Attributes, Markup};
use super::palette::Palette;
use crate::report::compare::{Comparison, Pair, ratio_text};
use crate::report::figures::{
    Labels, Shares, limits, lines, per_sec, percent_text, throttled, time, way,
};
use crate::results::{CgroupResults, Results};

/// Rows of a table; the data has all.
const ROWS_MAX: usize = 200;

/// A table that scrolls by itself where it is wider than the page; `texts` are the columns that are not numbers.
fn table(
    markup: &mut Markup,
    name: &str,
    head: &[&str],
    texts: &[&str],
    rows: impl FnOnce(&mut Markup),
) {
    let region: Attributes<'_> =
        &[("class", &"scroll"), ("tabindex", &0), ("role", &"region"), ("aria-label", &name)];
    markup.element("div", region, |markup| {
        markup.element("table", &[], |markup| {
            markup.element("thead", &[], |markup| {
                markup.element("tr", &[], |markup| {
                    for cell in head {
                        let class = if texts.contains(cell) { "text" } else { "number" };
                        markup.leaf("th", &[("scope", &"col"), ("class", &class)], cell);
                    }
                });
            });
            markup.element("tbody", &[], rows);
        });
    });
}

fn text(markup: &mut Markup, cell: &str) {
    markup.leaf("td", &[("class", &"text")], cell);
}

fn numbers<'c>(markup: &mut Markup, cells: impl IntoIterator<Item = &'c String>) {
    for cell in cells {
        markup.leaf("td", &[("class", &"number")], cell);
    }
}

/// The head of a row, with the colour of its cgroup.
fn row_head(markup: &mut Markup, class: &str, name: &str) {
    markup.element("th", &[("scope", &"row"), ("class", &class)], |markup| {
        markup.leaf("i", &[], "");
        markup.text(name);
    });
}

fn left_out(markup: &mut Markup, count: usize) {
    if count > ROWS_MAX {
        let more = format!("{} more are in the data.", count - ROWS_MAX);
        markup.leaf("p", &[("class", &"note")], &more);
    }
}

/// Names and values at the head of the page.
pub(super) fn facts(results: &Results) -> Vec<(&'static str, String)> {
    let device = &results.device;
    let root = results.cgroups.first().map(|root| &root.latency);
    let quantile = |value: fn(&crate::results::Latency) -> u64| {
        root.map_or("-".into(), |times| time(times, value(times)))
    };
    vec![
        ("virtual time", Nanos(results.elapsed_ns).rounded().to_string()),
        ("requests", Ios(results.requests).rounded().to_string()),
        ("bandwidth", BytesPerSec(per_sec(device.bytes, results.elapsed_ns)).rounded().to_string()),
        ("IOPS", IosPerSec(per_sec(device.ios, results.elapsed_ns)).rounded().to_string()),
        ("disk busy", percent_text(device.busy_ns.min(results.elapsed_ns), results.elapsed_ns)),
        ("p50", quantile(crate::results::Latency::p50_ns)),
        ("p99", quantile(crate::results::Latency::p99_ns)),
        ("max", quantile(crate::results::Latency::max_ns)),
    ]
}

/// Disk, scheduler and other settings of a run.
pub(super) fn setting(results: &Results) -> String {
    format!(
        "{}, scheduler {}, depth {}, {}seed {}",
        results.disk,
        results.scheduler,
        results.depth,
        way(results),
        results.seed
    )
}

pub(super) fn runs(markup: &mut Markup, runs: &[(&str, &Results)]) {
    let names: Vec<&str> = runs
        .first()
        .map(|(_, results)| facts(results).into_iter().map(|(name, _)| name).collect())
        .unwrap_or_default();
    let head: Vec<&str> = ["run", "what"].into_iter().chain(names).chain(["how"]).collect();
    table(markup, "Runs", &head, &["run", "what", "how"], |markup| {
        for (index, (name, results)) in runs.iter().enumerate() {
            markup.element("tr", &[], |markup| {
                let class = super::utilisation::of_run(index, runs.len()).class();
                row_head(markup, &class, name);
                text(markup, &results.title);
                numbers(markup, facts(results).iter().map(|(_, value)| value));
                markup.element("td", &[("class", &"text how")], |markup| {
                    markup.breakable(&setting(results));
                });
            });
        }
    });
}

pub(super) fn jobs(markup: &mut Markup, results: &Results, palette: &Palette) {
    let head = ["job", "cgroup", "", "bandwidth", "IOPS", "mean", "p50", "p99", "p99.9", "max"];
    let labels = Labels::of(results);
    table(markup, "Jobs", &head, &["job", "cgroup", ""], |markup| {
        for row in results.rows.iter().take(ROWS_MAX) {
            let class = palette.colour(&row.cgroup).class();
            let mut name = labels.label(row);
            if row.processes > 1 {
                name.push_str(&format!(" \u{d7}{}", row.processes));
            }
            let lines = lines(row);
            for (index, line) in lines.iter().enumerate() {
                markup.element("tr", &[], |markup| {
                    // On the first of a job's lines only.
                    match index {
                        0 => row_head(markup, &class, &name),
                        _ => row_head(markup, "", ""),
                    }
                    text(markup, if index == 0 { &row.cgroup } else { "" });
                    text(markup, line.kind);
                    let bandwidth = line.bytes_per_sec();
                    let bandwidth = bandwidth
                        .map_or("-".into(), |rate| BytesPerSec(rate).rounded().to_string());
                    let iops = IosPerSec(line.ios_per_sec().round() as u64).rounded().to_string();
                    let times = line.latency;
                    let cells = [
                        times.mean_ns().round() as u64,
                        times.p50_ns(),
                        times.p99_ns(),
                        times.p99_9_ns(),
                        times.max_ns(),
                    ];
                    numbers(markup, &[bandwidth, iops]);
                    numbers(markup, &cells.map(|value| time(times, value)));
                });
            }
            if lines.is_empty() {
                markup.element("tr", &[], |markup| {
                    row_head(markup, &class, &name);
                    text(markup, &row.cgroup);
                    text(markup, "none");
                    numbers(markup, &std::array::from_fn::<_, 7, _>(|_| "-".to_owned()));
                });
            }
            if let Some(error) = &row.error {
                markup.element("tr", &[("class", &"error")], |markup| {
                    markup.leaf("td", &[("colspan", &10)], &format!("{name} failed: {error}"));
                });
            }
        }
    });
    left_out(markup, results.rows.len());
}

pub(super) fn cgroups(markup: &mut Markup, results: &Results, palette: &Palette) {
    let head = [
        "cgroup",
        "limits",
        "weight",
        "read",
        "write",
        "reads",
        "writes",
        "share of disk",
        "p50",
        "p99",
        "held",
    ];
    let shares = Shares::of(results);
    table(markup, "Cgroups", &head, &["cgroup", "limits"], |markup| {
        for cgroup in results.cgroups.iter().take(ROWS_MAX) {
            markup.element("tr", &[], |markup| {
                row_head(markup, &palette.colour(&cgroup.path).class(), &cgroup.path);
                let limits = limits(&cgroup.limits);
                text(markup, if limits.is_empty() { "none" } else { &limits });
                numbers(markup, &cgroup_cells(results, cgroup, &shares));
            });
        }
    });
    left_out(markup, results.cgroups.len());
}

fn cgroup_cells(results: &Results, cgroup: &CgroupResults, shares: &Shares) -> [String; 9] {
    let counters = &cgroup.counters;
    let bytes = |bytes| BytesPerSec(per_sec(bytes, results.elapsed_ns)).rounded().to_string();
    let ios = |ios| IosPerSec(per_sec(ios, results.elapsed_ns)).rounded().to_string();
    [
        cgroup.weight.to_string(),
        bytes(counters.read.bytes),
        bytes(counters.write.bytes),
        ios(counters.read.ios),
        ios(counters.write.ios),
        shares.text(cgroup),
        time(&cgroup.latency, cgroup.latency.p50_ns()),
        time(&cgroup.latency, cgroup.latency.p99_ns()),
        Ios(throttled(counters.throttled)).rounded().to_string(),
    ]
}

/// Each figure of the second run with its ratio to the first's.
pub(super) fn ratios(markup: &mut Markup, comparison: &Comparison, palette: &Palette) {
    let parts: [(&str, &[Pair]); 2] = [("job", &comparison.jobs), ("cgroup", &comparison.cgroups)];
    for (what, pairs) in parts.into_iter().filter(|(_, pairs)| !pairs.is_empty()) {
        let head = [what, "", "bandwidth", "IOPS", "p50", "p99", "p99.9", "max"];
        table(markup, "Ratios", &head, &[what, ""], |markup| {
            for pair in pairs.iter().take(ROWS_MAX) {
                let path = if pair.cgroup.is_empty() { &pair.name } else { &pair.cgroup };
                markup.element("tr", &[], |markup| {
                    row_head(markup, &palette.colour(path).class(), &pair.name);
                    let which = match (&pair.a, &pair.b) {
                        (Some(_), None) => "only in the first",
                        (None, Some(_)) => "only in the second",
                        _ => pair.direction,
                    };
                    text(markup, which);
                    ratio_cells(markup, pair);
                });
            }
        });
        left_out(markup, pairs.len());
    }
}

fn ratio_cells(markup: &mut Markup, pair: &Pair) {
    let [a, b] = [pair.a, pair.b].map(|figures| figures.map(|figures| figures.cells()));
    for (index, ratio) in pair.ratios().into_iter().enumerate() {
        let value = |cells: &Option<[String; 6]>| {
            cells.as_ref().map_or("-".to_owned(), |cells| cells[index].clone())
        };
        // A higher rate is better, a higher latency worse; within 2 % it is neither.
        let class = match ratio {
            Some(ratio) if (0.98..=1.02).contains(&ratio) => "number same",
            Some(ratio) if (ratio > 1.0) == (index < 2) => "number better",
            Some(_) => "number worse",
            None => "number same",
        };
        markup.element("td", &[("class", &class)], |markup| {
            markup.leaf("b", &[], &ratio_text(ratio));
            markup.leaf("small", &[], &format!("{} \u{2192} {}", value(&a), value(&b)));
        });
    }
}
