//! Text of `io.max` (cgroup v2): a line for each device with limits.

use super::{DeviceNumber, TextError, number};
use crate::IoMax;

/// A limit's key and its value.
pub(super) type Field = (&'static str, Option<u64>);

/// Keys and values of limits, in the kernel's order.
pub(super) fn fields(limits: IoMax) -> [Field; 4] {
    [("rbps", limits.rbps), ("wbps", limits.wbps), ("riops", limits.riops), ("wiops", limits.wiops)]
}

fn field<'l>(limits: &'l mut IoMax, key: &str) -> Option<&'l mut Option<u64>> {
    Some(match key {
        "rbps" => &mut limits.rbps,
        "wbps" => &mut limits.wbps,
        "riops" => &mut limits.riops,
        "wiops" => &mut limits.wiops,
        _ => return None,
    })
}

/// Reads `rbps=4194304 wbps=max`: keys that are not named are `max`, unknown ones are passed over, the last of a repeated
/// one counts.
///
/// # Errors
/// A value that is neither `max` nor a number.
pub fn parse_limits(text: &str) -> Result<IoMax, TextError> {
    let mut limits = IoMax::default();
    for (key, value) in text.split_ascii_whitespace().filter_map(|word| word.split_once('=')) {
        if let Some(field) = field(&mut limits, key) {
            *field = if value == "max" { None } else { Some(number(value)?) };
        }
    }
    Ok(limits)
}

/// Prints all four limits, as the kernel does.
pub fn print_limits(limits: IoMax) -> String {
    print(&fields(limits))
}

fn print(fields: &[Field]) -> String {
    let word = |(key, value): &Field| match value {
        Some(value) => format!("{key}={value}"),
        None => format!("{key}=max"),
    };
    fields.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Limits of `device` in the text of `io.max`; none where it has no line.
pub(super) fn parse(text: &str, device: DeviceNumber) -> Result<IoMax, TextError> {
    for line in text.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if first.parse() == Ok(device) {
            return parse_limits(rest);
        }
    }
    Ok(IoMax::default())
}

/// The line that makes `before` into `after`. Only limits that differ are in it: a limit that another program writes at the
/// same moment stays.
pub(super) fn line(device: DeviceNumber, before: IoMax, after: IoMax) -> Option<String> {
    let changed: Vec<Field> = fields(before)
        .into_iter()
        .zip(fields(after))
        .filter(|(before, after)| before != after)
        .map(|(_, after)| after)
        .collect();
    (!changed.is_empty()).then(|| format!("{device} {}", print(&changed)))
}
