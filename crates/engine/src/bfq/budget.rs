//! Budget of a flow, and the charge for its slot (spec/bfq 3).

use super::tunables::Tunables;

/// Reason of an expiration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expiry {
    /// The flow is empty and not idled for.
    NoMoreRequests,
    /// The slot lasted as long as it may.
    BudgetTimeout,
    /// The flow's next request exceeds the budget left.
    BudgetExhausted,
    /// Idling ended without a request.
    TooIdle,
    /// Any other reason, which says nothing about the flow.
    Preempted,
}

impl Expiry {
    /// A flow's next budget, from its last one and the slot (spec/bfq 3.2): larger if the flow used it up, so that a
    /// sequential flow seeks less between slots, and smaller if not, so that it is served sooner. Asynchronous flows
    /// get the largest, raised flows a small one.
    pub(crate) fn next_budget(
        self,
        last: u32,
        slot: EndedSlot,
        service: u64,
        tunables: &Tunables,
    ) -> u32 {
        let (max, min) = (tunables.max_budget, tunables.min_budget());
        if !slot.sync {
            return max;
        }
        if slot.is_raised {
            return tunables.raised_budget();
        }
        match self {
            // A budget covers its first request, which may exceed the largest budget.
            Expiry::NoMoreRequests => u32::try_from(service).unwrap_or(max).clamp(min, max),
            Expiry::TooIdle if slot.in_flight == 0 => match last > 5 * min {
                true => last - 4 * min,
                false => min,
            },
            Expiry::BudgetTimeout | Expiry::TooIdle => last.saturating_mul(2).min(max),
            Expiry::BudgetExhausted => last.saturating_mul(4).min(max),
            Expiry::Preempted => last,
        }
    }
}

/// A slot that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedSlot {
    pub(crate) length_ns: u64,
    pub(crate) service: u64,
    pub(crate) budget: u64,
    pub(crate) is_seeky: bool,
    pub(crate) sync: bool,
    /// Whether the flow's weight is raised.
    pub(crate) is_raised: bool,
    /// Requests of the flow at the device.
    pub(crate) in_flight: u32,
}

const MS: u64 = 1_000_000;

/// Slots below this say nothing about a flow's rate; slots above the next always do (spec/bfq 3.7).
pub(crate) const SHORT_NS: u64 = MS;
const LONG_NS: u64 = 20 * MS;

/// Charge of a slot beyond its service, because it took the device longer than its bytes say.
///
/// A seeky flow charged by bytes would hold the device for almost nothing. It pays the part of the largest budget
/// that its slot was of the longest slot; the configured one, and the configured seek (spec/bfq D-23).
pub(crate) fn time_charge(slot: EndedSlot, expiry: Expiry, tunables: &Tunables) -> u64 {
    let (mut length_ns, max) = (slot.length_ns, u64::from(tunables.time_budget));
    let is_slow = if !slot.sync {
        false
    } else if length_ns < SHORT_NS {
        length_ns = tunables.short_seek_ns();
        slot.is_seeky
    } else if length_ns <= LONG_NS {
        slot.is_seeky
    } else {
        slot.service < max / 2
    };
    let left = slot.budget.saturating_sub(slot.service);
    let timed_out = expiry == Expiry::BudgetTimeout && left >= slot.budget / 3;
    if !is_slow && !timed_out {
        return 0;
    }
    time_price(length_ns, tunables).saturating_sub(slot.service)
}

/// Value of device time in bytes at its best, up to the longest slot.
pub(crate) fn time_price(ns: u64, tunables: &Tunables) -> u64 {
    let (max, longest_ns) = (u64::from(tunables.time_budget), tunables.timeout_ns.max(1));
    let price = u128::from(max) * u128::from(ns.min(longest_ns)) / u128::from(longest_ns);
    // Never more than `max`.
    u64::try_from(price).unwrap_or(max)
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use super::*;

    const SECTOR: u64 = 512;
    const SLOT: EndedSlot = EndedSlot {
        length_ns: 0,
        service: 0,
        budget: 0,
        is_seeky: false,
        sync: true,
        is_raised: false,
        in_flight: 0,
    };

    fn hdd() -> Tunables {
        Tunables::new(true, NonZeroU32::MIN)
    }

    #[test]
    fn budgets_follow_use() {
        // spec/bfq EX-9.
        let tunables = hdd();
        let next = |last: u32, expiry: Expiry, service: u64| {
            expiry.next_budget(last * 512, SLOT, service * SECTOR, &tunables) / 512
        };
        let idle = |last| next(last, Expiry::TooIdle, 0);
        let shrinking = [16384, 14336, 12288, 4096, 2048, 512].map(idle);
        assert_eq!(shrinking, [14336, 12288, 10240, 2048, 512, 512]);
        let busy = EndedSlot { in_flight: 1, ..SLOT };
        assert_eq!(Expiry::TooIdle.next_budget(512, busy, 0, &tunables), 1024);
        let writeback = EndedSlot { sync: false, ..SLOT };
        let max_budget = tunables.max_budget;
        assert_eq!(Expiry::TooIdle.next_budget(512, writeback, 0, &tunables), max_budget);
        assert_eq!(tunables.first_budget(), 10922 * 512);
        let raised = EndedSlot { is_raised: true, ..SLOT };
        assert_eq!(Expiry::BudgetExhausted.next_budget(8192, raised, 8192, &tunables), 1024 * 512);
        assert_eq!(next(10922, Expiry::BudgetExhausted, 10922), 16384);
        assert_eq!(next(512, Expiry::BudgetTimeout, 100), 1024);
        assert_eq!(next(4096, Expiry::NoMoreRequests, 100), 512);
        assert_eq!(next(4096, Expiry::NoMoreRequests, 3000), 3000);
        assert_eq!(next(4096, Expiry::Preempted, 3000), 4096);
    }

    #[test]
    fn slow_slots_pay_for_time() {
        // spec/bfq EX-12; the extra charge, in whole sectors.
        let extra = |tunables: Tunables, length_ns, service: u64, budget: u64, is_seeky, expiry| {
            let (service, budget) = (service * SECTOR, budget * SECTOR);
            let slot = EndedSlot { length_ns, service, budget, is_seeky, ..SLOT };
            time_charge(slot, expiry, &tunables) / SECTOR
        };
        let (hdd, flash) = (hdd(), Tunables::new(false, NonZeroU32::MIN));
        let done = Expiry::NoMoreRequests;
        assert_eq!(extra(hdd, 40 * MS, 160, 10922, true, done), 5082);
        assert_eq!(extra(flash, 400_000, 64, 10922, true, done), 198);
        let fast = Tunables { time_budget: 17801 * 512, ..hdd };
        let timeout = Expiry::BudgetTimeout;
        assert_eq!(extra(fast, 125 * MS, 9000, 10922, false, timeout), 0);
        assert_eq!(extra(fast, 125 * MS, 8000, 10922, false, timeout), 9801);
        // Neither slow nor far from its budget.
        assert_eq!(extra(hdd, 10 * MS, 160, 10922, false, done), 0);
    }
}
