//! Spread of requests over seconds, for traces whose times are whole seconds.
//!
//! Taken literally, all requests of a second come in its first nanosecond, as a burst that never was. So the requests of a
//! second are spread evenly over it, in their order. The first time with a fraction shows that the trace is finer, and ends
//! this.

use std::collections::VecDeque;

use crate::record::Record;

/// Records of one second that are held. Those of a fuller second are spread in parts, each over half of the rest of it.
const HELD_MAX: usize = 1 << 16;

const SECOND_NS: u64 = 1_000_000_000;

/// A record and its line.
pub(crate) type Numbered = (Record, u64);

#[derive(Default)]
pub(crate) struct Spread {
    /// Records of one second, in order.
    held: Vec<Numbered>,
    /// Their time in the trace.
    second_ns: u64,
    /// Begin of the part of the second over which they are spread.
    from_ns: u64,
    /// End of the second.
    to_ns: u64,
    ready: VecDeque<Numbered>,
    moved: u64,
    /// A time had a fraction.
    is_finer: bool,
}

impl Spread {
    /// Records that were moved.
    pub(crate) fn moved(&self) -> u64 {
        self.moved
    }

    /// The next record with its time.
    pub(crate) fn pop(&mut self) -> Option<Numbered> {
        self.ready.pop_front()
    }

    /// Adds a record whose time is whole seconds.
    pub(crate) fn push(&mut self, numbered: Numbered) {
        if self.is_finer {
            self.ready.push_back(numbered);
            return;
        }
        let at_ns = numbered.0.at_ns;
        let is_of_this = at_ns == self.second_ns && !self.held.is_empty();
        if !is_of_this {
            self.release(self.to_ns);
            self.second_ns = at_ns;
            (self.from_ns, self.to_ns) = (at_ns, at_ns.saturating_add(SECOND_NS));
        } else if self.held.len() == HELD_MAX {
            self.release(self.from_ns + (self.to_ns - self.from_ns) / 2);
        }
        self.held.push(numbered);
    }

    /// Ends the trace: spreads the records of its last second over all of it.
    pub(crate) fn finish(&mut self) {
        self.release(self.to_ns);
    }

    /// Adds a record whose time has a fraction: the held ones keep their times.
    pub(crate) fn give_up(&mut self, numbered: Numbered) {
        self.is_finer = true;
        self.ready.extend(self.held.drain(..));
        self.ready.push_back(numbered);
    }

    fn release(&mut self, to_ns: u64) {
        let (count, span) = (self.held.len() as u128, u128::from(to_ns - self.from_ns));
        for (index, (mut record, line)) in self.held.drain(..).enumerate() {
            let at_ns = self.from_ns + (span * index as u128 / count) as u64;
            self.moved += u64::from(at_ns != record.at_ns);
            record.at_ns = at_ns;
            self.ready.push_back((record, line));
        }
        self.from_ns = to_ns;
    }
}
