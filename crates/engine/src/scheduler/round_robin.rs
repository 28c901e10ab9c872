//! Round robin: clients take turns, so do the tasks of a client; each task is first in, first out (`scheduler = "none"`).

use alloc::collections::VecDeque;

use crate::requests::Requests;
use crate::tree::{ReadyTurns, Tree};

/// Clients with requests for the device, in the order of their turns. O(1) a step, no allocation once grown.
///
/// A turn is a client's: eight connections of one client get what one connection of another gets.
pub(crate) struct RoundRobin {
    clients: VecDeque<u32>,
    len: u32,
    /// The only request that waits, with its task, in no list. Most requests are dispatched before another comes.
    fast_path: Option<(u32, u32)>,
}

impl RoundRobin {
    pub(crate) fn new() -> RoundRobin {
        RoundRobin { clients: VecDeque::new(), len: 0, fast_path: None }
    }

    /// Requests waiting.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn insert(
        &mut self,
        tree: &mut Tree,
        requests: &mut Requests,
        task: u32,
        index: u32,
    ) {
        self.len += 1;
        // A client whose last request was withdrawn may still be queued.
        if self.len == 1 && self.clients.is_empty() {
            self.fast_path = Some((task, index));
            return;
        }
        self.spill_fast_path(tree, requests);
        self.push(tree, requests, task, index);
    }

    /// Moves the request of the fast path into the lists.
    #[inline]
    pub(crate) fn spill_fast_path(&mut self, tree: &mut Tree, requests: &mut Requests) {
        if let Some((task, index)) = self.fast_path.take() {
            self.push(tree, requests, task, index);
        }
    }

    fn push(&mut self, tree: &mut Tree, requests: &mut Requests, task: u32, index: u32) {
        let flow = &mut tree.tasks[task];
        let is_first = flow.ready.is_empty();
        flow.ready.push_back(requests, index);
        if !is_first {
            return;
        }
        let client_index = flow.client;
        let client = &mut tree.clients[client_index];
        client.ready_turns.push_back(&mut ReadyTurns(&mut tree.tasks), task);
        self.push_client(tree, client_index);
    }

    /// Takes out the request whose turn it is.
    #[inline]
    pub(crate) fn next(&mut self, tree: &mut Tree, requests: &mut Requests) -> Option<u32> {
        if self.len == 0 {
            if !self.clients.is_empty() {
                // Clients whose last request was withdrawn.
                self.leave(tree);
            }
            return None;
        }
        self.len -= 1;
        match self.fast_path.take() {
            Some((_, index)) => Some(index),
            None => Some(self.pop(tree, requests)),
        }
    }

    /// Takes the next request out of the lists, which have one.
    fn pop(&mut self, tree: &mut Tree, requests: &mut Requests) -> u32 {
        loop {
            let client_index =
                self.clients.pop_front().expect("a waiting request has a queued client");
            let client = &mut tree.clients[client_index];
            client.is_queued = false;
            let mut turns = ReadyTurns(&mut tree.tasks);
            // A client whose last request was withdrawn stays queued until its turn.
            let Some(task) = client.ready_turns.pop_front(&mut turns) else { continue };
            let ready = &mut turns.0[task].ready;
            let index = ready.pop_front(requests).expect("a task with a turn has a request");
            if !ready.is_empty() {
                client.ready_turns.push_back(&mut turns, task);
            }
            if !client.ready_turns.is_empty() {
                self.push_client(tree, client_index);
            }
            return index;
        }
    }

    /// Takes out a waiting request.
    pub(crate) fn remove(
        &mut self,
        tree: &mut Tree,
        requests: &mut Requests,
        task: u32,
        index: u32,
    ) {
        self.spill_fast_path(tree, requests);
        self.len -= 1;
        let flow = &mut tree.tasks[task];
        flow.ready.remove(requests, index);
        if flow.ready.is_empty() {
            let client = &mut tree.clients[flow.client];
            client.ready_turns.remove(&mut ReadyTurns(&mut tree.tasks), task);
        }
    }

    /// Forgets a client that has no requests. O(clients waiting) if it is still queued.
    pub(crate) fn forget(&mut self, tree: &Tree, client: u32) {
        if tree.clients[client].is_queued {
            self.clients.retain(|&other| other != client);
        }
    }

    /// Takes all clients out of the queue; no request waits. O(clients waiting).
    pub(crate) fn leave(&mut self, tree: &mut Tree) {
        for client in self.clients.drain(..) {
            tree.clients[client].is_queued = false;
        }
    }

    fn push_client(&mut self, tree: &mut Tree, client: u32) {
        if !core::mem::replace(&mut tree.clients[client].is_queued, true) {
            self.clients.push_back(client);
        }
    }
}
