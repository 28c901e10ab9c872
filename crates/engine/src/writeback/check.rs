//! Invariants, for tests.

use alloc::format;
use alloc::string::String;
use alloc::vec;

use super::*;

impl Writeback {
    /// Looks for contradictions in the books. O(everything).
    ///
    /// # Errors
    /// A text that says what does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.check_rows()?;
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
                        return Err(format!("block {at} is on its way with no request"));
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
            let on_way = requests.filter(|request| request.owner == index).count();
            if on_way != owner.requests as usize {
                return Err(format!("owner {index} has {on_way} requests of {}", owner.requests));
            }
            if owner.waiters.is_empty() == self.crowd.contains(&index) {
                return Err(format!("owner {index} waits and does not stand in the crowd"));
            }
            // A request's blocks stay in their row until the next call, which may give them back.
            let chosen = u64::from(self.settings.request_blocks_max.get());
            if self.deferral.len(index) as u64 > 2 * (owner.dirty + chosen) + 64 {
                return Err(format!("owner {index} has a row of {}", self.deferral.len(index)));
            }
            // Whoever waits has something due, but for what the device has failed just now.
            if !owner.waiters.is_empty()
                && owner.dirty > 0
                && owner.requests < self.settings.requests_per_owner_max.get()
                && self.deferral.earliest().is_none_or(|due| due > soon)
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
    /// Every dirty block stands in its owner's row, and what a flush waits for is due, but for what the device has failed
    /// just now.
    fn check_rows(&self) -> Result<(), String> {
        let mut due = BTreeMap::new();
        for (index, _) in self.owners.iter() {
            for (deferred, at) in self.deferral.iter(index) {
                if books::is_live(&self.blocks, index, deferred) {
                    due.insert(deferred.item, at);
                }
            }
        }
        let soon = self.now.plus_nanos(self.settings.retry_ns);
        for (&at, block) in self.blocks.iter().filter(|(_, block)| block.state == State::Dirty) {
            let Some(&due) = due.get(&at) else {
                return Err(format!("block {at} is dirty, and in no row"));
            };
            if due > soon && self.barriers.overlook(at, block) {
                return Err(format!("a flush waits for block {at}, which is due at {due:?}"));
            }
        }
        Ok(())
    }
}
