//! Limits of a cgroup: six rates, and the burst of each.

use alloc::string::String;
use core::fmt;
use core::num::NonZeroU64;

use weir_units::{BytesPerSec, IosPerSec, clip};

use super::request::Direction;
use super::time::Instant;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Resource {
    /// Bytes charged.
    Bytes,
    /// I/O operations charged.
    Ios,
}

/// One of the six things `io.max` limits: the kernel's four, and one limit for both directions in each resource.
///
/// Source of the latter two: io-throttle's one limit for reads and writes together (spec/throttle 2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Dimension {
    /// Bytes read per second.
    Rbps,
    /// Bytes written per second.
    Wbps,
    /// Read operations per second.
    Riops,
    /// Write operations per second.
    Wiops,
    /// Bytes read and written per second, together.
    Rwbps,
    /// Read and write operations per second, together.
    Rwiops,
}

impl Dimension {
    /// How many there are.
    pub const COUNT: usize = 6;

    /// All six, in the order in which `io.max` prints them.
    pub const ALL: [Dimension; Dimension::COUNT] = [
        Dimension::Rbps,
        Dimension::Wbps,
        Dimension::Riops,
        Dimension::Wiops,
        Dimension::Rwbps,
        Dimension::Rwiops,
    ];

    /// The dimension in which `resource` is counted for `direction` alone.
    pub const fn of(direction: Direction, resource: Resource) -> Dimension {
        match (direction, resource) {
            (Direction::Read, Resource::Bytes) => Dimension::Rbps,
            (Direction::Write, Resource::Bytes) => Dimension::Wbps,
            (Direction::Read, Resource::Ios) => Dimension::Riops,
            (Direction::Write, Resource::Ios) => Dimension::Wiops,
        }
    }

    /// The dimension in which `resource` is counted for both directions together.
    pub const fn rw(resource: Resource) -> Dimension {
        match resource {
            Resource::Bytes => Dimension::Rwbps,
            Resource::Ios => Dimension::Rwiops,
        }
    }

    /// The key of this dimension in `io.max`: `rbps`, `wbps`, `riops`, `wiops`, `rwbps` or `rwiops`.
    pub const fn key(self) -> &'static str {
        match self {
            Dimension::Rbps => "rbps",
            Dimension::Wbps => "wbps",
            Dimension::Riops => "riops",
            Dimension::Wiops => "wiops",
            Dimension::Rwbps => "rwbps",
            Dimension::Rwiops => "rwiops",
        }
    }

    /// The direction whose budget it is; `None` for both together.
    pub const fn direction(self) -> Option<Direction> {
        match self {
            Dimension::Rbps | Dimension::Riops => Some(Direction::Read),
            Dimension::Wbps | Dimension::Wiops => Some(Direction::Write),
            Dimension::Rwbps | Dimension::Rwiops => None,
        }
    }

    /// Whether it is a limit on both directions together.
    pub const fn is_rw(self) -> bool {
        self.direction().is_none()
    }

    /// Whether requests of `direction` count in it.
    pub fn limits(self, direction: Direction) -> bool {
        self.direction().is_none_or(|own| own == direction)
    }

    /// What it counts.
    pub const fn resource(self) -> Resource {
        match self {
            Dimension::Rbps | Dimension::Wbps | Dimension::Rwbps => Resource::Bytes,
            Dimension::Riops | Dimension::Wiops | Dimension::Rwiops => Resource::Ios,
        }
    }

    /// The largest value that is still a limit: one more means "unlimited", as in the kernel (2^64-1 for bytes,
    /// 2^32-1 for I/Os).
    pub const fn largest(self) -> u64 {
        match self.resource() {
            Resource::Bytes => u64::MAX - 1,
            Resource::Ios => u32::MAX as u64 - 1,
        }
    }
}

/// A value for each of the six dimensions, or none.
///
/// Used for rates (`io.max`, `io.peak`: per second) and for amounts (`io.burst`: bytes or I/Os).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PerDimension([Option<NonZeroU64>; Dimension::COUNT]);

impl PerDimension {
    /// No value in any dimension.
    pub const NONE: PerDimension = PerDimension([None; Dimension::COUNT]);

    /// The value in `dimension`; `None` where there is none (for a rate: unlimited).
    pub const fn get(&self, dimension: Dimension) -> Option<NonZeroU64> {
        self.0[dimension as usize]
    }

    /// Sets or, with `None`, removes the value in `dimension`.
    ///
    /// A value above [`Dimension::largest`] is no limit and is stored as `None`, as the kernel does.
    pub fn set(&mut self, dimension: Dimension, value: Option<NonZeroU64>) {
        self.0[dimension as usize] = value.filter(|value| value.get() <= dimension.largest());
    }

    /// This with the value of `dimension` replaced; for building values in one expression.
    #[must_use]
    pub fn with(mut self, dimension: Dimension, value: u64) -> PerDimension {
        self.set(dimension, NonZeroU64::new(value));
        self
    }

