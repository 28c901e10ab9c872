//! Counters of merging.

use super::cooperation::Refusal;

/// How checks ended, and how sets came and went, since the start.
///
/// Each check ends in exactly one way: [`Counters::checks`] is the sum of `already_merged`, `cooperations`,
/// `stable_late`, `stable_cancelled` and all refusals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Checks asked for.
    pub checks: u64,
    /// Checks of a queue that is in a set whose representative is another.
    pub already_merged: u64,
    /// Queues merged because they were close to each other.
    pub cooperations: u64,
    /// Queues merged stably at creation.
    pub stable_at_creation: u64,
    /// Queues merged stably by a delayed judgement.
    pub stable_late: u64,
    /// Delayed stable merges that were called off for good.
    pub stable_cancelled: u64,
    /// Delayed stable merges that were put off for thin evidence. Their checks went on.
    pub stable_postponed: u64,
    /// Queues created in the dead zone between window and life of the anchor.
    pub stable_dead_zone: u64,
    /// Sets that parted because they were seeky, or with the kernel's rules each member that left one.
    pub splits: u64,
    /// Queues that are alone again.
    pub restored: u64,
    /// Processes that moved to another queue.
    pub redirections: u64,
    refusals: [u64; Refusal::ALL.len()],
}

impl Counters {
    /// Nothing yet.
    pub const fn new() -> Counters {
        Counters {
            checks: 0,
            already_merged: 0,
            cooperations: 0,
            stable_at_creation: 0,
            stable_late: 0,
            stable_cancelled: 0,
            stable_postponed: 0,
            stable_dead_zone: 0,
            splits: 0,
            restored: 0,
            redirections: 0,
            refusals: [0; Refusal::ALL.len()],
        }
    }

    /// Checks that ended with this reason.
    pub fn refused(&self, reason: Refusal) -> u64 {
        self.refusals[reason.index()]
    }

    /// Checks that ended with any reason.
    pub fn refusals(&self) -> u64 {
        self.refusals.iter().sum()
    }

    /// Adds what another has counted.
    pub(crate) fn absorb(&mut self, other: &Counters) {
        let Counters {
            checks,
            already_merged,
            cooperations,
            stable_at_creation,
            stable_late,
            stable_cancelled,
            stable_postponed,
            stable_dead_zone,
            splits,
            restored,
            redirections,
            refusals,
        } = other;
        self.checks += checks;
        self.already_merged += already_merged;
        self.cooperations += cooperations;
        self.stable_at_creation += stable_at_creation;
        self.stable_late += stable_late;
        self.stable_cancelled += stable_cancelled;
        self.stable_postponed += stable_postponed;
        self.stable_dead_zone += stable_dead_zone;
        self.splits += splits;
        self.restored += restored;
        self.redirections += redirections;
        for (mine, theirs) in self.refusals.iter_mut().zip(refusals) {
            *mine += theirs;
        }
    }

    pub(super) fn refuse(&mut self, reason: Refusal) {
        self.refusals[reason.index()] += 1;
    }
}
