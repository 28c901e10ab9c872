//! Sparse state of a flow: its waker, the flows that it wakes, and its balance of idling (spec/bfq 7.8).

use super::payback::Payback;
use crate::merge::waker::Waker;
use crate::tree::NO_INDEX;
use crate::tree::SparseSlots;

/// State that few flows have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SparseState {
    /// The flow that wakes it.
    pub(crate) waker: Waker,
    /// First of the flows that it wakes, or [`NO_INDEX`].
    pub(crate) woken: u32,
    /// Next and previous flow in its waker's list.
    pub(crate) next: u32,
    pub(crate) prev: u32,
    /// Balance of idling for it.
    pub(crate) payback: Payback,
}

impl SparseState {
    /// No state.
    pub(crate) const NONE: SparseState = SparseState {
        waker: Waker::NONE,
        woken: NO_INDEX,
        next: NO_INDEX,
        prev: NO_INDEX,
        payback: Payback::NEW,
    };
}

/// Sparse state of all flows that have some.
pub(crate) type SparseStates = SparseSlots<SparseState>;
