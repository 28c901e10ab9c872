//! Writeback with an engine and a device, in virtual time: ownership of blocks, charges and waits.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::ops::Range;

use proptest::prelude::*;
use weir_cache::writeback::{
    Admission, Awaited, BLOCK_BYTES, Bound, Reason, Settings, WriteId, Writeback,
};
use weir_engine::{
    CgroupId, Change, Class, Config, Dimension, Engine, Extent, Instant, Limits, Op, Outcome, Path,
    PerDimension, Request, RequestId, SchedulerKind, TaskId, Ticket, Weight,
};

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

fn count(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn cgroups(engine: &mut Engine, names: &[&str]) -> Vec<CgroupId> {
    names.iter().map(|name| engine.ensure_cgroup(&Path::parse(name).unwrap()).unwrap()).collect()
}

// Ownership of blocks, compared with a plain account.

#[derive(Clone, Debug)]
enum Call {
    Write { owner: usize, at: u64, len: u64 },
    Choose,
    GiveBack,
    Start { pick: usize },
    Complete { pick: usize, fails: bool },
    Forget { at: u64 },
    Flush { owner: usize },
    Pass { millis: u64 },
}

const BLOCKS: u64 = 40;

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        8 => (0..3usize, 0..BLOCKS, 1..6u64).prop_map(|(owner, at, len)| Call::Write { owner, at, len }),
        4 => Just(Call::Choose),
        1 => Just(Call::GiveBack),
        4 => any::<usize>().prop_map(|pick| Call::Start { pick }),
        4 => (any::<usize>(), 0..8u8).prop_map(|(pick, luck)| Call::Complete { pick, fails: luck == 0 }),
        1 => (0..BLOCKS).prop_map(|at| Call::Forget { at }),
        1 => (0..3usize).prop_map(|owner| Call::Flush { owner }),
        3 => (0..9u64).prop_map(|millis| Call::Pass { millis }),
    ]
}

/// Where a block of the plain account is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Stage {
    Dirty,
    Chosen(WriteId),
    AtDevice(WriteId, bool),
}

#[derive(Default)]
struct Plain {
    blocks: BTreeMap<u64, (CgroupId, Stage)>,
}

impl Plain {
    /// Another's write takes a block over, but not while it is chosen.
    fn write(&mut self, owner: CgroupId, blocks: Range<u64>) {
        for at in blocks {
            let block = self.blocks.entry(at).or_insert((owner, Stage::Dirty));
            *block = match *block {
                (_, Stage::Dirty) => (owner, Stage::Dirty),
                (before, Stage::Chosen(id)) => (before, Stage::Chosen(id)),
                (_, Stage::AtDevice(id, _)) => (owner, Stage::AtDevice(id, true)),
            };
        }
    }

