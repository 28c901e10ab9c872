//! What the requests of each client hold of what all share, so that the backlog of one is in nobody else's way.
//!
//! A client may hold as much as is left for the others: alone a half, two of them a third each, and so on, so that
//! there is always something left for one that comes later. Source: dynamic thresholds for shared memory in packet
//! switches, A. Choudhury and E. Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes of memory that only a client which holds none may have: one payload of the largest size.
const RESERVE_BYTES: usize = 32 << 20;

/// What is not held by anybody.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// Bytes of memory for the payload of writes.
    pub(super) bytes: usize,
    /// Requests that the engine would take.
    pub(super) requests: usize,
    /// Requests that any client may have, whatever is left: as many as the device takes at once.
    pub(super) depth: usize,
}

/// What one client holds, and which of its connections wait for more.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    bytes: Cell<usize>,
    requests: Cell<usize>,
    waiting: RefCell<VecDeque<(usize, u64)>>,
    is_listed: Cell<bool>,
}

/// One request's part; given back when dropped.
#[derive(Debug)]
pub(super) struct Hold {
    backlog: Rc<Backlog>,
    bytes: usize,
}

impl Backlog {
    /// Takes a place for a request with `bytes` of payload, or `None` when the client has its part of what is `left`.
    pub(super) fn hold(self: &Rc<Backlog>, bytes: usize, left: Left) -> Option<Hold> {
        let (held, requests) = (self.bytes.get(), self.requests.get());
        let is_first = held == 0 && bytes <= left.bytes;
        let has_memory = bytes == 0 || is_first || held + bytes + RESERVE_BYTES <= left.bytes;
        let has_place = requests < left.requests || requests < left.depth;
        if !has_memory || !has_place {
            return None;
        }
        self.bytes.set(held + bytes);
        self.requests.set(requests + 1);
        Some(Hold { backlog: Rc::clone(self), bytes })
    }

    /// Puts a connection, by its key and serial, in the row of those that wait. `true` if nobody knew yet that this
    /// client waits.
    pub(super) fn wait(&self, connection: (usize, u64)) -> bool {
        self.waiting.borrow_mut().push_back(connection);
        !self.is_listed.replace(true)
    }

    /// How many connections wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// The connection that has waited longest.
    pub(super) fn next(&self) -> Option<(usize, u64)> {
        self.waiting.borrow_mut().pop_front()
    }

    /// Whether `connection` is the one that came to wait last.
    pub(super) fn is_last(&self, connection: (usize, u64)) -> bool {
        self.waiting.borrow().back() == Some(&connection)
    }

    /// Takes note that nobody waits any more.
    pub(super) fn unlist(&self) {
        self.is_listed.set(false);
    }

    /// Whether somebody waits.
    pub(super) fn is_listed(&self) -> bool {
        self.is_listed.get()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.backlog.bytes.set(self.backlog.bytes.get() - self.bytes);
        self.backlog.requests.set(self.backlog.requests.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Lets `count` clients take MiB after MiB until none gets more; how many each has, of 192.
    fn shares(count: usize) -> Vec<usize> {
        let clients: Vec<Rc<Backlog>> = (0..count).map(|_| Rc::default()).collect();
        let mut holds: Vec<Vec<Hold>> = clients.iter().map(|_| Vec::new()).collect();
        loop {
            let before: usize = holds.iter().map(Vec::len).sum();
            for (client, holds) in clients.iter().zip(&mut holds) {
                let taken: usize = clients.iter().map(|client| client.bytes.get()).sum();
                let left = Left { bytes: 192 * MIB - taken, requests: 1000, depth: 1 };
                holds.extend(client.hold(MIB, left));
            }
            if holds.iter().map(Vec::len).sum::<usize>() == before {
                break;
            }
        }
        let shares = holds.iter().map(Vec::len).collect();
        drop(holds);
        assert!(clients.iter().all(|client| client.bytes.get() == 0));
        shares
    }

    #[test]
    fn there_is_always_something_left() {
        assert_eq!(shares(1), [80]);
        assert_eq!(shares(2), [54, 53]);
        assert_eq!(shares(7), [20; 7]);
        assert!(shares(50).iter().all(|&share| (2..=4).contains(&share)));
    }

    #[test]
    fn places_are_shared_too() {
        let client = Rc::<Backlog>::default();
        let take = |requests| client.hold(0, Left { bytes: 0, requests, depth: 2 });
        let holds: Vec<Hold> = (0..).map_while(|taken| take(10 - taken)).collect();
        assert_eq!(holds.len(), 5);
        let other = Rc::<Backlog>::default();
        assert!(other.hold(0, Left { bytes: 0, requests: 0, depth: 2 }).is_some());
    }
}
