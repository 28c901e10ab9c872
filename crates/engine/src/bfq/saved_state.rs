//! Saved state of a flow that merges (`bic->saved_*`; spec/bfq 7.6).

use super::flow::ThinkTime;
use super::inject_limit::PackedInjectLimit;
use crate::merge::split::Raising;

/// State of a flow saved at a merge and restored at a split. Its weight is its client's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SavedState {
    pub(crate) think_time: ThinkTime,
    pub(crate) raising: Raising,
    pub(crate) inject_limit: PackedInjectLimit,
}
