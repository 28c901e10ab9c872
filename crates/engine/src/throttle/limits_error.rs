//! What a cgroup's limits mean to a limiter, and which of them contradict each other.

use crate::limits::{Dimension, Limits, Resource};
use crate::request::Direction;
use crate::throttle::limiter::{Rate, Rates};

/// Why limits cannot hold together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LimitsError {
    /// A burst slower than the rate it interrupts.
    #[error("io.peak {}={peak} is below io.max {}={max}", .dimension.key(), .dimension.key())]
    PeakBelowRate {
        /// Where.
        dimension: Dimension,
        /// The peak asked for, per second.
        peak: u64,
        /// The rate, per second.
        max: u64,
    },
}

impl Limits {
    /// Whether these limits make sense together.
    ///
    /// # Errors
    /// [`LimitsError`] names the contradiction.
    pub fn validate(&self, _iops_size: Option<u32>) -> Result<(), LimitsError> {
        for dimension in Dimension::ALL {
            if let (Some(peak), Some(max)) = (self.peak.get(dimension), self.max.get(dimension))
                && peak < max
            {
                let (peak, max) = (peak.get(), max.get());
                return Err(LimitsError::PeakBelowRate { dimension, peak, max });
            }
        }
        Ok(())
    }

    /// The limits of one direction, in the units of a cost; `units_per_io` is what one I/O costs.
    pub(crate) fn rates(&self, direction: Direction, units_per_io: u64) -> Rates {
        let rate = |resource| {
            let dimension = Dimension::of(direction, resource);
            let quantum = if resource == Resource::Ios { units_per_io } else { 1 };
            let per_second = self.max.get(dimension)?.get().saturating_mul(quantum);
            let burst = self.burst.get(dimension).map(|burst| burst.get().saturating_mul(quantum));
            let default = Limits::default_burst(resource, per_second, quantum);
            let peak = self.peak.get(dimension).map(|peak| peak.get().saturating_mul(quantum));
            Some(Rate { per_second, burst: burst.unwrap_or(default), peak, quantum })
        };
        Rates { bps: rate(Resource::Bytes), iops: rate(Resource::Ios) }
    }
}
