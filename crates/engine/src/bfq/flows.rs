//! Where flows are kept, and whose requests go where.

use alloc::vec::Vec;

use super::calm::Calm;
use super::flow::{Flow, Use};
use super::inject::Injection;
use super::owner::{Kind, Owner};
use super::raising::{Periods, Raise};
use super::relations::{Relation, Relations};
use super::think::Habits;
use super::tunables::Tunables;
use crate::merge::QueueId;
use crate::time::Instant;
use crate::tree::NO_INDEX;

/// All flows, by index. O(1) a step; memory is kept for reuse.
///
/// A flow outlives its client while it has requests: those of others, that merged with it.
pub(crate) struct Flows {
    flows: Vec<Record>,
    /// How much may be injected into a flow's gaps, at its index: hardly any request needs it.
    injections: Vec<Injection>,
    relations: Relations,
    periods: Periods,
    /// The place that was freed last; [`NO_INDEX`] where none is free.
    free: u32,
    /// The flow of a client; [`NO_INDEX`] before its first request.
    homes: Vec<u32>,
    /// The flow of a cgroup's writeback.
    writebacks: Vec<u32>,
    /// Who was looked at last by [`Flows::stroll`].
    hand: u32,
}

impl Default for Flows {
    fn default() -> Flows {
        Flows {
            flows: Vec::new(),
            injections: Vec::new(),
            relations: Relations::default(),
            periods: Periods::default(),
            free: NO_INDEX,
            homes: Vec::new(),
            writebacks: Vec::new(),
            hand: 0,
        }
    }
}

/// What each request needs of its flow: two lines of cache side by side, which processors fetch together.
#[repr(C, align(128))]
struct Record {
    flow: Flow,
    ways: Ways,
}

/// What is known of a flow beyond its requests. A line of cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    pub(crate) habits: Habits,
    calm: Calm,
    /// Told apart from those that had the place before.
    generation: u32,
    /// Requests that came since it was made, or was last alone again.
    pub(crate) insertions: u32,
    /// Its place among the relations, [`NO_INDEX`] while there is nothing to know. Of a flow that is gone: the place that
    /// was freed before its own.
    relation: u32,
}

const _: () = assert!(size_of::<Record>() == 128);

impl Ways {
    fn new(now: Instant, generation: u32) -> Ways {
        Ways {
            habits: Habits::new(now),
            calm: Calm::NEW,
            generation,
            insertions: 0,
            relation: NO_INDEX,
        }
    }
}

impl Flows {
    /// The flow of `owner`, if it ever had a request.
    pub(crate) fn of(&self, owner: Owner) -> Option<u32> {
        let (homes, index) = match owner.kind() {
            Kind::Client(client) => (&self.homes, client),
            Kind::Writeback(cgroup) => (&self.writebacks, cgroup),
        };
        homes.get(index as usize).copied().filter(|&flow| flow != NO_INDEX)
    }

    /// Gives `owner`, who has none, a flow.
    pub(crate) fn open(&mut self, now: Instant, owner: Owner, tunables: &Tunables) -> u32 {
        let sync = owner.as_client().is_some();
        let flow = Flow::new(now, sync, tunables);
        let injection = Injection::new(now, true);
        let index = match self.free {
            NO_INDEX => {
                self.flows.push(Record { flow, ways: Ways::new(now, 0) });
                self.injections.push(injection);
                u32::try_from(self.flows.len() - 1).expect("fewer than 2^32 flows")
            }
            index => {
                let Ways { generation, relation: next, .. } = *self.ways(index);
                self.free = next;
                self.flows[index as usize] = Record { flow, ways: Ways::new(now, generation) };
                self.injections[index as usize] = injection;
                index
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
        let free = core::mem::replace(&mut self.free, index);
        let ways = self.ways_mut(index);
        ways.generation = ways.generation.wrapping_add(1);
        ways.relation = free;
    }

    pub(crate) fn ways(&self, index: u32) -> &Ways {
        &self.flows[index as usize].ways
    }

    pub(crate) fn ways_mut(&mut self, index: u32) -> &mut Ways {
        &mut self.flows[index as usize].ways
    }

    /// How much may be injected into a flow's gaps.
    pub(crate) fn injection(&self, index: u32) -> Injection {
        self.injections[index as usize]
    }

    pub(crate) fn injection_mut(&mut self, index: u32) -> &mut Injection {
        &mut self.injections[index as usize]
    }

    /// What is kept of a flow's raising, whether it is raised or not.
    pub(crate) fn calm_mut(&mut self, index: u32) -> &mut Calm {
        &mut self.ways_mut(index).calm
    }

    /// How a flow's weight is raised.
    #[inline]
    pub(crate) fn raise(&self, index: u32) -> Raise {
        Raise::of(&self.ways(index).calm, &self.periods)
    }

    /// Keeps that.
    #[inline]
    pub(crate) fn set_raise(&mut self, index: u32, raise: Raise) {
        raise.keep(&mut self.flows[index as usize].ways.calm, &mut self.periods);
    }

    /// Who lets a flow go on, and who goes on when it does.
    pub(crate) fn relation(&self, index: u32) -> Relation {
        self.relations.get(self.ways(index).relation).copied().unwrap_or(Relation::NONE)
    }

    /// Keeps that, in a place that is given back when there is nothing to keep.
    pub(crate) fn set_relation(&mut self, index: u32, relation: Relation) {
        let place = self.ways(index).relation;
        let relation = (relation != Relation::NONE).then_some(relation);
        self.ways_mut(index).relation = self.relations.put(place, relation);
    }

    /// Whether a name is that of a flow there is.
    pub(crate) fn is_current(&self, queue: QueueId) -> bool {
        let record = self.flows.get(queue.index as usize);
        record.is_some_and(|record| record.ways.generation == queue.generation)
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
        let (homes, index) = match owner.kind() {
            Kind::Client(client) => (&mut self.homes, client as usize),
            Kind::Writeback(cgroup) => (&mut self.writebacks, cgroup as usize),
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
        &self.flows[index as usize].flow
    }
}

impl core::ops::IndexMut<u32> for Flows {
    fn index_mut(&mut self, index: u32) -> &mut Flow {
        &mut self.flows[index as usize].flow
    }
}
