//! Scenario builder: settings by name, as the command line, scenario files and sweeps give them.

mod settings;
mod timed_changes;

use std::borrow::Cow;
use std::collections::BTreeMap;

use thiserror::Error;
use weir_config::{Backend, Config, DeviceModel};
use weir_engine::settings::{BfqSettings, SliceProfile};
use weir_engine::{LimiterKind, Limits, Path, Watermark};
use weir_fio::{self as fio, FioErrors, JobText};
use weir_text::BfqEdit;
use weir_units::{Nanos, nearest};

pub use self::settings::{SETTINGS, SettingError, adds_up};
use self::settings::{bfq_error, path, read_limiter};
use self::timed_changes::TimedSetting;
use crate::scenario::{
    CgroupSetting, CgroupVersion, Govern, Home, Machine, PathDelay, Scenario, Trace, Work,
};

/// Settings so far. Each value is valid by itself.
#[derive(Debug, Clone)]
pub struct ScenarioBuilder {
    title: String,
    source: Source,
    /// `fio.` settings: options of every job besides those of the file.
    besides: Vec<(String, String)>,
    disk: weir_disk::Spec,
    engine: weir_engine::Config,
    /// Edits of `engine.bfq`: times that belong together may be given one by one.
    bfq: BfqEdit,
    /// None is `pace`, and a kernel's under a governor.
    limiter: Option<LimiterKind>,
    kernel: Option<String>,
    home: Home,
    cgroups: BTreeMap<String, Cgroup>,
    seed: u64,
    forks: Vec<String>,
    until_ns: Option<u64>,
    cache: weir_pagecache::Settings,
    machine: Machine,
    path_delay: PathDelay,
    govern: Option<Watermark>,
    /// By path, for it and those below.
    govern_below: BTreeMap<String, (Path, Watermark)>,
    cgroup_version: CgroupVersion,
    /// In the order given.
    timed_changes: Vec<TimedSetting>,
}

/// Source of the requests, as given.
#[derive(Debug, Clone)]
pub enum Source {
    /// A fio job file.
    Jobs {
        /// Its name, for messages.
        name: String,
        /// Its bytes.
        text: Vec<u8>,
        /// Values of its `${VARIABLE}`s.
        env: BTreeMap<String, String>,
    },
    /// A command line of fio, or job files with those that they include.
    Input(fio::Input),
    /// A block trace.
    Trace(Trace),
}

impl Source {
    fn input(&self) -> Option<Cow<'_, fio::Input>> {
        match self {
            Source::Jobs { name, text, env } => {
                let text = JobText::alone(name.as_str(), text.as_slice());
                Some(Cow::Owned(fio::Input::of_file(text, env.clone())))
            }
            Source::Input(input) => Some(Cow::Borrowed(input)),
            Source::Trace(_) => None,
        }
    }
}

/// Why a scenario cannot be built.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum BuildError {
    /// A setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The job file.
    #[error(transparent)]
    Jobs(#[from] FioErrors),
}

/// Settings of a cgroup.
#[derive(Debug, Clone)]
struct Cgroup {
    /// Its limits have no limiter yet.
    setting: CgroupSetting,
    /// Its own limiter, from a configuration; else the builder's.
    limiter: Option<LimiterKind>,
}

impl ScenarioBuilder {
    /// The default cgroup of jobs that name none, as in `weir serve IMAGE`.
    pub const HOME: &'static str = "/main";

    /// `source` on a 7,200 rpm disk, without limits.
    pub fn new(title: impl Into<String>, source: Source) -> ScenarioBuilder {
        ScenarioBuilder {
            title: title.into(),
            source,
            besides: Vec::new(),
            disk: "hdd7200".parse().expect("a preset"),
            engine: weir_engine::Config::default(),
            bfq: BfqEdit::new(BfqSettings::DEFAULT),
            limiter: None,
            kernel: None,
            home: Home::Shared(Path::parse(ScenarioBuilder::HOME).expect("a path")),
            cgroups: BTreeMap::new(),
            seed: 1,
            forks: Vec::new(),
            until_ns: None,
            cache: weir_pagecache::Settings::default(),
            machine: Machine::default(),
            path_delay: PathDelay::default(),
            govern: None,
            govern_below: BTreeMap::new(),
            cgroup_version: CgroupVersion::default(),
            timed_changes: Vec::new(),
        }
    }

