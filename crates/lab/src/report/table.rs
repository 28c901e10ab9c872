//! A run as a table for a terminal.

use weir_units::{BytesPerSec, Ios, IosPerSec, Nanos};

use super::bfq;
use super::columns::{Columns, clean, shortened, unbroken, wrap};
use super::figures::{
    Labels, Shares, inside_ns, limits, lines, per_sec, percent_text, throttled, time, waits, way,
};
use super::governor;
use super::notes;
use crate::results::{CgroupResults, Results, Row};

const LISTED_MAX: usize = 100;

/// Causes that explain less of a cgroup's time than 1/100 are left out.
const CAUSE_SHARE_MIN: u64 = 100;

/// Characters of a name in its own column.
const NAME_MAX: usize = 32;

/// The run as text: settings, jobs, cgroups with the causes of their waits, the disk, notes.
///
/// Lines have at most `width` characters where possible: first names get lines of their own, then columns are left
/// out. The first 100 jobs and cgroups are listed. Ends with a line feed.
pub fn table(results: &Results, width: usize) -> String {
    let mut parts = vec![head(results, width)];
    if !results.rows.is_empty() {
        parts.push(jobs(results, width));
    }
    if !results.cgroups.is_empty() {
        parts.push(cgroups(results, width));
        let waits = super::waits::table(results, width);
        parts.extend((!waits.is_empty()).then_some(waits));
    }
    parts.push(disk(results, width));
    if let Some(bfq) = &results.bfq {
        parts.push(wrap(&bfq::sentence(bfq, results.elapsed_ns), width, 2));
    }
    if let Some(governed) = &results.governed {
        parts.push(governor::lines(governed, results.elapsed_ns, width));
    }
    if !results.changes.is_empty() {
        let changes = results.changes.iter().flat_map(|change| {
            let at = Nanos(change.at_ns).rounded();
            wrap(&format!("  {at}  {}", clean(&change.setting)), width, 4)
        });
        parts.push(std::iter::once("Changed while it ran".to_owned()).chain(changes).collect());
    }
    if !results.notes.is_empty() {
        parts.push(notes::of_one(&results.notes, width));
    }
    parts.iter().map(|part| part.join("\n") + "\n").collect::<Vec<_>>().join("\n")
}

fn head(results: &Results, width: usize) -> Vec<String> {
    let mut lines = wrap(&clean(&results.title), width, 2);
    lines.extend(wrap(&format!("  on {}", clean(&results.disk)), width, 5));
    let how = format!(
        "  scheduler {}, depth {}, {}seed {}; {} of virtual time, {}",
        clean(&results.scheduler),
        results.depth,
        way(results),
        results.seed,
        Nanos(results.elapsed_ns).rounded(),
        if results.requests == 1 {
            "1 request".into()
        } else {
            format!("{} requests", results.requests)
        }
    );
    lines.extend(wrap(&how, width, 2));
    lines
}

const JOB_HEAD: [&str; 10] =
    ["JOB", "CGROUP", "", "BANDWIDTH", "IOPS", "MEAN", "P50", "P99", "P99.9", "MAX"];

