//! Throttle state of clients and tasks: the order within each, and what limits did to them.

use alloc::boxed::Box;

use crate::stats::TaskStats;
use crate::throttle::fair_queue::SourceState;
use crate::tree::Slots;
use crate::tree::{Link, Links, List};
use crate::types::{Dimension, Direction};

/// Throttled requests of a client.
pub(super) struct ClientThrottle {
    directions: [ClientPerDirection; 2],
}

/// State of one direction of a client.
#[repr(align(64))]
pub(super) struct ClientPerDirection {
    /// Tasks with requests that wait for a limit, in turn order.
    pub(super) turns: List,
    /// As a source of its cgroup.
    pub(super) source_state: SourceState,
    /// Nanoseconds of its cgroup's nearest limit that its requests have taken.
    pub(super) served_ns: u64,
}

impl ClientThrottle {
    pub(super) fn new() -> ClientThrottle {
        let dir = || ClientPerDirection {
            turns: List::EMPTY,
            source_state: SourceState::new(),
            served_ns: 0,
        };
        ClientThrottle { directions: [dir(), dir()] }
    }

    pub(super) fn dir(&self, direction: Direction) -> &ClientPerDirection {
        &self.directions[direction.index()]
    }

    pub(super) fn dir_mut(&mut self, direction: Direction) -> &mut ClientPerDirection {
        &mut self.directions[direction.index()]
    }
}

/// Throttled requests of a task. The first line of cache has all that a throttled request needs.
#[repr(C, align(64))]
pub(super) struct TaskThrottle {
    directions: [TaskPerDirection; 2],
    /// Dimension of the waits of each direction, once there was one.
    waits_of: [Option<Dimension>; 2],
    /// Waits of other dimensions, once there were any.
    waits: Option<Box<[Waits; Dimension::COUNT]>>,
}

/// Waits of a task in one dimension.
#[derive(Clone, Copy, Default)]
pub(super) struct Waits {
    pub(super) throttled: u64,
    pub(super) wait_ns: u64,
}

impl Waits {
    fn add(&mut self, other: Waits) {
        self.throttled += other.throttled;
        self.wait_ns += other.wait_ns;
    }
}

/// State of one direction of a task.
pub(super) struct TaskPerDirection {
    /// Requests that wait for a limit, oldest first.
    pub(super) waiting: List,
    /// Place among the client's tasks that wait for a limit.
    pub(super) turn: Link,
    /// Waits in the dimension that throttled it last. A throttled request touches no other.
    waits: Waits,
}

impl TaskThrottle {
    pub(super) fn new() -> TaskThrottle {
        let dir =
            || TaskPerDirection { waiting: List::EMPTY, turn: Link::NONE, waits: Waits::default() };
        TaskThrottle { directions: [dir(), dir()], waits_of: [None; 2], waits: None }
    }

    /// Sums by dimension.
    pub(super) fn stats(&self) -> TaskStats {
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

    /// Waits of `direction` in `dimension`, to add to.
    #[inline]
    pub(super) fn waits_mut(&mut self, direction: Direction, dimension: Dimension) -> &mut Waits {
        if self.waits_of[direction.index()] != Some(dimension) {
            self.turn_to(direction, dimension);
        }
        &mut self.dir_mut(direction).waits
    }

    /// Moves the waits of `direction` aside, before waits of another dimension.
    #[inline(never)]
    fn turn_to(&mut self, direction: Direction, dimension: Dimension) {
        let waits = core::mem::take(&mut self.dir_mut(direction).waits);
        // Allocates for all dimensions at once.
        let all = self.waits.get_or_insert_default();
        if let Some(before) = self.waits_of[direction.index()].replace(dimension) {
            all[before as usize].add(waits);
        }
    }

    pub(super) fn dir(&self, direction: Direction) -> &TaskPerDirection {
        &self.directions[direction.index()]
    }

    pub(super) fn dir_mut(&mut self, direction: Direction) -> &mut TaskPerDirection {
        &mut self.directions[direction.index()]
    }
}

/// Links of a client's tasks that take turns at a limit.
pub(super) struct WaitingTurns<'a> {
    pub(super) tasks: &'a mut Slots<TaskThrottle>,
    pub(super) direction: Direction,
}

impl Links for WaitingTurns<'_> {
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self.tasks[index].dir_mut(self.direction).turn
    }
}
