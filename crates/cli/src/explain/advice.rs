//! Advice: commands that change what was found, and what is certain about their effect.

use std::num::NonZeroU64;

use serde::Serialize;
use weir_engine::{Dimension, Weight};

use super::Finding;
use super::command::Setting;
use super::reading::{Reading, parent};
use super::what_if::Figure;
use super::words::limit_value;
use crate::status::parsed;

/// Something to do.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Advice {
    /// Ready to be run; `null` where no command of Weir does it.
    pub(super) command: Option<String>,
    /// What it does, as far as that is certain.
    pub(super) effect: String,
    /// What it would have done to the last recorded requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) what_if: Option<Figure>,
    /// What the command sets.
    #[serde(skip)]
    pub(super) setting: Option<Setting>,
}

/// What to do, in this order.
pub(super) fn of(reading: &Reading<'_>, finding: Finding) -> Vec<Advice> {
    match finding {
        Finding::OwnLimit | Finding::LimitAbove | Finding::LimitBelow | Finding::CacheFull => {
            // The cache empties at the limit only where that is what the write-back waits for.
            let is_limit = reading.held.first().is_some_and(|held| held.cause.cause == "limit");
            let mut all = if is_limit { raise_limit(reading) } else { Vec::new() };
            if finding == Finding::LimitAbove && !reading.neighbours(finding).is_empty() {
                all.extend(change_weight(reading, finding));
            }
            if finding == Finding::CacheFull {
                all.push(outside("A larger `cache` of the device takes longer bursts; the rate at which it empties stays."));
            }
            all
        }
        Finding::OtherClients => {
            let mut all: Vec<Advice> = change_weight(reading, finding).into_iter().collect();
            all.extend(raise_limit(reading));
            all
        }
        Finding::Weight => change_weight(reading, finding).into_iter().collect(),
        Finding::DeviceFull | Finding::DeviceSlow => limit_neighbour(reading, finding),
        Finding::Idling => vec![inside(
            reading,
            Setting { cgroup: "/".to_owned(), key: "io.bfq", value: "slice_idle=0".to_owned() },
            "Without idling the device serves others while a flow pauses; sequential flows and weights are then kept less well:".to_owned(),
        )],
        Finding::ShallowClient => vec![outside(
            "More requests at once, as by a larger queue depth in the client, would use the device more. No limit does that.",
        )],
        Finding::Flush => vec![outside(
            "A flush takes as long as the device needs for what was written since the one before: more frequent flushes are shorter.",
        )],
        Finding::ConnectionQuota => vec![outside(
            "A second connection does not wait behind the first one's requests; so does a client that sends fewer at once.",
        )],
        Finding::ClientSlow | Finding::PayloadSlow => {
            vec![outside("Look at the client's processor and at the network; no setting of Weir changes that.")]
        }
        _ => Vec::new(),
    }
}

fn outside(effect: &str) -> Advice {
    Advice { command: None, effect: effect.to_owned(), what_if: None, setting: None }
}

fn inside(reading: &Reading<'_>, setting: Setting, effect: String) -> Advice {
    let device = reading.several_devices.then_some(reading.after.device.as_str());
    Advice { command: Some(setting.command(device)), effect, what_if: None, setting: Some(setting) }
}

