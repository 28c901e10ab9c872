//! Coalescing: adjacent requests of one flow are dispatched as one command (spec/bfq 4.3).
//!
//! Requests coalesce at dispatch, not on arrival: until then each waits, ages and is withdrawn by itself. The sort list
//! finds neighbours on both sides.

use crate::types::{Class, Op, Request};

/// Largest coalesced command: 4 ms of a disk of 125 MB/s, which the first request waits for the last. In the lab 128
/// KiB do half as much on NVMe flash with one request at a time, and as much elsewhere.
const BYTES_MAX: u32 = 512 << 10;

/// Requests coalesced so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoalescedRun {
    flow: u32,
    op: Op,
    /// End of the last request, in bytes.
    end: u64,
    bytes: u32,
    /// How many more may coalesce; unknown until the first.
    left: Option<u32>,
}

impl CoalescedRun {
    /// Starts with a request of `flow`; `None` if no other may be added.
    pub(crate) fn start(request: &Request, flow: u32, is_stream: bool) -> Option<CoalescedRun> {
        // Neighbours of a seeky flow's request are chance. Coalesced, they would give its time more bytes than that of
        // other flows.
        let is_data = matches!(request.op, Op::Read | Op::Write) && request.class == Class::Data;
        let end = request.extent.offset.checked_add(request.extent.len.into());
        let (op, bytes) = (request.op, request.extent.len);
        end.filter(|_| is_data && is_stream).map(|end| CoalescedRun {
            flow,
            op,
            end,
            bytes,
            left: None,
        })
    }

    /// The flow of its requests.
    pub(crate) fn flow(&self) -> u32 {
        self.flow
    }

    /// How many requests may still be added, of `most` in all if none was added yet, without the next one. `None` if that
    /// one is too many.
    pub(crate) fn left(&self, most: impl FnOnce() -> u32) -> Option<u32> {
        self.left.unwrap_or_else(most).checked_sub(1)
    }

    /// Bytes with `request`, if that continues the run and is not too long.
    pub(crate) fn bytes_with(&self, request: &Request) -> Option<u32> {
        let bytes = self.bytes.checked_add(request.extent.len)?;
        let continues = request.op == self.op
            && request.class == Class::Data
            && request.extent.offset == self.end
            && bytes <= BYTES_MAX;
        continues.then_some(bytes)
    }

    /// The run that a request has started, as a continuation of `bytes` with `left` to come.
    #[must_use]
    pub(crate) fn continued(self, bytes: u32, left: u32) -> CoalescedRun {
        CoalescedRun { bytes, left: Some(left), ..self }
    }
}
