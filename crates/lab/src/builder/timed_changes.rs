//! Timed changes of a scenario: `at=5s max=/vm1 rbps=4M`.

use weir_units::Nanos;
use weir_units::nearest;

use super::settings::{bfq_error, time};
use super::{BuildError, ScenarioBuilder, SettingError};
use crate::scenario::{CgroupSetting, Change, TimedChange};

/// Settings that may change, besides `bfq.KEY`: all that `weir set` changes in a running server.
const CHANGEABLE: [&str; 11] = [
    "max",
    "burst",
    "peak",
    "weight",
    "limiter",
    "watermark",
    "scheduler",
    "bfq",
    "depth",
    "prio-class",
    "low-latency",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TimedSetting {
    at_ns: u64,
    key: String,
    value: String,
}

impl TimedSetting {
    fn text(&self) -> String {
        format!("{}={}", self.key, self.value)
    }

    fn blame(&self, error: &SettingError) -> SettingError {
        let reason = format!("{}, {}: {}", Nanos(self.at_ns), self.text(), error.reason);
        SettingError::new("at", reason, error.hint.clone())
    }
}

impl ScenarioBuilder {
    /// Adds `TIME KEY=VALUE`. Unlike other settings, it replaces none.
    pub(super) fn set_at(&mut self, text: &str) -> Result<(), SettingError> {
        let form = || "for example \"5s max=/vm1 rbps=4M\" or \"5s bfq.slice_idle=0\"".to_owned();
        let refuse = |reason: String| SettingError::new("at", reason, form());
        let (at, setting) = text
            .split_once(char::is_whitespace)
            .ok_or_else(|| refuse(format!("{text:?} is not TIME KEY=VALUE")))?;
        let at_ns = time("at", at)?;
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| refuse(format!("{setting:?} is not KEY=VALUE")))?;
        let (key, value) = (key.trim(), value.trim());
        if !CHANGEABLE.contains(&key) && !key.starts_with("bfq.") {
            let hint = match nearest(key, CHANGEABLE) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("these can: {}, bfq.KEY", CHANGEABLE.join(", ")),
            };
            let reason = format!("{key:?} cannot change while a run goes on");
            return Err(SettingError::new("at", reason, hint));
        }
        let timed = TimedSetting { at_ns, key: key.into(), value: value.into() };
        // Together with earlier changes it is checked when all are known.
        self.clone().set(key, value).map_err(|error| {
            SettingError::new("at", format!("{}: {}", error.key, error.reason), error.hint)
        })?;
        self.timed_changes.push(timed);
        Ok(())
    }

    /// Changes in order of time, then in the order given. Each builds on all settings before.
    pub(super) fn timed_changes(&self) -> Result<Vec<TimedChange>, BuildError> {
        let mut timed: Vec<&TimedSetting> = self.timed_changes.iter().collect();
        timed.sort_by_key(|timed| timed.at_ns);
        let mut builder = ScenarioBuilder { timed_changes: Vec::new(), ..self.clone() };
        let mut before = builder.settled()?;
        let mut timed_changes = Vec::with_capacity(timed.len());
        for timed in timed {
            let blame = |error: SettingError| timed.blame(&error);
            builder.set(&timed.key, &timed.value).map_err(blame)?;
            let after = builder.settled().map_err(blame)?;
            let changes = after.since(&before);
            timed_changes.push(TimedChange { at_ns: timed.at_ns, text: timed.text(), changes });
            before = after;
        }
        Ok(timed_changes)
    }

    fn settled(&self) -> Result<Settled, SettingError> {
        let bfq = self.bfq.finish().map_err(|error| bfq_error("bfq", &error))?;
        let engine = weir_engine::Config { bfq, ..self.engine };
        Ok(Settled { engine, cgroups: self.cgroup_settings()? })
    }
}

/// All settings that may change during a run.
struct Settled {
    engine: weir_engine::Config,
    cgroups: Vec<CgroupSetting>,
}

