//! The kernel's clock: time in ticks, and the nanosecond at which a tick begins.

use crate::types::Instant;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A clock of `hz` ticks a second, its tick 0 at the origin of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ticks {
    hz: u64,
}

impl Ticks {
    /// At least one tick a second.
    pub(super) fn per_second(hz: u16) -> Ticks {
        Ticks { hz: u64::from(hz.max(1)) }
    }

    pub(super) fn hz(self) -> u64 {
        self.hz
    }

    /// The tick that `now` belongs to.
    pub(super) fn at(self, now: Instant) -> u64 {
        let (seconds, nanos) = (now.as_nanos() / NANOS_PER_SEC, now.as_nanos() % NANOS_PER_SEC);
        // Whole seconds apart, so that no product needs more than 64 bits.
        seconds * self.hz + nanos * self.hz / NANOS_PER_SEC
    }

    /// The first nanosecond of `tick`; saturates at [`Instant::FAR_FUTURE`].
    pub(super) fn start_of(self, tick: u64) -> Instant {
        let (seconds, rest) = (tick / self.hz, tick % self.hz);
        let nanos = (rest * NANOS_PER_SEC).div_ceil(self.hz);
        Instant::from_nanos(seconds.saturating_mul(NANOS_PER_SEC)).plus_nanos(nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_begins_at_the_first_nanosecond_that_belongs_to_it() {
        for hz in [1, 100, 250, 300, 1000, 1024, 65535] {
            let ticks = Ticks::per_second(hz);
            for tick in [0, 1, 2, 7, 99, 300, 301, 123_456_789] {
                let start = ticks.start_of(tick);
                assert_eq!(ticks.at(start), tick, "{hz}");
                assert!(tick == 0 || ticks.at(start.minus_nanos(1)) == tick - 1, "{hz}");
            }
        }
        assert_eq!(Ticks::per_second(300).start_of(1), Instant::from_nanos(3_333_334));
        assert_eq!(Ticks::per_second(1).start_of(u64::MAX), Instant::FAR_FUTURE);
        assert_eq!(Ticks::per_second(0).at(Instant::from_millis(2500)), 2);
    }
}
