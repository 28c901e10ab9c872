//! Settings of a scenario by name, with the values that each takes.

use std::num::NonZeroU32;

use thiserror::Error;
use weir_engine::settings::{LowLatency, PrioClass};
use weir_engine::{LimiterKind, Limits, Path, PerDimension, SchedulerKind};
use weir_text::{
    BfqError, DeviceRef, LimitKey, WeightKey, parse_limits, parse_watermark, parse_weight,
};
use weir_units::nearest;
use weir_units::{Bytes, Nanos};

use super::{ScenarioBuilder, Source};
use crate::scenario::{CgroupVersion, Home, PathDelay, Timing};

/// All settings of [`ScenarioBuilder::set`]: name, value, effect.
pub const SETTINGS: &[(&str, &str, &str)] = &[
    ("disk", "SPEC", "the disk: a model and what differs from it (hdd7200; null,latency=10us)"),
    ("depth", "N", "requests that may be at the disk at once, 1 to 4096"),
    ("scheduler", "none|bfq", "who chooses the next request for the disk"),
    ("bfq", "KEY=VALUE ...", "how the scheduler bfq does (slice_idle=0 merge_window=off)"),
    ("bfq.KEY", "VALUE", "one of its settings (bfq.merge_window=unlimited)"),
    ("limiter", "pace|slice|token|leaky", "how limits are enforced (pace; slice:6.12,hz=1000)"),
    ("kernel", "VERSION", "with limiter slice: as this Linux kernel does it (6.12)"),
    (
        "max",
        "[/CGROUP] LIMITS",
        "io.max of a cgroup, without a path of all jobs together that name none (/vm1 rbps=4M)",
    ),
    ("burst", "[/CGROUP] AMOUNTS", "io.burst, likewise (riops=8)"),
    ("peak", "[/CGROUP] RATES", "io.peak, likewise"),
    ("weight", "[/CGROUP] N", "io.weight, 1 to 10000"),
    (
        "prio-class",
        "[/CGROUP] CLASS",
        "io.prio.class: no-change, promote-to-rt, restrict-to-be or idle; counts with the scheduler bfq",
    ),
    (
        "low-latency",
        "[/CGROUP] POLICY",
        "io.bfq.low_latency: whose weight the scheduler bfq may raise: auto, never or interactive",
    ),
    (
        "watermark",
        "[/CGROUP] PERCENT ...",
        "io.watermark: the disk's utilisation from which on limits bind, without a path for all (90 mode=gate)",
    ),
    (
        "govern",
        "[/CGROUP] PERCENT ...",
        "limits of a kernel, raised by a governor while the disk is used less, as `weir govern` does (90 mode=gate)",
    ),
    (
        "cgroup-version",
        "1|2",
        "with govern: what the kernel counts, and how limits are written (2)",
    ),
    (
        "home",
        "/CGROUP|per-job",
        "the cgroup of jobs that name none; per-job: each name has its own",
    ),
    (
        "at",
        "TIME KEY=VALUE",
        "a setting that counts from then on: limits, weights, limiter, watermark, scheduler, bfq, depth (5s max=/vm1 rbps=4M)",
    ),
    ("seed", "N", "what all random choices come from"),
    (
        "forks",
        "JOB",
        "a job of which each loop, or pass of time_based, is made by a new child process; may be given for several",
    ),
    ("stop-after", "TIME", "end then, in virtual time, whatever is under way (60s)"),
    ("memory", "SIZE", "the page cache; dirty limits follow it as they do in Linux"),
    (
        "dirty-each",
        "SIZE",
        "dirty bytes of one cgroup at which its writers wait, as with Linux's memory cgroups; 0 for no such limit",
    ),
    ("flusher-depth", "N", "requests that the page cache writes back at a time (64)"),
    ("pause-late", "TIME", "a pause of a process ends so much later than asked, as sleeping does"),
    ("hiccup", "TIME", "one pause in ten, by chance, is longer by this"),
    ("timer-late", "TIME", "the limiter's timer rings so much later than asked"),
    (
        "way",
        "TIME[,TIME]",
        "a request takes so much longer than engine and disk do: sockets, wake-ups; of several, one by chance",
    ),
    (
        "way-each",
        "TIME",
        "so much of the way is for one request at a time, as in a server of one thread",
    ),
    ("fio.OPTION", "VALUE", "an option of every job, whatever the file says (fio.iodepth=8)"),
    (
        "trace.format",
        "FORMAT",
        "what a trace is, if its looks do not tell (msr, blkparse, ...), or its columns (csv:time_us=6,op=4,lba512=5,bytes=2)",
    ),
    ("trace.device", "NAME", "only the trace's requests of this device, volume or file"),
    (
        "trace.timing",
        "original|asap|N%",
        "a trace's requests at its times, as fast as they can, or at N % of its speed",
    ),
    ("trace.depth", "N", "with trace.timing=asap: requests of a stream in flight at most"),
    ("trace.repeat", "N", "replay a trace so often, one after the other"),
];

