//! Validation of limits against each other. The engine judges; here the line at fault is found.

use weir_engine::{Limits, LimitsError};
use weir_text::LimitKey;

/// The contradiction, and which of the three texts has it.
pub(crate) struct Contradiction {
    pub(crate) limit: LimitKey,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// The first contradiction in `limits`.
pub(crate) fn find(limits: &Limits) -> Option<Contradiction> {
    let error = limits.validate().err()?;
    let limit = match error {
        LimitsError::BurstWithoutRate { .. }
        | LimitsError::BurstUnknown { .. }
        | LimitsError::BurstBelowRequest { .. }
        | LimitsError::BurstTooLong { .. } => LimitKey::Burst,
        LimitsError::PeakWithoutRate { .. }
        | LimitsError::PeakUnknown { .. }
        | LimitsError::PeakNotAboveRate { .. } => LimitKey::Peak,
        _ => LimitKey::Max,
    };
    Some(Contradiction { limit, message: error.to_string(), hint: weir_text::limits_hint(&error) })
}
