//! The slice limiter without the feature `slice`: it cannot be made, and nothing queues at a parent.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::requests::Requests;
use crate::throttle::limiter::{Arrival, Limiter, Rates, Verdict};
use crate::throttle::{Context, Throttle};
use crate::types::{Cost, Direction, Instant};

/// The limiter, of which there is none.
pub(crate) enum Slice {}

impl Slice {
    pub(crate) fn lets_metadata_overtake(&self) -> bool {
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

/// Queues at parents, all empty.
pub(crate) struct SliceQueues;

impl SliceQueues {
    pub(crate) const fn new() -> SliceQueues {
        SliceQueues
    }

    pub(crate) fn head(&self, _: u32, _: Direction) -> Option<u32> {
        None
    }

    pub(crate) fn pop(&mut self, _: &mut Requests, _: u32, _: Direction) -> Option<u32> {
        None
    }

    pub(crate) fn remove(&mut self, _: &mut Requests, _: u32, _: Direction, _: u32) {}

    pub(crate) fn shift(&mut self, _: u32, _: Instant, _: Instant) {}

    pub(crate) fn remove_cgroup(&mut self, _: u32) {}
}

impl Throttle {
    pub(super) fn charge_slice(
        &mut self,
        _: &mut Context<'_>,
        _: u32,
        _: Direction,
        _: Cost,
    ) -> Option<u32> {
        None
    }

    pub(super) fn queue_at_parent(&mut self, _: &mut Context<'_>, _: u32, _: Direction, _: u32) {}

    pub(super) fn is_slice_eligible(&self, _: u32, _: Direction) -> Option<bool> {
        None
    }

    pub(super) fn slice_head_changed(
        &mut self,
        _: &mut Context<'_>,
        _: u32,
        _: Direction,
        _: Arrival,
    ) {
    }

    pub(super) fn slice_limits_changed(&mut self, _: &mut Context<'_>, _: u32, _: Direction) {}

    pub(super) fn slice_timer_fired(&mut self, _: &mut Context<'_>, _: u32, _: Direction) -> bool {
        false
    }

    pub(super) fn drain_to_parent(&mut self, _: &mut Context<'_>, _: u32, _: Direction) {}

    pub(super) fn credit_slice(&mut self, _: &mut Context<'_>, _: u32, _: u32, _: Direction) {}

    pub(super) fn requeue_from_ancestors(
        &mut self,
        _: &mut Context<'_>,
        _: u32,
        _: Direction,
    ) -> Vec<u32> {
        Vec::new()
    }

    pub(super) fn is_slice(&self, _: u32, _: Direction) -> bool {
        false
    }
}
