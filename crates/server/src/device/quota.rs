//! Quotas of the memory and the places that requests share, by client and by cgroup.
//!
//! A client may hold as much as is left for the others: alone a half, two of them a third each, and so on, so that
//! there is always something left for one that comes later. All clients of a cgroup together may hold twice what is left:
//! a tenant that starts more processes gets no more than two thirds. Source: dynamic thresholds for shared memory in
//! packet switches, A. Choudhury and E. Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.
//!
//! Connections that hold nothing may go further than those that do, so that one which takes no replies, or sends no
//! payload, does not stop the others of its client. The largest that all clients of one cgroup reach is four fifths.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::waits::StallReason;

/// Bytes of memory that are left for cgroups that hold none: one payload of the largest size.
const RESERVE_BYTES: usize = 32 << 20;

/// The largest request that counts as small, in bytes of memory.
const SMALL_BYTES: usize = 256 << 10;

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

/// What all clients of one cgroup hold.
#[derive(Debug, Default)]
pub(super) struct CgroupQuota {
    bytes: [Cell<usize>; 2],
    sums: Sums,
}

/// What no request holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Available {
    /// Bytes of memory of the kind that is asked for.
    pub(super) bytes: usize,
    /// Requests that the engine would take.
    pub(super) requests: usize,
    /// Requests that any client may have, whatever is left: as many as the device takes at once.
    pub(super) depth: usize,
}

/// What one client holds, and which of its connections wait for more.
#[derive(Debug, Default)]
pub(super) struct ClientQuota {
    bytes: [Cell<usize>; 2],
    requests: Cell<usize>,
    tenant: Rc<CgroupQuota>,
    /// Those that hold nothing, then those that do. Some may be there twice, or have gone on already.
    waiting: [RefCell<VecDeque<Waiter>>; 2],
    is_listed: Cell<bool>,
}

/// A connection by its key and serial.
pub(super) type Waiter = (usize, u64);

/// One request's part, or that of several; given back when dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    quota: Rc<ClientQuota>,
    memory: Memory,
    bytes: usize,
    requests: usize,
}

/// What all clients hold.
#[derive(Debug, Default)]
pub(super) struct MemoryAccount(Sums);

impl MemoryAccount {
    /// A cgroup whose clients hold nothing yet.
    pub(super) fn open(&self) -> Rc<CgroupQuota> {
        Rc::new(CgroupQuota { sums: Rc::clone(&self.0), ..CgroupQuota::default() })
    }

    /// Bytes that all clients hold together.
    pub(super) fn held(&self, memory: Memory) -> usize {
        self.0[memory as usize].get()
    }
}

impl CgroupQuota {
    /// A client that holds nothing yet.
    pub(super) fn open(self: &Rc<CgroupQuota>) -> Rc<ClientQuota> {
        Rc::new(ClientQuota { tenant: Rc::clone(self), ..ClientQuota::default() })
    }
}

impl ClientQuota {
    /// Whether both are of one cgroup.
    pub(super) fn is_beside(&self, other: &ClientQuota) -> bool {
        Rc::ptr_eq(&self.tenant, &other.tenant)
    }

    /// Takes a place for a request with `bytes` of `memory`, or what to wait for when the client or its cgroup has its     /// of what is `available`. `holds_none` tells that the connection holds no such memory yet. O(1).
    pub(super) fn reserve(
        self: &Rc<ClientQuota>,
        memory: Memory,
        bytes: usize,
        holds_none: bool,
        available: Available,
    ) -> Result<Reservation, StallReason> {
        let requests = self.requests.get();
        if requests >= available.requests && requests >= available.depth {
            return Err(StallReason::Queue);
        }
        if bytes > 0 && !self.has_memory(memory, bytes, holds_none, available.bytes) {
            return Err(StallReason::Memory);
        }
        self.add(memory, bytes);
        self.requests.set(requests + 1);
        Ok(Reservation { quota: Rc::clone(self), memory, bytes, requests: 1 })
    }

