//! Table of flows, with the own flow of each client.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::owner::{Kind, Owner};
use super::payback::Payback;
use super::queue::{Flow, FlowState};
use super::sort_list::SortNodes;
use super::sparse_state::{SparseState, SparseStates};
use super::think_time::ThinkTime;
use crate::bfq::inject_limit::PackedInjectLimit;
use crate::bfq::tunables::Tunables;
use crate::bfq::weight_raising::{WeightRaising, WrDetection, WrPeriods};
use crate::ensure::ensure;
use crate::merge::QueueId;
use crate::merge::waker::Waker;
use crate::tree::NO_INDEX;
use crate::types::{Instant, Request};

/// All flows, by index. A step is O(1); memory is kept for reuse.
///
/// A flow outlives its client while it has requests of merged clients.
pub(crate) struct Flows {
    flows: Vec<Record>,
    /// Nodes of all sort lists, by index of the request.
    sort_nodes: SortNodes,
    /// Injection limits, by flow. Few requests need them.
    inject_limits: Vec<PackedInjectLimit>,
    sparse: SparseStates,
    periods: WrPeriods,
    /// Last freed slot, or [`NO_INDEX`].
    free: u32,
    /// Own flow of each client; [`NO_INDEX`] before its first request.
    own_flows: Vec<u32>,
    /// Flow of each cgroup's writeback.
    writebacks: Vec<u32>,
    /// Last flow of [`Flows::advance_clock_hand`].
    clock_hand: u32,
}

impl Default for Flows {
    fn default() -> Flows {
        Flows {
            flows: Vec::new(),
            sort_nodes: SortNodes::default(),
            inject_limits: Vec::new(),
            sparse: SparseStates::default(),
            periods: WrPeriods::default(),
            free: NO_INDEX,
            own_flows: Vec::new(),
            writebacks: Vec::new(),
            clock_hand: 0,
        }
    }
}

/// Flow and statistics, needed by each request: two adjacent cache lines, which processors load together.
#[repr(C, align(128))]
struct Record {
    flow: Flow,
    stats: FlowStats,
}

/// Statistics of a flow. A cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowStats {
    pub(crate) think_time: ThinkTime,
    detection: WrDetection,
    /// Distinguishes flows that had the same slot.
    generation: u32,
    /// Requests since its creation or its last split.
    pub(crate) insertions: u32,
    /// Slot of its sparse state, or [`NO_INDEX`]. Of a free flow: the slot freed before it.
    sparse: u32,
}

const _: () = assert!(size_of::<Record>() == 128);

impl FlowStats {
    fn new(now: Instant, generation: u32) -> FlowStats {
        FlowStats {
            think_time: ThinkTime::new(now),
            detection: WrDetection::NEW,
            generation,
            insertions: 0,
            sparse: NO_INDEX,
        }
    }

    /// Whether it has sparse state: a waker, woken flows or a balance of idling.
    #[inline]
    pub(crate) fn has_sparse(&self) -> bool {
        self.sparse != NO_INDEX
    }

    /// See [`WrDetection::has_just_started`].
    pub(crate) fn has_just_started(&self) -> bool {
        self.detection.has_just_started()
    }

    /// See [`Flows::detection_mut`].
    #[inline]
    pub(crate) fn detection_mut(&mut self) -> &mut WrDetection {
        &mut self.detection
    }
}

impl Flows {
    /// The own flow of `owner`, if it ever had a request.
    pub(crate) fn of(&self, owner: Owner) -> Option<u32> {
        let (own_flows, index) = match owner.kind() {
            Kind::Client(client) => (&self.own_flows, client),
            Kind::Writeback(cgroup) => (&self.writebacks, cgroup),
        };
        own_flows.get(index as usize).copied().filter(|&flow| flow != NO_INDEX)
    }

    /// Opens a flow for `owner`, which has none.
    pub(crate) fn open(&mut self, now: Instant, owner: Owner, tunables: &Tunables) -> u32 {
        let sync = owner.as_client().is_some();
        let flow = Flow::new(now, sync, tunables);
        let inject_limit = PackedInjectLimit::new(now, true);
        let index = match self.free {
            NO_INDEX => {
                self.flows.push(Record { flow, stats: FlowStats::new(now, 0) });
                self.inject_limits.push(inject_limit);
                u32::try_from(self.flows.len() - 1).expect("fewer than 2^32 flows")
            }
            index => {
                let FlowStats { generation, sparse: next, .. } = *self.stats(index);
                self.free = next;
                self.flows[index as usize] =
                    Record { flow, stats: FlowStats::new(now, generation) };
                self.inject_limits[index as usize] = inject_limit;
                index
            }
        };
        *self.own_flow_mut(owner) = index;
        index
    }

