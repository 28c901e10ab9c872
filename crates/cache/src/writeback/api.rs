//! Public calls of [`Writeback`].

use super::*;

impl Writeback {
    /// A ledger with nothing dirty.
    pub fn new(settings: Settings, now: Instant) -> Writeback {
        Writeback {
            settings,
            now,
            stamp: 0,
            blocks: BTreeMap::new(),
            owners: Owners::new(settings.blocks_max.get().into()),
            dirty_queues: DirtyQueues::default(),
            requests: Vec::new(),
            vacant: Vec::new(),
            barriers: Barriers::default(),
            waiting_owners: VecDeque::new(),
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

    /// A write of `owner` to `blocks`; the answer is whether its bytes may be taken.
    ///
    /// Writes of one owner get room in order. A write whose blocks are all dirty and the owner's already needs none, and
    /// goes ahead. `is_free` is false while another operation locks any of the blocks.
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
        self.dirty_queues.open(index);
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
            self.waiting_owners.push_back(index);
            self.raise_for_room(index, token);
        }
        self.review(index);
        Admission::Waits
    }

    /// A flush by a client of `owner`: all earlier writes to `blocks`, of any owner, are to reach the device.
    /// [`Writeback::poll_flushed`] reports when they have. Their blocks go first; all other dirty blocks of `owner` become
    /// due.
    ///
    /// `seen` is [`Flushed::seen`] of the same client's previous flush, or [`Writeback::unseen`] for its first one.
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
        self.dirty_queues.open(index);
        self.dirty_queues.release(index, self.now, self.stamp);
        let mut queued = std::mem::take(&mut self.touched);
        for block in self.blocks.range(blocks.clone()).map(|(_, block)| block) {
            if let State::Queued(id) = block.state
                && queued.last() != Some(&u64::from(id.0))
            {
                queued.push(id.0.into());
            }
        }
        for number in queued.drain(..) {
            let id = WriteId(number as u32);
            let payer = self.requests[id.0 as usize].as_ref().map(|request| request.owner);
            let is_own = payer == Some(index);
            self.raise(id, if is_own { Awaited::By(token) } else { Awaited::ByAnother });
        }
        self.touched = queued;
        self.barriers.add(Barrier::new(token, index, blocks, self.stamp, seen, self.now));
        self.barriers.release_passed(&self.blocks);
    }

    /// Bounds what `owner` may have dirty, however much of the cache is left; `None` for no bound. For owners whose limits
    /// are so low that a flush of their full share would take too long. Blocks above the bound stay until written back.
    pub fn bound(&mut self, now: Instant, owner: CgroupId, bound: Option<Bound>) {
        self.advance(now);
        let index = self.owners.ensure(owner);
        self.dirty_queues.open(index);
        let owner = self.owners.get_mut(index);
        owner.most = bound.map_or(u64::MAX, |bound| (bound.bytes / BLOCK_BYTES).max(1));
        owner.bytes_per_sec = bound.map_or(0, |bound| bound.bytes_per_sec);
        self.review(index);
    }

    /// `seen` of a new client's first flush, which reports the failures that no flush has reported.
    pub fn unseen(&self, owner: CgroupId) -> u64 {
        let owner = self.owners.find(owner).map(|index| self.owners.get(index));
        match owner {
            Some(owner) if owner.failed_at > owner.reported_at => owner.reported_at,
            _ => self.stamp,
        }
    }

    /// Makes all dirty blocks of an owner due now.
    pub fn release(&mut self, now: Instant, owner: CgroupId) {
        self.advance(now);
        if let Some(index) = self.owners.find(owner) {
            self.dirty_queues.release(index, self.now, self.stamp);
        }
    }

    /// Makes all dirty blocks of all owners due now. O(owners).
    pub fn release_all(&mut self, now: Instant) {
        self.advance(now);
        for (index, _) in self.owners.iter() {
            self.dirty_queues.release(index, self.now, self.stamp);
        }
    }

    /// Begins the end: all dirty blocks are due now, failed ones are retried at once in smaller requests, and a block
    /// that fails alone is given up: [`Writeback::poll_given_up`]. O(owners).
    pub fn drain(&mut self, now: Instant) {
        self.advance(now);
        if !std::mem::replace(&mut self.is_ending, true) {
            for (index, _) in self.owners.iter() {
                self.dirty_queues.hasten(index, self.now, self.stamp);
            }
        }
        self.release_all(now);
    }

    /// Returns a request of [`Writeback::poll_write`] for which the engine has no room, before any other call.
    /// `poll_write` will return it again.
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
            self.dirty_queues.push_back_in(request.owner, front);
        }
        for (&at, block) in self.blocks.range(request.blocks) {
            if self.barriers.wait_for(at, block) {
                self.barriers.want(at, block);
            }
        }
        self.review(request.owner);
    }

    /// The engine has dispatched a request: the device takes the present bytes of its blocks. Fills `runs` with the blocks
    /// that still have to be written, in order; there may be none.
    pub fn start(&mut self, id: WriteId, runs: &mut Vec<Range<u64>>) {
        runs.clear();
        let request = self.requests[id.0 as usize].as_ref().expect("a pending request");
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

    /// The device has completed a request. `clean` is called for each block whose bytes need not be kept any longer.
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
        let mut mine = std::mem::take(&mut self.touched);
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
                    // The delay prevents a loop of failing requests.
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
        self.barriers.release_passed(&self.blocks);
    }

    /// Counts a read of `reader` that dirty blocks of any owner answered; the engine never sees it.
    pub fn count_hit(&mut self, reader: CgroupId) {
        let index = self.owners.ensure(reader);
        self.dirty_queues.open(index);
        self.owners.get_mut(index).stats.hit_ios += 1;
    }

    /// Drops a block whose bytes are obsolete, because another operation wrote or discarded them on the device. No effect
    /// on a clean block.
    ///
    /// # Panics
    /// While the device takes its bytes.
    pub fn forget(&mut self, at: u64) {
        let Some(block) = self.blocks.get(&at) else { return };
        assert!(!matches!(block.state, State::Writing(_)), "block {at} is being written");
        let owner = block.owner;
        self.clear(at);
        self.review(owner);
        self.barriers.release_passed(&self.blocks);
    }

    // Out: ask until they answer None.

    /// The next run of blocks to write back, as one request of their owner.
    pub fn poll_write(&mut self, now: Instant) -> Option<Write> {
        self.advance(now);
        if let Some(write) = self.poll_wanted() {
            return Some(write);
        }
        loop {
            let (owner, front) = self.dirty_queues.pop_due(self.now)?;
            if !ledger::is_live(&self.blocks, owner, &front) {
                continue;
            }
            // Before the choice: a request that is given back still has its items in the queue.
            self.trim(owner);
            let blocks = self.gather(owner, front.item);
            let awaited = self.awaited_in_turn(owner);
            return Some(self.send(owner, blocks, Some(front), awaited));
        }
    }

    /// The next request for which [`Awaited`] has changed since `poll_write` returned it. Each change is reported once,
    /// until [`Writeback::start`].
    pub fn poll_awaited(&mut self) -> Option<(WriteId, Awaited)> {
        loop {
            let id = self.raised.pop_front()?;
            let request = self.requests[id.0 as usize].as_mut();
            if let Some(request) = request
                && std::mem::take(&mut request.is_raised)
            {
                return Some((id, request.awaited));
            }
        }
    }

    /// The next block that was given up after [`Writeback::drain`]. Its bytes are lost.
    pub fn poll_given_up(&mut self) -> Option<u64> {
        self.given_up.pop()
    }

    /// The next write that no longer waits for room. If it is taken, the caller must take its bytes before any other call.
    /// `is_free` answers whether no other operation locks any of the blocks.
    pub fn poll_admitted(
        &mut self,
        now: Instant,
        is_free: impl Fn(&Range<u64>) -> bool,
    ) -> Option<Admitted> {
        self.advance(now);
        if let Some((token, reason)) = self.refused.pop_front() {
            return Some(Admitted { token, result: Err(reason) });
        }
        for _ in 0..self.waiting_owners.len() {
            let index = self.waiting_owners.pop_front()?;
            let Some(head) = self.owners.get(index).waiters.front().cloned() else { continue };
            let (own, new) = self.growth(index, &head.blocks);
            let has_room = self.owners.has_room(self.now, index, own, new) && is_free(&head.blocks);
            let owner = self.owners.get_mut(index);
            if has_room {
                owner.waiters.pop_front();
                owner.stats.wait_ns += self.now.nanos_since(head.since);
            }
            if !owner.waiters.is_empty() {
                self.waiting_owners.push_back(index);
            }
            if has_room {
                self.dirty(index, head.blocks);
                return Some(Admitted { token: head.token, result: Ok(()) });
            }
        }
        None
    }

    /// The next flush whose blocks are all written, or failed.
    pub fn poll_flushed(&mut self) -> Option<Flushed> {
        let (barrier, mut result) = self.barriers.poll_passed()?;
        let stamp = self.stamp;
        let waited_ns = self.now.nanos_since(barrier.since);
        let owner = self.owners.get_mut(barrier.owner);
        owner.stats.flush_waits += u64::from(waited_ns > 0);
        owner.stats.flush_wait_ns += waited_ns;
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
        [self.dirty_queues.earliest(), paid].into_iter().flatten().min()
    }

    /// When an owner has paid enough of what it owes for its next write. O(owners with writes that wait for room).
    fn next_paid(&self) -> Option<Instant> {
        let paid = self.waiting_owners.iter().filter_map(|&index| {
            let owner = self.owners.get(index);
            let head = owner.waiters.front()?;
            let (own, _) = self.growth(index, &head.blocks);
            let rest = owner.most.checked_sub(owner.blocks + own)?;
            Some(owner.owes_at_most(rest)).filter(|&at| at > self.now)
        });
        paid.min()
    }

    // About itself.

    /// Levels and counters of an owner; zeroes for an unknown one.
    pub fn stats(&self, owner: CgroupId) -> OwnerStats {
        self.owners.find(owner).map(|index| self.owners.stats(index)).unwrap_or_default()
    }

    /// The same of all owners that there ever were. O(owners).
    pub fn all_stats(&self) -> impl Iterator<Item = (CgroupId, OwnerStats)> {
        self.owners.all_stats()
    }

    /// Bytes of all blocks that are dirty or being written back.
    pub fn dirty_bytes(&self) -> u64 {
        self.owners.blocks * BLOCK_BYTES
    }

    /// The blocks of a pending request.
    ///
    /// # Panics
    /// If the request is not pending.
    pub fn blocks_of(&self, id: WriteId) -> Range<u64> {
        let request = self.requests[id.0 as usize].as_ref();
        request.expect("a pending request").blocks.clone()
    }

    /// All blocks that are dirty or being written back, in order.
    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        self.blocks.keys().copied()
    }

    /// Owner of a block that is dirty or being written back.
    pub fn owner(&self, block: u64) -> Option<CgroupId> {
        self.blocks.get(&block).map(|block| self.owners.get(block.owner).cgroup)
    }
}