/// Whether several values of a setting count together: for different cgroups, dimensions, keys, jobs or times. Else a
/// later value replaces an earlier one.
pub fn adds_up(name: &str) -> bool {
    let forms = SETTINGS.iter().filter(|(of, ..)| *of == name).map(|(_, form, _)| *form);
    forms.into_iter().any(|form| {
        form.starts_with("[/CGROUP]") || matches!(form, "KEY=VALUE ..." | "TIME KEY=VALUE" | "JOB")
    })
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key}: {reason}")]
pub struct SettingError {
    /// Its name.
    pub key: String,
    /// What is wrong.
    pub reason: String,
    /// How to mend it.
    pub hint: Option<String>,
}

impl SettingError {
    pub(super) fn new(
        key: &str,
        reason: impl ToString,
        hint: impl Into<Option<String>>,
    ) -> SettingError {
        SettingError { key: key.into(), reason: reason.to_string(), hint: hint.into() }
    }
}

impl ScenarioBuilder {
    /// Sets one of [`SETTINGS`]. A later value for the same name, and cgroup, replaces it, but for `at`.
    ///
    /// # Errors
    /// An unknown name, or an invalid value; nothing has changed then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let value = value.trim();
        match key {
            "disk" => {
                let line = value.strip_prefix("emulated:").unwrap_or(value);
                self.disk = line.parse().map_err(|error: weir_disk::SpecError| {
                    SettingError::new(key, &error, error.problem.hint())
                })?;
            }
            "depth" => {
                let depth = value.parse().ok().filter(|depth: &NonZeroU32| depth.get() <= 4096);
                self.engine.depth = depth
                    .ok_or_else(|| SettingError::new(key, not_from(value, "1 to 4096"), None))?;
            }
            "scheduler" => {
                self.engine.scheduler = SchedulerKind::from_name(value).ok_or_else(|| {
                    let hint = "available: none, bfq".to_owned();
                    SettingError::new(key, format!("there is no scheduler {value:?}"), hint)
                })?;
            }
            "bfq" => {
                let mut edit = self.bfq;
                for word in value.split_ascii_whitespace() {
                    let (name, value) = word.split_once('=').ok_or_else(|| {
                        let hint = "for example \"slice_idle=0 low_latency=0\"".to_owned();
                        SettingError::new(key, format!("{word:?} is not KEY=VALUE"), hint)
                    })?;
                    edit.set(name, value).map_err(|error| bfq_error(key, &error))?;
                }
                self.bfq = edit;
            }
            "limiter" => self.limiter = Some(read_limiter(key, value)?),
            "kernel" => {
                read_limiter(key, &format!("slice:{value}"))?;
                self.kernel = Some(value.into());
            }
            "max" | "burst" | "peak" => self.limit(key, value)?,
            "weight" => {
                let (path, text) = self.split(key, value)?;
                let line = parse_weight(WeightKey::Io, text)
                    .map_err(|error| SettingError::new(key, &error, error.hint().to_owned()))?;
                if line.device.is_some() {
                    return Err(of_a_device(key, text));
                }
                self.cgroup(path).weight = line.weight;
            }
            "prio-class" => {
                let (path, name) = self.split(key, value)?;
                let class = PrioClass::from_name(name).ok_or_else(|| {
                    let names = PrioClass::ALL.map(PrioClass::name);
                    let hint = match nearest(name, names) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("available: {}", names.join(", ")),
                    };
                    SettingError::new(key, format!("there is no class {name:?}"), hint)
                })?;
                self.cgroup(path).prio_class = Some(class);
            }
            "low-latency" => {
                let (path, name) = self.split(key, value)?;
                let policy = LowLatency::from_name(name).ok_or_else(|| {
                    let names = LowLatency::ALL.map(LowLatency::name).join(", ");
                    let reason = format!("there is no policy {name:?}");
                    SettingError::new(key, reason, format!("available: {names}"))
                })?;
                self.cgroup(path).low_latency = Some(policy);
            }
            "watermark" => {
                let (path, text) = match value.starts_with('/') {
                    true => self.split(key, value)?,
                    false => (path(key, "/")?, value),
                };
                let watermark = parse_watermark(text);
                let watermark =
                    watermark.map_err(|error| SettingError::new(key, &error, error.hint()))?;
                self.cgroup(path).watermark = Some(watermark);
            }
            "govern" => {
                let (path, text) = match value.starts_with('/') {
                    true => {
                        let (path, text) = self.split(key, value)?;
                        (Some(path), text)
                    }
                    false => (None, value),
                };
                let watermark = parse_watermark(text);
                let watermark =
                    watermark.map_err(|error| SettingError::new(key, &error, error.hint()))?;
                match path {
                    None => self.govern = Some(watermark),
                    Some(path) => {
                        self.govern_below.insert(path.to_string(), (path, watermark));
                    }
                }
            }
            "cgroup-version" => {
                self.cgroup_version = match value {
                    "1" => CgroupVersion::V1,
                    "2" => CgroupVersion::V2,
                    _ => {
                        let reason = format!("there is no version {value:?} of cgroups");
                        return Err(SettingError::new(key, reason, "write 1 or 2".to_owned()));
                    }
                };
            }
            "at" => self.set_at(value)?,
            "home" if value == "per-job" => self.home = Home::PerJob,
            "home" => self.home = Home::Shared(path(key, value)?),
            "seed" => {
                self.seed = value.parse().map_err(|_| {
                    SettingError::new(key, not_from(value, &format!("0 to {}", u64::MAX)), None)
                })?;
            }
            "stop-after" => {
                let until_ns = time(key, value)?;
                if until_ns == 0 {
                    let hint = "for example 60s".to_owned();
                    return Err(SettingError::new(key, "nothing happens in no time", hint));
                }
                self.until_ns = Some(until_ns);
            }
            "forks" if matches!(self.source, Source::Trace(_)) => {
                return Err(SettingError::new(key, "a trace has no jobs", None));
            }
            "forks" => {
                self.forks.retain(|name| name != value);
                self.forks.push(value.into());
            }
            "memory" => {
                let weir_pagecache::Settings { dirty_owner_bytes, flusher_depth, .. } = self.cache;
                let memory = weir_pagecache::Settings::for_memory(size(key, value)?);
                self.cache =
                    weir_pagecache::Settings { dirty_owner_bytes, flusher_depth, ..memory };
            }
            "dirty-each" => self.cache.dirty_owner_bytes = size(key, value)?,
            "flusher-depth" => {
                let depth = value.parse().ok().filter(|depth| (1..=65_536).contains(depth));
                self.cache.flusher_depth = depth
                    .ok_or_else(|| SettingError::new(key, not_from(value, "1 to 65536"), None))?;
            }
            "pause-late" => self.machine.pause_late_ns = time(key, value)?,
            "hiccup" => self.machine.hiccup_ns = time(key, value)?,
            "timer-late" => self.machine.timer_late_ns = time(key, value)?,
            "way" => {
                let times = value.split(',').map(|value| time(key, value.trim()));
                let times = times.collect::<Result<Vec<_>, _>>()?;
                if times.len() > PathDelay::TIMES_MAX {
                    let reason = format!("{} times, at most {}", times.len(), PathDelay::TIMES_MAX);
                    return Err(SettingError::new(key, reason, None));
                }
                self.path_delay.times_ns = times;
            }
            "way-each" => self.path_delay.each_ns = time(key, value)?,
            _ if key.starts_with("trace.") => self.trace(key, value)?,
            _ if key.starts_with("bfq.") => {
                self.bfq
                    .set(&key["bfq.".len()..], value)
                    .map_err(|error| bfq_error(key, &error))?;
            }
            _ if key.starts_with("fio.") => {
                let option = (key["fio.".len()..].trim().to_owned(), value.to_owned());
                self.besides.retain(|(key, _)| *key != option.0);
                self.besides.push(option);
            }
            _ => {
                let hint = match nearest(key, SETTINGS.iter().map(|(name, ..)| *name)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        let names: Vec<&str> = SETTINGS.iter().map(|(name, ..)| *name).collect();
                        format!("known: {}", names.join(", "))
                    }
                };
                return Err(SettingError::new(key, "there is no such setting", hint));
            }
        }
        Ok(())
    }

    fn trace(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let Source::Trace(trace) = &mut self.source else {
            let hint =
                "a trace's name ends in .csv, .trace, .iolog, .blkparse, .gz or .zst".to_owned();
            return Err(SettingError::new(key, "what is run is no trace", hint));
        };
        let number = |least: u32| {
            value.parse().ok().filter(|&number: &u32| number >= least).ok_or_else(|| {
                SettingError::new(key, format!("{value:?} is no number from {least} on"), None)
            })
        };
        match key {
            "trace.format" => {
                let format: weir_trace::Format =
                    value.parse().map_err(|error| SettingError::new(key, error, None))?;
                trace.format = Some(format);
            }
            "trace.device" if value.is_empty() => {
                let hint = "for example trace.device=8,0".to_owned();
                return Err(SettingError::new(key, "no device is named", hint));
            }
            "trace.device" => trace.device = Some(value.to_owned()),
            "trace.timing" => {
                let percent = value.strip_suffix('%').map(|number| number.trim().parse::<u32>());
                trace.timing = match (value, percent) {
                    ("original", _) => Timing::Original,
                    ("asap", _) => Timing::Asap,
                    (_, Some(Ok(percent @ 1..))) => Timing::Percent(percent),
                    _ => {
                        let hint = "write original, asap, or a speed such as 200%".to_owned();
                        let reason = format!("there is no timing {value:?}");
                        return Err(SettingError::new(key, reason, hint));
                    }
                };
            }
            "trace.depth" => trace.depth = number(1)?,
            "trace.repeat" => trace.repeat = number(1)?,
            _ => {
                let hint =
                    "known: trace.format, trace.device, trace.timing, trace.depth, trace.repeat"
                        .to_owned();
                return Err(SettingError::new(key, "there is no such setting", hint));
            }
        }
        Ok(())
    }

    fn limit(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let (path, words) = self.split(key, value)?;
        let kind = match key {
            "max" => LimitKey::Max,
            "burst" => LimitKey::Burst,
            _ => LimitKey::Peak,
        };
        let read = |old: PerDimension| {
            parse_limits(kind, words, old).map_err(|error| {
                // A word before the limits is a cgroup without its slash, or a device of a line for `io.max`.
                match words.split_once(char::is_whitespace) {
                    // Not with blanks around the sign: "rbps = 4M".
                    Some((first, rest))
                        if !first.contains('=')
                            && rest.trim_start().find('=').is_some_and(|at| at > 0) =>
                    {
                        match DeviceRef::parse(first) {
                            Some(DeviceRef::Name(_)) | None => {
                                let hint = format!(
                                    "a cgroup begins with a slash: \"/{first} {}\"",
                                    rest.trim()
                                );
                                SettingError::new(key, &error, hint)
                            }
                            Some(_) => of_a_device(key, words),
                        }
                    }
                    _ => SettingError::new(key, &error, error.hint()),
                }
            })
        };
        if words.is_empty() {
            let hint = "for example `rbps=4M riops=100`".to_owned();
            return Err(SettingError::new(key, "no limit is given", hint));
        }
        let known = self.cgroups.get(&path.to_string());
        let mut limits = known.map_or_else(Limits::default, |cgroup| cgroup.setting.limits);
        let at = match kind {
            LimitKey::Max => &mut limits.max,
            LimitKey::Burst => &mut limits.burst,
            LimitKey::Peak => &mut limits.peak,
        };
        *at = read(*at)?;
        self.cgroup(path).limits = limits;
        Ok(())
    }

    fn split<'a>(&self, key: &str, value: &'a str) -> Result<(Path, &'a str), SettingError> {
        if !value.starts_with('/') {
            return match &self.home {
                Home::Shared(home) => Ok((home.clone(), value)),
                Home::PerJob => {
                    let hint = format!("write `/CGROUP {value}`");
                    Err(SettingError::new(key, "every job has a cgroup of its own: which?", hint))
                }
            };
        }
        let (name, rest) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
        Ok((path(key, name)?, rest.trim_start()))
    }
}

