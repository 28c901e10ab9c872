//! The text of `io.max`, and of `io.burst` and `io.peak`, which look the same.
//!
//! `DEVICE [KEY=VALUE]...` with keys `rbps`, `wbps`, `riops`, `wiops`, `rwbps`, `rwiops` in any order. A key that is
//! not named keeps its value, `max` removes it, the last of a repeated key wins, and a text that is refused changes
//! nothing: the grammar of Linux cgroup v2. Four things differ, each on purpose: there are two keys more, for reads and
//! writes together, which are read back only where they are set; values may carry the units of [`weir_units`]; junk
//! after a number is refused where the kernel ignores it; and so is a number too large to be a limit, which the kernel
//! takes for `max`, or wraps where it is over 64 bits.

use std::num::NonZeroU64;

use weir_engine::{Dimension, PerDimension, Resource};
use weir_units::{Bytes, BytesPerSec, Ios, IosPerSec, UnitError, clip, nearest};

/// The longest `KEY=VALUE` in bytes; the kernel cuts longer ones, which then fail.
pub const TOKEN_MAX: usize = 26;

/// Which of the three texts is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LimitKey {
    /// Rates that hold in the long run: `io.max`.
    Max,
    /// Amounts that may go at once: `io.burst`. `max` removes the setting, so that the default is back.
    Burst,
    /// Rates inside a burst: `io.peak`. `max` lets a burst go as fast as the device takes it.
    Peak,
}

impl LimitKey {
    /// All three.
    pub const ALL: [LimitKey; 3] = [LimitKey::Max, LimitKey::Burst, LimitKey::Peak];

    /// The key in the configuration and in cgroup files.
    pub const fn key(self) -> &'static str {
        match self {
            LimitKey::Max => "io.max",
            LimitKey::Burst => "io.burst",
            LimitKey::Peak => "io.peak",
        }
    }
}

/// The device a line speaks of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeviceRef<'a> {
    /// `*` or `any`: every device.
    Any,
    /// `8:16`.
    Number {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// Anything else without a colon or an equals sign. Whether it exists is for the caller to know.
    Name(&'a str),
}

impl<'a> DeviceRef<'a> {
    /// Reads `word`; `None` if it can be no device. It has no blanks.
    pub fn parse(word: &'a str) -> Option<DeviceRef<'a>> {
        match word.split_once(':') {
            Some((major, minor)) => {
                Some(DeviceRef::Number { major: decimal(major)?, minor: decimal(minor)? })
            }
            None if word == "*" || word == "any" => Some(DeviceRef::Any),
            None if word.is_empty() || word.contains('=') => None,
            None => Some(DeviceRef::Name(word)),
        }
    }
}

/// The errno that the kernel gives for a refused write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Errno {
    /// The text is not of the grammar.
    Einval,
    /// A number is 0 or too large.
    Erange,
}

/// Why a text is refused. Texts are cut to [`UnitError::TEXT_MAX`] characters.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IoMaxError {
    /// The line is empty.
    #[error("no device is named")]
    NoDevice,
    /// The first word is no device.
    #[error(
        "{device:?} is no device: allowed are a device's name, MAJ:MIN, or \"*\" for every device"
    )]
    Device {
        /// The first word.
        device: String,
    },
    /// The line ends right after the device; a blank there would mean "change nothing".
    #[error(
        "nothing follows the device {device:?}: allowed are rbps=, wbps=, riops=, wiops=, rwbps= and rwiops="
    )]
    NothingAfterDevice {
        /// The device.
        device: String,
    },
    /// A word without `=`.
    #[error(
        "{token:?} is not KEY=VALUE: allowed keys are rbps, wbps, riops, wiops, rwbps and rwiops"
    )]
    NoValue {
        /// The word.
        token: String,
        /// The key that was probably meant, if any is near.
        nearest: Option<&'static str>,
    },
    /// A word longer than [`TOKEN_MAX`].
    #[error("{token:?} is {len} bytes long: at most {TOKEN_MAX} are allowed")]
    TokenTooLong {
        /// The word.
        token: String,
        /// Its length in bytes.
        len: usize,
    },
    /// A key that is none of the six.
    #[error(
        "unknown key {key:?} (= {value:?}): allowed are rbps, wbps, riops, wiops, rwbps and rwiops"
    )]
    UnknownKey {
        /// The key.
        key: String,
        /// The value it was given.
        value: String,
        /// The key that was probably meant, if any is near.
        nearest: Option<&'static str>,
    },
    /// A value that is no number of the key's unit, or over 64 bits.
    #[error("{}: {error}: allowed are 1 to {} and max", dimension.key(), dimension.largest())]
    Value {
        /// The key.
        dimension: Dimension,
        /// What is wrong with the value.
        error: UnitError,
    },
    /// The value 0, which would stop everything for ever.
    #[error("{} = 0: allowed are 1 to {} and max", dimension.key(), dimension.largest())]
    Zero {
        /// The key.
        dimension: Dimension,
    },
    /// A value that is too large to limit anything.
    #[error("{} = {value}: allowed are 1 to {} and max", dimension.key(), dimension.largest())]
    TooLarge {
        /// The key.
        dimension: Dimension,
        /// The value it was given.
        value: u64,
    },
    /// A word of digits after a value: `rbps=1 000 000`.
    #[error("{key}: {token:?} stands alone after {before:?}, and a number has no blanks in it")]
    BlankInNumber {
        /// The word.
        token: String,
        /// The value before it.
        before: String,
        /// The key of that value.
        key: String,
    },
}

