//! Invariants, for tests.

use super::*;

impl Writeback {
    /// Checks the ledger's invariants. O(blocks + items); for tests.
    ///
    /// # Errors
    /// A text that names the first violation.
    pub fn check(&self) -> Result<(), String> {
        self.check_queues()?;
        let most = self.owners.iter().map(|(index, _)| index as usize + 1).max().unwrap_or(0);
        let (mut blocks, mut dirty) = (vec![0; most], vec![0; most]);
        for (at, block) in &self.blocks {
            blocks[block.owner as usize] += 1;
            dirty[block.owner as usize] += u64::from(block.state == State::Dirty);
            if block.since == 0 || block.since > self.stamp {
                return Err(format!("block {at} has bytes from stamp {}", block.since));
            }
            match block.state {
                State::Dirty if block.again != 0 => {
                    return Err(format!("block {at} is dirty, and dirty again"));
                }
                State::Dirty => {}
                State::Queued(id) | State::Writing(id) => {
                    let request = self.requests.get(id.0 as usize).and_then(Option::as_ref);
                    if request.is_none_or(|request| !request.blocks.contains(at)) {
                        return Err(format!("block {at} is pending in no request"));
                    }
                }
            }
        }
        let soon = self.now.plus_nanos(self.settings.retry_ns);
        for (index, owner) in self.owners.iter() {
            let at = index as usize;
            if (owner.blocks, owner.dirty) != (blocks[at], dirty[at]) {
                let (has, counted) = ((blocks[at], dirty[at]), (owner.blocks, owner.dirty));
                return Err(format!("owner {index} has {has:?} blocks, counted {counted:?}"));
            }
            let requests = self.requests.iter().flatten();
            let pending = requests.filter(|request| request.owner == index).count();
            if pending != owner.requests as usize {
                return Err(format!("owner {index} has {pending} requests of {}", owner.requests));
            }
            if owner.waiters.is_empty() == self.waiting_owners.contains(&index) {
                return Err(format!("owner {index} disagrees with the list of waiting owners"));
            }
            // The items of a request's blocks stay until the next call, which may give the request back.
            let chosen = u64::from(self.settings.request_blocks_max.get());
            if self.dirty_queues.len(index) as u64 > 2 * (owner.dirty + chosen) + 64 {
                return Err(format!(
                    "owner {index} has a queue of {}",
                    self.dirty_queues.len(index)
                ));
            }
            // An owner with a waiting write has a block due, unless the device has just failed its blocks.
            if !owner.waiters.is_empty()
                && owner.dirty > 0
                && owner.requests < self.settings.requests_per_owner_max.get()
                && self.dirty_queues.earliest().is_none_or(|due| due > soon)
            {
                return Err(format!("owner {index} waits, and nothing of it is due"));
            }
        }
        let sum: u64 = blocks.iter().sum();
        if sum != self.owners.blocks || sum > u64::from(self.settings.blocks_max.get()) {
            let most = self.settings.blocks_max;
            return Err(format!("{sum} blocks, counted {}, at most {most}", self.owners.blocks));
        }
        Ok(())
    }

    /// Every dirty block is in its owner's queue, and due if a flush waits for it, unless the device has just failed it.
    fn check_queues(&self) -> Result<(), String> {
        let mut due = BTreeMap::new();
        for (index, _) in self.owners.iter() {
            for (deferred, at) in self.dirty_queues.iter(index) {
                if ledger::is_live(&self.blocks, index, deferred) {
                    due.insert(deferred.item, at);
                }
            }
        }
        let soon = self.now.plus_nanos(self.settings.retry_ns);
        for (&at, block) in self.blocks.iter().filter(|(_, block)| block.state == State::Dirty) {
            let Some(&due) = due.get(&at) else {
                return Err(format!("block {at} is dirty, and in no queue"));
            };
            if due > soon && self.barriers.overlook(at, block) {
                return Err(format!("a flush waits for block {at}, which is due at {due:?}"));
            }
        }
        Ok(())
    }
}
