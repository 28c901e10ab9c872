//! Limits times a factor.

use crate::IoMax;

/// The factor 1, in millionths.
pub(super) const ONE: u64 = 1_000_000;

/// No limit.
pub(super) const LIFTED: u64 = u64::MAX;

/// Largest number of I/Os a second that Linux does not take for `max` (spec/throttle 1.2).
const IOPS_MAX: u64 = u32::MAX as u64 - 1;

/// `limits` times `lambda`, of at least [`ONE`], rounded down; never below `limits`.
pub(super) fn scaled(limits: IoMax, lambda: u64) -> IoMax {
    if lambda == LIFTED {
        return IoMax::default();
    }
    let times = |limit: Option<u64>, most: u64| {
        limit.map(|limit| {
            let product = u128::from(limit) * u128::from(lambda) / u128::from(ONE);
            u64::try_from(product).unwrap_or(u64::MAX).min(most).max(limit)
        })
    };
    IoMax {
        rbps: times(limits.rbps, u64::MAX - 1),
        wbps: times(limits.wbps, u64::MAX - 1),
        riops: times(limits.riops, IOPS_MAX),
        wiops: times(limits.wiops, IOPS_MAX),
    }
}
