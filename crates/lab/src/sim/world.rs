//! State of a run, and its event loop.

use std::collections::BTreeMap;
use std::iter;
use std::ops::ControlFlow;

use weir_engine::{Change, Class, ClientId, Engine, Extent, Instant, Op, Request, TaskId};
use weir_fio::stream::{Access, Step};
use weir_fio::{JobFile, Submission};
use weir_pagecache::{CacheOp, PageCache, Token};

use super::Progress;
use super::calendar::{Calendar, Planned};
use super::descriptors::{Descriptors, Waiting};
use super::flights::{Flight, Purpose};
use super::flow::Flows;
use super::overlap::Overlaps;
use super::path_delay::PathDelay;
use super::plan::{IoPath, priority};
use super::playback::Playback;
use super::pre_read::PreRead;
use super::process::{Act, Process};
use super::replay::Replay;
use super::setup::Cgroups;
use super::sim_device::{SimDevice, Unjoined};
use super::stages::Ends;
use super::steady::Steadies;
use super::timed_changes::TimedChanges;
use crate::results::Results;
use crate::scenario::{Home, ScenarioError};

/// Least number of events between two calls of `watch`.
const WATCH_EVENTS: u64 = 1 << 16;

/// The same for each process: a call looks at the end of every one.
const WATCH_EVENTS_EACH: u64 = 8;

/// Events without progress of time, for each process, that count as a standstill.
const STANDSTILL_EVENTS: u64 = 1_000_000;

/// Time of a call that ends without the disk, and bytes copied from or to the page cache in a nanosecond: taken for a
/// present-day core, not measured.
pub(super) const CALL_NS: u64 = 500;
pub(super) const COPY_BYTES_PER_NS: u64 = 8;

/// Source of requests: a process, or a stream of a trace. Aligned so that it is never in two cache lines.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(super) struct Actor {
    pub(super) task: TaskId,
    /// Its index among the recorder's rows and cgroups.
    pub(super) row: u32,
    pub(super) cgroup: u32,
    /// Replay and stream; None for processes.
    pub(super) stream: Option<(u32, u32)>,
}

pub(super) struct World {
    pub(super) now_ns: u64,
    pub(super) engine: Engine,
    pub(super) device: SimDevice,
    pub(super) cache: PageCache,
    pub(super) calendar: Calendar,
    /// The processes, by number, and then the streams of traces in the order in which they appear.
    pub(super) actors: Vec<Actor>,
    pub(super) processes: Vec<Process>,
    pub(super) replays: Vec<Replay>,
    pub(super) playback: Option<Box<Playback>>,
    /// By process with `read_iolog`, its replay.
    pub(super) replay_of: BTreeMap<u32, u32>,
    /// `flow`.
    pub(super) flows: Flows,
    /// `serialize_overlap`.
    pub(super) overlaps: Overlaps,
    /// `ioengine=posixaio`.
    pub(super) descriptors: Descriptors,
    /// By process with `pre_read`.
    pub(super) pre_reads: BTreeMap<u32, PreRead>,
    /// `steadystate`.
    pub(super) steadies: Steadies,
    /// By process that forks children for its loops: the client of the present child, and how many there were.
    pub(super) children: BTreeMap<u32, (ClientId, u64)>,
    /// Replays that belong to no process and are not over.
    pub(super) replays_left: u32,
    pub(super) cgroups: Cgroups,
    pub(super) home: Home,
    pub(super) jobs: JobFile,
    pub(super) ends: Ends,
    /// By file, its first byte on the disk.
    pub(super) file_starts: Vec<u64>,
    /// Processes of each stage that have not ended.
    pub(super) stages: Vec<u32>,
    pub(super) stage: usize,
    pub(super) ended: u32,
    pub(super) requests: u64,
    /// Delay with which the engine's deadlines are noticed.
    pub(super) timer_late_ns: u64,
    /// Keys of completed commands; empty between instants.
    pub(super) completed: Vec<u64>,
    pub(super) path_delay: PathDelay,
    pub(super) timed_changes: TimedChanges,
    pub(super) until_ns: u64,
}

