//! Limits that contradict themselves, and why.

use core::num::NonZeroU64;

use crate::types::{Dimension, LimiterKind, Limits, Resource};

/// Why limits are refused. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimitsError {
    /// A burst says how much of a rate may go at once; without the rate everything may.
    #[error("{}: a burst of {burst} {} without a rate: set io.max too", dimension.key(), unit(*dimension))]
    BurstWithoutRate {
        /// Which.
        dimension: Dimension,
        /// The burst, in bytes or I/Os.
        burst: u64,
    },
    /// A peak is the rate inside a burst; without a rate there is no burst.
    #[error("{}: a peak of {peak} {}/s without a rate: set io.max too", dimension.key(), unit(*dimension))]
    PeakWithoutRate {
        /// Which.
        dimension: Dimension,
        /// The peak, per second.
        peak: u64,
    },
    /// The limiter decides by itself how much may go at once.
    #[error("{}: the {} limiter has no burst to set, only pace and token have", dimension.key(), limiter.name())]
    BurstUnknown {
        /// Which.
        dimension: Dimension,
        /// The limiter.
        limiter: LimiterKind,
    },
    /// The limiter has no burst, and so no rate inside one.
    #[error("{}: the {} limiter has no peak, only pace and token have", dimension.key(), limiter.name())]
    PeakUnknown {
        /// Which.
        dimension: Dimension,
        /// The limiter.
        limiter: LimiterKind,
    },
    /// Not even one request would fit.
    #[error(
        "{}: a burst of {burst} {} is below one request: at least {least} {}",
        dimension.key(), unit(*dimension), unit(*dimension)
    )]
    BurstBelowRequest {
        /// Which.
        dimension: Dimension,
        /// The burst, in bytes or I/Os.
        burst: u64,
        /// The smallest that is allowed.
        least: u64,
    },
    /// At its rate the burst would not be full again within [`Limits::REFILL_SECONDS_MAX`].
    #[error(
        "{}: a burst of {burst} {} takes {seconds} s to fill at {rate}/s: at most {most} {} ({} s)",
        dimension.key(), unit(*dimension), unit(*dimension), Limits::REFILL_SECONDS_MAX
    )]
    BurstTooLong {
        /// Which.
        dimension: Dimension,
        /// The burst, in bytes or I/Os.
        burst: u64,
        /// The rate, per second.
        rate: u64,
        /// How long the burst takes to fill, rounded up.
        seconds: u64,
        /// The largest burst that is allowed at this rate.
        most: u64,
    },
    /// A burst at no more than the rate is none.
    #[error(
        "{}: a peak of {peak} {}/s is not above the rate of {rate} {}/s",
        dimension.key(), unit(*dimension), unit(*dimension)
    )]
    PeakNotAboveRate {
        /// Which.
        dimension: Dimension,
        /// The peak, per second.
        peak: u64,
        /// The rate, per second.
        rate: u64,
    },
    /// The kernel limits reads and writes apart only, and the slice limiter is for parity with it.
    #[error(
        "{}: the slice limiter is the kernel's, which has no limit on reads and writes together, \
         only pace, token and leaky have", dimension.key()
    )]
    JointUnknown {
        /// Which.
        dimension: Dimension,
    },
    /// A kernel's clock stands still, or its slice has no length.
    #[error("slices of {slice_ticks} ticks at {hz} ticks/s: both are at least 1")]
    NoTime {
        /// Ticks per second.
        hz: u16,
        /// Length of a slice in ticks.
        slice_ticks: u16,
    },
}

fn unit(dimension: Dimension) -> &'static str {
    match dimension.resource() {
        Resource::Bytes => "bytes",
        Resource::Ios => "I/Os",
    }
}

impl Limits {
    /// The smallest byte burst: a disk's sector, the smallest request there is. A larger request than the burst is
    /// not stuck, it goes when what went before is paid; but a burst that no request fits in is a mistake.
    pub const BYTE_BURST_LEAST: u64 = 512;

    /// The longest that a burst may take to fill again, 24 h in seconds. The burst credits of cloud volumes take up
    /// to 15 h (5.4 million I/Os at 100 a second); what does not come back within a day is no burst but a rate
    /// that no limit asks for.
    pub const REFILL_SECONDS_MAX: u64 = 24 * 3600;

    /// Whether these limits make sense together.
    ///
    /// # Errors
    /// [`LimitsError`] names the first contradiction, in the order of [`Dimension::ALL`].
    pub fn validate(&self) -> Result<(), LimitsError> {
        #[cfg(feature = "slice")]
        if let LimiterKind::Slice(profile) = self.limiter
            && (profile.hz == 0 || profile.slice_ticks == 0)
        {
            let (hz, slice_ticks) = (profile.hz, profile.slice_ticks);
            return Err(LimitsError::NoTime { hz, slice_ticks });
        }
        for dimension in Dimension::ALL {
            let rate = self.max.get(dimension).map(NonZeroU64::get);
            if rate.is_some() && dimension.is_rw() && !self.has_rw() {
                return Err(LimitsError::JointUnknown { dimension });
            }
            if let Some(burst) = self.burst.get(dimension) {
                self.validate_burst(dimension, rate, burst.get())?;
            }
            if let Some(peak) = self.peak.get(dimension) {
                self.validate_peak(dimension, rate, peak.get())?;
            }
        }
        Ok(())
    }

    fn has_bursts(&self) -> bool {
        matches!(self.limiter, LimiterKind::Pace | LimiterKind::Token)
    }

