//! Shares of the dirty limit: owners share freed room, page for page.
//!
//! Linux measures how fast the disk takes pages and lets each writer sleep so long that all come to equal rates. Here
//! room is dealt out in turns. An owner keeps its turn for a moment after its write has ended: a writer of 4 KiB at a
//! time is always between two writes when room comes, and would get next to nothing beside one that writes megabytes.
//! Its turns are saved as credit, until it has not come by the next time.

use std::collections::{BTreeMap, VecDeque};

/// Pages of a turn: 128 KiB.
const TURN_PAGES: u64 = 32;

#[derive(Debug, Clone, Default)]
struct Share {
    /// Its waiting writes, in order.
    waiting: VecDeque<u32>,
    /// Pages that it may make dirty.
    credit: u64,
    /// When it last had a turn, and whether it has used it.
    turn_ns: u64,
    is_used: bool,
}

/// The room below the dirty limit among owners. Empty unless a write waits; then no owner makes a page dirty without
/// credit for it. Every call is O(log n) in owners, but for [`Sharing::recall`] and [`Sharing::waiting`].
#[derive(Debug, Clone, Default)]
pub(super) struct Sharing {
    shares: BTreeMap<u32, Share>,
    /// The owners that have a share, by turn.
    ring: VecDeque<u32>,
    waits: usize,
    reserved: u64,
}

impl Sharing {
    /// Whether a write waits, so that pages go by credit.
    pub(super) fn is_on(&self) -> bool {
        self.waits > 0
    }

    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Pages that an owner may make dirty, of `room`.
    pub(super) fn allowed(&self, owner: u32, room: u64) -> u64 {
        if self.shares.is_empty() {
            return room;
        }
        self.shares.get(&owner).map_or(0, |share| share.credit)
    }

    /// An owner has made pages dirty, no more than allowed.
    pub(super) fn take(&mut self, owner: u32, pages: u64) {
        if let Some(share) = self.shares.get_mut(&owner) {
            share.credit -= pages;
            share.is_used = true;
            self.reserved -= pages;
        }
    }

    /// A write waits for room: before the others of its owner, or behind them.
    pub(super) fn wait(&mut self, owner: u32, op: u32, first: bool) {
        let share = self.shares.entry(owner).or_insert_with(|| {
            self.ring.push_back(owner);
            Share::default()
        });
        if first {
            share.waiting.push_front(op);
        } else {
            share.waiting.push_back(op);
        }
        self.waits += 1;
    }

    /// Gives the next owner its turn, with at most `room` less all credit. Returns the write that continues; None if
    /// no write of that owner waits, or nothing is left.
    pub(super) fn deal(&mut self, now_ns: u64, room: u64) -> Option<u32> {
        let owner = self.ring.pop_front()?;
        let share = self.shares.get_mut(&owner).expect("who has a turn has a share");
        if share.waiting.is_empty() && !share.is_used && share.turn_ns < now_ns {
            self.reserved -= share.credit;
            self.shares.remove(&owner);
            return None;
        }
        let pages = TURN_PAGES.min(room.saturating_sub(self.reserved));
        share.credit += pages;
        self.reserved += pages;
        (share.turn_ns, share.is_used) = (now_ns, false);
        self.ring.push_back(owner);
        self.next_of(owner)
    }

    /// The next write of an owner that can continue with its credit.
    pub(super) fn next_of(&mut self, owner: u32) -> Option<u32> {
        let share = self.shares.get_mut(&owner).filter(|share| share.credit > 0)?;
        let op = share.waiting.pop_front()?;
        self.waits -= 1;
        Some(op)
    }

    /// Takes back saved credit: all of it if no write waits, for then no owner needs credit.
    pub(super) fn recall(&mut self) {
        self.reserved = 0;
        if self.waits == 0 {
            self.shares.clear();
            self.ring.clear();
        }
        self.shares.values_mut().for_each(|share| share.credit = 0);
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = u32> {
        self.shares.values().flat_map(|share| share.waiting.iter().copied())
    }

    /// Invariants.
    pub(super) fn check(&self, room: u64) -> Result<(), String> {
        let credit: u64 = self.shares.values().map(|share| share.credit).sum();
        let waits = self.waiting().count();
        if (credit, waits) != (self.reserved, self.waits) || credit > room {
            return Err(format!("{self:?} has {credit} of {room} pages for {waits} writes"));
        }
        if self.ring.len() != self.shares.len() || self.shares.is_empty() == self.is_on() {
            return Err(format!("{self:?} has turns for others"));
        }
        if self.is_on() && credit < room {
            return Err(format!("writes wait though there is room for {room} pages: {self:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_between_two_writes_keeps_its_credit() {
        let mut sharing = Sharing::default();
        assert_eq!(sharing.allowed(1, 100), 100);
        sharing.wait(1, 10, false);
        sharing.wait(2, 20, false);
        // A large write takes all it gets; a small one takes a page, and ends.
        let mut room = 256;
        let mut got = [0, 0];
        while sharing.is_on() && sharing.reserved() < room {
            match sharing.deal(5, room) {
                Some(10) => {
                    let pages = sharing.allowed(1, room);
                    sharing.take(1, pages);
                    (room, got[0]) = (room - pages, got[0] + pages);
                    sharing.wait(1, 10, true);
                }
                Some(20) => {
                    sharing.take(2, 1);
                    (room, got[1]) = (room - 1, got[1] + 1);
                }
                _ => {}
            }
        }
        assert_eq!((got, sharing.allowed(2, room), room), ([128, 1], 127, 127));
        // It comes back for some, and is given more; then not, and the other has its place.
        sharing.take(2, 7);
        room = 120 + 32;
        assert_eq!((sharing.deal(6, room), sharing.allowed(1, room)), (Some(10), 32));
        sharing.take(1, 32);
        sharing.wait(1, 10, true);
        assert_eq!((sharing.deal(6, 130), sharing.allowed(2, 130)), (None, 130));
        assert_eq!((sharing.deal(7, 130), sharing.reserved()), (None, 130));
        sharing.check(130).unwrap();
        assert_eq!((sharing.deal(7, 130), sharing.reserved()), (None, 0));
        assert_eq!((sharing.deal(7, 130), sharing.allowed(1, 130)), (Some(10), 32));
        sharing.recall();
        assert_eq!(sharing.allowed(2, 130), 130);
    }
}
