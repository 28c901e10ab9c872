//! Another scheduler, or other settings of it, while requests wait.

use alloc::vec::Vec;

use super::{Arriving, SchedulerKind};
use crate::bfq::BfqSettings;
use crate::core::Core;
use crate::error::ChangeError;
use crate::requests::Stage;
use crate::time::Instant;

impl Core {
    /// Lets `kind` choose from now on; nothing happens if it does already.
    ///
    /// Blame is not touched: whoever waited for the device waits for it still.
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
        // Before any is inserted: a flow with requests at the device is not one that has been away.
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

    /// Other settings of BFQ.
    ///
    /// # Errors
    /// Rules of merging that differ from those by which flows have merged.
    pub(crate) fn set_bfq(&mut self, settings: BfqSettings) -> Result<(), ChangeError> {
        let is_bfq = self.config.scheduler == SchedulerKind::Bfq;
        if is_bfq && settings.merging().rules != self.config.bfq.merging().rules {
            return Err(ChangeError::MergeRules);
        }
        self.config.bfq = settings;
        self.scheduler.set_bfq(&settings);
        Ok(())
    }

    /// What waits for the device, each with its task: by the time at which it came to wait, those of one task as they
    /// came, and among tasks of one instant the older task first.
    fn by_arrival(&mut self) -> Vec<(u32, u32)> {
        self.scheduler.spill_fast_path(&mut self.tree, &mut self.requests);
        let mut waiting = Vec::with_capacity(self.scheduler.len() as usize);
        for (task, flow) in self.tree.tasks.iter() {
            let ready = flow.ready.iter(&mut self.requests);
            waiting.extend(ready.map(|index| (task, index)));
        }
        // Stable, and within a task the list is in order already.
        waiting.sort_by_key(|&(_, index)| self.requests[index].since);
        waiting
    }
}
