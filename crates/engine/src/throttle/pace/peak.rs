//! The rate inside a burst, as a limit of its own with next to no burst.

use alloc::boxed::Box;

use super::Pair;
use crate::throttle::limiter::{Rate, Rates};
use crate::types::{Cost, Instant, Limits, Resource, earned_in};

/// Spaces the requests of a burst evenly, after the one instalment that goes at once at any rate.
///
/// Empty for most cgroups, and small then: an idle cgroup should cost little.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peak(Option<Box<Pair>>);

impl Peak {
    /// Whether there is none.
    pub(in crate::throttle) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// When a head conforms whatever it costs, bytes and I/Os apart; the past without a peak.
    pub(super) fn both_ready_at(&self) -> [Instant; 2] {
        self.0.as_ref().map_or([Instant::ZERO; 2], |pair| pair.both_ready_at())
    }

    /// `other`, or when a head of `cost` conforms to the peak if that is later.
    pub(crate) fn later_of(&self, other: (Instant, Resource), cost: Cost) -> (Instant, Resource) {
        match &self.0 {
            Some(pair) => {
                let own = pair.ready_at(cost);
                if own.0 > other.0 { own } else { other }
            }
            None => other,
        }
    }

    /// Books `cost` as gone at `now`.
    pub(crate) fn charge(&mut self, now: Instant, cost: Cost) {
        if let Some(pair) = &mut self.0 {
            pair.charge(now, cost);
        }
    }

    /// Forgives what is owed beyond one burst.
    pub(crate) fn forgive(&mut self, now: Instant) {
        if let Some(pair) = &mut self.0 {
            pair.forgive(now);
        }
    }

    /// Goes by another clock, which shows `after` when the old one shows `before`.
    pub(crate) fn shift(&mut self, before: Instant, after: Instant) {
        if let Some(pair) = &mut self.0 {
            pair.shift(before, after);
        }
    }

    /// Takes the peaks out of `rates`, keeping what is owed.
    pub(crate) fn set_rates(&mut self, now: Instant, rates: &Rates) {
        let peaks = Rates {
            bps: peak_of(rates.bps, Resource::Bytes),
            iops: peak_of(rates.iops, Resource::Ios),
        };
        if peaks.is_unlimited() {
            self.0 = None;
        } else {
            self.0.get_or_insert_default().set_rates(now, &peaks);
        }
    }
}

/// The peak rate with a burst of one instalment, and of what makes good for timers that come late.
fn peak_of(rate: Option<Rate>, resource: Resource) -> Option<Rate> {
    let rate = rate?;
    let per_second = rate.peak?;
    let instalment = Limits::instalment(resource, per_second, u64::MAX, rate.quantum);
    let lateness = earned_in(per_second, Limits::INSTALMENT_NANOS);
    let burst = instalment.saturating_add(lateness);
    Some(Rate { per_second, burst, peak: None, quantum: rate.quantum })
}
