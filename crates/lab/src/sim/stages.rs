//! Who starts when, and what an end means to others: stages, `wait_for`, `exitall`.

use super::calendar::Planned;
use super::world::World;
use crate::fio::ExitWhat;
use crate::scenario::ScenarioError;

impl World {
    pub(super) fn start_stage(&mut self) {
        while self.stage < self.stages.len() && self.stages[self.stage] == 0 {
            self.stage += 1;
        }
        for index in 0..self.processes.len() {
            self.start_if_due(index);
        }
    }

    fn start_if_due(&mut self, index: usize) {
        let job = &self.jobs.jobs[index];
        let is_due = job.stage as usize <= self.stage
            && self.processes[index].is_waiting()
            && job.wait_for.clone().all(|other| self.processes[other].is_done());
        if is_due && !self.pre_reads(index as u32) {
            self.start(index as u32);
        }
    }

    pub(super) fn start(&mut self, process: u32) {
        let at = &mut self.processes[process as usize];
        let at_ns = at.start(self.now_ns);
        // Not what was read for it, as in fio.
        if at.plan.options.invalidate && !self.pre_reads.contains_key(&process) {
            for file in at.files.iter() {
                self.cache.invalidate(self.now_ns, file.id);
            }
        }
        self.calendar.plan(at_ns, Planned::Wake(process));
    }

    pub(super) fn process_ended(&mut self, process: u32) -> Result<(), ScenarioError> {
        let index = process as usize;
        let at = &self.processes[index];
        self.desk.recorder.process_ended(self.now_ns, at);
        let mut freed = Vec::new();
        self.flows.leave(process, &mut freed);
        self.wake(freed);
        self.count_end(index);
        let job = &self.jobs.jobs[index];
        if job.options.exitall {
            let (group, stage, what) = (job.group, job.stage, job.options.exit_what);
            for other in 0..self.processes.len() {
                let job = &self.jobs.jobs[other];
                let with = match what {
                    ExitWhat::Group => job.group == group,
                    ExitWhat::Stonewall => job.stage == stage,
                    ExitWhat::All => true,
                };
                if with && other != index {
                    if self.stop(other as u32) {
                        self.count_end(other);
                    } else if !self.processes[other].is_done() {
                        self.calendar.plan(self.now_ns, Planned::Wake(other as u32));
                    }
                }
            }
        }
        if self.stages[self.stage] == 0 {
            self.start_stage();
        } else if self.has_waits {
            for other in 0..self.processes.len() {
                if self.jobs.jobs[other].wait_for.contains(&index) {
                    self.start_if_due(other);
                }
            }
        }
        Ok(())
    }

    fn count_end(&mut self, index: usize) {
        self.ended += 1;
        self.stages[self.jobs.jobs[index].stage as usize] -= 1;
    }
}