impl IoMaxError {
    /// What the kernel answers to such a write.
    pub fn errno(&self) -> Errno {
        match self {
            IoMaxError::Zero { .. }
            | IoMaxError::TooLarge { .. }
            | IoMaxError::Value { error: UnitError::TooLarge { .. }, .. } => Errno::Erange,
            _ => Errno::Einval,
        }
    }

    /// What would be right, where that says more than the error does.
    pub fn hint(&self) -> Option<String> {
        match self {
            IoMaxError::NoDevice | IoMaxError::NothingAfterDevice { .. } => {
                Some("for example \"disk0 rbps=4M riops=100\"".into())
            }
            IoMaxError::NoValue { nearest, token } => Some(match nearest {
                Some(key) => format!("write \"{key}=...\""),
                None => format!("write for example \"rbps={}\"", or_four_mebi(token)),
            }),
            IoMaxError::UnknownKey { nearest, .. } => Some(match nearest {
                Some(key) => format!("did you mean \"{key}\"?"),
                None => "for example \"rbps=4M riops=100\"".into(),
            }),
            // `rbps=4M,riops=100`: no unit has a comma.
            IoMaxError::Value { error: UnitError::UnknownUnit { text, .. }, .. }
                if text.contains(',') =>
            {
                Some("put blanks between the limits: \"rbps=4M riops=100\"".into())
            }
            IoMaxError::Value { error, .. } => Some(error.hint()),
            IoMaxError::Zero { dimension } => Some(format!(
                "for no limit write \"{0}=max\"; the smallest limit is \"{0}=1\"",
                dimension.key()
            )),
            IoMaxError::Device { .. } => Some("for example \"disk0 rbps=4M riops=100\"".into()),
            IoMaxError::TokenTooLong { .. } => {
                Some("write the number shorter, with a unit: \"rbps=4M\"".into())
            }
            IoMaxError::TooLarge { dimension, .. } => {
                Some(format!("for no limit write \"{}=max\"", dimension.key()))
            }
            IoMaxError::BlankInNumber { key, .. } => {
                Some(format!("a million is \"{key}=1000000\""))
            }
        }
    }

