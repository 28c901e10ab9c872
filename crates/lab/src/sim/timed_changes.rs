//! Timed changes: settings that change during a run.

use weir_engine::{CgroupId, Change as Command, Engine, Instant, Path};
use weir_units::Nanos;

use super::calendar::{Calendar, Planned};
use super::world::World;
use crate::results::Changed;
use crate::scenario::{CgroupSetting, Change, Scenario, ScenarioError, TimedChange};

/// All changes of a run, and how many were made.
pub(super) struct TimedChanges {
    all: Vec<TimedChange>,
    done: usize,
}

impl TimedChanges {
    /// Plans all of them. Tries each on an engine without requests, so that none is refused in the middle of a run.
    ///
    /// # Errors
    /// What the engine refuses.
    pub(super) fn new(
        scenario: &Scenario,
        calendar: &mut Calendar,
    ) -> Result<TimedChanges, ScenarioError> {
        let mut engine = Engine::new(scenario.engine, Instant::ZERO);
        for setting in &scenario.cgroups {
            set_up(&mut engine, setting)?;
        }
        for (index, change) in scenario.timed_changes.iter().enumerate() {
            let (at_ns, text) = (change.at_ns, &change.text);
            apply(&mut engine, Instant::from_nanos(at_ns), change)
                .map_err(|reason| ScenarioError::Change { at_ns, setting: text.clone(), reason })?;
            calendar.plan(at_ns, Planned::Change(index as u32));
        }
        Ok(TimedChanges { all: scenario.timed_changes.clone(), done: 0 })
    }

    /// The changes that were made, and a note on each that came after the end.
    pub(super) fn finish(self) -> (Vec<Changed>, Vec<String>) {
        let (done, left) = self.all.split_at(self.done);
        let changed =
            |change: &TimedChange| Changed { at_ns: change.at_ns, setting: change.text.clone() };
        let missed = |change: &TimedChange| {
            let at = Nanos(change.at_ns).rounded();
            format!("`{}` was to be set at {at}: the run was over before", change.text)
        };
        (done.iter().map(changed).collect(), left.iter().map(missed).collect())
    }
}

impl World {
    pub(super) fn change(&mut self, index: u32) {
        let now = Instant::from_nanos(self.now_ns);
        let change = &self.timed_changes.all[index as usize];
        apply(&mut self.engine, now, change).expect("it was tried before");
        if let Some(governing) = &mut self.device.governing {
            for change in &change.changes {
                if let Change::Limits(path, limits) = change {
                    governing.adopt(path, *limits);
                }
            }
        }
        self.timed_changes.done += 1;
    }
}

pub(super) fn set_up(engine: &mut Engine, setting: &CgroupSetting) -> Result<(), ScenarioError> {
    let refuse = |reason| ScenarioError::Cgroup { path: setting.path.to_string(), reason };
    find(engine, &setting.path).map_err(refuse)?;
    let fresh = CgroupSetting::untouched(setting.path.clone());
    let mut changes = setting.since(&fresh).into_iter();
    changes.try_for_each(|change| make(engine, Instant::ZERO, &change)).map_err(refuse)
}

fn apply(engine: &mut Engine, now: Instant, timed: &TimedChange) -> Result<(), String> {
    timed.changes.iter().try_for_each(|change| make(engine, now, change))
}

fn make(engine: &mut Engine, now: Instant, change: &Change) -> Result<(), String> {
    let command = match change {
        Change::Limits(path, limits) => {
            Command::SetLimits { cgroup: find(engine, path)?, limits: *limits }
        }
        Change::Weight(path, weight) => {
            Command::SetWeight { cgroup: find(engine, path)?, weight: *weight }
        }
        Change::PrioClass(path, prio_class) => {
            Command::SetPrioClass { cgroup: find(engine, path)?, prio_class: *prio_class }
        }
        Change::LowLatency(path, low_latency) => {
            Command::SetLowLatency { cgroup: find(engine, path)?, low_latency: *low_latency }
        }
        Change::Watermark(path, watermark) => {
            Command::SetWatermark { cgroup: find(engine, path)?, watermark: *watermark }
        }
        Change::Depth(depth) => Command::SetDepth(*depth),
        Change::Scheduler(kind) => Command::SetScheduler(*kind),
        Change::Bfq(settings) => Command::SetBfq(*settings),
    };
    engine.reconfigure(now, command).map_err(|error| error.to_string())
}

pub(super) fn find(engine: &mut Engine, path: &Path) -> Result<CgroupId, String> {
    engine.ensure_cgroup(path).map_err(|error| error.to_string())
}
