//! Completions: requests that are back from the disk, and the processes that they let continue.

use weir_engine::{Instant, Op, Outcome};
use weir_fio::Submission;
use weir_fio::stream::Access;

use super::calendar::Planned;
use super::flights::{Flight, NO_FLIGHT, Purpose};
use super::process::Done;
use super::search::Verdict;
use super::world::{Actor, World};
use crate::scenario::ScenarioError;

impl World {
    /// The disk has finished a command: a request, and those joined to it.
    pub(super) fn completed(&mut self, key: usize) -> Result<(), ScenarioError> {
        self.device.at_disk -= 1;
        if let Some(governing) = &mut self.device.governing {
            governing.counting.ended(self.now_ns);
        }
        let mut next = key as u32;
        while next != NO_FLIGHT {
            next = self.request_completed(next as usize)?;
        }
        Ok(())
    }

    /// Returns the key of the request joined to it.
    fn request_completed(&mut self, key: usize) -> Result<u32, ScenarioError> {
        let now = Instant::from_nanos(self.now_ns);
        let flight = &mut self.device.flights[key];
        let next = std::mem::replace(&mut flight.joined, NO_FLIGHT);
        let ticket = flight.ticket.take().expect("only what is at the disk ends there");
        let (actor, op, dispatched_ns) = (flight.actor, flight.op, flight.dispatched_ns);
        let is_whole = self.engine.complete(now, ticket, Outcome::Done);
        if let Some(governing) = &mut self.device.governing {
            governing.counting.completed(self.now_ns, actor, key, op, dispatched_ns, is_whole);
        }
        if !is_whole {
            // Another piece of it goes to the disk later.
            return Ok(next);
        }
        let cgroup = self.actors[actor as usize].cgroup;
        self.device.recorder.at_disk(self.now_ns, cgroup, flight);
        if self.path_delay.takes_time() {
            let at_ns = self.path_delay.arrival_ns(self.now_ns);
            self.calendar.plan(at_ns, Planned::Deliver(key as u32));
            return Ok(next);
        }
        self.arrived(key)?;
        Ok(next)
    }

    pub(super) fn arrived(&mut self, key: usize) -> Result<(), ScenarioError> {
        let flight = &mut self.device.flights[key];
        match flight.purpose {
            Purpose::OfCache => {
                let io = self.device.flights.remove(key).issued_ns;
                self.cache.completed(self.now_ns, io);
                self.pump_cache();
            }
            Purpose::SyncedWrite => {
                flight.purpose = Purpose::FlushOfWrite;
                flight.op = Op::Flush;
                self.submit_again(key);
            }
            _ => return self.ended(key),
        }
        Ok(())
    }

    /// A request of a process or a stream has ended.
    fn ended(&mut self, key: usize) -> Result<(), ScenarioError> {
        let flight = self.device.flights.remove(key);
        let actor = self.actors[flight.actor as usize];
        let access = match flight.purpose {
            Purpose::PreRead => {
                self.pre_read_on(flight.actor);
                return Ok(());
            }
            Purpose::Played => {
                self.played(&flight);
                return Ok(());
            }
            Purpose::Io(access) | Purpose::Cached(access) => access,
            Purpose::FlushOfWrite => Access::Write,
            Purpose::Fsync | Purpose::CachedSync => return self.synced(flight, actor),
            Purpose::SyncedWrite | Purpose::OfCache => unreachable!("they end at the disk"),
        };
        let Flight { len, offset, issued_ns, .. } = flight;
        let done = Done { access, len, offset, issued_ns };
        if let Some((replay, stream)) = actor.stream {
            // The process of a `read_iolog`, if any, counts it.
            let process = self.replays[replay as usize].process;
            self.account(actor.row, process, done);
            self.replays[replay as usize].completed(stream, self.now_ns);
            return self.stream_goes_on(replay, stream);
        }
        let process = &mut self.processes[flight.actor as usize];
        if process.is_plain {
            process.took(1);
            self.account(actor.row, Some(flight.actor), done);
            return self.go_on(flight.actor);
        }
        if process.plan.submission == Submission::OnePerFile
            && access != Access::Trim
            && let Some(next) = self.descriptors.leave(flight.actor, offset)
        {
            self.serve(flight.actor, next.step, next.made_ns);
        }
        let process = &mut self.processes[flight.actor as usize];
        if process.plan.has_calls {
            let ends_call = process.ends_call(access);
            if ends_call && process.plan.submission != Submission::Blocking {
                process.took(1);
                self.account(actor.row, Some(flight.actor), done);
            } else {
                process.put_aside(done);
            }
            return match self.processes[flight.actor as usize].is_in_call() {
                true => Ok(()),
                false => self.go_on(flight.actor),
            };
        }
        if process.plan.batch > 1 {
            process.put_aside(done);
            if !process.has_batch() {
                return Ok(());
            }
            self.take_batch(flight.actor);
        } else {
            process.took(1);
            self.account(actor.row, Some(flight.actor), done);
        }
        self.go_on(flight.actor)
    }

