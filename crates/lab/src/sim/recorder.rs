//! Recorder of a run: collects figures, and makes [`Results`] of them at the end.

use std::collections::BTreeMap;

use weir_engine::stats::{BfqStats, Counters};
use weir_engine::{CgroupId, Dimension, Engine, Op, SchedulerKind, Watermark};
use weir_fio::stream::Access;

use super::flights::Flight;
use super::process::Process;
use crate::results::{
    BfqResults, CauseLatency, CgroupResults, Changed, DeviceResults, GovernResults, Latency,
    LatencySeries, LimitWaits, Results, Row, RowSeries, Series, Steadiness, Transfers,
};

/// Cgroups, and rows, with a series of bytes over time; more lines would be unreadable.
const SERIES_MAX: usize = 64;

/// Streams of a trace that have a row of their own.
const ROWS_MAX: usize = 1000;

pub(super) struct Recorder {
    /// Title, disk, scheduler and all else that is known before the run.
    results: Results,
    cgroups: Vec<CgroupRecord>,
    device: DeviceResults,
    /// End of the present interval of the series, and its length.
    due_ns: u64,
    interval_ns: u64,
    /// Busy time of the disk, up to the last sample.
    busy_ns: u64,
    busy_until_ns: u64,
    /// By row of jobs, when its first process began to count. Rows of a trace's streams follow them.
    first_ns: Vec<u64>,
    /// By row, what it has read and written in the present interval; of the first [`SERIES_MAX`] rows only.
    fresh_rows: Vec<[Fresh; 2]>,
    /// By process, its figures in `ramp_time`, which count only if it ends in it.
    early: BTreeMap<u32, Early>,
}

#[derive(Default)]
struct Early {
    moved: [Transfers; 3],
    sync: Latency,
}

#[derive(Default)]
struct CgroupRecord {
    id: Option<CgroupId>,
    latency: Latency,
    /// Bytes read and written in the present interval, and their requests; for the first [`SERIES_MAX`] cgroups only.
    fresh: [Fresh; 2],
    series: [Series; 2],
    ios_series: [Series; 2],
    latency_series: LatencySeries,
}

#[derive(Default)]
struct Fresh {
    bytes: u64,
    ios: u64,
}

impl Fresh {
    fn move_to(&mut self, at_ns: u64, series: &mut Series, ios_series: &mut Series) {
        let Fresh { bytes, ios } = std::mem::take(self);
        if bytes > 0 {
            series.add(at_ns, bytes);
        }
        if ios > 0 {
            ios_series.add(at_ns, ios);
        }
    }
}

impl Recorder {
    pub(super) fn new(results: Results, cgroups: &[CgroupId]) -> Recorder {
        let rows = results.rows.len();
        Recorder {
            results,
            cgroups: cgroups
                .iter()
                .map(|&id| CgroupRecord { id: Some(id), ..CgroupRecord::default() })
                .collect(),
            device: DeviceResults::default(),
            due_ns: Series::default().interval_ns(),
            interval_ns: Series::default().interval_ns(),
            busy_ns: 0,
            busy_until_ns: 0,
            first_ns: vec![u64::MAX; rows],
            fresh_rows: Vec::new(),
            early: BTreeMap::new(),
        }
    }

    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    /// Ends an interval of the series, before the events of `next_ns`. `busy_ns` is the disk's busy time at `now_ns`,
    /// the time of the last event. O(cgroups, at most [`SERIES_MAX`]); about a thousand times for each doubling of
    /// the run's length.
    pub(super) fn sample(&mut self, now_ns: u64, next_ns: u64, busy_ns: u64, at_disk: u32) {
        for record in self.cgroups.iter_mut().take(SERIES_MAX) {
            let all = record.series.iter_mut().zip(&mut record.ios_series);
            for ((series, ios_series), fresh) in all.zip(&mut record.fresh) {
                fresh.move_to(self.due_ns - 1, series, ios_series);
            }
        }
        for (row, fresh) in self.results.rows.iter_mut().zip(&mut self.fresh_rows) {
            let RowSeries { read, write, read_ios, write_ios } = &mut row.series;
            let [reads, writes] = fresh;
            reads.move_to(self.due_ns - 1, read, read_ios);
            writes.move_to(self.due_ns - 1, write, write_ios);
        }
        let busy = &mut self.device.busy_series;
        busy.spread(self.busy_until_ns, now_ns, busy_ns - self.busy_ns);
        self.busy_ns = busy_ns;
        // An idle disk stays idle until the next event.
        self.busy_until_ns = if at_disk == 0 { next_ns } else { now_ns };
        // The last point is the present one, so that intervals grow before there are too many.
        busy.add(next_ns, 0);
        self.interval_ns = busy.interval_ns();
        self.due_ns = (next_ns / self.interval_ns + 1).saturating_mul(self.interval_ns);
    }

