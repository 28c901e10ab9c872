//! What a cgroup may not exceed: six rates, and how each may burst.

use core::num::NonZeroU64;

use crate::request::Direction;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Resource {
    /// Bytes charged.
    Bytes,
    /// I/O operations charged.
    Ios,
}

/// One of the six things `io.max` limits: the kernel's four, and one limit for both directions in each resource.
///
/// Source of the latter two: io-throttle's one limit for reads and writes together (specification 2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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
    pub const fn joint(resource: Resource) -> Dimension {
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
    pub const fn is_joint(self) -> bool {
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

/// Everything that a cgroup's limiter needs to know, and is known to make sense.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
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

impl Limits {
    /// A burst that nobody asked for holds at least this many requests: enough that a client which reads, thinks
    /// and reads again sees no wait below its rate, too few to be noticed as a burst.
    pub const DEFAULT_BURST_REQUESTS: u64 = 4;
    /// The size that such a request is taken to have, in bytes: a page, the smallest common block. A larger one
    /// goes all the same, once what went before is paid.
    pub const DEFAULT_BURST_REQUEST_BYTES: u64 = 4096;
    /// A burst that nobody asked for holds at least what the rate earns in this time: clients work in batches, and
    /// 10 ms of a device's time is about one seek of a disk.
    pub const DEFAULT_BURST_NANOS: u64 = 10_000_000;

    /// The burst of a rate of `per_second`, where none is given: the larger of the two amounts above, rounded down
    /// to whole units. `units_per_io` is what one I/O costs, in the unit of `per_second`; it is not used for bytes.
    pub const fn default_burst(resource: Resource, per_second: u64, units_per_io: u64) -> u64 {
        let request = match resource {
            Resource::Bytes => Limits::DEFAULT_BURST_REQUEST_BYTES,
            Resource::Ios => units_per_io,
        };
        let requests = request.saturating_mul(Limits::DEFAULT_BURST_REQUESTS);
        let earned = per_second / (1_000_000_000 / Limits::DEFAULT_BURST_NANOS);
        if earned > requests { earned } else { requests }
    }
}

/// How a cgroup's limits are enforced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LimiterKind {
    /// Even spacing after a configurable burst (GCRA): the smoothest.
    #[default]
    Pace,
    /// The kernel's slices, as a given kernel does them.
    Slice(SliceProfile),
    /// io-throttle's token bucket; the bucket's size is the burst.
    Token,
    /// io-throttle's leaky bucket.
    Leaky,
}

/// What one kernel version does; rows of the table at the head of the throttle specification.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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
