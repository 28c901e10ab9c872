//! Settings of an engine and their changes as text, without loss.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use weir_engine::settings::{LowLatency, Prices, PrioClass, PriorityClass};
use weir_engine::structure::{CgroupNode, Lease};
use weir_engine::utilisation::Capacity;
use weir_engine::{
    CgroupId, Change, ClientId, Config, Limits, Priority, SchedulerKind, Watermark, Weight,
};

/// Configuration of an engine, as the row `engine` has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EngineText {
    depth: NonZeroU32,
    scheduler: SchedulerKind,
    bfq: String,
    rotational: bool,
    requests_max: NonZeroU32,
    requests_per_task_max: NonZeroU32,
    piece_bytes_max: Option<NonZeroU32>,
    prices: Prices,
    capacity: Option<Capacity>,
}

impl From<&Config> for EngineText {
    fn from(config: &Config) -> EngineText {
        EngineText {
            depth: config.depth,
            scheduler: config.scheduler,
            bfq: weir_text::print_bfq(&config.bfq),
            rotational: config.rotational,
            requests_max: config.requests_max,
            requests_per_task_max: config.requests_per_task_max,
            piece_bytes_max: config.piece_bytes_max,
            prices: config.prices,
            capacity: config.capacity,
        }
    }
}

impl TryFrom<EngineText> for Config {
    type Error = String;

    fn try_from(text: EngineText) -> Result<Config, String> {
        let bfq = weir_text::parse_bfq(&text.bfq, Config::default().bfq);
        Ok(Config {
            depth: text.depth,
            scheduler: text.scheduler,
            bfq: bfq.map_err(|error| error.to_string())?,
            rotational: text.rotational,
            requests_max: text.requests_max,
            requests_per_task_max: text.requests_per_task_max,
            piece_bytes_max: text.piece_bytes_max,
            prices: text.prices,
            capacity: text.capacity,
        })
    }
}

/// Object of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target<C, L> {
    Device,
    Cgroup(C),
    Client(L),
}

/// A setting, as `KEY VALUE`.
pub(crate) type SettingText = (&'static str, String);

const LIMITS: &str = "limits";
const WEIGHT: &str = "io.weight";
const PRIO_CLASS: &str = "io.prio.class";
const LOW_LATENCY: &str = "io.bfq.low_latency";
const WATERMARK: &str = "io.watermark";
const DEPTH: &str = "depth";
const SCHEDULER: &str = "scheduler";
const BFQ: &str = "bfq";
const PRIORITY: &str = "priority";
const UNSET: &str = "unset";

/// The text of a change that sets something; `None` for changes of the tree.
pub(crate) fn print(change: &Change) -> Option<(Target<CgroupId, ClientId>, SettingText)> {
    Some(match *change {
        Change::SetLimits { cgroup, limits } => (Target::Cgroup(cgroup), limits_text(&limits)),
        Change::LeaseLimits { cgroup, limits, until, then } => {
            let lease = Lease { until, then };
            (Target::Cgroup(cgroup), leased_limits_text(LeasedLimits { limits, lease }))
        }
        Change::SetWeight { cgroup, weight } => {
            (Target::Cgroup(cgroup), (WEIGHT, weight.get().to_string()))
        }
        Change::SetPrioClass { cgroup, prio_class } => {
            (Target::Cgroup(cgroup), (PRIO_CLASS, prio_class.name().to_owned()))
        }
        Change::SetLowLatency { cgroup, low_latency } => {
            (Target::Cgroup(cgroup), low_latency_text(low_latency))
        }
        Change::SetClientLowLatency { client, low_latency } => {
            (Target::Client(client), low_latency_text(low_latency))
        }
        Change::SetWatermark { cgroup, watermark } => {
            (Target::Cgroup(cgroup), watermark_text(watermark))
        }
        Change::SetPriority { client, priority } => {
            let text = format!("{} {}", priority.class().index(), priority.level());
            (Target::Client(client), (PRIORITY, text))
        }
        Change::SetDepth(depth) => (Target::Device, (DEPTH, depth.to_string())),
        Change::SetScheduler(kind) => (Target::Device, (SCHEDULER, kind.name().to_owned())),
        Change::SetBfq(bfq) => (Target::Device, (BFQ, weir_text::print_bfq(&bfq))),
        _ => return None,
    })
}

/// What has been set for a cgroup and differs from what a new one has.
pub(crate) fn settings_of(node: &CgroupNode) -> Vec<SettingText> {
    let mut settings = Vec::new();
    match node.lease {
        Some(lease) => {
            settings.push(leased_limits_text(LeasedLimits { limits: node.limits, lease }));
        }
        None if node.limits != Limits::default() => settings.push(limits_text(&node.limits)),
        None => {}
    }
    if node.weight != Weight::default() {
        settings.push((WEIGHT, node.weight.get().to_string()));
    }
    if node.prio_class != PrioClass::default() {
        settings.push((PRIO_CLASS, node.prio_class.name().to_owned()));
    }
    if node.low_latency.is_some() {
        settings.push(low_latency_text(node.low_latency));
    }
    if node.watermark.is_some() {
        settings.push(watermark_text(node.watermark));
    }
    settings
}

/// Limits with a lease, in the place of plain ones.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeasedLimits {
    limits: Limits,
    lease: Lease,
}

