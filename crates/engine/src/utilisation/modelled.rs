//! `cost`: the share of what the device can do, by its model.

use super::busy::Busy;
use super::cost::{CostModel, Positions};
use super::sliding::Share;
use crate::types::{Instant, Op, Request};

/// What is known of a device that was measured.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Capacity {
    /// What each request takes of it.
    pub costs: CostModel,
    /// Sequential streams that it follows at once, 1 to 64.
    pub streams: u8,
}

/// A device of the model that is given the same requests as the real one: it does one thing at a time and takes the price
/// of each. While it works the real one has no capacity left, whatever its requests wait for; while it rests there is
/// some, whatever is on its way. The share of time that it works is that of the capacity that is used, 100 % at most.
///
/// O(streams) a request that transfers something.
#[derive(Clone, Debug)]
pub(crate) struct Modelled {
    costs: CostModel,
    positions: Positions,
    /// When it has done what it was given.
    free_at: Instant,
    now: Instant,
    busy: Busy,
}

impl Modelled {
    pub(crate) fn new(now: Instant, capacity: Capacity) -> Modelled {
        Modelled {
            costs: capacity.costs,
            positions: Positions::new(capacity.streams.into()),
            free_at: now,
            now,
            busy: Busy::new(now),
        }
    }

    /// Starts to take time into account, at the present instant.
    pub(crate) fn begin(&mut self, now: Instant) {
        (self.now, self.busy) = (now, Busy::new(now));
    }

    /// A request goes to the device; returns its price in nanoseconds.
    pub(crate) fn take(&mut self, now: Instant, request: &Request) -> u64 {
        let Request { op, extent, .. } = *request;
        if !matches!(op, Op::Read | Op::Cache | Op::Write) {
            return 0;
        }
        let is_sequential = self.positions.is_sequential(extent);
        let price_ns = self.costs.price(op, extent.len, is_sequential).as_nanos();
        self.free_at = self.free_at.max(now).plus_nanos(price_ns);
        price_ns
    }

    /// When it rests, if it is given nothing more.
    pub(crate) fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Time goes on to `now`. `tell` is told the parts of that time in order: each part's end, and whether it worked.
    pub(crate) fn advance(&mut self, now: Instant, mut tell: impl FnMut(Instant, bool)) {
        let rests = self.free_at.min(now);
        for (until, works) in [(rests, true), (now, false)] {
            if until > self.now {
                self.busy.advance(until, works);
                tell(until, works);
                self.now = until;
            }
        }
    }

    /// The share of the last half second in which it worked.
    pub(crate) fn share(&self) -> Share {
        self.busy.share()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::types::{Extent, TaskId};
    use crate::utilisation::cost::CostFigures;

    /// 4 KiB in order take 1 ms, at random 5 ms, and each further page 0.5 ms.
    fn disk() -> Modelled {
        let figures = CostFigures::new(8_192_000, 1000, 200).unwrap();
        let capacity = Capacity { costs: CostModel::new(figures, figures), streams: 1 };
        Modelled::new(Instant::ZERO, capacity)
    }

    fn request(op: Op, offset: u64, len: u32) -> Request {
        Request::new(TaskId { index: 0, generation: 0 }, op, Extent::new(offset, len), 0)
    }

    #[test]
    fn requests_take_their_prices_one_after_the_other() {
        let mut disk = disk();
        let ms = |disk: &Modelled| (disk.free_at().as_nanos() + 500_000) / 1_000_000;
        let at = Instant::from_millis;
        disk.take(at(10), &request(Op::Read, 0, 4096));
        assert_eq!(ms(&disk), 11);
        disk.take(at(10), &request(Op::Write, 1 << 30, 8192));
        assert_eq!(ms(&disk), 17, "5.5 ms more, rounded");
        disk.take(at(10), &request(Op::Flush, 0, 0));
        disk.take(at(10), &request(Op::Discard, 0, 1 << 30));
        assert_eq!(ms(&disk), 17);
        // It has rested since.
        disk.take(at(50), &request(Op::Read, (1 << 30) + 8192, 4096));
        assert_eq!(ms(&disk), 51);
    }

    #[test]
    fn the_share_is_that_of_the_capacity() {
        let mut disk = disk();
        for turn in 0..1000 {
            let now = Instant::from_millis(turn * 2);
            disk.advance(now, |_, _| {});
            // All at once, as a device with a queue is given them; two of five are for nothing.
            if turn % 5 == 0 {
                for number in 0..3 {
                    disk.take(now, &request(Op::Read, (turn + number) * 4096, 4096));
                }
            }
        }
        let share = disk.share().millionths();
        assert!((295_000..=305_000).contains(&share), "{share}");
    }

    #[test]
    fn time_is_told_once_in_parts() {
        let mut disk = disk();
        disk.take(Instant::ZERO, &request(Op::Read, 0, 4096));
        let mut told = Vec::new();
        for at in [0, 400_000, 5_000_000, 5_000_000] {
            disk.advance(Instant::from_nanos(at), |until, works| {
                told.push((until.as_nanos(), works));
            });
        }
        let free = disk.free_at().as_nanos();
        assert_eq!(told, [(400_000, true), (free, true), (5_000_000, false)]);
    }
}
