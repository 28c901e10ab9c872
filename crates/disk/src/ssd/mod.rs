//! A flash disk: channels and dies, a write buffer, and garbage collection.

mod buffer;
mod die;
mod line;
mod reads;
mod spec;
mod translation;

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::mix::mix;
use crate::model::{DiskModel, DiskOp};
use crate::pipe::Pipe;
use buffer::Buffer;
use die::{Die, Next, Part, Program};
pub(crate) use line::{KEYS, TABLE, check};
use reads::Reads;
pub use spec::{SsdSpec, SsdState};
use translation::Translation;

/// Rows of pages over all dies after which the order of the dies changes, so that streams that keep a distance of a
/// power of two from each other do not all meet on one die.
const ROWS_SHIFT: u32 = 6;

/// A flash disk.
///
/// A command takes its turn at the controller (`overhead`). A read has a part for each *unit* (a page of each plane) that it
/// touches: the die reads the unit into its register unless it is there, then the channel and the interface carry the
/// part. A write crosses the interface when the buffer has room, and is complete then. The buffer is programmed in whole
/// units, each on the die that has waited longest for one. On a die, reads go before programs, until one has waited for
/// `age`; no operation is interrupted. A write with FUA is programmed by itself, before buffered data, and complete then. A
/// flush waits until all earlier writes are in the flash. Discards and zeroing only mark data as gone.
///
/// Units lie on the dies in order of address; reading unwritten ones takes the same time. Garbage collection copies as many
/// pages as in a sample of the disk under the same writes. Each copy reads, crosses its channel twice and programs on one
/// die, and takes turns with the writes that caused it, so an idle disk copies nothing.
///
/// Costs O(log n) a request and unit, with n requests in flight, and 16 bytes for each unit in flight. Memory: a few KB
/// and less than 200 bytes for each die; the sample adds about 1 MB at most (up to 1.5 MB with much over-provisioning),
/// whatever the size of the disk, and nothing when switched off. Making a disk that is [`SsdState::Aged`] takes about
/// 0.1 s.
#[derive(Clone, Debug)]
pub struct Ssd {
    spec: SsdSpec,
    unit: u64,
    now_ns: u64,
    serial: u64,
    /// When the controller is free.
    controller_ns: u64,
    /// Commands that the controller has begun on, by when it is done.
    arriving: VecDeque<(u64, Command)>,
    dies: Vec<Die>,
    channels: Vec<Pipe>,
    /// To the host, and if the interface goes one way at a time, from it.
    up: Pipe,
    down: Pipe,
    buffer: Buffer,
    /// Dies without a program, the one that has waited longest first.
    ready: VecDeque<u32>,
    translation: Option<Translation>,
    /// Due copies, and the fraction of the next.
    copies: u64,
    copies_rest: u64,
    counts: SsdCounts,
    reads: Reads,
    /// Writes with FUA, by their units that are not in the flash, and those of their units that wait for a die.
    durable: Reads,
    durable_units: VecDeque<(u32, u32)>,
    /// Events by time.
    agenda: BinaryHeap<Reverse<Due>>,
    order: u64,
    /// Time of completion, order of submission and id.
    done: BinaryHeap<Reverse<(u64, u64, u64)>>,
    in_flight: u64,
}

/// Operations on the flash so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SsdCounts {
    /// Programs with data of the host; a page of each plane.
    pub programs: u64,
    /// Programs that moved data to win its block back.
    pub copies: u64,
    /// Erased blocks; one of each plane.
    pub erases: u64,
}

#[derive(Clone, Copy, Debug)]
struct Command {
    serial: u64,
    id: u64,
    op: DiskOp,
    offset: u64,
    len: u64,
}

/// An event. Ordered by time, then by the order in which it was scheduled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Due {
    at_ns: u64,
    order: u64,
    event: Event,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A unit is in the register of a die.
    Sensed { die: u32 },
    /// Part of a read has crossed its channel.
    Crossed { read: u32, bytes: u32 },
    /// A piece of a write is in the buffer.
    Filled { epoch: u64, bytes: u32 },
    /// A unit of a write with FUA has crossed the interface.
    Taken { write: u32, bytes: u32 },
    /// A unit to copy is in the register of a die.
    Lifted { die: u32 },
    /// A die has programmed.
    Programmed { die: u32 },
}

