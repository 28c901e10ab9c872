//! Asks for the memory that is going to be needed, behind the work on what is needed now.
//!
//! With 10,000 cgroups what a request needs is in some twenty lines of cache, none of them near, and one leads to the
//! next: deadline, cgroup, queue, client, task, request. So those that are about to come go along a belt, a place further
//! with each that comes, and at certain places a hint is given for what is found next; what that hangs on was asked for
//! some places before, and is there. Nothing is decided by it, and a wrong hint costs a line.

use alloc::vec::Vec;

use crate::core::Core;
use crate::deadlines::Due;
use crate::request::{Direction, RequestId};
use crate::throttle::Source;
use crate::tree::{NO_INDEX, Tree};

/// Places of a belt.
const PLACES: usize = 32;

/// Places from one hint for a request to the next: time for what was asked for to come.
const STEP: usize = 3;

/// Deadlines from the one that goes on the belt to the one that comes.
const AHEAD: usize = 24;

/// What so many tasks need, some 1,500 bytes each with all that is theirs, is in a processor's caches.
const TASKS_NEAR: u32 = 1 << 12;

/// The same of the first and second cache alone. What more need comes from the third one in time where they go in the order
/// in which they lie in memory, for a processor foresees that by itself.
const TASKS_NEAREST: u32 = 1 << 10;

pub(crate) struct Foresight {
    /// Whose deadlines come soon.
    due: Belt,
    /// Whose requests are completed soon.
    coming: Belt,
    /// Of the requests that were found behind deadlines.
    tags: Vec<u64>,
}

/// Those that are about to come; each that goes on it moves all others a place further.
struct Belt {
    places: [Found; PLACES],
    next: usize,
}

/// Who it is, as far as that is known.
#[derive(Clone, Copy)]
struct Found {
    direction: Direction,
    cgroup: u32,
    client: u32,
    task: u32,
    request: u32,
}

impl Found {
    const NOBODY: Found = Found {
        direction: Direction::Read,
        cgroup: NO_INDEX,
        client: NO_INDEX,
        task: NO_INDEX,
        request: NO_INDEX,
    };

    /// Lines of its cgroup, and of its client, that a request needs.
    fn lines(&self) -> usize {
        1 + self.direction.index()
    }
}

impl Belt {
    const EMPTY: Belt = Belt { places: [Found::NOBODY; PLACES], next: 0 };

    #[inline]
    fn put(&mut self, found: Found) {
        self.next += 1;
        self.places[self.next % PLACES] = found;
    }

    /// The one that is so many steps along it.
    #[inline]
    fn at(&mut self, step: usize) -> &mut Found {
        const { assert!(PLACES.is_power_of_two()) };
        &mut self.places[self.next.wrapping_sub(step * STEP) % PLACES]
    }
}

impl Foresight {
    pub(crate) fn new() -> Foresight {
        Foresight { due: Belt::EMPTY, coming: Belt::EMPTY, tags: Vec::with_capacity(AHEAD) }
    }

    /// The tag of a request that was found, and not told of.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<u64> {
        self.tags.pop()
    }
}

impl Core {
    /// A deadline has come for `due`: looks at those behind it.
    #[inline(always)]
    pub(crate) fn foresee(&mut self, due: Due) {
        if self.tree.tasks.len() >= TASKS_NEAREST {
            self.look_ahead(due);
        }
    }

    #[inline(never)]
    fn look_ahead(&mut self, due: Due) {
        let Core { tree, requests, clocks, foresight: Foresight { due: belt, tags, .. }, .. } =
            self;
        let deadlines = clocks.deadlines_mut(tree.cgroups[due.cgroup].clock);
        if tree.tasks.len() < TASKS_NEAR && deadlines.are_mostly_in_order() {
            return;
        }
        let Some(Due { cgroup, direction }) = deadlines.draw(AHEAD) else { return };
        belt.put(Found { direction, cgroup, ..Found::NOBODY });
        tree.cgroups.fetch(cgroup, belt.at(0).lines());
        let found = belt.at(1);
        if let Some(cgroup) = tree.cgroups.get(found.cgroup) {
            cgroup.fetch_boxes(found.direction);
        }
        let found = belt.at(2);
        if let Some(cgroup) = tree.cgroups.get(found.cgroup) {
            cgroup.fetch_lists(found.direction);
        }
        let found = belt.at(3);
        found.client = client_of(tree, found).unwrap_or(NO_INDEX);
        tree.clients.fetch(found.client, found.lines());
        let found = belt.at(4);
        if let Some(client) = tree.clients.get(found.client) {
            found.task = client.side(found.direction).turns.head;
            tree.tasks.fetch(found.task, found.lines());
        }
        let found = belt.at(5);
        if let Some(task) = tree.tasks.get(found.task) {
            found.request = task.side(found.direction).waiting.head;
            requests.fetch(found.request);
        }
        let found = belt.at(6);
        if tags.len() < AHEAD
            && let Some(record) = requests.get(found.request)
        {
            tags.push(record.request.tag);
        }
    }

    /// The request `id` is soon completed, after those of which that was said before.
    #[inline]
    pub(crate) fn foresee_completion(&mut self, id: RequestId) {
        if self.tree.tasks.len() < TASKS_NEAR {
            return;
        }
        let Core { tree, requests, foresight: Foresight { coming: belt, .. }, .. } = self;
        belt.put(Found { request: id.index, ..Found::NOBODY });
        requests.fetch(id.index);
        let found = belt.at(1);
        if let Some(record) = requests.get(found.request) {
            (found.direction, found.task) = (record.request.op.direction(), record.task);
            tree.tasks.fetch(found.task, found.lines());
        }
        let found = belt.at(2);
        if let Some(task) = tree.tasks.get(found.task) {
            found.cgroup = task.cgroup;
            tree.cgroups.fetch(task.cgroup, found.lines());
            tree.clients.fetch(task.client, found.lines());
        }
        let found = belt.at(3);
        if let Some(cgroup) = tree.cgroups.get(found.cgroup) {
            cgroup.fetch_boxes(found.direction);
        }
        let found = belt.at(4);
        if let Some(cgroup) = tree.cgroups.get(found.cgroup) {
            cgroup.fetch_lists(found.direction);
        }
    }
}

/// Who goes first of those that wait for a deadline; None where that is a cgroup.
#[inline]
fn client_of(tree: &Tree, found: &Found) -> Option<u32> {
    match tree.cgroups.get(found.cgroup)?.queue(found.direction)?.arbiter.top()?.source() {
        Source::Client(client) => Some(client),
        Source::Cgroup(_) => None,
    }
}