    /// Whether `bytes` fit below the thresholds of the client and of its cgroup, with `left` bytes free.
    fn has_memory(&self, memory: Memory, bytes: usize, holds_none: bool, left: usize) -> bool {
        let held = self.bytes[memory as usize].get();
        let beside = self.tenant.bytes[memory as usize].get();
        let is_small = bytes <= SMALL_BYTES;
        if beside == 0 {
            // A cgroup's first request leaves a quarter of itself, so that those of any number of cgroups leave something.
            return bytes + bytes / 4 <= left;
        }
        // How many times what is left a client, and its cgroup, may hold; and what must be left besides.
        let (times, times_beside, reserve) = match (holds_none, is_small) {
            (false, _) => (1, 2, RESERVE_BYTES),
            (true, false) => (2, 3, RESERVE_BYTES),
            (true, true) => (4, 4, 0),
        };
        (held / times).max(beside / times_beside) + bytes + reserve <= left
    }

    /// The bytes of `memory` that it holds, its cgroup holds, and all hold.
    fn sums(&self, memory: Memory) -> [&Cell<usize>; 3] {
        let memory = memory as usize;
        [&self.bytes[memory], &self.tenant.bytes[memory], &self.tenant.sums[memory]]
    }

    fn add(&self, memory: Memory, bytes: usize) {
        for held in self.sums(memory) {
            held.set(held.get() + bytes);
        }
    }

