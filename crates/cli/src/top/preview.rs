//! Preview of a setting: what it will do, before it is made.

use weir_engine::{Dimension, PerDimension};
use weir_text::{LimitKey, WeightKey};

use super::reading::View;
use crate::status::{human, multiplier, parsed, rate, rounded};

/// Most cgroups that a sentence names.
const NAMED_MAX: usize = 3;
/// Part of a limit from which on it counts as used up.
const USED_UP: f64 = 0.95;

/// A line `KEY VALUE`, understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Preview {
    pub(super) key: String,
    pub(super) value: String,
    /// Old and new value, then what that means, a sentence each.
    pub(super) lines: Vec<String>,
    /// Whether there is nothing to set.
    pub(super) is_same: bool,
}

/// The line with which the edit of a cgroup's limits begins: those that it has.
pub(super) fn limits_line(view: View<'_>, index: usize) -> String {
    let cgroup = view.cgroup(index);
    if cgroup.cgroup == "/" {
        let mark = cgroup.io_watermark.as_deref().unwrap_or("0");
        return format!("io.watermark {mark}");
    }
    format!("io.max {}", human(cgroup.io_max.as_deref().unwrap_or_default()))
}

/// The same for its weight.
pub(super) fn weight_line(view: View<'_>, index: usize) -> String {
    format!("io.weight {}", view.cgroup(index).io_weight)
}

/// Reads a line for the cgroup at `index`.
///
/// # Errors
/// What is wrong with it, or missing.
pub(super) fn preview(view: View<'_>, index: usize, line: &str) -> Result<Preview, String> {
    let line = line.trim();
    let (key, value) = line.split_once(' ').unwrap_or((line, ""));
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() || value.is_empty() {
        return Err("KEY VALUE, as after `weir set CGROUP`: io.max riops=500, io.weight 300".into());
    }
    let (lines, is_same) = match key {
        "io.max" => limits(view, index, value)?,
        "io.weight" => weight(view, index, WeightKey::Io, value)?,
        "io.bfq.weight" => weight(view, index, WeightKey::Bfq, value)?,
        key => (vec![other(view, index, key, value)], false),
    };
    Ok(Preview { key: key.into(), value: value.into(), lines, is_same })
}

fn limits(view: View<'_>, index: usize, value: &str) -> Result<(Vec<String>, bool), String> {
    let old = parsed(view.cgroup(index).io_max.as_deref());
    let new = weir_text::parse_limits(LimitKey::Max, value, old).map_err(|error| {
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{error}{hint}")
    })?;
    let changed = Dimension::ALL.into_iter().filter(|&of| old.get(of) != new.get(of));
    let changed: Vec<Dimension> = changed.collect();
    if changed.is_empty() {
        return Ok((vec!["these are its limits now: nothing would change".into()], true));
    }
    let mut lines = Vec::new();
    for &dimension in &changed {
        let said = |limits: PerDimension| match limits.get(dimension) {
            Some(value) => format!("{}/s", rounded(dimension, value.get() as f64)),
            None => "no limit".into(),
        };
        let effect = effect(view, index, dimension, old, new);
        lines.push(format!("{}: {} → {}: {effect}", dimension.key(), said(old), said(new)));
        lines.extend(lower_above(view, index, dimension, new));
    }
    lines.extend(view.watermark(index).map(|mark| {
        let now = match (mark.lifted, mark.multiplier) {
            (true, _) => "limits are lifted now".to_owned(),
            (false, 1.0) => "limits hold as written now".to_owned(),
            (false, by) => {
                format!(
                    "limits are multiplied by {by:.2} now, by more when less of the device is used"
                )
            }
        };
        format!("watermark {}: {now}", mark.watermark)
    }));
    lines.push(affected(view, index));
    Ok((lines, false))
}

/// What a changed limit means beside what the cgroup does now.
fn effect(
    view: View<'_>,
    index: usize,
    dimension: Dimension,
    old: PerDimension,
    new: PerDimension,
) -> String {
    let factor = multiplier(view.watermark(index));
    let holds = |limits: PerDimension| {
        limits.get(dimension).map_or(f64::INFINITY, |value| value.get() as f64 * factor)
    };
    let used = rate(view.rates(index), dimension);
    let (before, after) = (holds(old), holds(new));
    let now = format!("it does {}/s now", rounded(dimension, used));
    let was_held = used >= USED_UP * before;
    if after.is_infinite() {
        return match was_held {
            true => format!("{now}, as much as it may, and could do more"),
            false => format!("{now}, which it may go on with"),
        };
    }
    let limit = rounded(dimension, after);
    match used {
        used if used > after => {
            format!("{now}, and would be held to {limit}/s, {:.0} % of that", 100.0 * after / used)
        }
        _ if was_held => format!("{now}, as much as it may, and could do up to {limit}/s"),
        used if used >= USED_UP * after => format!("{now}, and could do no more than {limit}/s"),
        used => format!("{now}, {:.0} % of the new limit", 100.0 * used / after),
    }
}

