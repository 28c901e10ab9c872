//! `[export.NAME]`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use weir_engine::{Dimension, Direction, Path, PerDimension};
use weir_text::LimitKey;
use weir_units::Bytes;

use crate::cgroup;
use crate::device::{Devices, Lookup};
use crate::limits::LimitLines;
use crate::model::{BlockSize, CgroupConfig, DeviceRange, ExportConfig};
use crate::report::{Problem, Report};
use crate::server::CONNECTIONS_MAX;
use crate::source::{Layer, Text};
use crate::table::{Entry, Section};
use crate::value::{cut, quantity, unknown_name};

/// Longest name and description: the NBD protocol's limit for strings.
const STRING_MAX: usize = 4096;

pub(crate) const KEYS: [&str; 10] = [
    "device",
    "cgroup",
    "read_only",
    "range",
    "description",
    "max_connections",
    "block_size",
    "rotational",
    "multi_conn",
    "client_max",
];

/// Reads `[export]`.
pub(crate) fn read_all(
    root: &Section<'_>,
    devices: &Devices,
    cgroups: &[CgroupConfig],
    report: &mut Report,
) -> Vec<ExportConfig> {
    let section = root.section("export", report);
    let entries = section.map(|section| section.entries()).unwrap_or_default();
    if entries.is_empty() && report.is_empty() {
        let hint = "add `[export.NAME]` with `device = \"...\"` and `cgroup = \"/...\"`; the name may be \"\"";
        report.add(Problem::of_all("no export is configured").hint(hint.to_owned()));
    }
    let known = Known::new(root, cgroups, report);
    entries.into_iter().filter_map(|entry| read(entry, devices, &known, report)).collect()
}

fn read(
    entry: Entry<'_>,
    devices: &Devices,
    known: &Known<'_>,
    report: &mut Report,
) -> Option<ExportConfig> {
    let name = entry.name.to_owned();
    if let Some(message) = check_string(&name) {
        let problem = Problem::new(entry.key_span, &entry.key, format!("the name {message}"));
        report.add(problem.hint(A_NAME.to_owned()));
    }
    let section = entry.section(report)?;
    section.allow(&KEYS, report);
    let description = section.text("description", report).map(|text| {
        if let Some(message) = check_string(&text.value) {
            report.refuse(&text, format!("the description {message}"), Some(A_NAME.into()));
        }
        text.value
    });
    let cgroup = section
        .need("cgroup", "\"/vm1\"", report)
        .and_then(|entry| entry.text(report))
        .and_then(|text| known.find(&text, report));
    let device = section
        .need("device", "\"disk0\"", report)
        .and_then(|entry| entry.text(report))
        .and_then(|text| device(&text, devices, report));
    let range = section.text("range", report).and_then(|text| {
        let range = range(&text, report)?;
        inside(range, &text, device.and_then(|device| devices.size(device)), report);
        Some(range)
    });
    let asked = section.switch("read_only", report);
    let of_device = device.is_some_and(|device| devices.configs[device].read_only);
    if let (Some(false), true, Some(entry)) = (asked, of_device, section.get("read_only")) {
        let problem =
            Problem::new(entry.span(), &entry.key, "the device is read-only, so the export is too");
        report.add(problem.hint("leave it out, or let the device be written".to_owned()));
    }
    let max_connections = section.number("max_connections", 1, CONNECTIONS_MAX, report);
    let block_size = section.text("block_size", report);
    let block_size = block_size.map(|text| BlockSize::read(&text, report)).unwrap_or_default();
    let multi_conn = section.switch("multi_conn", report);
    if let (Some(true), Some(1), Some(entry)) =
        (multi_conn, max_connections, section.get("multi_conn"))
    {
        let message = "there are no several connections where `max_connections` is 1";
        let hint = "leave one of the two out".to_owned();
        report.add(Problem::new(entry.span(), &entry.key, message).hint(hint));
    }
    let rotational = section.switch_or("rotational", "auto", report);
    let client_max = section.text("client_max", report).map(|text| {
        let is_cached = device.is_some_and(|device| devices.configs[device].cache.is_some());
        client_max(&text, is_cached, report)
    });
    Some(ExportConfig {
        name,
        device: device?,
        cgroup: cgroup?,
        read_only: asked.unwrap_or(false) || of_device,
        range: range.unwrap_or_default(),
        description: description.unwrap_or_default(),
        max_connections,
        block_size,
        rotational,
        multi_conn: multi_conn.unwrap_or(true),
        client_max: client_max.unwrap_or_default(),
    })
}

/// Limits as in `io.max`, without a device.
fn client_max(text: &Text, is_cached: bool, report: &mut Report) -> PerDimension {
    let mut lines = LimitLines::new(1);
    lines.words(LimitKey::Max, text, &text.value, 0..1, report);
    let max = lines.max(0);
    let mut writes = Dimension::ALL.into_iter().filter(|of| of.limits(Direction::Write));
    if let Some(dimension) = writes.find(|&dimension| is_cached && max.get(dimension).is_some()) {
        // What is written back is the cgroup's: which of its clients has written a block is not kept.
        let message = format!(
            "{} limits writes, which the device's cache takes before any limit",
            dimension.key()
        );
        let hint = "limit reads of a client, or all writes of the cgroup, with `io.max`".to_owned();
        report.refuse(text, message, Some(hint));
    }
    max
}

