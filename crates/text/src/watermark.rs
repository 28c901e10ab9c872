//! The text of `io.watermark`.

use std::num::NonZeroU64;

use weir_engine::Watermark;
use weir_engine::settings::{Headroom, WatermarkMode};
use weir_units::{Nanos, UnitError, clip, nearest};

/// Why a text is no watermark. Texts are cut to [`UnitError::TEXT_MAX`] characters.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WatermarkError {
    /// It does not begin with a whole number.
    #[error("{text:?} is no percentage: allowed are 0 to 100")]
    NotAPercentage {
        /// What was written.
        text: String,
    },
    /// More than the whole device.
    #[error("{text} percent: allowed are 0 (limits always bind) to 100")]
    OutOfRange {
        /// What was written.
        text: String,
    },
    /// A word without `=`.
    #[error("{word:?} is not KEY=VALUE: allowed keys are mode, period and reserve")]
    NoValue {
        /// The word.
        word: String,
    },
    /// A key that is none of the three.
    #[error("a watermark has no setting {key:?}: allowed are mode, period and reserve")]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A value that the key does not have.
    #[error("{key} = {value:?}: allowed are {allowed}")]
    UnknownValue {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// A period that is no time.
    #[error("period: {0}")]
    Period(UnitError),
    /// A period that is too short to see a request in, or too long to notice a change.
    #[error("period = {}: allowed are 1ms to 1min", in_a_word(*period_ns))]
    PeriodOutOfRange {
        /// The period in nanoseconds.
        period_ns: u64,
    },
    /// A setting of the other mode.
    #[error("{key} means nothing in mode {mode}")]
    OtherMode {
        /// The key.
        key: &'static str,
        /// The mode.
        mode: &'static str,
    },
}

impl WatermarkError {
    /// What would be right, where that says more than the error does.
    pub fn hint(&self) -> Option<String> {
        match self {
            WatermarkError::NotAPercentage { text } => Some(match text.strip_suffix('%') {
                Some(number) if number.parse::<u8>().is_ok() => {
                    format!("write {number:?}, without a unit")
                }
                _ => "for example \"90\" or \"90 mode=gate\"".into(),
            }),
            WatermarkError::OutOfRange { .. } => Some(
                "write 90 for limits that bind when the device is busy 90 % of the time".into(),
            ),
            WatermarkError::NoValue { word } | WatermarkError::UnknownKey { key: word } => {
                match word.as_str() {
                    "gate" | "proportional" => Some(format!("write \"mode={word}\"")),
                    "kept" | "lent" => Some(format!("write \"reserve={word}\"")),
                    word => Some(match nearest(word, ["mode", "period", "reserve"]) {
                        Some(near) => format!("did you mean \"{near}=\"?"),
                        None => "known: mode=, period= and reserve=".into(),
                    }),
                }
            }
            WatermarkError::UnknownValue { key, value, .. } => {
                let words = ["proportional", "gate", "lent", "kept"];
                Some(match nearest(value, words) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("leave {key:?} out for what is usual"),
                })
            }
            WatermarkError::Period(error) => Some(error.hint()),
            WatermarkError::PeriodOutOfRange { .. } => {
                Some("io-throttle's period is 1s, which is what holds if none is written".into())
            }
            WatermarkError::OtherMode { key, .. } => Some(match *key {
                "period" => "add \"mode=gate\", or leave the period out".into(),
                _ => format!("leave \"{key}\" out: a gate leaves no part of the device free"),
            }),
        }
    }
}

const PERIODS_NS: std::ops::RangeInclusive<u64> = 1_000_000..=60_000_000_000;

/// Reads `PERCENT [mode=proportional|gate] [period=TIME] [reserve=lent|kept]`, the settings in any order. The last of a
/// repeated setting wins.
///
/// # Errors
/// See [`WatermarkError`].
pub fn parse_watermark(text: &str) -> Result<Watermark, WatermarkError> {
    let mut words = text.split_ascii_whitespace();
    let percent = percent(words.next().unwrap_or_default())?;
    let (mut gate, mut period, mut reserve) = (None, None, None);
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(WatermarkError::NoValue { word: clip(word) });
        };
        match key {
            "mode" => gate = Some(choice("mode", value, ["proportional", "gate"])?),
            "reserve" => reserve = Some(choice("reserve", value, ["lent", "kept"])?),
            "period" => period = Some(parse_period(value)?),
            _ => return Err(WatermarkError::UnknownKey { key: clip(key) }),
        }
    }
    let mode = match (gate.unwrap_or(false), period, reserve) {
        (true, _, Some(_)) => {
            return Err(WatermarkError::OtherMode { key: "reserve", mode: "gate" });
        }
        (false, Some(_), _) => {
            return Err(WatermarkError::OtherMode { key: "period", mode: "proportional" });
        }
        (true, None, None) => WatermarkMode::GATE,
        (true, Some(period_ns), None) => WatermarkMode::Gate { period_ns },
        (false, None, kept) => WatermarkMode::Proportional {
            headroom: if kept == Some(true) { Headroom::Strict } else { Headroom::Borrowable },
        },
    };
    Watermark::new(percent, mode)
        .ok_or_else(|| WatermarkError::OutOfRange { text: format!("{percent}") })
}

/// A time as it is written in settings, without the blank before its unit.
fn in_a_word(nanos: u64) -> String {
    Nanos(nanos).to_string().replace(' ', "")
}

