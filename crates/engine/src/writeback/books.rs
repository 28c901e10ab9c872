//! How the books of [`Writeback`] are kept.

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

    /// A block that was on its way is dirty, with bytes that the device lacks since `since`; it goes `when` it goes.
    pub(super) fn redirty(&mut self, at: u64, since: u64, when: Range<Instant>) {
        let turn = self.next_stamp();
        let block = self.blocks.get_mut(&at).expect("a block on its way");
        let index = block.owner;
        *block = Block { owner: index, state: State::Dirty, since, turn, again: 0 };
        self.owners.get_mut(index).dirty += 1;
        self.deferral.push(index, when, turn, at);
        self.hurry(at);
        self.review(index);
    }

    /// A block has got another turn, after those that flushes have released: if one of them waits for it, it is due still.
    /// O(flushes under way).
    fn hurry(&mut self, at: u64) {
        let block = &self.blocks[&at];
        if self.barriers.wait_for(at, block) {
            self.deferral.release(block.owner, self.now, block.turn);
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
    /// requests lie as devices with stripes and erase blocks like them, however the first of them was chosen.
    pub(super) fn gather(&self, owner: u32, at: u64) -> Range<u64> {
        let most = u64::from(self.settings.request_blocks_max.get());
        let window = at / most * most..(at / most + 1) * most;
        let is_ours = |block: &Block| block.owner == owner && block.state == State::Dirty;
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

    pub(super) fn note_failure(&mut self, index: u32) {
        let stamp = self.next_stamp();
        self.owners.get_mut(index).failed_at = stamp;
    }

    /// The device fails what it should make room with: nobody knows for how long, so nobody waits for it.
    pub(super) fn refuse_waiters(&mut self) {
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
                self.refused.push_back(waiter.token);
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