    /// Title of reports.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Takes over the cgroups of a server's configuration, with the limits, depth and prices of one of its devices,
    /// and the device itself if it is an emulated one.
    ///
    /// # Errors
    /// There is no device of that name, or there are several and none is named.
    pub fn set_config(
        &mut self,
        config: &Config,
        device: Option<&str>,
    ) -> Result<(), SettingError> {
        let names = || config.devices.iter().map(|device| device.name.as_str());
        let index = match device {
            Some(name) => names().position(|known| known == name).ok_or_else(|| {
                let hint = nearest(name, names()).map(|near| format!("did you mean {near:?}?"));
                SettingError::new(
                    "device",
                    format!("the configuration has no device {name:?}"),
                    hint,
                )
            })?,
            None if config.devices.len() == 1 => 0,
            None => {
                let names: Vec<&str> = names().collect();
                let reason = format!("the configuration has {} devices", names.len());
                let hint = format!("name one of them: {}", names.join(", "));
                return Err(SettingError::new("device", reason, hint));
            }
        };
        let device = &config.devices[index];
        self.engine = device.engine;
        self.bfq = BfqEdit::new(device.engine.bfq);
        if let Backend::Emulated(spec) = &device.backend {
            self.disk = *spec;
        }
        self.cgroup(path("watermark", "/")?).watermark = Some(device.watermark);
        for cgroup in &config.cgroups {
            let limits = cgroup.limits.iter().find(|limits| limits.device == index);
            let Cgroup { setting: at, limiter } = self.cgroup_entry(cgroup.path.clone());
            *limiter = Some(cgroup.limiter);
            at.weight = Some(cgroup.weight_on(index));
            at.prio_class = Some(cgroup.prio_class);
            at.low_latency = cgroup.low_latency;
            at.watermark = cgroup.watermark;
            at.limits = limits.map_or_else(Limits::default, |limits| limits.limits);
        }
        Ok(())
    }

    /// Takes over a measured device: a disk with its prices, and its capacity, so that utilisation is a share of
    /// that.
    pub fn set_model(&mut self, model: &DeviceModel) {
        self.disk = model.disk();
        self.engine.capacity = Some(model.capacity());
    }

    /// Builds the scenario.
    ///
    /// # Errors
    /// Settings that contradict each other; all errors of the job file.
    pub fn build(&self) -> Result<Scenario, BuildError> {
        let work = match &self.source {
            Source::Trace(trace) => Work::Trace(trace.clone()),
            source => {
                let input = source.input().expect("it is no trace");
                let jobs = fio::parse_input(&input, &self.besides);
                Work::Jobs(jobs.map_err(|errors| self.besides_to_blame(errors))?)
            }
        };
        if let Work::Jobs(file) = &work {
            let names = || file.jobs.iter().map(|job| &*job.name);
            if let Some(name) = self.forks.iter().find(|name| !names().any(|known| known == **name))
            {
                let hint = nearest(name, names()).map(|near| format!("did you mean `{near}`?"));
                return Err(
                    SettingError::new("forks", format!("there is no job {name:?}"), hint).into()
                );
            }
        }
        if self.path_delay.each_ns > self.path_delay.mean_ns() {
            let (each, delay) = (Nanos(self.path_delay.each_ns), Nanos(self.path_delay.mean_ns()));
            let reason = format!("{each} of each request, and the way takes {delay}");
            let hint = format!("it is a part of the way: for example `way={each}`");
            return Err(SettingError::new("way-each", reason, hint).into());
        }
        let cgroups = self.cgroup_settings()?;
        let bfq = self.bfq.finish().map_err(|error| bfq_error("bfq", &error))?;
        Ok(Scenario {
            title: self.title.clone(),
            disk: self.disk,
            engine: weir_engine::Config { bfq, ..self.engine },
            cgroups,
            home: self.home.clone(),
            cache: self.cache,
            machine: self.machine,
            path_delay: self.path_delay.clone(),
            seed: self.seed,
            forks: self.forks.clone(),
            until_ns: self.until_ns,
            timed_changes: self.timed_changes()?,
            govern: self.govern()?,
            work,
        })
    }

