//! Kind of scheduler: round robin or BFQ.

/// Scheduler of a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum SchedulerKind {
    /// Round robin: first in, first out for each task; clients take turns, so do the tasks of a client. Weights do
    /// not count.
    #[default]
    None,
    /// Budget fair queueing: shares by the weights of cgroups, equal shares of clients in a cgroup, each client's
    /// requests by position. O(depth × log siblings) a request. With the feature `bfq`.
    #[cfg(feature = "bfq")]
    Bfq,
}

impl SchedulerKind {
    /// All schedulers, in the order of tables.
    pub const ALL: [SchedulerKind; SchedulerKind::COUNT] = [
        SchedulerKind::None,
        #[cfg(feature = "bfq")]
        SchedulerKind::Bfq,
    ];

    const COUNT: usize = if cfg!(feature = "bfq") { 2 } else { 1 };

    /// Name in configurations and reports: `none` or `bfq`.
    pub const fn name(self) -> &'static str {
        match self {
            SchedulerKind::None => "none",
            #[cfg(feature = "bfq")]
            SchedulerKind::Bfq => "bfq",
        }
    }

    /// The scheduler of that name.
    pub fn from_name(name: &str) -> Option<SchedulerKind> {
        SchedulerKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
