//! Clock and sleep of the command line.

use std::time::Duration;

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};

/// Nanoseconds of the monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    // Neither is ever negative.
    tv_sec as u64 * 1_000_000_000 + tv_nsec as u64
}

/// Sleeps until the monotonic clock shows `at_ns`; late by the thread's timer slack and a wake-up.
pub(crate) fn sleep_until(at_ns: u64) {
    let at = Timespec {
        tv_sec: (at_ns / 1_000_000_000) as i64,
        tv_nsec: (at_ns % 1_000_000_000) as i64,
    };
    // Only a signal interrupts it; the time is absolute, so asking again is right.
    while clock_nanosleep_absolute(ClockId::Monotonic, &at) == Err(rustix::io::Errno::INTR) {}
}

/// Sleeps for `time`.
pub(crate) fn sleep(time: Duration) {
    let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    sleep_until(now_ns().saturating_add(time));
}
