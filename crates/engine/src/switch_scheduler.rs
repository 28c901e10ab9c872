//! Switch of the scheduler, or of its settings, while requests wait.

use alloc::vec::Vec;

use crate::bfq::BfqSettings;
use crate::core::Core;
use crate::error::ChangeError;
use crate::requests::{Arriving, Stage};
use crate::types::{Instant, SchedulerKind};

impl Core {
    /// Makes `kind` the scheduler, unless it is already.
    ///
    /// Blame does not change: a request that waits for the device still does.
    pub(crate) fn set_scheduler(&mut self, now: Instant, kind: SchedulerKind) {
        if self.config.scheduler == kind {
            return;
        }
        self.config.scheduler = kind;
        let waiting = self.by_arrival();
        for &(task, index) in &waiting {
            self.scheduler.remove(&mut self.tree, &mut self.requests, task, index);
        }
        self.scheduler.leave(&mut self.tree);
        self.scheduler.replace(&self.config);
        // Before any insertion, since a flow with requests at the device has not paused.
        for (index, record) in self.requests.iter() {
            if record.stage == Stage::Dispatched {
                self.scheduler.adopt(&self.tree, &self.requests, index);
            }
        }
        for (task, index) in waiting {
            let request = self.requests[index].request;
            let arriving = Arriving { request: &request, task, index };
            self.scheduler.insert(now, &mut self.tree, &mut self.requests, arriving);
        }
    }

    /// Applies settings of BFQ.
    ///
    /// # Errors
    ///
    /// Other rules of merging than those by which flows have merged.
    pub(crate) fn set_bfq(&mut self, settings: BfqSettings) -> Result<(), ChangeError> {
        let is_bfq = self.config.scheduler != SchedulerKind::None;
        if is_bfq && settings.merging().rules != self.config.bfq.merging().rules {
            return Err(ChangeError::MergeRules);
        }
        self.config.bfq = settings;
        self.scheduler.set_bfq(&settings);
        Ok(())
    }

    /// Requests that wait for the device, with their tasks, by the time since when they wait. Within a task in order
    /// of arrival, at one instant by task.
    fn by_arrival(&mut self) -> Vec<(u32, u32)> {
        self.scheduler.spill_fast_path(&mut self.tree, &mut self.requests);
        let mut waiting = Vec::with_capacity(self.scheduler.len() as usize);
        for (task, flow) in self.tree.tasks.iter() {
            let ready = flow.ready.iter(&mut self.requests);
            waiting.extend(ready.map(|index| (task, index)));
        }
        // The sort is stable, and each task's list is in order.
        waiting.sort_by_key(|&(_, index)| self.requests[index].since);
        waiting
    }
}
