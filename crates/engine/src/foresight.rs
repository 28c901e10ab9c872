//! Fetches from memory what the next deadlines are going to need.
//!
//! With 10,000 cgroups whose turns come in no order, what a request needs that leaves a limit is in some twenty lines of
//! cache, none of them near, and one leads to the next: deadline, cgroup, queue, client, task, request. So it is looked
//! at for several deadlines at a time, step by step. What a step looks at depends on nothing but the step before, and so
//! the processor fetches it side by side. Nothing is decided by it.

use alloc::vec::Vec;

use crate::core::Core;
use crate::deadlines::Due;
use crate::throttle::Source;
use crate::tree::{NO_INDEX, Walk};

/// Deadlines that are looked at together.
const GROUP: usize = 16;

/// What so many tasks need, some 1,500 bytes each with all that is theirs, is in a processor's caches.
const TASKS_NEAR: u32 = 1 << 10;

/// How far ahead it was looked.
pub(crate) struct Foresight {
    /// Deadlines until it is looked ahead again.
    left: usize,
    /// Over the deadlines.
    walk: Walk,
    /// Those that are looked at; kept to reuse its memory.
    group: Vec<Ahead>,
    /// Of the requests that were found.
    tags: Vec<u64>,
}

/// One deadline, and who waits for it, as far as that is found.
struct Ahead {
    due: Due,
    client: u32,
    task: u32,
    request: u32,
}

impl Foresight {
    pub(crate) fn new() -> Foresight {
        Foresight {
            left: 0,
            walk: Walk::with_capacity(GROUP),
            group: Vec::with_capacity(GROUP),
            tags: Vec::with_capacity(GROUP),
        }
    }

    /// The tag of a request that was found, and not told of.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<u64> {
        self.tags.pop()
    }
}

impl Core {
    /// The deadline `due` has come: looks at those behind it, if that was not done.
    #[inline(always)]
    pub(crate) fn foresee(&mut self, due: Due) {
        if self.tree.tasks.len() < TASKS_NEAR {
            return;
        }
        if self.foresight.left == 0 {
            self.look_ahead(due);
        }
        self.foresight.left -= 1;
    }

    #[inline(never)]
    fn look_ahead(&mut self, due: Due) {
        let Core { tree, requests, clocks, foresight, .. } = self;
        let Foresight { left, walk, group, tags } = foresight;
        *left = GROUP;
        tags.clear();
        group.clear();
        let soon = clocks.deadlines_mut(tree.cgroups[due.cgroup].clock).soon(walk).take(GROUP);
        let (client, task, request) = (NO_INDEX, NO_INDEX, NO_INDEX);
        group.extend(soon.map(|due| Ahead { due, client, task, request }));
        for Ahead { due, .. } in &*group {
            if let Some(cgroup) = tree.cgroups.get(due.cgroup) {
                cgroup.fetch();
            }
        }
        for Ahead { due, .. } in &*group {
            if let Some(cgroup) = tree.cgroups.get(due.cgroup) {
                cgroup.fetch_boxes(due.direction);
            }
        }
        for Ahead { due, client, .. } in &mut *group {
            let Some(cgroup) = tree.cgroups.get(due.cgroup) else { continue };
            cgroup.fetch_lists(due.direction);
            let top = cgroup.queue(due.direction).and_then(|queue| queue.arbiter.top());
            if let Some(Source::Client(top)) = top.map(|top| top.source()) {
                *client = top;
            }
        }
        for Ahead { due, client, task, .. } in &mut *group {
            if let Some(client) = tree.clients.get(*client) {
                *task = client.side(due.direction).turns.head;
            }
        }
        for Ahead { due, task, request, .. } in &mut *group {
            if let Some(task) = tree.tasks.get(*task) {
                *request = task.side(due.direction).waiting.head;
            }
        }
        for Ahead { due, task, request, .. } in &*group {
            if *request != NO_INDEX {
                let because = tree.cgroups[due.cgroup].side(due.direction).because;
                tree.tasks[*task].fetch_waits(because);
                tags.push(requests[*request].request.tag);
            }
        }
    }
}
