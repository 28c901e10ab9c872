//! A cgroup: its place, its limits, and what waits below it.

use alloc::boxed::Box;

use super::list::List;
use crate::deadlines::Timer;
use crate::limits::{Limits, Resource};
use crate::request::Direction;
use crate::stats::Account;
use crate::throttle::{Arbiter, Gate, Standing};
use crate::time::Instant;
use crate::weight::Weight;

/// The parent of the root, and the "nearest limit" of a cgroup under none.
pub(crate) const NO_CGROUP: u32 = u32::MAX;

/// One node of the hierarchy.
pub(crate) struct Cgroup {
    pub(crate) parent: u32,
    pub(crate) depth: u32,
    pub(crate) name: Box<str>,
    pub(crate) weight: Weight,
    pub(crate) limits: Limits,
    /// Child cgroups.
    pub(crate) children: u32,
    /// Clients that have not been closed.
    pub(crate) clients: u32,
    /// Children that were removed by name but still have clients.
    pub(crate) ghosts: u32,
    /// Removed by name: takes no new client, goes with its last one.
    pub(crate) dying: bool,
    /// Nearest cgroup, itself included, with a limit in this direction.
    pub(crate) limited: [u32; 2],
    /// The limiter, where there is a limit in this direction.
    pub(crate) gates: [Option<Box<Gate>>; 2],
    /// What waits, once something has waited here in this direction.
    pub(crate) queues: [Option<Box<Queue>>; 2],
    /// When a waiting head of this direction may go. Where requests climb, the first serves both directions.
    pub(crate) timers: [Timer; 2],
    /// Where requests climb: the instant at which a head may go, which a timer may precede.
    pub(crate) disptime: Instant,
    pub(crate) account: Box<Account>,
    /// What removed children did.
    pub(crate) folded: Option<Box<Account>>,
}

/// What waits at or below one cgroup in one direction.
pub(crate) struct Queue {
    /// Who among children and own clients is next.
    pub(crate) arbiter: Arbiter,
    /// As a source of the parent.
    pub(crate) standing: Standing,
    /// Since when it has been standing in the parent's arbiter.
    pub(crate) standing_since: Instant,
    /// Requests past this cgroup's own limit that wait further up: only where the limiter lets requests climb
    /// level by level, as the kernel does.
    pub(crate) climbed: List,
    /// What the head last had to wait for here.
    pub(crate) because: Resource,
}

impl Cgroup {
    pub(crate) fn root() -> Cgroup {
        Cgroup::new(NO_CGROUP, 0, "".into())
    }

    pub(crate) fn new(parent: u32, depth: u32, name: Box<str>) -> Cgroup {
        Cgroup {
            parent,
            depth,
            name,
            weight: Weight::DEFAULT,
            limits: Limits::default(),
            children: 0,
            ghosts: 0,
            clients: 0,
            dying: false,
            limited: [NO_CGROUP; 2],
            gates: [None, None],
            queues: [None, None],
            timers: [Timer::default(); 2],
            disptime: Instant::ZERO,
            account: Box::default(),
            folded: None,
        }
    }

    /// The queue of `direction`, made when something waits for the first time.
    pub(crate) fn queue_mut(&mut self, direction: Direction) -> &mut Queue {
        let order = self.gate(direction).map(Gate::order).unwrap_or_default();
        self.queues[direction.index()].get_or_insert_with(|| {
            Box::new(Queue {
                arbiter: Arbiter::new(order),
                standing: Standing::new(),
                standing_since: Instant::ZERO,
                climbed: List::EMPTY,
                because: Resource::Ios,
            })
        })
    }

    /// The queue of `direction`, where something has waited before.
    pub(crate) fn queue(&self, direction: Direction) -> Option<&Queue> {
        self.queues[direction.index()].as_deref()
    }

    /// Whether nothing waits for this cgroup's own limit in `direction`: no source stands here.
    pub(crate) fn is_clear(&self, direction: Direction) -> bool {
        self.queue(direction).is_none_or(|queue| queue.arbiter.is_empty())
    }

    pub(crate) fn gate(&self, direction: Direction) -> Option<&Gate> {
        self.gates[direction.index()].as_deref()
    }

    pub(crate) fn gate_mut(&mut self, direction: Direction) -> Option<&mut Gate> {
        self.gates[direction.index()].as_deref_mut()
    }
}
