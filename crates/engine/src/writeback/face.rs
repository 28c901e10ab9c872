//! The calls of [`Writeback`].

use super::*;

impl Writeback {
    /// Nothing is dirty.
    pub fn new(settings: Settings, now: Instant) -> Writeback {
        Writeback {
            settings,
            now,
            stamp: 0,
            blocks: BTreeMap::new(),
            owners: Owners::new(settings.blocks_max.get().into()),
            deferral: Deferral::default(),
            requests: Vec::new(),
            vacant: Vec::new(),
            barriers: Barriers::default(),
            crowd: VecDeque::new(),
            refused: VecDeque::new(),
            was_short: false,
            touched: Vec::new(),
        }
    }

    // In: what happens.

    /// A tenant of `owner` writes to `blocks`. [`Admission`] says whether the bytes may be taken.
    ///
    /// Writes of one owner that need room get it in their order; one that needs none, since all its blocks are the
    /// owner's and dirty already, goes ahead. `is_free` tells whether nothing else is in its way.
    pub fn write(
        &mut self,
        now: Instant,
        owner: CgroupId,
        blocks: Range<u64>,
        is_free: bool,
        token: u64,
    ) -> Admission {
        self.advance(now);
        let index = self.owners.ensure(owner);
        self.deferral.open(index);
        let most = self.settings.write_blocks_max().min(self.owners.get(index).most);
        if blocks.end - blocks.start > most {
            return Admission::TooLong;
        }
        let (own, new) = self.growth(index, &blocks);
        let is_first = self.owners.get(index).waiters.is_empty();
        let has_room = own == 0 || (is_first && self.owners.has_room(index, own, new));
        if has_room && is_free {
            self.dirty(index, blocks);
            return Admission::Taken;
        }
        let owner = self.owners.get_mut(index);
        owner.stats.waits += 1;
        owner.waiters.push_back(Waiter { token, blocks, since: self.now });
        if owner.waiters.len() == 1 {
            self.crowd.push_back(index);
        }
        self.review(index);
        Admission::Waits
    }

    /// Somebody of `owner` wants everything that was written to `blocks` so far, by whomever, to be on the device:
    /// [`Writeback::poll_flushed`] tells when it is. All that its owner has dirty goes to the device now.
    ///
    /// `seen` is what the last flush of the same asker answered, or [`Writeback::unseen`] for its first one.
    pub fn flush(
        &mut self,
        now: Instant,
        owner: CgroupId,
        blocks: Range<u64>,
        seen: u64,
        token: u64,
    ) {
        self.advance(now);
        let index = self.owners.ensure(owner);
        self.deferral.open(index);
        self.deferral.release(index, self.now, self.stamp);
        let mut others = core::mem::take(&mut self.touched);
        for (_, block) in self.blocks.range(blocks.clone()) {
            let other = u64::from(block.owner);
            if block.owner != index && others.last() != Some(&other) {
                others.push(other);
            }
        }
        for other in others.drain(..) {
            self.deferral.release(other as u32, self.now, self.stamp);
        }
        self.touched = others;
        self.barriers.add(Barrier::new(token, index, blocks, self.stamp, seen));
        self.barriers.settle(&self.blocks);
    }

    /// Bounds what `owner` may have dirty, whatever is left of the cache: `bytes`, in whole blocks and one at least; `None`
    /// for no bound. For an owner that writes back so slowly that its share would be what a flush waits for too long. What it
    /// has already stays.
    pub fn bound(&mut self, now: Instant, owner: CgroupId, bytes: Option<u64>) {
        self.advance(now);
        let index = self.owners.ensure(owner);
        self.deferral.open(index);
        let most = bytes.map_or(u64::MAX, |bytes| (bytes / BLOCK_BYTES).max(1));
        self.owners.get_mut(index).most = most;
        self.review(index);
    }

    /// What a new asker starts with: it is told of failures that nobody has been told of.
    pub fn unseen(&self, owner: CgroupId) -> u64 {
        let owner = self.owners.find(owner).map(|index| self.owners.get(index));
        match owner {
            Some(owner) if owner.failed_at > owner.reported_at => owner.reported_at,
            _ => self.stamp,
        }
    }

