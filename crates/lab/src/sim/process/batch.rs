//! Batches of completed requests that a process takes: each by itself, or some together (`iodepth_batch_complete_min`).

use weir_fio::stream::{Access, Stream};

use super::{Act, Process, State};

/// A request of a process that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) access: Access,
    pub(crate) len: u32,
    /// On the disk.
    pub(crate) offset: u64,
    pub(crate) issued_ns: u64,
}

impl Process {
    /// So many of its requests, which have ended, are in its hands.
    pub(crate) fn took(&mut self, count: u32) {
        self.in_flight -= count;
        if self.is_plain {
            self.is_filling = true;
            return;
        }
        self.is_filling |= self.in_flight <= self.plan.low;
        let is_rereading = self.stream.as_ref().is_some_and(Stream::is_rereading);
        if let Some(thinking) = self.thinking.as_mut().filter(|_| !is_rereading) {
            (0..count).for_each(|_| thinking.completed());
        }
    }

    /// One of its requests has ended and is to be taken together with others (`iodepth_batch_complete_min`).
    pub(crate) fn put_aside(&mut self, done: Done) {
        self.aside.push(done);
    }

    /// Whether what was put aside is to be taken now. In fsync nothing is; while it waits for the last ones, each is as
    /// it ends: there may never be a full batch.
    pub(crate) fn has_batch(&self) -> bool {
        let least = match self.state {
            State::Blocked => return false,
            State::Draining(_) => 1,
            _ => self.plan.batch.min(self.in_flight),
        };
        !self.aside.is_empty() && self.aside.len() >= least as usize
    }

    /// Requests of those put aside that are taken at once. A full queue is emptied to where it is filled again.
    pub(crate) fn take_count(&self) -> usize {
        let kept = self.aside.len();
        if !self.plan.has_calls || self.is_filling {
            return kept;
        }
        let over = self.in_flight.saturating_sub(self.plan.low).max(self.plan.batch);
        kept.min(over as usize)
    }

    /// Whether requests that have ended wait to be taken, of a process that makes calls.
    pub(super) fn has_kept(&self) -> bool {
        self.plan.has_calls && !self.aside.is_empty()
    }

    /// `act`, or first the taking of what has ended.
    pub(super) fn first_take(&self, act: Act) -> Act {
        if self.has_kept() { Act::Take } else { act }
    }

    /// A request has ended. Answers whether its end is also that of the call that made it.
    pub(crate) fn ends_call(&mut self, access: Access) -> bool {
        let ends = self.is_in_call && self.plan.is_call(access);
        self.is_in_call &= !ends;
        ends
    }

    /// Whether it is in a call that has not returned.
    pub(crate) fn is_in_call(&self) -> bool {
        self.is_in_call
    }

    /// What was put aside; to be given back, for its room.
    pub(crate) fn aside(&mut self) -> &mut Vec<Done> {
        &mut self.aside
    }
}
