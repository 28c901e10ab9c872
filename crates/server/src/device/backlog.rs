//! What the requests of each client hold of what all share, so that the backlog of one is in nobody else's way.
//!
//! A client may hold as much as is left for the others: alone a half, two of them a third each, and so on, so that
//! there is always something left for one that comes later. Source: dynamic thresholds for shared memory in packet
//! switches, A. Choudhury and E. Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.
//!
//! Among the connections of one client those that hold nothing may go further than those that do, so that one which
//! takes no replies, or sends no payload, is not in the way of the others either.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes of memory that only a client which holds none may have: one payload of the largest size.
const RESERVE_BYTES: usize = 32 << 20;

/// What memory is for. Each kind has its own, so that neither can use up the other's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Memory {
    /// Payload of writes, from the moment it is announced until the device has it.
    Payload,
    /// Replies to reads, from the moment the request is taken until the reply is sent.
    Replies,
}

/// Bytes of each kind of memory, held by all clients together.
type Sums = Rc<[Cell<usize>; 2]>;

/// What is not held by anybody.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// Bytes of memory of the kind that is asked for.
    pub(super) bytes: usize,
    /// Requests that the engine would take.
    pub(super) requests: usize,
    /// Requests that any client may have, whatever is left: as many as the device takes at once.
    pub(super) depth: usize,
}

/// What one client holds, and which of its connections wait for more.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    bytes: [Cell<usize>; 2],
    requests: Cell<usize>,
    sums: Sums,
    /// Those that hold nothing, then those that do. Some may be there twice, or have gone on already.
    waiting: [RefCell<VecDeque<Waiter>>; 2],
    is_listed: Cell<bool>,
}

/// A connection by its key and serial.
pub(super) type Waiter = (usize, u64);

/// One request's part, or that of several; given back when dropped.
#[derive(Debug)]
pub(super) struct Hold {
    backlog: Rc<Backlog>,
    memory: Memory,
    bytes: usize,
    requests: usize,
}

/// What all clients hold.
#[derive(Debug, Default)]
pub(super) struct Account(Sums);

impl Account {
    /// A client that holds nothing yet.
    pub(super) fn open(&self) -> Rc<Backlog> {
        Rc::new(Backlog { sums: Rc::clone(&self.0), ..Backlog::default() })
    }

    /// Bytes that all clients hold together.
    pub(super) fn held(&self, memory: Memory) -> usize {
        self.0[memory as usize].get()
    }
}

impl Backlog {
    /// Takes a place for a request with `bytes` of `memory`, or `None` when the client has its part of what is `left`.
    /// `is_light` tells that the connection holds nothing yet.
    pub(super) fn hold(
        self: &Rc<Backlog>,
        memory: Memory,
        bytes: usize,
        is_light: bool,
        left: Left,
    ) -> Option<Hold> {
        let (held, requests) = (self.bytes[memory as usize].get(), self.requests.get());
        let counted = if is_light { held / 2 } else { held };
        let is_first = held == 0 && bytes <= left.bytes;
        let has_memory = bytes == 0 || is_first || counted + bytes + RESERVE_BYTES <= left.bytes;
        let has_place = requests < left.requests || requests < left.depth;
        if !has_memory || !has_place {
            return None;
        }
        self.add(memory, bytes);
        self.requests.set(requests + 1);
        Some(Hold { backlog: Rc::clone(self), memory, bytes, requests: 1 })
    }

    fn add(&self, memory: Memory, bytes: usize) {
        for held in [&self.bytes[memory as usize], &self.sums[memory as usize]] {
            held.set(held.get() + bytes);
        }
    }

    /// Puts a connection in the row of those that wait. `true` if nobody knew yet that this client waits.
    pub(super) fn wait(&self, connection: Waiter, is_light: bool) -> bool {
        self.waiting[usize::from(!is_light)].borrow_mut().push_back(connection);
        !self.is_listed.replace(true)
    }

    /// How many connections wait, of those that hold nothing and of those that do.
    pub(super) fn waiting(&self) -> [usize; 2] {
        [0, 1].map(|row| self.waiting[row].borrow().len())
    }

    /// Whether any connection that waits is as asked.
    pub(super) fn any_waiting(&self, is: impl Fn(Waiter) -> bool) -> bool {
        self.waiting.iter().any(|row| row.borrow().iter().any(|&connection| is(connection)))
    }

