//! Counters of BFQ: for the device, and for rare events of each cgroup.

use alloc::sync::Arc;
use alloc::vec::Vec;

use weir_counters::Counters as Shared;

use crate::merge;

/// Reason of an expiration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Expiration {
    /// The flow was empty and the device did not idle for it.
    NoMoreRequests,
    /// Idling ended without a request of the flow.
    TooIdle,
    /// The slot lasted as long as it may.
    BudgetTimeout,
    /// The flow's next request exceeded the budget left.
    BudgetExhausted,
    /// Another flow preempted it, or its cgroup moved.
    Preempted,
}

/// Reason for idling.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum IdlingCause {
    /// The flow's next request is near, which is worth more than other flows' requests meanwhile.
    Throughput,
    /// The flow's share would go to others.
    Guarantees,
    /// Data written in the slot is on its way from the disk's cache to the platters.
    Destage,
}

/// Kind of an injected request, seen from the flow in service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Injection {
    /// Writeback of its own client.
    OwnAsync,
    /// Of the flow whose completions it waits for.
    Waker,
    /// Of a flow that waits for its completions.
    Woken,
    /// Any other, as far as the latency of the flow in service allows.
    Other,
}

/// Reason for weight raising.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Raising {
    /// The flow has just started, or returns after a long pause.
    Interactive,
    /// The flow sends little, at a steady rate.
    SoftRealTime,
}

macro_rules! kinds {
    ($type:ident, $($kind:ident $key:literal),+) => {
        impl $type {
            /// All kinds, in the order of their indices.
            pub const ALL: [$type; [$($type::$kind),+].len()] = [$($type::$kind),+];

            /// Index into per-kind arrays.
            pub const fn index(self) -> usize {
                self as usize
            }

            /// Name in statistics.
            pub const fn key(self) -> &'static str {
                match self {
                    $($type::$kind => $key),+
                }
            }
        }
    };
}

kinds!(
    Expiration,
    NoMoreRequests "no_more_requests",
    TooIdle "too_idle",
    BudgetTimeout "budget_timeout",
    BudgetExhausted "budget_exhausted",
    Preempted "preempted"
);
kinds!(IdlingCause, Throughput "throughput", Guarantees "guarantees", Destage "settling");
kinds!(Injection, OwnAsync "own_async", Waker "waker", Woken "woken", Other "other");
kinds!(Raising, Interactive "interactive", SoftRealTime "soft_real_time");

/// Counters of BFQ on a device since the engine was made, across switches of the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BfqStats {
    /// Slots.
    pub selections: u64,
    /// Slots cut short because their flow is seeky and shares depend on slots.
    pub short_slots: u64,
    /// Expirations, by [`Expiration::index`].
    pub expirations: [u64; Expiration::ALL.len()],
    /// Slots charged more than their bytes.
    pub time_charges: u64,
    /// What they were charged beyond their bytes.
    pub time_charged_bytes: u64,
    /// How often the device idled, by [`IdlingCause::index`].
    pub idlings: [u64; IdlingCause::ALL.len()],
    /// How long the device idled in nanoseconds, by [`IdlingCause::index`].
    pub idling_ns: [u64; IdlingCause::ALL.len()],
    /// Injected requests, by [`Injection::index`].
    pub injections: [u64; Injection::ALL.len()],
    /// How often a weight was raised, by [`Raising::index`].
    pub raisings: [u64; Raising::ALL.len()],
    /// How long weights were raised in nanoseconds, pauses included, summed over raisings that have ended.
    pub raised_ns: [u64; Raising::ALL.len()],
    /// Raised flows that have requests waiting or at the device now.
    pub raised_now: u32,
    /// Requests coalesced with an adjacent one of the same flow.
    pub coalesced: u64,
    /// How often a shared stream's next request was held for a straggler.
    pub held: u64,
    /// Merges, splits and refusals of merges.
    pub merging: merge::Counters,
}