    /// Whether no dimension has a value.
    pub fn is_none(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

impl fmt::Display for PerDimension {
    /// As `io.max` is read back: the kernel's four keys in its order, plain numbers, `max` for none; then those of both
    /// directions together that are set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, dimension) in Dimension::ALL.into_iter().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            match self.get(dimension) {
                Some(value) => write!(f, "{blank}{}={value}", dimension.key())?,
                None if dimension.is_rw() => {}
                None => write!(f, "{blank}{}=max", dimension.key())?,
            }
        }
        Ok(())
    }
}

/// As the text that [`Limits::parse`] reads.
#[cfg(feature = "serde")]
impl serde::Serialize for PerDimension {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for PerDimension {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Limits::parse(&text).map(|limits| limits.max).map_err(serde::de::Error::custom)
    }
}

/// Everything that a cgroup's limiter needs to know, and is known to make sense.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Limits {
    /// Long-run rates: `io.max`.
    pub max: PerDimension,
    /// How much may go at once after a pause: `io.burst`, in bytes or I/Os. Where none is given, see
    /// [`Limits::DEFAULT_BURST_REQUESTS`] and [`Limits::DEFAULT_BURST_NANOS`].
    pub burst: PerDimension,
    /// The rate inside a burst: `io.peak`, per second. Without it a burst goes as fast as the device takes it.
    pub peak: PerDimension,
    /// Which limiter enforces them.
    pub limiter: LimiterKind,
}

/// End of limits that are set for a time only; see [`crate::Change::LeaseLimits`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Lease {
    /// The instant at which they end.
    pub until: Instant,
    /// The limits from then on.
    pub then: Limits,
}

impl Limits {
    /// Limits from text such as `rbps=50M riops=500`, with the default burst and limiter.
    ///
    /// Words are `KEY=VALUE` with a [`Dimension::key`], and either `max` for no limit or a whole number per second, which may
    /// have a unit: powers of 1024 for bytes (`4M`, `4MiB/s`), of 1000 for I/Os (`10k`). The last of a repeated key wins.
    /// [`crate::Engine::reconfigure`] checks the limits against each other.
    ///
    /// # Errors
    ///
    /// [`LimitsTextError`] names the first word that is refused.
    ///
    /// ```
    /// use weir_engine::{Dimension, Limits};
    ///
    /// let limits = Limits::parse("rbps=1M riops=max").unwrap();
    /// assert_eq!(limits.max.get(Dimension::Rbps).map(u64::from), Some(1 << 20));
    /// assert!(Limits::parse("rbps=fast").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Limits, LimitsTextError> {
        let mut max = PerDimension::NONE;
        for word in text.split_ascii_whitespace() {
            let (dimension, value) =
                parse_word(word).ok_or_else(|| LimitsTextError { word: clip(word) })?;
            max.set(dimension, value);
        }
        Ok(Limits { max, ..Limits::default() })
    }

    /// A default burst holds this many requests, where they take no longer than
    /// [`Limits::DEFAULT_BURST_NANOS_MAX`]: enough that a client which reads, thinks and reads again sees no wait below its
    /// rate, too few to be noticed as a burst.
    pub const DEFAULT_BURST_REQUESTS: u64 = 4;
    /// The size that such a request is taken to have, in bytes: a page, the smallest common block.
    pub const DEFAULT_BURST_REQUEST_BYTES: u64 = 4096;
    /// A default burst holds at least what the rate earns in this time, and of bytes one instalment besides:
    /// clients work in batches, timers come late, and 10 ms of a device's time is about one seek of a disk.
    pub const DEFAULT_BURST_NANOS: u64 = 10_000_000;
    /// Four requests take no longer than this: what goes in a few seconds is then within a tenth of the limit, also where
    /// it is low.
    pub const DEFAULT_BURST_NANOS_MAX: u64 = 500_000_000;

    /// The burst of a rate of `per_second`, where none is given, by the amounts above, rounded down to whole units.
    /// `units_per_io` is what one I/O costs, in the unit of `per_second`; it is not used for bytes.
    pub const fn default_burst(resource: Resource, per_second: u64, units_per_io: u64) -> u64 {
        let request = match resource {
            Resource::Bytes => Limits::DEFAULT_BURST_REQUEST_BYTES,
            Resource::Ios => units_per_io,
        };
        let requests = request.saturating_mul(Limits::DEFAULT_BURST_REQUESTS);
        let requests = min(requests, earned_in(per_second, Limits::DEFAULT_BURST_NANOS_MAX));
        let earned = earned_in(per_second, Limits::DEFAULT_BURST_NANOS);
        let least = match resource {
            Resource::Bytes => {
                let instalment = Limits::instalment(resource, per_second, u64::MAX, units_per_io);
                earned.saturating_add(instalment)
            }
            Resource::Ios => max(earned, units_per_io),
        };
        max(requests, least)
    }

    /// A request is charged in instalments of at most what the rate earns in this time.
    pub const INSTALMENT_NANOS: u64 = 5_000_000;
    /// No instalment of bytes is smaller: a request of this size is never charged in parts.
    pub const INSTALMENT_BYTES_MIN: u64 = 4096;
    /// No instalment of bytes is larger, unless the rate earns more in [`Limits::INSTALMENT_NANOS_MIN`].
    pub const INSTALMENT_BYTES_MAX: u64 = 1 << 20;
    /// The number of instalments a second is bounded by this, at any rate.
    pub const INSTALMENT_NANOS_MIN: u64 = 1_000_000;
    /// Instalments may use what the limit has not been used for since this time, where that is more than its burst. A client
    /// that sends one large request at a time pays before each goes, and not while it is at the device: so long it may
    /// take there, and the client for the next one, without a loss. It is as long as a slice of the kernel's.
    pub const INSTALMENT_SAVINGS_NANOS: u64 = 100_000_000;

    /// The most that a request is charged at once by a rate of `per_second` with this `burst`, of which it is at most
    /// half where half of the burst holds a request. `units_per_io` is as in [`Limits::default_burst`]: where large
    /// requests do not count by size, one I/O is charged at a time.
    pub const fn instalment(
        resource: Resource,
        per_second: u64,
        burst: u64,
        units_per_io: u64,
    ) -> u64 {
        let least = earned_in(per_second, Limits::INSTALMENT_NANOS_MIN);
        match resource {
            Resource::Bytes => {
                let most = max(least, Limits::INSTALMENT_BYTES_MAX);
                let amount = min(earned_in(per_second, Limits::INSTALMENT_NANOS), most);
                max(min(amount, burst / 2), Limits::INSTALMENT_BYTES_MIN)
            }
            Resource::Ios if units_per_io == 1 => 1,
            Resource::Ios => max(min(least, burst / 2), units_per_io),
        }
    }
}

