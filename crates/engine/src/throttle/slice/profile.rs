//! Differences of the kernels' slice limiters, as one table.

use crate::types::KernelProfile;

/// One row: every difference in behaviour between the kernels, and nothing else.
///
/// Source: spec/throttle 1.5, 1.6, 1.8, 1.9 and the table of spec/throttle 1.11.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Profile {
    /// How long a head over its I/O limit waits.
    pub(crate) iops_wait: IopsWait,
    /// How the two limits are put together.
    pub(crate) order: Order,
    /// What a change of limits does with what was earned or overdrawn.
    pub(crate) carry: Carry,
    /// How counters follow the slice when its start is moved on.
    pub(crate) trim: Trim,
    /// Whether time served at a child whose slice began in the very tick in which ours did counts as well.
    pub(crate) credit_same_start: bool,
    /// Metadata and swap are never queued: charged as debt, they go at once.
    pub(crate) metadata_overtakes: bool,
    /// A later piece of a request that was split after it paid pays one I/O again; bytes never.
    pub(crate) remainder_pays_ios: bool,
}

/// The wait of a head that is over its I/O limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IopsWait {
    /// Until the average rate since the slice began allows it, one tick more, whatever the slice still allows.
    AverageRate,
    /// To the end of the slice as counted from its start, which is no wait at all in its last tick.
    SliceEnd,
    /// To the end of the slice that the next tick belongs to, so at least one tick.
    NextSliceEnd,
    /// The same, but not less than the time of one I/O at the limit and a tick.
    NextSliceEndOrOneIo,
}

/// In which order the two limits are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// While bytes have to wait, I/Os are not asked: the timer may come too early for them.
    IosAfterBytes,
    /// Both always; the longer wait counts.
    Both,
    /// Bytes first, and paid as soon as they fit, while I/Os may still wait.
    BytesPaidFirst,
}

/// What happens to the budget of queued requests when the limits change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carry {
    /// It is lost: the wait begins anew.
    None,
    /// Kept apart and compared unsigned: a debt reads as an endless credit.
    Unsigned,
    /// Kept apart, compared signed.
    Signed,
    /// Kept in the counters themselves, which go below zero for a credit. A change before anything was earned forgives
    /// everything.
    InCounters,
}

/// How the counters are reduced when whole slices have passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trim {
    /// By all whole slices; an unlimited kind counts as more than enough reason to do it.
    All,
    /// By all but one; an unlimited kind is no reason, and an allowance of less than one forgives everything
    /// (the over-service of spec/throttle 1.12.3).
    KeepOne,
}

impl Profile {
    /// The row of `kernel`.
    pub(crate) const fn of(kernel: KernelProfile) -> &'static Profile {
        match kernel {
            KernelProfile::K418 => &K418,
            KernelProfile::K419a => &K419A,
            KernelProfile::K419 => &K419,
            KernelProfile::K61 => &K61,
            KernelProfile::K612 => &K612,
            KernelProfile::K615 => &K615,
        }
    }
}

const K418: Profile = Profile {
    iops_wait: IopsWait::AverageRate,
    order: Order::IosAfterBytes,
    carry: Carry::None,
    trim: Trim::All,
    credit_same_start: false,
    metadata_overtakes: false,
    remainder_pays_ios: false,
};
const K419A: Profile = Profile { iops_wait: IopsWait::SliceEnd, ..K418 };
const K419: Profile = Profile { iops_wait: IopsWait::NextSliceEnd, ..K418 };
const K61: Profile =
    Profile { carry: Carry::Unsigned, credit_same_start: true, remainder_pays_ios: true, ..K419 };
const K612: Profile = Profile {
    iops_wait: IopsWait::NextSliceEndOrOneIo,
    order: Order::Both,
    carry: Carry::Signed,
    credit_same_start: false,
    metadata_overtakes: true,
    ..K61
};
const K615: Profile =
    Profile { order: Order::BytesPaidFirst, carry: Carry::InCounters, trim: Trim::KeepOne, ..K612 };
