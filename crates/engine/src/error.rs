//! Why the engine refuses a call: one small enum per operation.

use crate::throttle::LimitsError;
use crate::tree::NameError;

/// Why a request is not taken. Nothing has changed, and the caller still has the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubmitError {
    /// The task was closed, or is of another engine.
    #[error("no such task")]
    UnknownTask,
    /// The task has as many requests inside as it may have: back-pressure, not a failure.
    #[error("the task has {held} requests queued or at the device, at most {held_max} are allowed")]
    TaskFull {
        /// How many it has.
        held: u32,
        /// [`crate::Config::requests_per_task_max`].
        held_max: u32,
    },
    /// The engine has as many requests inside as it may have: back-pressure, not a failure.
    #[error("the device has {held} requests queued or in flight, at most {held_max} are allowed")]
    EngineFull {
        /// How many it has.
        held: u32,
        /// [`crate::Config::requests_max`].
        held_max: u32,
    },
}

/// Why a cgroup is not created.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The parent was removed.
    #[error("no such parent cgroup")]
    UnknownParent,
    /// The parent has a child of this name.
    #[error("the cgroup exists already")]
    Exists,
    /// It cannot be a cgroup's name.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Why a client or task is not opened or closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The cgroup was removed, or is being removed.
    #[error("no such cgroup")]
    UnknownCgroup,
    /// The client was closed.
    #[error("no such client")]
    UnknownClient,
}

/// Why a change is not made. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// A cgroup was removed before.
    #[error("no such cgroup")]
    UnknownCgroup,
    /// The client was closed.
    #[error("no such client")]
    UnknownClient,
    /// The limits contradict each other.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// The root can be neither moved nor removed.
    #[error("the root cgroup can be neither moved nor removed")]
    Root,
    /// A cgroup cannot hang below itself.
    #[error("a cgroup cannot be moved below itself")]
    MoveBelowItself,
    /// The new parent has a child of this name.
    #[error("the new parent already has a cgroup of this name")]
    NameTaken,
    /// The rules of merging would change under sets that were made by others.
    #[error("merge_rules cannot change while bfq is the scheduler: switch to another first")]
    MergeRules,
    /// There are as many different watermarks as can be told apart.
    #[error("65,536 different watermarks are in use, which is the most: use one of them")]
    TooManyWatermarks,
    /// It has children, which would have to be removed first.
    #[error("the cgroup has {children} child cgroups, remove those first")]
    HasChildren {
        /// How many.
        children: u32,
    },
}
