//! A cgroup: its place in the hierarchy, its children, and its settings.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use crate::types::{LowLatency, PrioClass, Weight};

/// The parent of the root, and the "nearest limit" of a cgroup under none.
pub(crate) const NO_CGROUP: u32 = u32::MAX;

/// One node of the hierarchy.
pub(crate) struct Cgroup {
    pub(crate) parent: u32,
    pub(crate) depth: u32,
    pub(crate) weight: Weight,
    pub(crate) prio_class: PrioClass,
    /// What is set here rather than above.
    pub(crate) low_latency: Option<LowLatency>,
    /// Removed by name: takes no new client, goes with its last one.
    pub(crate) dying: bool,
    /// Clients that have not been closed.
    pub(crate) clients: u32,
    pub(crate) name: Arc<str>,
    pub(crate) children: Option<Box<Children>>,
}

impl Cgroup {
    pub(crate) fn root() -> Cgroup {
        Cgroup::new(NO_CGROUP, 0, "".into())
    }

    pub(crate) fn new(parent: u32, depth: u32, name: Arc<str>) -> Cgroup {
        Cgroup {
            parent,
            depth,
            weight: Weight::DEFAULT,
            prio_class: PrioClass::NoChange,
            low_latency: None,
            dying: false,
            clients: 0,
            name,
            children: None,
        }
    }

    /// Child cgroups in the order of their names, and then those that were removed but still have clients.
    pub(crate) fn children(&self) -> impl Iterator<Item = u32> {
        self.children.iter().flat_map(|children| children.iter())
    }
}

/// Children by name, and offline children.
#[derive(Default)]
pub(crate) struct Children {
    named: BTreeMap<Arc<str>, u32>,
    /// Removed by name: they still have clients, or offline children.
    offline: BTreeSet<u32>,
}

impl Children {
    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.offline.is_empty()
    }

    /// Number of named children.
    pub(crate) fn named(&self) -> usize {
        self.named.len()
    }

    /// O(log children).
    pub(crate) fn child(&self, name: &str) -> Option<u32> {
        self.named.get(name).copied()
    }

    /// In order of names, offline children last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.named.values().chain(&self.offline).copied()
    }

    pub(crate) fn insert(&mut self, name: Arc<str>, child: u32) {
        self.named.insert(name, child);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.named.remove(name);
    }

    /// Sets a child offline: its name is free.
    pub(crate) fn set_offline(&mut self, name: &str) {
        self.offline.extend(self.named.remove(name));
    }

    pub(crate) fn remove_offline(&mut self, child: u32) {
        self.offline.remove(&child);
    }
}
