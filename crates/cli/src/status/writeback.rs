//! Content and work of the write-back cache between two readings, in words.

use weir_server::status::{CgroupStatus, DeviceStatus, WritebackStatus};
use weir_units::{Bytes, BytesPerSec, Nanos};

use super::rates::seconds;

/// How full it is.
pub(super) fn of_device(device: &DeviceStatus) -> Option<String> {
    let cache = device.cache?;
    let (dirty, size) = (Bytes(cache.dirty_bytes).rounded(), Bytes(cache.size_bytes).rounded());
    Some(format!("write-back cache: {dirty} of {size} not on the device yet"))
}

/// Columns that a line of a cgroup's has.
const WIDTH: usize = 94;

/// Line or two of a cgroup's write-back; none where all is zero.
pub(super) fn of_cgroup(
    before: &DeviceStatus,
    after: &DeviceStatus,
    cgroup: &CgroupStatus,
) -> Vec<String> {
    let old = before.cgroups.iter().find(|old| old.cgroup == cgroup.cgroup);
    let (old, new) = (old.map(|old| old.writeback).unwrap_or_default(), cgroup.writeback);
    let since = |of: fn(&WritebackStatus) -> u64| of(&new).saturating_sub(of(&old));
    let mut parts = Vec::new();
    if new.dirty_bytes > 0 {
        parts.push(format!("{} dirty", Bytes(new.dirty_bytes).rounded()));
    }
    let bytes = since(|it| it.written_bytes);
    if let Some(each) = bytes.checked_div(since(|it| it.written_ios)) {
        let rate = BytesPerSec((bytes as f64 / seconds(before, after)).round() as u64).rounded();
        parts.push(format!("{rate} written back, {} at once", Bytes(each).rounded()));
    }
    let hits = since(|it| it.hit_ios);
    if hits > 0 {
        parts.push(format!("{hits} reads from memory"));
    }
    let coalesced = since(|it| it.coalesced_ios);
    if coalesced > 0 {
        parts.push(format!("{coalesced} writes coalesced"));
    }
    let again = since(|it| it.overwritten_bytes);
    if again > 0 {
        parts.push(format!("{} overwritten", Bytes(again).rounded()));
    }
    let waits = since(|it| it.waits);
    if let Some(each) = since(|it| it.wait_ns).checked_div(waits) {
        parts.push(format!("{waits} waited for room, {} each", Nanos(each).rounded()));
    } else if new.waiting_ios > 0 {
        parts.push(format!("{} wait for room", new.waiting_ios));
    }
    let flushes = since(|it| it.flush_waits);
    if let Some(each) = since(|it| it.flush_wait_ns).checked_div(flushes) {
        let each = Nanos(each).rounded();
        parts.push(format!("{flushes} flushes waited for writes, {each} each"));
    }
    if new.failed_ios > 0 {
        parts.push(format!("{} failed since the start", new.failed_ios));
    }
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.len() + part.len() + 2 <= WIDTH => *line += &format!(", {part}"),
            _ => lines.push(format!("writeback: {part}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_between_two_readings() {
        let device = |at_ns: u64, writeback| {
            let cgroup = CgroupStatus { cgroup: "/a".into(), writeback, ..CgroupStatus::default() };
            DeviceStatus { at_ns, cgroups: vec![cgroup], ..DeviceStatus::default() }
        };
        let old = WritebackStatus { written_bytes: 5, written_ios: 5, ..Default::default() };
        let new = WritebackStatus {
            dirty_bytes: 3 << 20,
            written_bytes: 5 + (4 << 20),
            written_ios: 13,
            coalesced_ios: 1000,
            waits: 2,
            wait_ns: 3_000_000,
            flush_waits: 4,
            flush_wait_ns: 8_000_000,
            ..Default::default()
        };
        let (before, after) = (device(0, old), device(2_000_000_000, new));
        let lines = of_cgroup(&before, &after, &after.cgroups[0]);
        let expected = [
            "writeback: 3.00 MiB dirty, 2.00 MiB/s written back, 512 KiB at once, 1000 writes coalesced",
            "writeback: 2 waited for room, 1.50 ms each, 4 flushes waited for writes, 2.00 ms each",
        ];
        assert_eq!(lines, expected);
        let nothing = device(0, WritebackStatus::default());
        assert!(of_cgroup(&nothing, &nothing, &nothing.cgroups[0]).is_empty());
        assert_eq!(of_device(&after), None);
    }
}
