//! Time as the engine sees it: an argument, never a reading.

use core::fmt;
use core::time::Duration;

/// A point in time, in nanoseconds since an origin of the caller's choosing.
///
/// The engine owns no clock: every call takes an `Instant`, and the same calls with the same instants give the
/// same decisions. Arithmetic saturates: 2^64 ns are 584 years, and a limit of one byte a second can ask for more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Instant(u64);

impl Instant {
    /// The origin.
    pub const ZERO: Instant = Instant(0);
    /// Later than every deadline: "not before something changes".
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// The instant `millis` milliseconds after the origin; saturates.
    pub const fn from_millis(millis: u64) -> Instant {
        Instant(millis.saturating_mul(1_000_000))
    }

    /// A tick is 1.024 us.
    pub(crate) const TICK_LOG2: u32 = 10;

    /// The tick that it is in, by which waits are known to a microsecond. In 73 minutes ticks begin anew.
    #[inline]
    pub(crate) const fn tick(self) -> u32 {
        (self.as_nanos() >> Instant::TICK_LOG2) as u32
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant plus `nanos` nanoseconds; saturates at [`Instant::FAR_FUTURE`].
    #[must_use]
    pub const fn plus_nanos(self, nanos: u64) -> Instant {
        Instant(self.0.saturating_add(nanos))
    }

    /// This instant less `nanos` nanoseconds; saturates at [`Instant::ZERO`].
    #[must_use]
    pub const fn minus_nanos(self, nanos: u64) -> Instant {
        Instant(self.0.saturating_sub(nanos))
    }

    /// This instant on a clock that shows `after` when the one it was read from shows `before`; saturates.
    #[must_use]
    pub(crate) const fn moved(self, before: Instant, after: Instant) -> Instant {
        self.plus_nanos(after.nanos_since(before)).minus_nanos(before.nanos_since(after))
    }

    /// Nanoseconds from `earlier` to this instant, 0 if `earlier` is later.
    pub const fn nanos_since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl core::ops::Add<Duration> for Instant {
    type Output = Instant;

    /// Saturates at [`Instant::FAR_FUTURE`].
    fn add(self, after: Duration) -> Instant {
        self.plus_nanos(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl fmt::Debug for Instant {
    /// Seconds with nine decimals, so that a failing timeline can be read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
