//! Clients and tasks: who asks, and the order within each.

use super::list::{Link, Links, List};
use super::{Arena, NO_CGROUP};
use crate::request::Direction;
use crate::throttle::Standing;

/// One share of a cgroup: a peer with all its connections.
pub(crate) struct Client {
    pub(crate) cgroup: u32,
    /// Open tasks.
    pub(crate) tasks: u32,
    /// Tasks with requests that wait for a limit, in turn order, per direction.
    pub(crate) turns: [List; 2],
    /// As a source of its cgroup, per direction.
    pub(crate) standing: [Standing; 2],
    /// Nanoseconds of its cgroup's nearest limit that its requests have taken, per direction.
    pub(crate) served_ns: [u64; 2],
    /// Tasks with requests that wait for the device, in turn order.
    pub(crate) ready_turns: List,
    /// Whether it has a place among the clients that wait for the device.
    pub(crate) has_turn: bool,
    /// No new task may be opened; the slot goes with the last task.
    pub(crate) closing: bool,
}

impl Client {
    pub(crate) fn new(cgroup: u32) -> Client {
        debug_assert_ne!(cgroup, NO_CGROUP);
        Client {
            cgroup,
            tasks: 0,
            turns: [List::EMPTY; 2],
            standing: [Standing::new(), Standing::new()],
            served_ns: [0; 2],
            ready_turns: List::EMPTY,
            has_turn: false,
            closing: false,
        }
    }
}

/// One flow of requests.
pub(crate) struct Task {
    pub(crate) client: u32,
    /// The client's cgroup, here to save a step on the way of each request.
    pub(crate) cgroup: u32,
    /// Requests waiting for a limit of the path, oldest first, per direction.
    pub(crate) waiting: [List; 2],
    /// Requests past every limit, waiting for the device, oldest first.
    pub(crate) ready: List,
    /// Place among the client's tasks that wait for a limit, per direction.
    pub(crate) turn: [Link; 2],
    /// Place among the client's tasks that wait for the device.
    pub(crate) ready_turn: Link,
    /// Requests of this task inside the engine, at the device included.
    pub(crate) held: u32,
    /// No new request is accepted; the slot goes with the last request.
    pub(crate) closing: bool,
}

impl Task {
    pub(crate) fn new(client: u32, cgroup: u32) -> Task {
        Task {
            client,
            cgroup,
            waiting: [List::EMPTY; 2],
            ready: List::EMPTY,
            turn: [Link::NONE; 2],
            ready_turn: Link::NONE,
            held: 0,
            closing: false,
        }
    }
}

/// The links by which a client's tasks take turns at a limit.
pub(crate) struct WaitingTurns<'a> {
    pub(crate) tasks: &'a mut Arena<Task>,
    pub(crate) direction: Direction,
}

impl Links for WaitingTurns<'_> {
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self.tasks[index].turn[self.direction.index()]
    }
}

/// The links by which a client's tasks take turns at the device.
pub(crate) struct ReadyTurns<'a>(pub(crate) &'a mut Arena<Task>);

impl Links for ReadyTurns<'_> {
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self.0[index].ready_turn
    }
}
