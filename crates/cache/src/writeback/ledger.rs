//! Accounts of [`Writeback`]: changes of a block's state and owner.

use super::barrier::Wanted;
use super::*;

impl Writeback {
    pub(super) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    pub(super) fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// Number of blocks by which a write would increase the owner's, and the cache's.
    pub(super) fn growth(&self, index: u32, blocks: &Range<u64>) -> (u64, u64) {
        let (mut kept, mut known) = (0, 0);
        for (_, block) in self.blocks.range(blocks.clone()) {
            known += 1;
            kept += u64::from(block.owner == index || matches!(block.state, State::Queued(_)));
        }
        let len = blocks.end - blocks.start;
        (len - kept, len - known)
    }

    /// Marks blocks as dirty and charges them to an owner.
    pub(super) fn dirty(&mut self, index: u32, blocks: Range<u64>) {
        let stamp = self.next_stamp();
        self.owners.get_mut(index).stats.taken_ios += 1;
        for at in blocks {
            let Some(block) = self.blocks.get_mut(&at) else {
                let block = Block {
                    owner: index,
                    state: State::Dirty,
                    since: stamp,
                    turn: stamp,
                    again: 0,
                    failures: 0,
                };
                self.blocks.insert(at, block);
                self.owners.blocks += 1;
                self.owners.get_mut(index).blocks += 1;
                self.enter(index, at, stamp);
                continue;
            };
            let before = block.owner;
            match block.state {
                // Its owner stays charged, and the device gets the new bytes.
                State::Queued(_) => {}
                State::Writing(_) => {
                    if block.again == 0 {
                        block.again = stamp;
                    }
                    block.owner = index;
                    self.owners.get_mut(before).blocks -= 1;
                    self.owners.get_mut(index).blocks += 1;
                    continue;
                }
                State::Dirty if before == index => {}
                State::Dirty => {
                    (block.owner, block.turn) = (index, stamp);
                    let before = self.owners.get_mut(before);
                    before.blocks -= 1;
                    before.dirty -= 1;
                    self.owners.get_mut(index).blocks += 1;
                    self.enter(index, at, stamp);
                    self.choose_again(at);
                }
            }
            self.owners.get_mut(index).stats.overwritten_bytes += BLOCK_BYTES;
        }
        self.review(index);
    }

    /// Appends a dirty block to its owner's queue.
    fn enter(&mut self, index: u32, at: u64, turn: u64) {
        self.owners.get_mut(index).dirty += 1;
        let due = self.now.plus_nanos(self.settings.expire_ns);
        self.dirty_queues.push(index, self.now..due, turn, at);
    }

    /// Marks a pending block as dirty again. The device lacks bytes since stamp `since` and has failed them `failures`
    /// times. `when` is as in [`DirtyQueues::push`].
    pub(super) fn redirty(&mut self, at: u64, since: u64, failures: u8, when: Range<Instant>) {
        let turn = self.next_stamp();
        let block = self.blocks.get_mut(&at).expect("a pending block");
        let index = block.owner;
        *block = Block { owner: index, state: State::Dirty, since, turn, again: 0, failures };
        self.owners.get_mut(index).dirty += 1;
        self.dirty_queues.push(index, when, turn, at);
        if self.is_ending {
            self.dirty_queues.release(index, self.now, turn);
        }
        self.choose_again(at);
        self.review(index);
    }

    /// Makes flushes choose a block again that is dirty again or has another owner. O(flushes).
    fn choose_again(&mut self, at: u64) {
        let block = &self.blocks[&at];
        if self.barriers.wait_for(at, block) {
            self.barriers.want(at, block);
        }
    }

