//! QEMU's throttle settings: which are valid, and which of ours they are.

mod meter;

pub use meter::{QemuBucket, QemuMeter};

use core::fmt;
use core::num::NonZeroU32;

use crate::limits::{Dimension, Limits, PerDimension, Resource};
use crate::request::Direction;
use crate::throttle::LimitsError;

/// One of the six limits of a QEMU throttle group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QemuLimit {
    /// Bytes or I/Os per second in the long run; 0 is no limit.
    pub avg: u64,
    /// Bytes or I/Os per second inside a burst; 0 allows a tenth of a second of `avg` at once.
    pub max: u64,
    /// How long `max` may last, in seconds; 1 by default.
    pub burst_length: u64,
}

impl Default for QemuLimit {
    fn default() -> QemuLimit {
        QemuLimit { avg: 0, max: 0, burst_length: 1 }
    }
}

/// The settings of a QEMU throttle group, by QEMU's names (`docs/throttle.txt` there).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct QemuThrottle {
    /// Bytes of reads and writes together.
    pub bps_total: QemuLimit,
    /// Bytes read.
    pub bps_read: QemuLimit,
    /// Bytes written.
    pub bps_write: QemuLimit,
    /// Operations, reads and writes together.
    pub iops_total: QemuLimit,
    /// Read operations.
    pub iops_read: QemuLimit,
    /// Write operations.
    pub iops_write: QemuLimit,
    /// `iops-size`: a larger operation counts as its length over this, in bytes; 0 counts each as one.
    pub op_size: u64,
}

/// Which of the six.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QemuKey {
    /// [`QemuThrottle::bps_total`].
    BpsTotal,
    /// [`QemuThrottle::bps_read`].
    BpsRead,
    /// [`QemuThrottle::bps_write`].
    BpsWrite,
    /// [`QemuThrottle::iops_total`].
    IopsTotal,
    /// [`QemuThrottle::iops_read`].
    IopsRead,
    /// [`QemuThrottle::iops_write`].
    IopsWrite,
}

/// Why QEMU refuses settings, or why we have none like them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum QemuError {
    /// A value, or what a burst amounts to, is beyond QEMU's range.
    #[error("{key}: {value} is too large: at most {}", QemuThrottle::VALUE_MAX)]
    TooLarge {
        /// Which limit.
        key: QemuKey,
        /// `avg`, `max`, or `max` times `burst_length`; saturates.
        value: u64,
    },
    /// `max` without `avg`.
    #[error("{key}: a max of {max}/s without an average")]
    MaxWithoutAvg {
        /// Which limit.
        key: QemuKey,
        /// The maximum.
        max: u64,
    },
    /// `max` below `avg`.
    #[error("{key}: a max of {max}/s is below the average of {avg}/s")]
    MaxBelowAvg {
        /// Which limit.
        key: QemuKey,
        /// The maximum.
        max: u64,
        /// The average.
        avg: u64,
    },
    /// A burst of no length.
    #[error("{key}: a burst length of 0 s: at least 1 s")]
    NoBurstLength {
        /// Which limit.
        key: QemuKey,
    },
    /// A burst length without `max`.
    #[error("{key}: a burst length of {burst_length} s without a max")]
    BurstLengthWithoutMax {
        /// Which limit.
        key: QemuKey,
        /// The length, in seconds.
        burst_length: u64,
    },
    /// A total together with a limit of one direction, in the same unit.
    #[error("{total} and {split} exclude each other")]
    TotalAndSplit {
        /// The limit on both directions.
        total: QemuKey,
        /// The limit on one.
        split: QemuKey,
    },
    /// A size of operations, and no limit on them.
    #[error("an iops-size of {op_size} bytes without a limit on operations")]
    OpSizeWithoutIops {
        /// The size.
        op_size: u64,
    },
    /// QEMU takes it; `io.max` counts operations in 32 bits.
    #[error("{key}: {value} is too large for io.max: at most {most}")]
    TooLargeForLimits {
        /// Which limit.
        key: QemuKey,
        /// The average, or what the burst amounts to.
        value: u64,
        /// The largest limit or burst.
        most: u64,
    },
    /// QEMU takes it; our limits do not.
    #[error(transparent)]
    Limits(#[from] LimitsError),
}

impl QemuKey {
    /// All six, totals first.
    pub const ALL: [QemuKey; 6] = [
        QemuKey::BpsTotal,
        QemuKey::BpsRead,
        QemuKey::BpsWrite,
        QemuKey::IopsTotal,
        QemuKey::IopsRead,
        QemuKey::IopsWrite,
    ];

