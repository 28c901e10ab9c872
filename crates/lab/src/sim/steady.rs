//! `steadystate`: jobs end once their rate is steady.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_fio::{Job, Options, SteadyRate, SteadyState};

use super::calendar::Planned;
use super::nanos;
use super::world::World;
use crate::results::Steadiness;
use crate::scenario::ScenarioError;

/// Sampling interval, as in fio.
const EVERY_NS: u64 = 1_000_000_000;

/// Watched rows of the report, by index.
pub(super) type Steadies = BTreeMap<u32, Steady>;

/// The rate of a row, whose processes end together once it is steady.
pub(super) struct Steady {
    rule: SteadyState,
    ramp_ns: u64,
    /// Seconds that are looked at together.
    needed: usize,
    group: u32,
    has_begun: bool,
    /// Requests and bytes at the last sample.
    before: Option<[u64; 2]>,
    /// Requests and bytes in each of the last seconds, at most `needed`.
    rates: VecDeque<[u64; 2]>,
    attained_ns: Option<u64>,
}

/// Watched rows of jobs. As in fio, jobs that are reported together have one rule. O(jobs log rows), O(jobs) where
/// none has any.
pub(super) fn watched(jobs: &[Job], rows: &[u32]) -> Result<Steadies, ScenarioError> {
    if jobs.iter().all(|job| rule_of(job).is_none()) {
        return Ok(Steadies::new());
    }
    let mut first: BTreeMap<u32, &Job> = BTreeMap::new();
    for (job, &row) in jobs.iter().zip(rows) {
        let other = *first.entry(row).or_insert(job);
        if rule_of(other) != rule_of(job) {
            return Err(ScenarioError::Job {
                job: job.name.to_string(),
                line: job.line,
                reason: format!(
                    "it is reported with `{}`, whose steadystate, steadystate_duration and steadystate_ramp_time it needs as well",
                    other.name
                ),
            });
        }
    }
    Ok(first.into_iter().filter_map(|(row, job)| Some((row, Steady::new(job)?))).collect())
}

/// Rule of a job: criterion, duration and ramp.
fn rule_of(job: &Job) -> Option<(SteadyState, Duration, Duration)> {
    let Options { steady_state, steady_duration, steady_ramp, .. } = *job.options;
    Some((steady_state?, steady_duration, steady_ramp))
}

impl Steady {
    fn new(job: &Job) -> Option<Steady> {
        let (rule, duration, ramp) = rule_of(job)?;
        Some(Steady {
            rule,
            ramp_ns: nanos(ramp),
            needed: usize::try_from(duration.as_secs()).unwrap_or(usize::MAX),
            group: job.group,
            has_begun: false,
            before: None,
            rates: VecDeque::new(),
            attained_ns: None,
        })
    }

    /// Adds a second. Returns whether the rates are steady now. O(`needed`).
    fn takes(&mut self, rates: [u64; 2]) -> bool {
        if self.rates.len() >= self.needed {
            self.rates.pop_front();
        }
        self.rates.push_back(rates);
        self.criterion().is_some_and(|is| is < self.rule.limit)
    }

    fn is_full(&self) -> bool {
        self.rates.len() == self.needed
    }

    fn of_rule(&self) -> impl Iterator<Item = u64> + '_ {
        let place = match self.rule.of {
            SteadyRate::Iops => 0,
            SteadyRate::Bandwidth => 1,
        };
        self.rates.iter().map(move |rates| rates[place])
    }

    fn mean(&self) -> f64 {
        let sum: u128 = self.of_rule().map(u128::from).sum();
        sum as f64 / self.rates.len() as f64
    }

    /// The figure that must be below the limit. None where nothing was moved, or there are too few rates.
    fn criterion(&self) -> Option<f64> {
        let mean = self.mean();
        let value = if self.rule.by_slope { self.slope().abs() } else { self.deviation() };
        (self.is_full() && mean > 0.0)
            .then(|| if self.rule.in_percent { value / mean * 100.0 } else { value })
    }

    fn deviation(&self) -> f64 {
        let mean = self.mean();
        self.of_rule().map(|rate| (rate as f64 - mean).abs()).fold(0.0, f64::max)
    }

    /// Slope of the least-squares line, per second; 0 of a single rate.
    fn slope(&self) -> f64 {
        let count = self.rates.len() as i128;
        let (mut sum_x, mut sum_xx, mut sum_y, mut sum_xy) = (0, 0, 0, 0);
        for (x, y) in (0i128..).zip(self.of_rule().map(i128::from)) {
            sum_x += x;
            sum_xx += x * x;
            sum_y += y;
            sum_xy += x * y;
        }
        let width = count * sum_xx - sum_x * sum_x;
        (count * sum_xy - sum_x * sum_y) as f64 / width.max(1) as f64
    }

    fn finish(self) -> Steadiness {
        Steadiness {
            rule: self.rule,
            seconds: self.needed as u64,
            attained_ns: self.attained_ns,
            criterion: self.criterion(),
            slope: self.is_full().then(|| self.slope()),
            deviation: self.is_full().then(|| self.deviation()),
            rates: self.rates.into(),
        }
    }
}

impl World {
    /// A process starts: rates of its row are sampled from then on, after the ramps.
    pub(super) fn watch_rate(&mut self, process: u32) {
        let at = &self.processes[process as usize];
        let Some(steady) = self.steadies.get_mut(&at.row).filter(|steady| !steady.has_begun) else {
            return;
        };
        steady.has_begun = true;
        let from_ns = at.begun_ns().saturating_add(steady.ramp_ns).max(at.counts_from_ns);
        self.calendar.plan(from_ns, Planned::Rate(at.row));
    }

    /// A second of a watched row is over. O(jobs of its group + seconds looked at).
    pub(super) fn take_rate(&mut self, row: u32) {
        let group = self.steadies[&row].group;
        let members =
            self.those(|job| job.group, group).filter(|&at| self.processes[at].row == row);
        let left: Vec<usize> = members.filter(|&at| !self.processes[at].is_done()).collect();
        if left.is_empty() {
            return;
        }
        let moved = self.device.recorder.moved(row);
        let steady = self.steadies.get_mut(&row).expect("a row that is watched");
        let before = steady.before.replace(moved);
        if !before.is_some_and(|[ios, bytes]| steady.takes([moved[0] - ios, moved[1] - bytes])) {
            self.calendar.plan(self.now_ns.saturating_add(EVERY_NS), Planned::Rate(row));
            return;
        }
        steady.attained_ns = Some(self.now_ns);
        left.into_iter().for_each(|member| self.stop_with(member));
        self.start_next();
    }

    pub(super) fn tell_steadies(&mut self) {
        for (row, steady) in std::mem::take(&mut self.steadies) {
            self.device.recorder.steady(row, steady.finish());
        }
    }
}
