//! Budget of a flow, and the charge for a request and for a slot (spec/bfq 3).

use super::counters::Expiration;
use super::data::BfqData;
use super::tunables::Tunables;
use super::wf2q::Return;
use crate::requests::Requests;
use crate::tree::Tree;

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
    fn next_budget(self, last: u32, slot: EndedSlot, service: u64, tunables: &Tunables) -> u32 {
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
const SHORT_NS: u64 = MS;
const LONG_NS: u64 = 20 * MS;

/// Charge of a slot beyond its service, because it took the device longer than its bytes say.
///
/// A seeky flow charged by bytes would hold the device for almost nothing. It pays the part of the largest budget
/// that its slot was of the longest slot; the configured one, and the configured seek (spec/bfq D-23).
fn time_charge(slot: EndedSlot, expiry: Expiry, tunables: &Tunables) -> u64 {
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

/// Least charge of a request, in bytes: a sector.
const CHARGE_MIN: u64 = 512;

/// Charge of a request of flow `at`, in bytes: those of its price where that is fixed, at least a sector. An instalment
/// moves its bytes too, although the throttle has charged them. Writeback is charged more in symmetric scenarios
/// (spec/bfq 3.4).
#[inline]
pub(super) fn charge(data: &BfqData, requests: &Requests, at: u32, index: u32) -> u64 {
    let record = &requests[index];
    let bytes = match record.cost.is_remainder {
        true => u64::from(record.request.extent.len),
        false => record.cost.bytes,
    };
    let bytes = bytes.max(CHARGE_MIN);
    if data.flows[at].sync { bytes } else { async_charge(data, at, bytes) }
}

#[inline(never)]
fn async_charge(data: &BfqData, at: u32, bytes: u64) -> u64 {
    if data.schedule.is_asymmetric(at) {
        return bytes;
    }
    bytes.saturating_mul(u64::from(data.tunables().async_charge))
}

/// Charge of a flow's next request; 0 without one.
#[inline]
pub(super) fn next_charge(data: &BfqData, requests: &Requests, at: u32) -> u64 {
    data.flows[at].next().map_or(0, |next| charge(data, requests, at, next))
}

/// Enlarges the budget of a waiting flow to cover its next request, which may have changed (spec/bfq 3.5).
pub(super) fn refresh(data: &mut BfqData, tree: &Tree, requests: &Requests, at: u32) {
    let charge = next_charge(data, requests, at);
    let entity = data.schedule.entity(at);
    if charge > entity.budget {
        let budget = u64::from(data.flows[at].max_budget).max(charge).max(entity.service);
        data.schedule.reposition(data.now, tree, at, budget);
    }
}

/// Activates a flow at its first request (spec/bfq 2.3, 2.10, 3.1). `is_raised`: from now on.
pub(super) fn activate(
    data: &mut BfqData,
    tree: &Tree,
    requests: &Requests,
    at: u32,
    is_raised: bool,
) -> Return {
    if is_raised && data.schedule.is_raised_above_siblings(at) {
        let flow = &mut data.flows[at];
        flow.max_budget = flow.max_budget.min(data.device.tunables().raised_budget());
    }
    let charge = next_charge(data, requests, at);
    let starts_apart = data.schedule.wr_coeff(at) > 1
        && data.flows.stats(at).has_just_started()
        && data.schedule.has_unraised_beside(at);
    let most = if starts_apart { data.tunables().raised_budget() } else { u32::MAX };
    let (flow, stats) = data.flows.record_mut(at);
    let away_ns = data.now.nanos_since(flow.last_end);
    let is_in_time = away_ns <= 3 * data.device.tunables().slice_idle_ns;
    let left = core::mem::take(&mut flow.budget_left);
    let (budget, how) = match left {
        1.. if is_in_time => (left.min(flow.max_budget), Return::InTime),
        _ => (flow.max_budget, Return::Afresh),
    };
    // A starting flow is due soon also if it is alone in its cgroup.
    let budget = data.device.bounded(data.now, budget.min(most)).max(charge);
    flow.start.restart();
    if stats.has_sparse() {
        data.flows.touch_woken(at);
    }
    data.schedule.activate(data.now, tree, at, budget, how);
    data.schedule.count(at);
    // Other flows may share the device with it.
    if data.tunables().queueing_flash()
        && data.tunables().slice_idle_ns > 0
        && data.schedule.is_asymmetric(at)
    {
        data.device.extend_flash_bound(data.now);
    }
    how
}

impl EndedSlot {
    /// Charges flow `at` for the slot beyond its service, and sets its largest budget. `sent`: requests dispatched in
    /// the slot, if no others were at the device. Returns the budget for the flow's next request, if it has one.
    // Inline on the hot path.
    #[inline(always)]
    pub(super) fn settle(
        self,
        data: &mut BfqData,
        requests: &Requests,
        at: u32,
        expiry: Expiry,
        sent: Option<u32>,
    ) -> Option<u64> {
        let paid = sent.map_or(self, |sent| self.at_seek_price(data, sent));
        let mut extra = time_charge(paid, expiry, data.tunables());
        if self.is_raised {
            // A starting flow is seeky by nature and should not wait for that. Raising holds among its siblings only,
            // so its cgroup pays for the time.
            data.schedule.charge_above(at, core::mem::take(&mut extra));
        } else if extra > 0 {
            data.schedule.charge_flow(at, extra);
        }
        data.counters.expired(data.schedule.cgroup(at), expiry.into(), extra);
        let charged = self.service + extra;
        let charge = next_charge(data, requests, at);
        let (flow, stats) = data.flows.record_mut(at);
        let max_budget = expiry.next_budget(flow.max_budget, self, charged, data.device.tunables());
        stats.detection_mut().charge(self.service);
        flow.max_budget = max_budget;
        let next_budget =
            (charge > 0).then(|| data.device.bounded(data.now, max_budget).max(charge));
        let may_return = !matches!(expiry, Expiry::BudgetTimeout | Expiry::BudgetExhausted);
        flow.budget_left = match next_budget {
            None if may_return && flow.sync => {
                u32::try_from(self.budget.saturating_sub(charged)).unwrap_or(u32::MAX)
            }
            _ => 0,
        };
        next_budget
    }

    /// Replaces the slot's length by the mean time of `sent` requests of a seeky flow. Only without requests left in
    /// flight, since otherwise their time is not known.
    fn at_seek_price(self, data: &mut BfqData, sent: u32) -> EndedSlot {
        let is_known = self.length_ns > SHORT_NS && self.in_flight == 0;
        if !(is_known && self.is_seeky && self.sync && data.tunables().rotational) {
            return self;
        }
        let length_ns = data.device.mean_seek_ns(sent, self.length_ns);
        EndedSlot { length_ns, ..self }
    }
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
