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
            raised: VecDeque::new(),
            paid_at: Instant::ZERO,
            is_ending: false,
            given_up: Vec::new(),
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
        let has_room = own == 0 || (is_first && self.owners.has_room(self.now, index, own, new));
        if has_room && is_free {
            self.dirty(index, blocks);
            return Admission::Taken;
        }
        let owner = self.owners.get_mut(index);
        owner.stats.waits += 1;
        owner.waiters.push_back(Waiter { token, blocks, since: self.now });
        if owner.waiters.len() == 1 {
            self.crowd.push_back(index);
            self.raise_for_room(index, token);
        }
        self.review(index);
        Admission::Waits
    }

    /// Somebody of `owner` wants everything that was written to `blocks` so far, by whomever, to be on the device:
    /// [`Writeback::poll_flushed`] tells when it is. What it waits for goes first; all else that its owner has dirty is due
    /// now, too.
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
        let mut on_way = core::mem::take(&mut self.touched);
        for block in self.blocks.range(blocks.clone()).map(|(_, block)| block) {
            if let State::Queued(id) = block.state
                && on_way.last() != Some(&u64::from(id.0))
            {
                on_way.push(id.0.into());
            }
        }
        for number in on_way.drain(..) {
            let id = WriteId(number as u32);
            let payer = self.requests[id.0 as usize].as_ref().map(|request| request.owner);
            let is_own = payer == Some(index);
            self.raise(id, if is_own { Awaited::By(token) } else { Awaited::ByAnother });
        }
        self.touched = on_way;
        self.barriers.add(Barrier::new(token, index, blocks, self.stamp, seen));
        self.barriers.settle(&self.blocks);
    }

    /// Bounds what `owner` may have dirty, whatever is left of the cache; `None` for no bound. For an owner that writes back
    /// so slowly that its share would be what a flush waits for too long. What it has already stays.
    pub fn bound(&mut self, now: Instant, owner: CgroupId, bound: Option<Bound>) {
        self.advance(now);
        let index = self.owners.ensure(owner);
        self.deferral.open(index);
        let owner = self.owners.get_mut(index);
        owner.most = bound.map_or(u64::MAX, |bound| (bound.bytes / BLOCK_BYTES).max(1));
        owner.bytes_per_sec = bound.map_or(0, |bound| bound.bytes_per_sec);
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

    /// The server ends: all dirty blocks go to the device now. What fails is tried again at once, in smaller
    /// requests, and a block that fails by itself is given up: [`Writeback::poll_given_up`]. O(owners).
    pub fn drain(&mut self, now: Instant) {
        self.advance(now);
        if !core::mem::replace(&mut self.is_ending, true) {
            for (index, _) in self.owners.iter() {
                self.deferral.hasten(index, self.now, self.stamp);
            }
        }
        self.release_all(now);
    }

    /// Gives a request of [`Writeback::poll_write`] back that the engine has no room for, before any other call: it comes
    /// again.
    pub fn give_back(&mut self, id: WriteId) {
        let request = self.remove_request(id);
        let owner = self.owners.get_mut(request.owner);
        owner.requests -= 1;
        owner.wanted -= u32::from(request.front.is_none());
        for (_, block) in self.blocks.range_mut(request.blocks.clone()) {
            if block.state == State::Queued(id) {
                block.state = State::Dirty;
                owner.dirty += 1;
            }
        }
        if let Some(front) = request.front {
            self.deferral.push_back_in(request.owner, front);
        }
        for (&at, block) in self.blocks.range(request.blocks) {
            if self.barriers.wait_for(at, block) {
                self.barriers.want(at, block);
            }
        }
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
        result: Result<(), Reason>,
        mut clean: impl FnMut(u64),
    ) {
        self.advance(now);
        let request = self.remove_request(id);
        let payer = self.owners.get_mut(request.owner);
        payer.requests -= 1;
        payer.wanted -= u32::from(request.front.is_none());
        payer.stats.written_ios += 1;
        payer.stats.failed_ios += u64::from(result.is_err());
        let mut mine = core::mem::take(&mut self.touched);
        let range = self.blocks.range(request.blocks.clone());
        let is_mine = |block: &Block| matches!(block.state, State::Queued(of) | State::Writing(of) if of == id);
        mine.extend(range.filter(|(_, block)| is_mine(block)).map(|(&at, _)| at));
        payer.stats.written_bytes += mine.len() as u64 * BLOCK_BYTES;
        let is_sole = mine.len() == 1;
        for at in mine.drain(..) {
            let block = self.blocks[&at];
            match result {
                Ok(()) if block.again == 0 => {
                    self.clear(at);
                    clean(at);
                }
                Ok(()) => {
                    let due = self.now.plus_nanos(self.settings.expire_ns);
                    self.redirty(at, block.again, 0, self.now..due);
                }
                Err(reason) => {
                    self.barriers.fail(at, &block, reason);
                    self.note_failure(block.owner, reason);
                    if self.is_ending && is_sole {
                        self.clear(at);
                        self.given_up.push(at);
                        continue;
                    }
                    // A device that fails is not asked in a loop.
                    let wait = if self.is_ending { 0 } else { self.settings.retry_ns };
                    let due = self.now.plus_nanos(wait);
                    let failures = block.failures.saturating_add(1);
                    self.redirty(at, block.since, failures, due..due);
                }
            }
        }
        self.touched = mine;
        if let Err(reason) = result {
            self.note_failure(request.owner, reason);
            self.refuse_waiters(reason);
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
        if let Some(write) = self.poll_wanted() {
            return Some(write);
        }
        loop {
            let (owner, front) = self.deferral.pop_due(self.now)?;
            if !books::is_live(&self.blocks, owner, &front) {
                continue;
            }
            // Not after the choice: what is given back still stands in its row.
            self.trim(owner);
            let blocks = self.gather(owner, front.item);
            let awaited = self.awaited_in_turn(owner);
            return Some(self.send(owner, blocks, Some(front), awaited));
        }
    }

    /// The next request that was handed out and that something waits for since then, and what. Each time once, for as long
    /// as [`Writeback::start`] was not called for it.
    pub fn poll_awaited(&mut self) -> Option<(WriteId, Awaited)> {
        loop {
            let id = self.raised.pop_front()?;
            let request = self.requests[id.0 as usize].as_mut();
            if let Some(request) = request
                && core::mem::take(&mut request.is_raised)
            {
                return Some((id, request.awaited));
            }
        }
    }

    /// The next block that was given up after [`Writeback::drain`]: its bytes need not be kept, and are lost.
    pub fn poll_given_up(&mut self) -> Option<u64> {
        self.given_up.pop()
    }

    /// The next write that waited for room and need not any longer; if it is taken, the caller has to take its bytes before
    /// any other call. `is_free` tells whether nothing else is in the way of a write to these blocks.
    pub fn poll_admitted(
        &mut self,
        now: Instant,
        is_free: impl Fn(&Range<u64>) -> bool,
    ) -> Option<Admitted> {
        self.advance(now);
        if let Some((token, reason)) = self.refused.pop_front() {
            return Some(Admitted { token, result: Err(reason) });
        }
        for _ in 0..self.crowd.len() {
            let index = self.crowd.pop_front()?;
            let Some(head) = self.owners.get(index).waiters.front().cloned() else { continue };
            let (own, new) = self.growth(index, &head.blocks);
            let has_room = self.owners.has_room(self.now, index, own, new) && is_free(&head.blocks);
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
                return Some(Admitted { token: head.token, result: Ok(()) });
            }
        }
        None
    }

    /// The next flush for which nothing is left to be written.
    pub fn poll_flushed(&mut self) -> Option<Flushed> {
        let (barrier, mut result) = self.barriers.poll_passed()?;
        let stamp = self.stamp;
        let owner = self.owners.get_mut(barrier.owner);
        if owner.failed_at > barrier.seen {
            result = Err(owner.reason);
        }
        if result.is_err() {
            owner.reported_at = stamp;
        }
        Some(Flushed { token: barrier.token, result, seen: stamp })
    }

    /// When to call [`Writeback::poll_write`] and [`Writeback::poll_admitted`] again; `None`: nothing is due before the next
    /// input.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let paid = if self.paid_at > self.now { self.next_paid() } else { None };
        [self.deferral.earliest(), paid].into_iter().flatten().min()
    }

    /// When an owner has paid enough of what it owes for its next write. O(owners with writes that wait for room).
    fn next_paid(&self) -> Option<Instant> {
        let paid = self.crowd.iter().filter_map(|&index| {
            let owner = self.owners.get(index);
            let head = owner.waiters.front()?;
            let (own, _) = self.growth(index, &head.blocks);
            let rest = owner.most.checked_sub(owner.blocks + own)?;
            Some(owner.owes_at_most(rest)).filter(|&at| at > self.now)
        });
        paid.min()
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
