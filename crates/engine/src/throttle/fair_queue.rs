//! Fair queue of the sources that wait at one cgroup: by share of service, or by turns.
//!
//! Shares are start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). A source that becomes active gets the
//! start tag `max(V, its last finish)`. The least start tag goes first; V is the start tag of the last source served.
//! A source's finish is its start plus the cost of its request over its weight. Turns are the kernel's rule
//! (spec/throttle 1.7): one request each, in order of activation.

use core::mem::offset_of;

use crate::tree::{Heap, Keyed};

/// A child cgroup or a client, by index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Source {
    Client(u32),
    Cgroup(u32),
}

impl Source {
    /// Clients before cgroups, each by index.
    fn rank(self) -> u64 {
        match self {
            Source::Client(index) => u64::from(index),
            Source::Cgroup(index) => 1 << 32 | u64::from(index),
        }
    }
}

/// Order of a cgroup's sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Order {
    /// By service received over weight.
    #[default]
    Shares,
    /// One request each.
    Turns,
}

/// State of a source in the fair queue of its parent; lives with the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SourceState {
    /// Finish tag, in the virtual time of `epoch`.
    finish: u64,
    epoch: u32,
    /// Stamp of its live entry in the heap; 0 while inactive.
    stamp: u64,
}

impl SourceState {
    pub(crate) const fn new() -> SourceState {
        SourceState { finish: 0, epoch: 0, stamp: 0 }
    }

    /// Whether the source is active, that is, queued at its parent.
    pub(crate) fn is_active(&self) -> bool {
        self.stamp != 0
    }

    /// Whether `entry` is its live one.
    pub(crate) fn owns(&self, entry: Entry) -> bool {
        self.stamp == entry.stamp
    }
}

/// One place in the order. Equal tags go to clients before cgroups, then to the older index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    tag: u64,
    /// As a number: [`Source::rank`].
    rank: u64,
    stamp: u64,
}

impl Keyed for Entry {
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.tag) << 64 | u128::from(self.rank)
    }
}

impl Entry {
    pub(crate) fn source(&self) -> Source {
        let index = self.rank as u32;
        if self.rank >> 32 == 0 { Source::Client(index) } else { Source::Cgroup(index) }
    }
}

/// Virtual time per nanosecond of service at weight 1. At the default weight of 100 a nanosecond has four bits of fraction,
/// and 2^62 units are nine years of service; at the largest, 10000, a unit is 6.25 ns, 0.16 % of what 4 KiB take
/// at 1 GiB/s.
const VTIME_SCALE: u64 = 1_600;

/// Threshold for rebasing tags; far below saturation.
const VTIME_REBASE: u64 = 1 << 62;

/// Initial capacity, as for the first source that waits.
const SOURCES_MIN: usize = 4;

/// Active sources of one cgroup and direction. O(log sources) a step, no allocation once grown.
///
/// An entry is voided in place when its source leaves out of turn. The caller tells live entries from void ones.
#[repr(C)]
pub(crate) struct FairQueue {
    heap: Heap<Entry>,
    /// Shares: start tag of the last source served. Turns: the next turn.
    vtime: u64,
    /// The weights of all that wait, together.
    weight: u64,
    live: u32,
    /// Number of rebases: states of earlier epochs have no service to make up for.
    epoch: u32,
    order: Order,
    has_carried_finish: bool,
    /// Finish tag of a departed client that had more than its turn. The next newcomer starts there.
    carried_finish: u64,
}

impl FairQueue {
    /// Size of the part used while no client comes or goes.
    pub(crate) const BUSY_BYTES: usize = offset_of!(FairQueue, carried_finish);

    pub(crate) fn new(order: Order) -> FairQueue {
        FairQueue {
            heap: Heap::new(),
            vtime: 0,
            weight: 0,
            live: 0,
            // States begin in epoch 0, without service to make up for.
            epoch: 1,
            order,
            has_carried_finish: false,
            carried_finish: 0,
        }
    }

