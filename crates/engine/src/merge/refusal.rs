//! Reasons for which queues do not merge.

/// Why a check did not lead to a merge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Refusal {
    /// Cooperation is turned off.
    Closed,
    /// The device queues commands and does not seek.
    QueueingFlash,
    /// The queue that asks is asynchronous.
    Asynchronous,
    /// The queue that asks started too long ago.
    TooLate,
    /// No other queue has requests.
    Alone,
    /// No queue is close enough.
    NoneClose,
    /// The close queue is of another cgroup.
    OtherGroup,
    /// The close queue started too long ago.
    TargetTooLate,
    /// One of both is of the idle class.
    IdleClass,
    /// The two have different classes.
    OtherClass,
    /// One of both is seeky.
    Seeky,
    /// The close queue is asynchronous.
    TargetAsynchronous,
    /// The close queue has no process left: it only drains.
    NoProcess,
    /// The close queue is already merged with the one that asks.
    SameSet,
}

impl Refusal {
    /// All refusals, in the order of [`Refusal::index`].
    pub const ALL: [Refusal; 14] = [
        Refusal::Closed,
        Refusal::QueueingFlash,
        Refusal::Asynchronous,
        Refusal::TooLate,
        Refusal::Alone,
        Refusal::NoneClose,
        Refusal::OtherGroup,
        Refusal::TargetTooLate,
        Refusal::IdleClass,
        Refusal::OtherClass,
        Refusal::Seeky,
        Refusal::TargetAsynchronous,
        Refusal::NoProcess,
        Refusal::SameSet,
    ];

    /// Index into per-refusal arrays.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name in statistics.
    pub const fn key(self) -> &'static str {
        match self {
            Refusal::Closed => "closed",
            Refusal::QueueingFlash => "queueing_flash",
            Refusal::Asynchronous => "asynchronous",
            Refusal::TooLate => "too_late",
            Refusal::Alone => "alone",
            Refusal::NoneClose => "nobody_close",
            Refusal::OtherGroup => "other_group",
            Refusal::TargetTooLate => "target_too_late",
            Refusal::IdleClass => "idle_class",
            Refusal::OtherClass => "other_class",
            Refusal::Seeky => "seeky",
            Refusal::TargetAsynchronous => "target_asynchronous",
            Refusal::NoProcess => "no_process",
            Refusal::SameSet => "same_set",
        }
    }
}
