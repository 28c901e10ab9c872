//! Load of a step: requests to the device, and its answers.

use core::fmt;

use weir_engine::Direction;
use weir_units::Bytes;

/// Where the next request goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Order {
    /// To where one before it ended, in so many streams that take turns; at least one.
    Sequential {
        /// Streams, evenly spread over the device.
        streams: u32,
    },
    /// Anywhere, but near the one before.
    Random,
}

/// Requests of one kind, so many of them at the device all the time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Load {
    /// Whether they read or write.
    pub direction: Direction,
    /// Where they go.
    pub order: Order,
    /// Bytes of each.
    pub len: u32,
    /// Requests at the device at once.
    pub depth: u32,
}

impl Load {
    /// Requests until the device is in the middle of it: the queue is full, and it has been to each stream.
    pub(crate) fn warm(&self) -> u64 {
        let streams = match self.order {
            Order::Sequential { streams } => streams,
            Order::Random => 1,
        };
        u64::from(self.depth) + 2 * u64::from(streams)
    }

    /// Whether two loads differ in their depth at most.
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

/// What a load came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// What was asked.
    pub load: Load,
    /// Requests that were counted, at least 1.
    pub requests: u64,
    /// The time that they took together, at least 1.
    pub elapsed_ns: u64,
    /// Whether the rate had settled by then: it neither rose nor fell, and was known to a percent.
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

    /// Nanoseconds of the device for a request, when it does nothing else.
    pub fn price_ns(&self) -> f64 {
        self.elapsed_ns as f64 / self.requests as f64
    }

    /// Nanoseconds that a request was at the device, in the mean (Little's law).
    pub fn latency_ns(&self) -> f64 {
        self.price_ns() * f64::from(self.load.depth)
    }
}
