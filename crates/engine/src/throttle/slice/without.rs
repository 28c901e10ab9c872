//! The slice limiter without the feature `slice`: it cannot be made.

use core::num::NonZeroU64;

use crate::throttle::limiter::{Arrival, Limiter, Rates, Verdict};
use crate::types::{Cost, Instant};

/// The limiter, of which there is none.
pub(crate) enum Slice {}

impl Slice {
    pub(crate) fn lets_metadata_overtake(&self) -> bool {
        match *self {}
    }

    pub(crate) fn slice_ns(&self) -> u64 {
        match *self {}
    }
}

impl Limiter for Slice {
    fn per_second(&self) -> [Option<NonZeroU64>; 2] {
        match *self {}
    }

    fn check(&mut self, _: Instant, _: Cost, _: Arrival) -> Verdict {
        match *self {}
    }

    fn charge(&mut self, _: Instant, _: Cost) {
        match *self {}
    }

    fn set_rates(&mut self, _: Instant, _: Rates, _: bool) {
        match *self {}
    }

    fn forgive(&mut self, _: Instant) {
        match *self {}
    }

    fn shift(&mut self, _: Instant, _: Instant) {
        match *self {}
    }
}
