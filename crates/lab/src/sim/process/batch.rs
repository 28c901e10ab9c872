//! Batches of completed requests that a process takes (`iodepth_batch_complete_min`).

use weir_fio::stream::{Access, Stream};

use super::{Act, Process, State};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) access: Access,
    pub(crate) len: u32,
    /// On the disk.
    pub(crate) offset: u64,
    pub(crate) issued_ns: u64,
}

impl Process {
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

    /// Puts an ended request aside until its batch is complete.
    pub(crate) fn put_aside(&mut self, done: Done) {
        self.aside.push(done);
    }

    /// Whether the batch is to be taken now: never in fsync, and each request by itself at the end, when a batch may
    /// never be full.
    pub(crate) fn has_batch(&self) -> bool {
        let least = match self.state {
            State::Blocked => return false,
            State::Draining(_) => 1,
            _ => self.plan.batch.min(self.in_flight),
        };
        !self.aside.is_empty() && self.aside.len() >= least as usize
    }

    /// Size of the batch. A full queue drains to `low`.
    pub(crate) fn take_count(&self) -> usize {
        let kept = self.aside.len();
        if !self.plan.has_calls || self.is_filling {
            return kept;
        }
        let over = self.in_flight.saturating_sub(self.plan.low).max(self.plan.batch);
        kept.min(over as usize)
    }

    /// Whether ended requests wait to be taken, in a process that makes calls.
    pub(super) fn has_kept(&self) -> bool {
        self.plan.has_calls && !self.aside.is_empty()
    }

    /// `act`, unless a batch is to be taken first.
    pub(super) fn first_take(&self, act: Act) -> Act {
        if self.has_kept() { Act::Take } else { act }
    }

    /// True if the end of a request is also that of the call that made it.
    pub(crate) fn ends_call(&mut self, access: Access) -> bool {
        let ends = self.is_in_call && self.plan.is_call(access);
        self.is_in_call &= !ends;
        ends
    }

    pub(crate) fn is_in_call(&self) -> bool {
        self.is_in_call
    }

    /// The requests put aside; the vector is given back for its capacity.
    pub(crate) fn aside(&mut self) -> &mut Vec<Done> {
        &mut self.aside
    }
}
