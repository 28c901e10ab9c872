//! The clock that deadlines are measured on.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`: never runs back, not moved by setting the time of day.
///
/// The origin is the kernel's (about the last boot), so readings of two processes of one machine compare. Costs one
/// vDSO call, about 25 ns; read it once per turn of a loop and pass it on.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Both fields are never negative on this clock; 2^64 ns are 584 years.
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_runs_back() {
        let mut last = monotonic_ns();
        assert!(last > 0);
        for _ in 0..1000 {
            let now = monotonic_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
