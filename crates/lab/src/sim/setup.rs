//! Set-up of a run: from a scenario to a world before its first event.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use weir_engine::{CgroupId, Change, Engine, Instant, Path, SchedulerKind, Weight};
use weir_fio::random::Random;
use weir_fio::stream::Stream;
use weir_fio::{IoEngine, Job, JobFile, Options, Submission, SubmitMode, UnifiedReporting};
use weir_pagecache::PageCache;

use super::calendar::Calendar;
use super::counted;
use super::flights::Flights;
use super::govern::Governing;
use super::layout::{self, FileAt};
use super::path_delay::PathDelay;
use super::plan::{Plan, priority};
use super::process::Process;
use super::recorder::Recorder;
use super::replay::Replay;
use super::search;
use super::sim_device::SimDevice;
use super::stages::Ends;
use super::steady;
use super::timed_changes::{self, TimedChanges};
use super::world::{Actor, World};
use crate::results::{Results, Row, Transfers};
use crate::scenario::{Home, Scenario, ScenarioError, Timing, Trace, Work};

/// Alignment that `O_DIRECT` requires on most disks.
const SECTOR_BYTES: u64 = 512;

/// Room in the engine for requests of the page cache; more than it ever has in flight.
const CACHE_REQUESTS: u64 = 1 << 24;