impl World {
    pub(super) fn run(
        mut self,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Results, ScenarioError> {
        self.run_events(watch)?;
        Ok(self.finish())
    }

    /// Runs until all processes and replays have ended.
    pub(super) fn run_events(
        &mut self,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(), ScenarioError> {
        for replay in 0..self.replays.len() {
            if self.replays[replay].process.is_none() {
                self.begin_replay(replay as u32, u64::MAX)?;
            }
        }
        self.start_stage();
        let mut events = 0u64;
        let mut since_progress = 0u64;
        let processes = self.processes.len().max(1) as u64;
        let patience = STANDSTILL_EVENTS.saturating_mul(processes);
        let watch_events = WATCH_EVENTS.max(WATCH_EVENTS_EACH * processes);
        let mut timeout = self.turn();
        while (self.ended as usize) < self.processes.len() || self.replays_left > 0 {
            let Some(next_ns) = self.next_ns(timeout) else {
                unreachable!("a process waits for nothing: {:?}", self.engine.check());
            };
            if next_ns > self.until_ns {
                self.now_ns = self.until_ns;
                break;
            }
            if self.device.recorder.is_due(next_ns) {
                let (now_ns, busy_ns) = (self.now_ns, self.engine.device().busy_ns);
                self.device.recorder.sample(now_ns, next_ns, busy_ns, self.device.at_disk);
            }
            if next_ns > self.now_ns {
                self.now_ns = next_ns;
                since_progress = 0;
            }
            let before = events;
            events += self.happen()?;
            timeout = self.turn();
            since_progress += events - before + 1;
            if since_progress > patience {
                let (now_ns, events) = (self.now_ns, since_progress);
                return Err(ScenarioError::Standstill { now_ns, events });
            }
            if before / watch_events != events / watch_events && watch(self.progress()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        Progress {
            now_ns: self.now_ns,
            requests: self.requests,
            ended: self.ended,
            processes: self.processes.len() as u32,
            ends_ns: Some(self.ends_ns().min(self.until_ns)).filter(|&ends_ns| ends_ns < u64::MAX),
        }
    }

    /// Latest end of all processes by their `runtime`s: a stage begins when the one before has ended. O(processes).
    fn ends_ns(&self) -> u64 {
        if self.replays_left > 0 {
            return u64::MAX;
        }
        let mut ends_ns = vec![0; self.stages.len()];
        for (process, job) in self.processes.iter().zip(&self.jobs.jobs) {
            let stage = job.stage as usize;
            let is_later = stage > self.stage;
            let end_ns = match process.is_done() {
                true => 0,
                false if is_later => process.plan.lasts_ns(),
                false => process.ends_ns(),
            };
            ends_ns[stage] = end_ns.max(ends_ns[stage]);
        }
        ends_ns.into_iter().fold(0, u64::saturating_add)
    }

    fn next_ns(&self, timeout: Option<Instant>) -> Option<u64> {
        let timeout_ns =
            timeout.map_or(u64::MAX, |at| at.as_nanos().saturating_add(self.timer_late_ns));
        let disk_ns = self.device.disk.next_event().unwrap_or(u64::MAX);
        let calendar_ns = self.calendar.next_ns().unwrap_or(u64::MAX);
        let cache_ns = self.cache.poll_timeout().unwrap_or(u64::MAX);
        let next_ns = timeout_ns.min(disk_ns).min(calendar_ns).min(cache_ns);
        // Late in a turn something may have become due already.
        (next_ns != u64::MAX).then_some(next_ns.max(self.now_ns))
    }

    /// Handles what is due now, in a fixed order: disk, page cache, calendar. Returns the number of events.
    fn happen(&mut self) -> Result<u64, ScenarioError> {
        let mut events = 0;
        let mut completed = std::mem::take(&mut self.completed);
        completed.extend(iter::from_fn(|| self.device.disk.poll_complete(self.now_ns)));
        events += completed.len() as u64;
        for key in completed.drain(..) {
            self.completed(key as usize)?;
        }
        self.completed = completed;
        if self.cache.poll_timeout().is_some_and(|at_ns| at_ns <= self.now_ns) {
            events += 1;
            self.cache.handle_timeout(self.now_ns);
            self.pump_cache();
        }
        while let Some(planned) = self.calendar.pop_due(self.now_ns) {
            events += 1;
            match planned {
                Planned::Wake(process) => self.go_on(process)?,
                Planned::Deliver(flight) => self.arrived(flight as usize)?,
                Planned::Change(index) => self.change(index),
                Planned::Govern => self.govern(),
                Planned::Rate(row) => self.take_rate(row),
                Planned::Play(number) => self.play(number),
                Planned::Stream(actor) => {
                    if let Some((replay, stream)) = self.actors[actor as usize].stream {
                        self.replays[replay as usize].woken(stream);
                        self.stream_goes_on(replay, stream)?;
                    }
                }
            }
        }
        Ok(events)
    }

    fn turn(&mut self) -> Option<Instant> {
        let now = Instant::from_nanos(self.now_ns);
        match self.playback {
            None => weir_driver::turn(&mut self.engine, now, &mut self.device),
            Some(_) => weir_driver::turn(&mut self.engine, now, &mut Unjoined(&mut self.device)),
        }
    }

    /// Lets a process act until it waits.
    pub(super) fn go_on(&mut self, process: u32) -> Result<(), ScenarioError> {
        loop {
            match self.processes[process as usize].act(self.now_ns) {
                Act::Do(step) => self.make(process, step),
                Act::Sleep(until_ns) => {
                    self.calendar.plan(until_ns, Planned::Wake(process));
                    return Ok(());
                }
                Act::Ask => {
                    if !self.ask_flow(process) {
                        return Ok(());
                    }
                }
                Act::Clear(step) => {
                    if !self.ask_overlaps(process, step) {
                        return Ok(());
                    }
                }
                Act::Take => self.take_batch(process),
                Act::Fork => self.fork(process),
                Act::Wait if self.processes[process as usize].is_replaying() => {
                    let replay = self.replay_of[&process];
                    return self.end_replay_if_over(replay);
                }
                Act::Wait => return Ok(()),
                Act::Replay => {
                    let ends_ns = self.processes[process as usize].ends_ns();
                    let replay = self.replay_of[&process];
                    return self.begin_replay(replay, ends_ns);
                }
                Act::End => return self.process_ended(process),
            }
        }
    }

    /// Whether a process's flow lets it make a request.
    fn ask_flow(&mut self, process: u32) -> bool {
        let at = &mut self.processes[process as usize];
        let options = &at.plan.options;
        let mut freed = Vec::new();
        let weight = options.flow.unwrap_or(1);
        let goes = self.flows.ask(process, options.flow_id, weight, &mut freed);
        if goes {
            at.may_go();
        } else {
            let until_ns = at.must_wait(self.now_ns);
            if until_ns != u64::MAX && at.is_planned_until != until_ns {
                at.is_planned_until = until_ns;
                self.calendar.plan(until_ns, Planned::Wake(process));
            }
        }
        self.wake(freed);
        goes
    }

    /// Whether no request in flight overlaps the process's next one.
    fn ask_overlaps(&mut self, process: u32, step: Step) -> bool {
        let at = &mut self.processes[process as usize];
        if let (Some(with), Step::Io { file, offset, len, .. }) = (at.plan.overlap, step) {
            let start = at.files[file as usize].start + offset;
            if !self.overlaps.enter(process, with, start, len) {
                return false;
            }
        }
        at.cleared();
        true
    }

    pub(super) fn wake(&mut self, processes: Vec<u32>) {
        for process in processes {
            self.calendar.plan(self.now_ns, Planned::Wake(process));
        }
    }

    /// A new child continues in place of a process: a new client in the same cgroup. Requests of the page cache that
    /// are in flight stay with the client before.
    fn fork(&mut self, process: u32) {
        let actor = &mut self.actors[process as usize];
        let (client, count) = self.children.get_mut(&process).expect("a process that forks");
        self.engine.close_task(actor.task);
        self.engine.close_client(*client);
        let id = self.cgroups.id(actor.cgroup);
        *client = self.engine.open_client(id).expect("a cgroup that is there");
        actor.task = self.engine.open_task(*client).expect("a client that was just opened");
        let priority = priority(&self.jobs.jobs[process as usize].options);
        let priority = Change::SetPriority { client: *client, priority };
        let now = Instant::from_nanos(self.now_ns);
        self.engine.reconfigure(now, priority).expect("a client that was just opened");
        *count += 1;
    }

    fn make(&mut self, process: u32, step: Step) {
        let at = &self.processes[process as usize];
        let mut flight = Flight::new(Purpose::Fsync, Op::Flush, process, 0, 0, self.now_ns);
        if at.is_plain
            && let Step::Io { access, file: 0, offset, len } = step
        {
            flight.purpose = Purpose::Io(access);
            flight.op = op_of(access);
            (flight.len, flight.offset) = (len, at.begin + offset);
            return self.submit(flight);
        }
        if at.plan.submission == Submission::OnePerFile
            && let Step::Io { access: Access::Read | Access::Write, file, .. } = step
        {
            let (start, request) =
                (at.files[file as usize].start, Waiting { step, made_ns: self.now_ns });
            if !self.descriptors.enter(process, start, request) {
                return;
            }
        }
        self.serve(process, step, self.now_ns);
    }

    /// A step that a process made at `made_ns` goes to the page cache, the engine or nowhere.
    pub(super) fn serve(&mut self, process: u32, step: Step, made_ns: u64) {
        let at = &self.processes[process as usize];
        let mut flight = Flight::new(Purpose::Fsync, Op::Flush, process, 0, 0, self.now_ns);
        flight.issued_ns = made_ns;
        let (path, syncs_writes) = (at.plan.path, at.plan.syncs_writes);
        match step {
            Step::Io { access, file, offset, len } => {
                let file = at.files[file as usize];
                (flight.len, flight.offset) = (len, file.start + offset);
                flight.op = op_of(access);
                match (path, access) {
                    (IoPath::Nowhere, _) => self.deliver(flight, Purpose::Io(access)),
                    (IoPath::Cached, Access::Read | Access::Write) => {
                        let flight = Flight { purpose: Purpose::Cached(access), ..flight };
                        let token = Token(self.device.flights.insert(flight) as u64);
                        let now_ns = self.now_ns;
                        if access == Access::Read {
                            self.cache.read(now_ns, token, process, file.id, offset, len);
                        } else {
                            let cache = &mut self.cache;
                            cache.write(now_ns, token, process, file.id, offset, len, syncs_writes);
                        }
                        self.pump_cache();
                    }
                    (IoPath::Direct | IoPath::Cached, _) => {
                        if path == IoPath::Cached {
                            self.cache.trim(file.id, offset, len);
                        }
                        flight.purpose = match access {
                            Access::Write if syncs_writes => Purpose::SyncedWrite,
                            access => Purpose::Io(access),
                        };
                        self.submit(flight);
                    }
                }
            }
            Step::Sync { file, .. } => {
                let file = at.files[file as usize];
                match path {
                    IoPath::Nowhere => self.deliver(flight, Purpose::CachedSync),
                    IoPath::Direct => self.submit(flight),
                    IoPath::Cached => {
                        let flight = Flight { purpose: Purpose::CachedSync, ..flight };
                        let token = Token(self.device.flights.insert(flight) as u64);
                        self.cache.sync(self.now_ns, token, process, file.id);
                        self.pump_cache();
                    }
                }
            }
        }
    }

    /// Plans the end of a call of the null engine. A process makes one call at a time, whatever its depth.
    fn deliver(&mut self, mut flight: Flight, purpose: Purpose) {
        flight.purpose = purpose;
        let free_ns = &mut self.processes[flight.actor as usize].free_ns;
        *free_ns = (*free_ns).max(self.now_ns) + CALL_NS;
        let free_ns = *free_ns;
        let key = self.device.flights.insert(flight) as u32;
        self.calendar.plan(free_ns, Planned::Deliver(key));
    }

    pub(super) fn submit(&mut self, flight: Flight) {
        let task = self.actors[flight.actor as usize].task;
        let request = request_of(&flight, task, self.device.flights.next_key());
        self.device.flights.insert(flight);
        self.request(request);
    }

    pub(super) fn submit_again(&mut self, key: usize) {
        let flight = &mut self.device.flights[key];
        flight.submitted_ns = self.now_ns;
        let task = self.actors[flight.actor as usize].task;
        let request = request_of(flight, task, key);
        self.request(request);
    }

    fn request(&mut self, request: Request) {
        self.requests += 1;
        if self.device.governing.is_some() {
            self.count_submitted(&request);
        }
        let taken = self.engine.submit(Instant::from_nanos(self.now_ns), request);
        taken.expect("the engine has room for every queue of every process");
    }

    /// A process makes no further request. True if it is over at once, because it had not started.
    pub(super) fn stop(&mut self, process: u32) -> bool {
        if let Some(&replay) = self.replay_of.get(&process) {
            let replay = &mut self.replays[replay as usize];
            replay.stop_ns = replay.stop_ns.min(self.now_ns);
        }
        self.processes[process as usize].stop(self.now_ns)
    }

    /// Carries requests and completions of the page cache until it has none.
    pub(super) fn pump_cache(&mut self) {
        loop {
            let mut idle = true;
            while let Some(io) = self.cache.poll_io() {
                idle = false;
                let start = self.file_starts[io.file as usize];
                let op = match io.op {
                    CacheOp::Read => Op::Read,
                    CacheOp::Write => Op::Write,
                    CacheOp::Flush => Op::Flush,
                };
                let (purpose, offset) = (Purpose::OfCache, start + io.offset);
                // A reader soon waits for what is read ahead.
                let sync = io.sync || op != Op::Write;
                let flight = Flight::new(purpose, op, io.owner, offset, io.len, self.now_ns);
                self.submit(Flight { sync, issued_ns: io.id, ..flight });
            }
            while let Some(Token(key)) = self.cache.poll_done() {
                idle = false;
                let flight = &self.device.flights[key as usize];
                let copy_ns = CALL_NS + u64::from(flight.len) / COPY_BYTES_PER_NS;
                // One at a time: a process has one processor.
                let free_ns = &mut self.processes[flight.actor as usize].free_ns;
                *free_ns = (*free_ns).max(self.now_ns) + copy_ns;
                self.calendar.plan(*free_ns, Planned::Deliver(key as u32));
            }
            if idle {
                return;
            }
        }
    }

    fn finish(mut self) -> Results {
        let now = Instant::from_nanos(self.now_ns);
        self.engine.handle_timeout(now);
        debug_assert_eq!(self.engine.check(), Ok(()));
        for (number, process) in (0..).zip(&mut self.processes) {
            if !process.is_done() {
                self.device.recorder.process_ended(self.now_ns, number, process);
            }
        }
        let mut children: BTreeMap<&str, u64> = BTreeMap::new();
        for (&process, (_, count)) in &self.children {
            *children.entry(&self.jobs.jobs[process as usize].name).or_default() += count;
        }
        let notes = children.into_iter();
        let notes = notes
            .map(|(name, count)| format!("{count} child processes made the loops of `{name}`"));
        self.device.recorder.note(notes.collect());
        for replay in &self.replays {
            self.device.recorder.note(replay.notes());
            let Some(failure) = replay.failure() else { continue };
            let actors = replay.streams.iter().filter_map(|stream| stream.actor);
            for row in actors.map(|actor| self.actors[actor as usize].row) {
                self.device.recorder.failed(row, failure.clone());
            }
        }
        self.tell_steadies();
        let governed = self.device.governing.take().map(|governing| governing.finish(self.now_ns));
        self.device.recorder.governed(governed);
        let (changed, missed) = self.timed_changes.finish();
        self.device.recorder.changed(changed);
        self.device.recorder.note(missed);
        self.device.recorder.finish(self.now_ns, &self.engine, self.requests)
    }
}

#[inline]
fn request_of(flight: &Flight, task: TaskId, key: usize) -> Request {
    let extent = Extent::new(flight.offset, flight.len);
    let class = if flight.metadata { Class::Metadata } else { Class::Data };
    Request { sync: flight.sync, class, ..Request::new(task, flight.op, extent, key as u64) }
}

fn op_of(access: Access) -> Op {
    match access {
        Access::Read => Op::Read,
        Access::Write => Op::Write,
        Access::Trim => Op::Discard,
    }
}