    fn has_rw(&self) -> bool {
        matches!(self.limiter, LimiterKind::Pace | LimiterKind::Token | LimiterKind::Leaky)
    }

    fn validate_burst(
        &self,
        dimension: Dimension,
        rate: Option<u64>,
        burst: u64,
    ) -> Result<(), LimitsError> {
        if !self.has_bursts() {
            return Err(LimitsError::BurstUnknown { dimension, limiter: self.limiter });
        }
        let Some(rate) = rate else {
            return Err(LimitsError::BurstWithoutRate { dimension, burst });
        };
        let least = match dimension.resource() {
            Resource::Bytes => Limits::BYTE_BURST_LEAST,
            Resource::Ios => 1,
        };
        if burst < least {
            return Err(LimitsError::BurstBelowRequest { dimension, burst, least });
        }
        let most = rate.saturating_mul(Limits::REFILL_SECONDS_MAX);
        if burst > most {
            let seconds = burst.div_ceil(rate);
            return Err(LimitsError::BurstTooLong { dimension, burst, rate, seconds, most });
        }
        Ok(())
    }

    fn validate_peak(
        &self,
        dimension: Dimension,
        rate: Option<u64>,
        peak: u64,
    ) -> Result<(), LimitsError> {
        if !self.has_bursts() {
            return Err(LimitsError::PeakUnknown { dimension, limiter: self.limiter });
        }
        match rate {
            None => Err(LimitsError::PeakWithoutRate { dimension, peak }),
            Some(rate) if peak <= rate => {
                Err(LimitsError::PeakNotAboveRate { dimension, peak, rate })
            }
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::types::Dimension::{Rbps, Riops, Rwiops, Wiops};
    use crate::types::{KernelProfile, PerDimension, SliceProfile};

    fn limits(limiter: LimiterKind) -> Limits {
        let max = PerDimension::NONE.with(Rbps, 1 << 20).with(Riops, 100);
        Limits { max, limiter, ..Limits::default() }
    }

    fn refused(limits: Limits, message: &str) {
        assert_eq!(limits.validate().expect_err(message).to_string(), message);
    }

    #[test]
    fn sensible_limits_pass() {
        let mut pace = limits(LimiterKind::Pace);
        assert_eq!(pace.validate(), Ok(()));
        pace.burst = PerDimension::NONE.with(Rbps, 512).with(Riops, 1);
        pace.peak = PerDimension::NONE.with(Riops, 101);
        assert_eq!(pace.validate(), Ok(()));
        assert_eq!(Limits { limiter: LimiterKind::Token, ..pace }.validate(), Ok(()));
        assert_eq!(limits(LimiterKind::Leaky).validate(), Ok(()));
        assert_eq!(Limits::default().validate(), Ok(()));
    }

    #[test]
    fn a_cloud_volume_keeps_its_credits() {
        let mut volume = limits(LimiterKind::Pace);
        volume.burst = PerDimension::NONE.with(Riops, 5_400_000);
        volume.peak = PerDimension::NONE.with(Riops, 3000);
        assert_eq!(volume.validate(), Ok(()));
    }

    #[test]
    fn contradictions_are_named() {
        let with_burst = |dimension, burst, limiter| Limits {
            burst: PerDimension::NONE.with(dimension, burst),
            ..limits(limiter)
        };
        let with_peak = |dimension, peak, limiter| Limits {
            peak: PerDimension::NONE.with(dimension, peak),
            ..limits(limiter)
        };
        let pace = LimiterKind::Pace;
        refused(
            with_burst(Rbps, 511, pace),
            "rbps: a burst of 511 bytes is below one request: at least 512 bytes",
        );
        refused(
            with_burst(Riops, 36_000_000, pace),
            "riops: a burst of 36000000 I/Os takes 360000 s to fill at 100/s: at most 8640000 I/Os (86400 s)",
        );
        refused(
            with_burst(Wiops, 7, pace),
            "wiops: a burst of 7 I/Os without a rate: set io.max too",
        );
        refused(
            with_peak(Wiops, 7, pace),
            "wiops: a peak of 7 I/Os/s without a rate: set io.max too",
        );
        refused(
            with_peak(Rbps, 1 << 20, pace),
            "rbps: a peak of 1048576 bytes/s is not above the rate of 1048576 bytes/s",
        );
        refused(
            with_burst(Riops, 7, LimiterKind::Leaky),
            "riops: the leaky limiter has no burst to set, only pace and token have",
        );
        let kernel = KernelProfile::K615;
        let slice = LimiterKind::Slice(SliceProfile { kernel, hz: 250, slice_ticks: 25 });
        refused(
            with_peak(Riops, 700, slice),
            "riops: the slice limiter has no peak, only pace and token have",
        );
        let rw = PerDimension::NONE.with(Rwiops, 7);
        refused(
            Limits { max: rw, ..limits(slice) },
            "rwiops: the slice limiter is the kernel's, which has no limit on reads and writes together, \
             only pace, token and leaky have",
        );
        for limiter in [LimiterKind::Pace, LimiterKind::Token, LimiterKind::Leaky] {
            assert_eq!(Limits { max: rw, ..limits(limiter) }.validate(), Ok(()));
        }
        let still = LimiterKind::Slice(SliceProfile { kernel, hz: 0, slice_ticks: 25 });
        refused(limits(still), "slices of 25 ticks at 0 ticks/s: both are at least 1");
    }
}