    /// Everything of an owner that is dirty goes to the device now.
    pub fn release(&mut self, now: Instant, owner: CgroupId) {
        self.advance(now);
        if let Some(index) = self.owners.find(owner) {
            self.deferral.release(index, self.now, self.stamp);
        }
    }

    /// Everything of everybody goes to the device now. O(owners).
    pub fn release_all(&mut self, now: Instant) {
        self.advance(now);
        for (index, _) in self.owners.iter() {
            self.deferral.release(index, self.now, self.stamp);
        }
    }

    /// Gives a request of [`Writeback::poll_write`] back that the engine has no room for, before any other call: it comes
    /// again.
    pub fn give_back(&mut self, id: WriteId) {
        let request = self.remove_request(id);
        let owner = self.owners.get_mut(request.owner);
        owner.requests -= 1;
        for (_, block) in self.blocks.range_mut(request.blocks) {
            if block.state == State::Queued(id) {
                block.state = State::Dirty;
                owner.dirty += 1;
            }
        }
        self.deferral.push_back_in(request.owner, request.front);
        self.review(request.owner);
    }

    /// The engine has dispatched a request: the device takes the bytes that its blocks have at this moment. Fills `runs`
    /// with those that are still to be written, in order; it may have become none of them.
    pub fn start(&mut self, id: WriteId, runs: &mut Vec<Range<u64>>) {
        runs.clear();
        let request = self.requests[id.0 as usize].as_ref().expect("a request on its way");
        for (&at, block) in self.blocks.range_mut(request.blocks.clone()) {
            if block.state != State::Queued(id) {
                continue;
            }
            block.state = State::Writing(id);
            match runs.last_mut() {
                Some(run) if run.end == at => run.end += 1,
                _ => runs.push(at..at + 1),
            }
        }
    }

    /// The device has finished with a request. `clean` is told of each block whose bytes need not be kept any more.
    pub fn complete(
        &mut self,
        now: Instant,
        id: WriteId,
        outcome: Outcome,
        mut clean: impl FnMut(u64),
    ) {
        self.advance(now);
        let request = self.remove_request(id);
        let payer = self.owners.get_mut(request.owner);
        payer.requests -= 1;
        payer.stats.written_ios += 1;
        payer.stats.failed_ios += u64::from(outcome == Outcome::Failed);
        let mut mine = core::mem::take(&mut self.touched);
        let range = self.blocks.range(request.blocks.clone());
        let is_mine = |block: &Block| matches!(block.state, State::Queued(of) | State::Writing(of) if of == id);
        mine.extend(range.filter(|(_, block)| is_mine(block)).map(|(&at, _)| at));
        payer.stats.written_bytes += mine.len() as u64 * BLOCK_BYTES;
        for at in mine.drain(..) {
            let block = self.blocks[&at];
            match outcome {
                Outcome::Done if block.again == 0 => {
                    self.clear(at);
                    clean(at);
                }
                Outcome::Done => {
                    let due = self.now.plus_nanos(self.settings.expire_ns);
                    self.redirty(at, block.again, self.now..due);
                }
                Outcome::Failed => {
                    self.barriers.fail(at, &block);
                    self.note_failure(block.owner);
                    // Whoever wants it: a device that fails is not asked in a loop.
                    let due = self.now.plus_nanos(self.settings.retry_ns);
                    self.redirty(at, block.since, due..due);
                }
            }
        }
        self.touched = mine;
        if outcome == Outcome::Failed {
            self.note_failure(request.owner);
            self.refuse_waiters();
        }
        self.review(request.owner);
        self.barriers.settle(&self.blocks);
    }

    /// A read of `reader` was answered from dirty blocks, whosever they are: it is counted, since the engine never sees it.
    pub fn count_hit(&mut self, reader: CgroupId) {
        let index = self.owners.ensure(reader);
        self.deferral.open(index);
        self.owners.get_mut(index).stats.hit_ios += 1;
    }

