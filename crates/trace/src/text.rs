//! Columns, words and numbers of lines, without allocation.

use crate::bad::Reason;

/// Exactly `N` columns between commas. No format uses quotes.
pub(crate) fn columns<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], Reason> {
    let mut columns = [&line[..0]; N];
    let mut rest = line;
    for (index, column) in columns.iter_mut().enumerate() {
        let comma = rest.iter().position(|&byte| byte == b',');
        match (comma, index + 1 == N) {
            (Some(at), false) => {
                *column = &rest[..at];
                rest = &rest[at + 1..];
            }
            (None, true) => *column = rest,
            _ => {
                let found = 1 + line.iter().filter(|&&byte| byte == b',').count();
                return Err(Reason::Columns { found, wanted: N });
            }
        }
    }
    Ok(columns)
}

/// Words between spaces and tabs.
#[derive(Clone)]
pub(crate) struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Words<'a> {
        Words(line)
    }

    /// The next word, or the error that `column` is missing.
    pub(crate) fn word(&mut self, column: &'static str) -> Result<&'a [u8], Reason> {
        self.next().ok_or(Reason::Missing { column })
    }

    /// Length of the rest; from the line's beginning, if words were taken from its end only.
    pub(crate) fn untaken(&self) -> usize {
        self.0.len()
    }

    /// The rest, trimmed.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0.trim_ascii()
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.0.trim_ascii_start();
        let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

impl<'a> DoubleEndedIterator for Words<'a> {
    fn next_back(&mut self) -> Option<&'a [u8]> {
        let text = self.0.trim_ascii_end();
        let start = text.iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1);
        let (rest, word) = text.split_at(start);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// Decimal digits, possibly between spaces; `None` for anything else and beyond 64 bits.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    // Fast path: no spaces, and too few digits to overflow.
    plain_digits(text).or_else(|| any_digits(text.trim_ascii()))
}

/// One to nineteen digits.
#[inline]
fn plain_digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    let mut value = 0_u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value)
}

#[cold]
fn any_digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        let value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        (digit <= 9).then_some(value)
    })
}

/// [`digits`], or the error that `column` has none.
pub(crate) fn number(text: &[u8], column: &'static str) -> Result<u64, Reason> {
    digits(text).ok_or(Reason::Number { column })
}

/// Decimal seconds, such as `12`, `.015820` and `0.000000001`, in nanoseconds; finer digits are cut off.
pub(crate) fn seconds(text: &[u8], column: &'static str) -> Result<u64, Reason> {
    let whole = plain_digits(text).and_then(|whole| whole.checked_mul(1_000_000_000));
    whole.or_else(|| seconds_if(text.trim_ascii())).ok_or(Reason::Time { column })
}

fn seconds_if(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|&byte| byte == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &text[..0]),
    };
    if !text.iter().any(u8::is_ascii_digit) || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { digits(whole)? };
    let mut nanos = 0;
    for place in 0..9 {
        nanos = nanos * 10 + u64::from(fraction.get(place).map_or(0, |byte| byte - b'0'));
    }
    whole.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// A decimal count of `unit`s of nanoseconds, a power of ten up to a second; finer digits are cut off.
pub(crate) fn decimal(text: &[u8], unit: u64, column: &'static str) -> Result<u64, Reason> {
    match digits(text) {
        Some(whole) => whole.checked_mul(unit).ok_or(Reason::Time { column }),
        None => {
            let text = text.trim_ascii();
            let point =
                text.iter().position(|&byte| byte == b'.').ok_or(Reason::Time { column })?;
            let whole = if point == 0 { 0 } else { ticks(&text[..point], unit, column)? };
            // A fraction in nanoseconds of a second is as many billionths of the unit.
            let part = match point + 1 < text.len() || point == 0 {
                true => seconds(&text[point..], column)?,
                false => 0,
            };
            let part = u64::try_from(u128::from(part) * u128::from(unit) / 1_000_000_000);
            part.ok().and_then(|part| whole.checked_add(part)).ok_or(Reason::Time { column })
        }
    }
}

/// A count of `unit`s of nanoseconds.
pub(crate) fn ticks(text: &[u8], unit: u64, column: &'static str) -> Result<u64, Reason> {
    digits(text).and_then(|count| count.checked_mul(unit)).ok_or(Reason::Time { column })
}

/// The sector of the block layer, whatever the disk's own is.
const SECTOR: u64 = 512;

/// A request's extent in bytes, if valid.
pub(crate) fn extent(offset: u64, len: u64) -> Result<(u64, u32), Reason> {
    if len == 0 {
        return Err(Reason::LengthZero);
    }
    let len = u32::try_from(len).map_err(|_| Reason::LengthTooLong)?;
    let end = offset.checked_add(u64::from(len)).ok_or(Reason::BeyondEnd)?;
    if end > i64::MAX.cast_unsigned() {
        return Err(Reason::BeyondEnd);
    }
    Ok((offset, len))
}