impl Ssd {
    /// An idle disk.
    ///
    /// # Panics
    ///
    /// If a count, size or rate is 0; a [`Spec`](crate::Spec) never has that, and keeps the ranges told in [`SsdSpec`].
    pub fn new(spec: SsdSpec) -> Ssd {
        let dies = (spec.channels * spec.dies) as u32;
        Ssd {
            spec,
            unit: spec.page * spec.planes,
            now_ns: 0,
            serial: 0,
            controller_ns: 0,
            arriving: VecDeque::new(),
            dies: vec![Die::default(); dies as usize],
            channels: vec![Pipe::new(spec.bus); spec.channels as usize],
            up: Pipe::new(spec.interface),
            down: Pipe::new(spec.interface),
            buffer: Buffer::new(spec.buffer),
            ready: (0..dies).collect(),
            translation: spec.has_gc.then(|| Translation::new(&spec)),
            copies: 0,
            copies_rest: 0,
            counts: SsdCounts::default(),
            reads: Reads::default(),
            durable: Reads::default(),
            durable_units: VecDeque::new(),
            agenda: BinaryHeap::new(),
            order: 0,
            done: BinaryHeap::new(),
            in_flight: 0,
        }
    }

    /// Operations on the flash so far. Write amplification is `(programs + copies) / programs`.
    pub fn counts(&self) -> SsdCounts {
        self.counts
    }

