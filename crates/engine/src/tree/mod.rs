//! The hierarchy: cgroups, the clients in them, and the tasks through which clients ask.
//!
//! ```text
//! /            cgroup (root, never limited by the kernel; here it may be)
//! └─ vm1       cgroup: limits, a weight, child cgroups and clients
//!    ├─ db     cgroup
//!    └─ client a peer: one share of its cgroup, however many connections it opens
//!       ├─ task     a connection: first in, first out in each direction
//!       └─ task
//! ```

mod arena;
mod cgroup;
mod client;
mod heap;
mod list;
mod path;

#[cfg(feature = "bfq")]
pub(crate) use arena::SparseSlots;
pub(crate) use arena::{Arena, Line, Slots};
pub(crate) use cgroup::{Cgroup, NO_CGROUP};
pub(crate) use client::{Client, ReadyTurns, Task};
pub(crate) use heap::{Heap, Keyed};
pub(crate) use list::{Link, Links, List, NO_INDEX};
pub(crate) use path::check_name;
pub use path::{NameError, Path};

use crate::types::{CgroupId, ClientId, LowLatency, TaskId};

/// Hierarchy of one device. The root has index 0 and is never removed.
pub(crate) struct Tree {
    pub(crate) cgroups: Arena<Cgroup, Line>,
    pub(crate) clients: Arena<Client, Line>,
    pub(crate) tasks: Arena<Task, Line>,
    /// Whether a policy of weight raising was ever set: until then, the client and the cgroups above need no look.
    pub(crate) has_low_latency: bool,
}

/// Index of the root cgroup.
pub(crate) const ROOT: u32 = 0;

impl Tree {
    pub(crate) fn new() -> Tree {
        let mut cgroups = Arena::new();
        let (root, _) = cgroups.insert(Cgroup::root());
        debug_assert_eq!(root, ROOT);
        Tree { cgroups, clients: Arena::new(), tasks: Arena::new(), has_low_latency: false }
    }

    pub(crate) fn id(&self, cgroup: u32) -> CgroupId {
        CgroupId { index: cgroup, generation: self.cgroups.generation(cgroup) }
    }

    /// Nearest policy of weight raising of a client. O(depth), O(1) where none was ever set.
    #[inline]
    pub(crate) fn low_latency_of(&self, client: u32, cgroup: u32) -> LowLatency {
        if !self.has_low_latency {
            return LowLatency::default();
        }
        let own = self.clients.get(client).and_then(|client| client.low_latency);
        own.unwrap_or_else(|| self.low_latency(cgroup))
    }

    fn low_latency(&self, cgroup: u32) -> LowLatency {
        let mut at = cgroup;
        while at != NO_CGROUP {
            let cgroup = &self.cgroups[at];
            if let Some(set) = cgroup.low_latency {
                return set;
            }
            at = cgroup.parent;
        }
        LowLatency::default()
    }

    /// The index behind an id, if the cgroup still exists.
    pub(crate) fn cgroup_index(&self, id: CgroupId) -> Option<u32> {
        self.cgroups.is_current(id.index, id.generation).then_some(id.index)
    }

    /// The index behind an id, if the client still exists.
    pub(crate) fn client_index(&self, id: ClientId) -> Option<u32> {
        self.clients.is_current(id.index, id.generation).then_some(id.index)
    }

    /// The index behind an id, if the task still exists.
    pub(crate) fn task_index(&self, id: TaskId) -> Option<u32> {
        self.tasks.is_current(id.index, id.generation).then_some(id.index)
    }

    /// Whether `ancestor` is `cgroup` or above it. O(depth).
    pub(crate) fn is_within(&self, cgroup: u32, ancestor: u32) -> bool {
        let mut at = cgroup;
        while at != NO_CGROUP {
            if at == ancestor {
                return true;
            }
            at = self.cgroups[at].parent;
        }
        false
    }

    /// The child of `parent` that has this name. O(log children).
    pub(crate) fn child(&self, parent: u32, name: &str) -> Option<u32> {
        self.cgroups[parent].children.as_ref()?.child(name)
    }

    /// The cgroup at `path`.
    pub(crate) fn find(&self, path: &Path) -> Option<u32> {
        path.names().try_fold(ROOT, |at, name| self.child(at, name))
    }

    /// Lists `child` with `parent`, by its name, which is free there.
    pub(crate) fn add_child(&mut self, parent: u32, child: u32) {
        let name = self.cgroups[child].name.clone();
        self.cgroups[parent].children.get_or_insert_default().insert(name, child);
    }

    /// Moves `cgroup` to `parent`, which is not below it and has no child of its name. O(cgroups below).
    pub(crate) fn move_cgroup(&mut self, cgroup: u32, parent: u32) {
        let Cgroup { parent: old, name, .. } = &self.cgroups[cgroup];
        let (old, name) = (*old, name.clone());
        if let Some(children) = &mut self.cgroups[old].children {
            children.remove(&name);
        }
        self.add_child(parent, cgroup);
        self.cgroups[cgroup].parent = parent;
        for at in self.subtree(cgroup) {
            self.cgroups[at].depth = self.cgroups[self.cgroups[at].parent].depth + 1;
        }
    }

    /// Sets `cgroup`, which has no children, offline: its name is free.
    pub(crate) fn set_offline(&mut self, cgroup: u32) {
        let node = &mut self.cgroups[cgroup];
        node.dying = true;
        let (parent, name) = (node.parent, node.name.clone());
        if let Some(children) = &mut self.cgroups[parent].children {
            children.set_offline(&name);
        }
    }

    /// Whether an offline cgroup has no clients and no children left.
    pub(crate) fn is_done(&self, cgroup: u32) -> bool {
        let node = &self.cgroups[cgroup];
        let is_parent = node.children.as_ref().is_some_and(|children| !children.is_empty());
        node.dying && node.clients == 0 && !is_parent
    }

    /// Frees the slot of an offline cgroup.
    pub(crate) fn remove_cgroup(&mut self, cgroup: u32) -> Cgroup {
        let node = self.cgroups.remove(cgroup);
        if let Some(children) = &mut self.cgroups[node.parent].children {
            children.remove_offline(cgroup);
        }
        node
    }

    /// `top` and everything below it, parents before children. O(cgroups found).
    pub(crate) fn subtree(&self, top: u32) -> alloc::vec::Vec<u32> {
        let mut found = alloc::vec![top];
        let mut next = 0;
        while let Some(&at) = found.get(next) {
            found.extend(self.cgroups[at].children());
            next += 1;
        }
        found
    }
}
