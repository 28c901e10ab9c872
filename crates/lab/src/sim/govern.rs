//! A governor over the limits of a run, as `weir govern` is one over a kernel's: it reads counters every 50 ms, and
//! writes limits.

mod counting;
mod io_ticks;

use weir_engine::settings::WatermarkMode;
use weir_engine::{
    CgroupId, Change, Dimension, Engine, Instant, Limits, Path, PerDimension, Request, Watermark,
};
use weir_fio::random::Random;
use weir_govern::{Cgroup, Governor, IoMax, Mode, Settings};

use self::counting::Counting;
use super::calendar::{Calendar, Planned};
use super::timed_changes::find;
use super::world::World;
use crate::results::{FactorChange, GovernResults, GovernedResults};
use crate::scenario::{CgroupVersion, Change as Setting, Govern, Machine, Scenario, ScenarioError};

/// Time from one look to the next.
const PERIOD_NS: u64 = 50_000_000;

/// Changes of the factor that are kept for the report.
const CHANGES_MAX: usize = 4096;

const SECOND_NS: u64 = 1_000_000_000;

/// A governed cgroup.
struct Governed {
    path: Path,
    id: weir_govern::CgroupId,
    engine: CgroupId,
    /// As written by its operator, with the limiter.
    limits: Limits,
    watermark: Option<Watermark>,
    /// Times of the writes of the last second.
    written_ns: Vec<u64>,
    writes: u64,
    writes_per_sec_max: u32,
}

/// The governor of a run, and what the kernel tells it.
pub(super) struct Governing {
    governor: Governor,
    pub(super) counting: Counting,
    cgroups: Vec<Governed>,
    version: CgroupVersion,
    machine: Machine,
    random: Random,
    looked_ns: u64,
    used_ns: u64,
    lambda_ppm: u64,
    results: GovernResults,
}

impl Governing {
    /// Plans the first look. Cgroups are those that have limits, at some time of the run.
    ///
    /// # Errors
    /// Cgroups that cannot be made.
    pub(super) fn new(
        scenario: &Scenario,
        govern: &Govern,
        engine: &mut Engine,
        calendar: &mut Calendar,
    ) -> Result<Governing, ScenarioError> {
        let mut governing = Governing {
            governor: Governor::new(settings(govern.watermark)),
            counting: Counting::new(scenario.engine.capacity, govern.version),
            cgroups: Vec::new(),
            version: govern.version,
            machine: scenario.machine,
            random: Random::new(scenario.seed ^ 0x676f_7665_726e),
            looked_ns: 0,
            used_ns: 0,
            lambda_ppm: 1_000_000,
            results: GovernResults {
                watermark_percent: govern.watermark.percent(),
                ..GovernResults::default()
            },
        };
        let initial = scenario.cgroups.iter().map(|setting| (&setting.path, setting.limits));
        let mut known: Vec<(Path, Limits)> =
            initial.map(|(path, limits)| (path.clone(), limits)).collect();
        let later = scenario.timed_changes.iter().flat_map(|timed| &timed.changes);
        for path in later.filter_map(|change| match change {
            Setting::Limits(path, _) => Some(path),
            _ => None,
        }) {
            if !known.iter().any(|(of, _)| of == path) {
                known.push((path.clone(), Limits::default()));
            }
        }
        for (path, _) in &govern.below {
            if !known.iter().any(|(of, _)| of == path) {
                known.push((path.clone(), Limits::default()));
            }
        }
        // Parents first.
        known.sort_by_key(|(path, _)| path.to_string());
        for (path, limits) in known {
            let watermark =
                govern.below.iter().find(|(of, _)| *of == path).map(|(_, watermark)| *watermark);
            let refuse = |reason| ScenarioError::Cgroup { path: path.to_string(), reason };
            let at = find(engine, &path).map_err(refuse)?;
            let parent =
                governing.nearest(&path.to_string()).map(|index| governing.cgroups[index].id);
            let id = governing.governor.add(parent, cgroup_of(&limits, watermark));
            debug_assert_eq!(id.0 as usize, governing.cgroups.len());
            governing.counting.add(governing.cgroups.len());
            governing.cgroups.push(Governed {
                path,
                id,
                engine: at,
                limits,
                watermark,
                written_ns: Vec::new(),
                writes: 0,
                writes_per_sec_max: 0,
            });
        }
        calendar.plan(PERIOD_NS, Planned::Govern);
        Ok(governing)
    }

    /// The nearest governed cgroup at or above a path: a later one is lower.
    fn nearest(&self, path: &str) -> Option<usize> {
        self.cgroups.iter().rposition(|governed| is_within(path, &governed.path.to_string()))
    }

    /// The governed cgroups at and above a path.
    pub(super) fn chain(&self, path: &str) -> Vec<u32> {
        let all = self.cgroups.iter().enumerate();
        let within = all.filter(|(_, governed)| is_within(path, &governed.path.to_string()));
        within.map(|(index, _)| index as u32).collect()
    }

    /// The operator writes limits: they are in the kernel already.
    pub(super) fn adopt(&mut self, path: &Path, limits: Limits) {
        let governed = self.cgroups.iter_mut().find(|governed| governed.path == *path);
        let governed = governed.expect("all cgroups that ever have limits are governed");
        governed.limits = limits;
        self.governor.adopt(governed.id, cgroup_of(&limits, governed.watermark));
    }

