//! Ids of cgroups, clients and tasks.

/// Names a cgroup. An id of a removed cgroup is refused, never taken for another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CgroupId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Names a client: what shares a cgroup as one, be it one connection or eight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Names a task: one flow of requests, in order within each direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}