    fn of(&self, owner: CgroupId) -> u64 {
        self.blocks.values().filter(|(of, _)| *of == owner).count() as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn owners_and_shares_are_as_told(calls in prop::collection::vec(call(), 1..250)) {
        let mut engine = Engine::new(Config::default(), Instant::ZERO);
        let owners = cgroups(&mut engine, &["/a", "/b", "/c"]);
        let settings = Settings {
            blocks_max: count(32),
            expire_ns: 10_000_000,
            retry_ns: 5_000_000,
            request_blocks_max: count(4),
            requests_per_owner_max: count(2),
        };
        let mut ledger = Writeback::new(settings, Instant::ZERO);
        let mut plain = Plain::default();
        let mut now = Instant::ZERO;
        let (mut chosen, mut at_device) = (Vec::new(), Vec::new());
        let mut waiting: BTreeMap<u64, (usize, Range<u64>)> = BTreeMap::new();
        let mut last_admitted = [0u64; 3];
        let mut token = 0;
        for call in calls {
            match call {
                Call::Write { owner, at, len } => {
                    token += 1;
                    let blocks = at..(at + len).min(BLOCKS);
                    let before = plain.of(owners[owner]);
                    match ledger.write(now, owners[owner], blocks.clone(), true, token) {
                        Admission::TooLong => prop_assert!(blocks.end - blocks.start > 32 / 8),
                        Admission::Waits => drop(waiting.insert(token, (owner, blocks))),
                        Admission::Taken => {
                            plain.write(owners[owner], blocks);
                            let (has, left) = (plain.of(owners[owner]), 32 - plain.blocks.len() as u64);
                            prop_assert!(has <= before || before == 0 || has <= 4 * left);
                        }
                    }
                }
                Call::Choose => {
                    while let Some(write) = ledger.poll_write(now) {
                        prop_assert!(write.blocks.end - write.blocks.start <= 4);
                        for at in write.blocks.clone() {
                            let block = plain.blocks.get_mut(&at).expect("only what is dirty");
                            prop_assert_eq!(*block, (write.owner, Stage::Dirty));
                            block.1 = Stage::Chosen(write.id);
                        }
                        chosen.push(write);
                    }
                }
                Call::GiveBack => {
                    if let Some(write) = ledger.poll_write(now) {
                        ledger.give_back(write.id);
                    }
                }
                Call::Start { pick } if !chosen.is_empty() => {
                    let write = chosen.swap_remove(pick % chosen.len());
                    let mut runs = Vec::new();
                    ledger.start(write.id, &mut runs);
                    let blocks: Vec<u64> = runs.into_iter().flatten().collect();
                    let mine = plain.blocks.iter_mut().filter(|(_, block)| block.1 == Stage::Chosen(write.id));
                    let mut wanted = Vec::new();
                    for (&at, block) in mine {
                        block.1 = Stage::AtDevice(write.id, false);
                        wanted.push(at);
                    }
                    prop_assert_eq!(blocks, wanted);
                    at_device.push(write);
                }
                Call::Complete { pick, fails } if !at_device.is_empty() => {
                    let write = at_device.swap_remove(pick % at_device.len());
                    let result = if fails { Err(Reason(5)) } else { Ok(()) };
                    let mut clean = Vec::new();
                    ledger.complete(now, write.id, result, |at| clean.push(at));
                    for at in write.blocks {
                        let Some(&(owner, stage)) = plain.blocks.get(&at) else { continue };
                        let Stage::AtDevice(id, again) = stage else { continue };
                        if id == write.id && (again || fails) {
                            plain.blocks.insert(at, (owner, Stage::Dirty));
                        } else if id == write.id {
                            plain.blocks.remove(&at);
                            prop_assert!(clean.contains(&at));
                        }
                    }
                }
                Call::Forget { at } => {
                    if !matches!(plain.blocks.get(&at), Some((_, Stage::AtDevice(..)))) {
                        ledger.forget(at);
                        plain.blocks.remove(&at);
                    }
                }
                Call::Flush { owner } => ledger.flush(now, owners[owner], 0..BLOCKS, 0, 0),
                Call::Pass { millis } => now = now.plus_nanos(millis * 1_000_000),
                Call::Start { .. } | Call::Complete { .. } => {}
            }
            while let Some(admitted) = ledger.poll_admitted(now, |_| true) {
                let (owner, blocks) = waiting.remove(&admitted.token).expect("waited");
                prop_assert!(admitted.token > last_admitted[owner], "out of order");
                last_admitted[owner] = admitted.token;
                if admitted.result.is_ok() {
                    plain.write(owners[owner], blocks);
                }
            }
            while ledger.poll_flushed().is_some() {}
            prop_assert!(plain.blocks.len() <= 32);
            for at in 0..BLOCKS {
                prop_assert_eq!(ledger.owner(at), plain.blocks.get(&at).map(|block| block.0), "block {}", at);
            }
            if let Err(error) = ledger.check() {
                return Err(TestCaseError::fail(error));
            }
        }
        // Nothing fails any more: everything is written, and all waiting writes are admitted.
        for _ in 0..1_000 {
            if waiting.is_empty() && ledger.dirty_bytes() == 0 {
                break;
            }
            ledger.release_all(now);
            chosen.extend(std::iter::from_fn(|| ledger.poll_write(now)));
            at_device.append(&mut chosen);
            for write in at_device.drain(..) {
                ledger.start(write.id, &mut Vec::new());
                ledger.complete(now, write.id, Ok(()), |_| {});
            }
            while let Some(admitted) = ledger.poll_admitted(now, |_| true) {
                waiting.remove(&admitted.token);
            }
            now = now.plus_nanos(1_000_000);
        }
        prop_assert!(waiting.is_empty(), "somebody waits for ever");
        prop_assert_eq!(ledger.dirty_bytes(), 0);
    }
}

// Charges, with an engine and a device of one rate.

/// How a request is charged for what waits for it.
fn class_of(awaited: Awaited) -> Class {
    if awaited == Awaited::ByAnother { Class::Owed } else { Class::Data }
}

/// An engine, the ledger of a cache, and a device that does one request after the other at `rate` bytes a second.
struct Rig {
    engine: Engine,
    ledger: Writeback,
    owners: Vec<CgroupId>,
    /// Tasks that write back and that read, by owner.
    payers: Vec<TaskId>,
    readers: Vec<TaskId>,
    rate: u64,
    queue: VecDeque<(Ticket, Request)>,
    busy_until: Instant,
    now: Instant,
    requests: BTreeMap<u64, WriteId>,
    on_way: BTreeMap<WriteId, (RequestId, usize)>,
    /// Flushes that have ended.
    flushed: Vec<u64>,
    serial: u64,
    /// Bytes that the device has written and read for each.
    written: Vec<u64>,
    read: Vec<u64>,
    /// Next block of each that is written to, and whether a write waits.
    next: Vec<u64>,
    blocked: Vec<bool>,
    dirty_max: u64,
}

impl Rig {
    fn new(scheduler: SchedulerKind, rate: u64, names: &[&str], cache_blocks: u32) -> Rig {
        let config = Config { depth: count(1), scheduler, rotational: false, ..Config::default() };
        let mut engine = Engine::new(config, Instant::ZERO);
        let owners = cgroups(&mut engine, names);
        let mut task = |owner: &CgroupId| {
            let client = engine.open_client(*owner).unwrap();
            engine.open_task(client).unwrap()
        };
        let payers = owners.iter().map(&mut task).collect();
        let readers = owners.iter().map(&mut task).collect();
        let settings = Settings { blocks_max: count(cache_blocks), ..Settings::default() };
        let many = owners.len();
        Rig {
            engine,
            ledger: Writeback::new(settings, Instant::ZERO),
            owners,
            payers,
            readers,
            rate,
            queue: VecDeque::new(),
            busy_until: Instant::ZERO,
            now: Instant::ZERO,
            requests: BTreeMap::new(),
            on_way: BTreeMap::new(),
            flushed: Vec::new(),
            serial: 0,
            written: vec![0; many],
            read: vec![0; many],
            next: (0..many as u64).map(|who| who << 30).collect(),
            blocked: vec![false; many],
            dirty_max: 0,
        }
    }