pub(super) fn world(scenario: &Scenario) -> Result<World, ScenarioError> {
    let none = JobFile { jobs: Vec::new(), ignored: Vec::new() };
    let jobs = match &scenario.work {
        Work::Jobs(jobs) => jobs,
        Work::Trace(_) => &none,
    };
    let disk = scenario.disk.build();
    let layout = layout::lay_out(jobs, disk.capacity(), scenario.seed)?;
    let mut calendar = Calendar::default();
    let timed_changes = TimedChanges::new(scenario, &mut calendar)?;
    let mut engine = Engine::new(engine_config(scenario, jobs), Instant::ZERO);
    let mut cgroups = Cgroups::new(&mut engine, scenario)?;
    let governing = match &scenario.govern {
        Some(govern) => {
            Some(Box::new(Governing::new(scenario, govern, &mut engine, &mut calendar)?))
        }
        None => None,
    };
    let mut file_starts = vec![0; layout.sizes.len()];
    let mut cache = PageCache::new(scenario.cache);
    for file in layout.of_job.iter().flatten() {
        file_starts[file.id as usize] = file.start;
        cache.set_file_size(file.id, file.len);
    }

    let mut plans: BTreeMap<*const Options, Arc<Plan>> = BTreeMap::new();
    let mut processes = Vec::with_capacity(jobs.jobs.len());
    let mut actors = Vec::with_capacity(jobs.jobs.len());
    let mut children = BTreeMap::new();
    let mut replays = Vec::new();
    let mut replay_of = BTreeMap::new();
    let mut rows = rows(jobs);
    let steadies = steady::watched(&jobs.jobs, &rows.of_job)?;
    let mut row_cgroups = vec![None; rows.rows.len()];
    for (index, (job, files)) in jobs.jobs.iter().zip(&layout.of_job).enumerate() {
        let forks = scenario.forks.iter().any(|name| **name == *job.name);
        let plan = plans
            .entry(Arc::as_ptr(&job.options))
            .or_insert_with(|| Arc::new(Plan::new(job, scenario.machine, forks)));
        let files: Arc<[FileAt]> = files.as_slice().into();
        let sizes: Vec<u64> = files.iter().map(|file| file.len).collect();
        let refuse = |reason: String| ScenarioError::Job {
            job: job.name.to_string(),
            line: job.line,
            reason,
        };
        if let Some(reason) = search::refusal(job) {
            return Err(refuse(reason.into()));
        }
        let stream = match &job.options.read_iolog {
            Some(path) => {
                let replay = Replay::new(&iolog(path, &job.options), disk.capacity());
                let mut replay = replay.map_err(|error| refuse(format!("read_iolog: {error}")))?;
                replay.process = Some(index as u32);
                replay_of.insert(index as u32, replays.len() as u32);
                replays.push(replay);
                None
            }
            None => {
                let mut job = job.clone();
                if forks {
                    // A child makes one loop; the process forks others.
                    let options = Arc::make_mut(&mut job.options);
                    (options.time_based, options.loops) = (false, 1);
                }
                let stream = Stream::new(&job, &sizes, scenario.seed);
                Some(stream.map_err(|error| refuse(error.to_string()))?)
            }
        };
        let cgroup = cgroups.of_job(&mut engine, job, &scenario.home)?;
        let id = cgroups.ids[cgroup as usize];
        let client = engine.open_client(id).expect("a cgroup that was just made");
        let priority = Change::SetPriority { client, priority: priority(&job.options) };
        engine.reconfigure(Instant::ZERO, priority).expect("a client that was just opened");
        let task = engine.open_task(client).expect("a client that was just opened");
        if forks {
            children.insert(index as u32, (client, 1));
        }
        let row = rows.of_job[index];
        if row_cgroups[row as usize].replace(id) != Some(id) {
            let path = engine.cgroup_path(id).expect("a cgroup that is there");
            rows.rows[row as usize].widen_to(path);
        }
        // Not the numbers of the stream, nor of another process.
        let random =
            Random::new(scenario.seed ^ (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        actors.push(Actor { task, row, cgroup, stream: None });
        processes.push(Process::new(plan.clone(), files, stream, row, random));
    }

    let mut stages = vec![0; jobs.jobs.iter().map(|job| job.stage as usize + 1).max().unwrap_or(0)];
    for job in &jobs.jobs {
        stages[job.stage as usize] += 1;
    }
    let results = Results {
        title: scenario.title.clone(),
        disk: scenario.disk.to_string(),
        scheduler: scenario.engine.scheduler.name().into(),
        depth: scenario.engine.depth.get(),
        seed: scenario.seed,
        way_ns: scenario.path_delay.mean_ns(),
        way_each_ns: scenario.path_delay.each_ns,
        rows: rows.rows,
        notes: notes(jobs, layout.unsized_jobs, scenario.engine.scheduler),
        ..Results::default()
    };
    let mut replays_left = 0;
    if let Work::Trace(trace) = &scenario.work {
        replays.push(Replay::new(trace, disk.capacity())?);
        replays_left = 1;
    }
    Ok(World {
        now_ns: 0,
        actors,
        replays,
        playback: None,
        replay_of,
        flows: Default::default(),
        overlaps: Default::default(),
        descriptors: Default::default(),
        pre_reads: BTreeMap::new(),
        children,
        steadies,
        replays_left,
        home: scenario.home.clone(),
        device: SimDevice {
            disk,
            flights: Flights::default(),
            recorder: Recorder::new(results, &cgroups.ids),
            at_disk: 0,
            command: None,
            governing,
        },
        cgroups,
        engine,
        cache,
        calendar,
        timed_changes,
        processes,
        ends: Ends::new(&jobs.jobs),
        jobs: jobs.clone(),
        file_starts,
        stages,
        stage: 0,
        ended: 0,
        requests: 0,
        timer_late_ns: scenario.machine.timer_late_ns,
        completed: Vec::new(),
        path_delay: PathDelay::new(&scenario.path_delay, scenario.seed),
        until_ns: scenario.until_ns.unwrap_or(u64::MAX),
    })
}

/// The scenario's engine, with room for all requests of all jobs: queues are the jobs' own, and none is refused.
fn engine_config(scenario: &Scenario, jobs: &JobFile) -> weir_engine::Config {
    let mut config = scenario.engine;
    config.rotational = scenario.disk.is_rotational();
    config.piece_bytes_max = Some(weir_driver::PIECE_BYTES_MAX);
    let depths: u64 = jobs.jobs.iter().map(|job| u64::from(job.options.depth()) + 1).sum();
    let room = u32::try_from(depths.saturating_add(CACHE_REQUESTS)).unwrap_or(u32::MAX);
    let room = config.requests_max.max(NonZeroU32::new(room).unwrap_or(NonZeroU32::MAX));
    config.requests_max = room;
    config.requests_per_task_max = room;
    config
}

/// The trace of a job's `read_iolog`, with fio's `replay_` options.
fn iolog(path: &str, options: &Options) -> Trace {
    let timing = match (options.replay_no_stall, options.replay_time_scale) {
        (true, _) => Timing::Asap,
        (false, 100) => Timing::Original,
        (false, percent) => Timing::Percent(percent),
    };
    Trace {
        timing,
        depth: options.depth().max(1),
        offset_divisor: options.replay_scale,
        align: options.replay_align,
        skip: options.replay_skip,
        ..Trace::new(path)
    }
}

/// Cgroups with requests, numbered as in the recorder.
pub(super) struct Cgroups {
    ids: Vec<CgroupId>,
    places: BTreeMap<String, u32>,
}

impl Cgroups {
    /// Creates the scenario's cgroups, with their limits.
    fn new(engine: &mut Engine, scenario: &Scenario) -> Result<Cgroups, ScenarioError> {
        for setting in &scenario.cgroups {
            timed_changes::set_up(engine, setting)?;
        }
        Ok(Cgroups { ids: Vec::new(), places: BTreeMap::new() })
    }

    fn number(&mut self, engine: &mut Engine, path: &Path) -> Result<u32, ScenarioError> {
        let name = path.to_string();
        if let Some(&number) = self.places.get(&name) {
            return Ok(number);
        }
        let id = engine.ensure_cgroup(path).map_err(|error| ScenarioError::Cgroup {
            path: name.clone(),
            reason: error.to_string(),
        })?;
        let number = self.ids.len() as u32;
        self.ids.push(id);
        self.places.insert(name, number);
        Ok(number)
    }

    pub(super) fn id(&self, number: u32) -> CgroupId {
        self.ids[number as usize]
    }

    /// The cgroup of a trace's stream: home, or one of its own.
    pub(super) fn of_stream(
        &mut self,
        engine: &mut Engine,
        name: &str,
        home: &Home,
    ) -> Result<u32, ScenarioError> {
        match home {
            Home::Shared(path) => self.number(engine, path),
            Home::PerJob => self.named(engine, &name.replace('/', "_")),
        }
    }

    fn named(&mut self, engine: &mut Engine, name: &str) -> Result<u32, ScenarioError> {
        let text = format!("/{}", name.trim_start_matches('/'));
        let path = Path::parse(&text)
            .map_err(|error| ScenarioError::Cgroup { path: text, reason: error.to_string() })?;
        self.number(engine, &path)
    }

    /// The cgroup of a job: its `cgroup`, with its `cgroup_weight`, or home.
    fn of_job(
        &mut self,
        engine: &mut Engine,
        job: &Job,
        home: &Home,
    ) -> Result<u32, ScenarioError> {
        let named = match (&job.options.cgroup, home) {
            (Some(name), _) => name,
            (None, Home::PerJob) => &job.name,
            (None, Home::Shared(path)) => return self.number(engine, path),
        };
        let number = self.named(engine, named)?;
        if let Some(weight) = job.options.cgroup_weight {
            let weight = Weight::new(u64::from(weight)).map_err(|error| ScenarioError::Job {
                job: job.name.to_string(),
                line: job.line,
                reason: format!("cgroup_weight: {error}"),
            })?;
            let change = Change::SetWeight { cgroup: self.ids[number as usize], weight };
            engine.reconfigure(Instant::ZERO, change).expect("a weight of a cgroup that is there");
        }
        Ok(number)
    }
}

/// Rows of the report, and the row of each job.
struct Rows {
    rows: Vec<Row>,
    of_job: Vec<u32>,
}

/// One row for each job, or for all jobs of a group if the first of them has `group_reporting`.
fn rows(jobs: &JobFile) -> Rows {
    let mut rows: Vec<Row> = Vec::new();
    let mut of_job = Vec::with_capacity(jobs.jobs.len());
    let mut of_group: BTreeMap<u32, u32> = BTreeMap::new();
    for job in &jobs.jobs {
        let options = &job.options;
        let shared = options.group_reporting.then(|| of_group.get(&job.group).copied()).flatten();
        let at = shared.unwrap_or_else(|| {
            rows.push(Row {
                name: job.name.to_string(),
                group: job.group,
                clone: job.clone,
                options: job.said.to_vec(),
                mixed: (options.unified_rw_reporting != UnifiedReporting::None)
                    .then(Transfers::default),
                is_unified: options.unified_rw_reporting == UnifiedReporting::Mixed,
                ..Row::default()
            });
            rows.len() as u32 - 1
        });
        if options.group_reporting {
            of_group.insert(job.group, at);
        }
        let row = &mut rows[at as usize];
        row.processes += 1;
        row.depth = row.depth.max(options.depth());
        of_job.push(at);
    }
    Rows { rows, of_job }
}

/// Options that shape I/O in fio and have less effect, or none, here.
fn without_effect(
    options: &Options,
    scheduler: SchedulerKind,
) -> Vec<(&'static str, &'static str)> {
    let priority = "the scheduler `none` knows no priorities";
    let has_none = scheduler == SchedulerKind::None;
    let searches = options.read_iolog.is_some() && !options.latency_target.time.is_zero();
    let thinks = options.read_iolog.is_some() && !options.thinktime.pause.is_zero();
    let is_deep = options.iodepth > 1 && options.read_iolog.is_none() && !options.create_only;
    let is_inline = options.submit_mode == SubmitMode::Inline;
    let all = [
        (
            is_deep && is_inline && options.is_synchronous(),
            "iodepth",
            "a synchronous engine has one request at a time",
        ),
        (
            is_deep && options.submission() == Submission::Blocking,
            "iodepth",
            "Linux serves buffered requests of libaio one at a time, within the call that submits them; with `direct=1` \
             or `ioengine=io_uring` they go together",
        ),
        (
            is_deep && options.submission() == Submission::OnePerFile,
            "iodepth",
            "glibc serves the requests of posixaio one at a time in each file; with `ioengine=libaio` and `direct=1`, or \
             `ioengine=io_uring`, they go together",
        ),
        (thinks, "thinktime", "a replay has the pauses of its trace, and no others"),
        (searches, "latency_target", "a replay has the depth of its trace"),
        (has_none && options.prio.is_some(), "prio", priority),
        (has_none && options.prioclass.is_some(), "prioclass", priority),
    ];
    all.into_iter().filter(|(is_set, ..)| *is_set).map(|(_, name, reason)| (name, reason)).collect()
}

/// Notes on engines that are taken for another, and on requests that Linux would refuse.
fn engine_notes(options: &Options) -> Vec<String> {
    let mut notes = Vec::new();
    match options.engine {
        IoEngine::Null => notes.push(
            "`ioengine=null`: its requests end in the process, one after the other in 500 ns each; page cache, limits \
             and disk see none of them"
                .into(),
        ),
        IoEngine::Userspace { name, is_synchronous } => {
            let at_a_time = if is_synchronous { "one at a time" } else { "`iodepth` at a time" };
            notes.push(format!(
                "`ioengine={name}`: its requests are taken as direct ones to the disk, {at_a_time}; library, network and \
                 server take no time but what `--set way=TIME` says"
            ));
        }
        IoEngine::Nbd => {}
        _ if options.direct && !options.block_min().is_multiple_of(SECTOR_BYTES) => {
            let block = counted(options.block_min(), "byte", "bytes");
            notes.push(format!(
                "`direct=1` with requests of {block}: Linux refuses those that are no multiple of a sector \
                 ({SECTOR_BYTES} bytes), and here they are made"
            ));
        }
        _ => {}
    }
    notes
}

fn notes(jobs: &JobFile, unsized_jobs: u32, scheduler: SchedulerKind) -> Vec<String> {
    let mut notes: Vec<String> = jobs
        .ignored
        .iter()
        .map(|ignored| {
            let place = ignored.place.words();
            format!("{place}: `{}` has no effect here: {}", ignored.option, ignored.reason)
        })
        .collect();
    let mut add = |note: String| {
        if !notes.contains(&note) {
            notes.push(note);
        }
    };
    // Clones share their options.
    for job in jobs.jobs.iter().filter(|job| job.clone == 0) {
        for (option, reason) in without_effect(&job.options, scheduler) {
            add(format!("`{option}` has no effect here: {reason}"));
        }
        engine_notes(&job.options).into_iter().for_each(&mut add);
        if job.options.create_only {
            add(format!("`create_only`: `{}` lays out its files and makes no request", job.name));
        }
    }
    if unsized_jobs > 0 {
        let jobs = counted(unsized_jobs.into(), "job", "jobs");
        notes.push(format!("{jobs} without `size`: the whole disk"));
    }
    notes
}