impl Settled {
    /// Changes from `before`. Only differences, for a limiter begins anew when it is given its limits again.
    fn since(&self, before: &Settled) -> Vec<Change> {
        let mut changes = Vec::new();
        let (old, new) = (&before.engine, &self.engine);
        if old.depth != new.depth {
            changes.push(Change::Depth(new.depth));
        }
        if old.bfq != new.bfq {
            changes.push(Change::Bfq(new.bfq));
        }
        if old.scheduler != new.scheduler {
            changes.push(Change::Scheduler(new.scheduler));
        }
        for cgroup in &self.cgroups {
            let old = before.cgroups.iter().find(|old| old.path == cgroup.path);
            let fresh = CgroupSetting::untouched(cgroup.path.clone());
            changes.extend(cgroup.since(old.unwrap_or(&fresh)));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_engine::SchedulerKind;

    use super::super::Source;
    use super::*;

    fn builder() -> ScenarioBuilder {
        let text = b"[a]\nsize=1m\n".to_vec();
        ScenarioBuilder::new("x", Source::Jobs { name: "x.fio".into(), text, env: BTreeMap::new() })
    }

    fn timed_changes(settings: &[(&str, &str)]) -> Result<Vec<TimedChange>, BuildError> {
        let mut builder = builder();
        for (key, value) in settings {
            builder.set(key, value)?;
        }
        Ok(builder.build()?.timed_changes)
    }

    #[test]
    fn a_timed_change_has_only_differences() {
        let timed = timed_changes(&[
            ("at", "5s max=/a riops=100"),
            ("at", "2s scheduler=bfq"),
            ("max", "/a rbps=1M"),
            ("at", "5s  weight = /a 300"),
            ("at", "7s max=/a riops=max"),
            ("at", "8s bfq.slice_idle=0"),
            ("at", "8s bfq=slice_idle=0 low_latency=0"),
            ("at", "9s depth=32"),
        ])
        .unwrap();
        let told: Vec<(u64, &str, usize)> = timed
            .iter()
            .map(|change| (change.at_ns / 1_000_000_000, &*change.text, change.changes.len()))
            .collect();
        assert_eq!(
            told,
            [
                (2, "scheduler=bfq", 1),
                (5, "max=/a riops=100", 1),
                (5, "weight=/a 300", 1),
                (7, "max=/a riops=max", 1),
                (8, "bfq.slice_idle=0", 1),
                (8, "bfq=slice_idle=0 low_latency=0", 1),
                (9, "depth=32", 0),
            ]
        );
        assert_eq!(timed[0].changes, [Change::Scheduler(SchedulerKind::Bfq)]);
        // The limit in bytes stays, which is not named.
        let Change::Limits(path, limits) = &timed[1].changes[0] else { panic!("{timed:?}") };
        assert_eq!(path.to_string(), "/a");
        assert_eq!(limits.max.to_string(), "rbps=1048576 wbps=max riops=100 wiops=max");
    }

    #[test]
    fn what_is_wrong_says_what_would_be_right() {
        for (value, message, hint) in [
            (
                "5s",
                "at: \"5s\" is not TIME KEY=VALUE",
                Some("for example \"5s max=/vm1 rbps=4M\" or \"5s bfq.slice_idle=0\""),
            ),
            (
                "5s /vm1 io.max",
                "at: \"/vm1 io.max\" is not KEY=VALUE",
                Some("for example \"5s max=/vm1 rbps=4M\" or \"5s bfq.slice_idle=0\""),
            ),
            (
                "5s sheduler=bfq",
                "at: \"sheduler\" cannot change while a run goes on",
                Some("did you mean `scheduler`?"),
            ),
            (
                "5s seed=7",
                "at: \"seed\" cannot change while a run goes on",
                Some(
                    "these can: max, burst, peak, weight, limiter, watermark, scheduler, bfq, depth, prio-class, low-latency, bfq.KEY",
                ),
            ),
            ("5s depth=0", "at: depth: \"0\" is no number from 1 to 4096", None),
            (
                "1ms bfq.slice_idel=0",
                "at: bfq.slice_idel: bfq has no setting \"slice_idel\"",
                Some("did you mean `slice_idle`?"),
            ),
        ] {
            let error = builder().set("at", value).unwrap_err();
            assert_eq!((error.to_string().as_str(), error.hint.as_deref()), (message, hint));
        }
        // A burst of what is not limited by then.
        let error = timed_changes(&[
            ("max", "/a riops=9"),
            ("burst", "/a riops=3"),
            ("at", "1s max=/a riops=max"),
        ]);
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("at: 1 s, max=/a riops=max: of cgroup /a: "), "{error}");
    }
}
