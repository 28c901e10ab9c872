//! Clients, and the tasks through which they send requests.

use super::list::{Link, Links, List};
use super::{Arena, Line, NO_CGROUP};
use crate::types::{LowLatency, Priority};

/// One share of a cgroup: a peer with all its connections.
#[repr(C)]
pub(crate) struct Client {
    pub(crate) cgroup: u32,
    /// Tasks with requests that wait for the device, in turn order.
    pub(crate) ready_turns: List,
    /// Whether it has a place among the clients that wait for the device.
    pub(crate) is_queued: bool,
    /// No new task may be opened; the slot goes with the last task.
    pub(crate) closing: bool,
    pub(crate) priority: Priority,
    /// Open tasks.
    pub(crate) tasks: u32,
    /// What is set for it rather than for its cgroup.
    pub(crate) low_latency: Option<LowLatency>,
}

impl Client {
    pub(crate) fn new(cgroup: u32) -> Client {
        debug_assert_ne!(cgroup, NO_CGROUP);
        Client {
            cgroup,
            tasks: 0,
            ready_turns: List::EMPTY,
            is_queued: false,
            closing: false,
            priority: Priority::default(),
            low_latency: None,
        }
    }
}

/// One flow of requests.
#[repr(C)]
pub(crate) struct Task {
    pub(crate) client: u32,
    /// The client's cgroup, here to save a step on the way of each request.
    pub(crate) cgroup: u32,
    /// Requests of this task inside the engine, at the device included.
    pub(crate) held: u32,
    /// No new request is accepted; the slot goes with the last request.
    pub(crate) closing: bool,
    /// Requests past every limit, waiting for the device, oldest first.
    pub(crate) ready: List,
    /// Place among the client's tasks that wait for the device.
    pub(crate) ready_turn: Link,
}

// A client and a task are in one line of cache each, of which the slot has eight bytes.
const _: () = assert!(size_of::<Client>() <= 64 - 8 && size_of::<Task>() <= 64 - 8);

impl Task {
    pub(crate) fn new(client: u32, cgroup: u32) -> Task {
        Task { client, cgroup, held: 0, closing: false, ready: List::EMPTY, ready_turn: Link::NONE }
    }
}

/// The links by which a client's tasks take turns at the device.
pub(crate) struct ReadyTurns<'a>(pub(crate) &'a mut Arena<Task, Line>);

impl Links for ReadyTurns<'_> {
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self.0[index].ready_turn
    }
}