    fn limit(&mut self, who: usize, wbps: u64) {
        let max = PerDimension::NONE.with(Dimension::Wbps, wbps);
        let burst = PerDimension::NONE.with(Dimension::Wbps, MIB);
        let limits = Limits { max, burst, ..Limits::default() };
        let cgroup = self.owners[who];
        self.engine.reconfigure(self.now, Change::SetLimits { cgroup, limits }).unwrap();
    }

    fn weigh(&mut self, who: usize, weight: u64) {
        let (cgroup, weight) = (self.owners[who], Weight::new(weight).unwrap());
        self.engine.reconfigure(self.now, Change::SetWeight { cgroup, weight }).unwrap();
    }

    /// Writes as fast as the cache takes it.
    fn dirty(&mut self, who: usize) {
        while !self.blocked[who] {
            let blocks = self.next[who]..self.next[who] + 16;
            let (now, owner) = (self.now, self.owners[who]);
            match self.ledger.write(now, owner, blocks, true, who as u64) {
                Admission::Taken => self.next[who] += 16,
                Admission::Waits => self.blocked[who] = true,
                Admission::TooLong => unreachable!("64 KiB"),
            }
        }
    }

    fn submit_read(&mut self, who: usize) {
        self.serial += 1;
        let extent = Extent::new(self.serial % 1000 * MIB, 64 << 10);
        let read = Request::new(self.readers[who], Op::Read, extent, self.serial);
        self.engine.submit(self.now, read).unwrap();
    }

