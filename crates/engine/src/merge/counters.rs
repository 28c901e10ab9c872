//! Counters of merging.

use super::Refusal;

/// Counters of merging since the start.
///
/// Each check ends in exactly one way: [`Counters::checks`] is the sum of `already_merged`, `cooperations`,
/// `stable_late`, `stable_cancelled` and all refusals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Counters {
    /// Checks.
    pub checks: u64,
    /// Checks of a queue whose set has another representative.
    pub already_merged: u64,
    /// Queues merged because they were close to each other.
    pub cooperations: u64,
    /// Queues merged stably at creation.
    pub stable_at_creation: u64,
    /// Queues merged stably after a delay.
    pub stable_late: u64,
    /// Delayed stable merges cancelled for good.
    pub stable_cancelled: u64,
    /// Delayed stable merges postponed for thin evidence. Their checks went on.
    pub stable_postponed: u64,
    /// Queues created in the dead zone between window and life of the anchor.
    pub stable_dead_zone: u64,
    /// Splits of seeky sets, or with the kernel's rules of each member.
    pub splits: u64,
    /// Queues restored by a split.
    pub restored: u64,
    /// Processes moved to another queue.
    pub redirections: u64,
    refusals: [u64; Refusal::ALL.len()],
}

impl Counters {
    /// All zero.
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

    /// Checks that ended with this refusal.
    pub fn refused(&self, reason: Refusal) -> u64 {
        self.refusals[reason.index()]
    }

    /// Checks that ended with any refusal.
    pub fn refusals(&self) -> u64 {
        self.refusals.iter().sum()
    }

    /// Adds other counters.
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