/// [`extent`] from sectors.
pub(crate) fn extent_of_sectors(first: u64, count: u64) -> Result<(u64, u32), Reason> {
    let offset = first.checked_mul(SECTOR).ok_or(Reason::BeyondEnd)?;
    extent(offset, count.checked_mul(SECTOR).ok_or(Reason::LengthTooLong)?)
}

/// The byte at which a block begins.
pub(crate) fn offset_of_sector(sector: u64) -> Result<u64, Reason> {
    sector.checked_mul(SECTOR).ok_or(Reason::BeyondEnd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_only() {
        let cases: &[(&[u8], Option<u64>)] = &[
            (b"0", Some(0)),
            (b"007", Some(7)),
            (b" 42\t", Some(42)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"000000000000000000000000000001", Some(1)),
            (b"", None),
            (b" ", None),
            (b"-1", None),
            (b"+1", None),
            (b"1 2", None),
            (b"1e3", None),
            (b"0x1", None),
        ];
        for &(text, value) in cases {
            assert_eq!(digits(text), value, "{:?}", text.escape_ascii().to_string());
        }
    }

    #[test]
    fn seconds_are_decimal() {
        let cases: &[(&[u8], Option<u64>)] = &[
            (b"0", Some(0)),
            (b".015820", Some(15_820_000)),
            (b"4.666589", Some(4_666_589_000)),
            (b"1.", Some(1_000_000_000)),
            (b"0.0000000019", Some(1)),
            (b"18446744073.709551615", Some(u64::MAX)),
            (b"18446744073.709551616", None),
            (b".", None),
            (b"", None),
            (b"1.2.3", None),
            (b"-1", None),
            (b"1.5s", None),
        ];
        for &(text, value) in cases {
            assert_eq!(seconds(text, "t").ok(), value, "{:?}", text.escape_ascii().to_string());
        }
    }

    #[test]
    fn decimals_have_any_unit() {
        let cases: &[(&[u8], u64, Option<u64>)] = &[
            (b"12", 1000, Some(12_000)),
            (b"1.5", 1_000_000, Some(1_500_000)),
            (b".0000009", 1_000_000_000, Some(900)),
            (b"3.99", 1, Some(3)),
            (b"7.", 100, Some(700)),
            (b".", 100, None),
            (b"1.5.2", 100, None),
            (b"-1", 100, None),
            (b"x", 100, None),
            (b"1e3", 100, None),
            (b"18446744073709551615", 10, None),
        ];
        for &(text, unit, value) in cases {
            assert_eq!(
                decimal(text, unit, "t").ok(),
                value,
                "{:?}",
                text.escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn columns_are_counted() {
        assert_eq!(columns::<3>(b"a,,c"), Ok([&b"a"[..], b"", b"c"]));
        assert_eq!(columns::<3>(b"a,b"), Err(Reason::Columns { found: 2, wanted: 3 }));
        assert_eq!(columns::<3>(b"a,b,c,d"), Err(Reason::Columns { found: 4, wanted: 3 }));
        assert_eq!(columns::<3>(b""), Err(Reason::Columns { found: 1, wanted: 3 }));
    }

    #[test]
    fn words_come_from_both_ends() {
        let mut words = Words::new(b"  one \t two three four  ");
        assert_eq!(words.next(), Some(&b"one"[..]));
        assert_eq!(words.next_back(), Some(&b"four"[..]));
        assert_eq!(words.rest(), b"two three");
        assert_eq!(words.next_back(), Some(&b"three"[..]));
        assert_eq!(words.next(), Some(&b"two"[..]));
        assert_eq!((words.next(), words.next_back()), (None, None));
    }

    #[test]
    fn extents_end_where_files_end() {
        let last = i64::MAX as u64;
        assert_eq!(extent(last - 512, 512), Ok((last - 512, 512)));
        assert_eq!(extent(last - 511, 512), Err(Reason::BeyondEnd));
        assert_eq!(extent(u64::MAX, 512), Err(Reason::BeyondEnd));
        assert_eq!(extent(0, 0), Err(Reason::LengthZero));
        assert_eq!(extent(0, 1 << 32), Err(Reason::LengthTooLong));
        assert_eq!(extent(0, (1 << 32) - 1), Ok((0, u32::MAX)));
        assert_eq!(extent_of_sectors(u64::MAX / 512 + 1, 8), Err(Reason::BeyondEnd));
        assert_eq!(extent_of_sectors(0, u64::MAX), Err(Reason::LengthTooLong));
    }
}
