//! Wakers: flows that go on when others do (spec/bfq 7.8).

use super::payback::Payback;
use crate::bfq::sparse_slots::SparseSlots;
use crate::merge::waker::Waker;
use crate::tree::NO_INDEX;

/// What is known of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SparseState {
    /// Who lets it go on.
    pub(crate) waker: Waker,
    /// The first of those that go on when this one does; [`NO_INDEX`] for nobody.
    pub(crate) woken: u32,
    /// Among those that its waker wakes, the one behind it and the one before it.
    pub(crate) next: u32,
    pub(crate) prev: u32,
    /// Whether it is worth waiting for.
    pub(crate) payback: Payback,
}

impl SparseState {
    /// Nothing is known.
    pub(crate) const NONE: SparseState = SparseState {
        waker: Waker::NONE,
        woken: NO_INDEX,
        next: NO_INDEX,
        prev: NO_INDEX,
        payback: Payback::NEW,
    };
}

/// Relations of those who have some: few.
pub(crate) type SparseStates = SparseSlots<SparseState>;
