//! Settings of a disk with platters, as a line of text.

use alloc::format;
use alloc::string::String;

use weir_units::{BytesPerSec, Nanos};

use super::{HddSpec, third_of_stroke};
use crate::settings::{BILLION, Setting, names, setting};

/// The keys, in the order in which they are printed, with ranges far beyond any disk that was built and far from
/// overflow.
pub(crate) const TABLE: &[Setting<HddSpec>; 17] = &[
    setting!("size", Disk, 1 << 20..=1 << 50, size),
    setting!("rpm", Count, 100..=100_000, rpm),
    setting!("heads", Count, 1..=64, heads),
    setting!("zones", Count, 1..=64, zones),
    setting!("outer", Rate, 100_000..=10 * BILLION, outer),
    setting!("inner", Rate, 100_000..=10 * BILLION, inner),
    setting!("track", Time, 0..=BILLION, track_to_track_ns),
    setting!("average", Time, 0..=BILLION, average_ns),
    setting!("full", Time, 0..=BILLION, full_ns),
    setting!("switch", Time, 0..=BILLION, head_switch_ns),
    setting!("interface", Rate, 100_000..=100 * BILLION, interface),
    setting!("overhead", Time, 0..=60 * BILLION, overhead_ns),
    setting!("readahead", Size, 0..=1 << 30, readahead),
    setting!("segments", Count, 1..=64, segments),
    setting!("cache", Size, 0..=1 << 30, cache),
    setting!("ncq", Count, 1..=1024, ncq),
    setting!("age", Time, 0..=60 * BILLION, age_ns),
];

pub(crate) const KEYS: &[&str] = &names(TABLE);

/// Contradiction between settings: the key to name, and the reason.
pub(crate) fn check(spec: &HddSpec) -> Result<(), (&'static str, String)> {
    if spec.inner > spec.outer {
        let (inner, outer) = (BytesPerSec(spec.inner), BytesPerSec(spec.outer));
        return Err(("inner", format!("the inner rate, {inner}, is above the outer, {outer}")));
    }
    if third_of_stroke(spec.track_to_track_ns, spec.average_ns, spec.full_ns).is_none() {
        let (track, full) = (Nanos(spec.track_to_track_ns), Nanos(spec.full_ns));
        let average = Nanos(spec.average_ns);
        let reason = format!("no seeks from {track} to {full} take {average} in the mean");
        return Err(("average", reason));
    }
    Ok(())
}
