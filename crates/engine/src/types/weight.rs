//! Weights of cgroups: shares relative to siblings.

use core::num::NonZeroU16;

/// Share of a contended limit or device that a cgroup gets while it has requests, relative to its siblings.
///
/// No unit; 1 to 10000, 100 by default. Only ratios count. A change counts from the next request that is let through.
/// Source: cgroup v2 `io.weight`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "u16", try_from = "u16"))]
pub struct Weight(NonZeroU16);

/// A weight outside 1 to 10000.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("weight {asked} is not between 1 and {}", Weight::MAX)]
#[non_exhaustive]
pub struct WeightError {
    /// What was asked for.
    pub asked: u64,
}

impl Weight {
    /// 100, the weight of a cgroup by default, and of each client.
    pub const DEFAULT: Weight = Weight(NonZeroU16::new(100).unwrap());

    /// The largest weight.
    pub const MAX: u16 = 10_000;

    /// Checks `weight`.
    ///
    /// # Errors
    /// [`WeightError`] outside 1 to 10000.
    pub fn new(weight: u64) -> Result<Weight, WeightError> {
        u16::try_from(weight)
            .ok()
            .filter(|&weight| weight <= Weight::MAX)
            .and_then(NonZeroU16::new)
            .map(Weight)
            .ok_or(WeightError { asked: weight })
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl From<Weight> for u16 {
    fn from(weight: Weight) -> u16 {
        weight.get()
    }
}

impl TryFrom<u16> for Weight {
    type Error = WeightError;

    fn try_from(weight: u16) -> Result<Weight, WeightError> {
        Weight::new(weight.into())
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::DEFAULT
    }
}
