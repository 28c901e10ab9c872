//! The settings of a disk with platters, in a line of text.

use alloc::format;
use alloc::string::String;
use core::fmt;

use weir_engine::units::{Bytes, BytesPerSec, Ios, Nanos};

use crate::hdd::{HddSpec, third_of_stroke};
use crate::spec::{Refusal, refuse, size, unit};

/// The models that a line can begin with, by name.
const PRESETS: [(&str, HddSpec); 3] =
    [("hdd7200", HddSpec::HDD7200), ("hdd4200", HddSpec::HDD4200), ("disk2009", HddSpec::DISK2009)];

/// The keys, in the order in which they are printed.
pub(crate) const KEYS: &[&str] = &[
    "size",
    "rpm",
    "heads",
    "zones",
    "outer",
    "inner",
    "track",
    "average",
    "full",
    "switch",
    "interface",
    "overhead",
    "readahead",
    "cache",
    "ncq",
    "age",
];

/// The model of that name as it is without settings.
pub(crate) fn preset(name: &str) -> Option<(&'static str, HddSpec)> {
    PRESETS.into_iter().find(|(known, _)| *known == name)
}

/// Sets a key.
pub(crate) fn set(spec: &mut HddSpec, key: &str, value: &str) -> Result<(), Refusal> {
    let (kind, min, max) = range(key);
    let number = match kind {
        Kind::Size if key == "size" => size(value)?,
        Kind::Size => value.parse::<Bytes>().map_err(unit)?.0,
        Kind::Rate => value.parse::<BytesPerSec>().map_err(unit)?.0,
        Kind::Time => value.parse::<Nanos>().map_err(unit)?.0,
        Kind::Count => value.parse::<Ios>().map_err(unit)?.0,
    };
    if !(min..=max).contains(&number) {
        let (number, min, max) = (kind.print(number), kind.print(min), kind.print(max));
        return Err(refuse(format!("{number} is not between {min} and {max}")));
    }
    *field(spec, key) = number;
    Ok(())
}

/// What the settings together cannot be: the key to name, and why not.
pub(crate) fn check(spec: &HddSpec) -> Result<(), (&'static str, String)> {
    if spec.inner > spec.outer {
        let reason = format!(
            "the inner rate, {}, is above the outer, {}",
            BytesPerSec(spec.inner),
            BytesPerSec(spec.outer)
        );
        return Err(("inner", reason));
    }
    if third_of_stroke(spec.track_to_track_ns, spec.average_ns, spec.full_ns).is_none() {
        let (track, full) = (Nanos(spec.track_to_track_ns), Nanos(spec.full_ns));
        let average = Nanos(spec.average_ns);
        let reason = format!("no seeks from {track} to {full} take {average} in the mean");
        return Err(("average", reason));
    }
    Ok(())
}

/// Writes the settings that differ from the model's own.
pub(crate) fn print(name: &str, mut spec: HddSpec, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(name)?;
    let mut own = preset(name).map_or(HddSpec::HDD7200, |(_, own)| own);
    for key in KEYS {
        let value = *field(&mut spec, key);
        if value != *field(&mut own, key) {
            let suffix = if matches!(range(key).0, Kind::Time) { "ns" } else { "" };
            write!(f, ",{key}={value}{suffix}")?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Kind {
    Size,
    Rate,
    Time,
    Count,
}

impl Kind {
    fn print(self, value: u64) -> String {
        match self {
            Kind::Size => format!("{}", Bytes(value)),
            Kind::Rate => format!("{}", BytesPerSec(value)),
            Kind::Time => format!("{}", Nanos(value)),
            Kind::Count => format!("{value}"),
        }
    }
}

/// What a key takes, and its range: far beyond any disk that was built, and far from overflow.
fn range(key: &str) -> (Kind, u64, u64) {
    const SECOND: u64 = 1_000_000_000;
    match key {
        "size" => (Kind::Size, 1 << 20, 1 << 50),
        "rpm" => (Kind::Count, 100, 100_000),
        "heads" | "zones" => (Kind::Count, 1, 64),
        "outer" | "inner" => (Kind::Rate, 100_000, 10 * SECOND),
        "track" | "average" | "full" | "switch" => (Kind::Time, 0, SECOND),
        "interface" => (Kind::Rate, 100_000, 100 * SECOND),
        "readahead" | "cache" => (Kind::Size, 0, 1 << 30),
        "ncq" => (Kind::Count, 1, 1024),
        _ => (Kind::Time, 0, 60 * SECOND),
    }
}

fn field<'a>(spec: &'a mut HddSpec, key: &str) -> &'a mut u64 {
    match key {
        "size" => &mut spec.size,
        "rpm" => &mut spec.rpm,
        "heads" => &mut spec.heads,
        "zones" => &mut spec.zones,
        "outer" => &mut spec.outer,
        "inner" => &mut spec.inner,
        "track" => &mut spec.track_to_track_ns,
        "average" => &mut spec.average_ns,
        "full" => &mut spec.full_ns,
        "switch" => &mut spec.head_switch_ns,
        "interface" => &mut spec.interface,
        "overhead" => &mut spec.overhead_ns,
        "readahead" => &mut spec.readahead,
        "cache" => &mut spec.cache,
        "ncq" => &mut spec.ncq,
        _ => &mut spec.age_ns,
    }
}