    fn cgroup_settings(&self) -> Result<Vec<CgroupSetting>, SettingError> {
        let limiter = self.limiter_kind()?;
        let mut cgroups = Vec::with_capacity(self.cgroups.len());
        for Cgroup { setting, limiter: own } in self.cgroups.values() {
            let limits = Limits { limiter: own.unwrap_or(limiter), ..setting.limits };
            limits.validate().map_err(|error| {
                use weir_engine::LimitsError::{BurstUnknown, PeakUnknown};
                let hint = match error {
                    BurstUnknown { dimension, .. } => Some(("burst", dimension)),
                    PeakUnknown { dimension, .. } => Some(("peak", dimension)),
                    _ => None,
                };
                let hint = hint.map(|(key, dimension)| {
                    format!("`{key}={} {}=max` takes it back", setting.path, dimension.key())
                });
                SettingError::new("limits", format!("of cgroup {}: {error}", setting.path), hint)
            })?;
            cgroups.push(CgroupSetting { limits, ..setting.clone() });
        }
        Ok(cgroups)
    }

    /// The governor, which governs what a kernel has: limits of slices, without bursts and peaks.
    fn govern(&self) -> Result<Option<Govern>, SettingError> {
        let Some(watermark) = self.govern else {
            return match self.govern_below.keys().next() {
                None => Ok(None),
                Some(path) => {
                    let hint = "for example `govern=90`".to_owned();
                    let reason = format!("{path} has a watermark, and the disk has none");
                    Err(SettingError::new("govern", reason, hint))
                }
            };
        };
        for setting in self.cgroup_settings()? {
            let (limits, path) = (&setting.limits, &setting.path);
            if !matches!(limits.limiter, LimiterKind::Slice(_)) && !limits.max.is_none() {
                let hint = "leave `limiter` out, or write `limiter=slice`".to_owned();
                let reason = format!("limits of {path} are none of a kernel");
                return Err(SettingError::new("govern", reason, hint));
            }
            if !limits.peak.is_none() || !limits.burst.is_none() {
                let reason = format!("{path} has a burst or a peak, which no kernel knows");
                return Err(SettingError::new("govern", reason, None));
            }
            if setting.watermark.is_some_and(|watermark| watermark.percent() > 0) {
                let hint = "leave `watermark` out".to_owned();
                let reason = format!("{path} has a watermark of the engine, too");
                return Err(SettingError::new("govern", reason, hint));
            }
        }
        let below = self.govern_below.values().cloned().collect();
        Ok(Some(Govern { watermark, below, version: self.cgroup_version }))
    }

    /// Limiter of cgroups without their own.
    fn limiter_kind(&self) -> Result<LimiterKind, SettingError> {
        let usual = match self.govern {
            None => LimiterKind::Pace,
            Some(_) => read_limiter("limiter", "slice")?,
        };
        Ok(match (&self.kernel, self.limiter.unwrap_or(usual)) {
            (None, limiter) => limiter,
            (Some(kernel), LimiterKind::Slice(given)) => {
                match read_limiter("kernel", &format!("slice:{kernel}"))? {
                    // Ticks and slices stay as the limiter has them, unless the kernel brings its own.
                    LimiterKind::Slice(SliceProfile { kernel: profile, .. })
                        if !kernel.contains(',') =>
                    {
                        LimiterKind::Slice(SliceProfile { kernel: profile, ..given })
                    }
                    whole => whole,
                }
            }
            (Some(_), _) => {
                let hint = "write `--limiter slice --kernel VERSION`".to_owned();
                let reason = "only the limiter `slice` is a kernel's";
                return Err(SettingError::new("kernel", reason, hint));
            }
        })
    }

    /// Errors of the job file, or of the first `fio.` setting that its jobs refuse: the file does not show that, and
    /// one message does for many jobs.
    fn besides_to_blame(&self, errors: FioErrors) -> BuildError {
        let Some(input) = self.source.input() else { return errors.into() };
        if fio::parse_input(&input, &[]).is_err() {
            return errors.into();
        }
        let first = self.besides.iter().find_map(|besides| {
            let errors = fio::parse_input(&input, std::slice::from_ref(besides)).err()?;
            let problem = &errors.errors.first()?.problem;
            let reason = match problem {
                fio::Problem::Value { error, .. } => error.to_string(),
                problem => problem.to_string(),
            };
            Some(SettingError::new(&format!("fio.{}", besides.0), reason, problem.hint()))
        });
        first.map_or_else(|| errors.into(), BuildError::Setting)
    }

    fn cgroup(&mut self, path: Path) -> &mut CgroupSetting {
        &mut self.cgroup_entry(path).setting
    }

    fn cgroup_entry(&mut self, path: Path) -> &mut Cgroup {
        let entry = self.cgroups.entry(path.to_string());
        entry.or_insert_with(|| Cgroup { setting: CgroupSetting::untouched(path), limiter: None })
    }
}
