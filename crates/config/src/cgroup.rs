//! `[cgroup."/PATH"]`.

use std::collections::BTreeMap;

use weir_engine::settings::{LowLatency, PrioClass};
use weir_engine::{NameError, Path, Weight};
use weir_text::{WeightKey, WeightLine, parse_weight};

use crate::device::{self, Devices};
use crate::limiter;
use crate::limits::LimitLines;
use crate::model::{CgroupConfig, DeviceLimits};
use crate::report::{Problem, Report};
use crate::source::Text;
use crate::table::{Entry, Section};
use crate::value;

/// Most cgroups, including unlisted ancestors.
pub(crate) const CGROUPS_MAX: usize = 1_000_000;
/// Deepest cgroup: a request is checked at each level.
pub const DEPTH_MAX: usize = 64;
/// Most limits over all cgroups and devices: `*` makes one for each device.
const LIMITS_MAX: usize = 2_000_000;

/// How the names of cgroups begin that a server makes for the clients of an export with `client_max`.
pub const CLIENT_PREFIX: &str = "client:";

/// Whether `path` is a cgroup that a server has made for a client, or below one.
pub fn is_of_client(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with(CLIENT_PREFIX))
}

/// What `io.watermark` and `io.bfq.low_latency` say to go by the cgroup above, as without the key.
pub(crate) const INHERIT: &str = "inherit";

pub(crate) const KEYS: [&str; 9] = [
    "io.max",
    "io.burst",
    "io.peak",
    "io.weight",
    "io.bfq.weight",
    "io.prio.class",
    "io.bfq.low_latency",
    "io.limiter",
    "io.watermark",
];

/// Reads `[cgroup]`; sorted by path.
pub(crate) fn read_all(
    root: &Section<'_>,
    devices: &Devices,
    report: &mut Report,
) -> Vec<CgroupConfig> {
    let Some(section) = root.section("cgroup", report) else { return Vec::new() };
    let mut cgroups = Vec::new();
    let mut room = LIMITS_MAX;
    for entry in section.entries() {
        let span = entry.key_span;
        let Some(cgroup) = read(entry, devices, report) else { continue };
        let Some(left) = room.checked_sub(cgroup.limits.len()) else {
            let message = format!("more than {LIMITS_MAX} limits over all cgroups and devices");
            let hint = "limit cgroups that are parents of many".to_owned();
            report.add(Problem::new(span, &section.key, message).hint(hint));
            break;
        };
        room = left;
        cgroups.push((cgroup, span));
    }
    cgroups.sort_by(|(a, _), (b, _)| a.path.cmp(&b.path));
    for pair in cgroups.windows(2) {
        let (first, (second, span)) = (&pair[0].0, &pair[1]);
        if first.path == second.path {
            let message = format!("cgroup {} is there twice", first.path);
            let hint = "say all of it in one section; a `/` at the end makes no other path";
            report.add(Problem::new(*span, &section.key, message).hint(hint.to_owned()));
        }
    }
    let cgroups: Vec<CgroupConfig> = cgroups.into_iter().map(|(cgroup, _)| cgroup).collect();
    let count = count(&cgroups);
    if count > CGROUPS_MAX {
        let message = format!(
            "{count} cgroups, with those above the ones that are listed: at most {CGROUPS_MAX} are allowed"
        );
        let hint = "split the tenants among several servers".to_owned();
        report.add(Problem::new(section.span, &section.key, message).hint(hint));
    }
    cgroups
}

/// Number of cgroups: each sorted path adds the names that it does not share with the previous one.
fn count(sorted: &[CgroupConfig]) -> usize {
    let mut count = 0;
    let mut before: Option<&Path> = None;
    for cgroup in sorted {
        let shared = before.map_or(0, |before| {
            before.names().zip(cgroup.path.names()).take_while(|(a, b)| a == b).count()
        });
        count += cgroup.path.names().count() - shared;
        before = Some(&cgroup.path);
    }
    count
}