    /// A block's bytes are gone, for something else was written there or nothing is needed. Nothing happens to a block
    /// that is clean.
    ///
    /// # Panics
    /// While the device takes its bytes.
    pub fn forget(&mut self, at: u64) {
        let Some(block) = self.blocks.get(&at) else { return };
        assert!(!matches!(block.state, State::Writing(_)), "block {at} is being written");
        let owner = block.owner;
        self.clear(at);
        self.review(owner);
        self.barriers.settle(&self.blocks);
    }

    // Out: ask until they answer None.

    /// The next blocks to be written back, as one request of their owner.
    pub fn poll_write(&mut self, now: Instant) -> Option<Write> {
        self.advance(now);
        loop {
            let (owner, front) = self.deferral.pop_due(self.now)?;
            if !books::is_live(&self.blocks, owner, &front) {
                continue;
            }
            // Not after the choice: what is given back still stands in its row.
            self.trim(owner);
            let blocks = self.gather(owner, front.item);
            let cgroup = self.owners.get(owner).cgroup;
            let id = self.insert_request(OnItsWay { owner, blocks: blocks.clone(), front });
            self.choose(id, owner, blocks.clone());
            self.reconsider(owner);
            return Some(Write { id, owner: cgroup, blocks });
        }
    }

    /// The next write that waited for room and need not any longer; if it is taken, the caller has to take its bytes before
    /// any other call. `is_free` tells whether nothing else is in the way of a write to these blocks.
    pub fn poll_admitted(
        &mut self,
        now: Instant,
        is_free: impl Fn(&Range<u64>) -> bool,
    ) -> Option<Admitted> {
        self.advance(now);
        if let Some(token) = self.refused.pop_front() {
            return Some(Admitted { token, is_taken: false });
        }
        for _ in 0..self.crowd.len() {
            let index = self.crowd.pop_front()?;
            let Some(head) = self.owners.get(index).waiters.front().cloned() else { continue };
            let (own, new) = self.growth(index, &head.blocks);
            let has_room = self.owners.has_room(index, own, new) && is_free(&head.blocks);
            let owner = self.owners.get_mut(index);
            if has_room {
                owner.waiters.pop_front();
                owner.stats.wait_ns += self.now.nanos_since(head.since);
            }
            if !owner.waiters.is_empty() {
                self.crowd.push_back(index);
            }
            if has_room {
                self.dirty(index, head.blocks);
                return Some(Admitted { token: head.token, is_taken: true });
            }
        }
        None
    }

    /// The next flush for which nothing is left to be written.
    pub fn poll_flushed(&mut self) -> Option<Flushed> {
        let (barrier, has_failed) = self.barriers.poll_passed()?;
        let stamp = self.stamp;
        let owner = self.owners.get_mut(barrier.owner);
        let has_failed = has_failed || owner.failed_at > barrier.seen;
        if has_failed {
            owner.reported_at = stamp;
        }
        Some(Flushed { token: barrier.token, has_failed, seen: stamp })
    }

    /// When to call [`Writeback::poll_write`] again; `None`: nothing is due before the next input.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deferral.earliest()
    }

    // About itself.

    /// Levels and counters of an owner; zeroes for one that is not known.
    pub fn stats(&self, owner: CgroupId) -> OwnerStats {
        self.owners.find(owner).map(|index| self.owners.stats(index)).unwrap_or_default()
    }

    /// Bytes of blocks that are dirty or on their way, of all owners.
    pub fn dirty_bytes(&self) -> u64 {
        self.owners.blocks * BLOCK_BYTES
    }

    /// The blocks of a request that is on its way.
    pub fn blocks_of(&self, id: WriteId) -> Range<u64> {
        let request = self.requests[id.0 as usize].as_ref();
        request.expect("a request on its way").blocks.clone()
    }

    /// The blocks that are dirty or on their way, in order.
    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        self.blocks.keys().copied()
    }

    /// Whose a block is, if it is dirty or on its way.
    pub fn owner(&self, block: u64) -> Option<CgroupId> {
        self.blocks.get(&block).map(|block| self.owners.get(block.owner).cgroup)
    }
}
