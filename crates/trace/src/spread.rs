//! Spread of requests over seconds, for traces whose times are whole seconds.
//!
//! Such a trace says of each request only in which second it came. Taken as it is, all requests of a second come in its
//! first nanosecond, and what waits is the burst, not the load. The requests of a second are put evenly over it instead,
//! in their order. The first time with a fraction says that the trace is finer than that, and ends it.

use std::collections::VecDeque;

use crate::record::Record;

/// So many records of one second are held until the second is over. Those of a fuller second are spread in parts, each
/// over half of what is left of it.
const HELD_MAX: usize = 1 << 16;

const SECOND_NS: u64 = 1_000_000_000;

/// A record, and the line that it is from.
pub(crate) type Numbered = (Record, u64);

#[derive(Default)]
pub(crate) struct Spread {
    /// Records of one second, in order.
    held: Vec<Numbered>,
    /// When the trace has them.
    second_ns: u64,
    /// Where the part of the second begins over which they go.
    from_ns: u64,
    /// Where the second ends.
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

    /// The next that has its time.
    pub(crate) fn pop(&mut self) -> Option<Numbered> {
        self.ready.pop_front()
    }

    /// One more, whose time is whole seconds.
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

    /// The trace is over: those of its last second go over all of it, too.
    pub(crate) fn finish(&mut self) {
        self.release(self.to_ns);
    }

    /// One more, whose time has a fraction: the trace is finer, and those held go as they are.
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
