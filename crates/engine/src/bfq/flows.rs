//! Where flows are kept, and whose requests go where.

use alloc::vec::Vec;

use super::flow::{Flow, Use};
use super::inject::Injection;
use super::raising::Raise;
use super::relations::{Relation, Relations};
use super::think::Habits;
use super::tunables::Tunables;
use crate::merge::QueueId;
use crate::time::Instant;
use crate::tree::NO_INDEX;

/// All flows, by index. O(1) a step; memory is kept for reuse.
///
/// A flow outlives its client while it has requests: those of others, that merged with it.
#[derive(Default)]
pub(crate) struct Flows {
    flows: Vec<Flow>,
    /// What matters only when a request comes, at the flow's index.
    ways: Vec<Ways>,
    relations: Relations,
    free: Vec<u32>,
    /// The flow of a client; [`NO_INDEX`] before its first request.
    homes: Vec<u32>,
    /// The flow of a cgroup's writeback.
    writebacks: Vec<u32>,
    /// Who was looked at last by [`Flows::stroll`].
    hand: u32,
}

/// Who has a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A client's requests that somebody waits for.
    Client(u32),
    /// A cgroup's that nobody does.
    Writeback(u32),
}

/// What is known of a flow beyond its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    pub(crate) habits: Habits,
    pub(crate) raise: Raise,
    pub(crate) owner: Owner,
    /// Told apart from those that had the place before.
    generation: u32,
    /// Requests that came since it was made, or was last alone again.
    pub(crate) insertions: u32,
    /// Its place among the relations, [`NO_INDEX`] while there is nothing to know.
    relation: u32,
    /// How much may be injected into its gaps.
    pub(crate) injection: Injection,
}

impl Ways {
    fn new(now: Instant, owner: Owner) -> Ways {
        Ways {
            habits: Habits::new(now),
            raise: Raise::NEW,
            owner,
            generation: 0,
            insertions: 0,
            relation: NO_INDEX,
            injection: Injection::new(now, true),
        }
    }
}

impl Flows {
    /// The flow of `owner`, if it ever had a request.
    pub(crate) fn of(&self, owner: Owner) -> Option<u32> {
        let (homes, index) = match owner {
            Owner::Client(client) => (&self.homes, client),
            Owner::Writeback(cgroup) => (&self.writebacks, cgroup),
        };
        homes.get(index as usize).copied().filter(|&flow| flow != NO_INDEX)
    }

    /// Gives `owner`, who has none, a flow.
    pub(crate) fn open(&mut self, now: Instant, owner: Owner, tunables: &Tunables) -> u32 {
        let sync = matches!(owner, Owner::Client(_));
        let (flow, ways) = (Flow::new(now, sync, tunables), Ways::new(now, owner));
        let index = match self.free.pop() {
            Some(index) => {
                self.flows[index as usize] = flow;
                let generation = self.ways(index).generation;
                *self.ways_mut(index) = Ways { generation, ..ways };
                index
            }
            None => {
                self.flows.push(flow);
                self.ways.push(ways);
                // So that a release never allocates.
                self.free.reserve(self.flows.len());
                u32::try_from(self.flows.len() - 1).expect("fewer than 2^32 flows")
            }
        };
        *self.home_mut(owner) = index;
        index
    }

    /// The next one of all places, round and round. None while there is no place.
    pub(crate) fn stroll(&mut self) -> Option<u32> {
        self.hand = if self.hand as usize + 1 < self.flows.len() { self.hand + 1 } else { 0 };
        (!self.flows.is_empty()).then_some(self.hand)
    }

    /// `owner` is gone: its flow is used by nobody.
    pub(crate) fn close(&mut self, owner: Owner) -> Option<u32> {
        let index = self.of(owner)?;
        *self.home_mut(owner) = NO_INDEX;
        self[index].used = Use::Orphan;
        Some(index)
    }

    /// Frees the place of a flow that nobody uses and that has no request left.
    pub(crate) fn release(&mut self, index: u32) {
        debug_assert!(self[index].is_orphan() && self[index].is_empty());
        self.set_relation(index, Relation::NONE);
        self[index].used = Use::Gone;
        let generation = &mut self.ways_mut(index).generation;
        *generation = generation.wrapping_add(1);
        self.free.push(index);
    }

    pub(crate) fn ways(&self, index: u32) -> &Ways {
        &self.ways[index as usize]
    }

    pub(crate) fn ways_mut(&mut self, index: u32) -> &mut Ways {
        &mut self.ways[index as usize]
    }

    /// Who lets a flow go on, and who goes on when it does.
    pub(crate) fn relation(&self, index: u32) -> Relation {
        self.relations.get(self.ways(index).relation)
    }

    /// Keeps that, in a place that is given back when there is nothing to keep.
    pub(crate) fn set_relation(&mut self, index: u32, relation: Relation) {
        let ways = &mut self.ways[index as usize];
        ways.relation = self.relations.put(ways.relation, relation);
    }

    /// Whether a name is that of a flow there is.
    pub(crate) fn is_current(&self, queue: QueueId) -> bool {
        self.ways.get(queue.index as usize).is_some_and(|ways| ways.generation == queue.generation)
    }

    /// The name under which a flow merges.
    pub(crate) fn id(&self, index: u32) -> QueueId {
        QueueId { index, generation: self.ways(index).generation }
    }

    /// Every flow there is, in order. O(flows): for tests, the lab and fuzzers.
    pub(crate) fn live(&self) -> Vec<u32> {
        // Indices fit: `open` made sure of it.
        let all = 0..self.flows.len() as u32;
        all.filter(|&index| self[index].used != Use::Gone).collect()
    }

    fn home_mut(&mut self, owner: Owner) -> &mut u32 {
        let (homes, index) = match owner {
            Owner::Client(client) => (&mut self.homes, client as usize),
            Owner::Writeback(cgroup) => (&mut self.writebacks, cgroup as usize),
        };
        if homes.len() <= index {
            homes.resize(index + 1, NO_INDEX);
        }
        &mut homes[index]
    }
}

impl core::ops::Index<u32> for Flows {
    type Output = Flow;

    fn index(&self, index: u32) -> &Flow {
        &self.flows[index as usize]
    }
}

impl core::ops::IndexMut<u32> for Flows {
    fn index_mut(&mut self, index: u32) -> &mut Flow {
        &mut self.flows[index as usize]
    }
}
