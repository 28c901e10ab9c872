//! Settings of a flash disk, as a line of text.

use alloc::format;
use alloc::string::String;

use weir_units::Bytes;

use super::{SsdSpec, SsdState};
use crate::settings::{BILLION, Kind, Setting, names, setting};

const STATES: [SsdState; 3] = [SsdState::Fresh, SsdState::Full, SsdState::Aged];

/// The keys, in the order in which they are printed, with ranges far beyond any disk that was built and far from
/// overflow.
pub(crate) const TABLE: &[Setting<SsdSpec>; 19] = &[
    setting!("size", Disk, 1 << 20..=1 << 50, size),
    setting!("channels", Count, 1..=64, channels),
    setting!("dies", Count, 1..=64, dies),
    setting!("planes", Count, 1..=16, planes),
    setting!("page", Size, 512..=1 << 20, page),
    setting!("pages", Count, 1..=1 << 16, pages),
    setting!("read", Time, 0..=BILLION, read_ns),
    setting!("program", Time, 0..=BILLION, program_ns),
    setting!("erase", Time, 0..=BILLION, erase_ns),
    setting!("bus", Rate, 100_000..=100 * BILLION, bus),
    setting!("interface", Rate, 100_000..=1000 * BILLION, interface),
    Setting {
        name: "duplex",
        kind: Kind::Words(&["half", "full"]),
        min: 0,
        max: 1,
        get: |spec| u64::from(spec.is_duplex),
        set: |spec, word| spec.is_duplex = word == 1,
    },
    setting!("overhead", Time, 0..=BILLION, overhead_ns),
    setting!("latency", Time, 0..=60 * BILLION, latency_ns),
    setting!("buffer", Size, 512..=1 << 40, buffer),
    setting!("age", Time, 0..=60 * BILLION, age_ns),
    Setting {
        name: "gc",
        kind: Kind::Words(&["off", "on"]),
        min: 0,
        max: 1,
        get: |spec| u64::from(spec.has_gc),
        set: |spec, word| spec.has_gc = word == 1,
    },
    setting!("op", Count, 1..=400, op),
    Setting {
        name: "state",
        kind: Kind::Words(&["fresh", "full", "aged"]),
        min: 0,
        max: 2,
        get: |spec| spec.state as u64,
        set: |spec, word| spec.state = STATES[word as usize],
    },
];

pub(crate) const KEYS: &[&str] = &names(TABLE);

/// Contradiction between settings: the key to name, and the reason.
pub(crate) fn check(spec: &SsdSpec) -> Result<(), (&'static str, String)> {
    let unit = spec.page * spec.planes;
    if spec.buffer < unit {
        let (buffer, unit, planes) = (Bytes(spec.buffer), Bytes(unit), spec.planes);
        let reason = format!("{buffer} do not hold a page of each of {planes} planes, {unit}");
        return Err(("buffer", reason));
    }
    Ok(())
}
