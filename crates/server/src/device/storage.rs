//! What carries out dispatched requests: a real device, or memory that takes its time from a model.

use weir_disk::{DiskModel, DiskOp};
use weir_engine::Op;
use weir_uring::Disk;

/// A device thread's device.
pub(super) struct Storage {
    pub(super) disk: Disk,
    /// When there is one, a request is carried out at the moment the model has finished it.
    model: Option<Box<dyn DiskModel>>,
}

impl Storage {
    pub(super) fn new(disk: Disk, model: Option<Box<dyn DiskModel>>) -> Storage {
        Storage { disk, model }
    }

    /// Hands a request to the model; `false` if there is none and it is to be carried out at once.
    pub(super) fn defer(&mut self, now_ns: u64, key: usize, op: Op, offset: u64, len: u32) -> bool {
        let Some(model) = &mut self.model else { return false };
        let op = match op {
            Op::Read | Op::Cache => DiskOp::Read,
            Op::Write => DiskOp::Write,
            Op::Flush => DiskOp::Flush,
            Op::Discard => DiskOp::Discard,
            Op::WriteZeroes => DiskOp::WriteZeroes,
            Op::Status => return false,
        };
        model.submit(now_ns, key as u64, op, offset, len);
        true
    }

    /// The next request that the model has finished by now.
    pub(super) fn poll_done(&mut self, now_ns: u64) -> Option<usize> {
        self.model.as_mut()?.poll_complete(now_ns).map(|id| id as usize)
    }

    /// When the model finishes the next one.
    pub(super) fn next_event(&self) -> Option<u64> {
        self.model.as_ref()?.next_event()
    }
}