/// Twice the limit that holds most; where that is beyond the rate of its bursts, twice that first.
fn raise_limit(reading: &Reading<'_>) -> Vec<Advice> {
    let Some(cgroup) = reading.limit().and_then(|limit| limit.cgroup.clone()) else {
        return Vec::new();
    };
    if weir_config::is_of_client(&cgroup) {
        return vec![outside(
            "It is the limit of each client: `client` of the export in the configuration has it, and `weir reload` reads that again.",
        )];
    }
    let Some((dimension, rate)) = rate_of(reading) else { return Vec::new() };
    let twice = |rate: NonZeroU64| match rate.get().saturating_mul(2) {
        twice if twice > dimension.largest() => "max".to_owned(),
        twice => twice.to_string(),
    };
    let set = |key, value: String| Setting {
        cgroup: cgroup.clone(),
        key,
        value: format!("{}={value}", dimension.key()),
    };
    let mut all = Vec::new();
    let peak = reading.cgroup(&cgroup).and_then(|cgroup| cgroup.io_peak.as_deref());
    let peak = peak.and_then(|text| parsed(Some(text)).get(dimension));
    if let Some(peak) = peak.filter(|peak| peak.get() <= rate.get().saturating_mul(2)) {
        let effect = "A burst must be faster than the limit. Before that is raised:".to_owned();
        let least = peak.max(rate.saturating_mul(NonZeroU64::MIN.saturating_add(1)));
        all.push(inside(reading, set("io.peak", twice(least)), effect));
    }
    let held = reading.per_sec(reading.grew(|cgroup| cgroup.throttled_ios.sum()));
    let effect = format!(
        "{held:.0} requests/s had to wait for a limit. Twice the limit of {cgroup} lets twice as much pass; how much of it is used depends on its clients and the device:"
    );
    all.push(inside(reading, set("io.max", twice(rate)), effect));
    all
}

/// The dimension that holds most, and its limit.
fn rate_of(reading: &Reading<'_>) -> Option<(Dimension, NonZeroU64)> {
    let value = limit_value(reading)?;
    let (key, rate) = value.split_once('=')?;
    let dimension = Dimension::ALL.into_iter().find(|dimension| dimension.key() == key)?;
    Some((dimension, rate.parse().ok()?))
}

/// Twice the weight of the cgroup, or of that above it which competes with the busiest neighbour; half of the neighbour's
/// where it cannot be larger.
fn change_weight(reading: &Reading<'_>, finding: Finding) -> Option<Advice> {
    let mut path = reading.new.cgroup.as_str();
    let rival = reading.neighbours(finding).into_iter().next();
    if let Some(rival) = &rival {
        while parent(path)? != parent(&rival.cgroup)? {
            path = parent(path)?;
        }
    }
    let set = |cgroup: &str, weight: u16| Setting {
        cgroup: cgroup.to_owned(),
        key: "io.weight",
        value: weight.to_string(),
    };
    let is_settable = |path: &str| parent(path).is_some() && !weir_config::is_of_client(path);
    let weight = reading.cgroup(path)?.io_weight;
    if is_settable(path) && weight < Weight::MAX {
        let setting = set(path, weight.saturating_mul(2).min(Weight::MAX));
        let effect =
            format!("A larger weight gives {path} a larger part of what its siblings compete for:");
        return Some(inside(reading, setting, effect));
    }
    let rival = rival.filter(|rival| is_settable(&rival.cgroup) && rival.io_weight > 1)?;
    let effect = format!(
        "A smaller weight leaves siblings of {} a larger part of what they compete for:",
        rival.cgroup
    );
    Some(inside(reading, set(&rival.cgroup, rival.io_weight / 2), effect))
}

/// Half of what the busiest neighbour does now.
fn limit_neighbour(reading: &Reading<'_>, finding: Finding) -> Vec<Advice> {
    let others = reading.neighbours(finding);
    let settable = others.into_iter().find(|other| !weir_config::is_of_client(&other.cgroup));
    let Some(other) = settable else {
        return vec![outside(
            "No other cgroup uses the device: only a faster device, or less work, changes that.",
        )];
    };
    let half = (other.ios_per_sec / 2.0).ceil().max(1.0) as u64;
    let half = half.min(Dimension::Rwiops.largest());
    // The kernel's limiter has none for both directions together.
    let is_slice =
        reading.cgroup(&other.cgroup).is_some_and(|cgroup| cgroup.limiter.starts_with("slice"));
    let value = match is_slice {
        true => format!("riops={half} wiops={half}"),
        false => format!("rwiops={half}"),
    };
    let effect = format!(
        "A limit of half its present rate holds {} back, and leaves the device that work less:",
        other.cgroup
    );
    vec![inside(reading, Setting { cgroup: other.cgroup, key: "io.max", value }, effect)]
}
