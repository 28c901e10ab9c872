//! Text of `io.pressure`.

use super::{TextError, number, shown};

/// Nanoseconds in which some task waited for I/O: `total` of the line `some`, which the kernel counts in microseconds.
///
/// Waiting for a limit is part of it: it tells of demand, not of a busy device.
///
/// # Errors
/// There is no such line or number.
pub fn parse_pressure(text: &str) -> Result<u64, TextError> {
    let missing = || TextError::Missing { what: "total of `some`", text: shown(text) };
    let some = text.lines().find_map(|line| line.strip_prefix("some ")).ok_or_else(missing)?;
    let total = some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="));
    Ok(number(total.ok_or_else(missing)?)?.saturating_mul(1_000))
}