    /// The next run of blocks that a flush waits for, as one request, regardless of their place in the queue.
    pub(super) fn poll_wanted(&mut self) -> Option<Write> {
        let most = self.settings.requests_per_owner_max.get();
        let owners = &self.owners;
        let may_go = |owner| owners.get(owner).wanted < most;
        let Wanted { at, owner, asker, blocks, stamp, token } =
            self.barriers.next_wanted(&self.blocks, may_go)?;
        // Before the choice: a request that is given back still has its items in the queue.
        self.trim(owner);
        let mut run = self.gather(owner, at);
        let awaited = if owner == asker { Awaited::By(token) } else { Awaited::ByAnother };
        if awaited == Awaited::ByAnother {
            // Only what the flush waits for: the owner's other blocks keep their turn.
            let wanted = self.blocks.range(at..run.end.min(blocks.end));
            let wanted = wanted.take_while(|(_, block)| block.since <= stamp);
            run = at..wanted.last().map_or(at + 1, |(&last, _)| last + 1);
            self.owners.get_mut(owner).owe(self.now, run.end - run.start);
            self.paid_at = self.paid_at.max(self.owners.get(owner).paid_at);
        }
        self.owners.get_mut(owner).wanted += 1;
        Some(self.send(owner, run, None, awaited))
    }

    /// Makes a run of an owner's dirty blocks a pending request.
    pub(super) fn send(
        &mut self,
        owner: u32,
        blocks: Range<u64>,
        front: Option<Deferred>,
        awaited: Awaited,
    ) -> Write {
        let cgroup = self.owners.get(owner).cgroup;
        let request =
            PendingWrite { owner, blocks: blocks.clone(), front, awaited, is_raised: false };
        let id = self.insert_request(request);
        self.choose(id, owner, blocks.clone());
        self.reconsider(owner);
        Write { id, owner: cgroup, blocks, awaited }
    }

    /// [`Awaited`] of a request that leaves in its turn.
    pub(super) fn awaited_in_turn(&self, owner: u32) -> Awaited {
        match self.owners.get(owner).waiters.front() {
            Some(waiter) => Awaited::By(waiter.token),
            None if self.owners.is_short() && !self.waiting_owners.is_empty() => Awaited::ByAll,
            None => Awaited::No,
        }
    }

    /// Raises [`Awaited`] of a pending request.
    pub(super) fn raise(&mut self, id: WriteId, awaited: Awaited) {
        let Some(request) = &mut self.requests[id.0 as usize] else { return };
        let is_news = match request.awaited {
            Awaited::No => awaited != Awaited::No,
            Awaited::ByAll | Awaited::By(_) => awaited == Awaited::ByAnother,
            Awaited::ByAnother => false,
        };
        if !is_news {
            return;
        }
        if awaited == Awaited::ByAnother {
            let owner = self.owners.get_mut(request.owner);
            owner.owe(self.now, request.blocks.end - request.blocks.start);
            self.paid_at = self.paid_at.max(owner.paid_at);
        }
        request.awaited = awaited;
        if !std::mem::replace(&mut request.is_raised, true) {
            self.raised.push_back(id);
        }
    }

    /// Marks the pending requests that an owner's first waiting write waits for. O(pending requests).
    pub(super) fn raise_for_room(&mut self, index: u32, token: u64) {
        let all = self.owners.is_short();
        for number in 0..self.requests.len() {
            let Some(request) = &self.requests[number] else { continue };
            let awaited = match request.owner == index {
                true => Awaited::By(token),
                false if all => Awaited::ByAll,
                false => continue,
            };
            self.raise(WriteId(number as u32), awaited);
        }
    }

    /// Removes a block from the accounts.
    pub(super) fn clear(&mut self, at: u64) {
        let block = self.blocks.remove(&at).expect("a block that is known");
        self.owners.blocks -= 1;
        let owner = self.owners.get_mut(block.owner);
        owner.blocks -= 1;
        owner.dirty -= u64::from(block.state == State::Dirty);
    }

    /// The run of one owner's dirty blocks around `at` that goes in one request. It does not cross a multiple of the
    /// largest request, so that requests are aligned to stripes and erase blocks, and all its blocks have failed equally
    /// often.
    pub(super) fn gather(&self, owner: u32, at: u64) -> Range<u64> {
        let failures = self.blocks.get(&at).map_or(0, |block| block.failures);
        let most = self.settings.request_blocks(failures, self.is_ending);
        let window = at / most * most..(at / most + 1) * most;
        let is_ours = |block: &Block| {
            block.owner == owner && block.state == State::Dirty && block.failures == failures
        };
        let mut run = at..at + 1;
        for (&next, block) in self.blocks.range(at + 1..window.end) {
            if next != run.end || !is_ours(block) {
                break;
            }
            run.end += 1;
        }
        for (&next, block) in self.blocks.range(window.start..at).rev() {
            if next + 1 != run.start || !is_ours(block) {
                break;
            }
            run.start -= 1;
        }
        run
    }

