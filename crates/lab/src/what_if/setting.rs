//! Settings that are tried.

use std::num::NonZeroU32;

use weir_engine::settings::BfqSettings;
use weir_engine::{Change, Engine, Instant, Path, PerDimension, SchedulerKind, Watermark, Weight};
use weir_text::{LimitKey, WeightKey, parse_limits};

/// A setting that is tried.
#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    /// Limits of a cgroup, as `io.max`: keys that are not named keep their value.
    Max(Path, String),
    /// Rates inside a burst, as `io.peak`.
    Peak(Path, String),
    /// Weight of a cgroup.
    Weight(Path, Weight),
    /// Watermark of a cgroup, or of the device.
    Watermark(Path, Watermark),
    /// Requests at the device at once.
    Depth(NonZeroU32),
    /// Scheduler of the device.
    Scheduler(SchedulerKind),
    /// Settings of the scheduler `bfq`: keys that are not named keep their value.
    Bfq(String),
}

/// A text is no setting, or cannot be set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key}={value}: {reason}")]
pub struct SettingError {
    key: String,
    value: String,
    reason: String,
}

impl Setting {
    /// Keys that can be tried.
    pub const KEYS: [&str; 7] = ["max", "peak", "weight", "watermark", "depth", "scheduler", "bfq"];

    /// A setting by its name: `max`, `peak`, `weight` and `watermark` with the cgroup first, else of the root.
    ///
    /// # Errors
    /// Another key, or a value that it does not take.
    pub fn parse(key: &str, value: &str) -> Result<Setting, SettingError> {
        let refuse = |reason: String| SettingError { key: key.into(), value: value.into(), reason };
        let (path, rest) = match value.split_once(' ') {
            Some((path, rest)) if path.starts_with('/') => (path, rest.trim()),
            _ => ("/", value),
        };
        let path = Path::parse(path).map_err(|error| refuse(error.to_string()))?;
        Ok(match key {
            "max" => {
                let text = weir_text::parse_io_max(rest, PerDimension::NONE);
                text.map_err(|error| refuse(error.to_string()))?;
                Setting::Max(path, rest.to_owned())
            }
            "peak" => {
                let text = parse_limits(LimitKey::Peak, rest, PerDimension::NONE);
                text.map_err(|error| refuse(error.to_string()))?;
                Setting::Peak(path, rest.to_owned())
            }
            "weight" => {
                let line = weir_text::parse_weight(WeightKey::Io, rest);
                let line = line.map_err(|error| refuse(error.to_string()))?;
                Setting::Weight(path, line.weight.unwrap_or_default())
            }
            "watermark" => {
                let watermark = weir_text::parse_watermark(rest);
                Setting::Watermark(path, watermark.map_err(|error| refuse(error.to_string()))?)
            }
            "depth" => Setting::Depth(value.parse().map_err(|_| refuse("no depth".into()))?),
            "scheduler" => {
                let kind = SchedulerKind::from_name(value);
                Setting::Scheduler(kind.ok_or_else(|| refuse("none or bfq".into()))?)
            }
            "bfq" => {
                let text = weir_text::parse_bfq(value, BfqSettings::DEFAULT);
                text.map_err(|error| refuse(error.to_string()))?;
                Setting::Bfq(value.to_owned())
            }
            _ => {
                let known = Setting::KEYS.join(", ");
                return Err(refuse(format!("of recorded arrivals can be tried: {known}, disk")));
            }
        })
    }

    pub(super) fn apply(&self, engine: &mut Engine, now: Instant) -> Result<(), String> {
        let mut cgroup =
            |path: &Path| engine.ensure_cgroup(path).map_err(|error| error.to_string());
        let change = match self {
            Setting::Max(path, text) => {
                let cgroup = cgroup(path)?;
                let mut limits = engine.limits(cgroup).unwrap_or_default();
                limits.max =
                    weir_text::parse_io_max(text, limits.max).map_err(|error| error.to_string())?;
                for dimension in weir_engine::Dimension::ALL {
                    if limits.max.get(dimension).is_none() {
                        limits.burst.set(dimension, None);
                        limits.peak.set(dimension, None);
                    }
                }
                Change::SetLimits { cgroup, limits }
            }
            Setting::Peak(path, text) => {
                let cgroup = cgroup(path)?;
                let mut limits = engine.limits(cgroup).unwrap_or_default();
                let peak = parse_limits(LimitKey::Peak, text, limits.peak);
                limits.peak = peak.map_err(|error| error.to_string())?;
                Change::SetLimits { cgroup, limits }
            }
            Setting::Weight(path, weight) => {
                Change::SetWeight { cgroup: cgroup(path)?, weight: *weight }
            }
            Setting::Watermark(path, watermark) => {
                Change::SetWatermark { cgroup: cgroup(path)?, watermark: Some(*watermark) }
            }
            Setting::Depth(depth) => Change::SetDepth(*depth),
            Setting::Scheduler(kind) => Change::SetScheduler(*kind),
            Setting::Bfq(text) => {
                let bfq = weir_text::parse_bfq(text, engine.bfq_settings());
                Change::SetBfq(bfq.map_err(|error| error.to_string())?)
            }
        };
        engine.reconfigure(now, change).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_tried_is_refused() {
        for (key, value, reason) in [
            ("limiter", "slice", "of recorded arrivals can be tried"),
            ("max", "/b riops=fast", "riops"),
            ("depth", "0", "no depth"),
            ("scheduler", "cfq", "none or bfq"),
        ] {
            let error = Setting::parse(key, value).expect_err(value).to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
