//! Stages of a run: starts of processes, and effects of an end on others (`wait_for`, `exitall`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weir_fio::{ExitWhat, Job};
use weir_pagecache::Advice;

use super::calendar::Planned;
use super::world::World;
use crate::scenario::ScenarioError;

/// Dependencies between ends and starts of processes.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Jobs that others wait for, by the place of their first clone.
    awaited: BTreeMap<usize, Awaited>,
    /// Processes whose awaited job has ended, and that were not looked at since.
    due: Vec<usize>,
    /// Whether any job has `exitall`: as in fio, the end of each job ends others then.
    is_exitall: bool,
    /// Places of the processes that an `exitall` has stopped already.
    stopped: BTreeSet<(usize, usize)>,
}

#[derive(Debug)]
struct Awaited {
    end: usize,
    left: usize,
    waiters: Vec<usize>,
}

impl Ends {
    pub(super) fn new(jobs: &[Job]) -> Ends {
        let is_exitall = jobs.iter().any(|job| job.options.exitall);
        let mut ends = Ends { is_exitall, ..Ends::default() };
        let waiters = jobs.iter().enumerate().filter(|(_, job)| !job.wait_for.is_empty());
        for (waiter, Job { wait_for: Range { start, end }, .. }) in waiters {
            let awaited = ends.awaited.entry(*start);
            let awaited = awaited.or_insert_with(|| Awaited {
                end: *end,
                left: end - start,
                waiters: Vec::new(),
            });
            awaited.waiters.push(waiter);
        }
        ends
    }

    /// Whether the job waits for no other any more. O(log jobs).
    fn is_awaited_no_more(&self, job: &Job) -> bool {
        let awaited = self.awaited.get(&job.wait_for.start);
        job.wait_for.is_empty() || awaited.is_none_or(|awaited| awaited.left == 0)
    }

    /// A process has ended. O(log jobs), and O(waiting processes) at the last clone of its job.
    fn ended(&mut self, index: usize) {
        let Some((_, awaited)) = self.awaited.range_mut(..=index).next_back() else { return };
        if index < awaited.end {
            awaited.left -= 1;
            if awaited.left == 0 {
                self.due.append(&mut awaited.waiters);
            }
        }
    }
}

impl World {
    pub(super) fn start_stage(&mut self) {
        while self.stage < self.stages.len() && self.stages[self.stage] == 0 {
            self.stage += 1;
        }
        let stage = self.stage as u32;
        for index in self.those(|job| job.stage, stage) {
            self.start_if_due(index);
        }
    }

    /// The processes whose group or stage is `number`. Both rise from job to job, so they are one range. O(log jobs).
    pub(super) fn those(&self, of: impl Fn(&Job) -> u32, number: u32) -> Range<usize> {
        let jobs = &self.jobs.jobs;
        jobs.partition_point(|job| of(job) < number)..jobs.partition_point(|job| of(job) <= number)
    }

    fn start_if_due(&mut self, index: usize) {
        let job = &self.jobs.jobs[index];
        let is_due = job.stage as usize <= self.stage
            && self.processes[index].is_waiting()
            && self.ends.is_awaited_no_more(job);
        if is_due && !self.pre_reads(index as u32) {
            self.start(index as u32);
        }
    }

    pub(super) fn start(&mut self, process: u32) {
        let at = &mut self.processes[process as usize];
        let at_ns = at.start(self.now_ns);
        // Pages of `pre_read` stay, as in fio.
        if at.plan.options.invalidate && !self.pre_reads.contains_key(&process) {
            for file in at.files.iter() {
                self.cache.invalidate(self.now_ns, file.id);
            }
        }
        let advice = at.plan.advice;
        if advice != Advice::Normal {
            for file in at.files.iter() {
                self.cache.advise(process, file.id, advice);
            }
        }
        self.calendar.plan(at_ns, Planned::Wake(process));
        self.watch_rate(process);
    }

    pub(super) fn process_ended(&mut self, process: u32) -> Result<(), ScenarioError> {
        let index = process as usize;
        let at = &mut self.processes[index];
        self.device.recorder.process_ended(self.now_ns, process, at);
        let mut freed = Vec::new();
        self.flows.leave(process, &mut freed);
        self.wake(freed);
        self.count_end(index);
        let job = &self.jobs.jobs[index];
        let has_failed = self.processes[index].has_failed && job.options.exitall_on_error;
        if self.ends.is_exitall || has_failed {
            let others = match job.options.exit_what {
                ExitWhat::Group => self.those(|job| job.group, job.group),
                ExitWhat::Stonewall => self.those(|job| job.stage, job.stage),
                ExitWhat::All => 0..self.processes.len(),
            };
            if self.ends.stopped.insert((others.start, others.end)) {
                others.filter(|&other| other != index).for_each(|other| self.stop_with(other));
            }
        }
        self.start_next();
        Ok(())
    }

    /// Starts processes whose awaited job has ended.
    pub(super) fn start_next(&mut self) {
        if self.stages[self.stage] == 0 {
            self.start_stage();
        }
        for waiter in std::mem::take(&mut self.ends.due) {
            self.start_if_due(waiter);
        }
    }

    /// Stops a process at the end of another, or at a steady rate; [`World::start_next`] must follow.
    pub(super) fn stop_with(&mut self, other: usize) {
        if self.stop(other as u32) {
            self.count_end(other);
        } else if !self.processes[other].is_done() {
            self.calendar.plan(self.now_ns, Planned::Wake(other as u32));
        }
    }

    fn count_end(&mut self, index: usize) {
        self.ended += 1;
        self.ends.ended(index);
        self.stages[self.jobs.jobs[index].stage as usize] -= 1;
    }
}
