//! Figures of BFQ in the reports.

use serde_json::{Map, Value, json};
use weir_engine::stats::{BfqCgroupStats, Expiration, IdlingCause, Injection, Raising, Refusal};

use super::figures::percent_text;
use crate::results::BfqResults;

/// One line, without what did not happen.
pub(super) fn sentence(bfq: &BfqResults, elapsed_ns: u64) -> String {
    let stats = &bfq.stats;
    let mut parts = Vec::new();
    let ended = told(Expiration::ALL.map(Expiration::key), stats.expirations);
    parts.push(format!("bfq gave {} slots{}", stats.selections, after_colon(&ended)));
    let idling_ns: u64 = stats.idling_ns.iter().sum();
    if idling_ns > 0 {
        let free = percent_text(idling_ns, elapsed_ns);
        parts.push(format!("kept the disk free {free} of the time"));
    }
    if stats.time_charges > 0 {
        parts.push(format!("charged {} for their time", stats.time_charges));
    }
    let merging = &stats.merging;
    let merges = [merging.cooperations, merging.stable_at_creation, merging.stable_late];
    let refusals = Refusal::ALL.map(|reason| merging.refused(reason));
    for (what, of) in [
        ("injected", told(Injection::ALL.map(Injection::key), stats.injections)),
        ("raised", told(Raising::ALL.map(Raising::key), stats.raisings)),
        ("merged", told(MERGES, merges)),
        ("refused to merge", told(Refusal::ALL.map(Refusal::key), refusals)),
    ] {
        if let Some((count, kinds)) = of {
            parts.push(format!("{what} {count}: {kinds}"));
        }
    }
    if merging.splits > 0 {
        parts.push(format!("split {}", merging.splits));
    }
    parts.join("; ")
}

const MERGES: [&str; 3] = ["cooperation", "stable_at_creation", "stable_late"];

fn after_colon(ended: &Option<(u64, String)>) -> String {
    ended.as_ref().map_or_else(String::new, |(_, kinds)| format!(", ended by {kinds}"))
}

/// The sum and its parts, largest first: `12 too late, 3 seeky`. None if nothing was counted.
fn told<const N: usize>(keys: [&str; N], counts: [u64; N]) -> Option<(u64, String)> {
    let mut counted: Vec<(u64, &str)> =
        counts.into_iter().zip(keys).filter(|&(count, _)| count > 0).collect();
    counted.sort_by_key(|&(count, _)| std::cmp::Reverse(count));
    let words: Vec<String> =
        counted.iter().map(|(count, key)| format!("{count} {}", key.replace('_', " "))).collect();
    (!counted.is_empty()).then(|| (counts.iter().sum(), words.join(", ")))
}

/// Under the names of `weir status`.
pub(super) fn of_run(bfq: &BfqResults) -> Value {
    fn by_kind<const N: usize>(keys: [&str; N], counts: [u64; N]) -> Value {
        let pairs = keys.into_iter().zip(counts);
        Value::Object(pairs.map(|(key, count)| (key.into(), count.into())).collect::<Map<_, _>>())
    }
    let stats = &bfq.stats;
    let merging = &stats.merging;
    let (idling, raising) =
        (IdlingCause::ALL.map(IdlingCause::key), Raising::ALL.map(Raising::key));
    json!({
        "settings": weir_text::print_bfq(&bfq.settings),
        "selections": stats.selections,
        "short_slots": stats.short_slots,
        "expirations": by_kind(Expiration::ALL.map(Expiration::key), stats.expirations),
        "time_charges": stats.time_charges,
        "time_charged_bytes": stats.time_charged_bytes,
        "idlings": by_kind(idling, stats.idlings),
        "idling_ns": by_kind(idling, stats.idling_ns),
        "injections": by_kind(Injection::ALL.map(Injection::key), stats.injections),
        "raisings": by_kind(raising, stats.raisings),
        "raised_ns": by_kind(raising, stats.raised_ns),
        "raised_flows": stats.raised_now,
        "coalesced_ios": stats.coalesced,
        "held": stats.held,
        "merges": by_kind(
            MERGES,
            [merging.cooperations, merging.stable_at_creation, merging.stable_late],
        ),
        "merges_cancelled": merging.stable_cancelled,
        "splits": merging.splits,
        "merge_checks": merging.checks,
        "refusals": by_kind(
            Refusal::ALL.map(Refusal::key),
            Refusal::ALL.map(|reason| merging.refused(reason)),
        ),
    })
}

/// Under the names of `weir status`.
pub(super) fn of_cgroup(stats: &BfqCgroupStats) -> Value {
    json!({
        "time_charged_bytes": stats.time_charged_bytes,
        "idling_ns": stats.idling_ns,
        "injections": stats.injections,
        "preemptions": stats.preemptions,
        "raisings": stats.raisings,
        "raised_flows": stats.raised_now,
        "merges": stats.merges,
        "splits": stats.splits,
        "refusals": stats.refusals,
    })
}
