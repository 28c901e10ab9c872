//! Text of `/sys/block/DEVICE/stat`.

use super::{TextError, number, shown};
use crate::Counters;

/// Bytes in a sector of the file, whatever the device's own are.
const SECTOR: u64 = 512;

/// What a device has done since it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskStat {
    /// Reads and writes, with those that were merged into others: cgroups count requests before they are merged.
    pub counters: Counters,
    /// Requests that it has now.
    pub in_flight_ios: u64,
    /// Time in which it had a request (`io_ticks`). Requests that a limit holds are not at the device.
    pub busy_ns: u64,
}

/// Reads the file's text: at least the eleven numbers that all kernels have.
///
/// # Errors
/// A number is missing, or is none.
pub fn parse_disk_stat(text: &str) -> Result<DiskStat, TextError> {
    let mut words = text.split_ascii_whitespace();
    let mut numbers = [0; 11];
    for field in &mut numbers {
        let missing = || TextError::Missing { what: "eleventh number", text: shown(text) };
        *field = number(words.next().ok_or_else(missing)?)?;
    }
    let [
        reads,
        reads_merged,
        read_sectors,
        _,
        writes,
        writes_merged,
        written_sectors,
        _,
        in_flight_ios,
        io_ticks_ms,
        _,
    ] = numbers;
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR);
    let counters = Counters {
        rbytes: bytes(read_sectors),
        wbytes: bytes(written_sectors),
        rios: reads.saturating_add(reads_merged),
        wios: writes.saturating_add(writes_merged),
    };
    Ok(DiskStat { counters, in_flight_ios, busy_ns: io_ticks_ms.saturating_mul(1_000_000) })
}
