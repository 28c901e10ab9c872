//! Load of a step, and its measured rate.

use core::fmt;

use weir_engine::Direction;
use weir_units::Bytes;

/// Order of offsets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Order {
    /// Sequential within each of several streams that take turns.
    Sequential {
        /// Streams, at least one, evenly spread over the device.
        streams: u32,
    },
    /// Random, but not near the previous request.
    Random,
}

/// Requests of one kind at a constant depth.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Load {
    /// Reads or writes.
    pub direction: Direction,
    /// Sequential or random.
    pub order: Order,
    /// Bytes of each request.
    pub len: u32,
    /// Requests at the device at once.
    pub depth: u32,
}

impl Load {
    /// Warm-up in requests: the queue is full, and each stream has been visited.
    pub(crate) fn warm(&self) -> u64 {
        let streams = match self.order {
            Order::Sequential { streams } => streams,
            Order::Random => 1,
        };
        u64::from(self.depth) + 2 * u64::from(streams)
    }

    /// Whether two loads differ at most in their depth.
    pub fn is_alike(&self, other: &Load) -> bool {
        Load { depth: other.depth, ..*self } == *other
    }
}

impl fmt::Display for Load {
    /// As `random reads of 4 KiB`, the depth left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.direction {
            Direction::Read => "reads",
            Direction::Write => "writes",
        };
        let len = Bytes(u64::from(self.len));
        match self.order {
            Order::Random => write!(f, "random {what} of {len}"),
            Order::Sequential { streams: 1 } => write!(f, "sequential {what} of {len}"),
            Order::Sequential { streams } => write!(f, "{streams} streams of {what} of {len}"),
        }
    }
}

/// Measured rate of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The measured load.
    pub load: Load,
    /// Counted requests, at least 1.
    pub requests: u64,
    /// Nanoseconds of the counted requests together, at least 1.
    pub elapsed_ns: u64,
    /// Whether the rate had settled: neither rising nor falling, and known to a percent.
    pub is_steady: bool,
}

impl Step {
    /// Requests a second.
    pub fn per_sec(&self) -> f64 {
        self.requests as f64 * 1e9 / self.elapsed_ns as f64
    }

    /// Bytes a second.
    pub fn bytes_per_sec(&self) -> f64 {
        self.per_sec() * f64::from(self.load.len)
    }

    /// Nanoseconds of the busy device for a request.
    pub fn price_ns(&self) -> f64 {
        self.elapsed_ns as f64 / self.requests as f64
    }

    /// Mean nanoseconds of a request at the device (Little's law).
    pub fn latency_ns(&self) -> f64 {
        self.price_ns() * f64::from(self.load.depth)
    }
}
