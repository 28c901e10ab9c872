//! Connections of a device thread, by key: those that are open, and those that are being closed.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use slab::Slab;
use weir_engine::Instant;

use super::connection::Connection;

/// Longest a handshake may take.
const HANDSHAKE_NS: u64 = 10_000_000_000;
/// Longest it may take while others find no place.
const HANDSHAKE_GRACE_NS: u64 = 1_000_000_000;

/// All connections, and lists of those with something to do. A key is used again after its connection is closed; the
/// serial is not.
#[derive(Default)]
pub(super) struct Connections {
    table: Slab<Connection>,
    last_serial: u64,
    /// Handshakes under way, oldest first, and some that are over.
    handshakes: VecDeque<Handshake>,
    /// With replies in their outbox.
    to_send: VecDeque<usize>,
    /// Keys and serials of those that take no replies and whose last request is done.
    answered: Vec<(usize, u64)>,
    without_seat: usize,
    refused: u64,
    dropped: u64,
}

#[derive(Clone, Copy)]
struct Handshake {
    due_ns: u64,
    key: usize,
    serial: u64,
}

impl Connections {
    /// A serial for a new connection.
    pub(super) fn next_serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }

    pub(super) fn insert(&mut self, connection: Connection) -> usize {
        self.without_seat += usize::from(connection.seat.is_err());
        self.table.insert(connection)
    }

    /// Takes note that a handshake begins.
    pub(super) fn begin_handshake(&mut self, now: Instant, key: usize) {
        let due_ns = now.as_nanos().saturating_add(HANDSHAKE_NS);
        let serial = self.table[key].serial;
        self.handshakes.push_back(Handshake { due_ns, key, serial });
    }

    /// When the next handshake must be done, in nanoseconds.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.handshakes.front().map(|handshake| handshake.due_ns)
    }

    /// The next connection whose handshake has taken too long. Amortised O(1).
    pub(super) fn poll_late_handshake(&mut self, now: Instant) -> Option<usize> {
        while let Some(&handshake) = self.handshakes.front() {
            let is_under_way = self.is_shaking_hands(handshake);
            if is_under_way && handshake.due_ns > now.as_nanos() {
                return None;
            }
            self.handshakes.pop_front();
            if is_under_way {
                return Some(handshake.key);
            }
        }
        None
    }

    /// The oldest connection with a seat that has not shaken hands, if that has taken longer than others need wait for a
    /// seat. O(handshakes).
    pub(super) fn slow_handshake(&self, now: Instant) -> Option<usize> {
        let begun_before_ns = now.as_nanos().saturating_sub(HANDSHAKE_GRACE_NS);
        let mut handshakes = self.handshakes.iter().copied();
        let oldest = handshakes.find(|&handshake| {
            self.is_shaking_hands(handshake) && self.table[handshake.key].seat.is_ok()
        })?;
        let is_slow = oldest.due_ns.saturating_sub(HANDSHAKE_NS) <= begun_before_ns;
        is_slow.then_some(oldest.key)
    }

    fn is_shaking_hands(&self, handshake: Handshake) -> bool {
        let Handshake { key, serial, .. } = handshake;
        self.open(key, serial).is_some_and(|connection| connection.bound.is_none())
    }

    /// The connection of `serial`, unless it is being closed or its key is another's.
    pub(super) fn open(&self, key: usize, serial: u64) -> Option<&Connection> {
        let connection = self.table.get(key)?;
        (connection.serial == serial && connection.socket.is_some()).then_some(connection)
    }

    /// As [`Connections::open`].
    pub(super) fn open_mut(&mut self, key: usize, serial: u64) -> Option<&mut Connection> {
        let connection = self.table.get_mut(key)?;
        (connection.serial == serial && connection.socket.is_some()).then_some(connection)
    }

    pub(super) fn get(&self, key: usize) -> Option<&Connection> {
        self.table.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Connection)> {
        self.table.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Connection)> {
        self.table.iter_mut()
    }

    /// Removes a connection on which nothing is in flight any more.
    pub(super) fn remove(&mut self, key: usize) {
        self.table.remove(key);
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// A connection has something to send.
    pub(super) fn queue_send(&mut self, key: usize) {
        if !std::mem::replace(&mut self.table[key].is_queued_to_send, true) {
            self.to_send.push_back(key);
        }
    }

    /// The next connection with something to send.
    pub(super) fn poll_send(&mut self) -> Option<usize> {
        loop {
            let key = self.to_send.pop_front()?;
            if let Some(connection) = self.table.get_mut(key) {
                connection.is_queued_to_send = false;
                return Some(key);
            }
        }
    }

    /// A connection that takes no replies has its last request done.
    pub(super) fn note_answered(&mut self, key: usize) {
        self.answered.push((key, self.table[key].serial));
    }

    /// The next of those connections that is still there.
    pub(super) fn poll_answered(&mut self) -> Option<usize> {
        loop {
            let (key, serial) = self.answered.pop()?;
            if self.table.get(key).is_some_and(|connection| connection.serial == serial) {
                return Some(key);
            }
        }
    }

    /// Connections without a seat that are there to be told so.
    pub(super) fn without_seat(&self) -> usize {
        self.without_seat
    }

    /// A connection without a seat goes.
    pub(super) fn forget_without_seat(&mut self) {
        self.without_seat -= 1;
    }

    pub(super) fn note_refused(&mut self) {
        self.refused += 1;
    }

    pub(super) fn note_dropped(&mut self) {
        self.dropped += 1;
    }

    /// Connections that found no seat.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Connections that were closed because of what their clients did.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Index<usize> for Connections {
    type Output = Connection;

    fn index(&self, key: usize) -> &Connection {
        &self.table[key]
    }
}

impl IndexMut<usize> for Connections {
    fn index_mut(&mut self, key: usize) -> &mut Connection {
        &mut self.table[key]
    }
}