    /// QEMU's name.
    pub const fn key(self) -> &'static str {
        match self {
            QemuKey::BpsTotal => "bps-total",
            QemuKey::BpsRead => "bps-read",
            QemuKey::BpsWrite => "bps-write",
            QemuKey::IopsTotal => "iops-total",
            QemuKey::IopsRead => "iops-read",
            QemuKey::IopsWrite => "iops-write",
        }
    }

    /// What it counts.
    pub const fn resource(self) -> Resource {
        match self {
            QemuKey::BpsTotal | QemuKey::BpsRead | QemuKey::BpsWrite => Resource::Bytes,
            QemuKey::IopsTotal | QemuKey::IopsRead | QemuKey::IopsWrite => Resource::Ios,
        }
    }

    /// The direction it limits; `None` for both together.
    pub const fn direction(self) -> Option<Direction> {
        match self {
            QemuKey::BpsTotal | QemuKey::IopsTotal => None,
            QemuKey::BpsRead | QemuKey::IopsRead => Some(Direction::Read),
            QemuKey::BpsWrite | QemuKey::IopsWrite => Some(Direction::Write),
        }
    }
}

impl fmt::Display for QemuKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

impl QemuLimit {
    /// Whether it limits anything.
    pub const fn is_set(&self) -> bool {
        self.avg > 0
    }

    fn validate(&self, key: QemuKey) -> Result<(), QemuError> {
        let QemuLimit { avg, max, burst_length } = *self;
        let burst = max.saturating_mul(burst_length);
        for value in [avg, max, burst] {
            if value > QemuThrottle::VALUE_MAX {
                return Err(QemuError::TooLarge { key, value });
            }
        }
        match () {
            () if burst_length == 0 => Err(QemuError::NoBurstLength { key }),
            () if burst_length > 1 && max == 0 => {
                Err(QemuError::BurstLengthWithoutMax { key, burst_length })
            }
            () if max > 0 && avg == 0 => Err(QemuError::MaxWithoutAvg { key, max }),
            () if max > 0 && max < avg => Err(QemuError::MaxBelowAvg { key, max, avg }),
            () => Ok(()),
        }
    }

    /// Burst and peak as our limiters have them.
    fn burst_and_peak(&self, resource: Resource) -> (u64, Option<u64>) {
        let (bucket, peak) = match (self.max, self.burst_length) {
            (0, _) => (self.avg / 10, None),
            (max, 1) => (max, None),
            // The bucket of a tenth of a second that keeps to `max` is the tighter one.
            (max, _) if max == self.avg => (self.avg / 10, None),
            (max, length) => (max * length, Some(max)),
        };
        match resource {
            Resource::Bytes => (bucket.max(Limits::BYTE_BURST_LEAST), peak),
            // QEMU lets an operation go while the bucket is no more than full: one more than fit.
            Resource::Ios => (bucket + 1, peak),
        }
    }
}

impl QemuThrottle {
    /// The largest value that QEMU accepts, for a rate and for what a burst amounts to.
    pub const VALUE_MAX: u64 = 1_000_000_000_000_000;

    /// The settings of `key`.
    pub const fn get(&self, key: QemuKey) -> &QemuLimit {
        match key {
            QemuKey::BpsTotal => &self.bps_total,
            QemuKey::BpsRead => &self.bps_read,
            QemuKey::BpsWrite => &self.bps_write,
            QemuKey::IopsTotal => &self.iops_total,
            QemuKey::IopsRead => &self.iops_read,
            QemuKey::IopsWrite => &self.iops_write,
        }
    }

    /// Whether QEMU accepts these settings.
    ///
    /// # Errors
    /// [`QemuError`] names the first contradiction.
    pub fn validate(&self) -> Result<(), QemuError> {
        for [total, read, write] in [
            [QemuKey::BpsTotal, QemuKey::BpsRead, QemuKey::BpsWrite],
            [QemuKey::IopsTotal, QemuKey::IopsRead, QemuKey::IopsWrite],
        ] {
            for split in [read, write] {
                let (both, one) = (self.get(total), self.get(split));
                if (both.avg > 0 && one.avg > 0) || (both.max > 0 && one.max > 0) {
                    return Err(QemuError::TotalAndSplit { total, split });
                }
            }
        }
        for key in QemuKey::ALL {
            self.get(key).validate(key)?;
        }
        let operations = [&self.iops_total, &self.iops_read, &self.iops_write];
        if self.op_size > 0 && !operations.iter().any(|limit| limit.is_set()) {
            return Err(QemuError::OpSizeWithoutIops { op_size: self.op_size });
        }
        Ok(())
    }

    /// The limits that do the same with the pace limiter, and the `iops_size` to go with them.
    ///
    /// Rates and the amount of a burst are the same. Inside a burst of more than a second QEMU lets a tenth of a
    /// second of `max` go at once, we 10 ms; a byte burst is at least a sector.
    ///
    /// # Errors
    /// What QEMU refuses, and what has no counterpart: more operations than `io.max` counts, above all.
    pub fn limits(&self) -> Result<(Limits, Option<NonZeroU32>), QemuError> {
        self.validate()?;
        let mut limits = Limits::default();
        for key in QemuKey::ALL {
            let limit = self.get(key);
            if !limit.is_set() {
                continue;
            }
            let dimension = match key.direction() {
                Some(direction) => Dimension::of(direction, key.resource()),
                None => Dimension::joint(key.resource()),
            };
            let (burst, peak) = limit.burst_and_peak(key.resource());
            set(&mut limits.max, key, dimension, limit.avg)?;
            set(&mut limits.burst, key, dimension, burst)?;
            if let Some(peak) = peak {
                set(&mut limits.peak, key, dimension, peak)?;
            }
        }
        limits.validate()?;
        Ok((limits, self.op_size_in_effect()))
    }

