//! Sampler: the difference between two readings of all devices, with the busiest cgroups of each.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use weir_counters::Histogram;
use weir_engine::stats::Moved;
use weir_engine::{CgroupId, Dimension};

use super::sample::{LiveCgroup, LiveDevice, LiveSample};
use crate::control::host::Target;
use crate::status::{DeviceStatus, LimitWait, Percentiles};
use crate::view::{Activity, DeviceActivity, Sums, per_dimension, waits_beside_limits};

/// Cgroups of a device in a sample: those with the most requests, ..
const BUSIEST_MAX: usize = 24;
/// .. and others whose requests waited longest, which a neighbour or a limit may keep from having many.
const WAITING_MAX: usize = 8;
/// Limits that a cgroup is told to have waited for.
const LIMITS_MAX: usize = 6;

/// One device at one moment.
pub(super) struct Reading<'d, T> {
    pub(super) device: &'d T,
    /// What its thread has told, if it has answered.
    pub(super) status: Option<DeviceStatus>,
    pub(super) activity: DeviceActivity,
}

/// The last readings of all devices.
#[derive(Default)]
pub(super) struct Sampler {
    /// Whether there was a reading.
    has_begun: bool,
    devices: BTreeMap<String, Before>,
}

/// A device at the last reading.
#[derive(Default)]
struct Before {
    /// None where its thread did not answer.
    counts: Option<DeviceCounts>,
    cgroups: BTreeMap<CgroupId, BeforeCgroup>,
}

#[derive(Clone, Copy)]
struct DeviceCounts {
    at_ns: u64,
    busy_ns: u64,
    idling_ns: u64,
    merges: u64,
    splits: u64,
}

struct BeforeCgroup {
    counts: Counts,
    /// Requests of the last spans, of which a span counts less the longer ago it was.
    score: u64,
    /// Of cgroups that were in the last sample.
    times: Option<Box<[Histogram; 2]>>,
}

/// Waits for the limits of one cgroup, in nanoseconds by dimension.
type LimitWaited = (CgroupId, [u64; Dimension::COUNT]);

/// What is counted of a cgroup.
#[derive(Clone, Default)]
struct Counts {
    read: Moved,
    write: Moved,
    completed: u64,
    modelled_ns: u64,
    /// In the order of [`crate::status::WaitStatus::beside_limits`].
    wait_ns: [u64; 11],
    limits: Vec<LimitWaited>,
}

impl DeviceCounts {
    fn of(status: &DeviceStatus) -> DeviceCounts {
        let bfq = &status.bfq;
        DeviceCounts {
            at_ns: status.at_ns,
            busy_ns: status.busy_ns,
            idling_ns: bfq.idling_ns.values().sum(),
            merges: bfq.merges.values().sum(),
            splits: bfq.splits,
        }
    }
}

impl Counts {
    fn of(sums: &Sums) -> Counts {
        let counters = &sums.counters;
        let limits = counters.blame.limits.iter();
        Counts {
            read: counters.read,
            write: counters.write,
            completed: counters.completed,
            modelled_ns: counters.modelled_ns,
            wait_ns: waits_beside_limits(sums).beside_limits().map(|(_, ns)| ns),
            limits: limits.map(|limit| (limit.cgroup, limit.wait_ns)).collect(),
        }
    }

    fn since(&self, before: &Counts) -> Counts {
        let moved = |now: Moved, then: Moved| Moved {
            bytes: now.bytes.saturating_sub(then.bytes),
            ios: now.ios.saturating_sub(then.ios),
        };
        let limits = self.limits.iter().map(|limit| {
            let (cgroup, wait_ns) = limit;
            let then = before.limits.iter().find(|then| then.0 == *cgroup);
            let then = then.map_or([0; Dimension::COUNT], |then| then.1);
            (*cgroup, std::array::from_fn(|at| wait_ns[at].saturating_sub(then[at])))
        });
        Counts {
            read: moved(self.read, before.read),
            write: moved(self.write, before.write),
            completed: self.completed.saturating_sub(before.completed),
            modelled_ns: self.modelled_ns.saturating_sub(before.modelled_ns),
            wait_ns: std::array::from_fn(|at| self.wait_ns[at].saturating_sub(before.wait_ns[at])),
            limits: limits.filter(|(_, wait_ns)| *wait_ns != [0; Dimension::COUNT]).collect(),
        }
    }

