//! Units: sizes, rates, counts and times as text; whole numbers in, exact text out.
//!
//! | written | means | so |
//! |---|---|---|
//! | `4096`, `4096B` | bytes | |
//! | `64K`, `64k`, `64Ki`, `64KiB` | powers of 1024, up to `E` | as dd, fio, QEMU and Kubernetes' `Ki` read them |
//! | `64KB`, `64kB`, `4MB` | refused | 10^6 to some (SI), 2^20 to others (io-throttle's "4MB/s") |
//! | `1.5G` | refused, with the whole number that means it | a limit is exact |
//! | `1,000`, `1.000`, `1_000`, `1 000` | refused | a thousand to some, one or a typing error to others |
//! | `50M/s` | a rate in bytes; the `/s` may be left out | |
//! | `100k` of I/Os | powers of **1000**: `k` or `K`, `M`, `G` | as in "100k IOPS" |
//! | `10ms` | a time: `ns`, `us`, `ms`, `s`, `min`, `h` | the unit is always written |
//!
//! A blank between number and unit is allowed. `Display` prints the largest unit that loses nothing and what it
//! prints parses back to the same value; `rounded()` prints three digits, for tables. No floating point anywhere.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod nearest;

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

pub use nearest::nearest;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(pub u64);

/// Bytes per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BytesPerSec(pub u64);

/// A number of I/O operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ios(pub u64);

/// I/O operations per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct IosPerSec(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nanos(pub u64);

/// What a text was read as.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Quantity {
    /// [`Bytes`].
    Bytes,
    /// [`BytesPerSec`].
    BytesPerSec,
    /// [`Ios`].
    Ios,
    /// [`IosPerSec`].
    IosPerSec,
    /// [`Nanos`].
    Time,
}

/// Why a text is not a size, rate, count or time. Texts are cut to [`UnitError::TEXT_MAX`] characters.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnitError {
    /// There is no digit at the beginning.
    #[error("{text:?} is not a number")]
    NotANumber {
        /// What was written.
        text: String,
        /// What was expected.
        quantity: Quantity,
    },
    /// It begins with a minus sign.
    #[error("{text:?} is negative")]
    Negative {
        /// What was written.
        text: String,
    },
    /// It has a decimal point or comma.
    #[error("{text:?} is not a whole number")]
    Fraction {
        /// What was written.
        text: String,
        /// The same amount in a unit of which it is a whole multiple, if there is one.
        whole: Option<String>,
    },
    /// Its digits stand in groups.
    #[error("{text:?} has a separator among its digits")]
    Separator {
        /// What was written.
        text: String,
        /// The same without separators.
        joined: String,
    },
    /// The unit means different amounts to different people (`MB`, or `m` for a time).
    #[error("{text:?} is ambiguous")]
    Ambiguous {
        /// What was written.
        text: String,
        /// What to write instead.
        hint: String,
    },
    /// A time without its unit.
    #[error("{text:?} has no unit")]
    MissingUnit {
        /// What was written.
        text: String,
    },
    /// What follows the digits is no unit of this quantity.
    #[error("{text:?} has the unknown unit {unit:?}")]
    UnknownUnit {
        /// What was written.
        text: String,
        /// What followed the digits.
        unit: String,
        /// What was expected.
        quantity: Quantity,
    },
    /// It does not fit 64 bits.
    #[error("{text:?} does not fit 64 bits")]
    TooLarge {
        /// What was written.
        text: String,
    },
}

impl UnitError {
    /// Characters of the offending text that an error keeps.
    pub const TEXT_MAX: usize = 40;

    /// What would be right.
    pub fn hint(&self) -> String {
        match self {
            UnitError::NotANumber { quantity, .. } => format!("write {}", quantity.example()),
            UnitError::Negative { .. } => "write a number without a sign".into(),
            UnitError::Fraction { whole: Some(whole), .. } => format!("write {whole:?}"),
            UnitError::Fraction { whole: None, .. } => {
                "write a whole number of a smaller unit".into()
            }
            UnitError::Separator { joined, .. } => format!("write {joined:?}"),
            UnitError::Ambiguous { hint, .. } => hint.clone(),
            UnitError::MissingUnit { text } => {
                format!("write \"{text}ms\", or another of {}", Quantity::Time.units())
            }
            UnitError::UnknownUnit { quantity, .. } => format!("known: {}", quantity.units()),
            UnitError::TooLarge { .. } => "write a smaller number".into(),
        }
    }
}