    /// The size of an operation, if there can be a larger one.
    fn op_size_in_effect(&self) -> Option<NonZeroU32> {
        u32::try_from(self.op_size).ok().and_then(NonZeroU32::new)
    }
}

fn set(
    values: &mut PerDimension,
    key: QemuKey,
    dimension: Dimension,
    value: u64,
) -> Result<(), QemuError> {
    let most = dimension.largest();
    if value > most {
        return Err(QemuError::TooLargeForLimits { key, value, most });
    }
    *values = values.with(dimension, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn limit(avg: u64, max: u64, burst_length: u64) -> QemuLimit {
        QemuLimit { avg, max, burst_length }
    }

    fn refused(throttle: QemuThrottle, message: &str) {
        assert_eq!(throttle.validate().expect_err(message).to_string(), message);
    }

    fn read_ios(limit: QemuLimit) -> QemuThrottle {
        QemuThrottle { iops_read: limit, ..QemuThrottle::default() }
    }

    #[test]
    fn what_qemu_refuses() {
        let most = QemuThrottle::VALUE_MAX;
        assert_eq!(read_ios(limit(most, most, 1)).validate(), Ok(()));
        refused(
            read_ios(limit(most + 1, 0, 1)),
            "iops-read: 1000000000000001 is too large: at most 1000000000000000",
        );
        refused(
            read_ios(limit(1, most / 2, 3)),
            "iops-read: 1500000000000000 is too large: at most 1000000000000000",
        );
        refused(read_ios(limit(0, 5, 1)), "iops-read: a max of 5/s without an average");
        refused(read_ios(limit(6, 5, 1)), "iops-read: a max of 5/s is below the average of 6/s");
        refused(read_ios(limit(6, 0, 0)), "iops-read: a burst length of 0 s: at least 1 s");
        refused(read_ios(limit(6, 0, 2)), "iops-read: a burst length of 2 s without a max");
        let both = QemuThrottle {
            bps_total: limit(1, 0, 1),
            bps_write: limit(1, 0, 1),
            ..QemuThrottle::default()
        };
        refused(both, "bps-total and bps-write exclude each other");
        let sized = QemuThrottle { op_size: 4096, ..QemuThrottle::default() };
        refused(sized, "an iops-size of 4096 bytes without a limit on operations");
        let apart = QemuThrottle {
            bps_total: limit(1, 0, 1),
            iops_write: limit(1, 0, 1),
            op_size: 4096,
            ..QemuThrottle::default()
        };
        assert_eq!(apart.validate(), Ok(()));
    }

    #[test]
    fn what_fits_becomes_limits() {
        let throttle = QemuThrottle {
            bps_read: limit(1 << 20, 0, 1),
            iops_read: limit(100, 2000, 60),
            iops_write: limit(500, 500, 7),
            op_size: 4096,
            ..QemuThrottle::default()
        };
        let expected = Limits {
            max: PerDimension::NONE
                .with(Dimension::Rbps, 1 << 20)
                .with(Dimension::Riops, 100)
                .with(Dimension::Wiops, 500),
            burst: PerDimension::NONE
                .with(Dimension::Rbps, 104_857)
                .with(Dimension::Riops, 120_001)
                .with(Dimension::Wiops, 51),
            peak: PerDimension::NONE.with(Dimension::Riops, 2000),
            ..Limits::default()
        };
        assert_eq!(throttle.limits(), Ok((expected, NonZeroU32::new(4096))));
    }

    #[test]
    fn totals_become_limits_on_both_directions() {
        let throttle = QemuThrottle {
            bps_total: limit(1 << 20, 0, 1),
            iops_total: limit(100, 2000, 60),
            ..QemuThrottle::default()
        };
        let expected = Limits {
            max: PerDimension::NONE.with(Dimension::Rwbps, 1 << 20).with(Dimension::Rwiops, 100),
            burst: PerDimension::NONE
                .with(Dimension::Rwbps, 104_857)
                .with(Dimension::Rwiops, 120_001),
            peak: PerDimension::NONE.with(Dimension::Rwiops, 2000),
            ..Limits::default()
        };
        assert_eq!(throttle.limits(), Ok((expected, None)));
    }

    #[test]
    fn what_does_not_fit_says_why() {
        let wide = read_ios(limit(1 << 32, 0, 1)).limits().expect_err("32 bits");
        assert_eq!(
            wide.to_string(),
            "iops-read: 4294967296 is too large for io.max: at most 4294967294"
        );
        let long = read_ios(limit(1, 1000, 1000)).limits().expect_err("eleven days");
        assert_eq!(
            long.to_string(),
            "riops: a burst of 1000001 I/Os takes 1000001 s to fill at 1/s: at most 86400 I/Os (86400 s)"
        );
        assert_eq!(QemuThrottle::default().limits(), Ok((Limits::default(), None)));
    }
}