    fn synced(&mut self, flight: Flight, actor: Actor) -> Result<(), ScenarioError> {
        let process = match actor.stream {
            None => Some(flight.actor),
            Some((replay, _)) => self.replays[replay as usize].process,
        };
        let counts_from_ns =
            process.map_or(0, |process| self.processes[process as usize].counts_from_ns);
        let took_ns = self.now_ns - flight.issued_ns;
        match process {
            Some(process) if self.now_ns < counts_from_ns => {
                self.device.recorder.synced_early(process, took_ns);
            }
            _ => self.device.recorder.synced(actor.row, took_ns),
        }
        if let Some((replay, stream)) = actor.stream {
            self.replays[replay as usize].completed(stream, self.now_ns);
            return self.stream_goes_on(replay, stream);
        }
        let process = &mut self.processes[flight.actor as usize];
        process.synced();
        // Requests that ended during the fsync could not be taken.
        if !process.plan.has_calls && process.has_batch() {
            self.take_batch(flight.actor);
        }
        self.go_on(flight.actor)
    }

    pub(super) fn take_batch(&mut self, process: u32) {
        let at = &mut self.processes[process as usize];
        let count = at.take_count();
        let mut batch = std::mem::take(at.aside());
        at.took(count as u32);
        let row = at.row;
        for &done in &batch[..count] {
            self.account(row, Some(process), done);
        }
        batch.drain(..count);
        *self.processes[process as usize].aside() = batch;
    }

    /// Records an ended request, and hands it to its process if there is one.
    fn account(&mut self, row: u32, process: Option<u32>, done: Done) {
        let Done { access, len, .. } = done;
        let took_ns = self.now_ns - done.issued_ns;
        let Some(number) = process else {
            return self.device.recorder.ended(row, access, len, took_ns);
        };
        let process = &mut self.processes[number as usize];
        if self.now_ns >= process.counts_from_ns {
            self.device.recorder.ended(row, access, len, took_ns);
        } else {
            self.device.recorder.ended_early(number, access, len, took_ns);
        }
        if process.is_plain {
            return;
        }
        if process.plan.latency_max_ns.is_some_and(|most| took_ns > most) {
            let error = format!("a request took {took_ns} ns, more than its max_latency");
            self.fail(number, error);
        } else if let Some(error) = process.moved(self.now_ns, access, len) {
            self.fail(number, error);
        }
        match self.processes[number as usize].searched(self.now_ns, took_ns) {
            Verdict::Go | Verdict::Count => {}
            Verdict::Over => {
                self.stop(number);
            }
            Verdict::Fail => {
                let error = format!(
                    "a request took {took_ns} ns, more than its latency_target, at a depth of 1"
                );
                self.fail(number, error);
            }
        }
        if let Some(with) = self.processes[number as usize].plan.overlap {
            let mut freed = Vec::new();
            self.overlaps.leave(number, with, done.offset, len, &mut freed);
            self.wake(freed);
        }
    }

    fn fail(&mut self, process: u32, error: String) {
        let at = &mut self.processes[process as usize];
        at.has_failed = true;
        self.device.recorder.failed(at.row, error);
        self.stop(process);
    }
}