    /// Puts a connection in the row of those that wait. `true` if it is the first of its client.
    pub(super) fn wait(&self, connection: Waiter, holds_none: bool) -> bool {
        self.waiting[usize::from(!holds_none)].borrow_mut().push_back(connection);
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

    /// The connection that has waited longest in a row of [`ClientQuota::waiting`].
    pub(super) fn next(&self, row: usize) -> Option<Waiter> {
        self.waiting[row].borrow_mut().pop_front()
    }

    /// Whether `connection` is the one that came last into the row.
    pub(super) fn is_last(&self, row: usize, connection: Waiter) -> bool {
        self.waiting[row].borrow().back() == Some(&connection)
    }

    /// Takes note that no connection waits any more.
    pub(super) fn unlist(&self) {
        self.is_listed.set(false);
    }
}

impl Reservation {
    /// The request is answered, and `rest` was before: their places are free again, not their memory.
    pub(super) fn answered(mut self, rest: Option<Reservation>) -> Reservation {
        let requests = std::mem::take(&mut self.requests);
        self.quota.requests.set(self.quota.requests.get() - requests);
        if let Some(mut rest) = rest {
            debug_assert!(Rc::ptr_eq(&self.quota, &rest.quota) && self.memory == rest.memory);
            self.bytes += std::mem::take(&mut rest.bytes);
        }
        self
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let quota = &self.quota;
        for held in quota.sums(self.memory) {
            held.set(held.get() - self.bytes);
        }
        quota.requests.set(quota.requests.get() - self.requests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn available(account: &MemoryAccount) -> Available {
        Available { bytes: 192 * MIB - account.held(Memory::Replies), requests: 1000, depth: 1 }
    }

    /// Lets `count` clients take MiB after MiB until none gets more; how many each has, of 192.
    fn shares(count: usize) -> Vec<usize> {
        let account = MemoryAccount::default();
        let clients: Vec<Rc<ClientQuota>> = (0..count).map(|_| account.open().open()).collect();
        let mut holds: Vec<Vec<Reservation>> = clients.iter().map(|_| Vec::new()).collect();
        loop {
            let before: usize = holds.iter().map(Vec::len).sum();
            for (client, holds) in clients.iter().zip(&mut holds) {
                holds.extend(client.reserve(Memory::Replies, MIB, false, available(&account)));
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

    /// What `count` clients of one cgroup hold, MiB, that each take a payload of the largest size and then all they get.
    fn held_by_one_cgroup(
        account: &MemoryAccount,
        count: usize,
        holds_none: bool,
        bytes: usize,
    ) -> usize {
        let tenant = account.open();
        let clients: Vec<Rc<ClientQuota>> = (0..count).map(|_| tenant.open()).collect();
        let take = |client: &Rc<ClientQuota>, bytes| {
            client.reserve(Memory::Replies, bytes, holds_none, available(account))
        };
        let mut holds: Vec<Reservation> =
            clients.iter().filter_map(|client| take(client, 32 * MIB).ok()).collect();
        for client in &clients {
            holds.extend(std::iter::from_fn(|| take(client, bytes).ok()));
        }
        let held = account.held(Memory::Replies) / MIB;
        std::mem::forget(holds);
        held
    }

    #[test]
    fn more_clients_of_one_cgroup_leave_room_for_other_cgroups() {
        for count in [1, 6, 1000] {
            for (holds_none, bytes, most) in
                [(false, MIB, 107), (true, MIB, 128), (true, SMALL_BYTES, 154)]
            {
                let account = MemoryAccount::default();
                let held = held_by_one_cgroup(&account, count, holds_none, bytes);
                assert!(held <= most, "{count} reservation {held} MiB");
                let other = account.open().open();
                let large = other.reserve(Memory::Replies, 16 * MIB, false, available(&account));
                assert!(large.is_ok(), "beside {held} MiB of {count} clients");
            }
        }
    }

    /// Clients of ever more cgroups that each take the largest payload leave room for small requests.
    #[test]
    fn first_payloads_of_many_cgroups_leave_room_for_small_requests() {
        let account = MemoryAccount::default();
        let take = |client: Rc<ClientQuota>, bytes| {
            client.reserve(Memory::Replies, bytes, true, available(&account))
        };
        let large: Vec<Reservation> =
            (0..10).filter_map(|_| take(account.open().open(), 32 * MIB).ok()).collect();
        assert_eq!(large.len(), 5);
        let small: Vec<Reservation> =
            (0..100).filter_map(|_| take(account.open().open(), SMALL_BYTES).ok()).collect();
        assert_eq!(small.len(), 100);
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
        let account = MemoryAccount::default();
        let client = account.open().open();
        let take =
            |holds_none| client.reserve(Memory::Replies, MIB, holds_none, available(&account));
        let heavy: Vec<Reservation> = std::iter::from_fn(|| take(false).ok()).collect();
        let light: Vec<Reservation> = std::iter::from_fn(|| take(true).ok()).collect();
        assert_eq!((heavy.len(), light.len()), (80, 27));
        // Another client has its first one, and more.
        let other = account.open().open();
        assert!(other.reserve(Memory::Replies, 32 * MIB, false, available(&account)).is_ok());
    }

    #[test]
    fn places_are_shared_too() {
        let client = Rc::<ClientQuota>::default();
        let available = |requests| Available { bytes: 0, requests, depth: 2 };
        let take = |requests| client.reserve(Memory::Payload, 0, true, available(requests));
        let holds: Vec<Reservation> = (0..).map_while(|taken| take(10 - taken).ok()).collect();
        assert_eq!(holds.len(), 5);
        let other = Rc::<ClientQuota>::default();
        assert!(other.reserve(Memory::Payload, 0, true, available(0)).is_ok());
    }

    #[test]
    fn answers_that_are_not_sent_hold_memory_and_no_place() {
        let account = MemoryAccount::default();
        let client = account.open().open();
        let available = Available { bytes: 192 * MIB, requests: 1000, depth: 1 };
        let mut unsent = None;
        for _ in 0..3 {
            let reservation =
                client.reserve(Memory::Replies, MIB, false, available).expect("there is room");
            unsent = Some(reservation.answered(unsent.take()));
        }
        assert_eq!((client.requests.get(), account.held(Memory::Replies)), (0, 3 * MIB));
        assert_eq!(account.held(Memory::Payload), 0);
        drop(unsent);
        assert_eq!((client.bytes[1].get(), account.held(Memory::Replies)), (0, 0));
    }
}
