//! Ledger of [`Writeback`].

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

    /// How many blocks more an owner would have after a write, and of these how many are nobody's now.
    pub(super) fn growth(&self, index: u32, blocks: &Range<u64>) -> (u64, u64) {
        let (mut kept, mut known) = (0, 0);
        for (_, block) in self.blocks.range(blocks.clone()) {
            known += 1;
            kept += u64::from(block.owner == index || matches!(block.state, State::Queued(_)));
        }
        let len = blocks.end - blocks.start;
        (len - kept, len - known)
    }

    /// Makes blocks dirty, and an owner's.
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
                // It has been charged to whoever chose it, and the device gets the new bytes.
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
                    self.hurry(at);
                }
            }
            self.owners.get_mut(index).stats.overwritten_bytes += BLOCK_BYTES;
        }
        self.review(index);
    }

    /// Puts a dirty block at the end of its owner's row.
    fn enter(&mut self, index: u32, at: u64, turn: u64) {
        self.owners.get_mut(index).dirty += 1;
        let due = self.now.plus_nanos(self.settings.expire_ns);
        self.deferral.push(index, self.now..due, turn, at);
    }

    /// A block that was on its way is dirty, with bytes that the device lacks since `since` and has failed `failures`
    /// times; it goes `when` it goes.
    pub(super) fn redirty(&mut self, at: u64, since: u64, failures: u8, when: Range<Instant>) {
        let turn = self.next_stamp();
        let block = self.blocks.get_mut(&at).expect("a block on its way");
        let index = block.owner;
        *block = Block { owner: index, state: State::Dirty, since, turn, again: 0, failures };
        self.owners.get_mut(index).dirty += 1;
        self.deferral.push(index, when, turn, at);
        if self.is_ending {
            self.deferral.release(index, self.now, turn);
        }
        self.hurry(at);
        self.review(index);
    }

    /// A block is dirty again, or another's: flushes that wait for it have to choose it again. O(flushes under way).
    fn hurry(&mut self, at: u64) {
        let block = &self.blocks[&at];
        if self.barriers.wait_for(at, block) {
            self.barriers.want(at, block);
        }
    }

    /// The next blocks that a flush waits for, as one request; they need not wait for their turn in their row.
    pub(super) fn poll_wanted(&mut self) -> Option<Write> {
        let most = self.settings.requests_per_owner_max.get();
        let owners = &self.owners;
        let may_go = |owner| owners.get(owner).wanted < most;
        let Wanted { at, owner, asker, blocks, stamp, token } =
            self.barriers.next_wanted(&self.blocks, may_go)?;
        // Not after the choice: what is given back still stands in its row.
        self.trim(owner);
        let mut run = self.gather(owner, at);
        let awaited = if owner == asker { Awaited::By(token) } else { Awaited::ByAnother };
        if awaited == Awaited::ByAnother {
            // Nothing else of its owner goes before its turn.
            let wanted = self.blocks.range(at..run.end.min(blocks.end));
            let wanted = wanted.take_while(|(_, block)| block.since <= stamp);
            run = at..wanted.last().map_or(at + 1, |(&last, _)| last + 1);
            self.owners.get_mut(owner).owe(self.now, run.end - run.start);
            self.paid_at = self.paid_at.max(self.owners.get(owner).paid_at);
        }
        self.owners.get_mut(owner).wanted += 1;
        Some(self.send(owner, run, None, awaited))
    }

    /// Puts a run of an owner's dirty blocks on its way.
    pub(super) fn send(
        &mut self,
        owner: u32,
        blocks: Range<u64>,
        front: Option<Deferred>,
        awaited: Awaited,
    ) -> Write {
        let cgroup = self.owners.get(owner).cgroup;
        let request = OnItsWay { owner, blocks: blocks.clone(), front, awaited, is_raised: false };
        let id = self.insert_request(request);
        self.choose(id, owner, blocks.clone());
        self.reconsider(owner);
        Write { id, owner: cgroup, blocks, awaited }
    }

    /// What waits for a request of `owner` whose turn has come.
    pub(super) fn awaited_in_turn(&self, owner: u32) -> Awaited {
        match self.owners.get(owner).waiters.front() {
            Some(waiter) => Awaited::By(waiter.token),
            None if self.owners.is_short() && !self.crowd.is_empty() => Awaited::ByAll,
            None => Awaited::No,
        }
    }

    /// Something waits from now on for a request that was handed out.
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
        if !core::mem::replace(&mut request.is_raised, true) {
            self.raised.push_back(id);
        }
    }

    /// A write of an owner waits for room, the first one: so it waits for the requests that are on their way to make it.
    /// O(requests on their way).
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

    /// A block is nobody's.
    pub(super) fn clear(&mut self, at: u64) {
        let block = self.blocks.remove(&at).expect("a block that is known");
        self.owners.blocks -= 1;
        let owner = self.owners.get_mut(block.owner);
        owner.blocks -= 1;
        owner.dirty -= u64::from(block.state == State::Dirty);
    }

    /// The dirty blocks of one owner around `at`, as many as go in one request: none beyond a multiple of its size, so that
    /// requests lie as devices with stripes and erase blocks like them, however the first of them was chosen; and none that
    /// has failed more or less often.
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

    /// Puts a run of dirty blocks on its way.
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

    pub(super) fn insert_request(&mut self, request: OnItsWay) -> WriteId {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() as u32 - 1
        });
        self.requests[index as usize] = Some(request);
        WriteId(index)
    }

    pub(super) fn remove_request(&mut self, id: WriteId) -> OnItsWay {
        self.vacant.push(id.0);
        self.requests[id.0 as usize].take().expect("a request on its way")
    }

    pub(super) fn note_failure(&mut self, index: u32, reason: Reason) {
        let stamp = self.next_stamp();
        let owner = self.owners.get_mut(index);
        (owner.failed_at, owner.reason) = (stamp, reason);
    }

    /// The device fails what it should make room with: nobody knows for how long, so nobody waits for it.
    pub(super) fn refuse_waiters(&mut self, reason: Reason) {
        let failing = self.owners.iter().filter(|(_, owner)| owner.failed_at > owner.reported_at);
        let failing: Vec<u32> = failing.map(|(index, _)| index).collect();
        let is_short = self.owners.is_short();
        for _ in 0..self.crowd.len() {
            let Some(index) = self.crowd.pop_front() else { return };
            let owner = self.owners.get_mut(index);
            let needs_others = is_short && owner.blocks == 0;
            if !failing.contains(&index) && !needs_others {
                self.crowd.push_back(index);
                continue;
            }
            for waiter in owner.waiters.drain(..) {
                owner.stats.wait_ns += self.now.nanos_since(waiter.since);
                self.refused.push_back((waiter.token, reason));
            }
            self.review(index);
        }
    }

    /// After anything of an owner has changed: whether its row may and must go; and it does not grow with what has left it.
    pub(super) fn review(&mut self, index: u32) {
        self.reconsider(index);
        self.trim(index);
    }

    /// Whether an owner's row may and must go.
    pub(super) fn reconsider(&mut self, index: u32) {
        let owner = self.owners.get(index);
        let requests = owner.requests;
        let is_pressed = self.owners.is_pressed(index);
        self.deferral.press(index, self.now, is_pressed);
        self.deferral.hold(index, requests >= self.settings.requests_per_owner_max.get());
        self.review_all();
    }

    /// Drops what has left an owner's row by another way, once that is most of it.
    pub(super) fn trim(&mut self, index: u32) {
        if self.deferral.len(index) as u64 > 2 * self.owners.get(index).dirty + 64 {
            let blocks = &self.blocks;
            self.deferral.retain(index, |deferred| is_live(blocks, index, deferred));
        }
    }

    /// When little is left for anybody everybody has to give, whoever took it.
    fn review_all(&mut self) {
        let is_short = self.owners.is_short();
        if core::mem::replace(&mut self.was_short, is_short) != is_short {
            for (index, _) in self.owners.iter() {
                self.deferral.press(index, self.now, self.owners.is_pressed(index));
            }
        }
    }
}

/// Whether what stands in a row is still so: what has left by another way leaves its place behind.
pub(super) fn is_live(blocks: &BTreeMap<u64, Block>, owner: u32, deferred: &Deferred) -> bool {
    blocks.get(&deferred.item).is_some_and(|block| {
        block.owner == owner && block.state == State::Dirty && block.turn == deferred.turn
    })
}
