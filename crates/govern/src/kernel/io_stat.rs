//! Text of `io.stat` (cgroup v2): a line for each device that was used.

use super::{DeviceNumber, TextError, number};
use crate::Counters;

/// What `device` did for the cgroup and all below it.
///
/// Some kernels print devices that were not used without a line end, so that `8:0 8:16 rbytes=1` is one line: each key
/// belongs to the number before it.
pub(super) fn parse(text: &str, device: DeviceNumber) -> Result<Counters, TextError> {
    let mut counters = Counters::default();
    for line in text.lines() {
        let mut is_meant = false;
        for word in line.split_ascii_whitespace() {
            let Some((key, value)) = word.split_once('=') else {
                is_meant = word.parse() == Ok(device);
                continue;
            };
            let counter = match key {
                "rbytes" => &mut counters.rbytes,
                "wbytes" => &mut counters.wbytes,
                "rios" => &mut counters.rios,
                "wios" => &mut counters.wios,
                _ => continue,
            };
            if is_meant {
                *counter = number(value)?;
            }
        }
    }
    Ok(counters)
}