    pub(super) fn at_disk(&mut self, now_ns: u64, cgroup: u32, flight: &Flight) {
        let record = &mut self.cgroups[cgroup as usize];
        record.latency.record(now_ns - flight.submitted_ns);
        self.device.ios += 1;
        self.device.latency.record(now_ns - flight.dispatched_ns);
        let direction = match flight.op {
            Op::Read => 0,
            Op::Write => 1,
            _ => return,
        };
        let bytes = u64::from(flight.len);
        self.device.bytes += bytes;
        if cgroup as usize >= SERIES_MAX {
            return;
        }
        record.latency_series.record(now_ns, now_ns - flight.submitted_ns);
        record.fresh[direction].ios += 1;
        // A request that is at the disk for long moves its bytes all the while.
        if now_ns - flight.dispatched_ns < self.interval_ns {
            record.fresh[direction].bytes += bytes;
        } else {
            record.series[direction].spread(flight.dispatched_ns, now_ns, bytes);
        }
    }

    pub(super) fn in_flight(&mut self, count: u32) {
        self.device.in_flight_max = self.device.in_flight_max.max(count);
    }

    pub(super) fn ended(&mut self, row: u32, access: Access, len: u32, took_ns: u64) {
        self.moved_now(row as usize, access, len);
        let row = &mut self.results.rows[row as usize];
        let transfers = match access {
            Access::Read => &mut row.read,
            Access::Write => &mut row.write,
            Access::Trim => &mut row.trim,
        };
        transfers.add(len, took_ns);
    }

    fn moved_now(&mut self, row: usize, access: Access, len: u32) {
        let direction = match access {
            Access::Read => 0,
            Access::Write => 1,
            Access::Trim => return,
        };
        if row >= SERIES_MAX {
            return;
        }
        if self.fresh_rows.len() <= row {
            self.fresh_rows.resize_with(row + 1, Default::default);
        }
        let fresh = &mut self.fresh_rows[row][direction];
        fresh.bytes += u64::from(len);
        fresh.ios += 1;
    }

    pub(super) fn synced(&mut self, row: u32, took_ns: u64) {
        self.results.rows[row as usize].sync.record(took_ns);
    }

    /// As [`Recorder::ended`], in the `ramp_time`.
    pub(super) fn ended_early(&mut self, process: u32, access: Access, len: u32, took_ns: u64) {
        let early = self.early.entry(process).or_default();
        early.moved[access as usize].add(len, took_ns);
    }

    /// As [`Recorder::synced`], in the `ramp_time`.
    pub(super) fn synced_early(&mut self, process: u32, took_ns: u64) {
        self.early.entry(process).or_default().sync.record(took_ns);
    }

    /// As in fio, all counts of a process that ends in its `ramp_time`.
    fn count_early(&mut self, early: Early, row: u32) {
        let row = &mut self.results.rows[row as usize];
        let rows = row.directions_mut().into_iter();
        rows.zip(&early.moved).for_each(|(row, moved)| row.absorb(moved));
        row.sync.absorb(&early.sync);
    }

    /// Requests and bytes of a row so far, of all directions.
    pub(super) fn moved(&self, row: u32) -> [u64; 2] {
        let row = self.results.rows[row as usize].directions();
        let sum = |of: fn(&Transfers) -> u64| row.iter().map(|(_, moved)| of(moved)).sum();
        [sum(|moved| moved.ios), sum(|moved| moved.bytes)]
    }

