//! A limiter's name.

use weir_engine::LimiterKind;

/// As `io.limiter` writes it, with everything that is set.
pub(crate) fn name(limiter: LimiterKind) -> String {
    match limiter {
        LimiterKind::Slice(profile) => {
            let slice_ms = u32::from(profile.slice_ticks) * 1000 / u32::from(profile.hz.max(1));
            format!("slice:{:?},hz={},slice={slice_ms}ms", profile.kernel, profile.hz)
        }
        _ => limiter.name().into(),
    }
}
