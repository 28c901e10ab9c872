//! Texts of `blkio.throttle.*` (cgroup v1): a file for each limit, and one for each kind of counter.

use super::io_max::fields;
use super::{DeviceNumber, TextError, number};
use crate::{Counters, IoMax};

/// Files of the limits, in the order of [`IoMax`]'s fields.
pub(super) const LIMIT_FILES: [&str; 4] = [
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
];

/// Files of the counters: bytes, then I/Os. Those of the cgroup alone: limits of version 1 do not count what is below.
pub(super) const STAT_FILES: [&str; 2] =
    ["blkio.throttle.io_service_bytes", "blkio.throttle.io_serviced"];

/// Words behind the device's number, of each line of `device`.
fn lines(text: &str, device: DeviceNumber) -> impl Iterator<Item = &str> {
    text.lines().filter_map(move |line| {
        let (first, rest) = line.split_once(' ')?;
        (first.parse() == Ok(device)).then_some(rest)
    })
}

/// The limit of `device` in one of [`LIMIT_FILES`].
fn limit(text: &str, device: DeviceNumber) -> Result<Option<u64>, TextError> {
    lines(text, device).next().map(|value| number(value.trim())).transpose()
}

/// Limits of `device` in the texts of [`LIMIT_FILES`].
pub(super) fn parse_limits(texts: [&str; 4], device: DeviceNumber) -> Result<IoMax, TextError> {
    Ok(IoMax {
        rbps: limit(texts[0], device)?,
        wbps: limit(texts[1], device)?,
        riops: limit(texts[2], device)?,
        wiops: limit(texts[3], device)?,
    })
}

/// Indices of the files in [`LIMIT_FILES`] whose limit changes, and what to write there. 0 takes a limit away.
pub(super) fn writes(device: DeviceNumber, before: IoMax, after: IoMax) -> Vec<(usize, String)> {
    fields(before)
        .into_iter()
        .zip(fields(after))
        .enumerate()
        .filter(|(_, (before, after))| before != after)
        .map(|(index, (_, (_, value)))| (index, format!("{device} {}", value.unwrap_or(0))))
        .collect()
}

/// What `device` did for the cgroup, in the texts of [`STAT_FILES`].
pub(super) fn parse_counters(
    texts: [&str; 2],
    device: DeviceNumber,
) -> Result<Counters, TextError> {
    let of = |text, kind: &str| -> Result<u64, TextError> {
        let value = lines(text, device).find_map(|rest| rest.strip_prefix(kind)?.strip_prefix(' '));
        value.map_or(Ok(0), |value| number(value.trim()))
    };
    Ok(Counters {
        rbytes: of(texts[0], "Read")?,
        wbytes: of(texts[0], "Write")?,
        rios: of(texts[1], "Read")?,
        wios: of(texts[1], "Write")?,
    })
}