    fn ios(&self) -> u64 {
        self.read.ios + self.write.ios
    }

    fn waited_ns(&self) -> u64 {
        let limits = self.limits.iter().flat_map(|limit| limit.1);
        self.wait_ns.iter().copied().chain(limits).fold(0, u64::saturating_add)
    }
}

impl Sampler {
    /// What was done in the `span` since the last call; `None` the first time. `at_ms` and `started_at_ms` are milliseconds
    /// since 1970. O(cgroups × log cgroups), and histograms of O(cgroups that were used × depth).
    pub(super) fn take<T: Target>(
        &mut self,
        (at_ms, started_at_ms): (u64, u64),
        span: Duration,
        readings: &[Reading<'_, T>],
    ) -> Option<LiveSample> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        self.devices.retain(|name, _| readings.iter().any(|found| found.device.name() == name));
        let devices = readings.iter().map(|reading| {
            let name = reading.device.name();
            self.devices.entry(name.to_owned()).or_default().take(reading)
        });
        let devices = devices.collect();
        let span_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let version = env!("CARGO_PKG_VERSION");
        (!is_first).then_some(LiveSample { at_ms, span_ms, started_at_ms, version, devices })
    }
}

impl Before {
    /// What one device did since.
    fn take<T: Target>(&mut self, reading: &Reading<'_, T>) -> LiveDevice {
        let DeviceActivity { cgroups, .. } = &reading.activity;
        let mut done: Vec<Done> = Vec::with_capacity(cgroups.len());
        let mut before = std::mem::take(&mut self.cgroups);
        for activity in cgroups {
            let counts = Counts::of(&activity.all);
            let then = before.remove(&activity.cgroup);
            let since = counts.since(then.as_ref().map_or(&Counts::default(), |then| &then.counts));
            let (score, times) = then.map_or((0, None), |then| (then.score, then.times));
            // After some ten spans without a request a cgroup is as one that never had any.
            let score = score - score.div_ceil(4) + since.ios();
            self.cgroups.insert(activity.cgroup, BeforeCgroup { counts, score, times });
            done.push(Done { since, score });
        }
        let chosen = choose(&done);
        let ids: Vec<CgroupId> = chosen.iter().map(|&at| cgroups[at].cgroup).collect();
        let mut all_times = reading.device.whole_times(&ids).into_iter();
        let mut device = self.device(reading);
        device.cgroups_omitted = (done.len() - chosen.len()) as u64;
        for (&at, id) in chosen.iter().zip(&ids) {
            let now = Box::new(all_times.next().unwrap_or_default());
            let then =
                self.cgroups.get_mut(id).and_then(|cgroup| cgroup.times.replace(now.clone()));
            let times = then.map(|then| [0, 1].map(|of| now[of].since(&then[of])));
            device.cgroups.push(cgroup(&cgroups[at], &done[at].since, times, reading));
        }
        for (id, cgroup) in &mut self.cgroups {
            if !ids.contains(id) {
                cgroup.times = None;
            }
        }
        device
    }

    fn device<T: Target>(&mut self, reading: &Reading<'_, T>) -> LiveDevice {
        let device = reading.device.name().to_owned();
        let Some(status) = &reading.status else {
            self.counts = None;
            return LiveDevice { device, ..LiveDevice::default() };
        };
        let now = DeviceCounts::of(status);
        let then = self.counts.replace(now).unwrap_or(now);
        let span_ns = now.at_ns.saturating_sub(then.at_ns).max(1);
        let busy_ns = now.busy_ns.saturating_sub(then.busy_ns).min(span_ns);
        LiveDevice {
            device,
            is_up: true,
            scheduler: status.scheduler.clone(),
            depth: status.depth,
            in_flight: status.in_flight,
            ready: status.ready,
            throttled: status.throttled,
            busy_percent: (busy_ns as f64 * 1000.0 / span_ns as f64).round() / 10.0,
            utilisation_percent_500ms: status.utilisation_percent_500ms,
            watermarks: status.watermarks.clone(),
            idling_ns: now.idling_ns.saturating_sub(then.idling_ns),
            merges: now.merges.saturating_sub(then.merges),
            splits: now.splits.saturating_sub(then.splits),
            ..LiveDevice::default()
        }
    }
}

