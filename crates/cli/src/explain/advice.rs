//! Advice: commands that change what was found, and what is certain about their effect.

use serde::Serialize;

use super::Finding;
use super::reading::Reading;
use super::words::limit_value;

const WEIGHT_MAX: u32 = 10_000;

/// Something to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Advice {
    /// Ready to be run; `null` where no command of Weir does it.
    pub(super) command: Option<String>,
    /// What it does, as far as that is certain.
    pub(super) effect: String,
}

pub(super) fn of(reading: &Reading<'_>, finding: Finding) -> Vec<Advice> {
    match finding {
        Finding::OwnLimit | Finding::LimitAbove | Finding::LimitBelow | Finding::CacheFull => {
            // The cache empties at the limit only where that is what the write-back waits for.
            let is_limit = reading.held.first().is_some_and(|held| held.cause.cause == "limit");
            let mut all: Vec<Advice> = raise_limit(reading).filter(|_| is_limit).into_iter().collect();
            if finding == Finding::LimitAbove && !reading.neighbours(finding).is_empty() {
                all.push(raise_weight(reading));
            }
            if finding == Finding::CacheFull {
                all.push(outside("A larger `cache` of the device takes longer bursts; the rate at which it empties stays."));
            }
            all
        }
        Finding::OtherClients => {
            let mut all = vec![raise_weight(reading)];
            all.extend(raise_limit(reading));
            all
        }
        Finding::Weight => vec![raise_weight(reading)],
        Finding::DeviceFull | Finding::DeviceSlow => limit_neighbour(reading, finding),
        Finding::Idling => vec![Advice {
            command: Some(format!("weir set / io.bfq \"{} slice_idle=0\"", reading.after.device)),
            effect: "Without idling the device serves others while a flow pauses; sequential flows and weights are then kept less well:".to_owned(),
        }],
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
    Advice { command: None, effect: effect.to_owned() }
}

/// The name of the device in a value, where there are several.
fn prefix(reading: &Reading<'_>) -> String {
    if reading.several_devices { format!("{} ", reading.after.device) } else { String::new() }
}

fn set(cgroup: &str, key: &str, reading: &Reading<'_>, value: &str) -> Option<String> {
    Some(match reading.several_devices {
        true => format!("weir set {cgroup} {key} \"{}{value}\"", prefix(reading)),
        false => format!("weir set {cgroup} {key} {value}"),
    })
}

/// Twice the limit that holds most.
fn raise_limit(reading: &Reading<'_>) -> Option<Advice> {
    let cgroup = reading.limit()?.cgroup.clone()?;
    let value = limit_value(reading)?;
    let (key, rate) = value.split_once('=')?;
    let twice = rate.parse::<u64>().ok()?.checked_mul(2)?;
    let held = reading.per_sec(reading.grew(|cgroup| cgroup.throttled_ios.sum()));
    Some(Advice {
        command: set(&cgroup, "io.max", reading, &format!("{key}={twice}")),
        effect: format!(
            "{held:.0} requests/s had to wait for a limit. Twice the limit of {cgroup} lets twice as much pass; how much of it is used depends on its clients and the device:"
        ),
    })
}

/// Twice the weight of the cgroup.
fn raise_weight(reading: &Reading<'_>) -> Advice {
    let cgroup = &reading.new.cgroup;
    let weight = u32::from(reading.new.io_weight).saturating_mul(2).min(WEIGHT_MAX);
    Advice {
        command: set(cgroup, "io.weight", reading, &weight.to_string()),
        effect: format!(
            "A larger weight gives {cgroup} a larger part of what its siblings compete for:"
        ),
    }
}

/// Half of what the busiest neighbour does now.
fn limit_neighbour(reading: &Reading<'_>, finding: Finding) -> Vec<Advice> {
    let Some(other) = reading.neighbours(finding).into_iter().next() else {
        return vec![outside(
            "No other cgroup uses the device: only a faster device, or less work, changes that.",
        )];
    };
    let half = (other.ios_per_sec / 2.0).ceil().max(1.0) as u64;
    vec![Advice {
        command: set(&other.cgroup, "io.max", reading, &format!("rwiops={half}")),
        effect: format!(
            "A limit of half its present rate holds {} back, and leaves the device that work less:",
            other.cgroup
        ),
    }]
}