fn percent(word: &str) -> Result<u8, WatermarkError> {
    if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return match word.strip_prefix('-') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Err(WatermarkError::OutOfRange { text: clip(word) })
            }
            _ => Err(WatermarkError::NotAPercentage { text: clip(word) }),
        };
    }
    let percent = word.parse().ok().filter(|&percent| percent <= Watermark::PERCENT_MAX);
    percent.ok_or_else(|| WatermarkError::OutOfRange { text: clip(word) })
}

/// Whether `value` is the second of two words; an error if it is neither.
fn choice(
    key: &'static str,
    value: &str,
    [first, second]: [&'static str; 2],
) -> Result<bool, WatermarkError> {
    if value != first && value != second {
        let allowed = if key == "mode" { "proportional and gate" } else { "lent and kept" };
        return Err(WatermarkError::UnknownValue { key, value: clip(value), allowed });
    }
    Ok(value == second)
}

fn parse_period(value: &str) -> Result<NonZeroU64, WatermarkError> {
    let Nanos(period_ns) = value.parse().map_err(WatermarkError::Period)?;
    NonZeroU64::new(period_ns)
        .filter(|_| PERIODS_NS.contains(&period_ns))
        .ok_or(WatermarkError::PeriodOutOfRange { period_ns })
}

/// The text that [`parse_watermark`] reads as `watermark`, without settings at their default.
pub fn print_watermark(watermark: Watermark) -> String {
    let percent = watermark.percent();
    match watermark.mode() {
        WatermarkMode::Proportional { headroom: Headroom::Borrowable } => format!("{percent}"),
        WatermarkMode::Proportional { headroom: Headroom::Strict } => {
            format!("{percent} reserve=kept")
        }
        mode if mode == WatermarkMode::GATE => format!("{percent} mode=gate"),
        WatermarkMode::Gate { period_ns } => {
            format!("{percent} mode=gate period={}", in_a_word(period_ns.get()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_back() {
        for text in [
            "0",
            "1",
            "90",
            "100",
            "90 reserve=kept",
            "90 mode=gate",
            "100 mode=gate period=100ms",
            "7 mode=gate period=60s",
        ] {
            assert_eq!(parse_watermark(text).map(print_watermark), Ok(text.into()));
        }
        for (text, printed) in [
            (" 90  mode=proportional ", "90"),
            ("90 reserve=lent", "90"),
            ("90 period=1s mode=gate", "90 mode=gate"),
            ("90 mode=gate mode=proportional", "90"),
            ("0 mode=gate", "0"),
            ("0 reserve=kept", "0"),
            ("007", "7"),
        ] {
            assert_eq!(parse_watermark(text).map(print_watermark), Ok(printed.into()));
        }
    }

    #[test]
    fn refusals_say_what_would_be_right() {
        for (text, refusal) in [
            (
                "",
                "\"\" is no percentage: allowed are 0 to 100 (for example \"90\" or \"90 mode=gate\")",
            ),
            (
                "90%",
                "\"90%\" is no percentage: allowed are 0 to 100 (write \"90\", without a unit)",
            ),
            (
                "101",
                "101 percent: allowed are 0 (limits always bind) to 100 (write 90 for limits that bind when the device is busy 90 % of the time)",
            ),
            (
                "-1",
                "-1 percent: allowed are 0 (limits always bind) to 100 (write 90 for limits that bind when the device is busy 90 % of the time)",
            ),
            (
                "99999999999999999999999",
                "99999999999999999999999 percent: allowed are 0 (limits always bind) to 100 (write 90 for limits that bind when the device is busy 90 % of the time)",
            ),
            (
                "mode=gate",
                "\"mode=gate\" is no percentage: allowed are 0 to 100 (for example \"90\" or \"90 mode=gate\")",
            ),
            (
                "90 gate",
                "\"gate\" is not KEY=VALUE: allowed keys are mode, period and reserve (write \"mode=gate\")",
            ),
            (
                "90 mod=gate",
                "a watermark has no setting \"mod\": allowed are mode, period and reserve (did you mean \"mode=\"?)",
            ),
            (
                "90 mode=gat",
                "mode = \"gat\": allowed are proportional and gate (did you mean \"gate\"?)",
            ),
            (
                "90 reserve=yes",
                "reserve = \"yes\": allowed are lent and kept (leave \"reserve\" out for what is usual)",
            ),
            (
                "90 period=1s",
                "period means nothing in mode proportional (add \"mode=gate\", or leave the period out)",
            ),
            (
                "90 mode=gate reserve=kept",
                "reserve means nothing in mode gate (leave \"reserve\" out: a gate leaves no part of the device free)",
            ),
            (
                "90 mode=gate period=0ms",
                "period = 0ns: allowed are 1ms to 1min (io-throttle's period is 1s, which is what holds if none is written)",
            ),
        ] {
            let error = parse_watermark(text).expect_err(text);
            let hint = error.hint().unwrap_or_default();
            assert_eq!(format!("{error} ({hint})"), refusal, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~]{0,40}|[0-9]{1,4}( (mode|period|reserve)=[a-z0-9]{0,6}){0,3}") {
            if let Ok(watermark) = parse_watermark(&text) {
                proptest::prop_assert_eq!(parse_watermark(&print_watermark(watermark)), Ok(watermark));
            }
        }
    }
}