/// Counters of BFQ for the clients of one cgroup.
///
/// Each slot is not counted here: it would cost a cache line a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BfqCgroupStats {
    /// What their slots were charged beyond their bytes.
    pub time_charged_bytes: u64,
    /// How long the device idled for them, in nanoseconds.
    pub idling_ns: u64,
    /// Their injected requests.
    pub injections: u64,
    /// Their slots that another flow preempted.
    pub preemptions: u64,
    /// How often the weight of one of their flows was raised.
    pub raisings: u64,
    /// Their flows that are raised now.
    pub raised_now: u32,
    /// Merges of their flows.
    pub merges: u64,
    /// Splits of their sets of flows.
    pub splits: u64,
    /// Merges refused, for any reason.
    pub refusals: u64,
}

impl BfqCgroupStats {
    /// Adds the counters of another cgroup.
    pub fn absorb(&mut self, other: &BfqCgroupStats) {
        self.time_charged_bytes += other.time_charged_bytes;
        self.idling_ns += other.idling_ns;
        self.injections += other.injections;
        self.preemptions += other.preemptions;
        self.raisings += other.raisings;
        self.raised_now += other.raised_now;
        self.merges += other.merges;
        self.splits += other.splits;
        self.refusals += other.refusals;
    }
}

/// Counters of a cgroup: the fields of [`BfqCgroupStats`] except `raised_now`.
#[derive(Clone, Copy)]
pub(crate) enum Count {
    TimeChargedBytes,
    IdlingNs,
    Injections,
    Preemptions,
    Raisings,
    Merges,
    Splits,
    Refusals,
}

/// One counter for each [`Count`], which other threads read. Small: there may be 100,000 cgroups.
#[derive(Default)]
pub(crate) struct CgroupCounts(Shared<8>);

impl CgroupCounts {
    /// What was counted, without flows that are raised now.
    pub(crate) fn stats(&self) -> BfqCgroupStats {
        let counts = self.0.read();
        let of = |what: Count| counts[what as usize];
        BfqCgroupStats {
            time_charged_bytes: of(Count::TimeChargedBytes),
            idling_ns: of(Count::IdlingNs),
            injections: of(Count::Injections),
            preemptions: of(Count::Preemptions),
            raisings: of(Count::Raisings),
            raised_now: 0,
            merges: of(Count::Merges),
            splits: of(Count::Splits),
            refusals: of(Count::Refusals),
        }
    }
}

/// All counters of BFQ, of the device and of its cgroups, so that one sums to the other.
#[derive(Default)]
pub(crate) struct Counters {
    device: BfqStats,
    /// By cgroup, up to the largest index that counted something. Without cgroups below.
    cgroups: Vec<Option<Arc<CgroupCounts>>>,
}

impl Counters {
    /// Makes room for a new flow's `cgroup`, so that no request allocates later.
    pub(crate) fn make_room(&mut self, cgroup: u32) {
        self.of(cgroup);
    }

    /// Counts a slot.
    pub(crate) fn selected(&mut self) {
        self.device.selections += 1;
    }

    /// Counts a short slot.
    pub(crate) fn shortened(&mut self) {
        self.device.short_slots += 1;
    }

    /// Counts a request held for a straggler.
    pub(crate) fn held(&mut self) {
        self.device.held += 1;
    }

    /// Counts the expiration of a flow of `cgroup`, charged `extra` bytes beyond its service.
    pub(crate) fn expired(&mut self, cgroup: u32, why: Expiration, extra: u64) {
        self.device.expirations[why.index()] += 1;
        if why == Expiration::Preempted {
            self.count(cgroup, Count::Preemptions, 1);
        }
        if extra > 0 {
            self.device.time_charges += 1;
            self.device.time_charged_bytes += extra;
            self.count(cgroup, Count::TimeChargedBytes, extra);
        }
    }

    /// Counts `ns` of idling for a flow of `cgroup`.
    pub(crate) fn idled(&mut self, cgroup: u32, cause: IdlingCause, ns: u64) {
        self.device.idlings[cause.index()] += 1;
        self.device.idling_ns[cause.index()] += ns;
        self.count(cgroup, Count::IdlingNs, ns);
    }

