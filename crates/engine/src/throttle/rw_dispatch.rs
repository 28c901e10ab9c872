//! Dispatch under a limit on reads and writes together: both directions take turns.

use crate::throttle::limiter::Arrival;
use crate::throttle::{Context, Throttle};
use crate::tree::NO_CGROUP;
use crate::types::{Cost, Direction};

impl Throttle {
    /// Accounts for a request of `direction` that waited at `cgroup`, which has a limit on both.
    pub(crate) fn account_rw_dispatch(&mut self, cgroup: u32, direction: Direction, cost: Cost) {
        let node = &mut self.cgroups[cgroup];
        let waits = node.waits_for_rw_limit(direction.other());
        let weight = node.queue(direction).map_or(0, |queue| queue.fair_queue.weight());
        if let Some(rw_limit) = &mut node.rw_limit {
            rw_limit.charge_turn(direction, cost, weight, waits);
        }
    }

    /// As [`Throttle::update_eligibility`], for a cgroup with a limit on both directions while the other one waits:
    /// the directions take turns.
    pub(crate) fn update_rw(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        arrival: Arrival,
    ) {
        let is_topmost = |direction| self.parent_limit(cgroup, direction) == NO_CGROUP;
        if Direction::BOTH.into_iter().all(is_topmost) {
            self.drain_rw(cx, cgroup, direction, arrival);
            return;
        }
        // Both are updated; the first has then had its chance at what is available.
        let first = self.first_of_rw(cgroup);
        for turn in [first, first.other()] {
            let arrival = if turn == direction { arrival } else { Arrival::Queued };
            if let Some((parent, arrival)) = self.update_one(cx, cgroup, turn, arrival) {
                self.update_eligibility(cx, parent, turn, arrival);
            }
        }
    }

    /// Dispatches all that may go from `cgroup`, which has no limit above, in turns of the directions. Arms timers for
    /// the rest.
    fn drain_rw(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        mut arrival: Arrival,
    ) {
        Direction::BOTH.iter().for_each(|&direction| self.drain_to_parent(cx, cgroup, direction));
        loop {
            let first = self.first_of_rw(cgroup);
            let ready = [first, first.other()].into_iter().find(|&turn| {
                let arrival = if turn == direction { arrival } else { Arrival::Queued };
                self.is_eligible(cx, cgroup, turn, arrival)
            });
            let Some(ready) = ready else { return };
            if ready == direction {
                arrival = Arrival::Queued;
            }
            if let Some(index) = self.dequeue(cx, cgroup, ready) {
                self.throttled -= 1;
                self.pass(cx, index);
            }
        }
    }

    fn first_of_rw(&self, cgroup: u32) -> Direction {
        self.cgroups[cgroup].rw_limit.as_ref().map_or(Direction::Read, |rw_limit| rw_limit.first())
    }
}
