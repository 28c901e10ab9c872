//! `pre_read`: reads files into the page cache before their job starts.

use std::collections::btree_map::Entry;

use weir_engine::Op;
use weir_pagecache::Token;

use super::flights::{Flight, Purpose};
use super::plan::IoPath;
use super::world::World;

/// Bytes of a read: enough that the disk alone sets the pace, and no more than the usual read-ahead window, which
/// longer reads would widen.
const PIECE: u64 = 128 << 10;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PreRead {
    file: usize,
    offset: u64,
}

impl World {
    /// Whether a process that may start has to read files first. It starts after them; another call meanwhile returns
    /// the same.
    pub(super) fn pre_reads(&mut self, process: u32) -> bool {
        let at = &self.processes[process as usize];
        if !at.plan.options.pre_read || at.plan.path != IoPath::Cached {
            return false;
        }
        if let Entry::Vacant(place) = self.pre_reads.entry(process) {
            place.insert(PreRead::default());
            self.pre_read_on(process);
        }
        true
    }

    /// Reads the next piece of a process's files; after the last, the process starts.
    pub(super) fn pre_read_on(&mut self, process: u32) {
        let at = &self.processes[process as usize];
        let place = self.pre_reads.get_mut(&process).expect("one that reads its files first");
        while at.files.get(place.file).is_some_and(|file| place.offset >= file.len) {
            *place = PreRead { file: place.file + 1, offset: 0 };
        }
        // The process may have been stopped.
        if !at.is_waiting() {
            return;
        }
        let Some(file) = at.files.get(place.file) else {
            return self.start(process);
        };
        let (offset, len) = (place.offset, PIECE.min(file.len - place.offset) as u32);
        place.offset += u64::from(len);
        let at = file.start + offset;
        let flight = Flight::new(Purpose::PreRead, Op::Read, process, at, len, self.now_ns);
        let token = self.device.flights.insert(flight);
        self.cache.read(self.now_ns, Token(token as u64), process, file.id, offset, len);
        self.pump_cache();
    }
}