fn read(entry: Entry<'_>, devices: &Devices, report: &mut Report) -> Option<CgroupConfig> {
    let path = match path(entry.name) {
        Ok(path) => Some(path),
        Err((message, hint)) => {
            let hint = hint.map(|path| format!("write `[cgroup.{path:?}]`"));
            let hint = hint.unwrap_or_else(|| A_PATH.into());
            report.add(Problem::new(entry.key_span, &entry.key, message).hint(hint));
            None
        }
    };
    let section = entry.section(report)?;
    section.allow(&KEYS, report);
    let path = path?;
    if path.names().next().is_none() {
        refuse_root(&section, report);
        return None;
    }
    let (weight, device_weights) = weights(&section, devices, report);
    let prio_class = section
        .text("io.prio.class", report)
        .and_then(|text| prio_class(&text, report))
        .unwrap_or_default();
    let low_latency =
        section.text("io.bfq.low_latency", report).and_then(|text| low_latency(&text, report));
    let limiter = section
        .text("io.limiter", report)
        .and_then(|text| limiter::read(&text, report))
        .unwrap_or_default();
    let watermark = section
        .amount("io.watermark", report)
        .filter(|text| text.value != INHERIT)
        .and_then(|text| device::watermark(&text, report));
    let limits = LimitLines::read(&section, devices, report)
        .finish(limiter, devices, report)
        .into_iter()
        .map(|(device, limits)| DeviceLimits { device, limits })
        .collect();
    Some(CgroupConfig {
        path,
        weight,
        device_weights,
        prio_class,
        low_latency,
        watermark,
        limiter,
        limits,
    })
}

/// Lines of `io.weight`, or of `io.bfq.weight`, which is the same setting: the cgroup's weight, and those of single
/// devices. Lines are applied in their order, those of a later file after those of an earlier one.
fn weights(
    section: &Section<'_>,
    devices: &Devices,
    report: &mut Report,
) -> (Weight, Vec<(usize, Weight)>) {
    let (mut weight, mut own) = (Weight::DEFAULT, BTreeMap::new());
    for section in section.files() {
        let [plain, alias] =
            WeightKey::ALL.map(|key| section.get(key.key()).map(|entry| (key, entry)));
        if let (Some(_), Some((_, alias))) = (&plain, &alias) {
            let message = "this is `io.weight`, which is set too: say one of them";
            let hint = "take this line out".to_owned();
            report.add(Problem::new(alias.key_span, &alias.key, message).hint(hint));
        }
        let Some((key, entry)) = plain.or(alias) else { continue };
        for text in entry.amounts(report) {
            let Some(line) = weight_line(key, &text, report) else { continue };
            match (line.device, line.weight) {
                (None, asked) => weight = asked.unwrap_or_default(),
                (Some(device), asked) => {
                    for index in devices.targets(device, &text, report) {
                        match asked {
                            Some(asked) => own.insert(index, asked),
                            None => own.remove(&index),
                        };
                    }
                }
            }
        }
    }
    (weight, own.into_iter().collect())
}

/// `text` as a line of `key`.
pub(crate) fn weight_line<'t>(
    key: WeightKey,
    text: &'t Text,
    report: &mut Report,
) -> Option<WeightLine<'t>> {
    parse_weight(key, &text.value)
        .map_err(|error| report.refuse(text, error.to_string(), Some(error.hint().into())))
        .ok()
}

/// The root has nothing beside it to share with, and a limit on all of a device is its own price.
fn refuse_root(section: &Section<'_>, report: &mut Report) {
    for entry in section.entries().iter().filter(|entry| KEYS.contains(&entry.name)) {
        let problem =
            Problem::new(entry.key_span, &entry.key, "the root cgroup has no limits and no weight");
        report
            .add(problem.hint("set it on a cgroup below, such as `[cgroup.\"/vms\"]`".to_owned()));
    }
}

/// Suggestion for a bad path.
pub(crate) const A_PATH: &str = "write names between slashes, such as \"/vms/db\"";

/// Parses a cgroup's path; an error has a suggestion.
pub(crate) fn path(text: &str) -> Result<Path, (String, Option<String>)> {
    let path = Path::parse(text).map_err(|error| {
        let meant = match &error {
            NameError::NotAbsolute(_) => Some(format!("/{text}")),
            _ => None,
        };
        (error.to_string(), meant.filter(|meant| Path::parse(meant).is_ok()))
    })?;
    let depth = path.names().count();
    if depth > DEPTH_MAX {
        return Err((format!("the cgroup is {depth} deep, at most {DEPTH_MAX} are allowed"), None));
    }
    if is_of_client(text) {
        let message = format!(
            "names that begin with {CLIENT_PREFIX:?} are those of clients with `client_max`"
        );
        let meant = text.replace(CLIENT_PREFIX, "client-");
        return Err((message, Some(meant).filter(|meant| Path::parse(meant).is_ok())));
    }
    Ok(path)
}

/// Parses `io.prio.class`.
fn prio_class(text: &Text, report: &mut Report) -> Option<PrioClass> {
    let names = PrioClass::ALL.map(PrioClass::name);
    value::word(text, &names, report).map(|index| PrioClass::ALL[index])
}

/// Parses `io.bfq.low_latency`.
fn low_latency(text: &Text, report: &mut Report) -> Option<LowLatency> {
    let mut names = LowLatency::ALL.map(LowLatency::name).to_vec();
    names.push(INHERIT);
    value::word(text, &names, report).and_then(|index| LowLatency::ALL.get(index).copied())
}
