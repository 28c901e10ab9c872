//! Differences between kernels, as data: one row a kernel, one column a difference.

/// Differences between the kernels of docs/spec/throttle.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Its name in the table at the head of docs/spec/throttle.md.
    pub name: &'static str,
    /// Part of the slice that allows I/Os.
    pub ios_window: IosWindow,
    /// How long a head waits when its I/O is not allowed.
    pub ios_wait: IosWait,
    /// How the waits for bytes and for I/Os combine.
    pub combine: Combine,
    /// Treatment of the earned and spent budget at a change of limits.
    pub carry: Carry,
    /// Charge of a later piece of a split bio.
    pub remainder: Remainder,
    /// Metadata and swap are charged and passed up instead of being queued.
    pub meta_overtakes: bool,
    /// Full slices that a trim leaves in place.
    pub trim_keeps: u64,
    /// A removed group's bios are released at once instead of draining at its old limits.
    pub removal_cancels: bool,
}

/// How the ticks since the slice began are rounded up to slices when I/Os are allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IosWindow {
    /// `up(E)`, one slice when `E` is 0: as for bytes.
    Elapsed,
    /// `up(E + 1)`: the last tick of a slice already sees the next one.
    ElapsedPlusOne,
}

/// How long a head waits when its I/O is not allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IosWait {
    /// Until the average rate since the slice began allows one more.
    AverageRate,
    /// Until the slice ends.
    SliceEnd,
    /// Until the slice ends, but at least the time of one I/O and a tick.
    SliceEndOrOneIo,
}

/// How the waits for bytes and for I/Os combine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    /// I/Os are looked at only when the bytes are fine.
    IosIfBytesPass,
    /// The longer of the two.
    Longer,
    /// Bytes first, and paid as soon as they are fine, even when the I/O has to wait after that.
    PayBytesThenIos,
}

/// Treatment of the slice's earned and spent budget at a change of limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carry {
    /// It is forgotten.
    Nothing,
    /// It is kept apart and compared unsigned: a debt wraps round and becomes an enormous credit.
    Unsigned,
    /// It is kept apart and compared signed.
    Signed,
    /// It is added to the counters, which may be negative.
    InCounters,
}

/// Charge of a later piece of a split bio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remainder {
    /// Nothing: it goes at its turn.
    Nothing,
    /// One I/O at every level, in the queue like any other.
    Io,
    /// One I/O at every level, ahead of bios that wait for bytes.
    IoAheadOfBytes,
}

impl Profile {
    /// Up to 4.18.
    pub const K418: Profile = Profile {
        name: "K418",
        ios_window: IosWindow::Elapsed,
        ios_wait: IosWait::AverageRate,
        combine: Combine::IosIfBytesPass,
        carry: Carry::Nothing,
        remainder: Remainder::Nothing,
        meta_overtakes: false,
        trim_keeps: 0,
        removal_cancels: false,
    };
    /// 4.19 as first merged.
    pub const K419A: Profile =
        Profile { name: "K419a", ios_wait: IosWait::SliceEnd, ..Profile::K418 };
    /// From 5.3 and stable 4.19 on.
    pub const K419: Profile =
        Profile { name: "K419", ios_window: IosWindow::ElapsedPlusOne, ..Profile::K419A };
    /// 6.1.
    pub const K61: Profile =
        Profile { name: "K61", carry: Carry::Unsigned, remainder: Remainder::Io, ..Profile::K419 };
    /// 6.12.
    pub const K612: Profile = Profile {
        name: "K612",
        ios_wait: IosWait::SliceEndOrOneIo,
        combine: Combine::Longer,
        carry: Carry::Signed,
        meta_overtakes: true,
        ..Profile::K61
    };
    /// Mainline of 2025-26.
    pub const K615: Profile = Profile {
        name: "K615",
        combine: Combine::PayBytesThenIos,
        carry: Carry::InCounters,
        remainder: Remainder::IoAheadOfBytes,
        trim_keeps: 1,
        removal_cancels: true,
        ..Profile::K612
    };

    /// All of them, oldest first.
    pub const ALL: [Profile; 6] =
        [Profile::K418, Profile::K419A, Profile::K419, Profile::K61, Profile::K612, Profile::K615];
}