fn jobs(results: &Results, width: usize) -> Vec<String> {
    let rows = &results.rows[..results.rows.len().min(LISTED_MAX)];
    let labels = Labels::of(results);
    let mut all = Columns::new(3, &JOB_HEAD);
    let mut owners = Vec::new();
    let names: Vec<String> = rows.iter().map(|row| job_name(&labels, row)).collect();
    let cgroups: Vec<String> = rows.iter().map(|row| clean(&row.cgroup)).collect();
    let (mut names, mut cgroups) = (shortened(&names, NAME_MAX), shortened(&cgroups, NAME_MAX));
    for (index, row) in rows.iter().enumerate() {
        let mut name = std::mem::take(&mut names[index]);
        let mut cgroup = std::mem::take(&mut cgroups[index]);
        for cells in job_cells(row) {
            // On the first of a job's lines only.
            let named = [std::mem::take(&mut name), std::mem::take(&mut cgroup)];
            all.row(named.into_iter().chain(cells).collect());
            owners.push(index);
        }
    }
    let explain = |row: &Row| -> Vec<String> {
        let error = row.error.as_deref();
        error
            .into_iter()
            .flat_map(|why| wrap(&format!("    failed: {}", clean(why)), width, 6))
            .collect()
    };
    let is_wide = all.width() <= width;
    let shown = match is_wide {
        true => all,
        false => narrowed(&all, &["JOB", "CGROUP"], &["MEAN", "P99.9", "IOPS"], width),
    };
    let mut cells = shown.lines().into_iter();
    let mut text = Vec::new();
    let head = cells.next().unwrap_or_default();
    text.push(if is_wide { head } else { format!("  {head}") });
    let mut cells = cells.zip(owners).peekable();
    for (index, row) in rows.iter().enumerate() {
        if !is_wide {
            text.extend(wrap(
                &format!("{}  {}", job_name(&labels, row), clean(&row.cgroup)),
                width,
                2,
            ));
        }
        while let Some((line, _)) = cells.next_if(|(_, owner)| *owner == index) {
            text.push(if is_wide { line } else { format!("  {line}") });
        }
        text.extend(explain(row));
    }
    text.extend(left_out(results.rows.len()));
    text
}

fn job_name(labels: &Labels<'_>, row: &Row) -> String {
    let name = clean(&labels.label(row));
    if row.processes > 1 { format!("{name} x{}", row.processes) } else { name }
}

/// The cells after name and cgroup, a list for each kind of request; dashes for a job without requests.
fn job_cells(row: &Row) -> Vec<Vec<String>> {
    let lines = lines(row);
    if lines.is_empty() {
        let nothing = (0..JOB_HEAD.len() - 3).map(|_| "-".to_owned());
        return vec![std::iter::once("none".to_owned()).chain(nothing).collect()];
    }
    let cells = lines.iter().map(|line| {
        let times = line.latency;
        let mean_ns = times.mean_ns().round() as u64;
        let values = [mean_ns, times.p50_ns(), times.p99_ns(), times.p99_9_ns(), times.max_ns()];
        let bandwidth =
            line.bytes_per_sec().map_or("-".into(), |rate| BytesPerSec(rate).rounded().to_string());
        let rate = IosPerSec(line.ios_per_sec().round() as u64).rounded().to_string();
        let first = [line.kind.to_owned(), bandwidth, rate];
        first.into_iter().chain(values.map(|value| time(times, value))).collect()
    });
    cells.collect()
}

/// Without the columns `names`, which get lines of their own, and without as many of `spare` as lets the rest fit
/// under an indent of two.
fn narrowed(all: &Columns, names: &[&str], spare: &[&str], width: usize) -> Columns {
    let mut hidden = names.to_vec();
    let mut shown = all.without(&hidden);
    for name in spare {
        if shown.width() + 2 <= width {
            break;
        }
        hidden.push(name);
        shown = all.without(&hidden);
    }
    shown
}

fn left_out(count: usize) -> Option<String> {
    let more = count.checked_sub(LISTED_MAX).filter(|&more| more > 0)?;
    Some(format!("and {more} more; the JSON has all"))
}

fn is_worth_a_line(cgroup: &CgroupResults) -> bool {
    cgroup.path == "/" || cgroup.counters.completed > 0 || !cgroup.limits.max.is_none()
}