    /// One turn: what the cache wants goes in, what may go goes to the device, and time goes on to what comes next.
    fn turn(&mut self, writers: &[usize]) {
        for &who in writers {
            self.dirty(who);
        }
        while let Some((id, awaited)) = self.ledger.poll_awaited() {
            let (request, who) = self.on_way[&id];
            self.engine.promote(self.now, request, self.payers[who], class_of(awaited));
        }
        while let Some(write) = self.ledger.poll_write(self.now) {
            self.serial += 1;
            let who = self.owners.iter().position(|&owner| owner == write.owner).unwrap();
            let len = (write.blocks.end - write.blocks.start) * BLOCK_BYTES;
            let extent = Extent::new(write.blocks.start * BLOCK_BYTES, len as u32);
            let request = Request::new(self.payers[who], Op::Write, extent, self.serial);
            let (sync, class) = (write.awaited != Awaited::No, class_of(write.awaited));
            let id = self.engine.submit(self.now, Request { sync, class, ..request }).unwrap();
            self.requests.insert(self.serial, write.id);
            self.on_way.insert(write.id, (id, who));
        }
        self.engine.handle_timeout(self.now);
        while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
            let request = dispatch.request;
            if let Some(&id) = self.requests.get(&request.tag) {
                self.ledger.start(id, &mut Vec::new());
            }
            let takes = u64::from(request.extent.len) * SECOND / self.rate;
            self.busy_until = self.busy_until.max(self.now).plus_nanos(takes);
            self.queue.push_back((dispatch.ticket, request));
        }
        let device = (!self.queue.is_empty()).then_some(self.busy_until);
        let others = [self.engine.poll_timeout(), self.ledger.poll_timeout()];
        let next = others.into_iter().flatten().filter(|&at| at > self.now).chain(device).min();
        self.now = next.unwrap_or(self.now.plus_nanos(1_000_000));
        if device == Some(self.now) {
            let (ticket, request) = self.queue.pop_front().unwrap();
            self.engine.complete(self.now, ticket, Outcome::Done);
            let len = u64::from(request.extent.len);
            match self.requests.remove(&request.tag) {
                Some(id) => {
                    self.on_way.remove(&id);
                    self.ledger.complete(self.now, id, Ok(()), |_| {});
                    let who = self.payers.iter().position(|&task| task == request.task).unwrap();
                    self.written[who] += len;
                }
                None => {
                    let who = self.readers.iter().position(|&task| task == request.task).unwrap();
                    self.read[who] += len;
                    self.submit_read(who);
                }
            }
        }
        while let Some(admitted) = self.ledger.poll_admitted(self.now, |_| true) {
            let who = admitted.token as usize;
            self.next[who] += 16;
            self.blocked[who] = false;
        }
        while let Some(flushed) = self.ledger.poll_flushed() {
            assert_eq!(flushed.result, Ok(()));
            self.flushed.push(flushed.token);
        }
        self.dirty_max = self.dirty_max.max(self.ledger.dirty_bytes());
        if self.serial.is_multiple_of(64) {
            self.ledger.check().unwrap();
            self.engine.check().unwrap();
        }
    }

    /// Flushes these blocks and returns the time that takes while `writers` write on.
    fn flush(&mut self, who: usize, blocks: Range<u64>, writers: &[usize]) -> u64 {
        let (began, token) = (self.now, 1_000_000 + self.serial);
        self.ledger.flush(self.now, self.owners[who], blocks, 0, token);
        while !self.flushed.contains(&token) {
            self.turn(writers);
        }
        self.now.nanos_since(began)
    }

    fn run(&mut self, writers: &[usize], until: Instant) {
        while self.now < until {
            self.turn(writers);
        }
    }
}

/// The third case of the io-throttle report: buffered writers at 4 and 2 MiB/s, and the disk sees just that.
#[test]
fn buffered_writes_keep_the_limits_of_their_owners() {
    for scheduler in SchedulerKind::ALL {
        let mut rig = Rig::new(scheduler, 100 * MIB, &["/four", "/two"], 8192);
        rig.limit(0, 4 * MIB);
        rig.limit(1, 2 * MIB);
        let (from, until) = (Instant::from_millis(10_000), Instant::from_millis(60_000));
        rig.run(&[0, 1], from);
        let before = rig.written.clone();
        rig.run(&[0, 1], until);
        for (who, limit) in [(0, 4 * MIB), (1, 2 * MIB)] {
            let written = rig.written[who] - before[who];
            let allowed = limit * 50;
            assert!(
                written.abs_diff(allowed) <= allowed / 100 + MIB,
                "{scheduler:?}: {who} wrote {written} of {allowed}"
            );
            // The writer is ahead of the disk by what is dirty, and no more.
            assert!(rig.ledger.stats(rig.owners[who]).dirty_bytes > 0);
        }
        assert!(rig.dirty_max <= 8192 * BLOCK_BYTES);
    }
}

