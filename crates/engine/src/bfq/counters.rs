//! Counters of BFQ: for the device, and for each cgroup with out-of-the-ordinary events.

use alloc::vec::Vec;

use super::budget::Expiry;
use crate::merge;

/// Why a flow's slot ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Expiration {
    /// It had no request left, and nobody waited for one.
    NoMoreRequests,
    /// The device was kept free for it, and it did not return in time.
    TooIdle,
    /// It has had the device long enough.
    BudgetTimeout,
    /// Its next request was more than what was left of its budget.
    BudgetExhausted,
    /// Another flow came first, or its cgroup moved.
    Preempted,
}

/// Why the device is kept free for a flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IdlingCause {
    /// To go on where it was is worth more than what others would do meanwhile.
    Throughput,
    /// Its share would go to others.
    Guarantees,
    /// What was written in its slot is on its way from the device's cache to the platters.
    Destage,
}

/// Whose request fills a gap of the flow in service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Injection {
    /// Its own client's, one that nobody waits for.
    OwnAsync,
    /// One that the flow in service waits for.
    Waker,
    /// One that waits for the flow in service.
    Woken,
    /// Any other, as far as the latency of the flow in service bears it.
    Other,
}

/// Why a flow's weight is raised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Raising {
    /// It has just started, or came back after a long pause.
    Interactive,
    /// It asks at a steady, low rate.
    SoftRealTime,
}

impl From<Expiry> for Expiration {
    fn from(expiry: Expiry) -> Expiration {
        match expiry {
            Expiry::NoMoreRequests => Expiration::NoMoreRequests,
            Expiry::TooIdle => Expiration::TooIdle,
            Expiry::BudgetTimeout => Expiration::BudgetTimeout,
            Expiry::BudgetExhausted => Expiration::BudgetExhausted,
            Expiry::Preempted => Expiration::Preempted,
        }
    }
}

