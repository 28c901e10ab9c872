//! Price of one request at the limits.

/// What one request is charged, fixed when it is submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cost {
    /// Bytes; 0 for a remainder, whose bytes are paid already.
    pub(crate) bytes: u64,
    /// I/O units: 1 a request where no `iops_size` is set. Where it is, the unit is 1/`iops_size` of an I/O, and
    /// rates and bursts of I/Os are scaled by `iops_size` likewise.
    pub(crate) ios: u64,
    /// A later piece of a request that has paid; old kernels charge it nothing at all (spec/throttle 1.8).
    pub(crate) is_remainder: bool,
}

impl Cost {
    /// What a request of its own costs.
    pub(crate) const fn whole(bytes: u64, ios: u64) -> Cost {
        Cost { bytes, ios, is_remainder: false }
    }

    /// What is left of it once `part` of it is paid.
    pub(crate) fn less(self, part: Cost) -> Cost {
        Cost { bytes: self.bytes - part.bytes, ios: self.ios - part.ios, ..self }
    }

    /// So much `count` times.
    pub(crate) fn times(self, count: u64) -> Cost {
        Cost {
            bytes: self.bytes.saturating_mul(count),
            ios: self.ios.saturating_mul(count),
            ..self
        }
    }

    /// How often it is paid until all of `owed` is.
    pub(crate) fn count_in(self, owed: Cost) -> u64 {
        let count = |owed: u64, part: u64| if part == 0 { 0 } else { owed.div_ceil(part) };
        count(owed.bytes, self.bytes).max(count(owed.ios, self.ios))
    }

    /// How often it is in `amount` whole, in both kinds.
    pub(crate) fn times_in(self, amount: Cost) -> u64 {
        let times = |amount: u64, part: u64| amount.checked_div(part).unwrap_or(u64::MAX);
        times(amount.bytes, self.bytes).min(times(amount.ios, self.ios))
    }

    /// As much of it as is within `most`, in each kind.
    pub(crate) fn within(self, most: Cost) -> Cost {
        Cost { bytes: self.bytes.min(most.bytes), ios: self.ios.min(most.ios), ..self }
    }
}