/// Description for clients.
const A_NAME: &str = "write one short line of letters, digits and signs";

fn check_string(text: &str) -> Option<String> {
    if text.len() > STRING_MAX {
        Some(format!("has {} bytes, at most {STRING_MAX} are allowed", text.len()))
    } else {
        let character = weir_units::hidden_character(text)?;
        Some(format!("holds the control or invisible character U+{:04X}", u32::from(character)))
    }
}

fn device(text: &Text, devices: &Devices, report: &mut Report) -> Option<usize> {
    match devices.find(&text.value) {
        Lookup::Found(index) => Some(index),
        Lookup::Refused => None,
        missing => {
            let hint = match missing {
                Lookup::Removed(removal) => Some(removed_by(&removal.file)),
                _ => unknown_name(&text.value, devices.names()),
            };
            report.refuse(text, format!("there is no device {:?}", cut(&text.value)), hint);
            None
        }
    }
}

/// Hint for something that a later file takes away.
fn removed_by(file: &str) -> String {
    format!("{file} removes it: remove this export too")
}

/// The cgroups that exist: those listed and those above them.
pub(crate) struct Known<'c> {
    paths: BTreeSet<&'c str>,
    /// Those that a later file takes away, each with that file's name.
    removed: BTreeMap<Cow<'c, str>, Layer<'c>>,
}

impl<'c> Known<'c> {
    pub(crate) fn new(
        root: &Section<'c>,
        cgroups: &'c [CgroupConfig],
        report: &mut Report,
    ) -> Known<'c> {
        let section = root.section("cgroup", report);
        let removed = section.map(|section| section.removed()).unwrap_or_default();
        Known { paths: Known::paths(cgroups), removed }
    }

    fn paths(cgroups: &'c [CgroupConfig]) -> BTreeSet<&'c str> {
        cgroups.iter().map(|cgroup| cgroup.path.as_str()).collect()
    }

    /// An export may be in the root, which has no limits, but not in a cgroup that nothing is said about: a slip of
    /// the pen would leave it without limits.
    pub(crate) fn find(&self, text: &Text, report: &mut Report) -> Option<Path> {
        let path = match cgroup::path(&text.value) {
            Ok(path) => path,
            Err((message, meant)) => {
                let hint = meant.map(|meant| format!("write {meant:?}"));
                report.refuse(text, message, hint.or(Some(cgroup::A_PATH.into())));
                return None;
            }
        };
        let below = format!("{}/", path.as_str());
        let is_above = || {
            self.paths.range(below.as_str()..).next().is_some_and(|next| next.starts_with(&below))
        };
        if path.as_str() == "/" || self.paths.contains(path.as_str()) || is_above() {
            return Some(path);
        }
        // With very many names, a search for the nearest takes too long.
        let near = unknown_name(path.as_str(), self.paths.iter().copied().take(10_000))
            .filter(|hint| hint.starts_with("did"));
        let removed = self.removed.get(path.as_str()).map(|file| removed_by(file.name));
        let hint = removed.or(near).unwrap_or_else(|| {
            format!("add `[cgroup.{:?}]`, with or without limits", path.as_str())
        });
        report.refuse(text, format!("there is no cgroup {:?}", cut(path.as_str())), Some(hint));
        None
    }
}

/// `START..END`; either may be left out.
fn range(text: &Text, report: &mut Report) -> Option<DeviceRange> {
    let Some((start, end)) = text.value.split_once("..") else {
        let hint = "write offset and end, \"1G..3G\"; either may be left out";
        report.refuse(text, format!("{:?} is no range", cut(&text.value)), Some(hint.into()));
        return None;
    };
    let mut bound = |part: &str| -> Option<Option<u64>> {
        if part.trim().is_empty() {
            return Some(None);
        }
        let part = Text { value: part.into(), span: text.place_of(part), ..text.clone() };
        quantity(&part, report).map(|Bytes(bytes)| Some(bytes))
    };
    let (start, end) = (bound(start), bound(end));
    let (start, end) = (start?.unwrap_or(0), end?);
    if let Some(end) = end.filter(|end| *end <= start) {
        let message = format!(
            "the range ends at {}, which is not after its start {}",
            Bytes(end),
            Bytes(start)
        );
        let hint = "the second number is where it ends, not how long it is";
        report.refuse(text, message, Some(hint.into()));
        return None;
    }
    Some(DeviceRange { start, end })
}

/// Whether a device of `size`, if that is known, has all of `range`. A file may be another size when it is opened.
fn inside(range: DeviceRange, text: &Text, size: Option<u64>, report: &mut Report) {
    let Some(size) = size else { return };
    let last = range.end.unwrap_or(range.start.saturating_add(1));
    if last > size {
        let message = format!("the range reaches past the device's end at {}", Bytes(size));
        let hint = "begin and end inside, or leave the end out: \"1G..\"".to_owned();
        report.refuse(text, message, Some(hint));
    }
}