/// Without limits the weights of the owners decide, where there is a scheduler that knows weights.
#[test]
fn what_is_written_back_is_shared_by_the_weights_of_the_owners() {
    let mut rig = Rig::new(SchedulerKind::Bfq, 20 * MIB, &["/three", "/one"], 16_384);
    rig.weigh(0, 300);
    rig.weigh(1, 100);
    rig.run(&[0, 1], Instant::from_millis(60_000));
    let (three, one) = (rig.written[0], rig.written[1]);
    assert!((three * 10 / one).abs_diff(30) <= 2, "{three} to {one}");
    assert!(
        three + one >= 1150 * MIB,
        "the disk is kept busy: {} of 1200 MiB",
        (three + one) / MIB
    );
}

/// A reader beside a neighbour with all of its share of the cache to be written: it has its half of the disk at least.
#[test]
fn reads_do_not_wait_for_a_neighbours_backlog() {
    for scheduler in SchedulerKind::ALL {
        let mut rig = Rig::new(scheduler, 20 * MIB, &["/writer", "/reader"], 16_384);
        rig.run(&[0], Instant::from_millis(5_000));
        assert!(rig.ledger.stats(rig.owners[0]).dirty_bytes > 40 * MIB, "there is a backlog");
        // As many at once as the cache has on its way: 16.
        (0..16).for_each(|_| rig.submit_read(1));
        let (began, from) = (rig.now, rig.written[0]);
        rig.run(&[0], began.plus_nanos(20 * SECOND));
        let (read, wrote) = (rig.read[1], rig.written[0] - from);
        let half = 20 * 20 * MIB / 2;
        let least = match scheduler {
            // By turns, a request each, whatever its size: 64 KiB to 512.
            SchedulerKind::None => half * 2 / 9,
            _ => half,
        };
        assert!(
            read * 100 >= least * 95,
            "{scheduler:?}: read {} MiB beside {}",
            read / MIB,
            wrote / MIB
        );
    }
}

/// A bounded owner writes longer writes through, and waits at its bound.
#[test]
fn an_owner_may_be_bounded_below_its_share() {
    let mut rig = Rig::new(SchedulerKind::None, 20 * MIB, &["/bounded", "/free"], 16_384);
    let bounded = rig.owners[0];
    let bound = Bound { bytes: 2 * MIB, bytes_per_sec: MIB };
    rig.ledger.bound(rig.now, bounded, Some(bound));
    rig.dirty(0);
    assert_eq!(rig.ledger.stats(bounded).dirty_bytes, 2 * MIB);
    assert_eq!(rig.ledger.write(rig.now, bounded, 0..513, true, 9), Admission::TooLong);
    rig.dirty(1);
    assert!(rig.ledger.stats(rig.owners[1]).dirty_bytes > 45 * MIB);
    rig.run(&[0, 1], Instant::from_millis(5_000));
    assert!(rig.ledger.stats(bounded).dirty_bytes <= 2 * MIB);
    assert!(rig.written[0] > 40 * MIB, "it writes on: {} MiB", rig.written[0] / MIB);
    rig.ledger.bound(rig.now, bounded, None);
    rig.run(&[0, 1], Instant::from_millis(5_100));
    assert!(rig.ledger.stats(bounded).dirty_bytes > 10 * MIB);
}

/// One that comes late finds room, and one that is over its share waits while others do not.
#[test]
fn nobody_takes_the_room_of_others() {
    let mut rig = Rig::new(SchedulerKind::None, 20 * MIB, &["/early", "/late"], 16_384);
    rig.limit(0, 16 << 10);
    rig.dirty(0);
    let share = rig.ledger.stats(rig.owners[0]).dirty_bytes;
    assert_eq!(share / MIB, 64 * 4 / 5, "four fifths alone");
    rig.dirty(1);
    let late = rig.ledger.stats(rig.owners[1]);
    assert!(late.dirty_bytes >= 10 * MIB, "{} bytes are left for it", late.dirty_bytes);
    // The early one writes back at 16 KiB/s; the late one at what the disk gives.
    rig.run(&[0, 1], Instant::from_millis(20_000));
    assert!(rig.written[1] > 300 * MIB, "{} MiB", rig.written[1] / MIB);
    assert!(rig.ledger.stats(rig.owners[0]).waiting == 1);
}

