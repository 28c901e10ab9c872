//! Rates: one number per dimension of a limit.

use std::ops::{Index, IndexMut};

use weir_engine::{Dimension, PerDimension};

/// A rate per second for each dimension. 0 lets nothing go, [`Rates::NO_LIMIT`] anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates([u64; Dimension::COUNT]);

impl Rates {
    /// The rate of a dimension without a limit.
    pub const NO_LIMIT: u64 = u64::MAX;
    /// Nothing in any dimension.
    pub const ZERO: Rates = Rates([0; Dimension::COUNT]);
    /// No limit in any dimension.
    pub const UNLIMITED: Rates = Rates([Rates::NO_LIMIT; Dimension::COUNT]);

    /// For each dimension what `rate` says.
    pub fn from_fn(mut rate: impl FnMut(Dimension) -> u64) -> Rates {
        Rates(Dimension::ALL.map(&mut rate))
    }

    /// This with the rate of `dimension` replaced.
    #[must_use]
    pub fn with(mut self, dimension: Dimension, rate: u64) -> Rates {
        self[dimension] = rate;
        self
    }

    /// The lower of both rates in each dimension.
    #[must_use]
    pub fn min(self, other: Rates) -> Rates {
        Rates::from_fn(|dimension| self[dimension].min(other[dimension]))
    }

    /// Whether it is in no dimension more than `other`.
    pub fn is_within(&self, other: &Rates) -> bool {
        self.0.iter().zip(other.0).all(|(&own, other)| own <= other)
    }

    /// Dimensions with a limit, in order.
    pub fn limited(&self) -> impl Iterator<Item = Dimension> {
        Dimension::ALL.into_iter().filter(|&dimension| self[dimension] != Rates::NO_LIMIT)
    }

    /// As limits of the engine, which has no limit of 0: such a rate is 1 a second.
    pub fn as_limits(&self) -> PerDimension {
        self.limited().fold(PerDimension::NONE, |limits, dimension| {
            limits.with(dimension, self[dimension].max(1))
        })
    }
}

impl From<PerDimension> for Rates {
    fn from(limits: PerDimension) -> Rates {
        Rates::from_fn(|dimension| limits.get(dimension).map_or(Rates::NO_LIMIT, u64::from))
    }
}

impl Index<Dimension> for Rates {
    type Output = u64;

    fn index(&self, dimension: Dimension) -> &u64 {
        &self.0[dimension as usize]
    }
}

impl IndexMut<Dimension> for Rates {
    fn index_mut(&mut self, dimension: Dimension) -> &mut u64 {
        &mut self.0[dimension as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_nothing_is_the_smallest_limit_of_an_engine() {
        let rates = Rates::UNLIMITED.with(Dimension::Riops, 0).with(Dimension::Rbps, 4096);
        assert_eq!(rates.as_limits().to_string(), "rbps=4096 wbps=max riops=1 wiops=max");
        let limits = PerDimension::NONE.with(Dimension::Wiops, 7);
        assert_eq!(Rates::from(limits).as_limits(), limits);
    }

    #[test]
    fn the_lower_rate_is_taken_in_each_dimension() {
        let one = Rates::UNLIMITED.with(Dimension::Riops, 5).with(Dimension::Wiops, 9);
        let other = Rates::UNLIMITED.with(Dimension::Riops, 7).with(Dimension::Wiops, 2);
        let lower = one.min(other);
        assert_eq!((lower[Dimension::Riops], lower[Dimension::Wiops]), (5, 2));
        assert!(lower.is_within(&one) && lower.is_within(&other) && !one.is_within(&other));
    }
}