    /// Moves the clock hand to the next slot. `None` without slots.
    pub(crate) fn advance_clock_hand(&mut self) -> Option<u32> {
        self.clock_hand =
            if self.clock_hand as usize + 1 < self.flows.len() { self.clock_hand + 1 } else { 0 };
        (!self.flows.is_empty()).then_some(self.clock_hand)
    }

    /// The owner is gone: orphans its flow.
    pub(crate) fn close(&mut self, owner: Owner) -> Option<u32> {
        let index = self.of(owner)?;
        *self.own_flow_mut(owner) = NO_INDEX;
        self[index].state = FlowState::Orphaned;
        Some(index)
    }

    /// Frees an orphaned flow without requests.
    pub(crate) fn release(&mut self, index: u32) {
        debug_assert!(self[index].is_orphaned() && self[index].is_empty());
        self.clear_sparse(index);
        self[index].state = FlowState::Free;
        let free = core::mem::replace(&mut self.free, index);
        let stats = self.stats_mut(index);
        stats.generation = stats.generation.wrapping_add(1);
        stats.sparse = free;
    }

    /// Inserts a request into a flow, with the device at `from`.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        at: u32,
        request: &Request,
        index: u32,
        from: u64,
        tunables: &Tunables,
    ) -> &Flow {
        let flow = &mut self.flows[at as usize].flow;
        flow.insert(&mut self.sort_nodes, request, index, at, from, tunables);
        flow
    }

    /// Takes a request out of its flow, without dispatch.
    pub(crate) fn remove(&mut self, index: u32, tunables: &Tunables) -> u32 {
        let at = self.flow_of(index);
        self.flows[at as usize].flow.remove(&mut self.sort_nodes, index, tunables);
        at
    }

    /// Takes a request, waiting since `since`, out of its flow for dispatch.
    #[inline]
    pub(crate) fn dispatch(
        &mut self,
        now: Instant,
        at: u32,
        index: u32,
        since: Instant,
        tunables: &Tunables,
    ) -> &mut Flow {
        let flow = &mut self.flows[at as usize].flow;
        flow.dispatch(now, &mut self.sort_nodes, since, index, tunables);
        flow
    }

    /// Notes that the request at `index`, dispatched before, is one of flow `at`.
    pub(crate) fn adopt(&mut self, at: u32, index: u32) {
        self.sort_nodes.adopt(index, at);
        self[at].in_flight += 1;
    }

    /// Flow that a request waits in, or was dispatched from.
    #[inline]
    pub(crate) fn flow_of(&self, index: u32) -> u32 {
        self.sort_nodes[index].flow
    }

    /// Position of a waiting request, in bytes.
    #[inline]
    pub(crate) fn position_of(&self, index: u32) -> u64 {
        self.sort_nodes[index].at
    }

    /// Waiting request of a flow with the lowest position.
    pub(crate) fn first_of(&self, at: u32) -> Option<u32> {
        self[at].sort_list().first(&self.sort_nodes)
    }

    /// Waiting requests of a flow, by age and by position, `most` of the latter. For checks.
    pub(crate) fn waiting(&mut self, at: u32, most: usize) -> [Vec<u32>; 2] {
        let list = self[at].sort_list();
        let by_age = list.by_age().iter(&mut self.sort_nodes).collect();
        let nodes = &self.sort_nodes;
        let by_position =
            core::iter::successors(list.first(nodes), |&index| list.after(nodes, index));
        [by_age, by_position.take(most).collect()]
    }

    /// A flow and its statistics.
    #[inline]
    pub(crate) fn record_mut(&mut self, index: u32) -> (&mut Flow, &mut FlowStats) {
        let Record { flow, stats } = &mut self.flows[index as usize];
        (flow, stats)
    }

    /// A flow and its generation.
    #[inline]
    pub(crate) fn flow_mut(&mut self, index: u32) -> (&mut Flow, u32) {
        let Record { flow, stats } = &mut self.flows[index as usize];
        (flow, stats.generation)
    }

    pub(crate) fn stats(&self, index: u32) -> &FlowStats {
        &self.flows[index as usize].stats
    }

    pub(crate) fn stats_mut(&mut self, index: u32) -> &mut FlowStats {
        &mut self.flows[index as usize].stats
    }

    /// Injection limit of a flow.
    pub(crate) fn inject_limit(&self, index: u32) -> PackedInjectLimit {
        self.inject_limits[index as usize]
    }

    pub(crate) fn inject_limit_mut(&mut self, index: u32) -> &mut PackedInjectLimit {
        &mut self.inject_limits[index as usize]
    }

    /// Detection state of a flow's weight raising.
    pub(crate) fn detection_mut(&mut self, index: u32) -> &mut WrDetection {
        &mut self.stats_mut(index).detection
    }

    /// Weight raising of a flow.
    #[inline]
    pub(crate) fn raising(&self, index: u32) -> WeightRaising {
        WeightRaising::of(&self.stats(index).detection, &self.periods)
    }

    /// Stores the weight raising of a flow.
    #[inline]
    pub(crate) fn set_raising(&mut self, index: u32, raising: WeightRaising) {
        raising.keep(&mut self.flows[index as usize].stats.detection, &mut self.periods);
    }

    /// Sparse state of a flow.
    pub(crate) fn sparse(&self, index: u32) -> SparseState {
        self.sparse.get(self.stats(index).sparse).copied().unwrap_or(SparseState::NONE)
    }

    /// Changes a flow's waker. A new waker gets the flow as the first that it wakes. O(1).
    pub(crate) fn set_waker(&mut self, index: u32, waker: Waker) {
        let [old, new] = [self.sparse(index).waker, waker].map(|waker| waker.get());
        if old != new {
            self.unlink(index);
        }
        self.change_sparse(index, |sparse| sparse.waker = waker);
        if old != new {
            self.link(index);
        }
    }

    /// Moves a flow that is backlogged again to the front of its waker's list (spec/bfq 6.5). O(1).
    pub(crate) fn touch_woken(&mut self, index: u32) {
        self.unlink(index);
        self.link(index);
    }

    /// Flows that a flow wakes, most recently backlogged first.
    pub(crate) fn woken(&self, index: u32) -> impl Iterator<Item = u32> {
        let is_one = |at: &u32| *at != NO_INDEX;
        let first = Some(self.sparse(index).woken).filter(is_one);
        core::iter::successors(first, move |&at| Some(self.sparse(at).next).filter(is_one))
    }

    /// Clears the sparse state of a flow that is freed. O(flows it woke).
    fn clear_sparse(&mut self, index: u32) {
        let gone = self.id(index);
        loop {
            let woken = self.sparse(index).woken;
            if woken == NO_INDEX {
                break;
            }
            let mut waker = self.sparse(woken).waker;
            waker.forget(gone);
            self.set_waker(woken, waker);
        }
        self.set_waker(index, Waker::NONE);
        self.change_payback(index, |payback| *payback = Payback::NEW);
    }

    /// Whether idling for a flow is worth its cost.
    #[inline]
    pub(crate) fn pays(&self, index: u32, now: Instant) -> bool {
        let stats = self.stats(index);
        !stats.has_sparse() || self.sparse(index).payback.pays(now)
    }

    /// Changes a flow's balance of idling.
    pub(crate) fn change_payback(&mut self, index: u32, change: impl FnOnce(&mut Payback)) {
        self.change_sparse(index, |sparse| change(&mut sparse.payback));
    }

    /// Puts a flow at the front of its waker's list.
    fn link(&mut self, index: u32) {
        let Some(waker) = self.sparse(index).waker.get() else { return };
        let first = self.sparse(waker.index).woken;
        if first != NO_INDEX {
            self.change_sparse(first, |sparse| sparse.prev = index);
        }
        self.change_sparse(index, |sparse| sparse.next = first);
        self.change_sparse(waker.index, |sparse| sparse.woken = index);
    }

    /// Takes a flow out of its waker's list.
    fn unlink(&mut self, index: u32) {
        let SparseState { waker, next, prev, .. } = self.sparse(index);
        let Some(waker) = waker.get() else { return };
        match prev {
            NO_INDEX => self.change_sparse(waker.index, |sparse| sparse.woken = next),
            _ => self.change_sparse(prev, |sparse| sparse.next = next),
        }
        if next != NO_INDEX {
            self.change_sparse(next, |sparse| sparse.prev = prev);
        }
        let stand_alone = |sparse: &mut SparseState| {
            (sparse.next, sparse.prev) = (NO_INDEX, NO_INDEX);
        };
        self.change_sparse(index, stand_alone);
    }

    /// Changes a flow's sparse state, and frees its slot when there is none left.
    fn change_sparse(&mut self, index: u32, change: impl FnOnce(&mut SparseState)) {
        let mut sparse = self.sparse(index);
        change(&mut sparse);
        let place = self.stats(index).sparse;
        let sparse = (sparse != SparseState::NONE).then_some(sparse);
        self.stats_mut(index).sparse = self.sparse.put(place, sparse);
    }

    /// Checks that waker and woken flows know each other. O(woken flows of it and of its waker).
    ///
    /// # Errors
    ///
    /// The flow that does not.
    pub(crate) fn check_wakers(&self, index: u32) -> Result<(), String> {
        let mut before = NO_INDEX;
        for woken in self.woken(index) {
            let SparseState { waker, prev, .. } = self.sparse(woken);
            ensure(waker.get() == Some(self.id(index)) && prev == before, || {
                format!("it wakes {woken}, whose waker is {waker:?}, behind {prev}, not {before}")
            })?;
            before = woken;
        }
        let waker = self.sparse(index).waker.get();
        let is_known = waker.is_none_or(|waker| {
            self.is_current(waker) && self.woken(waker.index).any(|woken| woken == index)
        });
        ensure(is_known, || format!("its waker {waker:?} does not know it"))
    }

    /// Whether an id names an existing flow.
    pub(crate) fn is_current(&self, queue: QueueId) -> bool {
        let record = self.flows.get(queue.index as usize);
        record.is_some_and(|record| record.stats.generation == queue.generation)
    }

    /// Id of a flow in [`crate::merge`].
    pub(crate) fn id(&self, index: u32) -> QueueId {
        QueueId { index, generation: self.stats(index).generation }
    }

    /// All existing flows, in order. O(flows).
    pub(crate) fn live(&self) -> Vec<u32> {
        // Indices fit: `open` checks them.
        let all = 0..self.flows.len() as u32;
        all.filter(|&index| self[index].state != FlowState::Free).collect()
    }

    fn own_flow_mut(&mut self, owner: Owner) -> &mut u32 {
        let (own_flows, index) = match owner.kind() {
            Kind::Client(client) => (&mut self.own_flows, client as usize),
            Kind::Writeback(cgroup) => (&mut self.writebacks, cgroup as usize),
        };
        if own_flows.len() <= index {
            own_flows.resize(index + 1, NO_INDEX);
        }
        &mut own_flows[index]
    }
}