#[test]
fn a_flush_does_not_wait_for_what_is_written_again_to_age() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let owners = cgroups(&mut engine, &["/a", "/b"]);
    for overwriter in [0, 1] {
        let mut ledger = Writeback::new(Settings::default(), Instant::ZERO);
        let (now, mut runs) = (Instant::from_millis(6_000), Vec::new());
        assert_eq!(ledger.write(Instant::ZERO, owners[0], 0..1, true, 0), Admission::Taken);
        let first = ledger.poll_write(now).unwrap();
        ledger.start(first.id, &mut runs);
        assert_eq!(ledger.write(now, owners[overwriter], 0..1, true, 0), Admission::Taken);
        ledger.flush(now, owners[overwriter], 0..1, 0, 7);
        ledger.complete(now, first.id, Ok(()), |_| {});
        assert_eq!(ledger.poll_flushed(), None, "the second write is not on the device");
        let second = ledger.poll_write(now).expect("a flush waits for it");
        ledger.start(second.id, &mut runs);
        ledger.complete(now, second.id, Ok(()), |_| {});
        assert_eq!(ledger.poll_flushed().map(|flushed| flushed.token), Some(7));
    }
}

#[test]
fn a_flush_does_not_wait_for_what_another_takes_over_to_age() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let owners = cgroups(&mut engine, &["/a", "/b"]);
    let mut ledger = Writeback::new(Settings::default(), Instant::ZERO);
    let now = Instant::from_millis(1);
    assert_eq!(ledger.write(now, owners[0], 0..1, true, 0), Admission::Taken);
    ledger.flush(now, owners[0], 0..1, 0, 7);
    assert_eq!(ledger.write(now, owners[1], 0..1, true, 0), Admission::Taken);
    let write = ledger.poll_write(now).expect("a flush waits for it");
    assert_eq!(write.owner, owners[1]);
    ledger.start(write.id, &mut Vec::new());
    ledger.complete(now, write.id, Ok(()), |_| {});
    assert_eq!(ledger.poll_flushed().map(|flushed| flushed.token), Some(7));
}

/// The time is that of the cgroup that flushes, until its blocks are written; one with nothing to wait for does not count.
#[test]
fn time_that_a_flush_waits_for_writes_is_counted() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let owners = cgroups(&mut engine, &["/a", "/b"]);
    let mut ledger = Writeback::new(Settings::default(), Instant::ZERO);
    let at = Instant::from_millis;
    assert_eq!(ledger.write(at(1), owners[0], 0..1, true, 0), Admission::Taken);
    ledger.flush(at(2), owners[1], 0..1, 0, 7);
    ledger.flush(at(3), owners[1], 64..65, 0, 8);
    let mut flushed = || ledger.poll_flushed().map(|flushed| flushed.token);
    assert_eq!([flushed(), flushed()], [Some(8), None]);
    let write = ledger.poll_write(at(4)).expect("a flush waits for it");
    ledger.start(write.id, &mut Vec::new());
    ledger.complete(at(9), write.id, Ok(()), |_| {});
    assert_eq!(ledger.poll_flushed().map(|flushed| flushed.token), Some(7));
    let waited = |owner| {
        let stats = ledger.stats(owner);
        (stats.flush_waits, stats.flush_wait_ns)
    };
    assert_eq!(waited(owners[0]), (0, 0));
    assert_eq!(waited(owners[1]), (1, 7_000_000));
}

/// The engine has no room for a request of many blocks; before it comes again its first block needs nothing any more.
#[test]
fn what_is_given_back_leaves_without_its_first_block() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let owner = cgroups(&mut engine, &["/a"])[0];
    let mut ledger = Writeback::new(Settings::default(), Instant::ZERO);
    assert_eq!(ledger.write(Instant::ZERO, owner, 0..128, true, 0), Admission::Taken);
    let now = Instant::from_millis(5_000);
    let write = ledger.poll_write(now).unwrap();
    assert_eq!(write.blocks, 0..128);
    ledger.give_back(write.id);
    ledger.forget(0);
    ledger.check().unwrap();
    ledger.flush(now, owner, 0..128, 0, 7);
    let write = ledger.poll_write(now).expect("a flush waits for it");
    assert_eq!(write.blocks, 1..128);
    ledger.start(write.id, &mut Vec::new());
    ledger.complete(now, write.id, Ok(()), |_| {});
    assert_eq!((ledger.dirty_bytes(), ledger.poll_flushed().is_some()), (0, true));
}