    /// Marks a run of dirty blocks as queued in a request.
    pub(super) fn choose(&mut self, id: WriteId, owner: u32, blocks: Range<u64>) {
        let count = blocks.end - blocks.start;
        let (mut writes, mut last) = (0, 0);
        for (_, block) in self.blocks.range_mut(blocks) {
            writes += u64::from(block.turn != last);
            last = block.turn;
            block.state = State::Queued(id);
        }
        let owner = self.owners.get_mut(owner);
        owner.dirty -= count;
        owner.requests += 1;
        owner.stats.coalesced_ios += writes - 1;
    }

    pub(super) fn insert_request(&mut self, request: PendingWrite) -> WriteId {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() as u32 - 1
        });
        self.requests[index as usize] = Some(request);
        WriteId(index)
    }

    pub(super) fn remove_request(&mut self, id: WriteId) -> PendingWrite {
        self.vacant.push(id.0);
        self.requests[id.0 as usize].take().expect("a pending request")
    }

    pub(super) fn note_failure(&mut self, index: u32, reason: Reason) {
        let stamp = self.next_stamp();
        let owner = self.owners.get_mut(index);
        (owner.failed_at, owner.reason) = (stamp, reason);
    }

    /// Refuses the writes that wait for room which failed blocks hold: there is no telling for how long.
    pub(super) fn refuse_waiters(&mut self, reason: Reason) {
        let failing = self.owners.iter().filter(|(_, owner)| owner.failed_at > owner.reported_at);
        let failing: Vec<u32> = failing.map(|(index, _)| index).collect();
        let is_short = self.owners.is_short();
        for _ in 0..self.waiting_owners.len() {
            let Some(index) = self.waiting_owners.pop_front() else { return };
            let owner = self.owners.get_mut(index);
            let needs_others = is_short && owner.blocks == 0;
            if !failing.contains(&index) && !needs_others {
                self.waiting_owners.push_back(index);
                continue;
            }
            for waiter in owner.waiters.drain(..) {
                owner.stats.wait_ns += self.now.nanos_since(waiter.since);
                self.refused.push_back((waiter.token, reason));
            }
            self.review(index);
        }
    }

    /// Re-evaluates an owner's queue after any change of its accounts, and drops stale items.
    pub(super) fn review(&mut self, index: u32) {
        self.reconsider(index);
        self.trim(index);
    }

    /// Re-evaluates whether an owner's queue is pressed and held.
    pub(super) fn reconsider(&mut self, index: u32) {
        let owner = self.owners.get(index);
        let requests = owner.requests;
        let is_pressed = self.owners.is_pressed(index);
        self.dirty_queues.press(index, self.now, is_pressed);
        self.dirty_queues.hold(index, requests >= self.settings.requests_per_owner_max.get());
        self.review_all();
    }

    /// Drops the stale items of an owner's queue once they are the majority.
    pub(super) fn trim(&mut self, index: u32) {
        if self.dirty_queues.len(index) as u64 > 2 * self.owners.get(index).dirty + 64 {
            let blocks = &self.blocks;
            self.dirty_queues.retain(index, |deferred| is_live(blocks, index, deferred));
        }
    }

    /// Presses all queues while the cache is nearly full, regardless of the owners' shares.
    fn review_all(&mut self) {
        let is_short = self.owners.is_short();
        if std::mem::replace(&mut self.was_short, is_short) != is_short {
            for (index, _) in self.owners.iter() {
                self.dirty_queues.press(index, self.now, self.owners.is_pressed(index));
            }
        }
    }
}

/// Whether a queue's item is current. A block that leaves out of turn leaves its item behind as a stale one.
pub(super) fn is_live(blocks: &BTreeMap<u64, Block>, owner: u32, deferred: &Deferred) -> bool {
    blocks.get(&deferred.item).is_some_and(|block| {
        block.owner == owner && block.state == State::Dirty && block.turn == deferred.turn
    })
}
