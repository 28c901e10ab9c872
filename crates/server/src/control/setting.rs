//! From the text of a setting to the command for a device.

use std::num::NonZeroU32;

use weir_engine::settings::{BfqSettings, LowLatency, PrioClass};
use weir_engine::{Dimension, LimiterKind, PerDimension, SchedulerKind};
use weir_text::{
    BfqError, DeviceRef, LimitKey, WeightKey, parse_limits, parse_watermark, parse_weight,
    split_device,
};
use weir_units::nearest;

use super::refuse::Refused;
use crate::command::Setting;
use crate::status::{CgroupStatus, DeviceStatus};

/// The largest device window, as in the configuration.
const DEPTH_MAX: u32 = 4096;

/// What takes a setting back, so that the one above counts.
const INHERIT: &str = "inherit";

/// What can be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Limit(LimitKey),
    Weight(WeightKey),
    PrioClass,
    LowLatency,
    Limiter,
    Watermark,
    Depth,
    Scheduler,
    Bfq,
}

/// Which devices a setting is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which<'a> {
    /// The text names none.
    Unnamed,
    Every,
    One(&'a str),
}

impl Key {
    pub(super) const ALL: [Key; 11] = [
        Key::Limit(LimitKey::Max),
        Key::Limit(LimitKey::Burst),
        Key::Limit(LimitKey::Peak),
        Key::Weight(WeightKey::Io),
        Key::PrioClass,
        Key::LowLatency,
        Key::Limiter,
        Key::Watermark,
        Key::Depth,
        Key::Scheduler,
        Key::Bfq,
    ];

