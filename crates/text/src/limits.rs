//! Hints for limits that contradict each other.

use weir_engine::{LimitsError, Resource};

/// A correction of limits that [`weir_engine::Limits::validate`] refuses.
pub fn limits_hint(error: &LimitsError) -> String {
    match *error {
        LimitsError::BurstWithoutRate { dimension, .. }
        | LimitsError::PeakWithoutRate { dimension, .. } => {
            format!(
                "without a rate nothing waits: limit {0} in io.max, or leave {0} out here",
                dimension.key()
            )
        }
        LimitsError::BurstUnknown { dimension, .. }
        | LimitsError::PeakUnknown { dimension, .. } => {
            format!("leave {} out, or choose one of these limiters", dimension.key())
        }
        LimitsError::BurstBelowRequest { dimension, least, .. } => format!(
            "write \"{}={least}\" or more; left out, it is what four requests or 10 ms of the rate need",
            dimension.key()
        ),
        LimitsError::BurstTooLong { dimension, most, .. } => {
            format!("write \"{}={most}\" or less, or allow a higher rate", dimension.key())
        }
        LimitsError::PeakNotAboveRate { dimension, rate, .. } => format!(
            "write more than \"{}={rate}\"; left out, a burst goes as fast as the device takes it",
            dimension.key()
        ),
        LimitsError::JointUnknown { dimension } => {
            let (reads, writes) = match dimension.resource() {
                Resource::Bytes => ("rbps", "wbps"),
                Resource::Ios => ("riops", "wiops"),
            };
            format!("limit {reads} and {writes}, or choose one of these limiters")
        }
        LimitsError::NoTime { .. } => "a kernel has 250 ticks/s, and slices of 25".into(),
        _ => "change one of the two".into(),
    }
}

#[cfg(test)]
mod tests {
    use weir_engine::Dimension::Rbps;
    use weir_engine::{Limits, PerDimension};

    use super::*;

    /// What a hint tells to write is taken.
    #[test]
    fn hints_lead_out() {
        let most = |per_second, burst| Limits {
            max: PerDimension::NONE.with(Rbps, per_second),
            burst: PerDimension::NONE.with(Rbps, burst),
            ..Limits::default()
        };
        for (wrong, right, hint) in [
            (
                most(1 << 20, 511),
                most(1 << 20, 512),
                "write \"rbps=512\" or more; left out, it is what four requests or 10 ms of the rate need",
            ),
            (
                most(10, 864_001),
                most(10, 864_000),
                "write \"rbps=864000\" or less, or allow a higher rate",
            ),
        ] {
            assert_eq!(limits_hint(&wrong.validate().unwrap_err()), hint);
            assert_eq!(right.validate(), Ok(()));
        }
    }
}
