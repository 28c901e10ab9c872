//! A cgroup: its place in the hierarchy, and its settings.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::children::Children;
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