fn cgroups(results: &Results, width: usize) -> Vec<String> {
    let worth: Vec<&CgroupResults> =
        results.cgroups.iter().filter(|cgroup| is_worth_a_line(cgroup)).collect();
    let listed = &worth[..worth.len().min(LISTED_MAX)];
    let head = ["CGROUP", "READ", "WRITE", "READS", "WRITES", "SHARE", "P50", "P99", "HELD"];
    let mut all = Columns::new(1, &head);
    let shares = Shares::of(results);
    let paths: Vec<String> = listed.iter().map(|cgroup| clean(&cgroup.path)).collect();
    for (cgroup, path) in listed.iter().zip(shortened(&paths, NAME_MAX)) {
        all.row(cgroup_cells(results, cgroup, path, &shares));
    }
    let is_wide = all.width() <= width;
    let shown = match is_wide {
        true => all,
        false => narrowed(&all, &["CGROUP"], &["WRITES", "READS", "P50"], width),
    };
    let mut cells = shown.lines().into_iter();
    let head = cells.next().unwrap_or_default();
    let mut text = vec![if is_wide { head } else { format!("  {head}") }];
    for (cgroup, line) in listed.iter().zip(cells) {
        let limits = settings(cgroup);
        if is_wide {
            text.push(line);
            if !limits.is_empty() {
                text.extend(wrap(&format!("    {limits}"), width, 6));
            }
        } else {
            text.extend(wrap(&format!("{}  {limits}", clean(&cgroup.path)), width, 4));
            text.push(format!("  {line}"));
        }
        let waited = waited_for(cgroup);
        if !waited.is_empty() {
            text.extend(wrap(&format!("    waited for {waited}"), width, 6));
        }
    }
    text.extend(left_out(worth.len()));
    text
}

fn cgroup_cells(
    results: &Results,
    cgroup: &CgroupResults,
    path: String,
    shares: &Shares,
) -> Vec<String> {
    let counters = &cgroup.counters;
    let bytes = |bytes| BytesPerSec(per_sec(bytes, results.elapsed_ns)).rounded().to_string();
    let ios = |ios| IosPerSec(per_sec(ios, results.elapsed_ns)).rounded().to_string();
    vec![
        path,
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

/// Limits, and a weight other than the default.
fn settings(cgroup: &CgroupResults) -> String {
    let mut parts = vec![limits(&cgroup.limits)];
    if cgroup.weight != 100 && cgroup.path != "/" {
        parts.push(format!("weight {}", cgroup.weight));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// `riops of /vm1 98 % (5.98 ms each), the device 2 % (120 us each)`.
fn waited_for(cgroup: &CgroupResults) -> String {
    let waits = waits(cgroup);
    let whole = inside_ns(&waits);
    let completed = cgroup.counters.completed.max(1);
    let told = waits.iter().filter(|wait| wait.wait_ns >= whole / CAUSE_SHARE_MIN);
    let told = told.map(|wait| {
        let part = percent_text(wait.wait_ns, whole);
        let each = Nanos(wait.wait_ns / completed).rounded();
        unbroken(&format!("{} {part} ({each} each)", clean(&wait.cause.words())))
    });
    told.collect::<Vec<_>>().join(", ")
}

fn disk(results: &Results, width: usize) -> Vec<String> {
    let device = &results.device;
    let busy = percent_text(device.busy_ns.min(results.elapsed_ns), results.elapsed_ns);
    let mut parts = vec![format!("Disk busy {busy} of the time")];
    if let Some(watermark) = device.watermark_percent {
        parts.push(format!("watermark {watermark} %"));
    }
    parts.push(BytesPerSec(per_sec(device.bytes, results.elapsed_ns)).rounded().to_string());
    parts.push(IosPerSec(per_sec(device.ios, results.elapsed_ns)).rounded().to_string());
    parts.push(format!("p50 {}", time(&device.latency, device.latency.p50_ns())));
    parts.push(format!("p99 {}", time(&device.latency, device.latency.p99_ns())));
    parts.push(format!("at most {} at once", device.in_flight_max));
    let parts: Vec<String> = parts.iter().map(|part| unbroken(part)).collect();
    wrap(&parts.join(", "), width, 2)
}