    /// A look at the counters, and what follows.
    fn look(&mut self, now_ns: u64, engine: &mut Engine) {
        let from_ns = self.looked_ns;
        self.pass_time(now_ns);
        for (index, governed) in self.cgroups.iter().enumerate() {
            self.governor.note(governed.id, self.counting.cgroup(index, now_ns));
        }
        let device = self.counting.device(now_ns);
        let used_ns = device.used_ns - self.used_ns;
        self.results.used_series.spread(from_ns, now_ns, used_ns);
        self.used_ns = device.used_ns;
        let turn = self.governor.turn(now_ns, device);
        let is_change = turn.lambda_ppm != self.lambda_ppm;
        self.lambda_ppm = turn.lambda_ppm;
        for write in turn.writes {
            // None is ever removed, so that they are numbered as they were added.
            let governed = &mut self.cgroups[write.cgroup.0 as usize];
            let limits = Limits { max: with(governed.limits.max, write.limits), ..governed.limits };
            // Each direction has a file of its own: the kernel takes both in, one after the other.
            let files = if self.version == CgroupVersion::V1 { 2 } else { 1 };
            for _ in 0..files {
                let change = Change::SetLimits { cgroup: governed.engine, limits };
                let changed = engine.reconfigure(Instant::from_nanos(now_ns), change);
                changed.expect("limits without a burst or peak, not below those that were valid");
            }
            governed.wrote(now_ns);
        }
        if is_change && self.results.changes.len() < CHANGES_MAX {
            self.results.changes.push(FactorChange {
                at_ns: now_ns,
                lambda_ppm: turn.lambda_ppm,
                utilisation_permille: turn.utilisation_permille,
                state: turn.state,
            });
        }
        self.results.changes_count += u64::from(is_change);
    }

    fn pass_time(&mut self, now_ns: u64) {
        let (from_ns, to_ns) = (self.looked_ns, now_ns);
        let time_ns = to_ns - from_ns;
        if self.lambda_ppm == u64::MAX {
            self.results.lifted_series.spread(from_ns, to_ns, time_ns);
        } else {
            let sum = u128::from(time_ns) * u128::from(self.lambda_ppm) / 1_000_000;
            let sum = u64::try_from(sum).unwrap_or(u64::MAX);
            self.results.lambda_series.spread(from_ns, to_ns, sum);
        }
        self.looked_ns = now_ns;
    }

    /// The next look: a pause of a process later.
    fn next_ns(&mut self, now_ns: u64) -> u64 {
        let Machine { pause_late_ns, hiccup_ns, .. } = self.machine;
        let hiccup_ns = if self.random.below(Machine::HICCUP_EVERY) == 0 { hiccup_ns } else { 0 };
        now_ns + PERIOD_NS + pause_late_ns + hiccup_ns
    }

    pub(super) fn finish(mut self, now_ns: u64) -> GovernResults {
        self.pass_time(now_ns);
        self.results.cgroups = self
            .cgroups
            .into_iter()
            .map(|governed| GovernedResults {
                path: governed.path.to_string(),
                as_written: governed.limits.max,
                writes: governed.writes,
                writes_per_sec_max: governed.writes_per_sec_max,
            })
            .collect();
        self.results
    }
}

impl Governed {
    fn wrote(&mut self, now_ns: u64) {
        self.written_ns.retain(|at_ns| now_ns - at_ns < SECOND_NS);
        self.written_ns.push(now_ns);
        self.writes += 1;
        self.writes_per_sec_max = self.writes_per_sec_max.max(self.written_ns.len() as u32);
    }
}

impl World {
    /// A request goes to the throttle; its source may be a new one.
    pub(super) fn count_submitted(&mut self, request: &Request) {
        let governing = self.device.governing.as_mut().expect("asked only then");
        while governing.counting.actors() < self.actors.len() {
            let cgroup = self.actors[governing.counting.actors()].cgroup;
            let path = self.engine.cgroup_path(self.cgroups.id(cgroup)).unwrap_or_default();
            let chain = governing.chain(&path);
            governing.counting.add_actor(cgroup, chain);
        }
        let actor = self.device.flights[request.tag as usize].actor;
        governing.counting.submitted(self.now_ns, actor, request.op, request.extent.len);
    }

    pub(super) fn govern(&mut self) {
        let governing = self.device.governing.as_mut().expect("it planned this");
        governing.look(self.now_ns, &mut self.engine);
        let next_ns = governing.next_ns(self.now_ns);
        self.calendar.plan(next_ns, Planned::Govern);
    }
}

fn settings(watermark: Watermark) -> Settings {
    let mode = match watermark.mode() {
        WatermarkMode::Proportional { .. } => Mode::Proportional,
        WatermarkMode::Gate { .. } => Mode::Gate,
    };
    Settings { watermark_permille: u16::from(watermark.percent()) * 10, mode }
}

fn cgroup_of(limits: &Limits, watermark: Option<Watermark>) -> Cgroup {
    let of = |dimension| limits.max.get(dimension).map(u64::from);
    let limits = IoMax {
        rbps: of(Dimension::Rbps),
        wbps: of(Dimension::Wbps),
        riops: of(Dimension::Riops),
        wiops: of(Dimension::Wiops),
    };
    Cgroup { limits, settings: watermark.map(settings) }
}

/// `max` with the four limits that a kernel has.
fn with(mut max: PerDimension, limits: IoMax) -> PerDimension {
    let IoMax { rbps, wbps, riops, wiops } = limits;
    let values = [
        (Dimension::Rbps, rbps),
        (Dimension::Wbps, wbps),
        (Dimension::Riops, riops),
        (Dimension::Wiops, wiops),
    ];
    for (dimension, value) in values {
        max.set(dimension, value.and_then(|value| value.try_into().ok()));
    }
    max
}

fn is_within(path: &str, ancestor: &str) -> bool {
    let rest = path.strip_prefix(ancestor.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
