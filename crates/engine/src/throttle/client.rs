//! Throttle state of clients and tasks: the order within each, and what limits did to them.

use alloc::boxed::Box;

use crate::limits::Dimension;
use crate::request::Direction;
use crate::stats::TaskStats;
use crate::throttle::fair_queue::SourceState;
use crate::throttle::slots::Slots;
use crate::tree::{Link, Links, List};

/// What waits of a client.
pub(super) struct ClientThrottle {
    directions: [ClientPerDirection; 2],
}

/// What a client has in one direction, at the limits of its path.
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

/// What waits of a task. In the first line of cache is all that a request needs that waits.
#[repr(C, align(64))]
pub(super) struct TaskThrottle {
    directions: [TaskPerDirection; 2],
    /// Which dimension the waits in each direction are of, once there was one.
    waits_of: [Option<Dimension>; 2],
    /// What limits did to it, by dimension, but for what is in the directions; once they did something.
    waits: Option<Box<[Waits; Dimension::COUNT]>>,
}

/// What limits did to a task in one dimension.
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

/// What a task has in one direction, at the limits of its path.
pub(super) struct TaskPerDirection {
    /// Requests that wait for a limit, oldest first.
    pub(super) waiting: List,
    /// Place among the client's tasks that wait for a limit.
    pub(super) turn: Link,
    /// What limits did to it in the dimension in which they did something last, for as long as it is that one: of a request
    /// that waits nothing else of the kind is touched.
    waits: Waits,
}

impl TaskThrottle {
    pub(super) fn new() -> TaskThrottle {
        let dir =
            || TaskPerDirection { waiting: List::EMPTY, turn: Link::NONE, waits: Waits::default() };
        TaskThrottle { directions: [dir(), dir()], waits_of: [None; 2], waits: None }
    }

    /// What limits did to it.
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

    /// Where it is added what a limit on `dimension` did to a request of `direction`.
    #[inline]
    pub(super) fn waits_mut(&mut self, direction: Direction, dimension: Dimension) -> &mut Waits {
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

    pub(super) fn dir(&self, direction: Direction) -> &TaskPerDirection {
        &self.directions[direction.index()]
    }

    pub(super) fn dir_mut(&mut self, direction: Direction) -> &mut TaskPerDirection {
        &mut self.directions[direction.index()]
    }
}

/// The links by which a client's tasks take turns at a limit.
pub(super) struct WaitingTurns<'a> {
    pub(super) tasks: &'a mut Slots<TaskThrottle>,
    pub(super) direction: Direction,
}

impl Links for WaitingTurns<'_> {
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self.tasks[index].dir_mut(self.direction).turn
    }
}
