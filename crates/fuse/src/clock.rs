//! The clock that the emulated disks of this crate run on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of the monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    // Neither is ever negative; 2^64 ns are 584 years.
    (tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(tv_nsec as u64)
}

/// The time of day, for the dates of files. Nothing is decided by it.
pub(crate) fn date() -> SystemTime {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    // A clock set to before 1970 shows 1970.
    let since = Duration::new(u64::try_from(tv_sec).unwrap_or(0), tv_nsec as u32);
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}