impl Quantity {
    fn example(self) -> &'static str {
        match self {
            Quantity::Bytes => "a size such as \"4096\", \"64K\" or \"4MiB\"",
            Quantity::BytesPerSec => "a rate such as \"4M\" or \"4MiB/s\"",
            Quantity::Ios => "a count such as \"500\" or \"10k\"",
            Quantity::IosPerSec => "a rate such as \"500\" or \"10k/s\"",
            Quantity::Time => "a time such as \"10ms\", \"4us\" or \"1s\"",
        }
    }

    fn units(self) -> &'static str {
        match self {
            Quantity::Bytes | Quantity::BytesPerSec => {
                "B, K or KiB, M or MiB, G or GiB, T or TiB (powers of 1024)"
            }
            Quantity::Ios | Quantity::IosPerSec => "k, M, G (powers of 1000)",
            Quantity::Time => "ns, us, ms, s, min, h",
        }
    }

    /// How much one of `unit` is.
    fn factor(self, unit: &str) -> Result<u64, Reason> {
        match self {
            Quantity::Bytes => bytes_factor(unit),
            Quantity::BytesPerSec => bytes_factor(per_second(unit)),
            Quantity::Ios => ios_factor(unit),
            Quantity::IosPerSec => ios_factor(per_second(unit)),
            Quantity::Time => time_factor(unit),
        }
    }

    fn exact(self, value: u64) -> Exact {
        match self {
            Quantity::Bytes | Quantity::BytesPerSec => Exact { value, scale: BYTES },
            Quantity::Ios | Quantity::IosPerSec => Exact { value, scale: IOS },
            Quantity::Time => Exact { value, scale: TIME },
        }
    }

    /// Reads the whole of `text`, blanks around it aside.
    fn parse(self, text: &str) -> Result<u64, UnitError> {
        let text = text.trim_ascii();
        let (digits, rest) = split_digits(text);
        let clipped = || clip(text);
        if digits.is_empty() {
            return Err(match rest.strip_prefix('-') {
                Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
                    UnitError::Negative { text: clipped() }
                }
                _ => UnitError::NotANumber { text: clipped(), quantity: self },
            });
        }
        if is_grouped(digits, rest) {
            let joined = text.replace(SEPARATORS, "");
            return Err(UnitError::Separator { text: clipped(), joined: clip(&joined) });
        }
        if let Some((fraction, unit)) = split_fraction(rest) {
            let whole = self.whole(digits, fraction, unit.trim_ascii_start());
            return Err(UnitError::Fraction { text: clipped(), whole });
        }
        let unit = rest.trim_ascii_start();
        let factor = self.factor(unit).map_err(|reason| match reason {
            Reason::Missing => UnitError::MissingUnit { text: clipped() },
            Reason::Unknown => {
                UnitError::UnknownUnit { text: clipped(), unit: clip(unit), quantity: self }
            }
            Reason::ByteOrBit(letter) => {
                UnitError::Ambiguous { text: clipped(), hint: both_sizes(digits, letter) }
            }
            Reason::MinuteOrMilli => UnitError::Ambiguous {
                text: clipped(),
                hint: format!(
                    "write \"{0}min\" for minutes or \"{0}ms\" for milliseconds",
                    clip(digits)
                ),
            },
        })?;
        number(digits)
            .and_then(|number| number.checked_mul(factor))
            .ok_or_else(|| UnitError::TooLarge { text: clipped() })
    }

    /// The amount `digits.fraction unit` written without a point, if that is exact.
    fn whole(self, digits: &str, fraction: &str, unit: &str) -> Option<String> {
        let factor = u128::from(self.factor(unit).ok()?);
        let power = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let scaled = u128::from(number(digits)?)
            .checked_mul(power)?
            .checked_add(u128::from(number(fraction)?))?
            .checked_mul(factor)?;
        let value = u64::try_from(scaled / power).ok()?;
        // Without a blank: in `io.max` that would end the value.
        (scaled % power == 0).then(|| format!("{}", self.exact(value)).replace(' ', ""))
    }
}

