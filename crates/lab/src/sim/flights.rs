//! Table of requests in flight.

use std::ops::{Index, IndexMut};

use weir_engine::{Op, Ticket};

use weir_fio::stream::Access;

/// Requests by key. The key that was freed last is used first.
///
/// O(1) each. Unlike `slab`, it knows the next key without touching its slot.
#[derive(Default)]
pub(super) struct Flights {
    places: Vec<Option<Flight>>,
    free: Vec<u32>,
}

impl Flights {
    pub(super) fn next_key(&self) -> usize {
        self.free.last().map_or(self.places.len(), |&key| key as usize)
    }

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

/// One request of a process, or of the page cache on its behalf.
///
/// One cache line: with many requests the time goes into fetching them.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Flight {
    pub(super) purpose: Purpose,
    pub(super) op: Op,
    /// False only for writeback by the page cache's flusher.
    pub(super) sync: bool,
    /// Whether the file system issued it on its own account, as a trace says.
    pub(super) metadata: bool,
    /// The actor that issued it, or is charged for it.
    pub(super) actor: u32,
    pub(super) len: u32,
    pub(super) offset: u64,
    /// When the process issued it; for a request of the page cache, its id there.
    pub(super) issued_ns: u64,
    pub(super) submitted_ns: u64,
    pub(super) dispatched_ns: u64,
    pub(super) ticket: Option<Ticket>,
    /// The next one of the same disk command, or [`NO_FLIGHT`].
    pub(super) joined: u32,
}

pub(super) const NO_FLIGHT: u32 = u32::MAX;

// With the mark of an occupied slot.
const _: () = assert!(size_of::<Option<Flight>>() == 64);

impl Flight {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Io(Access),
    /// A write that a flush follows (`sync=1`).
    SyncedWrite,
    FlushOfWrite,
    /// fsync past the page cache: a flush.
    Fsync,
    /// A call of the page cache, which the disk never sees.
    Cached(Access),
    /// fsync through the page cache, which the disk never sees.
    CachedSync,
    /// A read into the page cache before the process starts (`pre_read`), which the disk never sees.
    PreRead,
    OfCache,
    /// A request of a playback, whose number is in [`Flight::issued_ns`].
    Played,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_was_freed_last_is_used_first() {
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
    fn a_removed_request_cannot_be_used() {
        let mut flights = Flights::default();
        let key = flights.insert(Flight::new(Purpose::Fsync, Op::Flush, 0, 0, 0, 0));
        flights.remove(key);
        let _ = flights[key];
    }
}