/// A word that [`Limits::parse`] refuses.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{word:?} is no limit: allowed are rbps=, wbps=, riops=, wiops=, rwbps= and rwiops= with max or a whole number of at \
     least 1"
)]
#[non_exhaustive]
pub struct LimitsTextError {
    /// The word, cut where it is long.
    pub word: String,
}

fn parse_word(word: &str) -> Option<(Dimension, Option<NonZeroU64>)> {
    let (key, value) = word.split_once('=')?;
    let dimension = Dimension::ALL.into_iter().find(|dimension| dimension.key() == key)?;
    if value == "max" {
        return Some((dimension, None));
    }
    let value = match dimension.resource() {
        Resource::Bytes => value.parse().ok().map(|BytesPerSec(value)| value),
        Resource::Ios => value.parse().ok().map(|IosPerSec(value)| value),
    }?;
    let value = NonZeroU64::new(value).filter(|value| value.get() <= dimension.largest())?;
    Some((dimension, Some(value)))
}

/// What `per_second` earns in a part of a second, of whole microseconds; rounded down.
pub(crate) const fn earned_in(per_second: u64, nanos: u64) -> u64 {
    let micros = nanos / 1000;
    per_second / 1_000_000 * micros + per_second % 1_000_000 * micros / 1_000_000
}

// `Ord::max` and `Ord::min` are not const.

const fn max(one: u64, other: u64) -> u64 {
    if one > other { one } else { other }
}

const fn min(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}

/// How a cgroup's limits are enforced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LimiterKind {
    /// Even spacing after a configurable burst (GCRA): the smoothest.
    #[default]
    Pace,
    /// The kernel's slices, as a given kernel does them. With the feature `slice`.
    #[cfg(feature = "slice")]
    Slice(SliceProfile),
    /// io-throttle's token bucket; the bucket's size is the burst.
    Token,
    /// io-throttle's leaky bucket.
    Leaky,
}

impl LimiterKind {
    /// Name in configurations and reports: `pace`, `slice`, `token` or `leaky`.
    pub const fn name(self) -> &'static str {
        match self {
            LimiterKind::Pace => "pace",
            #[cfg(feature = "slice")]
            LimiterKind::Slice(_) => "slice",
            LimiterKind::Token => "token",
            LimiterKind::Leaky => "leaky",
        }
    }
}

/// What one kernel version does; rows of the table at the head of docs/spec/throttle.md.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SliceProfile {
    /// Which kernel.
    pub kernel: KernelProfile,
    /// Ticks per second: 100, 250, 300 or 1000 on real kernels.
    pub hz: u16,
    /// Length of a slice in ticks: `hz / 10` for 100 ms.
    pub slice_ticks: u16,
}

/// The kernels whose slice limiter differs in behaviour.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum KernelProfile {
    /// Up to 4.18, before the tail-latency fix.
    K418,
    /// 4.19 as first merged: the fix, whose wait may be 0.
    K419a,
    /// From 5.3 and stable 4.19 on: the fix with the zero wait mended.
    K419,
    /// 6.1: budget carried over a limit change, split requests pay I/Os.
    K61,
    /// 6.12: a least wait for I/Os, both waits always computed, metadata overtakes.
    K612,
    /// Mainline of 2025-26: bytes then I/Os, one slice kept back when trimming, signed carry.
    K615,
}