    /// Reserves the initial capacity.
    pub(crate) fn make_room(&mut self) {
        self.heap.reserve(SOURCES_MIN);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(crate) fn len(&self) -> u32 {
        self.live
    }

    /// The weights of all that wait, together.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// Changes the weight of an active source from its next request on.
    pub(crate) fn reweigh(&mut self, old: u64, new: u64) {
        self.weight = self.weight - old + new;
    }

    /// Changes the order from now on; active sources keep their places. O(active sources).
    pub(crate) fn set_order(&mut self, order: Order) {
        if order == Order::Turns && self.order == Order::Shares {
            // Tags of shares are worth thousands of turns: turns continue after all of them.
            let last = self.heap.iter().map(|entry| entry.tag).max();
            self.vtime = self.vtime.max(last.unwrap_or_default());
        }
        self.order = order;
    }

    /// Activates `source`. `stamp` is not 0 and was never used before, by any fair queue.
    pub(crate) fn admit(
        &mut self,
        source: Source,
        source_state: &mut SourceState,
        weight: u64,
        stamp: u64,
    ) {
        debug_assert!(!source_state.is_active(), "{source:?} waits already");
        self.live += 1;
        self.weight += weight;
        let tag = match self.order {
            Order::Shares if source_state.epoch == self.epoch => {
                self.vtime.max(source_state.finish)
            }
            // Reconnecting must not pay.
            Order::Shares if core::mem::take(&mut self.has_carried_finish) => {
                self.vtime.max(self.carried_finish)
            }
            Order::Shares => self.vtime,
            Order::Turns => {
                self.vtime += 1;
                self.vtime
            }
        };
        source_state.stamp = stamp;
        self.heap.push(Entry { tag, rank: source.rank(), stamp });
    }

    /// Whether any entry is void. If none is, the top entry is live.
    pub(crate) fn has_void(&self) -> bool {
        self.heap.len() > self.live as usize
    }

    /// The entry at the top, void ones included: the caller drops those with [`FairQueue::drop_void`].
    pub(crate) fn top(&self) -> Option<Entry> {
        self.heap.first().copied()
    }

    /// Drops the void entry at the top.
    pub(crate) fn drop_void(&mut self) {
        self.heap.drop_first();
    }

    /// Charges `cost_ns` at `weight` to the source at the top; it stays active if `waits_on`.
    pub(crate) fn served(
        &mut self,
        source_state: &mut SourceState,
        cost_ns: u64,
        weight: u64,
        waits_on: bool,
    ) {
        let Some(&entry) = self.heap.first() else {
            panic!("served a source of an empty fair queue")
        };
        debug_assert!(source_state.owns(entry), "served {:?}, which was not next", entry.source());
        let tag = match self.order {
            Order::Shares => {
                self.vtime = entry.tag;
                source_state.finish = entry.tag.saturating_add(vtime_of(cost_ns, weight));
                source_state.epoch = self.epoch;
                source_state.finish
            }
            Order::Turns => {
                self.vtime += 1;
                self.vtime
            }
        };
        if waits_on {
            self.heap.replace_first(Entry { tag, ..entry });
        } else {
            self.heap.drop_first();
            source_state.stamp = 0;
            self.live -= 1;
            self.weight -= weight;
            self.clear_if_empty();
        }
        if self.vtime > VTIME_REBASE {
            self.rebase();
        }
    }

    /// Deactivates a source without service. Its entry stays behind, void.
    pub(crate) fn leave(&mut self, source_state: &mut SourceState, weight: u64) {
        debug_assert!(source_state.is_active(), "a source leaves that was not waiting");
        source_state.stamp = 0;
        self.live -= 1;
        self.weight -= weight;
        self.clear_if_empty();
    }

    /// Carries over the finish tag of a departed client to the next newcomer. Then a client that reconnects for every
    /// request has the share of one that stays.
    pub(crate) fn carry_over(&mut self, source_state: SourceState) {
        if source_state.epoch == self.epoch && source_state.finish > self.vtime {
            let carried_finish = if self.has_carried_finish { self.carried_finish } else { 0 };
            (self.has_carried_finish, self.carried_finish) =
                (true, carried_finish.max(source_state.finish));
        }
    }

    /// Whether [`FairQueue::sweep`] is due before the next activation.
    pub(crate) fn is_full(&self) -> bool {
        self.heap.is_full()
    }

    /// Drops void entries, and grows if that does not make enough room. O(entries), due after half as many departures
    /// or arrivals at least.
    pub(crate) fn sweep(&mut self, is_live: impl Fn(Entry) -> bool) {
        self.heap.sweep(|entry| is_live(*entry));
    }

    /// Every entry, void ones included, in no particular order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.heap.iter().copied()
    }

    /// Drops void entries once nothing is active. Tags stay, because the limit may still be in debt for what was
    /// served: the source served last is behind others by its last payment, and by no more, however long the pause.
    fn clear_if_empty(&mut self) {
        if self.live == 0 {
            self.heap.clear();
        }
    }

    /// Subtracts V from every tag. Inactive sources lose what they had received beyond V.
    fn rebase(&mut self) {
        let vtime = core::mem::take(&mut self.vtime);
        self.carried_finish = self.carried_finish.saturating_sub(vtime);
        self.heap.change(|entry| entry.tag = entry.tag.saturating_sub(vtime));
        self.epoch = self.epoch.wrapping_add(1);
    }
}