    /// Advances the model to `now_ns`.
    fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        loop {
            let due = self.agenda.peek().map_or(u64::MAX, |Reverse(due)| due.at_ns);
            match self.arriving.front() {
                Some(&(at_ns, command)) if at_ns < due && at_ns <= self.now_ns => {
                    self.arriving.pop_front();
                    self.arrive(at_ns, command);
                }
                _ if due <= self.now_ns => {
                    let Some(Reverse(due)) = self.agenda.pop() else { return };
                    self.handle(due.at_ns, due.event);
                }
                _ => return,
            }
        }
    }

    fn plan(&mut self, at_ns: u64, event: Event) {
        self.order += 1;
        self.agenda.push(Reverse(Due { at_ns, order: self.order, event }));
    }

    /// The controller has understood a command.
    fn arrive(&mut self, now_ns: u64, command: Command) {
        match command.op {
            DiskOp::Read if command.len > 0 => self.read(now_ns, command),
            DiskOp::Write if command.len > 0 => {
                if let Some(translation) = &mut self.translation {
                    translation.write(command.offset, command.len);
                }
                self.buffer.push(command);
                self.admit(now_ns);
            }
            DiskOp::WriteFua if command.len > 0 => self.write_durably(now_ns, command),
            DiskOp::Flush => {
                self.buffer.close(command);
                self.dispatch(now_ns);
                self.end_flushes(now_ns);
            }
            DiskOp::Discard | DiskOp::WriteZeroes => {
                if let Some(translation) = &mut self.translation {
                    translation.discard(command.offset, command.len);
                }
                self.finish(now_ns, command.serial, command.id);
            }
            DiskOp::Read | DiskOp::Write | DiskOp::WriteFua => {
                self.finish(now_ns, command.serial, command.id);
            }
        }
    }

    fn handle(&mut self, now_ns: u64, event: Event) {
        match event {
            Event::Sensed { die } => {
                if let Some(part) = self.dies[die as usize].sensed() {
                    self.cross(now_ns, die, part);
                }
                self.start(now_ns, die);
            }
            Event::Crossed { read, bytes } => {
                let through_ns = self.up.send(now_ns, u64::from(bytes));
                if let Some((serial, id)) = self.reads.cross(read) {
                    self.finish(through_ns, serial, id);
                }
            }
            Event::Filled { epoch, bytes } => {
                self.buffer.fill(epoch, u64::from(bytes));
                self.dispatch(now_ns);
            }
            Event::Taken { write, bytes } => {
                self.durable_units.push_back((write, bytes));
                self.dispatch(now_ns);
            }
            Event::Lifted { die } => {
                // To the controller, which corrects it, and back.
                let both_ways = 2 * self.unit;
                let back_ns = self.channel(die).send(now_ns, both_ways);
                self.program(back_ns, die);
            }
            Event::Programmed { die } => {
                match self.dies[die as usize].programmed() {
                    Some(Program::Data { epoch, bytes }) => {
                        self.buffer.left(epoch, u64::from(bytes));
                    }
                    Some(Program::Durable { write, .. }) => {
                        if let Some((serial, id)) = self.durable.cross(write) {
                            self.finish(now_ns, serial, id);
                        }
                    }
                    Some(Program::Copy) | None => {}
                }
                self.ready.push_back(die);
                self.admit(now_ns);
                self.dispatch(now_ns);
                self.end_flushes(now_ns);
                self.start(now_ns, die);
            }
        }
    }

    /// Queues the parts of a read at their dies.
    fn read(&mut self, now_ns: u64, command: Command) {
        let end = command.offset.saturating_add(command.len);
        let units = command.offset / self.unit..=(end - 1) / self.unit;
        let parts = (units.end() - units.start() + 1) as u32;
        let read = self.reads.add(command, parts);
        for unit in units {
            let first = command.offset.max(unit * self.unit);
            let bytes = (end.min((unit + 1) * self.unit) - first) as u32;
            let die = self.die_of(unit);
            self.dies[die as usize].push(Part { unit, read, bytes });
            self.start(now_ns, die);
        }
    }

    /// Takes a write with FUA over the interface, past the buffer.
    fn write_durably(&mut self, now_ns: u64, command: Command) {
        if let Some(translation) = &mut self.translation {
            translation.write(command.offset, command.len);
        }
        let units = command.len.div_ceil(self.unit);
        let write = self.durable.add(command, units as u32);
        for unit in 0..units {
            let bytes = (command.len - unit * self.unit).min(self.unit);
            let there_ns = self.wire().send(now_ns, bytes);
            self.plan(there_ns, Event::Taken { write, bytes: bytes as u32 });
        }
    }

    /// The pipe of writes from the host.
    fn wire(&mut self) -> &mut Pipe {
        if self.spec.is_duplex { &mut self.down } else { &mut self.up }
    }

    /// Die of a unit. Adjacent units lie on different channels.
    fn die_of(&self, unit: u64) -> u32 {
        let dies = self.dies.len() as u64;
        let turned = mix((unit / dies) >> ROWS_SHIFT) % dies;
        let die = unit % dies + turned;
        (if die < dies { die } else { die - dies }) as u32
    }

    /// Starts the next operation of a free die.
    fn start(&mut self, now_ns: u64, die: u32) {
        loop {
            match self.dies[die as usize].next(now_ns, self.spec.age_ns) {
                Next::Nothing => return,
                Next::Held(part) => self.cross(now_ns, die, part),
                Next::Sense => {
                    let at_ns = now_ns.saturating_add(self.spec.read_ns);
                    return self.plan(at_ns, Event::Sensed { die });
                }
                Next::Program(Program::Copy) => {
                    let at_ns = now_ns.saturating_add(self.spec.read_ns);
                    return self.plan(at_ns, Event::Lifted { die });
                }
                Next::Program(Program::Data { bytes, .. } | Program::Durable { bytes, .. }) => {
                    let there_ns = self.channel(die).send(now_ns, u64::from(bytes));
                    return self.program(there_ns, die);
                }
            }
        }
    }

    fn channel(&mut self, die: u32) -> &mut Pipe {
        &mut self.channels[die as usize % self.spec.channels as usize]
    }

    /// A part of a read is in the register of a die.
    fn cross(&mut self, now_ns: u64, die: u32, part: Part) {
        let at_ns = self.channel(die).send(now_ns, u64::from(part.bytes));
        self.plan(at_ns, Event::Crossed { read: part.read, bytes: part.bytes });
    }

    /// Programs the register of a die from `now_ns` on, and erases a block for each full one.
    fn program(&mut self, now_ns: u64, die: u32) {
        let mut done_ns = now_ns.saturating_add(self.spec.program_ns);
        if self.translation.as_ref().is_some_and(Translation::is_recycling) {
            let programs = &mut self.dies[die as usize].programs;
            *programs += 1;
            if *programs == self.spec.pages {
                *programs = 0;
                self.counts.erases += 1;
                done_ns = done_ns.saturating_add(self.spec.erase_ns);
            }
        }
        self.plan(done_ns, Event::Programmed { die });
    }

    /// Lets writes cross the interface while the buffer has room.
    fn admit(&mut self, now_ns: u64) {
        while let Some(piece) = self.buffer.admit(self.unit) {
            let there_ns = self.wire().send(now_ns, piece.bytes);
            self.plan(there_ns, Event::Filled { epoch: piece.epoch, bytes: piece.bytes as u32 });
            if let Some(command) = piece.last_of {
                self.finish(there_ns, command.serial, command.id);
            }
        }
    }

    /// Queues due copies and buffered data at the dies.
    fn dispatch(&mut self, now_ns: u64) {
        while let Some(&die) = self.ready.front() {
            let program = if self.copies > 0 {
                self.copies -= 1;
                self.counts.copies += 1;
                Program::Copy
            } else if let Some((write, bytes)) = self.durable_units.pop_front() {
                self.counts.programs += 1;
                self.owe_copies();
                Program::Durable { write, bytes }
            } else if let Some((epoch, bytes)) = self.buffer.leave(self.unit) {
                self.counts.programs += 1;
                self.owe_copies();
                Program::Data { epoch, bytes: bytes as u32 }
            } else {
                return;
            };
            self.ready.pop_front();
            self.dies[die as usize].assign(program, now_ns);
            self.start(now_ns, die);
        }
    }

    /// Each unit that is written makes its share of copies due.
    fn owe_copies(&mut self) {
        let Some(translation) = &self.translation else { return };
        let (copied, freed) = translation.share();
        self.copies_rest += copied;
        self.copies += self.copies_rest / freed;
        self.copies_rest %= freed;
    }

    fn end_flushes(&mut self, now_ns: u64) {
        while let Some(flush) = self.buffer.flushed() {
            self.finish(now_ns, flush.serial, flush.id);
        }
    }

    fn finish(&mut self, now_ns: u64, serial: u64, id: u64) {
        let done_ns = now_ns.saturating_add(self.spec.latency_ns);
        self.done.push(Reverse((done_ns, serial, id)));
    }
}

