//! Numbers with the units of others.

/// What systemd takes for a bandwidth or a rate of operations.
pub(crate) const SYSTEMD: &str =
    "a whole number, with K, M, G, T, P or E for powers of 1000, or `infinity`";
/// What Docker takes for a bandwidth.
pub(crate) const DOCKER: &str =
    "a whole number, with k, m, g, t or p, and b behind, for powers of 1024";
/// What is a number and nothing else.
pub(crate) const PLAIN: &str = "a whole number";

/// Digits and nothing else; `None` also of more than 64 bits.
pub(crate) fn plain(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// A number in systemd's units, of 1000: `10M`, `1.5G`, `4096B`.
pub(crate) fn systemd(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let power = match unit {
        "" | "B" => 0,
        _ => 1 + u32::try_from("KMGTPE".find(unit).filter(|_| unit.len() == 1)?).ok()?,
    };
    scaled(number, 1_000_u64.checked_pow(power)?)
}

/// A number in Docker's units, of 1024, whatever they are called: `1mb`, `512k`, `1.5GiB`.
pub(crate) fn docker(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let unit = unit.strip_prefix(' ').unwrap_or(unit).to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let power = match unit {
        "" => 0,
        _ => {
            let letter = unit.strip_suffix('i').unwrap_or(unit);
            1 + u32::try_from("kmgtp".find(letter).filter(|_| letter.len() == 1)?).ok()?
        }
    };
    scaled(number, 1_024_u64.checked_pow(power)?)
}

/// The number at the beginning, and what follows it.
fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()))
}

/// `number`, which may have a decimal point, times `unit`; what is less than one is cut off, as both programs do.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(a, b)| (a, Some(b)));
    let whole = plain(whole)?.checked_mul(unit)?;
    let Some(fraction) = fraction else { return Some(whole) };
    // More digits do not count against units of 1024 to the power of six.
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 18)?;
    let part = u128::from(plain(fraction)?) * u128::from(unit) / 10_u128.pow(digits);
    whole.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_units() {
        for (text, of_systemd, of_docker) in [
            ("10", Some(10), Some(10)),
            ("10K", Some(10_000), Some(10_240)),
            ("10k", None, Some(10_240)),
            ("1M", Some(1_000_000), Some(1 << 20)),
            ("1mb", None, Some(1 << 20)),
            ("1MB", None, Some(1 << 20)),
            ("1MiB", None, Some(1 << 20)),
            ("1 gb", None, Some(1 << 30)),
            ("1.5G", Some(1_500_000_000), Some(3 << 29)),
            ("4096B", Some(4096), Some(4096)),
            ("2E", Some(2_000_000_000_000_000_000), None),
            ("20E", None, None),
            ("1KM", None, None),
            ("1ib", None, None),
            ("", None, None),
            (".5G", None, None),
            ("1.", None, None),
            ("-1", None, None),
            ("99999999999999999999", None, None),
        ] {
            assert_eq!((systemd(text), docker(text)), (of_systemd, of_docker), "{text}");
        }
    }
}
