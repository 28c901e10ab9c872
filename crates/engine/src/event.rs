//! Events that the engine reports.

use crate::types::CgroupId;

/// Something that happened inside the engine and that its owner may want to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A removed cgroup has let its last request go; its id is stale from now on.
    CgroupReleased(CgroupId),
    /// A cgroup was created, set otherwise, moved or removed. Told once for each such call.
    CgroupChanged(CgroupId),
}