// What waits for write-back.

/// Readers that keep the disk busy and are not done for long; the flush's owner has one 4 KiB block to be written.
#[test]
fn a_flush_beside_readers_takes_a_few_slots_and_not_the_readers_backlog() {
    for scheduler in SchedulerKind::ALL {
        let mut rig = Rig::new(scheduler, 20 * MIB, &["/writer", "/readers"], 16_384);
        (0..16).for_each(|_| rig.submit_read(1));
        for number in 0..20 {
            rig.run(&[], rig.now.plus_nanos(SECOND / 50));
            let owner = rig.owners[0];
            let blocks = number * 1000..number * 1000 + 1;
            assert_eq!(rig.ledger.write(rig.now, owner, blocks.clone(), true, 9), Admission::Taken);
            let took = rig.flush(0, blocks, &[]);
            // The reader's slot, at most 125 ms of the disk.
            assert!(took <= 150_000_000, "{scheduler:?}: flush {number} took {} us", took / 1000);
        }
    }
}

/// The write-back is in the engine, asynchronous, when the flush comes.
#[test]
fn a_flush_promotes_what_is_on_its_way_already() {
    let mut rig = Rig::new(SchedulerKind::Bfq, 20 * MIB, &["/one"], 16_384);
    (0..16).for_each(|_| rig.submit_read(0));
    rig.run(&[], Instant::from_millis(100));
    let owner = rig.owners[0];
    assert_eq!(rig.ledger.write(rig.now, owner, 0..1, true, 9), Admission::Taken);
    rig.ledger.release(rig.now, owner);
    rig.turn(&[]);
    let blocks = rig.ledger.blocks_of(*rig.on_way.keys().next().expect("it is on its way"));
    assert_eq!(blocks, 0..1);
    let took = rig.flush(0, 0..1, &[]);
    assert!(took <= 150_000_000, "{} us", took / 1000);
}

#[test]
fn a_write_that_waits_for_room_makes_its_owners_write_back_synchronous() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let owners = cgroups(&mut engine, &["/a", "/b"]);
    let settings = Settings { blocks_max: count(1000), ..Settings::default() };
    let mut ledger = Writeback::new(settings, Instant::ZERO);
    let now = Instant::ZERO;
    let mut at = 0;
    let waiter = loop {
        match ledger.write(now, owners[0], at..at + 50, true, at) {
            Admission::Taken => at += 50,
            admission => break (admission, at),
        }
        // Pressed before it waits: on its way as asynchronous.
        while let Some(write) = ledger.poll_write(now) {
            assert_eq!(write.awaited, Awaited::No);
        }
    };
    assert_eq!(waiter.0, Admission::Waits);
    let promoted: Vec<_> = std::iter::from_fn(|| ledger.poll_awaited()).collect();
    assert!(!promoted.is_empty());
    for (id, awaited) in promoted {
        assert_eq!(awaited, Awaited::By(waiter.1));
        ledger.start(id, &mut Vec::new());
        ledger.complete(now, id, Ok(()), |_| {});
    }
    while let Some(write) = ledger.poll_write(now) {
        assert_eq!(write.awaited, Awaited::By(waiter.1));
    }
}

#[test]
fn a_flush_waits_only_for_its_own_blocks() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let owners = cgroups(&mut engine, &["/a", "/b"]);
    let mut ledger = Writeback::new(Settings::default(), Instant::ZERO);
    let now = Instant::ZERO;
    // Older blocks of the owner, outside of what is flushed; and another's, of which one is inside.
    for at in [5000, 6000, 7000] {
        assert_eq!(ledger.write(now, owners[0], at..at + 1, true, 0), Admission::Taken);
    }
    assert_eq!(ledger.write(now, owners[1], 9..40, true, 0), Admission::Taken);
    assert_eq!(ledger.write(now, owners[0], 3..5, true, 0), Admission::Taken);
    ledger.flush(now, owners[0], 0..10, 0, 7);
    let writes: Vec<_> = std::iter::from_fn(|| ledger.poll_write(now)).collect();
    let first: Vec<_> = writes.iter().map(|write| (write.blocks.clone(), write.awaited)).collect();
    assert_eq!(first[..2], [(3..5, Awaited::By(7)), (9..10, Awaited::ByAnother)]);
    // The rest of its owner's goes as well, and is not waited for; the other's stays.
    let rest = [5000..5001, 6000..6001, 7000..7001].map(|blocks| (blocks, Awaited::No));
    assert_eq!(first[2..], rest);
    for write in &writes[..2] {
        assert_eq!(ledger.poll_flushed(), None);
        ledger.start(write.id, &mut Vec::new());
        ledger.complete(now, write.id, Ok(()), |_| {});
    }
    assert_eq!(ledger.poll_flushed().map(|flushed| flushed.token), Some(7));
}