/// What a cgroup did.
struct Done {
    since: Counts,
    score: u64,
}

/// Places of the root, of the busiest cgroups and of those that waited longest. `done` has the root first, and the others by
/// their paths, which decides among equals.
fn choose(done: &[Done]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..done.len()).collect();
    order.sort_by_key(|&at| (at != 0, Reverse(done[at].score)));
    let mut rest = order.split_off(order.len().min(BUSIEST_MAX));
    rest.sort_by_cached_key(|&at| Reverse(done[at].since.waited_ns()));
    order.extend(rest.into_iter().take(WAITING_MAX));
    order
}

/// A cgroup of a sample. `times` are those of the span, if the cgroup was in the last sample.
fn cgroup<T: Target>(
    activity: &Activity,
    since: &Counts,
    times: Option<[Histogram; 2]>,
    reading: &Reading<'_, T>,
) -> LiveCgroup {
    let limits = Dimension::ALL
        .into_iter()
        .filter_map(|dimension| Some((dimension.key(), activity.limits.max.get(dimension)?.get())));
    let limits: BTreeMap<_, _> = limits.collect();
    let multiplier = match &reading.status {
        Some(status) if !limits.is_empty() => status.multiplier(activity.watermark),
        _ => Some(1.0),
    };
    let names = waits_beside_limits(&activity.all).beside_limits().map(|(name, _)| name);
    let waits = names.into_iter().zip(since.wait_ns.iter().copied());
    let [reads, others] = times.unwrap_or_default();
    LiveCgroup {
        cgroup: activity.path.clone(),
        limits,
        limit_multiplier: multiplier.filter(|&multiplier| multiplier != 1.0),
        is_lifted: multiplier.is_none(),
        connections: activity.all.waits.connections,
        read_bytes: since.read.bytes,
        read_ios: since.read.ios,
        write_bytes: since.write.bytes,
        write_ios: since.write.ios,
        completed_ios: since.completed,
        modelled_ns: since.modelled_ns,
        read_latency: Percentiles::of(&reads),
        write_latency: Percentiles::of(&others),
        latency_bins: half_octaves(&[reads, others]),
        wait_ns: waits.filter(|(_, ns)| *ns > 0).collect(),
        limit_waits: limit_waits(&since.limits, &reading.activity),
    }
}

/// The longest waits for limits. Those of clients are told of the cgroup above.
fn limit_waits(limits: &[LimitWaited], activity: &DeviceActivity) -> Vec<LimitWait> {
    let mut sums: BTreeMap<Option<usize>, [u64; Dimension::COUNT]> = BTreeMap::new();
    for (cgroup, wait_ns) in limits {
        let sum = sums.entry(activity.places.get(cgroup).copied()).or_default();
        sum.iter_mut().zip(wait_ns).for_each(|(sum, ns)| *sum = sum.saturating_add(*ns));
    }
    let wait = |(place, wait_ns): (Option<usize>, _)| LimitWait {
        cgroup: place.map(|place| activity.cgroups[place].path.clone()),
        wait_ns: per_dimension(wait_ns),
    };
    let mut waits: Vec<LimitWait> = sums.into_iter().map(wait).collect();
    waits.sort_by_key(|wait| Reverse(wait.wait_ns.sum()));
    waits.truncate(LIMITS_MAX);
    waits
}

/// Counts by powers of two and the middles between them.
fn half_octaves(histograms: &[Histogram]) -> Vec<(u64, u64)> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for bin in histograms.iter().flat_map(Histogram::bins) {
        let octave = 1 << bin.start_ns.max(1).ilog2();
        let middle = octave + octave / 2;
        let start = if bin.start_ns >= middle { middle } else { octave };
        *counts.entry(start).or_default() += bin.count;
    }
    counts.into_iter().collect()
}