macro_rules! kinds {
    ($type:ident, $($kind:ident $key:literal),+) => {
        impl $type {
            /// All of them, in the order of their indices.
            pub const ALL: [$type; [$($type::$kind),+].len()] = [$($type::$kind),+];

            /// The index into per-kind arrays.
            pub const fn index(self) -> usize {
                self as usize
            }

            /// The name in statistics.
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

/// What BFQ has done on a device since the engine was made, however often the scheduler was switched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BfqStats {
    /// Slots given.
    pub selections: u64,
    /// Of these, slots cut short because their flow jumps about and shares depend on slots.
    pub short_slots: u64,
    /// Slots ended, by [`Expiration::index`].
    pub expirations: [u64; Expiration::ALL.len()],
    /// Slots that cost more than the bytes that were moved.
    pub time_charges: u64,
    /// What they cost beyond those bytes.
    pub time_charged_bytes: u64,
    /// How often the device was kept free for a flow, by [`IdlingCause::index`].
    pub idlings: [u64; IdlingCause::ALL.len()],
    /// For how long, in nanoseconds.
    pub idling_ns: [u64; IdlingCause::ALL.len()],
    /// Requests that filled a gap, by [`Injection::index`].
    pub injections: [u64; Injection::ALL.len()],
    /// How often a flow's weight was raised, by [`Raising::index`].
    pub raisings: [u64; Raising::ALL.len()],
    /// For how long, in nanoseconds, with pauses, summed over those that have ended.
    pub raised_ns: [u64; Raising::ALL.len()],
    /// Flows with something waiting or at the device whose weight is raised now.
    pub raised_now: u32,
    /// Requests that were joined with an adjacent one of the same flow.
    pub coalesced: u64,
    /// How often the next request of flows that merged was held for one of them that was behind.
    pub held: u64,
    /// Merges and splits of flows, and why they were refused.
    pub merging: merge::Counters,
}

/// What BFQ has done for, or to, the clients of a cgroup; see [`BfqStats`] for the words.
///
/// What happens with each slot is not counted here, for it would cost each slot a line of cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BfqCgroupStats {
    /// What their slots cost beyond the bytes that were moved.
    pub time_charged_bytes: u64,
    /// How long the device was kept free for them, in nanoseconds.
    pub idling_ns: u64,
    /// Requests of theirs that filled a gap of another flow, or of their own.
    pub injections: u64,
    /// Their slots that another flow ended.
    pub preemptions: u64,
    /// How often the weight of one of their flows was raised.
    pub raisings: u64,
    /// Those whose weight is raised now.
    pub raised_now: u32,
    /// Flows that merged into another.
    pub merges: u64,
    /// Sets of flows that parted.
    pub splits: u64,
    /// Merges that were looked for and refused, for whatever reason.
    pub refusals: u64,
}

impl BfqCgroupStats {
    /// Adds another cgroup's.
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

/// What is counted of a cgroup: the fields of [`BfqCgroupStats`] but the one that follows from who is busy.
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

/// One number for each [`Count`]. A line of cache: there may be 100,000 cgroups.
type Counts = [u64; 8];

/// The books: what is counted of the device and of cgroups goes through here, so that one sums to the other.
#[derive(Default)]
pub(crate) struct Counters {
    device: BfqStats,
    /// By cgroup, as long as the largest index of one that had something to count. Without what is below it.
    cgroups: Vec<Counts>,
}

impl Counters {
    /// A flow of `cgroup` comes to be: room is made here, and nowhere on a request's way afterwards.
    pub(crate) fn make_room(&mut self, cgroup: u32) {
        self.of(cgroup);
    }

    /// A flow got a slot.
    pub(crate) fn selected(&mut self) {
        self.device.selections += 1;
    }

    /// The slot is to be a short one.
    pub(crate) fn shortened(&mut self) {
        self.device.short_slots += 1;
    }

    /// A shared flow's next request waits for another member of it.
    pub(crate) fn held(&mut self) {
        self.device.held += 1;
    }

    /// A slot of a flow of `cgroup` ended, and cost `extra` bytes beyond its service.
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

    /// The device was kept free for a flow of `cgroup`, for `ns` from beginning to end.
    pub(crate) fn idled(&mut self, cgroup: u32, cause: IdlingCause, ns: u64) {
        self.device.idlings[cause.index()] += 1;
        self.device.idling_ns[cause.index()] += ns;
        self.count(cgroup, Count::IdlingNs, ns);
    }

    /// A request of a client of `cgroup` went in a gap.
    pub(crate) fn injected(&mut self, cgroup: u32, kind: Injection) {
        self.device.injections[kind.index()] += 1;
        self.count(cgroup, Count::Injections, 1);
    }

    /// The weight of a flow of `cgroup` is raised from now on.
    pub(crate) fn raised(&mut self, cgroup: u32, why: Raising) {
        self.device.raisings[why.index()] += 1;
        self.count(cgroup, Count::Raisings, 1);
    }

    /// The weight of a flow is no longer raised; it was for `ns`. Also of one that goes away.
    pub(crate) fn lowered(&mut self, why: Raising, ns: u64) {
        self.device.raised_ns[why.index()] += ns;
    }

    /// A request was joined with an adjacent one.
    pub(crate) fn coalesced(&mut self) {
        self.device.coalesced += 1;
    }

    /// Counts for a cgroup. Merges, splits and refusals of the device are in the books of [`merge::Merging`]; see
    /// [`Counters::device`].
    pub(crate) fn count(&mut self, cgroup: u32, what: Count, by: u64) {
        self.of(cgroup)[what as usize] += by;
    }

    /// What was counted of the device so far, and by `merging`, which has its own books, since the scheduler began, with
    /// `raised_now` flows raised.
    pub(crate) fn device(&self, merging: &merge::Counters, raised_now: u32) -> BfqStats {
        let mut stats = BfqStats { raised_now, ..self.device };
        stats.merging.absorb(merging);
        stats
    }

    /// The scheduler ends: what `merging` has counted is kept.
    pub(crate) fn close(&mut self, merging: &merge::Counters) {
        self.device.merging.absorb(merging);
    }

    /// What was counted of a cgroup, without what is below it but with what removed cgroups below it had, and with
    /// `raised_now` of its flows raised.
    pub(crate) fn cgroup(&self, cgroup: u32, raised_now: u32) -> BfqCgroupStats {
        let counts = self.cgroups.get(cgroup as usize).copied().unwrap_or_default();
        let of = |what: Count| counts[what as usize];
        BfqCgroupStats {
            time_charged_bytes: of(Count::TimeChargedBytes),
            idling_ns: of(Count::IdlingNs),
            injections: of(Count::Injections),
            preemptions: of(Count::Preemptions),
            raisings: of(Count::Raisings),
            raised_now,
            merges: of(Count::Merges),
            splits: of(Count::Splits),
            refusals: of(Count::Refusals),
        }
    }

    /// `cgroup` is going away: what was counted of it stays with `parent`.
    pub(crate) fn fold(&mut self, cgroup: u32, parent: u32) {
        let Some(counts) = self.cgroups.get_mut(cgroup as usize).map(core::mem::take) else {
            return;
        };
        // Without anything counted the parent needs no room.
        if counts != Counts::default() {
            self.of(parent).iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }

    fn of(&mut self, cgroup: u32) -> &mut Counts {
        let index = cgroup as usize;
        if self.cgroups.len() <= index {
            self.cgroups.resize(index + 1, Counts::default());
        }
        &mut self.cgroups[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_cgroups_counts_stay_with_its_parent() {
        let mut counters = Counters::default();
        counters.expired(7, Expiration::Preempted, 0);
        counters.expired(7, Expiration::NoMoreRequests, 4096);
        counters.fold(7, 3);
        // Its index may be another's next.
        assert_eq!(counters.cgroup(7, 0), BfqCgroupStats::default());
        let parent = counters.cgroup(3, 0);
        assert_eq!((parent.preemptions, parent.time_charged_bytes), (1, 4096));
        for (what, by) in [(Count::Merges, 2), (Count::Refusals, 3)] {
            counters.count(9, what, by);
        }
        counters.fold(9, 3);
        let parent = counters.cgroup(3, 0);
        assert_eq!((parent.merges, parent.splits, parent.refusals), (2, 0, 3));
        let device = counters.device(&merge::Counters::new(), 0);
        assert_eq!(device.expirations, [1, 0, 0, 0, 1]);
        assert_eq!((device.time_charges, device.time_charged_bytes), (1, 4096));
        counters.fold(100, 3);
    }
}
