//! fio's numbers, times, ranges and percentages.

use std::time::Duration;

use weir_units::nearest;

use super::error::ValueError;
use super::workload::{Amount, PerDirection};

/// Bytes of `k`: 1024, or 1000 after `kb_base=1000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KbBase {
    Binary,
    Decimal,
}

impl KbBase {
    fn power(self, exponent: u32) -> u64 {
        match self {
            KbBase::Binary => 1 << (10 * exponent),
            KbBase::Decimal => 10_u64.pow(3 * exponent),
        }
    }

    fn other(self) -> KbBase {
        match self {
            KbBase::Binary => KbBase::Decimal,
            KbBase::Decimal => KbBase::Binary,
        }
    }

    /// Factor of a suffix. As in fio, `ki` and `kb` are `k`, and `kib` is a `k` of the other base; the HOWTO has `ki`
    /// swap as well.
    fn multiplier(self, suffix: &str) -> Option<u64> {
        let suffix = suffix.to_ascii_lowercase();
        if matches!(suffix.as_str(), "" | "b") {
            return Some(1);
        }
        let (unit, rest) = suffix.split_at_checked(1)?;
        let exponent = match unit {
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            "p" => 5,
            _ => return None,
        };
        match rest {
            "" | "b" | "i" => Some(self.power(exponent)),
            "ib" => Some(self.other().power(exponent)),
            _ => None,
        }
    }
}

pub(super) fn integer(text: &str, base: KbBase, min: u64, max: u64) -> Result<u64, ValueError> {
    let value = bytes(text, base)?;
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        let min = i64::try_from(min).unwrap_or(i64::MAX);
        Err(ValueError::OutOfRange { value: value.into(), min, max })
    }
}

pub(super) fn small(text: &str, base: KbBase, min: u32, max: u32) -> Result<u32, ValueError> {
    let value = integer(text, base, min.into(), max.into())?;
    Ok(u32::try_from(value).expect("the largest allowed has 32 bits"))
}

pub(super) fn bytes(text: &str, base: KbBase) -> Result<u64, ValueError> {
    let (number, suffix) = number(text)?;
    let factor = base.multiplier(suffix).ok_or_else(|| {
        suffix_error(text, suffix, "k, m, g, t and p, each also with b, i or ib, and b")
    })?;
    number.checked_mul(factor).ok_or_else(|| ValueError::TooLarge { text: text.into() })
}

/// Splits a number from its suffix; decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Result<(u64, &str), ValueError> {
    let text = text.trim_ascii();
    let owned = || text.to_owned();
    if text.starts_with('(') || text.contains(['*', '^', '+']) {
        return Err(ValueError::Arithmetic { text: owned() });
    }
    if text.starts_with('-') {
        return Err(ValueError::Negative { text: owned() });
    }
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (digits, suffix) = digits.split_at(end);
    if digits.is_empty() {
        return Err(ValueError::NotANumber { text: owned() });
    }
    if radix == 16 && !suffix.is_empty() {
        // fio drops it without a word.
        return Err(suffix_error(text, suffix, "none after 0x"));
    }
    if suffix.starts_with('.') {
        return Err(ValueError::Fraction { text: owned() });
    }
    let number =
        u64::from_str_radix(digits, radix).map_err(|_| ValueError::TooLarge { text: owned() })?;
    Ok((number, suffix.trim_ascii_start()))
}

fn suffix_error(text: &str, suffix: &str, allowed: &'static str) -> ValueError {
    ValueError::Suffix { text: text.into(), suffix: suffix.into(), allowed }
}

/// A size, or a percentage from 1 to 100 of a file's.
pub(super) fn amount(text: &str, base: KbBase) -> Result<Amount, ValueError> {
    if let Some(percent) = text.strip_suffix('%') {
        return Ok(match percentage(percent, 0)? {
            0 => Amount::Bytes(0),
            percent => Amount::Percent(percent),
        });
    }
    match bytes(text, base) {
        Err(ValueError::Suffix { suffix, .. }) if suffix.eq_ignore_ascii_case("z") => {
            Err(ValueError::NotSimulated {
                text: text.into(),
                reason: "z counts zones of a zoned device",
            })
        }
        other => other.map(Amount::Bytes),
    }
}