    /// Counts an injected request of a client of `cgroup`.
    pub(crate) fn injected(&mut self, cgroup: u32, kind: Injection) {
        self.device.injections[kind.index()] += 1;
        self.count(cgroup, Count::Injections, 1);
    }

    /// Counts the begin of weight raising of a flow of `cgroup`.
    pub(crate) fn raised(&mut self, cgroup: u32, why: Raising) {
        self.device.raisings[why.index()] += 1;
        self.count(cgroup, Count::Raisings, 1);
    }

    /// Counts the end of weight raising, after `ns`.
    pub(crate) fn lowered(&mut self, why: Raising, ns: u64) {
        self.device.raised_ns[why.index()] += ns;
    }

    /// Counts a coalesced request.
    pub(crate) fn coalesced(&mut self) {
        self.device.coalesced += 1;
    }

    /// Counts for a cgroup. [`merge::Merging`] counts merges, splits and refusals of the device; see
    /// [`Counters::device`].
    pub(crate) fn count(&mut self, cgroup: u32, what: Count, by: u64) {
        self.of(cgroup).0.add(what as usize, by);
    }

    /// Counters of the device, with those of `merging` since the scheduler began, and `raised_now` flows raised.
    pub(crate) fn device(&self, merging: &merge::Counters, raised_now: u32) -> BfqStats {
        let mut stats = BfqStats { raised_now, ..self.device };
        stats.merging.absorb(merging);
        stats
    }

    /// Keeps the counters of `merging` when the scheduler ends.
    pub(crate) fn close(&mut self, merging: &merge::Counters) {
        self.device.merging.absorb(merging);
    }

    /// Counters of a cgroup, without cgroups below it, and with `raised_now` of its flows raised.
    pub(crate) fn cgroup(&self, cgroup: u32, raised_now: u32) -> BfqCgroupStats {
        let counts = self.cgroups.get(cgroup as usize).and_then(Option::as_ref);
        let stats = counts.map_or_else(BfqCgroupStats::default, |counts| counts.stats());
        BfqCgroupStats { raised_now, ..stats }
    }

    /// The counters of a cgroup, for others to read.
    pub(crate) fn share(&mut self, cgroup: u32) -> Arc<CgroupCounts> {
        Arc::clone(self.of(cgroup))
    }

    /// Removes the counters of `cgroup`, and answers them.
    pub(crate) fn forget(&mut self, cgroup: u32) -> BfqCgroupStats {
        let counts = self.cgroups.get_mut(cgroup as usize).and_then(Option::take);
        counts.map_or_else(BfqCgroupStats::default, |counts| counts.stats())
    }

    fn of(&mut self, cgroup: u32) -> &Arc<CgroupCounts> {
        let index = cgroup as usize;
        if self.cgroups.len() <= index {
            self.cgroups.resize(index + 1, None);
        }
        self.cgroups[index].get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_cgroup_leaves_its_counts_to_the_caller() {
        let mut counters = Counters::default();
        counters.expired(7, Expiration::Preempted, 0);
        counters.expired(7, Expiration::NoMoreRequests, 4096);
        let read_elsewhere = counters.share(7);
        let gone = counters.forget(7);
        assert_eq!((gone.preemptions, gone.time_charged_bytes), (1, 4096));
        // Another cgroup may get its index.
        assert_eq!(counters.cgroup(7, 0), BfqCgroupStats::default());
        counters.count(7, Count::Merges, 2);
        assert_eq!((counters.forget(7).merges, read_elsewhere.stats().merges), (2, 0));
        let device = counters.device(&merge::Counters::new(), 0);
        assert_eq!(device.expirations, [1, 0, 0, 0, 1]);
        assert_eq!((device.time_charges, device.time_charged_bytes), (1, 4096));
        assert_eq!(counters.forget(100), BfqCgroupStats::default(), "nothing was counted of it");
    }
}