/// Why a unit has no factor.
enum Reason {
    Missing,
    Unknown,
    ByteOrBit(char),
    MinuteOrMilli,
}

fn per_second(unit: &str) -> &str {
    unit.strip_suffix("/s").unwrap_or(unit).trim_ascii_end()
}

fn bytes_factor(unit: &str) -> Result<u64, Reason> {
    let mut rest = unit.chars();
    let Some(letter) = rest.next() else { return Ok(1) };
    let rest = rest.as_str();
    if unit == "B" {
        return Ok(1);
    }
    let Some(step) = "KMGTPE".find(letter.to_ascii_uppercase()) else {
        return Err(Reason::Unknown);
    };
    match rest {
        "" | "i" | "iB" => Ok(1 << (10 * (step + 1))),
        "B" | "b" => Err(Reason::ByteOrBit(letter.to_ascii_uppercase())),
        _ => Err(Reason::Unknown),
    }
}

fn ios_factor(unit: &str) -> Result<u64, Reason> {
    match unit {
        "" => Ok(1),
        "k" | "K" => Ok(1_000),
        "M" => Ok(1_000_000),
        "G" => Ok(1_000_000_000),
        _ => Err(Reason::Unknown),
    }
}

fn time_factor(unit: &str) -> Result<u64, Reason> {
    match unit {
        "ns" => Ok(1),
        // Both code points that look like a micro sign.
        "us" | "\u{b5}s" | "\u{3bc}s" => Ok(1_000),
        "ms" => Ok(1_000_000),
        "s" => Ok(1_000_000_000),
        "min" => Ok(60_000_000_000),
        "h" => Ok(3_600_000_000_000),
        "m" => Err(Reason::MinuteOrMilli),
        "" => Err(Reason::Missing),
        _ => Err(Reason::Unknown),
    }
}

/// The hint for `4MB`: both amounts it may mean, each written so that it means one.
fn both_sizes(digits: &str, letter: char) -> String {
    let exponent = 3 * ("KMGTPE".find(letter).map_or(0, |step| step as u32) + 1);
    let decimal = number(digits).and_then(|number| number.checked_mul(10u64.pow(exponent)));
    let digits = clip(digits);
    match decimal {
        Some(decimal) => format!(
            "write \"{digits}{letter}iB\" for {digits} x 1024^{power}, \
             or \"{decimal}\" for {digits} x 10^{exponent} bytes",
            power = exponent / 3
        ),
        None => format!("write \"{digits}{letter}iB\""),
    }
}

/// `digits` as a number; `None` over 64 bits.
fn number(digits: &str) -> Option<u64> {
    digits.parse().ok()
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The digits after a point or comma, and the unit after them.
fn split_fraction(rest: &str) -> Option<(&str, &str)> {
    rest.strip_prefix(['.', ',']).map(split_digits)
}

/// What stands between groups of digits, in one country or another.
const SEPARATORS: [char; 6] = [' ', ',', '.', '_', '\'', '\u{a0}'];

/// Whether `rest`, what follows the first `digits`, is more of them: groups of three after the same separator and nothing
/// else (`,000,000`), or digits after what can be no decimal point (`_5`, ` 000K`).
fn is_grouped(digits: &str, rest: &str) -> bool {
    let Some(separator) = rest.chars().next().filter(|c| SEPARATORS.contains(c)) else {
        return false;
    };
    let mut groups = rest.split(separator).skip(1);
    match separator {
        '.' | ',' => {
            let is_group =
                |group: &str| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit());
            !digits.starts_with('0') && digits.len() <= 3 && groups.all(is_group)
        }
        _ => groups.next().is_some_and(|group| group.starts_with(|c: char| c.is_ascii_digit())),
    }
}