    pub(super) fn parse(text: &str) -> Result<Key, Refused> {
        // The kernel's name for it.
        if text == WeightKey::Bfq.key() {
            return Ok(Key::Weight(WeightKey::Bfq));
        }
        Key::ALL.into_iter().find(|key| key.name() == text).ok_or_else(|| {
            let names = Key::ALL.map(Key::name);
            let hint = match nearest(text, names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", names.join(", ")),
            };
            Refused::bad("key", format!("unknown key {text:?}")).hint(hint)
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Key::Limit(limit) => limit.key(),
            Key::Weight(key) => key.key(),
            Key::PrioClass => "io.prio.class",
            Key::LowLatency => "io.bfq.low_latency",
            Key::Limiter => "io.limiter",
            Key::Watermark => "io.watermark",
            Key::Depth => "io.depth",
            Key::Scheduler => "io.scheduler",
            Key::Bfq => "io.bfq",
        }
    }

    /// Whether it is set on a device, whatever the cgroup.
    pub(super) fn is_of_device(self) -> bool {
        matches!(self, Key::Depth | Key::Scheduler | Key::Bfq)
    }

    /// Whether it may be set on the root: on a device, or for all cgroups of it.
    pub(super) fn is_for_root(self) -> bool {
        self.is_of_device() || self == Key::Watermark
    }

    /// Reads `value`; nothing is sent before all of it is understood.
    pub(super) fn read(self, value: &str) -> Result<(Which<'_>, Setting), Refused> {
        match self {
            Key::Limit(limit) => self.limits(limit, value),
            Key::Weight(key) => self.weight(key, value),
            Key::PrioClass => self.prio_class(value).map(|class| (Which::Unnamed, class)),
            Key::LowLatency => self.low_latency(value).map(|policy| (Which::Unnamed, policy)),
            Key::Limiter => limiter(value).map(|kind| (Which::Unnamed, Setting::Limiter(kind))),
            Key::Watermark => self.watermark(value).map(|mark| (Which::Unnamed, mark)),
            Key::Depth => self.depth(value).map(|depth| (Which::Unnamed, depth)),
            Key::Scheduler => self.scheduler(value).map(|kind| (Which::Unnamed, kind)),
            Key::Bfq => self.bfq(value),
        }
    }

    fn limits(self, limit: LimitKey, value: &str) -> Result<(Which<'_>, Setting), Refused> {
        let refuse = |error: weir_text::IoMaxError| {
            Refused::bad(self.name(), error.to_string()).hint(error.hint())
        };
        let word = value.split_ascii_whitespace().next().unwrap_or_default();
        if word == "max" {
            let all = Dimension::ALL.map(|dimension| format!("{}=max", dimension.key()));
            let hint = format!("to remove every limit write {:?}", all.join(" "));
            return Err(Refused::bad(self.name(), "\"max\" of what?").hint(hint));
        }
        let (which, text) = if word.contains('=') {
            (Which::Unnamed, value)
        } else {
            let (device, text) = split_device(value).map_err(refuse)?;
            match device {
                DeviceRef::Any => (Which::Every, text),
                DeviceRef::Name(_) | DeviceRef::Number { .. } => (Which::One(word), text),
            }
        };
        parse_limits(limit, text, PerDimension::NONE).map_err(refuse)?;
        self.say_something(value, text, "riops=100")?;
        Ok((which, Setting::Text { key: limit, text: text.to_owned() }))
    }

    fn bfq(self, value: &str) -> Result<(Which<'_>, Setting), Refused> {
        let word = value.split_ascii_whitespace().next().unwrap_or_default();
        let (which, text) = match value.trim_ascii_start().strip_prefix(word) {
            Some(text) if !word.contains('=') => match word {
                "*" | "any" => (Which::Every, text),
                name => (Which::One(name), text),
            },
            _ => (Which::Unnamed, value),
        };
        // What depends on what was set before is looked at by the device.
        if let Err(error) = weir_text::parse_bfq(text, BfqSettings::DEFAULT)
            && !matches!(error, BfqError::Stable(_) | BfqError::StableOff { .. })
        {
            return Err(Refused::bad(self.name(), error.to_string()).hint(error.hint()));
        }
        self.say_something(value, text, "slice_idle=0")?;
        Ok((which, Setting::Bfq(text.to_owned())))
    }

    /// Refuses `value` if `text`, what follows the device in it, is empty.
    fn say_something(self, value: &str, text: &str, example: &str) -> Result<(), Refused> {
        if !text.trim_ascii().is_empty() {
            return Ok(());
        }
        let message = format!("nothing is said about {:?}", value.trim_ascii());
        Err(Refused::bad(self.name(), message).hint(format!("for example {example:?}")))
    }

    fn scheduler(self, value: &str) -> Result<Setting, Refused> {
        SchedulerKind::from_name(value.trim()).map(Setting::Scheduler).ok_or_else(|| {
            let names = SchedulerKind::ALL.map(SchedulerKind::name).join(", ");
            let message = format!("there is no scheduler {value:?}");
            Refused::bad(self.name(), message).hint(format!("available: {names}"))
        })
    }

    /// `default N` is every device, also one that has been given a weight of its own: a server at work keeps one weight
    /// for each device, and not beside it the one that it would have by default.
    fn weight(self, key: WeightKey, value: &str) -> Result<(Which<'_>, Setting), Refused> {
        let line = parse_weight(key, value).map_err(|error| {
            Refused::bad(self.name(), error.to_string()).hint(error.hint().to_owned())
        })?;
        let which = match line.device {
            None => Which::Unnamed,
            Some(DeviceRef::Any) => Which::Every,
            Some(_) => Which::One(value.split_ascii_whitespace().next().unwrap_or_default()),
        };
        let Some(weight) = line.weight else {
            let message = "a server at work knows no other weight to go back to";
            let hint = "write the number: \"default 100\", or a device and a number";
            return Err(Refused::bad(self.name(), message).hint(hint.to_owned()));
        };
        Ok((which, Setting::Weight(weight)))
    }

    fn prio_class(self, value: &str) -> Result<Setting, Refused> {
        PrioClass::from_name(value.trim()).map(Setting::PrioClass).ok_or_else(|| {
            let names = PrioClass::ALL.map(PrioClass::name).join(", ");
            let message = format!("there is no class {value:?}");
            Refused::bad(self.name(), message).hint(format!("available: {names}"))
        })
    }

    fn low_latency(self, value: &str) -> Result<Setting, Refused> {
        let policy = match value.trim() {
            INHERIT => Some(None),
            name => LowLatency::from_name(name).map(Some),
        };
        policy.map(Setting::LowLatency).ok_or_else(|| {
            let names = LowLatency::ALL.map(LowLatency::name).join(", ");
            let message = format!("there is no policy {value:?}");
            Refused::bad(self.name(), message).hint(format!("available: {names}, {INHERIT}"))
        })
    }

    fn watermark(self, value: &str) -> Result<Setting, Refused> {
        if value.trim() == INHERIT {
            return Ok(Setting::Watermark(None));
        }
        match parse_watermark(value) {
            Ok(watermark) => Ok(Setting::Watermark(Some(watermark))),
            Err(error) => Err(Refused::bad(self.name(), error.to_string()).hint(error.hint())),
        }
    }

    fn depth(self, value: &str) -> Result<Setting, Refused> {
        let depth: Option<NonZeroU32> = value.trim().parse().ok();
        depth.filter(|depth| depth.get() <= DEPTH_MAX).map(Setting::Depth).ok_or_else(|| {
            let message = format!("{value:?} is no depth: allowed are 1 to {DEPTH_MAX}");
            Refused::bad(self.name(), message).hint("what is usual: 32".to_owned())
        })
    }

    /// How the setting reads back.
    pub(super) fn read_back(self, device: &DeviceStatus, cgroup: &CgroupStatus) -> String {
        let limits = |text: &Option<String>| match text {
            Some(text) => text.clone(),
            None => PerDimension::NONE.to_string(),
        };
        match self {
            Key::Limit(LimitKey::Max) => limits(&cgroup.io_max),
            Key::Limit(LimitKey::Burst) => limits(&cgroup.io_burst),
            Key::Limit(LimitKey::Peak) => limits(&cgroup.io_peak),
            Key::Weight(_) => cgroup.io_weight.to_string(),
            Key::PrioClass => cgroup.io_prio_class.clone(),
            Key::LowLatency => {
                cgroup.io_bfq_low_latency.clone().unwrap_or_else(|| INHERIT.to_owned())
            }
            Key::Limiter => cgroup.limiter.clone(),
            Key::Watermark => cgroup.io_watermark.clone().unwrap_or_else(|| INHERIT.to_owned()),
            Key::Depth => device.depth.to_string(),
            Key::Scheduler => device.scheduler.clone(),
            Key::Bfq => device.bfq.settings.clone(),
        }
    }
}

fn limiter(value: &str) -> Result<LimiterKind, Refused> {
    weir_config::parse_limiter(value).map_err(|errors| {
        let first = &errors.errors()[0];
        Refused::bad(Key::Limiter.name(), &first.message).hint(first.hint.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_engine::Weight;

    fn read(key: &str, value: &str) -> Result<(String, Setting), String> {
        let read = Key::parse(key).and_then(|key| {
            key.read(value).map(|(which, setting)| {
                let which = match which {
                    Which::Unnamed => "-",
                    Which::Every => "*",
                    Which::One(name) => name,
                };
                (which.to_owned(), setting)
            })
        });
        read.map_err(|refused| {
            assert_eq!(refused.status, 400);
            let refusal = refused.refusal;
            format!(
                "{}: {} ({})",
                refusal.key.unwrap(),
                refusal.message,
                refusal.hint.unwrap_or_default()
            )
        })
    }

    #[test]
    fn values_and_the_devices_they_are_for() {
        let text = |key, text: &str| Setting::Text { key, text: text.into() };
        let bfq = |text: &str| Setting::Bfq(text.into());
        for (key, value, which, setting) in [
            ("io.max", "riops=100", "-", text(LimitKey::Max, "riops=100")),
            (
                "io.max",
                "disk0 riops=5k rbps=max",
                "disk0",
                text(LimitKey::Max, " riops=5k rbps=max"),
            ),
            ("io.burst", "* rbps=4M", "*", text(LimitKey::Burst, " rbps=4M")),
            ("io.peak", "any wiops=9", "*", text(LimitKey::Peak, " wiops=9")),
            ("io.max", "8:16 wbps=1", "8:16", text(LimitKey::Max, " wbps=1")),
            ("io.weight", "10000", "-", Setting::Weight(Weight::new(10_000).unwrap())),
            ("io.weight", " default 200\n", "-", Setting::Weight(Weight::new(200).unwrap())),
            ("io.weight", "8:0 200", "8:0", Setting::Weight(Weight::new(200).unwrap())),
            ("io.weight", "disk0 200", "disk0", Setting::Weight(Weight::new(200).unwrap())),
            ("io.weight", "* 200", "*", Setting::Weight(Weight::new(200).unwrap())),
            ("io.limiter", "token", "-", Setting::Limiter(LimiterKind::Token)),
            ("io.bfq.weight", "7", "-", Setting::Weight(Weight::new(7).unwrap())),
            ("io.prio.class", "idle", "-", Setting::PrioClass(PrioClass::Idle)),
            ("io.bfq.low_latency", "never", "-", Setting::LowLatency(Some(LowLatency::Never))),
            ("io.bfq.low_latency", "inherit", "-", Setting::LowLatency(None)),
            ("io.watermark", " 90", "-", Setting::Watermark(parse_watermark("90").ok())),
            ("io.watermark", "inherit", "-", Setting::Watermark(None)),
            ("io.scheduler", " bfq", "-", Setting::Scheduler(SchedulerKind::Bfq)),
            ("io.bfq", "slice_idle=0 stable_late=1", "-", bfq("slice_idle=0 stable_late=1")),
            ("io.bfq", "* low_latency=0", "*", bfq(" low_latency=0")),
            ("io.bfq", "disk0 stable=off stable_late=1", "disk0", bfq(" stable=off stable_late=1")),
            ("io.depth", "4096", "-", Setting::Depth(NonZeroU32::new(4096).unwrap())),
        ] {
            assert_eq!(read(key, value), Ok((which.to_owned(), setting)), "{key} {value}");
        }
    }

    #[test]
    fn refusals_say_what_would_be_right() {
        for (key, value, refusal) in [
            ("io.mx", "", "key: unknown key \"io.mx\" (did you mean `io.max`?)"),
            ("io.max", "", "io.max: no device is named (for example \"disk0 rbps=4M riops=100\")"),
            (
                "io.max",
                "disk0 ",
                "io.max: nothing is said about \"disk0\" (for example \"riops=100\")",
            ),
            (
                "io.max",
                "riops=0",
                "io.max: riops = 0: allowed are 1 to 4294967294 and max (for no limit write \"riops=max\"; the smallest limit is \"riops=1\")",
            ),
            (
                "io.max",
                "max",
                "io.max: \"max\" of what? (to remove every limit write \"rbps=max wbps=max riops=max wiops=max rwbps=max rwiops=max\")",
            ),
            (
                "io.weight",
                "10001",
                "io.weight: weight 10001 is not between 1 and 10000 (only ratios among siblings count: divide all of them by the same number)",
            ),
            (
                "io.bfq.weight",
                "1001",
                "io.bfq.weight: weight 1001 is not between 1 and 1000 (`io.weight` takes 1 to 10000, on the same scale)",
            ),
            (
                "io.weight",
                "-1",
                "io.weight: \"-1\" is no weight (write a whole number, \"default 200\" or \"DEVICE 200\"; unset it is 100)",
            ),
            (
                "io.weight",
                "8:0 default",
                "io.weight: a server at work knows no other weight to go back to (write the number: \"default 100\", or a device and a number)",
            ),
            (
                "io.limiter",
                "pase",
                "io.limiter: there is no limiter \"pase\" (did you mean \"pace\"?)",
            ),
            (
                "io.scheduler",
                "cfq",
                "io.scheduler: there is no scheduler \"cfq\" (available: none, bfq)",
            ),
            (
                "io.watermark",
                "101 mode=gate",
                "io.watermark: 101 percent: allowed are 0 (limits always bind) to 100 (write 90 for limits that bind when the device is busy 90 % of the time)",
            ),
            (
                "io.prio.class",
                "rt",
                "io.prio.class: there is no class \"rt\" (available: no-change, promote-to-rt, restrict-to-be, idle)",
            ),
            (
                "io.bfq.low_latency",
                "0",
                "io.bfq.low_latency: there is no policy \"0\" (available: auto, never, interactive, inherit)",
            ),
            (
                "io.bfq",
                "disk0 slice_idle=-1",
                "io.bfq: slice_idle = -1: allowed are 0 to 10s; a plain number is milliseconds (what is usual: \"slice_idle=8ms\")",
            ),
            (
                "io.bfq",
                "slice_idel=8",
                "io.bfq: bfq has no setting \"slice_idel\" (did you mean `slice_idle`?)",
            ),
            (
                "io.bfq",
                "disk0 ",
                "io.bfq: nothing is said about \"disk0\" (for example \"slice_idle=0\")",
            ),
            (
                "io.depth",
                "0",
                "io.depth: \"0\" is no depth: allowed are 1 to 4096 (what is usual: 32)",
            ),
        ] {
            assert_eq!(read(key, value), Err(refusal.to_owned()), "{key} {value}");
        }
    }
}