/// `/a` streams into the cache at ten times what it may; `/b` flushes the same blocks now and then.
#[test]
fn a_flush_goes_past_the_limits_of_another_owner_who_owes_it() {
    for scheduler in SchedulerKind::ALL {
        let mut rig = Rig::new(scheduler, 100 * MIB, &["/a", "/b"], 65_536);
        rig.limit(0, 4 * MIB);
        let bound = Bound { bytes: 40 * MIB, bytes_per_sec: 4 * MIB };
        rig.ledger.bound(rig.now, rig.owners[0], Some(bound));
        rig.run(&[0], Instant::from_millis(1_000));
        for number in 0..20 {
            let owner = rig.owners[1];
            let own = (1 << 40) + number;
            assert_eq!(rig.ledger.write(rig.now, owner, own..own + 1, true, 1), Admission::Taken);
            // What is dirty is 40 MiB at most, at 100 MiB/s.
            let took = rig.flush(1, 0..1 << 41, &[0]);
            assert!(took <= 450_000_000, "{scheduler:?}: flush {number} took {} us", took / 1000);
            rig.run(&[0], Instant::from_millis(1_000 * (number + 2)));
        }
        // What went before its turn is paid: the limit, what was dirty at first, and the burst.
        let allowed = 4 * MIB * 21 + 40 * MIB + MIB;
        assert!(rig.written[0] <= allowed, "{} MiB of {}", rig.written[0] / MIB, allowed / MIB);
        assert!(rig.written[0] >= 4 * MIB * 20, "{} MiB are too few", rig.written[0] / MIB);
        assert_eq!(rig.written[1], 20 * BLOCK_BYTES);
        assert!(rig.engine.audit().balances());
    }
}

#[test]
fn one_block_that_fails_does_not_keep_its_neighbours() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let owner = cgroups(&mut engine, &["/a"])[0];
    let bad = 77;
    let mut ledger = Writeback::new(Settings::default(), Instant::ZERO);
    assert_eq!(ledger.write(Instant::ZERO, owner, 0..128, true, 0), Admission::Taken);
    let mut now = Instant::from_millis(5_000);
    let turn = |ledger: &mut Writeback, now: Instant| {
        let mut requests = 0;
        while let Some(write) = ledger.poll_write(now) {
            requests += 1;
            ledger.start(write.id, &mut Vec::new());
            let result = if write.blocks.contains(&bad) { Err(Reason(28)) } else { Ok(()) };
            ledger.complete(now, write.id, result, |_| {});
            ledger.check().unwrap();
        }
        requests
    };
    assert_eq!(turn(&mut ledger, now), 1);
    assert_eq!(ledger.dirty_bytes(), 128 * BLOCK_BYTES);
    assert_eq!(turn(&mut ledger, now), 0, "a device that fails is not asked in a loop");
    let mut left = Vec::new();
    for _ in 0..4 {
        now = now.plus_nanos(SECOND);
        turn(&mut ledger, now);
        left.push(ledger.dirty_bytes() / BLOCK_BYTES);
    }
    assert_eq!(left, [32, 8, 8, 8]);
    // The flush is told why, and the next one that nothing has failed since.
    ledger.flush(now, owner, 0..10, 0, 1);
    let told = ledger.poll_flushed().expect("nothing to be written");
    assert_eq!(told.result, Err(Reason(28)));
    ledger.flush(now, owner, 0..10, told.seen, 2);
    assert_eq!(ledger.poll_flushed().expect("nothing to be written").result, Ok(()));
    // At the end all is written but what cannot be, and no time passes.
    ledger.drain(now);
    turn(&mut ledger, now);
    assert_eq!(ledger.dirty_bytes(), 0);
    let given_up: Vec<u64> = std::iter::from_fn(|| ledger.poll_given_up()).collect();
    assert_eq!(given_up, [bad]);
}
