//! Results of a governor.

use weir_engine::PerDimension;
pub use weir_govern::State;

use super::Series;

/// A governor during the run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GovernResults {
    /// Its watermark.
    pub watermark_percent: u8,
    /// Changes of the factor of the device's limits, the first 4,096.
    pub changes: Vec<FactorChange>,
    /// All of them.
    pub changes_count: u64,
    /// The factor over time: the time of each interval times the factor, where there was one.
    pub lambda_series: Series,
    /// Use of the disk over time, as the governor saw it: nanoseconds.
    pub used_series: Series,
    /// Time without limits, in mode gate.
    pub lifted_series: Series,
    /// Governed cgroups, a parent before its children.
    pub cgroups: Vec<GovernedResults>,
}

/// A change of the factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactorChange {
    /// Its time.
    pub at_ns: u64,
    /// The factor from then on, in millionths; `u64::MAX` is no limit.
    pub lambda_ppm: u64,
    /// Use of the disk, as the governor saw it.
    pub utilisation_permille: u32,
    /// Why.
    pub state: State,
}

/// A governed cgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct GovernedResults {
    /// Its path.
    pub path: String,
    /// Its limits as written, at the end.
    pub as_written: PerDimension,
    /// Writes of its limits.
    pub writes: u64,
    /// Most writes within a second.
    pub writes_per_sec_max: u32,
}