    /// The same error, told with the word before the refused one, if that explains it.
    #[must_use]
    pub fn after(self, before: Option<&str>) -> IoMaxError {
        match (self, before.and_then(|before| before.split_once('='))) {
            (IoMaxError::NoValue { token, .. }, Some((key, value)))
                if is_group_of_digits(&token) && is_digits(value) =>
            {
                IoMaxError::BlankInNumber { token, before: clip(value), key: clip(key) }
            }
            (error, _) => error,
        }
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Three digits, and perhaps a unit: what stands after a blank in `1 000 000` or `1 000K`.
fn is_group_of_digits(token: &str) -> bool {
    let unit = token.trim_start_matches(|c: char| c.is_ascii_digit());
    token.len() - unit.len() == 3 && unit.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// `token` where it looks like a value whose key was forgotten.
fn or_four_mebi(token: &str) -> &str {
    if token.parse().is_ok_and(|BytesPerSec(rate)| rate > 0) { token } else { "4M" }
}

/// Splits `DEVICE rest`; the rest may be empty, but not the blank before it.
///
/// # Errors
///
/// [`IoMaxError::NoDevice`], [`IoMaxError::Device`], [`IoMaxError::NothingAfterDevice`].
pub fn split_device(line: &str) -> Result<(DeviceRef<'_>, &str), IoMaxError> {
    let line = line.trim_ascii_start();
    let (word, rest) = line.split_at(line.find(is_blank).unwrap_or(line.len()));
    if word.is_empty() {
        return Err(IoMaxError::NoDevice);
    }
    // Also where the device was forgotten: "rbps=4M".
    let refused = || IoMaxError::Device { device: clip(word) };
    let device = DeviceRef::parse(word).ok_or_else(refused)?;
    if rest.is_empty() {
        return Err(IoMaxError::NothingAfterDevice { device: clip(word) });
    }
    Ok((device, rest))
}

/// Digits only: `u32::from_str` would take a plus sign.
fn decimal(text: &str) -> Option<u32> {
    if is_digits(text) { text.parse().ok() } else { None }
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace()
}

/// What `old` becomes when `text`, the part of an `io.max` line after the device, is written.
///
/// A value that is too large to be a limit is refused: 2^32-1 and more I/Os per second, or 2^64-1 bytes per second. The
/// kernel takes it for `max`.
///
/// # Errors
///
/// See [`IoMaxError`].
pub fn parse_io_max(text: &str, old: PerDimension) -> Result<PerDimension, IoMaxError> {
    parse_limits(LimitKey::Max, text, old)
}

/// As [`parse_io_max`], for any of the three texts. Amounts (`io.burst`) may not carry `/s`.
///
/// # Errors
///
/// See [`IoMaxError`].
pub fn parse_limits(
    limit: LimitKey,
    text: &str,
    old: PerDimension,
) -> Result<PerDimension, IoMaxError> {
    let mut new = old;
    let mut before = None;
    for token in text.split_ascii_whitespace() {
        let (dimension, value) = parse_token(limit, token).map_err(|error| error.after(before))?;
        new.set(dimension, value);
        before = Some(token);
    }
    Ok(new)
}

fn parse_token(
    limit: LimitKey,
    token: &str,
) -> Result<(Dimension, Option<NonZeroU64>), IoMaxError> {
    if token.len() > TOKEN_MAX {
        return Err(IoMaxError::TokenTooLong { token: clip(token), len: token.len() });
    }
    let Some((key, value)) = token.split_once('=') else {
        return Err(IoMaxError::NoValue { token: clip(token), nearest: nearest_key(token) });
    };
    let Some(dimension) = Dimension::ALL.into_iter().find(|dimension| dimension.key() == key)
    else {
        return Err(IoMaxError::UnknownKey {
            key: key.into(),
            value: value.into(),
            nearest: nearest_key(key),
        });
    };
    if value == "max" {
        return Ok((dimension, None));
    }
    let value = match (limit, dimension.resource()) {
        (LimitKey::Burst, Resource::Bytes) => value.parse().map(|Bytes(value)| value),
        (LimitKey::Burst, Resource::Ios) => value.parse().map(|Ios(value)| value),
        (_, Resource::Bytes) => value.parse().map(|BytesPerSec(value)| value),
        (_, Resource::Ios) => value.parse().map(|IosPerSec(value)| value),
    }
    .map_err(|error| IoMaxError::Value { dimension, error })?;
    if value > dimension.largest() {
        return Err(IoMaxError::TooLarge { dimension, value });
    }
    let value = NonZeroU64::new(value).ok_or(IoMaxError::Zero { dimension })?;
    Ok((dimension, Some(value)))
}

fn nearest_key(word: &str) -> Option<&'static str> {
    nearest(word, Dimension::ALL.map(Dimension::key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OLD: PerDimension = PerDimension::NONE;

    fn max(text: &str) -> Result<PerDimension, IoMaxError> {
        parse_io_max(text, OLD.with(Dimension::Wbps, 7))
    }

    /// The example of spec/throttle 1.2, write by write.
    #[test]
    fn keeps_and_removes() {
        let first = parse_io_max("rbps=2097152 wiops=120", OLD).unwrap();
        assert_eq!(first.to_string(), "rbps=2097152 wbps=max riops=max wiops=120");
        let second = parse_io_max("wiops=max", first).unwrap();
        assert_eq!(second.to_string(), "rbps=2097152 wbps=max riops=max wiops=max");
        assert!(parse_io_max("rbps=max", second).unwrap().is_none());
    }

    #[test]
    fn accepted() {
        for (text, expected) in [
            ("", "rbps=max wbps=7 riops=max wiops=max"),
            (" \t\n", "rbps=max wbps=7 riops=max wiops=max"),
            ("wiops=3 rbps=1", "rbps=1 wbps=7 riops=max wiops=3"),
            ("riops=5 riops=6\triops=4\n", "rbps=max wbps=7 riops=4 wiops=max"),
            ("wbps=max", "rbps=max wbps=max riops=max wiops=max"),
            ("rbps=4M riops=2k", "rbps=4194304 wbps=7 riops=2000 wiops=max"),
            ("rbps=4MiB/s wiops=9/s", "rbps=4194304 wbps=7 riops=max wiops=9"),
            ("rbps=1 wbps=1 riops=1 wiops=1", "rbps=1 wbps=1 riops=1 wiops=1"),
            // 26 bytes exactly: long, odd, and allowed.
            ("rbps=000000000000000000001", "rbps=1 wbps=7 riops=max wiops=max"),
            ("riops=4294967294", "rbps=max wbps=7 riops=4294967294 wiops=max"),
            ("wbps=18446744073709551614", "rbps=max wbps=18446744073709551614 riops=max wiops=max"),
            ("rwbps=8M rwiops=max", "rbps=max wbps=7 riops=max wiops=max rwbps=8388608"),
            ("rwiops=4294967294", "rbps=max wbps=7 riops=max wiops=max rwiops=4294967294"),
            ("rwbps=18446744073709551614 rwbps=max", "rbps=max wbps=7 riops=max wiops=max"),
        ] {
            assert_eq!(
                max(text).map(|limits| limits.to_string()).as_deref(),
                Ok(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn refused() {
        use Errno::{Einval, Erange};
        for (text, errno, expected) in [
            (
                "rbps",
                Einval,
                r#""rbps" is not KEY=VALUE: allowed keys are rbps, wbps, riops, wiops, rwbps and rwiops; write "rbps=...""#,
            ),
            (
                "50M",
                Einval,
                r#""50M" is not KEY=VALUE: allowed keys are rbps, wbps, riops, wiops, rwbps and rwiops; write for example "rbps=50M""#,
            ),
            (
                "rbps=fast",
                Einval,
                r#"rbps: "fast" is not a number: allowed are 1 to 18446744073709551614 and max; write a rate such as "4M" or "4MiB/s""#,
            ),
            (
                "rbps=",
                Einval,
                r#"rbps: "" is not a number: allowed are 1 to 18446744073709551614 and max; write a rate such as "4M" or "4MiB/s""#,
            ),
            (
                "rbps=-1",
                Einval,
                r#"rbps: "-1" is negative: allowed are 1 to 18446744073709551614 and max; write a number without a sign"#,
            ),
            (
                "rbps=100junk",
                Einval,
                r#"rbps: "100junk" has the unknown unit "junk": allowed are 1 to 18446744073709551614 and max; known: B, K or KiB, M or MiB, G or GiB, T or TiB (powers of 1024)"#,
            ),
            (
                "wiops=1.5k",
                Einval,
                r#"wiops: "1.5k" is not a whole number: allowed are 1 to 4294967294 and max; write "1500""#,
            ),
            (
                "rpbs=4M",
                Einval,
                r#"unknown key "rpbs" (= "4M"): allowed are rbps, wbps, riops, wiops, rwbps and rwiops; did you mean "rbps"?"#,
            ),
            (
                "latency=4",
                Einval,
                r#"unknown key "latency" (= "4"): allowed are rbps, wbps, riops, wiops, rwbps and rwiops; for example "rbps=4M riops=100""#,
            ),
            (
                "rbps=4M,riops=100",
                Einval,
                r#"rbps: "4M,riops=100" has the unknown unit "M,riops=100": allowed are 1 to 18446744073709551614 and max; put blanks between the limits: "rbps=4M riops=100""#,
            ),
            (
                "riops=0",
                Erange,
                r#"riops = 0: allowed are 1 to 4294967294 and max; for no limit write "riops=max"; the smallest limit is "riops=1""#,
            ),
            (
                "riops=0k",
                Erange,
                r#"riops = 0: allowed are 1 to 4294967294 and max; for no limit write "riops=max"; the smallest limit is "riops=1""#,
            ),
            (
                "rbps=18446744073709551616",
                Erange,
                r#"rbps: "18446744073709551616" does not fit 64 bits: allowed are 1 to 18446744073709551614 and max; write a smaller number"#,
            ),
            (
                "riops=4294967295",
                Erange,
                r#"riops = 4294967295: allowed are 1 to 4294967294 and max; for no limit write "riops=max""#,
            ),
            (
                "rwiops=4295M",
                Erange,
                r#"rwiops = 4295000000: allowed are 1 to 4294967294 and max; for no limit write "rwiops=max""#,
            ),
            (
                "wbps=18446744073709551615",
                Erange,
                r#"wbps = 18446744073709551615: allowed are 1 to 18446744073709551614 and max; for no limit write "wbps=max""#,
            ),
            (
                "rbps=1 000 000",
                Einval,
                r#"rbps: "000" stands alone after "1", and a number has no blanks in it; a million is "rbps=1000000""#,
            ),
            (
                "rbps=1 MiB",
                Einval,
                r#""MiB" is not KEY=VALUE: allowed keys are rbps, wbps, riops, wiops, rwbps and rwiops; write for example "rbps=4M""#,
            ),
            (
                "rbps=1.5G",
                Einval,
                r#"rbps: "1.5G" is not a whole number: allowed are 1 to 18446744073709551614 and max; write "1536MiB""#,
            ),
            (
                "rbps=1,000",
                Einval,
                r#"rbps: "1,000" has a separator among its digits: allowed are 1 to 18446744073709551614 and max; write "1000""#,
            ),
            (
                "riops=000000000000000000001",
                Einval,
                r#""riops=000000000000000000001" is 27 bytes long: at most 26 are allowed; write the number shorter, with a unit: "rbps=4M""#,
            ),
        ] {
            let error = max(text).unwrap_err();
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            assert_eq!(format!("{error}{hint}"), expected);
            assert_eq!(error.errno(), errno, "{text}");
        }
    }

    #[test]
    fn bursts_are_amounts() {
        let burst = |text| parse_limits(LimitKey::Burst, text, OLD);
        assert_eq!(
            burst("rbps=1M riops=8").unwrap(),
            OLD.with(Dimension::Rbps, 1 << 20).with(Dimension::Riops, 8)
        );
        assert!(burst("rbps=1M/s").is_err(), "a rate is no amount");
        let error = burst("riops=4294967295").unwrap_err();
        assert_eq!(error.to_string(), "riops = 4294967295: allowed are 1 to 4294967294 and max");
        assert_eq!(error.errno(), Errno::Erange);
        assert!(parse_limits(LimitKey::Peak, "rbps=1M/s", OLD).is_ok());
    }

    #[test]
    fn devices() {
        assert_eq!(
            split_device("8:16 rbps=1"),
            Ok((DeviceRef::Number { major: 8, minor: 16 }, " rbps=1"))
        );
        assert_eq!(split_device(" disk0\t"), Ok((DeviceRef::Name("disk0"), "\t")));
        assert_eq!(split_device("* rbps=1"), Ok((DeviceRef::Any, " rbps=1")));
        assert_eq!(split_device("any rbps=1"), Ok((DeviceRef::Any, " rbps=1")));
        for line in [
            "",
            " ",
            "8:16",
            "disk0",
            "8: x",
            ":16 x",
            "8:-1 x",
            "8:+1 x",
            "8:1:2 x",
            "4294967296:0 x",
            "rbps=4M riops=1",
        ] {
            let error = split_device(line).unwrap_err();
            assert_eq!(error.errno(), Errno::Einval, "{line}");
        }
    }

    fn any_limits() -> impl Strategy<Value = PerDimension> {
        proptest::collection::vec((any::<u64>(), 0u32..66), 6).prop_map(|values| {
            let mut limits = PerDimension::NONE;
            for (dimension, (value, shift)) in Dimension::ALL.into_iter().zip(values) {
                limits.set(dimension, NonZeroU64::new(value.checked_shr(shift).unwrap_or(0)));
            }
            limits
        })
    }

    proptest! {
        #[test]
        fn what_is_read_back_can_be_written(limits in any_limits(), mut old in any_limits()) {
            // Limits on both directions are not read back as `max`, and so not removed either.
            for rw in Dimension::ALL.into_iter().filter(|dimension| dimension.is_rw()) {
                old.set(rw, limits.get(rw));
            }
            prop_assert_eq!(parse_io_max(&limits.to_string(), old), Ok(limits));
        }

        #[test]
        fn no_text_panics(text in "\\PC*|([rw]{0,2}(bps|iops)=[0-9]{0,22}[kKMG]?[ \t\n]?){0,5}") {
            for limit in LimitKey::ALL {
                if let Err(error) = parse_limits(limit, &text, OLD) {
                    prop_assert!(error.to_string().len() < 2_000);
                    prop_assert!(error.hint().is_none_or(|hint| hint.len() < 2_000));
                }
            }
            let _ = split_device(&text);
        }

        /// One bad token spoils the line, wherever it stands: nothing of the others is taken.
        #[test]
        fn one_bad_token_refuses_all(
            good in proptest::collection::vec(
                "(rw|r|w)(bps|iops)=([1-9][0-9]{0,8}|max)", 0..6
            ),
            bad in "[a-qs-vx-z]{1,4}=1|(rbps|riops)=(0|x|-1|)|rbps",
            at in 0usize..6,
            old in any_limits(),
        ) {
            let mut tokens = good;
            let at = at.min(tokens.len());
            prop_assert!(parse_io_max(&tokens.join(" "), old).is_ok());
            tokens.insert(at, bad);
            prop_assert!(parse_io_max(&tokens.join(" "), old).is_err());
        }
    }
}
