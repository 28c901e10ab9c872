//! Clients, a queue, and a device around the cache.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Range;

use weir_cache::{Admission, Cache, Overlay, Ready, Reason, Settings, WriteId};
use weir_engine::{CgroupId, Config, Engine, Extent, Instant, Path};

use crate::history::{Effect, History};

/// Bytes that always go together.
const CELL: usize = 256;
/// Cells of the device: it ends inside a block.
pub(crate) const CELLS: usize = 20 * 16 + 3;
/// Of a block, which has one owner.
const BLOCK: usize = 4096;
/// The client that has its part of the device for itself, and where it begins.
pub(crate) const APART: usize = 1;
pub(crate) const APART_FROM: usize = 100;
/// Before anything is written.
const FIRST: u8 = 255;

/// What may happen.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Write {
        client: usize,
        at: usize,
        len: usize,
        fua: bool,
    },
    Zero {
        client: usize,
        at: usize,
        len: usize,
        is_trim: bool,
    },
    Read {
        client: usize,
        at: usize,
        len: usize,
    },
    Flush {
        client: usize,
    },
    /// Something in the queue goes to the device, which does it at once or when it ends.
    Dispatch {
        pick: usize,
        early: bool,
    },
    /// The device ends something.
    Finish {
        pick: usize,
        fails: bool,
    },
    Pass {
        millis: u64,
    },
}

/// What waits in the queue or is at the device.
#[derive(Clone, Debug)]
enum Job {
    WriteBack {
        id: WriteId,
        payer: CgroupId,
        /// When the device got the bytes: what is written to these blocks from then on is not among them.
        began: u64,
        parts: Vec<(usize, Vec<u8>)>,
    },
    /// Around the cache; by its number in the history.
    Around {
        write: usize,
        cells: Range<usize>,
        bytes: Option<Vec<u8>>,
        fua: bool,
    },
    Read {
        began: u64,
        cells: Range<usize>,
        overlay: Option<Overlay>,
        sampled: Option<Vec<u8>>,
    },
    Flush {
        client: usize,
        began: u64,
        taken: u64,
    },
}

/// A client: whose it is, what it sees of the device, what it has been told of failures.
struct Client {
    owner: usize,
    cells: Range<usize>,
    seen: u64,
    must_fail: bool,
}

pub(crate) struct World {
    cache: Cache,
    owners: Vec<CgroupId>,
    clients: Vec<Client>,
    /// Of each block, when the cache last took bytes, and whose.
    last_taken: Vec<(u64, CgroupId)>,
    history: History,
    clock: u64,
    now: Instant,
    luck: u64,
    /// What the device answers.
    shown: Vec<u8>,
    /// What it keeps of each cell without power, and which of all that it has taken that was.
    kept: Vec<(u64, u8)>,
    /// What it has taken, in order: the cell, and its value.
    taken: Vec<(usize, u8)>,
    queue: Vec<Job>,
    at_device: Vec<(Job, bool)>,
    /// Operations that wait for the cache's, and the cache's for them.
    waiting: BTreeMap<u64, (Job, bool)>,
    held: BTreeMap<WriteId, (CgroupId, bool)>,
    /// Writes that wait for room: number in the history, whose, and bytes.
    unadmitted: BTreeMap<u64, (usize, CgroupId, Range<usize>, Vec<u8>)>,
    flushes: BTreeMap<u64, (usize, u64)>,
    serial: u64,
}

impl World {
    pub(crate) fn new(luck: u64) -> World {
        let mut engine = Engine::new(Config::default(), Instant::ZERO);
        let owners =
            ["/a", "/b"].map(|path| engine.ensure_cgroup(&Path::parse(path).unwrap()).unwrap());
        let settings = Settings {
            blocks_max: NonZeroU32::new(16).unwrap(),
            expire_ns: 30_000_000,
            retry_ns: 20_000_000,
            request_blocks_max: NonZeroU32::new(3).unwrap(),
            requests_per_owner_max: NonZeroU32::new(2).unwrap(),
        };
        // The second has its part of the device for itself, the third shares all of it with the others.
        let client = |owner, cells| Client { owner, cells, seen: 0, must_fail: false };
        World {
            cache: Cache::new(settings, (CELLS * CELL) as u64, Instant::ZERO),
            owners: owners.to_vec(),
            last_taken: vec![(0, owners[0]); (CELLS * CELL).div_ceil(BLOCK)],
            clients: vec![client(0, 0..CELLS), client(1, APART_FROM..CELLS), client(0, 0..CELLS)],
            history: History::new(CELLS, FIRST),
            clock: 0,
            now: Instant::ZERO,
            luck,
            shown: vec![FIRST; CELLS * CELL],
            kept: vec![(0, FIRST); CELLS],
            taken: Vec::new(),
            queue: Vec::new(),
            at_device: Vec::new(),
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            unadmitted: BTreeMap::new(),
            flushes: BTreeMap::new(),
            serial: 0,
        }
    }

