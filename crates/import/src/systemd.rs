//! Units and drop-ins of systemd, and what `systemctl show` and `systemctl cat` print.

use weir_engine::Dimension;
use weir_units::clip;

use crate::error::{At, ImportError};
use crate::plan::Plan;
use crate::{Source, amounts, default_cgroup, split_path, unit};

/// Settings that limit a device; the first four since version 230, the others before.
const RATES: [(&str, Dimension); 6] = [
    ("IOReadBandwidthMax", Dimension::Rbps),
    ("IOWriteBandwidthMax", Dimension::Wbps),
    ("IOReadIOPSMax", Dimension::Riops),
    ("IOWriteIOPSMax", Dimension::Wiops),
    ("BlockIOReadBandwidth", Dimension::Rbps),
    ("BlockIOWriteBandwidth", Dimension::Wbps),
];

/// What `systemctl show` prints of a unit that has not set it, and counters.
const IS_NO_SETTING: [&str; 8] = [
    "IOAccounting",
    "BlockIOAccounting",
    "IOReadBytes",
    "IOReadOperations",
    "IOWriteBytes",
    "IOWriteOperations",
    "IOPressureWatch",
    "IOPressureThresholdUSec",
];

/// Weights of BlockIO had 500 where those of IO have 100.
const OLD_DEFAULT_WEIGHT: u64 = 500;

/// One unit: its names, and its settings in their order.
#[derive(Default)]
struct Block<'t> {
    unit: Option<&'t str>,
    slice: Option<&'t str>,
    control_group: Option<&'t str>,
    /// Whether `systemctl show` has printed it: a blank line ends it.
    is_shown: bool,
    settings: Vec<(At, &'t str, String)>,
}

pub(crate) fn read(text: &str, source: Source<'_>, plan: &mut Plan) -> Result<(), ImportError> {
    let of_file = source.file.and_then(unit::of_file);
    let mut block = Block { unit: of_file, ..Block::default() };
    for (at, line) in logical_lines(text) {
        let (key, value) = match line {
            Line::Blank if block.is_shown => {
                std::mem::take(&mut block).apply(source, plan)?;
                continue;
            }
            Line::Blank => continue,
            Line::Comment(comment) => {
                // `systemctl cat` puts the path of each file before it.
                if let Some(unit) = comment.trim().strip_prefix('/').and_then(unit::of_file)
                    && block.unit != Some(unit)
                {
                    let next = Block { unit: Some(unit), ..Block::default() };
                    std::mem::replace(&mut block, next).apply(source, plan)?;
                }
                continue;
            }
            Line::Setting(key, value) => (key, value),
        };
        match key {
            "Id" => (block.unit, block.is_shown) = (Some(value.0), true),
            "Slice" => block.slice = Some(value.0),
            "ControlGroup" => block.control_group = Some(value.0),
            _ if key.starts_with("IO")
                || key.starts_with("BlockIO")
                || key.starts_with("StartupIO")
                || key.starts_with("StartupBlockIO") =>
            {
                block.settings.push((at, key, value.whole()));
            }
            _ => {}
        }
    }
    block.apply(source, plan)
}

/// A line with those that continue it.
enum Line<'t> {
    Blank,
    Comment(&'t str),
    Setting(&'t str, Value<'t>),
}

/// A value: its first line, and those that continue it.
struct Value<'t>(&'t str, Vec<&'t str>);

impl Value<'_> {
    fn whole(&self) -> String {
        std::iter::once(&self.0).chain(&self.1).copied().collect::<Vec<_>>().join(" ")
    }
}

fn logical_lines(text: &str) -> impl Iterator<Item = (At, Line<'_>)> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    std::iter::from_fn(move || {
        let (number, line) = lines.next()?;
        let at = At::line(number);
        if line.is_empty() {
            return Some((at, Line::Blank));
        }
        if let Some(comment) = line.strip_prefix(['#', ';']) {
            return Some((at, Line::Comment(comment)));
        }
        let mut continues = line.strip_suffix('\\');
        let (key, first) = continues.unwrap_or(line).split_once('=').unwrap_or((line, ""));
        let mut more = Vec::new();
        while continues.is_some() {
            let Some((_, line)) = lines.next() else { break };
            // Comments amid a value are left out.
            if line.starts_with(['#', ';']) {
                continue;
            }
            continues = line.strip_suffix('\\');
            more.push(continues.unwrap_or(line).trim());
        }
        Some((at, Line::Setting(key.trim(), Value(first.trim(), more))))
    })
}

impl Block<'_> {
    fn apply(self, source: Source<'_>, plan: &mut Plan) -> Result<(), ImportError> {
        let Some((first, _, _)) = self.settings.first() else { return Ok(()) };
        let mut cgroup = None;
        for (at, key, value) in &self.settings {
            if IS_NO_SETTING.contains(key) || is_unset(value) || is_default(key, value) {
                continue;
            }
            let cgroup = match cgroup {
                Some(cgroup) => cgroup,
                None => *cgroup.insert(self.cgroup(source, plan, *first)?),
            };
            set(*at, key, value.trim(), cgroup, plan)?;
        }
        Ok(())
    }

    fn cgroup(&self, source: Source<'_>, plan: &mut Plan, at: At) -> Result<usize, ImportError> {
        if let Some(path) = self.control_group.filter(|path| !split_path(path).is_empty()) {
            return plan.cgroup(&split_path(path), at);
        }
        let Some(unit) = self.unit else {
            return plan.cgroup(&default_cgroup(source, "unit"), at);
        };
        let mut names = unit::slice(self.slice.unwrap_or_default());
        match unit::slice(unit) {
            own if own.is_empty() => names.push(unit.to_owned()),
            own => names = own,
        }
        plan.cgroup(&names.iter().map(String::as_str).collect::<Vec<_>>(), at)
    }
}

