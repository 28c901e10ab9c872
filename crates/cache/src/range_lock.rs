//! Ranges at the device, where order matters: of two operations in flight on the same bytes either may be the last.

use std::collections::VecDeque;
use std::ops::Range;

use crate::writeback::WriteId;

/// What may go to the device now and had to wait before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// The operation of [`crate::Cache::begin`], by its key: it has begun.
    Operation(u64),
    /// A request for [`crate::Cache::start`].
    Write(WriteId),
}

/// The operations around the cache, and the cache's own, that are at the device or want to be. O(all of them) for each
/// call: no more than the device takes at once.
#[derive(Debug, Default)]
pub(crate) struct RangeLocks {
    /// The cache's requests at the device.
    writes: Vec<(WriteId, Range<u64>)>,
    /// Those that wait for operations.
    held: VecDeque<(WriteId, Range<u64>)>,
    operations: Vec<Operation>,
}

#[derive(Debug)]
struct Operation {
    key: u64,
    blocks: Range<u64>,
    /// At the device; else it waits for requests of the cache there. Requests that come later wait for it.
    is_active: bool,
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl RangeLocks {
    /// Whether a request of the cache may go to the device; else it is held until it may.
    pub(crate) fn start_write(&mut self, id: WriteId, blocks: Range<u64>) -> bool {
        let is_free = !self.operations.iter().any(|other| overlap(&other.blocks, &blocks));
        if is_free {
            self.writes.push((id, blocks));
        } else {
            self.held.push_back((id, blocks));
        }
        is_free
    }

    /// A request of the cache has left the device.
    pub(crate) fn end_write(&mut self, id: WriteId) {
        self.writes.retain(|&(other, _)| other != id);
    }

    /// Whether an operation may go to the device; else it waits.
    pub(crate) fn begin(&mut self, key: u64, blocks: Range<u64>) -> bool {
        let is_active = !is_writing(&self.writes, &blocks);
        self.operations.push(Operation { key, blocks, is_active });
        is_active
    }

    /// An operation has left the device.
    pub(crate) fn end(&mut self, key: u64) {
        self.operations.retain(|operation| operation.key != key);
    }

    /// Whether no operation at the device touches these blocks.
    pub(crate) fn is_free(&self, blocks: &Range<u64>) -> bool {
        let mut active = self.operations.iter().filter(|operation| operation.is_active);
        !active.any(|operation| overlap(&operation.blocks, blocks))
    }

    /// What may go to the device now. A request stays held until it is started, and is named again then.
    pub(crate) fn poll_ready(&mut self) -> Option<Ready> {
        let writes = &self.writes;
        let mut waiting = self.operations.iter_mut().filter(|operation| !operation.is_active);
        if let Some(operation) = waiting.find(|operation| !is_writing(writes, &operation.blocks)) {
            operation.is_active = true;
            return Some(Ready::Operation(operation.key));
        }
        let operations = &self.operations;
        let is_free = |blocks: &Range<u64>| {
            !operations.iter().any(|operation| overlap(&operation.blocks, blocks))
        };
        let found = self.held.iter().position(|(_, blocks)| is_free(blocks))?;
        self.held.remove(found).map(|(id, _)| Ready::Write(id))
    }
}

/// Whether a request of the cache is at the device on these blocks.
fn is_writing(writes: &[(WriteId, Range<u64>)], blocks: &Range<u64>) -> bool {
    writes.iter().any(|(_, other)| overlap(other, blocks))
}