/// The first [`UnitError::TEXT_MAX`] characters of `text`, with dots if it is longer: keeps errors small for any input.
pub fn clip(text: &str) -> String {
    match text.char_indices().nth(UnitError::TEXT_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

/// The first character of `text` that is invisible or changes how others are shown: control characters, marks of writing
/// direction, joiners, fillers, variation selectors, and blanks other than the plain one.
///
/// The others may still look alike (Latin `a`, Cyrillic `а`). O(characters).
pub fn hidden_character(text: &str) -> Option<char> {
    text.chars().find(|&c| {
        c.is_control() || c.is_whitespace() && c != ' ' || {
            // Unicode's Default_Ignorable_Code_Point, with the interlinear annotation characters.
            matches!(u32::from(c),
                0xAD | 0x34F | 0x61C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F
                | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0x3164
                | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB
                | 0x1_BCA0..=0x1_BCA3 | 0x1_D173..=0x1_D17A | 0xE_0000..=0xE_0FFF)
        }
    })
}

/// Names and sizes of the units that are printed, smallest first.
type Scale = &'static [(&'static str, u64)];

const BYTES: Scale = &[
    (" B", 1),
    (" KiB", 1 << 10),
    (" MiB", 1 << 20),
    (" GiB", 1 << 30),
    (" TiB", 1 << 40),
    (" PiB", 1 << 50),
    (" EiB", 1 << 60),
];
const IOS: Scale = &[("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
const TIME: Scale = &[(" ns", 1), (" us", 1_000), (" ms", 1_000_000), (" s", 1_000_000_000)];

/// A value in the largest unit of which it is a whole multiple.
struct Exact {
    value: u64,
    scale: Scale,
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, size) = self
            .scale
            .iter()
            .rev()
            .find(|(_, size)| self.value != 0 && self.value.is_multiple_of(*size))
            .unwrap_or(&self.scale[0]);
        write!(f, "{}{name}", self.value / size)
    }
}

/// A value to three digits, in the unit in which it is at least 1; for tables. Rounds half up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rounded {
    value: u64,
    scale: Scale,
    suffix: &'static str,
}

impl Rounded {
    /// The unit's name, the value in it, and how many of that value's digits are decimals.
    fn parts(&self) -> (&'static str, u128, u32) {
        let mut units = self.scale.iter().peekable();
        while let Some((name, size)) = units.next() {
            // The smallest unit cannot be divided, so it never has decimals.
            let most = if *size == 1 { 0 } else { 2 };
            for decimals in (0..=most).rev() {
                let scaled = scale_up(self.value, *size, decimals);
                let ends = match units.peek() {
                    // 1023.7 KiB rounds to 1024 KiB, which reads better as 1.00 MiB.
                    Some((_, next)) if decimals == 0 => scaled < u128::from(next / size),
                    None if decimals == 0 => true,
                    _ => scaled < 1_000,
                };
                if ends {
                    return (name, scaled, decimals);
                }
            }
        }
        unreachable!("the largest unit takes every value")
    }
}

/// `value / size` with `decimals` decimals, as an integer, half rounded up.
fn scale_up(value: u64, size: u64, decimals: u32) -> u128 {
    (u128::from(value) * 10u128.pow(decimals) + u128::from(size / 2)) / u128::from(size)
}

impl fmt::Display for Rounded {
    /// Honours the width and alignment of the format, so that columns line up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, scaled, decimals) = self.parts();
        let power = 10u128.pow(decimals);
        let (whole, part, suffix) = (scaled / power, scaled % power, self.suffix);
        f.pad(&match decimals {
            0 => format!("{whole}{name}{suffix}"),
            _ => format!("{whole}.{part:0width$}{name}{suffix}", width = decimals as usize),
        })
    }
}

macro_rules! quantity {
    ($type:ident, $quantity:ident, $scale:ident, $suffix:literal) => {
        impl $type {
            /// Three digits, for tables.
            pub const fn rounded(self) -> Rounded {
                Rounded { value: self.0, scale: $scale, suffix: $suffix }
            }
        }

        impl FromStr for $type {
            type Err = UnitError;

            fn from_str(text: &str) -> Result<Self, UnitError> {
                Quantity::$quantity.parse(text).map(Self)
            }
        }

        impl fmt::Display for $type {
            /// Exact: parses back to the same value.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&format!("{}{}", Quantity::$quantity.exact(self.0), $suffix))
            }
        }
    };
}