    pub(super) fn steady(&mut self, row: u32, steady: Steadiness) {
        let row = &mut self.results.rows[row as usize];
        self.results.notes.push(format!("`{}`: {steady}", row.name));
        row.steady = Some(steady);
    }

    pub(super) fn failed(&mut self, row: u32, error: String) {
        self.results.rows[row as usize].error.get_or_insert(error);
    }

    /// Adds a cgroup that appears during the run.
    pub(super) fn cgroup(&mut self, number: u32, id: CgroupId) {
        if self.cgroups.len() <= number as usize {
            self.cgroups.resize_with(number as usize + 1, CgroupRecord::default);
        }
        self.cgroups[number as usize].id = Some(id);
    }

    /// The row of a new stream: its own, or from [`ROWS_MAX`] on one with all others.
    pub(super) fn stream_row(&mut self, name: &str, cgroup: String) -> u32 {
        let rows = &mut self.results.rows;
        if rows.len() < ROWS_MAX {
            rows.push(Row { name: name.into(), cgroup, processes: 1, ..Row::default() });
        } else if let Some(last) = rows.last_mut() {
            last.name = "(all others)".into();
            last.processes += 1;
        }
        rows.len() as u32 - 1
    }

    pub(super) fn note(&mut self, notes: Vec<String>) {
        self.results.notes.extend(notes);
    }

    pub(super) fn governed(&mut self, governed: Option<GovernResults>) {
        self.results.governed = governed;
    }

    pub(super) fn changed(&mut self, changes: Vec<Changed>) {
        self.results.changes = changes;
    }

    pub(super) fn process_ended(&mut self, now_ns: u64, number: u32, process: &mut Process) {
        if process.is_waiting() || process.begun_ns() > now_ns {
            return;
        }
        let early = self.early.remove(&number);
        if process.has_nothing(now_ns) {
            process.counts_from_ns = process.begun_ns();
            self.count_early(early.unwrap_or_default(), process.row);
        }
        let first_ns = &mut self.first_ns[process.row as usize];
        *first_ns = (*first_ns).min(process.counts_from_ns);
        let row = &mut self.results.rows[process.row as usize];
        if let Some(found) = process.latency_target() {
            row.latency_target = Some(row.latency_target.map_or(found, |other| other.and(found)));
        }
        row.runtime_ns = row.runtime_ns.max(now_ns - *first_ns);
        let (ran_ns, by_direction) = process.ran_ns(now_ns);
        row.processes_ns = row.processes_ns.saturating_add(ran_ns);
        for (transfers, ran_ns) in row.directions_mut().into_iter().zip(by_direction) {
            transfers.runtime_ns = transfers.runtime_ns.max(ran_ns);
        }
    }

    pub(super) fn finish(mut self, now_ns: u64, engine: &Engine, requests: u64) -> Results {
        let busy_ns = engine.device().busy_ns;
        self.sample(now_ns, now_ns, busy_ns, 0);
        for row in &self.results.rows {
            if let Some(found) = row.latency_target {
                self.results.notes.push(format!("`{}`: {found}", row.name));
            }
        }
        let mut results = self.results;
        results.elapsed_ns = now_ns;
        results.requests = requests;
        let job_rows = self.first_ns.len();
        // Streams of a trace last as long as the run.
        for row in &mut results.rows[job_rows..] {
            (row.runtime_ns, row.processes_ns) = (now_ns, now_ns);
            for transfers in row.directions_mut() {
                transfers.runtime_ns = now_ns;
            }
        }
        for row in &mut results.rows {
            for transfers in row.directions_mut() {
                let is_used = transfers.ios > 0;
                transfers.runtime_ns = if is_used { transfers.runtime_ns } else { 0 };
            }
            if let Some(mut mixed) = row.mixed.take() {
                row.directions().into_iter().for_each(|(_, one)| mixed.absorb(one));
                row.mixed = Some(mixed);
            }
        }
        results.cgroups = cgroups(engine, self.cgroups);
        let (is_bfq, stats) = (engine.device().scheduler == SchedulerKind::Bfq, engine.bfq_stats());
        let was_bfq = is_bfq || stats != BfqStats::default();
        results.bfq = was_bfq.then(|| BfqResults { settings: engine.bfq_settings(), stats });
        self.device.busy_ns = busy_ns;
        let watermark = engine.watermark(engine.root()).map(Watermark::percent);
        self.device.watermark_percent = watermark.filter(|&percent| percent > 0);
        results.device = self.device;
        results
    }
}

