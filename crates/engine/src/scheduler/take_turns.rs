//! `scheduler = "none"`: first in, first out per task; tasks of a client take turns, and so do clients.

use alloc::collections::VecDeque;

use crate::requests::Requests;
use crate::tree::{ReadyTurns, Tree};

/// Clients with requests for the device, in turn order. O(1) a step, no allocation once grown.
///
/// The turn is the client's: eight connections of one client get what one connection of another gets.
pub(crate) struct TakeTurns {
    clients: VecDeque<u32>,
    len: u32,
    /// The only request that waits, with its task: mostly it is gone before another comes, and whose turn it is was no
    /// question.
    only: Option<(u32, u32)>,
}

impl TakeTurns {
    pub(crate) fn new() -> TakeTurns {
        TakeTurns { clients: VecDeque::new(), len: 0, only: None }
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
        // A client whose last request was withdrawn may still have a place.
        if self.len == 1 && self.clients.is_empty() {
            self.only = Some((task, index));
            return;
        }
        self.line_up(tree, requests);
        self.push(tree, requests, task, index);
    }

    /// Puts the only one that waits, if there is one that is by itself, into the lists in which all others are.
    #[inline]
    pub(crate) fn line_up(&mut self, tree: &mut Tree, requests: &mut Requests) {
        if let Some((task, index)) = self.only.take() {
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
        self.enqueue(tree, client_index);
    }

    /// The request whose turn it is.
    #[inline]
    pub(crate) fn next(&mut self, tree: &mut Tree, requests: &mut Requests) -> Option<u32> {
        if self.len == 0 {
            if !self.clients.is_empty() {
                // Places that were kept for nothing.
                self.leave(tree);
            }
            return None;
        }
        self.len -= 1;
        match self.only.take() {
            Some((_, index)) => Some(index),
            None => Some(self.pop(tree, requests)),
        }
    }

    /// The same where there is one and it is in the lists.
    fn pop(&mut self, tree: &mut Tree, requests: &mut Requests) -> u32 {
        loop {
            let client_index = self.clients.pop_front().expect("who waits has a place");
            let client = &mut tree.clients[client_index];
            client.has_turn = false;
            let mut turns = ReadyTurns(&mut tree.tasks);
            // A client whose last request was withdrawn keeps its place until it comes up.
            let Some(task) = client.ready_turns.pop_front(&mut turns) else { continue };
            let ready = &mut turns.0[task].ready;
            let index = ready.pop_front(requests).expect("a task with a turn has a request");
            if !ready.is_empty() {
                client.ready_turns.push_back(&mut turns, task);
            }
            if !client.ready_turns.is_empty() {
                self.enqueue(tree, client_index);
            }
            return index;
        }
    }

    /// Takes out a request that waits.
    pub(crate) fn remove(
        &mut self,
        tree: &mut Tree,
        requests: &mut Requests,
        task: u32,
        index: u32,
    ) {
        self.line_up(tree, requests);
        self.len -= 1;
        let flow = &mut tree.tasks[task];
        flow.ready.remove(requests, index);
        if flow.ready.is_empty() {
            let client = &mut tree.clients[flow.client];
            client.ready_turns.remove(&mut ReadyTurns(&mut tree.tasks), task);
        }
    }

    /// Forgets a client that is going away; it has no request left. O(clients waiting), if it still has a place.
    pub(crate) fn forget(&mut self, tree: &Tree, client: u32) {
        if tree.clients[client].has_turn {
            self.clients.retain(|&other| other != client);
        }
    }

    /// Nobody has a turn any more; there is no request left. O(clients waiting).
    pub(crate) fn leave(&mut self, tree: &mut Tree) {
        for client in self.clients.drain(..) {
            tree.clients[client].has_turn = false;
        }
    }

    fn enqueue(&mut self, tree: &mut Tree, client: u32) {
        if !core::mem::replace(&mut tree.clients[client].has_turn, true) {
            self.clients.push_back(client);
        }
    }
}
