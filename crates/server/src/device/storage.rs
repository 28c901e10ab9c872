//! Storage that carries out dispatched requests: a real device, or memory that takes its time from a model.

use std::collections::VecDeque;
use std::ops::Range;

use weir_disk::{DiskModel, DiskOp};
use weir_engine::Op;
use weir_uring::Disk;

use super::ring::DeviceRing;

/// Pages for which memory is found in one turn, and how long that may take: a microsecond each, or several below a
/// hypervisor. Meanwhile no connection is served.
const PAGES_A_TURN: usize = 4;
const TURN_NS: u64 = 20_000;
/// Writes for which there has been no time yet. The oldest of more are done by now, or nearly.
const COLD_MAX: usize = 64;

/// A device thread's device.
pub(super) struct Storage {
    pub(super) disk: Disk,
    /// When there is one, a request is carried out at the moment the model has finished it.
    model: Option<Box<dyn DiskModel>>,
    /// What the model is writing and there may be no memory for yet.
    cold: VecDeque<Range<u64>>,
    /// Zeroes and trims with FUA at the model, by their keys: each is followed by a flush.
    flush_after: Vec<u64>,
}

/// What is asked of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) is_durable: bool,
}

impl Storage {
    pub(super) fn new(disk: Disk, model: Option<Box<dyn DiskModel>>) -> Storage {
        Storage { disk, model, cold: VecDeque::new(), flush_after: Vec::new() }
    }

    /// Hands a request to the model; `false` if there is none and it is to be carried out at once.
    ///
    /// What `is_durable` is on the medium before the model has finished it: a write by FUA, zeroes and trims by a flush that
    /// follows.
    pub(super) fn defer(&mut self, now_ns: u64, key: usize, work: Work) -> bool {
        let Work { op, offset, len, is_durable } = work;
        let Some(model) = &mut self.model else { return false };
        let op = match op {
            Op::Read | Op::Cache => DiskOp::Read,
            Op::Write if is_durable => DiskOp::WriteFua,
            Op::Write => DiskOp::Write,
            Op::Flush => DiskOp::Flush,
            Op::Discard => DiskOp::Discard,
            Op::WriteZeroes => DiskOp::WriteZeroes,
            Op::Status => return false,
        };
        model.submit(now_ns, key as u64, op, offset, len);
        if is_durable && matches!(op, DiskOp::Discard | DiskOp::WriteZeroes) {
            self.flush_after.push(key as u64);
        }
        if matches!(op, DiskOp::Write | DiskOp::WriteFua) {
            if self.cold.len() == COLD_MAX {
                self.cold.pop_front();
            }
            self.cold.push_back(offset..offset + u64::from(len));
        }
        true
    }

    /// Uses the time until something happens: finds some memory for what the model is writing, which would otherwise take
    /// its time when the model has finished. Answers whether there is more to do and time for it.
    pub(super) fn warm(&mut self, ring: &mut dyn DeviceRing) -> bool {
        if self.cold.is_empty() {
            return false;
        }
        let by_ns = ring.now_ns() + TURN_NS;
        if self.next_event().is_some_and(|at_ns| at_ns < by_ns) {
            return false;
        }
        if let Some(range) = self.cold.front_mut() {
            match ring.warm(&self.disk, range.clone(), PAGES_A_TURN) {
                Ok(left) if !left.is_empty() => *range = left,
                // What cannot be written is said when it is.
                _ => drop(self.cold.pop_front()),
            }
        }
        !self.cold.is_empty()
    }

    /// The next request that the model has finished by now.
    pub(super) fn poll_done(&mut self, now_ns: u64) -> Option<usize> {
        let model = self.model.as_mut()?;
        loop {
            let id = model.poll_complete(now_ns)?;
            let Some(found) = self.flush_after.iter().position(|&key| key == id) else {
                return Some(id as usize);
            };
            self.flush_after.swap_remove(found);
            model.submit(now_ns, id, DiskOp::Flush, 0, 0);
        }
    }

    /// When the model finishes the next one.
    pub(super) fn next_event(&self) -> Option<u64> {
        self.model.as_ref()?.next_event()
    }
}