/// A limit above that is lower than the new one.
fn lower_above(
    view: View<'_>,
    index: usize,
    dimension: Dimension,
    new: PerDimension,
) -> Option<String> {
    let own = new.get(dimension)?;
    let above = view.found.tree.upwards(index).skip(1).filter_map(|at| {
        let cgroup = view.cgroup(at);
        let value = parsed(cgroup.io_max.as_deref()).get(dimension)?;
        (value < own).then_some((value, &cgroup.cgroup))
    });
    let (value, path) = above.min()?;
    let value = rounded(dimension, value.get() as f64);
    Some(format!("{} of {path} above is lower, {value}/s, and holds first", dimension.key()))
}

/// Cgroups to which a limit applies.
fn affected(view: View<'_>, index: usize) -> String {
    let count = view.found.tree.below(index);
    if count == 0 {
        let connections = view.cgroup(index).connections;
        return format!(
            "for itself: no cgroup is below it; {}",
            counted(connections as usize, "connection")
        );
    }
    let mut children = view.found.tree.children(index).to_vec();
    children.sort_by(|&one, &other| view.rates(other).share().total_cmp(&view.rates(one).share()));
    let names = children.iter().take(NAMED_MAX).map(|&child| view.cgroup(child).cgroup.as_str());
    let names: Vec<&str> = names.collect();
    let more = if count > names.len() { ", .." } else { "" };
    format!("for all below it together: {}: {}{more}", counted(count, "cgroup"), names.join(", "))
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn weight(
    view: View<'_>,
    index: usize,
    key: WeightKey,
    value: &str,
) -> Result<(Vec<String>, bool), String> {
    let line = weir_text::parse_weight(key, value)
        .map_err(|error| format!("{error}; {}", error.hint()))?;
    let Some(new) = line.weight else { return Err("write the number".into()) };
    let (old, new) = (u64::from(view.cgroup(index).io_weight), u64::from(new.get()));
    if old == new {
        return Ok((vec!["this is its weight now: nothing would change".into()], true));
    }
    let tree = &view.found.tree;
    let siblings = tree.parent(index).map(|parent| tree.children(parent)).unwrap_or_default();
    let is_active = |&&at: &&usize| {
        let rates = view.rates(at);
        at != index && (rates.completed_ios_per_sec > 0.0 || rates.throttled_ios_per_sec > 0.0)
    };
    let active: Vec<usize> = siblings.iter().filter(is_active).copied().collect();
    let others: u64 = active.iter().map(|&at| u64::from(view.cgroup(at).io_weight)).sum();
    let part = |weight: u64| 100.0 * weight as f64 / (weight + others) as f64;
    let mut lines = vec![format!("weight: {old} → {new}")];
    if active.is_empty() {
        lines.push("no sibling is active now: nothing changes until one is".into());
    } else {
        let named = active.iter().take(NAMED_MAX).map(|&at| {
            let cgroup = view.cgroup(at);
            format!("{} {}", cgroup.cgroup, cgroup.io_weight)
        });
        let named: Vec<String> = named.collect();
        let more = if active.len() > named.len() { ", .." } else { "" };
        lines.push(format!(
            "its part where all active siblings wait: {:.0} % → {:.0} %, beside {}{more}",
            part(old),
            part(new),
            named.join(", ")
        ));
    }
    let is_limited = tree.upwards(index).skip(1).any(|at| view.cgroup(at).io_max.is_some());
    if !is_limited && view.status.scheduler == "none" {
        lines.push("no limit is above it and the scheduler is none: no weight counts now".into());
    }
    lines.push(affected(view, index));
    Ok((lines, false))
}

/// Settings that the server understands and this picture does not.
fn other(view: View<'_>, index: usize, key: &str, value: &str) -> String {
    let (device, cgroup) = (view.status, view.cgroup(index));
    let old = match key {
        "io.burst" => cgroup.io_burst.as_deref(),
        "io.peak" => cgroup.io_peak.as_deref(),
        "io.watermark" => Some(cgroup.io_watermark.as_deref().unwrap_or("inherit")),
        "io.limiter" => Some(cgroup.limiter.as_str()),
        "io.prio.class" => Some(cgroup.io_prio_class.as_str()),
        "io.bfq.low_latency" => Some(cgroup.io_bfq_low_latency.as_deref().unwrap_or("inherit")),
        "io.scheduler" => Some(device.scheduler.as_str()),
        "io.depth" => return format!("{key}: {} → {value}, for {}", device.depth, device.device),
        _ => None,
    };
    format!("{key}: {} → {value}", old.unwrap_or("not set"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::reading::Reading;
    use crate::top::sample::{reading, status};

    /// What is said of a line for a cgroup, and whether there is something to set.
    fn said(reading: &Reading, cgroup: &str, line: &str) -> (String, bool) {
        let view = reading.device(0).unwrap();
        let index = view.place(cgroup).unwrap();
        match preview(view, index, line) {
            Ok(preview) => (preview.lines.join("\n"), !preview.is_same),
            Err(why) => (why, false),
        }
    }

    #[test]
    fn old_and_new_value_stand_beside_what_is_done_now_and_by_which_cgroups() {
        let reading = reading(2);
        let mark = "watermark 90: limits are multiplied by 1.50 now, by more when less of the device is used";
        let alone = "for itself: no cgroup is below it; 1 connection";
        for (cgroup, line, expected) in [
            (
                "/vms/noisy",
                "io.max riops=8k",
                format!(
                    "riops: 4.00k/s → 8.00k/s: it does 6.00k/s now, as much as it may, and could do up to 12.0k/s\n\
                     riops of /vms above is lower, 6.00k/s, and holds first\n{mark}\n{alone}"
                ),
            ),
            (
                "/vms/noisy",
                "io.max riops=max",
                format!(
                    "riops: 4.00k/s → no limit: it does 6.00k/s now, as much as it may, and could do more\n{mark}\n{alone}"
                ),
            ),
            (
                "/vms/db",
                "io.max rbps=1M riops=max",
                format!(
                    "rbps: no limit → 1.00 MiB/s: it does 40.0 KiB/s now, 3 % of the new limit\n\
                     riops: 200/s → no limit: it does 10/s now, which it may go on with\n{mark}\n{alone}"
                ),
            ),
            (
                "/vms",
                "io.max riops=4200",
                format!(
                    "riops: 6.00k/s → 4.20k/s: it does 6.01k/s now, and could do no more than 6.30k/s\n{mark}\n\
                     for all below it together: 2 cgroups: /vms/noisy, /vms/db"
                ),
            ),
        ] {
            assert_eq!(said(&reading, cgroup, line), (expected, true), "{cgroup} {line}");
        }
    }

    #[test]
    fn a_weight_is_a_part_among_active_siblings() {
        let reading = reading(2);
        let expected = "weight: 100 → 300\n\
            its part where all active siblings wait: 50 % → 75 %, beside /vms/noisy 100\n\
            for itself: no cgroup is below it; 1 connection";
        assert_eq!(said(&reading, "/vms/db", "io.weight 300"), (expected.into(), true));
        let (told, _) = said(&reading, "/batch", "io.weight 300");
        assert!(told.contains("the scheduler is none: no weight counts now"), "{told}");
        let (told, is_new) = said(&reading, "/batch", "io.weight 100");
        assert_eq!(
            (told.as_str(), is_new),
            ("this is its weight now: nothing would change", false)
        );
    }

    #[test]
    fn other_settings_are_left_to_the_server() {
        let reading = reading(2);
        for (cgroup, line, expected) in [
            ("/", "io.watermark 80", "io.watermark: 90 → 80"),
            ("/vms", "io.watermark 0", "io.watermark: inherit → 0"),
            ("/", "io.depth 8", "io.depth: 32 → 8, for store"),
            ("/vms", "io.burst riops=9", "io.burst: not set → riops=9"),
            ("/vms", "io.what 9", "io.what: not set → 9"),
        ] {
            assert_eq!(said(&reading, cgroup, line), (expected.into(), true));
        }
    }

    #[test]
    fn a_lifted_limit_holds_nothing() {
        let mut after = status(2);
        after.devices[0].watermarks[0].lifted = true;
        let reading = Reading::between(&status(1), after);
        let (told, _) = said(&reading, "/vms/noisy", "io.max riops=1");
        assert!(
            told.contains("which it may go on with\nwatermark 90: limits are lifted now"),
            "{told}"
        );
    }
}