    /// The connection that has waited longest in a row of [`Backlog::waiting`].
    pub(super) fn next(&self, row: usize) -> Option<Waiter> {
        self.waiting[row].borrow_mut().pop_front()
    }

    /// Whether `connection` is the one that came last into the row.
    pub(super) fn is_last(&self, row: usize, connection: Waiter) -> bool {
        self.waiting[row].borrow().back() == Some(&connection)
    }

    /// Takes note that nobody waits any more.
    pub(super) fn unlist(&self) {
        self.is_listed.set(false);
    }
}

impl Hold {
    /// The request is answered, and `rest` was before: their places are free again, not their memory.
    pub(super) fn answered(mut self, rest: Option<Hold>) -> Hold {
        let requests = std::mem::take(&mut self.requests);
        self.backlog.requests.set(self.backlog.requests.get() - requests);
        if let Some(mut rest) = rest {
            debug_assert!(Rc::ptr_eq(&self.backlog, &rest.backlog) && self.memory == rest.memory);
            self.bytes += std::mem::take(&mut rest.bytes);
        }
        self
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let (backlog, memory) = (&self.backlog, self.memory as usize);
        for held in [&backlog.bytes[memory], &backlog.sums[memory]] {
            held.set(held.get() - self.bytes);
        }
        backlog.requests.set(backlog.requests.get() - self.requests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn left(account: &Account) -> Left {
        Left { bytes: 192 * MIB - account.held(Memory::Replies), requests: 1000, depth: 1 }
    }

    /// Lets `count` clients take MiB after MiB until none gets more; how many each has, of 192.
    fn shares(count: usize) -> Vec<usize> {
        let account = Account::default();
        let clients: Vec<Rc<Backlog>> = (0..count).map(|_| account.open()).collect();
        let mut holds: Vec<Vec<Hold>> = clients.iter().map(|_| Vec::new()).collect();
        loop {
            let before: usize = holds.iter().map(Vec::len).sum();
            for (client, holds) in clients.iter().zip(&mut holds) {
                holds.extend(client.hold(Memory::Replies, MIB, false, left(&account)));
            }
            if holds.iter().map(Vec::len).sum::<usize>() == before {
                break;
            }
        }
        let shares = holds.iter().map(Vec::len).collect();
        drop(holds);
        assert_eq!(account.held(Memory::Replies), 0);
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
    fn a_connection_that_holds_nothing_goes_further_than_one_that_does() {
        let account = Account::default();
        let client = account.open();
        let take = |is_light| client.hold(Memory::Replies, MIB, is_light, left(&account));
        let heavy: Vec<Hold> = std::iter::from_fn(|| take(false)).collect();
        let light: Vec<Hold> = std::iter::from_fn(|| take(true)).collect();
        assert_eq!((heavy.len(), light.len()), (80, 27));
        // Another client has its first one, and more.
        let other = account.open();
        assert!(other.hold(Memory::Replies, 32 * MIB, false, left(&account)).is_some());
    }

    #[test]
    fn places_are_shared_too() {
        let client = Rc::<Backlog>::default();
        let left = |requests| Left { bytes: 0, requests, depth: 2 };
        let take = |requests| client.hold(Memory::Payload, 0, true, left(requests));
        let holds: Vec<Hold> = (0..).map_while(|taken| take(10 - taken)).collect();
        assert_eq!(holds.len(), 5);
        let other = Rc::<Backlog>::default();
        assert!(other.hold(Memory::Payload, 0, true, left(0)).is_some());
    }

    #[test]
    fn answers_that_are_not_sent_hold_memory_and_no_place() {
        let account = Account::default();
        let client = account.open();
        let left = Left { bytes: 192 * MIB, requests: 1000, depth: 1 };
        let mut unsent = None;
        for _ in 0..3 {
            let hold = client.hold(Memory::Replies, MIB, false, left).expect("there is room");
            unsent = Some(hold.answered(unsent.take()));
        }
        assert_eq!((client.requests.get(), account.held(Memory::Replies)), (0, 3 * MIB));
        assert_eq!(account.held(Memory::Payload), 0);
        drop(unsent);
        assert_eq!((client.bytes[1].get(), account.held(Memory::Replies)), (0, 0));
    }
}
