//! Structure of an engine: configuration, cgroups with their settings, clients and tasks, without requests and history.

use alloc::string::String;
use alloc::vec::Vec;

use crate::config::Config;
use crate::core::Core;
use crate::tree::ROOT;
pub use crate::types::Lease;
use crate::types::{
    CgroupId, ClientId, Limits, LowLatency, PrioClass, Priority, TaskId, Watermark, Weight,
};

/// What an engine is made of at one moment; see [`crate::Engine::structure`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Structure {
    /// The configuration, with what has been changed since.
    pub config: Config,
    /// Parents before children; the root is the first.
    pub cgroups: Vec<CgroupNode>,
    /// By slot.
    pub clients: Vec<ClientNode>,
    /// By slot.
    pub tasks: Vec<TaskNode>,
}

/// A cgroup and its settings.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CgroupNode {
    /// Its id.
    pub id: CgroupId,
    /// The cgroup above it; `None` for the root.
    pub parent: Option<CgroupId>,
    /// Its name below the parent; empty for the root.
    pub name: String,
    /// Whether it has been removed and still has clients.
    pub is_removed: bool,
    /// Its limits.
    pub limits: Limits,
    /// When they end, if they do.
    pub lease: Option<Lease>,
    /// Its weight.
    pub weight: Weight,
    /// Its policy for priority classes.
    pub prio_class: PrioClass,
    /// Its policy for low latency.
    pub low_latency: Option<LowLatency>,
    /// Its own watermark.
    pub watermark: Option<Watermark>,
}

/// An open client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ClientNode {
    /// Its id.
    pub id: ClientId,
    /// Its cgroup.
    pub cgroup: CgroupId,
    /// Its priority.
    pub priority: Priority,
    /// What is set for it rather than for its cgroup.
    pub low_latency: Option<LowLatency>,
}

/// A task that has not been closed, or still has requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TaskNode {
    /// Its id.
    pub id: TaskId,
    /// Its client.
    pub client: ClientId,
}

pub(crate) fn structure(core: &Core) -> Structure {
    let tree = &core.tree;
    let cgroups = tree.subtree(ROOT).into_iter().map(|at| {
        let node = &tree.cgroups[at];
        CgroupNode {
            id: tree.id(at),
            parent: (at != ROOT).then(|| tree.id(node.parent)),
            name: (*node.name).into(),
            is_removed: node.dying,
            limits: core.throttle.limits(at),
            lease: core.throttle.lease(at),
            weight: node.weight,
            prio_class: node.prio_class,
            low_latency: node.low_latency,
            watermark: core.throttle.watermark(at),
        }
    });
    let client_id = |index| ClientId { index, generation: tree.clients.generation(index) };
    let clients = tree.clients.iter().map(|(index, client)| ClientNode {
        id: client_id(index),
        cgroup: tree.id(client.cgroup),
        priority: client.priority,
        low_latency: client.low_latency,
    });
    let tasks = tree.tasks.iter().map(|(index, task)| TaskNode {
        id: TaskId { index, generation: tree.tasks.generation(index) },
        client: client_id(task.client),
    });
    Structure {
        config: core.config,
        cgroups: cgroups.collect(),
        clients: clients.collect(),
        tasks: tasks.collect(),
    }
}
