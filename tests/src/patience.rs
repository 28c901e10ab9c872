//! Polling with a timeout.

use std::time::Duration;

/// Longest wait for anything. Generous, because a slow machine is no bug; only a test that fails takes that long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two looks at something that announces no event.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits until `holds` is true. For states that can only be polled: counters of another process, `/proc`.
///
/// # Panics
/// If it is still false after [`PATIENCE`], naming `what`.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..PATIENCE.as_nanos() / LOOK_EVERY.as_nanos() {
        if holds() {
            return;
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    panic!("waited {PATIENCE:?} in vain: {what}");
}
