//! Records of cgroups, from the device's thread.

use std::sync::Arc;

use weir_engine::settings::{LowLatency, PrioClass};
use weir_engine::stats::SharedCounters;
use weir_engine::{CgroupId, Limits, Watermark, Weight};

use crate::device::SharedWaits;

/// A change of the tree.
#[derive(Debug)]
pub(crate) enum News {
    /// A cgroup as it is from now on, new or not.
    Cgroup(Box<CgroupRecord>),
    /// It is gone: what it has counted is its parent's.
    Gone(CgroupId),
}

/// One cgroup: its place, its settings, and where it counts.
#[derive(Debug)]
pub(crate) struct CgroupRecord {
    pub(crate) cgroup: CgroupId,
    /// `None` of the root.
    pub(crate) parent: Option<CgroupId>,
    pub(crate) name: Box<str>,
    /// It is removed and has clients still: it is in the sums of those above, and has no row.
    pub(crate) is_removed: bool,
    pub(crate) settings: CgroupSettings,
    pub(crate) counters: SharedCounters,
    pub(crate) waits: Arc<SharedWaits>,
}

/// How a cgroup is set.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct CgroupSettings {
    pub(crate) limits: Limits,
    pub(crate) weight: Weight,
    pub(crate) prio_class: PrioClass,
    pub(crate) low_latency: Option<LowLatency>,
    pub(crate) watermark: Option<Watermark>,
}