impl core::ops::Index<u32> for Flows {
    type Output = Flow;

    fn index(&self, index: u32) -> &Flow {
        &self.flows[index as usize].flow
    }
}

impl core::ops::IndexMut<u32> for Flows {
    fn index_mut(&mut self, index: u32) -> &mut Flow {
        &mut self.flows[index as usize].flow
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;
    use crate::bfq::BfqSettings;
    use crate::merge::waker::InjectSettings;

    /// A waker that was found in the usual way.
    fn found(by: QueueId, waker: QueueId) -> Waker {
        let (settings, now) = (InjectSettings::default(), Instant::from_millis(1));
        let mut state = Waker::NONE;
        for _ in 0..InjectSettings::WAKER_TRIES {
            state.observe(&settings, now, by, false, Some((waker, now)));
        }
        assert_eq!(state.get(), Some(waker));
        state
    }

    proptest! {
        /// Against ordered lists of woken flows, while flows come and go.
        #[test]
        fn waker_and_woken_flows_know_each_other(
            steps in prop::collection::vec((0..4_u8, 0..6_usize, 0..6_usize), 1..200),
        ) {
            let settings = BfqSettings::DEFAULT;
            let tunables = Tunables::from(&settings, true, NonZeroU32::MIN);
            let mut flows = Flows::default();
            let mut clients = 0;
            let mut open = |flows: &mut Flows| {
                clients += 1;
                let owner = Owner::client(clients);
                (owner, flows.open(Instant::ZERO, owner, &tunables))
            };
            let mut all: Vec<(Owner, u32)> = (0..6).map(|_| open(&mut flows)).collect();
            // By waker, first flow first.
            let mut lists: Vec<(u32, Vec<u32>)> = Vec::new();
            for (what, one, other) in steps {
                let ((owner, at), (_, waker)) = (all[one], all[other]);
                match what {
                    0 | 1 if one != other => {
                        flows.set_waker(at, found(flows.id(at), flows.id(waker)));
                        let has = |list: &(u32, Vec<u32>)| list.0 == waker && list.1.contains(&at);
                        if !lists.iter().any(has) {
                            lists.iter_mut().for_each(|list| list.1.retain(|&other| other != at));
                            match lists.iter_mut().find(|list| list.0 == waker) {
                                Some(list) => list.1.insert(0, at),
                                None => lists.push((waker, Vec::from([at]))),
                            }
                        }
                    }
                    2 => {
                        flows.touch_woken(at);
                        if let Some((_, list)) = lists.iter_mut().find(|list| list.1.contains(&at)) {
                            list.retain(|&other| other != at);
                            list.insert(0, at);
                        }
                    }
                    3 => {
                        flows.close(owner);
                        flows.release(at);
                        lists.retain(|list| list.0 != at);
                        lists.iter_mut().for_each(|list| list.1.retain(|&other| other != at));
                        all[one] = open(&mut flows);
                    }
                    _ => {}
                }
                for &(_, at) in &all {
                    let list = lists.iter().find(|list| list.0 == at);
                    let woken: Vec<u32> = flows.woken(at).collect();
                    prop_assert_eq!(woken, list.map_or(Vec::new(), |list| list.1.clone()));
                    flows.check_wakers(at).map_err(TestCaseError::fail)?;
                }
            }
        }
    }
}