pub(super) fn percentage(text: &str, min: u64) -> Result<u8, ValueError> {
    let value = integer(text, KbBase::Binary, min, 100)?;
    Ok(u8::try_from(value).expect("at most 100"))
}

/// A time; without suffix in units of `unit_us` microseconds.
pub(super) fn time(text: &str, unit_us: u64) -> Result<Duration, ValueError> {
    let (number, suffix) = number(text)?;
    let unit = match suffix.to_ascii_lowercase().as_str() {
        "" => unit_us,
        "us" | "usec" => 1,
        "ms" | "msec" => 1_000,
        "s" | "sec" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(suffix_error(text, suffix, "us, ms, s, m, h and d")),
    };
    number
        .checked_mul(unit)
        .map(Duration::from_micros)
        .ok_or_else(|| ValueError::TooLarge { text: text.into() })
}

/// `low-high` or `low:high` or one value; swapped if the other way round.
pub(super) fn range<T: PartialOrd + Copy>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<(T, T), ValueError> {
    let (low, high) = match text.split_once([':', '-']) {
        Some((low, high)) if !low.is_empty() => {
            (parse(low.trim_ascii())?, parse(high.trim_ascii())?)
        }
        _ => {
            let only = parse(text)?;
            (only, only)
        }
    };
    Ok(if low <= high { (low, high) } else { (high, low) })
}

pub(super) fn boolean(text: &str) -> Result<bool, ValueError> {
    integer(text, KbBase::Binary, 0, 1).map(|value| value == 1)
}

pub(super) fn float(text: &str, min: i64, max: u64) -> Result<f64, ValueError> {
    let value: f64 = text
        .trim_ascii()
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite())
        .ok_or_else(|| ValueError::NotANumber { text: text.into() })?;
    if value < min as f64 || value > max as f64 {
        return Err(ValueError::OutOfRange { value: value as i128, min, max });
    }
    Ok(value)
}

pub(super) fn word<T: Copy>(text: &str, words: &[(&'static str, T)]) -> Result<T, ValueError> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
        ValueError::NotOneOf {
            text: text.into(),
            allowed: words.iter().map(|(word, _)| *word).collect(),
            nearest: nearest(text, words.iter().map(|(word, _)| *word)),
        }
    })
}

