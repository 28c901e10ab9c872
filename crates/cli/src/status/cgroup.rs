//! Lines of cgroups: a table, and below each row its settings and waits.

use weir_lab::report::unbroken;
use weir_server::status::{CgroupStatus, Percentiles};
use weir_units::{Bytes, BytesPerSec, IosPerSec, Nanos};

use super::rates::{CgroupRates, Interval};
use super::selection::Shown;
use super::show::Detail;
use super::why::breakable;
use super::{bfq, writeback};
use crate::table::{Align, Table};

/// Whether there is anything to say: cgroups that are only named in the configuration are left out.
pub(super) fn is_worth_a_line(cgroup: &CgroupStatus) -> bool {
    cgroup.cgroup == "/"
        || cgroup.connections > 0
        || cgroup.completed_ios > 0
        || cgroup.io_max.is_some()
}

pub(super) fn table(shown: &[Shown<'_>]) -> Vec<String> {
    let mut table =
        Table::new(&["CGROUP", "READ", "WRITE", "READS", "WRITES", "SHARE", "HELD", "P50", "P99"]);
    for Shown { status, rates, .. } in shown {
        let ios = |rate: f64| IosPerSec(rate.round() as u64).rounded().to_string();
        let recent = slower(status);
        let time = |ns: u64| match recent.is_empty() {
            true => "-".to_owned(),
            false => Nanos(ns).rounded().to_string(),
        };
        table.row([
            status.cgroup.clone(),
            BytesPerSec(rates.read_bytes_per_sec).rounded().to_string(),
            BytesPerSec(rates.write_bytes_per_sec).rounded().to_string(),
            ios(rates.read_ios_per_sec),
            ios(rates.write_ios_per_sec),
            format!("{:.0} %", rates.share()),
            ios(rates.throttled_ios_per_sec),
            time(recent.p50_ns),
            time(recent.p99_ns),
        ]);
    }
    use Align::{Left, Right};
    table.lines(&[Left, Right, Right, Right, Right, Right, Right, Right, Right])
}

/// Recent latency of the direction whose 99th percentile is the larger one.
pub(crate) fn slower(cgroup: &CgroupStatus) -> Percentiles {
    let (read, write) = (cgroup.latency.read.recent, cgroup.latency.write.recent);
    if write.p99_ns > read.p99_ns { write } else { read }
}

/// What a line of a cgroup does not have room for.
pub(super) fn details(interval: &Interval<'_>, cgroup: &Shown<'_>, detail: Detail) -> Vec<String> {
    let Shown { status, rates, .. } = cgroup;
    let mut lines = Vec::new();
    if detail >= Detail::Settings {
        let recent = slower(status);
        let longest = (!recent.is_empty()).then(|| {
            let told = [("p99.9", recent.p999_ns), ("max", recent.max_ns)];
            let told = told.map(|(name, ns)| unbroken(&format!("{name} {}", Nanos(ns).rounded())));
            told.join(", ")
        });
        let told: Vec<String> = settings(status).into_iter().chain(longest).collect();
        lines.extend((!told.is_empty()).then(|| told.join("; ")));
    }
    if detail >= Detail::Waits {
        lines.extend(waits(status, rates));
    }
    if detail == Detail::All {
        lines.extend(bfq::of_cgroup(interval.before, interval.after, status));
        lines.extend(writeback::of_cgroup(interval.before, interval.after, status));
    }
    lines
}

/// Limits, weight and what else is set.
fn settings(cgroup: &CgroupStatus) -> Vec<String> {
    let mut told = Vec::new();
    let limits: Vec<String> =
        [("max", &cgroup.io_max), ("burst", &cgroup.io_burst), ("peak", &cgroup.io_peak)]
            .into_iter()
            .filter_map(|(name, text)| Some(format!("{name} {}", human(text.as_deref()?))))
            .collect();
    if !limits.is_empty() {
        told.push(limits.join("; "));
        told.push(format!("{}, weight {}", cgroup.limiter, cgroup.io_weight));
    } else if cgroup.io_weight != 100 {
        told.push(format!("weight {}", cgroup.io_weight));
    }
    if !["", "no-change"].contains(&cgroup.io_prio_class.as_str()) {
        told.push(format!("priority class: {}", cgroup.io_prio_class));
    }
    if let Some(policy) = &cgroup.io_bfq_low_latency {
        told.push(format!("low latency: {policy}"));
    }
    if let Some(watermark) = cgroup.io_watermark.as_ref().filter(|_| cgroup.cgroup != "/") {
        told.push(format!("watermark {watermark}"));
    }
    told
}

/// Waits by cause, and failures.
fn waits(cgroup: &CgroupStatus, rates: &CgroupRates) -> Vec<String> {
    let mut lines = Vec::new();
    let waited = breakable(&rates.waited_for);
    if !waited.is_empty() {
        lines.push(format!("waited for {waited}"));
    } else if rates.throttled_ios_per_sec > 0.0 {
        lines.push("waits for a limit; nothing was finished meanwhile".into());
    }
    if cgroup.failed_ios > 0 {
        lines.push(format!("{} requests failed at the device since the start", cgroup.failed_ios));
    }
    lines
}

/// `rbps=4194304 wbps=max ...` with units and without `max`.
pub(crate) fn human(limits: &str) -> String {
    let words = limits.split_ascii_whitespace().filter_map(|word| {
        let (key, value) = word.split_once('=')?;
        let value: u64 = value.parse().ok()?;
        let is_bytes = key.ends_with("bps");
        Some(match is_bytes {
            true => format!("{key}={}", Bytes(value)).replace(' ', ""),
            false => format!("{key}={value}"),
        })
    });
    words.collect::<Vec<_>>().join(" ")
}