fn leased_limits_text(limits: LeasedLimits) -> SettingText {
    (LIMITS, serde_json::to_string(&limits).expect("limits are plain data"))
}

fn limits_text(limits: &Limits) -> SettingText {
    (LIMITS, serde_json::to_string(limits).expect("limits are plain data"))
}

fn low_latency_text(low_latency: Option<LowLatency>) -> SettingText {
    (LOW_LATENCY, low_latency.map_or(UNSET, LowLatency::name).to_owned())
}

fn watermark_text(watermark: Option<Watermark>) -> SettingText {
    (WATERMARK, watermark.map_or_else(|| UNSET.to_owned(), weir_text::print_watermark))
}

/// Sets what a `set` row says; `old` has the device's settings of BFQ.
pub(crate) fn parse(
    target: Target<CgroupId, ClientId>,
    text: &str,
    old: &Config,
) -> Result<Change, String> {
    let (key, value) = text.split_once(' ').unwrap_or((text, ""));
    let wrong = || format!("no setting: {text:?}");
    Ok(match (target, key) {
        (Target::Cgroup(cgroup), LIMITS) => {
            if let Ok(LeasedLimits { limits, lease }) = serde_json::from_str(value) {
                let Lease { until, then } = lease;
                return Ok(Change::LeaseLimits { cgroup, limits, until, then });
            }
            let limits = serde_json::from_str(value).map_err(|error| error.to_string())?;
            Change::SetLimits { cgroup, limits }
        }
        (Target::Cgroup(cgroup), WEIGHT) => {
            let weight = value.parse().ok().and_then(|weight| Weight::new(weight).ok());
            Change::SetWeight { cgroup, weight: weight.ok_or_else(wrong)? }
        }
        (Target::Cgroup(cgroup), PRIO_CLASS) => {
            let prio_class = PrioClass::from_name(value).ok_or_else(wrong)?;
            Change::SetPrioClass { cgroup, prio_class }
        }
        (Target::Cgroup(cgroup), LOW_LATENCY) => {
            Change::SetLowLatency { cgroup, low_latency: low_latency(value).ok_or_else(wrong)? }
        }
        (Target::Client(client), LOW_LATENCY) => {
            let low_latency = low_latency(value).ok_or_else(wrong)?;
            Change::SetClientLowLatency { client, low_latency }
        }
        (Target::Cgroup(cgroup), WATERMARK) => {
            let watermark = match value {
                UNSET => None,
                set => Some(weir_text::parse_watermark(set).map_err(|error| error.to_string())?),
            };
            Change::SetWatermark { cgroup, watermark }
        }
        (Target::Client(client), PRIORITY) => {
            Change::SetPriority { client, priority: priority(value).ok_or_else(wrong)? }
        }
        (Target::Device, DEPTH) => Change::SetDepth(value.parse().map_err(|_| wrong())?),
        (Target::Device, SCHEDULER) => {
            Change::SetScheduler(SchedulerKind::from_name(value).ok_or_else(wrong)?)
        }
        (Target::Device, BFQ) => {
            let bfq = weir_text::parse_bfq(value, old.bfq).map_err(|error| error.to_string())?;
            Change::SetBfq(bfq)
        }
        _ => return Err(wrong()),
    })
}

fn low_latency(value: &str) -> Option<Option<LowLatency>> {
    match value {
        UNSET => Some(None),
        set => LowLatency::from_name(set).map(Some),
    }
}

fn priority(value: &str) -> Option<Priority> {
    let (class, level) = value.split_once(' ')?;
    let class = *PriorityClass::ALL.get(class.parse::<usize>().ok()?)?;
    Priority::new(class, level.parse().ok()?)
}
