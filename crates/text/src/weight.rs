//! The text of `io.weight` and `io.bfq.weight`.

use weir_engine::Weight;
use weir_units::clip;

use crate::io_max::DeviceRef;

/// Key under which a weight is written. Both set the same weight, on the same scale; the ranges are those of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WeightKey {
    /// `io.weight`, 1 to 10000.
    Io,
    /// `io.bfq.weight`, 1 to 1000.
    Bfq,
}

impl WeightKey {
    /// Both.
    pub const ALL: [WeightKey; 2] = [WeightKey::Io, WeightKey::Bfq];

    /// The key in the configuration and in cgroup files.
    pub const fn key(self) -> &'static str {
        match self {
            WeightKey::Io => "io.weight",
            WeightKey::Bfq => "io.bfq.weight",
        }
    }

    /// The largest weight under this key.
    pub const fn largest(self) -> u16 {
        match self {
            WeightKey::Io => Weight::MAX,
            WeightKey::Bfq => 1_000,
        }
    }
}

/// A line of `io.weight`, read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WeightLine<'a> {
    /// The device that it is for; `None` is the cgroup's weight on devices without a line of their own.
    pub device: Option<DeviceRef<'a>>,
    /// The weight; `None` takes the device's own weight back, so that the cgroup's counts there. Only with a device.
    pub weight: Option<Weight>,
}

/// Why a text is no line of `io.weight`. Texts are cut to [`weir_units::UnitError::TEXT_MAX`] characters.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WeightTextError {
    /// The text is empty, or has more than two words.
    #[error("{text:?} is no weight")]
    Form {
        /// What was written.
        text: String,
    },
    /// The first of two words is no device.
    #[error("{device:?} is no device")]
    Device {
        /// The first word.
        device: String,
    },
    /// The weight is no whole number.
    #[error("{text:?} is no weight")]
    NotANumber {
        /// The word.
        text: String,
    },
    /// A number outside the key's range.
    #[error("weight {text} is not between 1 and {largest}")]
    OutOfRange {
        /// The number.
        text: String,
        /// The largest weight under the key.
        largest: u16,
    },
}

impl WeightTextError {
    /// What would be right.
    pub fn hint(&self) -> &'static str {
        match self {
            // Zero, however long.
            WeightTextError::OutOfRange { text, .. } if text.trim_matches('0').is_empty() => {
                "the smallest weight is 1; unset it is 100"
            }
            WeightTextError::OutOfRange { largest: 1_000, .. } => {
                "`io.weight` takes 1 to 10000, on the same scale"
            }
            WeightTextError::OutOfRange { .. } => {
                "only ratios among siblings count: divide all of them by the same number"
            }
            WeightTextError::Device { .. } => {
                "write \"default 200\", or a device, its MAJ:MIN or \"*\" before the weight"
            }
            WeightTextError::Form { .. } | WeightTextError::NotANumber { .. } => {
                "write a whole number, \"default 200\" or \"DEVICE 200\"; unset it is 100"
            }
        }
    }
}

/// Reads `200`, `default 200`, `DEVICE 200` or `DEVICE default`: the grammar of cgroup v2. `DEVICE` is a device's name,
/// its `MAJ:MIN`, or `*` or `any` for every device. A device cannot be named `default`.
///
/// # Errors
/// See [`WeightTextError`].
pub fn parse_weight(key: WeightKey, text: &str) -> Result<WeightLine<'_>, WeightTextError> {
    let mut words = text.split_ascii_whitespace();
    let (first, second, third) = (words.next(), words.next(), words.next());
    match (first, second, third) {
        (Some(weight), None, _) | (Some("default"), Some(weight), None) => {
            Ok(WeightLine { device: None, weight: Some(number(key, weight)?) })
        }
        (Some(device), Some(weight), None) => {
            let refused = || WeightTextError::Device { device: clip(device) };
            let device = Some(DeviceRef::parse(device).ok_or_else(refused)?);
            let weight = match weight {
                "default" => None,
                weight => Some(number(key, weight)?),
            };
            Ok(WeightLine { device, weight })
        }
        _ => Err(WeightTextError::Form { text: clip(text) }),
    }
}

/// Digits only: `u64::from_str` would take a plus sign.
fn number(key: WeightKey, text: &str) -> Result<Weight, WeightTextError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(WeightTextError::NotANumber { text: clip(text) });
    }
    let largest = key.largest();
    let weight = text.parse().ok().and_then(|number| Weight::new(number).ok());
    weight
        .filter(|weight| weight.get() <= largest)
        .ok_or_else(|| WeightTextError::OutOfRange { text: clip(text), largest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: WeightKey, text: &str) -> Result<WeightLine<'_>, String> {
        parse_weight(key, text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_spellings_of_cgroup_v2_are_read() {
        let own = |device, weight| WeightLine {
            device,
            weight: (weight > 0).then(|| Weight::new(weight).unwrap()),
        };
        for (text, line) in [
            ("1", own(None, 1)),
            (" 10000\n", own(None, 10_000)),
            ("007", own(None, 7)),
            ("default 200", own(None, 200)),
            ("disk0 300", own(Some(DeviceRef::Name("disk0")), 300)),
            ("8:0 200", own(Some(DeviceRef::Number { major: 8, minor: 0 }), 200)),
            ("8:0 default", own(Some(DeviceRef::Number { major: 8, minor: 0 }), 0)),
            ("* 5", own(Some(DeviceRef::Any), 5)),
            ("any 5", own(Some(DeviceRef::Any), 5)),
        ] {
            assert_eq!(read(WeightKey::Io, text), Ok(line), "{text}");
        }
    }

    #[test]
    fn what_is_no_weight_is_refused() {
        for text in [
            "",
            " ",
            "default",
            "default default",
            "0",
            "+5",
            "-1",
            "1.5",
            "0x10",
            "1e3",
            "10001",
            "65636",
            "18446744073709551716",
            "99999999999999999999999",
            "8: 200",
            "8:0",
            "rbps=4M 5",
            "1 000",
            "1 000 000",
            "disk0 100 200",
            "\u{664}",
        ] {
            // "1 000" names a device "1", which the caller does not have; its weight of 0 is refused here.
            assert!(read(WeightKey::Io, text).is_err(), "{text:?}");
        }
        assert!(read(WeightKey::Bfq, "1000").is_ok());
        let error = read(WeightKey::Bfq, "1001").unwrap_err();
        assert_eq!(error, "weight 1001 is not between 1 and 1000");
    }

    #[test]
    fn no_error_is_long() {
        let long = "9".repeat(100_000);
        for text in [long.clone(), format!("{long} {long}"), format!("d {long}")] {
            assert!(read(WeightKey::Io, &text).unwrap_err().len() < 200);
        }
    }
}