quantity!(Bytes, Bytes, BYTES, "");
quantity!(BytesPerSec, BytesPerSec, BYTES, "/s");
quantity!(Ios, Ios, IOS, "");
quantity!(IosPerSec, IosPerSec, IOS, "/s");
quantity!(Nanos, Time, TIME, "");

impl Nanos {
    /// As the standard library's type.
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn accepted() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4096B", 4096),
            ("007", 7),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64Ki", 65_536),
            ("64KiB", 65_536),
            ("64 KiB", 65_536),
            (" 4M ", 4 << 20),
            ("4g", 4 << 30),
            ("2TiB", 2 << 40),
            ("15E", 15 << 60),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for (text, rate) in [("50M", 50 << 20), ("50M/s", 50 << 20), ("50 MiB /s", 50 << 20)] {
            assert_eq!(text.parse(), Ok(BytesPerSec(rate)), "{text}");
        }
        for (text, count) in [("5k", 5_000), ("5K", 5_000), ("2M", 2_000_000), ("100", 100)] {
            assert_eq!(text.parse(), Ok(Ios(count)), "{text}");
        }
        assert_eq!("100k/s".parse(), Ok(IosPerSec(100_000)));
        for (text, nanos) in [
            ("10ms", 10_000_000),
            ("4us", 4_000),
            ("4\u{b5}s", 4_000),
            ("1s", 1_000_000_000),
            ("2min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("7 ns", 7),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn refused_with_a_hint() {
        let bytes = |text: &str| refusal(text.parse::<Bytes>());
        for (text, expected) in [
            ("", r#""" is not a number; write a size such as "4096", "64K" or "4MiB""#),
            ("max", r#""max" is not a number; write a size such as "4096", "64K" or "4MiB""#),
            ("+4", r#""+4" is not a number; write a size such as "4096", "64K" or "4MiB""#),
            ("-4", r#""-4" is negative; write a number without a sign"#),
            ("1.5M", r#""1.5M" is not a whole number; write "1536KiB""#),
            ("1.000", r#""1.000" has a separator among its digits; write "1000""#),
            ("1,000,000", r#""1,000,000" has a separator among its digits; write "1000000""#),
            ("1_000_000", r#""1_000_000" has a separator among its digits; write "1000000""#),
            ("1 000K", r#""1 000K" has a separator among its digits; write "1000K""#),
            ("1'024", r#""1'024" has a separator among its digits; write "1024""#),
            ("0,3K", r#""0,3K" is not a whole number; write a whole number of a smaller unit"#),
            (
                "4MB",
                r#""4MB" is ambiguous; write "4MiB" for 4 x 1024^2, or "4000000" for 4 x 10^6 bytes"#,
            ),
            (
                "1 kB",
                r#""1 kB" is ambiguous; write "1KiB" for 1 x 1024^1, or "1000" for 1 x 10^3 bytes"#,
            ),
            (
                "4Mib",
                r#""4Mib" has the unknown unit "Mib"; known: B, K or KiB, M or MiB, G or GiB, T or TiB (powers of 1024)"#,
            ),
            (
                "0x10",
                r#""0x10" has the unknown unit "x10"; known: B, K or KiB, M or MiB, G or GiB, T or TiB (powers of 1024)"#,
            ),
            (
                "4M/s",
                r#""4M/s" has the unknown unit "M/s"; known: B, K or KiB, M or MiB, G or GiB, T or TiB (powers of 1024)"#,
            ),
            ("16E", r#""16E" does not fit 64 bits; write a smaller number"#),
            (
                "18446744073709551616",
                r#""18446744073709551616" does not fit 64 bits; write a smaller number"#,
            ),
        ] {
            assert_eq!(bytes(text), expected);
        }
        assert_eq!(
            refusal("5Ki".parse::<Ios>()),
            r#""5Ki" has the unknown unit "Ki"; known: k, M, G (powers of 1000)"#
        );
        assert_eq!(
            refusal("10".parse::<Nanos>()),
            r#""10" has no unit; write "10ms", or another of ns, us, ms, s, min, h"#
        );
        assert_eq!(
            refusal("10m".parse::<Nanos>()),
            r#""10m" is ambiguous; write "10min" for minutes or "10ms" for milliseconds"#
        );
    }

    fn refusal<T: fmt::Debug>(result: Result<T, UnitError>) -> String {
        let error = result.unwrap_err();
        format!("{error}; {}", error.hint())
    }

    #[test]
    fn exact_and_rounded() {
        for (bytes, exact, rounded) in [
            (0, "0 B", "0 B"),
            (1, "1 B", "1 B"),
            (1_023, "1023 B", "1023 B"),
            (1_024, "1 KiB", "1.00 KiB"),
            (1_536, "1536 B", "1.50 KiB"),
            (4 << 20, "4 MiB", "4.00 MiB"),
            ((1 << 20) - 1, "1048575 B", "1.00 MiB"),
            (1023 << 10, "1023 KiB", "1023 KiB"),
            (12_345_678, "12345678 B", "11.8 MiB"),
            (u64::MAX, "18446744073709551615 B", "16.0 EiB"),
        ] {
            assert_eq!(format!("{}", Bytes(bytes)), exact);
            assert_eq!(format!("{}", Bytes(bytes).rounded()), rounded);
        }
        assert_eq!(format!("{}", BytesPerSec(50 << 20)), "50 MiB/s");
        assert_eq!(format!("{}", Ios(100_000)), "100k");
        assert_eq!(format!("{}", IosPerSec(12_345).rounded()), "12.3k/s");
        assert_eq!(format!("{}", Nanos(1_500_000)), "1500 us");
        assert_eq!(format!("{:>9}|", Nanos(6_204_999).rounded()), "  6.20 ms|");
        assert_eq!(format!("{}", Nanos(999_999).rounded()), "1.00 ms");
        assert_eq!(format!("{}", Nanos(7_200_000_000_000).rounded()), "7200 s");
    }

    proptest! {
        #[test]
        fn exact_text_parses_back(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            prop_assert_eq!(format!("{}", Bytes(value)).parse(), Ok(Bytes(value)));
            prop_assert_eq!(format!("{}", BytesPerSec(value)).parse(), Ok(BytesPerSec(value)));
            prop_assert_eq!(format!("{}", Ios(value)).parse(), Ok(Ios(value)));
            prop_assert_eq!(format!("{}", IosPerSec(value)).parse(), Ok(IosPerSec(value)));
            prop_assert_eq!(format!("{}", Nanos(value)).parse(), Ok(Nanos(value)));
        }

        #[test]
        fn rounding_is_off_by_half_a_last_digit_at_most(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let (name, scaled, decimals) = Bytes(value).rounded().parts();
            let size = BYTES.iter().find(|unit| unit.0 == name).unwrap().1;
            let back = scaled * u128::from(size);
            let exact = u128::from(value) * 10u128.pow(decimals);
            prop_assert!(back.abs_diff(exact) <= u128::from(size) / 2);
        }

        #[test]
        fn no_text_panics(text in "\\PC*|[0-9.,]{0,30}[ ]?[kKMGTPEiBbs/]{0,5}") {
            for result in [
                text.parse::<BytesPerSec>().map(|bytes| bytes.0),
                text.parse::<Ios>().map(|ios| ios.0),
                text.parse::<Nanos>().map(|nanos| nanos.0),
            ] {
                if let Err(error) = result {
                    prop_assert!(refusal(Err::<(), _>(error)).len() < 2_000);
                }
            }
        }

        /// Whatever whole number a hint offers instead of a fraction is right.
        #[test]
        fn a_fraction_s_hint_is_exact(whole in 0u64..1_000, half in 0u64..1_000, unit in "[KMG]") {
            let text = format!("{whole}.{half:03}{unit}");
            let factor = u128::from(format!("1{unit}").parse::<Bytes>().unwrap().0);
            let thousandfold = u128::from(whole * 1_000 + half) * factor;
            match text.parse::<Bytes>() {
                Err(UnitError::Fraction { whole: Some(hint), .. }) => prop_assert_eq!(
                    u128::from(hint.parse::<Bytes>().unwrap().0) * 1_000,
                    thousandfold
                ),
                other => {
                    let no_hint =
                        matches!(other, Err(UnitError::Fraction { whole: None, .. }));
                    prop_assert!(no_hint && thousandfold % 1_000 != 0);
                }
            }
        }
    }
}