/// What `systemctl show` prints where nothing is set.
fn is_unset(value: &str) -> bool {
    value == "[not set]" || value == "18446744073709551615"
}

/// What `systemctl show` prints of every service.
fn is_default(key: &str, value: &str) -> bool {
    matches!(
        (key, value),
        ("IOSchedulingClass", "2" | "best-effort") | ("IOSchedulingPriority", "4")
    )
}

fn set(at: At, key: &str, value: &str, cgroup: usize, plan: &mut Plan) -> Result<(), ImportError> {
    if let Some((_, dimension)) = RATES.iter().find(|(name, _)| *name == key) {
        if value.is_empty() {
            // An empty value takes back what was set before.
            for on in plan.cgroups[cgroup].devices.values_mut() {
                on.limits.max.set(*dimension, None);
            }
            return Ok(());
        }
        let (path, amount) = path_and(at, key, value)?;
        let amount = match amount {
            "infinity" => None,
            text => {
                Some(amounts::systemd(text).ok_or_else(|| at.wrong(key, text, amounts::SYSTEMD))?)
            }
        };
        let device = device(at, path, cgroup, plan)?;
        return plan.limit(cgroup, device, *dimension, amount, at);
    }
    match key {
        "IOWeight" | "BlockIOWeight" if value.is_empty() => {
            plan.cgroups[cgroup].weight = None;
            Ok(())
        }
        "IOWeight" => plan.weigh(cgroup, None, number(at, key, value)?, at),
        "BlockIOWeight" => {
            let weight = old_weight(at, key, value, cgroup, plan)?;
            plan.weigh(cgroup, None, weight, at)
        }
        "IODeviceWeight" | "BlockIODeviceWeight" if value.is_empty() => {
            for on in plan.cgroups[cgroup].devices.values_mut() {
                on.weight = None;
            }
            Ok(())
        }
        "IODeviceWeight" | "BlockIODeviceWeight" => {
            let (path, amount) = path_and(at, key, value)?;
            let weight = match key {
                "IODeviceWeight" => number(at, key, amount)?,
                _ => old_weight(at, key, amount, cgroup, plan)?,
            };
            let device = device(at, path, cgroup, plan)?;
            plan.weigh(cgroup, Some(device), weight, at)
        }
        _ => {
            let why = match key {
                "IODeviceLatencyTargetSec" | "IODeviceLatencyTargetUSec" => {
                    "Weir has no targets of latency; a watermark and weights are nearest"
                }
                "StartupIOWeight" | "StartupBlockIOWeight" => "Weir knows no start of the machine",
                "IOSchedulingClass" | "IOSchedulingPriority" => {
                    "priorities of requests do not come over NBD; `io.prio.class` of the cgroup is nearest, with bfq"
                }
                _ => "not known here",
            };
            plan.note_on(cgroup, at, format!("{}={} is left out: {why}", clip(key), clip(value)))
        }
    }
}

/// A weight on the scale of BlockIOWeight=, 10 to 1000 with 500 in the middle, on that of IOWeight=, as systemd itself does.
fn old_weight(
    at: At,
    key: &str,
    value: &str,
    cgroup: usize,
    plan: &mut Plan,
) -> Result<u64, ImportError> {
    let old = number(at, key, value)?;
    let weight = (old.saturating_mul(100) / OLD_DEFAULT_WEIGHT).max(1);
    let text = format!("{key} of {old} is {weight} here, as {OLD_DEFAULT_WEIGHT} there is 100");
    plan.note_on(cgroup, at, text)?;
    Ok(weight)
}

fn number(at: At, key: &str, value: &str) -> Result<u64, ImportError> {
    amounts::plain(value).ok_or_else(|| at.wrong(key, value, amounts::PLAIN))
}

/// `PATH AMOUNT`; a path with blanks is quoted.
fn path_and<'v>(at: At, key: &str, value: &'v str) -> Result<(&'v str, &'v str), ImportError> {
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let (path, rest) = value.strip_prefix(quote)?.split_once(quote)?;
        Some((path, rest))
    });
    let (path, amount) = quoted
        .or_else(|| value.split_once(char::is_whitespace))
        .ok_or_else(|| at.wrong(key, value, "the path of a device and an amount"))?;
    Ok((path, amount.trim()))
}

/// The device at `path`; of a file systemd takes the device that holds it.
fn device(at: At, path: &str, cgroup: usize, plan: &mut Plan) -> Result<usize, ImportError> {
    let known = plan.devices.len();
    let device = plan.device_at(path, at)?;
    if device == known && !path.starts_with("/dev/") {
        let text = format!(
            "{:?} is no device: systemd limits the one that holds it, write its path here",
            clip(path)
        );
        plan.note_on(cgroup, at, text.clone())?;
        plan.devices[device].notes.push(format!("line {}: {text}", at.line));
    }
    Ok(device)
}