/// Advance of a finish tag for `cost_ns` at `weight`. Rounds up: splitting a request never makes it cheaper.
pub(super) fn vtime_of(cost_ns: u64, weight: u64) -> u64 {
    match cost_ns.checked_mul(VTIME_SCALE) {
        Some(cost) => cost.div_ceil(weight),
        None => {
            let cost = u128::from(cost_ns) * u128::from(VTIME_SCALE);
            u64::try_from(cost.div_ceil(u128::from(weight))).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Serves `rounds` requests among always-waiting sources; the sources served, in order.
    fn serve(order: Order, costs_and_weights: &[(u64, u64)], rounds: usize) -> Vec<u32> {
        let mut fair_queue = FairQueue::new(order);
        let mut states = vec![SourceState::new(); costs_and_weights.len()];
        for (index, source_state) in states.iter_mut().enumerate() {
            let weight = costs_and_weights[index].1;
            fair_queue.admit(Source::Client(index as u32), source_state, weight, index as u64 + 1);
        }
        (0..rounds)
            .map(|_| {
                let entry = fair_queue.top().expect("all wait on");
                let Source::Client(index) = entry.source() else { unreachable!() };
                let (cost, weight) = costs_and_weights[index as usize];
                fair_queue.served(&mut states[index as usize], cost, weight, true);
                index
            })
            .collect()
    }

    #[test]
    fn shares_follow_weights_and_costs() {
        let went = serve(Order::Shares, &[(1_000, 100), (1_000, 300)], 400);
        assert_eq!(went.iter().filter(|&&index| index == 1).count(), 300);
        let went = serve(Order::Shares, &[(4_000, 100), (1_000, 100)], 500);
        assert_eq!(went.iter().filter(|&&index| index == 1).count(), 400);
    }

    #[test]
    fn turns_ignore_weights() {
        assert_eq!(serve(Order::Turns, &[(9, 1), (1, 900)], 4), [0, 1, 0, 1]);
    }

    /// The limiter becomes one of the kernel's while both wait.
    #[test]
    fn who_was_served_last_by_shares_has_the_next_turn_but_one() {
        let mut fair_queue = FairQueue::new(Order::Shares);
        let mut states = [SourceState::new(); 2];
        for (index, source_state) in (0..).zip(&mut states) {
            fair_queue.admit(Source::Client(index), source_state, 100, u64::from(index) + 1);
        }
        fair_queue.served(&mut states[0], 1_000_000_000, 100, true);
        fair_queue.set_order(Order::Turns);
        let mut late = SourceState::new();
        fair_queue.admit(Source::Client(2), &mut late, 100, 3);
        let mut went = Vec::new();
        for _ in 0..7 {
            let Source::Client(index) = fair_queue.top().expect("all wait").source() else {
                panic!()
            };
            let source_state = if index == 2 { &mut late } else { &mut states[index as usize] };
            fair_queue.served(source_state, 1, 100, true);
            went.push(index);
        }
        assert_eq!(went, [1, 0, 2, 1, 0, 2, 1]);
    }

    #[test]
    fn a_newcomer_owes_nothing_and_is_owed_nothing() {
        let mut fair_queue = FairQueue::new(Order::Shares);
        let (mut old, mut new) = (SourceState::new(), SourceState::new());
        fair_queue.admit(Source::Client(0), &mut old, 100, 1);
        (0..100).for_each(|_| fair_queue.served(&mut old, 1_000, 100, true));
        fair_queue.admit(Source::Client(1), &mut new, 100, 2);
        let mut went = Vec::new();
        for _ in 0..6 {
            let Source::Client(index) = fair_queue.top().expect("both wait").source() else {
                panic!()
            };
            let source_state = if index == 0 { &mut old } else { &mut new };
            fair_queue.served(source_state, 1_000, 100, true);
            went.push(index);
        }
        assert_eq!(went, [1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn leaving_and_coming_back_under_another_name_does_not_pay() {
        let mut fair_queue = FairQueue::new(Order::Shares);
        let (mut steady, mut stamp) = (SourceState::new(), 1);
        fair_queue.admit(Source::Client(0), &mut steady, 100, stamp);
        let mut went = [0, 0];
        let mut returning = SourceState::new();
        for _ in 0..100 {
            if !returning.is_active() {
                fair_queue.carry_over(returning);
                returning = SourceState::new();
                stamp += 1;
                fair_queue.admit(Source::Client(1), &mut returning, 100, stamp);
            }
            let Source::Client(index) = fair_queue.top().expect("both wait").source() else {
                panic!()
            };
            let (source_state, waits_on) =
                if index == 0 { (&mut steady, true) } else { (&mut returning, false) };
            fair_queue.served(source_state, 1_000, 100, waits_on);
            went[index as usize] += 1;
        }
        assert_eq!(went, [50, 50]);
    }

    #[test]
    fn rebasing_keeps_the_order() {
        let mut fair_queue = FairQueue::new(Order::Shares);
        let mut states = [SourceState::new(), SourceState::new()];
        for (index, source_state) in states.iter_mut().enumerate() {
            fair_queue.admit(Source::Client(index as u32), source_state, 100, index as u64 + 1);
        }
        for round in 0..16 {
            let Source::Client(index) = fair_queue.top().expect("both wait").source() else {
                panic!()
            };
            assert_eq!(index, round % 2);
            fair_queue.served(&mut states[index as usize], 1 << 58, 100, true);
        }
    }
}
