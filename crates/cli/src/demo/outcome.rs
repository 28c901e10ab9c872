//! The figures of a demo, for programs.

use super::figures::Summary;
use crate::status::Cause;

/// Results of the demo.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub(super) struct Outcome {
    /// The same job under four limiters.
    pub(super) tenants: Vec<Tenant>,
    /// Two jobs under one limit, with equal weights and then not.
    pub(super) shared: Vec<Shared>,
}

/// One of the four.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub(super) struct Tenant {
    pub(super) cgroup: String,
    pub(super) limiter: &'static str,
    #[serde(flatten)]
    pub(super) figures: Summary,
}

/// One of the two under Weir's limit.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub(super) struct Shared {
    pub(super) cgroup: &'static str,
    pub(super) io_weight: u16,
    #[serde(flatten)]
    pub(super) figures: Summary,
    pub(super) waited_for: Vec<Cause>,
}
