//! Budget of extra idling for raised flows.

use crate::types::Instant;

const MS: u64 = 1_000_000;

/// Budget of extra idling for raised flows, beyond `slice_idle` (spec/bfq D-20, D-29).
///
/// It is half of all time over about a second: idling takes from it, and each nanosecond that passes gives half a
/// nanosecond back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RaisedIdleBudget {
    /// What was left at `since`.
    left_ns: u64,
    since: Instant,
}

impl RaisedIdleBudget {
    const MAX_NS: u64 = 500 * MS;
    pub(crate) const NEW: RaisedIdleBudget =
        RaisedIdleBudget { left_ns: RaisedIdleBudget::MAX_NS, since: Instant::ZERO };

    pub(crate) fn left(&self, now: Instant) -> u64 {
        self.left_ns.saturating_add(now.nanos_since(self.since) / 2).min(RaisedIdleBudget::MAX_NS)
    }

    /// Takes `ns` of idling from the budget.
    pub(crate) fn take(&mut self, now: Instant, ns: u64) {
        *self = RaisedIdleBudget { left_ns: self.left(now).saturating_sub(ns), since: now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_idling_takes_at_most_half_of_all_time() {
        let mut raised_idle_budget = RaisedIdleBudget::NEW;
        let mut kept = 0;
        // 20 ms asked for 5 ms after each idling, for ten seconds.
        let mut now = Instant::ZERO;
        while now < Instant::from_millis(10_000) {
            let wait = raised_idle_budget.left(now).min(20 * MS);
            now = now.plus_nanos(wait);
            raised_idle_budget.take(now, wait);
            kept += wait;
            now = now.plus_nanos(5 * MS);
        }
        let most = 10_000 * MS / 2 + RaisedIdleBudget::MAX_NS;
        assert!((most - 600 * MS..most + 20 * MS).contains(&kept), "{kept} ns");
    }
}
