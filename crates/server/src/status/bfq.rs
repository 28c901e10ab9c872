//! Status of the scheduler `bfq`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::settings::BfqSettings;
use weir_engine::stats::{
    BfqCgroupStats, BfqStats, Expiration, IdlingCause, Injection, Raising, Refusal,
};

/// Numbers by kind.
type ByKind = BTreeMap<String, u64>;

/// How BFQ decides on a device, and what it has done since the start, however often schedulers were switched.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct BfqStatus {
    /// All settings, `KEY=VALUE ...`, as `weir set / io.bfq` takes them.
    pub settings: String,
    /// Slots given.
    pub selections: u64,
    /// Of these, slots cut short because their flow jumps about and shares depend on slots.
    pub short_slots: u64,
    /// Slots ended: `no_more_requests`, `too_idle`, `budget_timeout`, `budget_exhausted`, `preempted`.
    pub expirations: ByKind,
    /// Slots that cost more than the bytes that were moved.
    pub time_charges: u64,
    /// What they cost beyond those bytes.
    pub time_charged_bytes: u64,
    /// How often the device was kept free for a flow, for `throughput` or for its `guarantees`.
    pub idlings: ByKind,
    /// For how long.
    pub idling_ns: ByKind,
    /// Requests that filled a gap: `own_async`, `waker`, `woken`, `other`.
    pub injections: ByKind,
    /// How often a flow's weight was raised: `interactive`, `soft_real_time`.
    pub raisings: ByKind,
    /// For how long, those that have ended.
    pub raised_ns: ByKind,
    /// Flows whose weight is raised now.
    pub raised_flows: u32,
    /// Requests that were joined with an adjacent one.
    pub coalesced_ios: u64,
    /// How often the next request of flows that merged was held for one of them that was behind.
    pub held: u64,
    /// Flows that merged: `cooperation`, `stable_at_creation`, `stable_late`.
    pub merges: ByKind,
    /// Stable merges that were called off.
    pub merges_cancelled: u64,
    /// Sets of flows that parted.
    pub splits: u64,
    /// How often a flow was looked for to merge with.
    pub merge_checks: u64,
    /// Why none was taken, by reason.
    pub refusals: ByKind,
}

/// What BFQ has done for, or to, the clients of a cgroup and of those below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct BfqCgroupStatus {
    /// What their slots cost beyond the bytes that were moved.
    pub time_charged_bytes: u64,
    /// How long the device was kept free for them.
    pub idling_ns: u64,
    /// Requests of theirs that filled a gap.
    pub injections: u64,
    /// Their slots that another flow ended.
    pub preemptions: u64,
    /// How often the weight of one of their flows was raised.
    pub raisings: u64,
    /// Those whose weight is raised now.
    pub raised_flows: u32,
    /// Flows that merged into another.
    pub merges: u64,
    /// Sets of flows that parted.
    pub splits: u64,
    /// Merges that were looked for and refused.
    pub refusals: u64,
}

impl BfqStatus {
    /// What the engine says.
    pub(crate) fn new(settings: &BfqSettings, stats: &BfqStats) -> BfqStatus {
        fn by_kind<const N: usize>(keys: [&str; N], counts: [u64; N]) -> ByKind {
            keys.into_iter().map(str::to_owned).zip(counts).collect()
        }
        let merging = &stats.merging;
        let (idling, raising) =
            (IdlingCause::ALL.map(IdlingCause::key), Raising::ALL.map(Raising::key));
        BfqStatus {
            settings: weir_text::print_bfq(settings),
            selections: stats.selections,
            short_slots: stats.short_slots,
            expirations: by_kind(Expiration::ALL.map(Expiration::key), stats.expirations),
            time_charges: stats.time_charges,
            time_charged_bytes: stats.time_charged_bytes,
            idlings: by_kind(idling, stats.idlings),
            idling_ns: by_kind(idling, stats.idling_ns),
            injections: by_kind(Injection::ALL.map(Injection::key), stats.injections),
            raisings: by_kind(raising, stats.raisings),
            raised_ns: by_kind(raising, stats.raised_ns),
            raised_flows: stats.raised_now,
            coalesced_ios: stats.coalesced,
            held: stats.held,
            merges: by_kind(
                ["cooperation", "stable_at_creation", "stable_late"],
                [merging.cooperations, merging.stable_at_creation, merging.stable_late],
            ),
            merges_cancelled: merging.stable_cancelled,
            splits: merging.splits,
            merge_checks: merging.checks,
            refusals: by_kind(
                Refusal::ALL.map(Refusal::key),
                Refusal::ALL.map(|reason| merging.refused(reason)),
            ),
        }
    }
}

impl From<BfqCgroupStats> for BfqCgroupStatus {
    fn from(stats: BfqCgroupStats) -> BfqCgroupStatus {
        let BfqCgroupStats {
            time_charged_bytes,
            idling_ns,
            injections,
            preemptions,
            raisings,
            raised_now,
            merges,
            splits,
            refusals,
            ..
        } = stats;
        BfqCgroupStatus {
            time_charged_bytes,
            idling_ns,
            injections,
            preemptions,
            raisings,
            raised_flows: raised_now,
            merges,
            splits,
            refusals,
        }
    }
}
