//! Clients and tasks: who asks, and the order within each.

use alloc::boxed::Box;
use core::mem::offset_of;

use super::list::{Link, Links, List};
use super::{Arena, Line, NO_CGROUP};
use crate::limits::Dimension;
use crate::low_latency::LowLatency;
use crate::priority::Priority;
use crate::request::Direction;
use crate::stats::TaskStats;
use crate::throttle::SourceState;

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
    directions: [ClientPerDirection; 2],
    /// Open tasks.
    pub(crate) tasks: u32,
    /// What is set for it rather than for its cgroup.
    pub(crate) low_latency: Option<LowLatency>,
}

// The state of reads ends with the first line of cache, of which the slot has eight bytes.
const _: () = assert!(offset_of!(Client, directions) + size_of::<ClientPerDirection>() <= 64 - 8);

/// What a client has in one direction, at the limits of its path.
pub(crate) struct ClientPerDirection {
    /// Tasks with requests that wait for a limit, in turn order.
    pub(crate) turns: List,
    /// As a source of its cgroup.
    pub(crate) source_state: SourceState,
    /// Nanoseconds of its cgroup's nearest limit that its requests have taken.
    pub(crate) served_ns: u64,
}

impl Client {
    pub(crate) fn new(cgroup: u32) -> Client {
        debug_assert_ne!(cgroup, NO_CGROUP);
        let dir = || ClientPerDirection {
            turns: List::EMPTY,
            source_state: SourceState::new(),
            served_ns: 0,
        };
        Client {
            cgroup,
            tasks: 0,
            ready_turns: List::EMPTY,
            is_queued: false,
            closing: false,
            priority: Priority::default(),
            low_latency: None,
            directions: [dir(), dir()],
        }
    }

    pub(crate) fn dir(&self, direction: Direction) -> &ClientPerDirection {
        &self.directions[direction.index()]
    }

    pub(crate) fn dir_mut(&mut self, direction: Direction) -> &mut ClientPerDirection {
        &mut self.directions[direction.index()]
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
    /// Which dimension the waits in each direction are of, once there was one.
    waits_of: [Option<Dimension>; 2],
    /// Requests past every limit, waiting for the device, oldest first.
    pub(crate) ready: List,
    directions: [TaskPerDirection; 2],
    /// Place among the client's tasks that wait for the device.
    pub(crate) ready_turn: Link,
    /// What limits did to it, by dimension, but for what is in the directions; once they did something.
    waits: Option<Box<[Waits; Dimension::COUNT]>>,
}

// The state of reads ends with the first line of cache, of which the slot has eight bytes.
const _: () = assert!(offset_of!(Task, directions) + size_of::<TaskPerDirection>() <= 64 - 8);

/// What limits did to a task in one dimension.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waits {
    pub(crate) throttled: u64,
    pub(crate) wait_ns: u64,
}

impl Waits {
    fn add(&mut self, other: Waits) {
        self.throttled += other.throttled;
        self.wait_ns += other.wait_ns;
    }
}

/// What a task has in one direction, at the limits of its path.
pub(crate) struct TaskPerDirection {
    /// Requests that wait for a limit, oldest first.
    pub(crate) waiting: List,
    /// Place among the client's tasks that wait for a limit.
    pub(crate) turn: Link,
    /// What limits did to it in the dimension in which they did something last, for as long as it is that one: of a request
    /// that waits nothing else of the kind is touched.
    waits: Waits,
}

impl Task {
    pub(crate) fn new(client: u32, cgroup: u32) -> Task {
        let dir =
            || TaskPerDirection { waiting: List::EMPTY, turn: Link::NONE, waits: Waits::default() };
        Task {
            client,
            cgroup,
            held: 0,
            closing: false,
            waits_of: [None; 2],
            ready: List::EMPTY,
            directions: [dir(), dir()],
            ready_turn: Link::NONE,
            waits: None,
        }
    }

    /// What limits did to it.
    pub(crate) fn stats(&self) -> TaskStats {
        let mut waits = self.waits.as_deref().copied().unwrap_or_default();
        for (dir, dimension) in self.directions.iter().zip(self.waits_of) {
            if let Some(dimension) = dimension {
                waits[dimension as usize].add(dir.waits);
            }
        }
        TaskStats {
            throttled: waits.map(|waits| waits.throttled),
            wait_ns: waits.map(|waits| waits.wait_ns),
        }
    }

    /// Where it is added what a limit on `dimension` did to a request of `direction`.
    #[inline]
    pub(crate) fn waits_mut(&mut self, direction: Direction, dimension: Dimension) -> &mut Waits {
        if self.waits_of[direction.index()] != Some(dimension) {
            self.turn_to(direction, dimension);
        }
        &mut self.dir_mut(direction).waits
    }

    /// Puts aside what is in that of `direction`, for what follows is of another dimension.
    #[inline(never)]
    fn turn_to(&mut self, direction: Direction, dimension: Dimension) {
        let waits = core::mem::take(&mut self.dir_mut(direction).waits);
        // Room for all the first time: no later one allocates.
        let all = self.waits.get_or_insert_default();
        if let Some(before) = self.waits_of[direction.index()].replace(dimension) {
            all[before as usize].add(waits);
        }
    }

    pub(crate) fn dir(&self, direction: Direction) -> &TaskPerDirection {
        &self.directions[direction.index()]
    }

    pub(crate) fn dir_mut(&mut self, direction: Direction) -> &mut TaskPerDirection {
        &mut self.directions[direction.index()]
    }
}

/// The links by which a client's tasks take turns at a limit.
pub(crate) struct WaitingTurns<'a> {
    pub(crate) tasks: &'a mut Arena<Task, Line>,
    pub(crate) direction: Direction,
}

impl Links for WaitingTurns<'_> {
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self.tasks[index].dir_mut(self.direction).turn
    }
}

/// The links by which a client's tasks take turns at the device.
pub(crate) struct ReadyTurns<'a>(pub(crate) &'a mut Arena<Task, Line>);

impl Links for ReadyTurns<'_> {
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self.0[index].ready_turn
    }
}