/// All cgroups of the engine with their records, each including all below it.
fn cgroups(engine: &Engine, records: Vec<CgroupRecord>) -> Vec<CgroupResults> {
    let census = engine.tree_stats();
    let mut places: Vec<(CgroupId, usize)> =
        census.iter().enumerate().map(|(at, entry)| (entry.cgroup, at)).collect();
    places.sort_unstable();
    let place = |id: CgroupId| -> Option<usize> {
        let found = places.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        Some(places[found].1)
    };
    let path =
        |id: CgroupId| place(id).map_or_else(|| "(removed)".into(), |at| census[at].path.clone());
    let mut all: Vec<CgroupResults> = census
        .iter()
        .map(|entry| CgroupResults {
            path: entry.path.clone(),
            limits: engine.limits(entry.cgroup).unwrap_or_default(),
            weight: engine.weight(entry.cgroup).unwrap_or_default().get(),
            limit_waits: limit_waits(&entry.counters, path),
            counters: entry.counters.clone(),
            bfq: entry.bfq,
            latency: Latency::default(),
            latency_by_cause: engine
                .latencies(entry.cgroup)
                .map(|latencies| CauseLatency::all(&latencies))
                .unwrap_or_default(),
            read_series: Series::default(),
            write_series: Series::default(),
            read_ios_series: Series::default(),
            write_ios_series: Series::default(),
            latency_series: LatencySeries::default(),
        })
        .collect();
    for record in records {
        let Some(at) = record.id.and_then(place) else { continue };
        all[at].latency = record.latency;
        [all[at].read_series, all[at].write_series] = record.series;
        [all[at].read_ios_series, all[at].write_ios_series] = record.ios_series;
        all[at].latency_series = record.latency_series;
    }
    // From the leaves up, so that a child is complete before it is added to its parent.
    let parents: Vec<Option<usize>> = parents(&all);
    for at in (0..all.len()).rev() {
        let Some(parent) = parents[at] else { continue };
        let (before, after) = all.split_at_mut(at);
        let (parent, child) = (&mut before[parent], &after[0]);
        parent.latency.absorb(&child.latency);
        parent.read_series.absorb(&child.read_series);
        parent.write_series.absorb(&child.write_series);
        parent.read_ios_series.absorb(&child.read_ios_series);
        parent.write_ios_series.absorb(&child.write_ios_series);
        parent.latency_series.absorb(&child.latency_series);
    }
    all
}

/// Index of each cgroup's parent; parents come before their children.
fn parents(all: &[CgroupResults]) -> Vec<Option<usize>> {
    let mut by_path = BTreeMap::new();
    let mut parents = Vec::with_capacity(all.len());
    for (at, cgroup) in all.iter().enumerate() {
        by_path.insert(cgroup.path.as_str(), at);
        let parent = cgroup.path.rsplit_once('/').map(|(parent, _)| match parent {
            "" => "/",
            parent => parent,
        });
        let is_root = cgroup.path == "/";
        parents.push(parent.filter(|_| !is_root).and_then(|parent| by_path.get(parent).copied()));
    }
    parents
}

fn limit_waits(counters: &Counters, path: impl Fn(CgroupId) -> String) -> Vec<LimitWaits> {
    let waits = counters.blame.limits.iter();
    let mut waits: Vec<LimitWaits> = waits
        .map(|limit| LimitWaits {
            path: path(limit.cgroup),
            wait_ns: Dimension::ALL.map(|dimension| limit.wait_ns[dimension as usize]),
        })
        .collect();
    waits.sort_by(|a, b| a.path.cmp(&b.path));
    waits
}
