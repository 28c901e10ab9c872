//! Requests on their way.

use std::ops::{Index, IndexMut};

use weir_engine::{Op, Ticket};

use weir_fio::stream::Access;

/// Requests by their keys. A key is given again as soon as its request is gone, the last one first.
///
/// O(1) each. Apart from `slab`, which cannot ask for a place without looking at it.
#[derive(Default)]
pub(super) struct Flights {
    /// None where one is gone.
    places: Vec<Option<Flight>>,
    free: Vec<u32>,
}

impl Flights {
    /// The key that the next one gets.
    pub(super) fn next_key(&self) -> usize {
        self.free.last().map_or(self.places.len(), |&key| key as usize)
    }

    /// Answers its key.
    #[inline]
    pub(super) fn insert(&mut self, flight: Flight) -> usize {
        match self.free.pop() {
            Some(key) => {
                self.places[key as usize] = Some(flight);
                key as usize
            }
            None => {
                self.places.push(Some(flight));
                self.places.len() - 1
            }
        }
    }

    /// The one of `key`, which is gone then.
    #[inline]
    pub(super) fn remove(&mut self, key: usize) -> Flight {
        let flight = self.places[key].take().expect("a request that is on its way");
        self.free.push(key as u32);
        flight
    }
}

impl Index<usize> for Flights {
    type Output = Flight;

    #[inline]
    fn index(&self, key: usize) -> &Flight {
        self.places[key].as_ref().expect("a request that is on its way")
    }
}

impl IndexMut<usize> for Flights {
    #[inline]
    fn index_mut(&mut self, key: usize) -> &mut Flight {
        self.places[key].as_mut().expect("a request that is on its way")
    }
}

/// One request: of a process, or of the page cache for one.
///
/// One line of cache, for with many of them the time goes into fetching them from memory.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Flight {
    pub(super) purpose: Purpose,
    pub(super) op: Op,
    /// Whether somebody waits for it: not so for what the page cache writes back by itself.
    pub(super) sync: bool,
    /// Whether the file system makes it on its own account, as a trace says.
    pub(super) metadata: bool,
    /// Who made it, among the actors; for the page cache's, who is charged.
    pub(super) actor: u32,
    pub(super) len: u32,
    /// On the disk.
    pub(super) offset: u64,
    /// When the process made it; for a request of the page cache, its number there.
    pub(super) issued_ns: u64,
    /// When the engine took it in.
    pub(super) submitted_ns: u64,
    pub(super) dispatched_ns: u64,
    /// While it is at the disk.
    pub(super) ticket: Option<Ticket>,
    /// The one that is joined to it at the disk; [`NO_FLIGHT`] for none.
    pub(super) joined: u32,
}

/// The key of none.
pub(super) const NO_FLIGHT: u32 = u32::MAX;

// With the mark of an occupied slot.
const _: () = assert!(size_of::<Option<Flight>>() == 64);

impl Flight {
    /// One that is made at `now_ns`.
    #[inline]
    pub(super) fn new(
        purpose: Purpose,
        op: Op,
        actor: u32,
        offset: u64,
        len: u32,
        now_ns: u64,
    ) -> Flight {
        Flight {
            purpose,
            op,
            sync: true,
            metadata: false,
            actor,
            len,
            offset,
            issued_ns: now_ns,
            submitted_ns: now_ns,
            dispatched_ns: 0,
            ticket: None,
            joined: NO_FLIGHT,
        }
    }
}

/// What happens when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The process goes on.
    Io(Access),
    /// A write of a process, to be followed by a flush (`sync=1`).
    SyncedWrite,
    /// That flush.
    FlushOfWrite,
    /// fsync past the page cache: a flush.
    Fsync,
    /// An operation on the page cache; never at the disk itself.
    Cached(Access),
    /// fsync through the page cache; never at the disk itself.
    CachedSync,
    /// A read into the page cache before the process starts (`pre_read`); never at the disk itself.
    PreRead,
    /// A request of the page cache.
    OfCache,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_given_again_when_its_request_is_gone_the_last_one_first() {
        let flight = |actor| Flight::new(Purpose::Fsync, Op::Flush, actor, 0, 0, 0);
        let mut flights = Flights::default();
        for actor in 0..4 {
            let key = flights.next_key();
            assert_eq!((flights.insert(flight(actor)), key), (actor as usize, actor as usize));
        }
        assert_eq!((flights.remove(1).actor, flights.remove(3).actor), (1, 3));
        for (key, actor) in [(3, 5), (1, 6), (4, 7)] {
            assert_eq!((flights.next_key(), flights.insert(flight(actor))), (key, key));
            assert_eq!(flights[key].actor, actor);
        }
        flights[4].len = 8;
        assert_eq!(flights[4].len, 8);
    }

    #[test]
    #[should_panic(expected = "on its way")]
    fn a_request_that_is_gone_is_not_there() {
        let mut flights = Flights::default();
        let key = flights.insert(Flight::new(Purpose::Fsync, Op::Flush, 0, 0, 0, 0));
        flights.remove(key);
        let _ = flights[key];
    }
}
