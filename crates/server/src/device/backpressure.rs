//! Back-pressure: connections that are not read from until something is given back.

use std::collections::VecDeque;
use std::rc::Rc;

use super::connection::Connection;
use super::quota::{Available, ClientQuota, Waiter};

/// Stalled connections, by what they wait for, and whether some of it was given back.
pub(super) struct Backpressure {
    /// Most requests inside the engine, and at the device.
    requests_max: usize,
    depth: usize,
    /// Clients with connections that wait for what other requests hold.
    clients: VecDeque<Rc<ClientQuota>>,
    /// Connections that waited for their own requests and may go on.
    resumable: VecDeque<Waiter>,
    has_released: bool,
}

impl Backpressure {
    pub(super) fn new(requests_max: usize, depth: usize) -> Backpressure {
        Backpressure {
            requests_max,
            depth,
            clients: VecDeque::new(),
            resumable: VecDeque::new(),
            has_released: false,
        }
    }

    /// What a client may take its part of, with `bytes` of memory free and so many `requests` inside.
    pub(super) fn available(&self, bytes: usize, requests: usize) -> Available {
        let requests = self.requests_max.saturating_sub(requests);
        Available { bytes, requests, depth: self.depth }
    }

    /// Something was given back that stalled connections may wait for.
    pub(super) fn note_released(&mut self) {
        self.has_released = true;
    }

    /// Whether something was given back since the last call.
    pub(super) fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.has_released)
    }

    /// A connection waits for what other requests hold.
    pub(super) fn wait(&mut self, key: usize, connection: &Connection) {
        let waiter = (key, connection.serial);
        if connection.quota.wait(waiter, connection.holds_none()) {
            self.clients.push_back(Rc::clone(&connection.quota));
        }
    }

    /// Whether a client waits for what other requests hold.
    pub(super) fn is_waiting(&self) -> bool {
        !self.clients.is_empty()
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = &Rc<ClientQuota>> {
        self.clients.iter()
    }

    /// How many clients wait.
    pub(super) fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// The client that has waited longest; [`Backpressure::put_back`] takes it again.
    pub(super) fn poll_client(&mut self) -> Option<Rc<ClientQuota>> {
        self.clients.pop_front()
    }

    /// A client that has had its turn: it waits again if any of its connections does.
    pub(super) fn put_back(&mut self, quota: Rc<ClientQuota>) {
        match quota.waiting() {
            [0, 0] => quota.unlist(),
            _ => self.clients.push_back(quota),
        }
    }

    /// A connection may go on that has waited for its own requests, or for the next turn.
    pub(super) fn push_resumable(&mut self, key: usize, serial: u64) {
        self.resumable.push_back((key, serial));
    }

    /// How many connections may go on.
    pub(super) fn resumable_count(&self) -> usize {
        self.resumable.len()
    }

    pub(super) fn poll_resumable(&mut self) -> Option<Waiter> {
        self.resumable.pop_front()
    }
}
