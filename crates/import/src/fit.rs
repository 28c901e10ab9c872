//! Limits that a server takes: bursts and peaks that contradict their rate are corrected, and noted.

use std::num::NonZeroU64;

use weir_engine::{Limits, LimitsError};

/// Corrects `limits`; returns a note for each correction.
pub(crate) fn fit(limits: &mut Limits) -> Vec<String> {
    let mut notes = Vec::new();
    // Each correction ends one contradiction of one dimension.
    while let Err(error) = limits.validate() {
        let (values, dimension, instead) = match error {
            LimitsError::BurstTooLong { dimension, most, .. } => {
                (&mut limits.burst, dimension, NonZeroU64::new(most))
            }
            LimitsError::BurstBelowRequest { dimension, .. }
            | LimitsError::BurstWithoutRate { dimension, .. }
            | LimitsError::BurstUnknown { dimension, .. } => (&mut limits.burst, dimension, None),
            LimitsError::PeakNotAboveRate { dimension, .. }
            | LimitsError::PeakWithoutRate { dimension, .. }
            | LimitsError::PeakUnknown { dimension, .. } => (&mut limits.peak, dimension, None),
            // Of limiters that are never chosen here.
            _ => break,
        };
        let done = match instead {
            Some(value) => format!("{value} is the burst here"),
            None => "left out".to_owned(),
        };
        notes.push(format!("{error}: {done}"));
        values.set(dimension, instead);
    }
    notes
}
