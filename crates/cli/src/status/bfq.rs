//! BFQ's work between two readings, in words.

use std::collections::BTreeMap;

use weir_engine::SchedulerKind;
use weir_engine::settings::BfqSettings;
use weir_server::status::{BfqCgroupStatus, BfqStatus, CgroupStatus, DeviceStatus};

use super::rates::seconds;

type ByKind = BTreeMap<String, u64>;

/// Settings that differ from the defaults, where bfq is the scheduler.
pub(super) fn settings_of(device: &DeviceStatus) -> Option<String> {
    if device.scheduler != SchedulerKind::Bfq.name() {
        return None;
    }
    let default = weir_text::print_bfq(&BfqSettings::DEFAULT);
    let is_default = |word: &str| default.split(' ').any(|said| said == word);
    let words = device.bfq.settings.split(' ').filter(|word| !word.is_empty() && !is_default(word));
    let words: Vec<&str> = words.collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Lines of a device's counters; none where all are zero.
pub(super) fn of_device(before: &DeviceStatus, after: &DeviceStatus) -> Vec<String> {
    let (old, new) = (&before.bfq, &after.bfq);
    let since = |of: fn(&BfqStatus) -> u64| of(new).saturating_sub(of(old));
    let kinds = |of: fn(&BfqStatus) -> &ByKind| between(of(old), of(new));
    let mut parts = Vec::new();
    let ended = kinds(|bfq| &bfq.expirations);
    if !ended.is_empty() {
        parts.push(format!("{} slots ended: {}", sum(&ended), told(&ended)));
    }
    let free_ns = sum(&kinds(|bfq| &bfq.idling_ns));
    if free_ns > 0 {
        parts.push(kept_free(free_ns, seconds(before, after)));
    }
    let charged = since(|bfq| bfq.time_charges);
    if charged > 0 {
        parts.push(format!("{charged} slots paid for their time"));
    }
    let injected = kinds(|bfq| &bfq.injections);
    if !injected.is_empty() {
        parts.push(format!("{} injected: {}", sum(&injected), told(&injected)));
    }
    let merged = kinds(|bfq| &bfq.merges);
    if !merged.is_empty() {
        parts.push(format!("{} merged: {}", sum(&merged), told(&merged)));
    }
    if since(|bfq| bfq.splits) > 0 {
        parts.push(format!("{} split", since(|bfq| bfq.splits)));
    }
    let refused = kinds(|bfq| &bfq.refusals);
    if !refused.is_empty() {
        parts.push(format!("{} merges refused: {}", sum(&refused), told(&refused)));
    }
    let raised = kinds(|bfq| &bfq.raisings);
    if !raised.is_empty() {
        parts.push(format!("{} raised: {}", sum(&raised), told(&raised)));
    }
    if new.raised_flows > 0 {
        parts.push(format!("{} raised now", new.raised_flows));
    }
    parts
}

/// Line of a cgroup's counters, with those below it.
pub(super) fn of_cgroup(
    before: &DeviceStatus,
    after: &DeviceStatus,
    cgroup: &CgroupStatus,
) -> Option<String> {
    let old = before.cgroups.iter().find(|old| old.cgroup == cgroup.cgroup);
    let (old, new) = (old.map_or(BfqCgroupStatus::default(), |old| old.bfq), cgroup.bfq);
    let since = |of: fn(&BfqCgroupStatus) -> u64| of(&new).saturating_sub(of(&old));
    let mut parts = Vec::new();
    if since(|bfq| bfq.idling_ns) > 0 {
        parts.push(kept_free(since(|bfq| bfq.idling_ns), seconds(before, after)));
    }
    for (count, what) in [
        (since(|bfq| bfq.preemptions), "preempted"),
        (since(|bfq| bfq.injections), "injected"),
        (since(|bfq| bfq.merges), "merged"),
        (since(|bfq| bfq.splits), "split"),
        (since(|bfq| bfq.refusals), "merges refused"),
        (since(|bfq| bfq.raisings), "raised"),
        (new.raised_flows.into(), "raised now"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    (!parts.is_empty()).then(|| format!("bfq: {}", parts.join(", ")))
}

fn kept_free(ns: u64, seconds: f64) -> String {
    format!("device kept free {:.0} % of the time", (ns as f64 / 1e7 / seconds).min(100.0))
}

/// Counters between two readings, the largest first.
fn between(old: &ByKind, new: &ByKind) -> Vec<(String, u64)> {
    let counted = new.iter().map(|(kind, new)| {
        let old = old.get(kind).copied().unwrap_or_default();
        (kind.replace('_', " "), new.saturating_sub(old))
    });
    let mut counted: Vec<(String, u64)> = counted.filter(|&(_, count)| count > 0).collect();
    counted.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counted
}

fn sum(counted: &[(String, u64)]) -> u64 {
    counted.iter().map(|(_, count)| count).sum()
}

/// `12 too late, 3 seeky`.
fn told(counted: &[(String, u64)]) -> String {
    let told = counted.iter().map(|(kind, count)| format!("{count} {kind}"));
    told.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(pairs: &[(&str, u64)]) -> ByKind {
        pairs.iter().map(|&(kind, count)| (kind.to_owned(), count)).collect()
    }

    /// A device that has run for this many seconds.
    fn reading(seconds: u64) -> DeviceStatus {
        let bfq = BfqStatus {
            expirations: kinds(&[("no_more_requests", 90 * seconds), ("too_idle", 10 * seconds)]),
            idling_ns: kinds(&[("throughput", 200_000_000 * seconds), ("guarantees", 0)]),
            merges: kinds(&[("cooperation", 2)]),
            refusals: kinds(&[("too_late", 30 * seconds), ("seeky", 3 * seconds), ("alone", 5)]),
            raised_flows: 1,
            ..BfqStatus::default()
        };
        let of_cgroup = BfqCgroupStatus {
            idling_ns: 100_000_000 * seconds,
            splits: seconds,
            ..Default::default()
        };
        let cgroup = CgroupStatus { cgroup: "/a".into(), bfq: of_cgroup, ..Default::default() };
        let at_ns = 1_000_000_000 * seconds;
        DeviceStatus { at_ns, bfq, cgroups: vec![cgroup], ..DeviceStatus::default() }
    }

    #[test]
    fn settings_that_differ_from_the_default_are_shown() {
        let told = |scheduler: &str, text: &str| {
            let settings = weir_text::parse_bfq(text, BfqSettings::DEFAULT).unwrap();
            let settings = weir_text::print_bfq(&settings);
            let bfq = BfqStatus { settings, ..BfqStatus::default() };
            settings_of(&DeviceStatus { scheduler: scheduler.into(), bfq, ..Default::default() })
        };
        let text = "slice_idle=0ns stable=kernel";
        assert_eq!(told("bfq", text).as_deref(), Some(text));
        assert_eq!(told("none", text), None);
        assert_eq!(told("bfq", "slice_idle=8"), None);
        // A server that says nothing about it.
        let silent = DeviceStatus { scheduler: "bfq".into(), ..Default::default() };
        assert_eq!(settings_of(&silent), None);
    }

    #[test]
    fn counters_are_shown_as_differences_between_readings() {
        let (before, after) = (reading(2), reading(4));
        assert_eq!(
            of_device(&before, &after),
            [
                "200 slots ended: 180 no more requests, 20 too idle",
                "device kept free 20 % of the time",
                "66 merges refused: 60 too late, 6 seeky",
                "1 raised now",
            ]
        );
        let line = of_cgroup(&before, &after, &after.cgroups[0]);
        assert_eq!(line.as_deref(), Some("bfq: device kept free 10 % of the time, 2 split"));
        assert_eq!(of_device(&before, &before), ["1 raised now"]);
        assert_eq!(of_cgroup(&before, &before, &before.cgroups[0]), None);
    }
}
