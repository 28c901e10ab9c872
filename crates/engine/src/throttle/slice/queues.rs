//! Queues of requests that are past the limit of their cgroup and wait for one further up.

use alloc::vec::Vec;

use crate::requests::Requests;
use crate::tree::List;
use crate::types::{Direction, Instant};

/// The queues of all cgroups. Nothing is allocated, and one branch is what it costs, until a request was in one.
pub(crate) struct SliceQueues {
    cgroups: Vec<CgroupQueues>,
    /// Requests in all queues.
    len: u32,
}

/// Those of one cgroup.
#[derive(Clone)]
struct CgroupQueues {
    to_parent: [List; 2],
    /// Instant at which a head may go, which the timer may precede.
    disptime: Instant,
}

impl SliceQueues {
    pub(crate) const fn new() -> SliceQueues {
        SliceQueues { cgroups: Vec::new(), len: 0 }
    }

    /// Request of `cgroup` that is next at its parent, if one was dispatched there.
    #[inline]
    pub(crate) fn head(&self, cgroup: u32, direction: Direction) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let queue = self.cgroups.get(cgroup as usize)?.to_parent[direction.index()];
        (!queue.is_empty()).then_some(queue.head)
    }

    /// Dequeues what [`SliceQueues::head`] answers.
    #[inline]
    pub(crate) fn pop(
        &mut self,
        requests: &mut Requests,
        cgroup: u32,
        direction: Direction,
    ) -> Option<u32> {
        self.head(cgroup, direction)?;
        self.len -= 1;
        self.queue_mut(cgroup, direction).pop_front(requests)
    }

    pub(super) fn push(
        &mut self,
        requests: &mut Requests,
        cgroup: u32,
        direction: Direction,
        index: u32,
    ) {
        self.len += 1;
        self.queue_mut(cgroup, direction).push_back(requests, index);
    }

    /// Enqueues a request before those that are there.
    pub(super) fn push_front(
        &mut self,
        requests: &mut Requests,
        cgroup: u32,
        direction: Direction,
        index: u32,
    ) {
        self.len += 1;
        self.queue_mut(cgroup, direction).push_front(requests, index);
    }

    /// Takes a request out of the queue of `cgroup`.
    pub(crate) fn remove(
        &mut self,
        requests: &mut Requests,
        cgroup: u32,
        direction: Direction,
        index: u32,
    ) {
        self.len -= 1;
        self.queue_mut(cgroup, direction).remove(requests, index);
    }

    /// Every request in the queue of `cgroup`, oldest first.
    pub(super) fn all(
        &self,
        requests: &mut Requests,
        cgroup: u32,
        direction: Direction,
    ) -> Vec<u32> {
        match self.cgroups.get(cgroup as usize) {
            Some(queues) => queues.to_parent[direction.index()].iter(requests).collect(),
            None => Vec::new(),
        }
    }

    pub(super) fn disptime(&self, cgroup: u32) -> Instant {
        self.cgroups.get(cgroup as usize).map_or(Instant::ZERO, |queues| queues.disptime)
    }

    /// Sets the instant at which a head may go; answers the one before.
    pub(super) fn set_disptime(&mut self, cgroup: u32, disptime: Instant) -> Instant {
        core::mem::replace(&mut self.of_mut(cgroup).disptime, disptime)
    }

    /// Rebases times: the new clock of `cgroup` shows `after` when the old one shows `before`.
    pub(crate) fn shift(&mut self, cgroup: u32, before: Instant, after: Instant) {
        if let Some(queues) = self.cgroups.get_mut(cgroup as usize) {
            queues.disptime = queues.disptime.moved(before, after);
        }
    }

    /// The slot of a cgroup without requests becomes another's.
    pub(crate) fn remove_cgroup(&mut self, cgroup: u32) {
        if let Some(queues) = self.cgroups.get_mut(cgroup as usize) {
            *queues = CgroupQueues::NEW;
        }
    }

    fn queue_mut(&mut self, cgroup: u32, direction: Direction) -> &mut List {
        &mut self.of_mut(cgroup).to_parent[direction.index()]
    }

    fn of_mut(&mut self, cgroup: u32) -> &mut CgroupQueues {
        let at = cgroup as usize;
        if at >= self.cgroups.len() {
            self.cgroups.resize(at + 1, CgroupQueues::NEW);
        }
        &mut self.cgroups[at]
    }
}

impl CgroupQueues {
    const NEW: CgroupQueues = CgroupQueues { to_parent: [List::EMPTY; 2], disptime: Instant::ZERO };
}
