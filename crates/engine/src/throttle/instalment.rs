//! Instalments of large requests.
//!
//! A request that costs more than a limit earns in a few milliseconds ([`Limits::INSTALMENT_NANOS`]) would delay all
//! others at that limit by its whole cost. So it stays at the head of its task's list and pays one instalment at a
//! time. An instalment is a turn like that of a small request: it is ordered by the fair queues, checked and charged
//! at every limit of the path. With the last one the request passes.
//!
//! An instalment fits all limits of the path, so that no ancestor is occupied for longer than its own instalment.
//! Below a limit of slices requests are charged at once, as in the kernel.

use crate::requests::Served;
use crate::throttle::rate_limiter::RateLimiter;
use crate::throttle::{Context, Throttle};
use crate::tree::NO_CGROUP;
use crate::types::{Cost, Direction, Limits};

/// Next payment of a request.
pub(super) struct Payment {
    /// The slot of the request.
    pub(super) index: u32,
    pub(super) cost: Cost,
    /// Debt before this payment, where the payment is an instalment.
    pub(super) owed: Option<Cost>,
    /// Whether it completes the price.
    pub(super) is_last: bool,
}

impl Throttle {
    /// Next instalment of a request in `cgroup` with `owed` to pay; `None` if all of it is paid at once. O(1) for a
    /// small request, else O(limited ancestors).
    #[inline(always)]
    pub(crate) fn instalment(&self, cgroup: u32, direction: Direction, owed: Cost) -> Option<Cost> {
        let units_per_io = self.prices.units_per_io();
        if owed.bytes <= Limits::INSTALMENT_BYTES_MIN && owed.ios <= units_per_io {
            return None;
        }
        self.instalment_of_path(cgroup, direction, owed, units_per_io)
    }

    /// First payment of a request of `cost` in `cgroup`, where nothing waits before it: as many instalments as the
    /// bursts hold, which can be a million. O(1) for a small request, else O(limited ancestors).
    #[inline(always)]
    pub(super) fn first_instalment(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        cost: Cost,
    ) -> Option<Cost> {
        let part = self.instalment(cgroup, direction, cost)?;
        Some(self.instalments_in_bursts(cx, cgroup, direction, cost, part))
    }

    #[inline(never)]
    fn instalments_in_bursts(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        cost: Cost,
        part: Cost,
    ) -> Cost {
        // The last instalment dequeues the request. A resource that the first one pays in full does not count.
        let mut count = part.count_in(cost) - 1;
        let repeats = Cost {
            bytes: if part.bytes < cost.bytes { part.bytes } else { 0 },
            ios: if part.ios < cost.ios { part.ios } else { 0 },
            ..part
        };
        let units_per_io = self.prices.units_per_io();
        let mut at = self.nearest_limit(cgroup, direction);
        while at != NO_CGROUP && count > 1 {
            let time = self.limit_time(at, cx.now);
            let node = &self.cgroups[at];
            if !time.is_lifted {
                let held = |limiter: &RateLimiter| {
                    repeats.times_in(limiter.burst_beyond_one(units_per_io, time.at))
                };
                let rw_limit = node.rw_limit.as_ref().map(|rw_limit| rw_limit.limiter());
                count = count.min(held(node.limit(direction)));
                count = count.min(rw_limit.map_or(u64::MAX, held));
            }
            at = self.parent_limit(at, direction);
        }
        part.times(count.max(1)).within(cost)
    }

    #[inline(never)]
    fn instalment_of_path(
        &self,
        cgroup: u32,
        direction: Direction,
        owed: Cost,
        units_per_io: u64,
    ) -> Option<Cost> {
        let mut cost = owed;
        let mut at = self.nearest_limit(cgroup, direction);
        while at != NO_CGROUP {
            let node = &self.cgroups[at];
            let is_steered = !self.watermarks.is_real(at);
            let limiters = [
                Some(node.limit(direction)),
                node.rw_limit.as_ref().map(|rw_limit| rw_limit.limiter()),
            ];
            for limiter in limiters.into_iter().flatten() {
                let most = limiter.instalment(units_per_io, is_steered)?;
                // An open gate does not divide the cost.
                if !self.watermarks.is_lifted(at) {
                    cost = cost.within(most);
                }
            }
            at = self.parent_limit(at, direction);
        }
        (cost != owed).then_some(cost)
    }

    /// Accounts for an instalment of `cost`, not the last, by the request in slot `index`.
    #[inline(never)]
    pub(super) fn pay_in_part(
        &mut self,
        cx: &mut Context<'_>,
        direction: Direction,
        index: u32,
        cost: Cost,
    ) {
        let d = direction.index();
        self.part_paid[d].add(cost);
        let record = &mut cx.requests[index];
        record.cost = record.cost.less(cost);
        record.is_part_paid = true;
    }

    /// Notes at `cgroup` and its active ancestors that a waiting request may have paid its I/Os: heads then need
    /// separate answers. A cgroup that knows has told its parent if active. O(depth).
    #[inline(never)]
    pub(super) fn note_part_paid(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
    ) {
        let mut at = cgroup;
        while at != NO_CGROUP {
            let node = &mut self.cgroups[at];
            if core::mem::replace(&mut node.dir_mut(direction).has_part_paid, true) {
                return;
            }
            at = cx.tree.cgroups[at].parent;
        }
    }

    /// Merges the instalments of the request in slot `index` into one charge. Answers what was paid before.
    #[inline(never)]
    pub(super) fn end_instalments(&mut self, cx: &mut Context<'_>, index: u32) -> Cost {
        let record = &mut cx.requests[index];
        let whole = self.prices.cost(&record.request);
        let paid = whole.less(record.cost);
        record.cost = whole;
        record.is_part_paid = false;
        let d = record.request.op.direction().index();
        self.part_paid[d].subtract(paid);
        paid
    }

    /// Service so far of the nearest limit of a task in `cgroup`: in all, and to `client`.
    pub(super) fn served_so_far(
        &self,
        cgroup: u32,
        client: u32,
        direction: Direction,
    ) -> Option<Served> {
        let nearest = self.nearest_limit(cgroup, direction);
        let limiter = self.cgroups.get(nearest)?.limiter(direction)?;
        let to_client_ns = self.clients[client].dir(direction).served_ns;
        Some(Served { to_all_ns: limiter.served_ns, to_client_ns })
    }

    /// Time of `cost` at the nearest limit from `cgroup` upwards where it owes something; this counts as the turn. An
    /// instalment may owe nothing to the nearest of all.
    #[inline(never)]
    pub(super) fn time_of_turn(&self, cgroup: u32, direction: Direction, cost: Cost) -> u64 {
        let mut at = cgroup;
        while at != NO_CGROUP {
            let time = self.cgroups[at].time_of(direction, cost);
            if time > 0 {
                return time;
            }
            at = self.parent_limit(at, direction);
        }
        0
    }
}