pub(super) fn bfq_error(key: &str, error: &BfqError) -> SettingError {
    SettingError::new(key, error, error.hint())
}

/// A value that begins with a device, as lines of `io.max` and `io.weight` do.
fn of_a_device(key: &str, words: &str) -> SettingError {
    let (device, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let reason = format!("{device:?} names a device, and the lab has one disk");
    SettingError::new(key, reason, format!("leave it out: {:?}", rest.trim()))
}

fn not_from(value: &str, range: &str) -> String {
    format!("{value:?} is no number from {range}")
}

pub(super) fn path(key: &str, text: &str) -> Result<Path, SettingError> {
    Path::parse(text).map_err(|error| {
        SettingError::new(
            key,
            format!("cgroup {text:?}: {error}"),
            "for example `/vm1/db`".to_owned(),
        )
    })
}

pub(super) fn read_limiter(key: &str, value: &str) -> Result<LimiterKind, SettingError> {
    weir_config::parse_limiter(value).map_err(|errors| {
        let first = errors.errors().first();
        let reason = first.map(|error| error.message.clone()).unwrap_or_default();
        SettingError::new(key, reason, first.and_then(|error| error.hint.clone()))
    })
}

pub(super) fn time(key: &str, value: &str) -> Result<u64, SettingError> {
    // Zero needs no unit.
    if value.trim() == "0" {
        return Ok(0);
    }
    let Nanos(time) = value
        .parse()
        .map_err(|error: weir_units::UnitError| SettingError::new(key, &error, error.hint()))?;
    Ok(time)
}

fn size(key: &str, value: &str) -> Result<u64, SettingError> {
    let Bytes(size) = value
        .parse()
        .map_err(|error: weir_units::UnitError| SettingError::new(key, &error, error.hint()))?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::BuildError;
    use super::*;

    fn builder() -> ScenarioBuilder {
        let text = b"[a]\nsize=1m\n[b]\nsize=1m\n".to_vec();
        ScenarioBuilder::new("x", Source::Jobs { name: "x.fio".into(), text, env: BTreeMap::new() })
    }

    #[test]
    fn what_is_wrong_says_what_would_be_right() {
        for (key, value, message, hint) in [
            (
                "weight",
                "heavy",
                "weight: \"heavy\" is no weight",
                "write a whole number, \"default 200\" or \"DEVICE 200\"; unset it is 100",
            ),
            (
                "weight",
                "/a 8:0 200",
                "weight: \"8:0\" names a device, and the lab has one disk",
                "leave it out: \"200\"",
            ),
            (
                "max",
                "8:16 rbps=4M",
                "max: \"8:16\" names a device, and the lab has one disk",
                "leave it out: \"rbps=4M\"",
            ),
            ("stop-after", "0s", "stop-after: nothing happens in no time", "for example 60s"),
            ("kernal", "6.12", "kernal: there is no such setting", "did you mean `kernel`?"),
            (
                "bfq",
                "slice_idle",
                "bfq: \"slice_idle\" is not KEY=VALUE",
                "for example \"slice_idle=0 low_latency=0\"",
            ),
            (
                "low-latency",
                "/a ever",
                "low-latency: there is no policy \"ever\"",
                "available: auto, never, interactive",
            ),
            (
                "bfq.slice_idel",
                "1",
                "bfq.slice_idel: bfq has no setting \"slice_idel\"",
                "did you mean `slice_idle`?",
            ),
            (
                "bfq.low_latency",
                "2",
                "bfq.low_latency: low_latency = 2: allowed are 0 and 1",
                "what is usual: \"low_latency=1\"",
            ),
            (
                "max",
                "vm1 riops=100",
                "max: \"vm1\" is not KEY=VALUE: allowed keys are rbps, wbps, riops, wiops, rwbps and rwiops",
                "a cgroup begins with a slash: \"/vm1 riops=100\"",
            ),
        ] {
            let error = builder().set(key, value).unwrap_err();
            assert_eq!(
                (error.to_string().as_str(), error.hint.as_deref()),
                (message, Some(hint).filter(|hint| !hint.is_empty()))
            );
        }
    }

    #[test]
    fn a_time_of_zero_needs_no_unit() {
        for key in ["way", "way-each", "pause-late", "hiccup", "timer-late", "dirty-each"] {
            builder().set(key, "0").unwrap_or_else(|error| panic!("{error}"));
        }
        assert!(builder().set("way", "5").is_err());
    }

    #[test]
    fn times_of_bfq_may_be_given_one_by_one() {
        let mut builder = builder();
        builder.set("bfq.stable", "intent").unwrap();
        builder.set("bfq.stable_create_window", "700").unwrap();
        let BuildError::Setting(error) = builder.build().unwrap_err() else {
            panic!("an error of the file");
        };
        assert!(error.to_string().starts_with("bfq: stable_create_window of 700ms"), "{error}");
        builder.set("bfq", "stable_anchor_life=700 slice_idle=0").unwrap();
        let bfq = builder.build().unwrap().engine.bfq;
        assert_eq!(bfq.slice_idle().as_nanos(), 0);
        assert_eq!(bfq.merging().stable, "700/700/600".parse().ok());
    }

    #[test]
    fn an_error_in_an_option_for_all_jobs_names_the_setting() {
        let mut builder = builder();
        builder.set("fio.rw", "read").unwrap();
        builder.set("fio.iodepht", "8").unwrap();
        let BuildError::Setting(error) = builder.build().unwrap_err() else {
            panic!("an error of the file");
        };
        assert_eq!(error.to_string(), "fio.iodepht: unknown option \"iodepht\"");
        assert_eq!(error.hint.as_deref(), Some("did you mean \"iodepth\"?"));
    }
}