impl DiskModel for Ssd {
    fn submit(&mut self, now_ns: u64, id: u64, op: DiskOp, offset: u64, len: u32) {
        self.advance(now_ns);
        self.serial += 1;
        self.in_flight += 1;
        self.controller_ns =
            self.controller_ns.max(self.now_ns).saturating_add(self.spec.overhead_ns);
        let command = Command { serial: self.serial, id, op, offset, len: u64::from(len) };
        self.arriving.push_back((self.controller_ns, command));
    }

    fn next_event(&self) -> Option<u64> {
        // Requests in flight are in one of the three, or wait for an event. A command completes no earlier than `latency`
        // after its last event, and events before that are handled then, each at its own time. Reporting each event would
        // wake a waiter in real time four times for a read.
        let done = self.done.peek().map_or(u64::MAX, |Reverse((at_ns, ..))| *at_ns);
        let due = self.agenda.peek().map_or(u64::MAX, |Reverse(due)| due.at_ns);
        let arriving = self.arriving.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        let later = due.min(arriving).saturating_add(self.spec.latency_ns);
        (self.in_flight > 0).then(|| done.min(later))
    }

    fn poll_complete(&mut self, now_ns: u64) -> Option<u64> {
        self.advance(now_ns);
        let Reverse((at_ns, _, id)) = *self.done.peek()?;
        if at_ns > self.now_ns {
            return None;
        }
        self.done.pop();
        self.in_flight -= 1;
        Some(id)
    }

    fn capacity(&self) -> u64 {
        self.spec.size
    }
}