/// `reads,writes,trims` into `slots`. An empty place leaves its slot; the last value goes to the directions after it,
/// unless a comma follows it.
pub(super) fn directions<T: Clone>(
    text: &str,
    slots: &mut PerDirection<T>,
    parse: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<(), ValueError> {
    let count = text.split(',').count();
    if count > 3 {
        return Err(ValueError::TooManyDirections { count });
    }
    if text.is_empty() {
        return Err(ValueError::Missing);
    }
    let mut last = None;
    let mut parts = text.split(',');
    for slot in [&mut slots.read, &mut slots.write, &mut slots.trim] {
        match parts.next() {
            Some(part) if part.trim_ascii().is_empty() => last = None,
            Some(part) => last = Some(parse(part.trim_ascii())?),
            None => {}
        }
        if let Some(value) = &last {
            *slot = value.clone();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: KbBase = KbBase::Binary;

    /// Sizes that fio 3.33 was seen to take, with its results.
    #[test]
    fn sizes_are_read_as_in_fio() {
        for (text, binary, decimal) in [
            ("4096", 4096, 4096),
            ("4096b", 4096, 4096),
            ("4k", 4096, 4000),
            ("4K", 4096, 4000),
            ("4kb", 4096, 4000),
            ("4kB", 4096, 4000),
            ("1m", 1 << 20, 1_000_000),
            ("1mi", 1 << 20, 1_000_000),
            ("1mib", 1_000_000, 1 << 20),
            ("1g", 1 << 30, 1_000_000_000),
            ("1T", 1 << 40, 1_000_000_000_000),
            ("1p", 1 << 50, 1_000_000_000_000_000),
            ("0x10000", 65536, 65536),
            ("0", 0, 0),
        ] {
            assert_eq!(bytes(text, B), Ok(binary), "{text}");
            assert_eq!(bytes(text, KbBase::Decimal), Ok(decimal), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_refused_with_the_reason() {
        for (text, expected) in [
            ("", r#""" is not a number"#),
            ("k", r#""k" is not a number"#),
            ("0x", r#""0x" is not a number"#),
            ("0x10k", r#""0x10k" ends in "k": allowed are none after 0x"#),
            ("-5", r#""-5" is negative"#),
            ("1.5m", r#""1.5m" is not a whole number: write it in a smaller unit"#),
            (
                "4kq",
                r#""4kq" ends in "kq": allowed are k, m, g, t and p, each also with b, i or ib, and b"#,
            ),
            (
                "4ö",
                r#""4ö" ends in "ö": allowed are k, m, g, t and p, each also with b, i or ib, and b"#,
            ),
            ("(4*2)", r#""(4*2)" is arithmetic, which is not read: write the result"#),
            ("99999999999999999999", r#""99999999999999999999" is above 18446744073709551615"#),
            ("99999p", r#""99999p" is above 18446744073709551615"#),
        ] {
            assert_eq!(bytes(text, B).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn times_are_read_as_in_fio() {
        for (text, unit_us, expected_us) in [
            ("10", 1_000_000, 10_000_000),
            ("10", 1, 10),
            ("4ms", 1, 4_000),
            ("4MSEC", 1, 4_000),
            ("7us", 1_000_000, 7),
            ("2sec", 1, 2_000_000),
            ("10m", 1, 600_000_000),
            ("1H", 1, 3_600_000_000),
            ("1d", 1, 86_400_000_000),
        ] {
            assert_eq!(time(text, unit_us), Ok(Duration::from_micros(expected_us)), "{text}");
        }
        assert!(matches!(time("10x", 1), Err(ValueError::Suffix { .. })));
        assert!(matches!(time("9999999999999999d", 1), Err(ValueError::TooLarge { .. })));
    }

    #[test]
    fn ranges() {
        let read = |text| range(text, |text| bytes(text, B));
        assert_eq!(read("4k-8k"), Ok((4096, 8192)));
        assert_eq!(read("8k:4k"), Ok((4096, 8192)));
        assert_eq!(read("4k"), Ok((4096, 4096)));
        assert_eq!(read("4k-"), Err(ValueError::NotANumber { text: "".into() }));
        assert_eq!(read("-4k"), Err(ValueError::Negative { text: "-4k".into() }));
    }

    /// The HOWTO's five examples of `bs`, and the edges.
    #[test]
    fn values_per_direction_are_read_as_in_fio() {
        for (text, expected) in [
            ("256", [256, 256, 256]),
            ("8,32", [8, 32, 32]),
            ("8,32,", [8, 32, 1]),
            (",8", [1, 8, 8]),
            (",8,", [1, 8, 1]),
            ("8,", [8, 1, 1]),
            ("2,3,4", [2, 3, 4]),
            (",,4", [1, 1, 4]),
        ] {
            let mut slots = PerDirection::all(1);
            directions(text, &mut slots, |text| bytes(text, B)).unwrap();
            assert_eq!([slots.read, slots.write, slots.trim], expected, "{text}");
        }
        let mut slots = PerDirection::all(1);
        let four = directions("1,2,3,4", &mut slots, |text| bytes(text, B));
        assert_eq!(four, Err(ValueError::TooManyDirections { count: 4 }));
    }
}
