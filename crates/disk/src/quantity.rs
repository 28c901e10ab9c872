//! Numbers with units, as people write them.

use alloc::format;
use alloc::string::String;

/// Bytes: a whole number, alone or with K, M, G or T (also KiB …), powers of 1024; letters of either case.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text, "bytes, like 4K, 512M or 4G")?;
    let power = match unit {
        "" | "B" => 0,
        _ => match unit.strip_suffix("iB").unwrap_or(unit) {
            "K" | "k" => 1,
            "M" | "m" => 2,
            "G" | "g" => 3,
            "T" | "t" => 4,
            _ => return Err(not_a_size(unit)),
        },
    };
    number
        .checked_mul(1 << (10 * power))
        .ok_or_else(|| format!("{text} is more than 2^64 - 1 bytes"))
}

/// Bytes a second: as [`bytes`], with `/s` if one likes.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    bytes(text.strip_suffix("/s").unwrap_or(text))
}

/// Nanoseconds: a whole number with ns, us, ms or s; 0 needs no unit.
pub(crate) fn nanoseconds(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text, "a time, like 10us, 4ms or 1s")?;
    let factor = match unit {
        "" if number == 0 => 1,
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "" => {
            return Err(format!(
                "{text} has no unit; write {text}ns, {text}us, {text}ms or {text}s"
            ));
        }
        _ => return Err(format!("{unit} is not a unit of time; ns, us, ms and s are")),
    };
    number.checked_mul(factor).ok_or_else(|| format!("{text} is more than 2^64 - 1 ns"))
}

fn split<'a>(text: &'a str, wanted: &str) -> Result<(u64, &'a str), String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(match text {
            "" => format!("a value is missing; give {wanted}"),
            _ => format!("{text} is not a number; give {wanted}"),
        });
    }
    if unit.starts_with(['.', ',']) {
        return Err(format!("{text} is not a whole number; use a smaller unit instead"));
    }
    let number =
        number.parse().map_err(|_| format!("{number} is too large; 2^64 - 1 is the largest"))?;
    Ok((number, unit))
}

fn not_a_size(unit: &str) -> String {
    match unit {
        "ns" | "us" | "ms" | "s" => {
            format!("{unit} is a unit of time; sizes take K, M, G and T (powers of 1024)")
        }
        "KB" | "kB" | "MB" | "GB" | "TB" => {
            let letter = &unit[..1];
            format!(
                "{unit} could mean powers of 1000; write {letter} or {letter}iB, powers of 1024"
            )
        }
        _ => format!("{unit} is not a unit of size; K, M, G and T are (powers of 1024)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, value) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("4K", 4096),
            ("4k", 4096),
            ("4KiB", 4096),
            ("1M", 1 << 20),
            ("3G", 3 << 30),
            ("2TiB", 2 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(bytes(text), Ok(value), "{text}");
            assert_eq!(rate(&format!("{text}/s")), Ok(value), "{text}/s");
        }
    }

    #[test]
    fn times() {
        for (text, value) in [
            ("0", 0),
            ("15ns", 15),
            ("10us", 10_000),
            ("10µs", 10_000),
            ("4ms", 4_000_000),
            ("2s", 2_000_000_000),
        ] {
            assert_eq!(nanoseconds(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn mistakes_are_explained() {
        for (result, message) in [
            (bytes("10ms"), "ms is a unit of time; sizes take K, M, G and T (powers of 1024)"),
            (bytes("1MB"), "MB could mean powers of 1000; write M or MiB, powers of 1024"),
            (bytes("1X"), "X is not a unit of size; K, M, G and T are (powers of 1024)"),
            (bytes("1.5G"), "1.5G is not a whole number; use a smaller unit instead"),
            (bytes(""), "a value is missing; give bytes, like 4K, 512M or 4G"),
            (bytes("-1"), "-1 is not a number; give bytes, like 4K, 512M or 4G"),
            (bytes("16777216T"), "16777216T is more than 2^64 - 1 bytes"),
            (
                bytes("18446744073709551616"),
                "18446744073709551616 is too large; 2^64 - 1 is the largest",
            ),
            (nanoseconds("10"), "10 has no unit; write 10ns, 10us, 10ms or 10s"),
            (nanoseconds("10M"), "M is not a unit of time; ns, us, ms and s are"),
            (nanoseconds("18446744074s"), "18446744074s is more than 2^64 - 1 ns"),
        ] {
            assert_eq!(result.unwrap_err(), message);
        }
    }
}
