//! Range locks of writes to a device that only takes whole blocks.
//!
//! A write of part of a block is done by reading the block, changing the part, and writing the block back. Between the
//! two no other operation may write the block, or their bytes would be undone. So such a write claims its blocks for itself,
//! and plain writes claim theirs together with other plain writes.

use std::collections::VecDeque;

/// Bytes `start..end` that a write is going to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Whether no other write may run there at the same time.
    pub(crate) alone: bool,
}

/// A claim that was granted; to be released.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct ClaimId(u32);

/// The claims of one device. `T` is what waits for a claim.
///
/// First come, first served among those that conflict; others overtake. Without claims `alone`, a claim costs a few
/// nanoseconds; with them, time in proportion to the writes in flight.
pub(crate) struct Ranges<T> {
    granted: Vec<Option<Claim>>,
    vacant: Vec<u32>,
    /// Granted claims that are `alone`.
    alone: u32,
    waiting: VecDeque<(Claim, T)>,
}

impl Claim {
    fn conflicts(&self, other: &Claim) -> bool {
        (self.alone || other.alone) && self.start < other.end && other.start < self.end
    }
}

impl<T> Ranges<T> {
    pub(crate) fn new() -> Ranges<T> {
        let (granted, vacant) = (Vec::new(), Vec::new());
        Ranges { granted, vacant, alone: 0, waiting: VecDeque::new() }
    }

    /// Claims for `what`, which comes back with the claim, at once or later from [`Ranges::poll_granted`].
    pub(crate) fn claim(&mut self, claim: Claim, what: T) -> Option<(ClaimId, T)> {
        if !self.is_free(&claim, self.waiting.len()) {
            self.waiting.push_back((claim, what));
            return None;
        }
        Some((self.grant(claim), what))
    }

    /// Gives a claim back. Then ask [`Ranges::poll_granted`] until it answers `None`.
    pub(crate) fn release(&mut self, id: ClaimId) {
        let claim = self.granted[id.0 as usize].take().expect("released once");
        self.alone -= u32::from(claim.alone);
        self.vacant.push(id.0);
    }

    /// The first of the waiting that may go now.
    pub(crate) fn poll_granted(&mut self) -> Option<(ClaimId, T)> {
        let index =
            (0..self.waiting.len()).find(|&index| self.is_free(&self.waiting[index].0, index))?;
        let (claim, what) = self.waiting.remove(index)?;
        Some((self.grant(claim), what))
    }

    /// Whether `claim` conflicts neither with what runs nor with the first `before` that wait.
    fn is_free(&self, claim: &Claim, before: usize) -> bool {
        if !claim.alone && self.alone == 0 && before == 0 {
            return true;
        }
        let mut running = self.granted.iter().flatten();
        let mut ahead = self.waiting.iter().take(before);
        !running.any(|other| claim.conflicts(other))
            && !ahead.any(|(other, _)| claim.conflicts(other))
    }

    fn grant(&mut self, claim: Claim) -> ClaimId {
        self.alone += u32::from(claim.alone);
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.granted.push(None);
            self.granted.len() as u32 - 1
        });
        self.granted[index as usize] = Some(claim);
        ClaimId(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(start: u64, end: u64) -> Claim {
        Claim { start, end, alone: false }
    }

    fn alone(start: u64, end: u64) -> Claim {
        Claim { start, end, alone: true }
    }

    #[test]
    fn plain_writes_never_wait_for_each_other() {
        let mut ranges = Ranges::new();
        assert!(ranges.claim(plain(0, 100), 1).is_some());
        assert!(ranges.claim(plain(50, 150), 2).is_some());
        assert!(ranges.poll_granted().is_none());
    }

    #[test]
    fn partial_writes_of_one_block_go_one_at_a_time_in_order() {
        let mut ranges = Ranges::new();
        let (first, _) = ranges.claim(plain(0, 4), "plain").unwrap();
        assert!(ranges.claim(alone(2, 6), "part").is_none());
        // Behind the one that waits, though it would not conflict with the one that runs.
        assert!(ranges.claim(plain(4, 8), "behind").is_none());
        assert!(ranges.claim(alone(5, 9), "last").is_none());
        let (elsewhere, _) = ranges.claim(alone(9, 12), "elsewhere").unwrap();
        assert!(ranges.poll_granted().is_none());
        ranges.release(elsewhere);
        assert!(ranges.poll_granted().is_none());
        ranges.release(first);
        let (part, what) = ranges.poll_granted().unwrap();
        assert_eq!(what, "part");
        assert!(ranges.poll_granted().is_none());
        ranges.release(part);
        let (behind, what) = ranges.poll_granted().unwrap();
        assert_eq!(what, "behind");
        assert!(ranges.poll_granted().is_none());
        ranges.release(behind);
        let (last, what) = ranges.poll_granted().unwrap();
        assert_eq!(what, "last");
        ranges.release(last);
        assert!(ranges.claim(alone(0, 100), "all").is_some());
    }

    #[test]
    fn adjacent_ranges_do_not_overlap() {
        let mut ranges = Ranges::new();
        assert!(ranges.claim(alone(0, 4), 1).is_some());
        assert!(ranges.claim(alone(4, 8), 2).is_some());
        assert!(ranges.claim(plain(3, 4), 3).is_none());
    }
}