    /// A number below `below`, by SplitMix64.
    fn random(&mut self, below: usize) -> usize {
        self.luck = self.luck.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.luck;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % below
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// A range of a client's part of the device.
    fn place(&self, client: usize, at: usize, len: usize) -> Range<usize> {
        let part = &self.clients[client].cells;
        let start = part.start + at % part.len();
        start..(start + len).min(part.end)
    }

    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Write { client, at, len, fua } => self.write(client, at, len, fua),
            Action::Zero { client, at, len, is_trim } => {
                let cells = self.place(client, at, len);
                let effect = if is_trim { Effect::Anything } else { Effect::Is(0) };
                let now = self.tick();
                let write = self.history.begin(now, cells.clone(), effect);
                let bytes = (!is_trim).then(|| vec![0; cells.len() * CELL]);
                self.queue.push(Job::Around { write, cells, bytes, fua: false });
            }
            Action::Read { client, at, len } => self.read(client, at, len),
            Action::Flush { client } => {
                let (token, began) = (self.next_serial(), self.tick());
                let Client { owner, cells, seen, .. } = &self.clients[client];
                let bytes = (cells.start * CELL) as u64..(cells.end * CELL) as u64;
                self.cache.flush(self.now, self.owners[*owner], bytes, *seen, token);
                self.flushes.insert(token, (client, began));
            }
            Action::Dispatch { pick, early } if !self.queue.is_empty() => {
                let job = self.queue.swap_remove(pick % self.queue.len());
                self.dispatch(job, early);
            }
            Action::Finish { pick, fails } if !self.at_device.is_empty() => {
                let (job, is_done) = self.at_device.swap_remove(pick % self.at_device.len());
                self.finish(job, is_done, fails);
            }
            Action::Pass { millis } => self.now = self.now.plus_nanos(millis * 1_000_000),
            Action::Dispatch { .. } | Action::Finish { .. } => {}
        }
        self.pump();
        self.cache.check().unwrap();
    }

    fn write(&mut self, client: usize, at: usize, len: usize, fua: bool) {
        let cells = self.place(client, at, len);
        let now = self.tick();
        // Every write has a value of its own.
        let value = (self.history.writes.len() % 254 + 1) as u8;
        let write = self.history.begin(now, cells.clone(), Effect::Is(value));
        let bytes = vec![value; cells.len() * CELL];
        let around = |bytes| Job::Around { write, cells: cells.clone(), bytes: Some(bytes), fua };
        if fua {
            self.queue.push(around(bytes));
            return;
        }
        let (owner, token) = (self.owners[self.clients[client].owner], self.next_serial());
        let offset = (cells.start * CELL) as u64;
        match self.cache.write(self.now, owner, offset, &bytes, token) {
            Admission::Taken => self.is_taken(write, owner, &cells),
            Admission::Waits => drop(self.unadmitted.insert(token, (write, owner, cells, bytes))),
            Admission::TooLong => self.queue.push(around(bytes)),
        }
    }

    /// The cache has the bytes of a write, which is answered.
    fn is_taken(&mut self, write: usize, owner: CgroupId, cells: &Range<usize>) {
        let now = self.tick();
        self.history.end(now, write, false);
        for block in cells.start * CELL / BLOCK..(cells.end * CELL).div_ceil(BLOCK) {
            self.last_taken[block] = (now, owner);
        }
    }

    fn read(&mut self, client: usize, at: usize, len: usize) {
        let cells = self.place(client, at, len);
        let began = self.tick();
        let mut bytes = vec![0; cells.len() * CELL];
        let (offset, len) = ((cells.start * CELL) as u64, bytes.len() as u64);
        let reader = self.owners[self.clients[client].owner];
        let is_here = self.cache.holds(offset, len);
        assert_eq!(self.cache.read(reader, offset, &mut bytes), is_here);
        if is_here {
            self.check_read(began, &cells, &bytes);
        } else {
            self.queue.push(Job::Read { began, cells, overlay: None, sampled: None });
        }
    }

    fn check_read(&mut self, began: u64, cells: &Range<usize>, bytes: &[u8]) {
        let ended = self.tick();
        for (cell, bytes) in cells.clone().zip(bytes.chunks(CELL)) {
            // A loss or a failure may cut a cell, a read never does.
            if bytes.iter().all(|&byte| byte == bytes[0]) {
                self.history.check_read(began, ended, cell, bytes[0]);
            } else {
                panic!("cell {cell} is cut");
            }
        }
    }

    /// What the cache wants done, until it wants nothing.
    fn pump(&mut self) {
        loop {
            if let Some(admitted) = self.cache.poll_admitted(self.now) {
                let (write, owner, cells, bytes) = self.unadmitted.remove(&admitted.token).unwrap();
                if admitted.result.is_ok() {
                    self.cache.fill((cells.start * CELL) as u64, &bytes);
                    self.is_taken(write, owner, &cells);
                }
            } else if let Some(flushed) = self.cache.poll_flushed() {
                let (client, began) = self.flushes.remove(&flushed.token).unwrap();
                let state = &mut self.clients[client];
                assert!(flushed.result.is_err() || !state.must_fail, "a failure was swallowed");
                state.seen = flushed.seen;
                state.must_fail = false;
                if flushed.result.is_ok() {
                    self.queue.push(Job::Flush { client, began, taken: 0 });
                }
            } else if let Some(ready) = self.cache.poll_ready() {
                match ready {
                    Ready::Operation(key) => {
                        let (job, early) = self.waiting.remove(&key).unwrap();
                        self.arrive(job, early);
                    }
                    Ready::Write(id) => {
                        let (payer, early) = self.held.remove(&id).unwrap();
                        self.start(id, payer, early);
                    }
                }
            } else if let Some(write) = self.cache.poll_write(self.now) {
                // The engine may be full.
                if self.random(8) == 0 {
                    self.cache.give_back(write.id);
                    return;
                }
                self.queue.push(Job::WriteBack {
                    id: write.id,
                    payer: write.owner,
                    began: 0,
                    parts: Vec::new(),
                });
            } else {
                return;
            }
        }
    }

    fn dispatch(&mut self, job: Job, early: bool) {
        match job {
            Job::WriteBack { id, payer, .. } => self.start(id, payer, early),
            Job::Around { write, ref cells, .. } => {
                let (offset, len) = (cells.start * CELL, cells.len() * CELL);
                if self.cache.begin(write as u64, offset as u64, len as u64) {
                    self.arrive(job, early);
                } else {
                    self.waiting.insert(write as u64, (job, early));
                }
            }
            Job::Read { began, cells, .. } => {
                let (offset, len) = (cells.start * CELL, cells.len() * CELL);
                let overlay = self.cache.overlay(offset as u64, len as u32);
                let sampled = early.then(|| self.shown[offset..offset + len].to_vec());
                self.at_device.push((Job::Read { began, cells, overlay, sampled }, early));
            }
            Job::Flush { client, began, .. } => {
                let taken = self.taken.len() as u64;
                self.at_device.push((Job::Flush { client, began, taken }, early));
            }
        }
    }

    fn start(&mut self, id: WriteId, payer: CgroupId, early: bool) {
        let mut parts = Vec::new();
        if !self.cache.start(id, &mut parts) {
            self.held.insert(id, (payer, early));
            return;
        }
        let copies = parts.iter().map(|part: &Extent| {
            let mut bytes = vec![0; part.len as usize];
            self.cache.copy(part.offset, &mut bytes);
            (part.offset as usize, bytes)
        });
        let parts = copies.collect();
        let job = Job::WriteBack { id, payer, began: self.tick(), parts };
        self.arrive(job, early);
    }

    /// Something that writes is at the device.
    fn arrive(&mut self, job: Job, early: bool) {
        if early {
            self.take_effect(&job, false);
        }
        self.at_device.push((job, early));
    }

    /// The device does it; if it fails, any part of it.
    fn take_effect(&mut self, job: &Job, fails: bool) {
        let parts: Vec<(usize, Vec<u8>)> = match job {
            Job::WriteBack { parts, .. } => parts.clone(),
            Job::Around { cells, bytes: Some(bytes), .. } => {
                vec![(cells.start * CELL, bytes.clone())]
            }
            Job::Around { cells, bytes: None, .. } => {
                // A trim zeroes some of it.
                let cells: Vec<usize> = cells.clone().filter(|_| self.random(2) == 0).collect();
                cells.into_iter().map(|cell| (cell * CELL, vec![0; CELL])).collect()
            }
            Job::Read { .. } | Job::Flush { .. } => return,
        };
        for (offset, bytes) in parts {
            for (index, cell) in bytes.chunks(CELL).enumerate() {
                if fails && self.random(2) == 0 {
                    continue;
                }
                let at = offset + index * CELL;
                self.shown[at..at + cell.len()].copy_from_slice(cell);
                self.taken.push((at / CELL, cell[0]));
            }
        }
    }

    fn finish(&mut self, job: Job, is_done: bool, fails: bool) {
        if !is_done {
            self.take_effect(&job, fails);
        }
        match job {
            Job::WriteBack { id, payer, began, parts } => {
                if fails {
                    self.must_tell(payer, began, &parts);
                }
                let result = if fails { Err(Reason(5)) } else { Ok(()) };
                self.cache.complete(self.now, id, result);
            }
            Job::Around { write, cells, fua, .. } => {
                let (offset, len) = (cells.start * CELL, cells.len() * CELL);
                if fua && !fails {
                    self.keep(self.taken.len() as u64, &cells);
                }
                self.cache.end(write as u64, offset as u64, len as u64, !fails);
                if !fails {
                    let now = self.tick();
                    self.history.end(now, write, fua);
                }
            }
            Job::Read { began, cells, overlay, sampled } => {
                let (offset, len) = (cells.start * CELL, cells.len() * CELL);
                let mut bytes =
                    sampled.unwrap_or_else(|| self.shown[offset..offset + len].to_vec());
                self.cache.finish_read(overlay.as_ref(), offset as u64, &mut bytes);
                self.check_read(began, &cells, &bytes);
            }
            Job::Flush { client, began, taken } => {
                if !fails {
                    self.keep(taken, &(0..CELLS));
                    let cells = self.clients[client].cells.clone();
                    self.history.flushed(began, &cells);
                }
            }
        }
    }

    /// A request of `payer` that took its bytes at `began` has failed: every asker of its owner has to be told, and of
    /// an owner that has taken a block over meanwhile, since its bytes are not on the device either.
    fn must_tell(&mut self, payer: CgroupId, began: u64, parts: &[(usize, Vec<u8>)]) {
        let blocks = parts
            .iter()
            .flat_map(|(offset, bytes)| offset / BLOCK..(offset + bytes.len()).div_ceil(BLOCK));
        let overwritten = blocks.map(|block| self.last_taken[block]);
        let later = overwritten.filter(|&(at, _)| at > began).map(|(_, owner)| owner);
        let told: Vec<CgroupId> = later.chain([payer]).collect();
        for client in &mut self.clients {
            client.must_fail |= told.contains(&self.owners[client.owner]);
        }
    }

    /// Makes the first `count` that the device has taken last, as far as they are inside `cells`.
    fn keep(&mut self, count: u64, cells: &Range<usize>) {
        for (number, &(cell, value)) in (1..=count).zip(&self.taken) {
            if cells.contains(&cell) && number > self.kept[cell].0 {
                self.kept[cell] = (number, value);
            }
        }
    }

    /// The device keeps what it was made to, and of the rest what it likes.
    pub(crate) fn power_fails(&mut self) {
        for (job, is_done) in std::mem::take(&mut self.at_device) {
            if !is_done && self.random(2) == 0 {
                self.take_effect(&job, true);
            }
        }
        for (number, (cell, value)) in (1..).zip(self.taken.clone()) {
            if number > self.kept[cell].0 && self.random(2) == 0 {
                self.kept[cell] = (number, value);
            }
        }
        for (cell, &(_, value)) in self.kept.iter().enumerate() {
            self.history.check_kept(cell, value);
        }
    }

    /// No more failures, and time goes by: everything that was asked for is answered.
    pub(crate) fn comes_to_rest(&mut self) {
        for _ in 0..4_000 {
            self.cache.release_all(self.now);
            self.act(Action::Pass { millis: 1 });
            let pick = self.random(1 << 20);
            self.act(Action::Dispatch { pick, early: pick.is_multiple_of(2) });
            self.act(Action::Finish { pick, fails: false });
            if self.is_at_rest() {
                break;
            }
        }
        assert!(self.is_at_rest(), "something waits for ever");
        for client in 0..self.clients.len() {
            self.act(Action::Read { client, at: 0, len: CELLS });
            self.act(Action::Dispatch { pick: 0, early: false });
            self.act(Action::Finish { pick: 0, fails: false });
        }
    }

    fn is_at_rest(&self) -> bool {
        self.queue.is_empty()
            && self.at_device.is_empty()
            && self.waiting.is_empty()
            && self.held.is_empty()
            && self.unadmitted.is_empty()
            && self.flushes.is_empty()
            && self.cache.dirty_bytes() == 0
    }
}
