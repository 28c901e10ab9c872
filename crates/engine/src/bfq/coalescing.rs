//! Coalescing: adjacent requests of one flow are dispatched as one command (spec/bfq 4.3).
//!
//! Requests coalesce at dispatch, not on arrival: until then each waits, ages and is withdrawn by itself. The sort list
//! finds neighbours on both sides.

use super::budget::charge;
use super::data::BfqData;
use crate::requests::Requests;
use crate::types::{Class, Instant, Op, Request};

/// Largest coalesced command: 4 ms of a disk of 125 MB/s, which the first request waits for the last. In the lab 128
/// KiB do half as much on NVMe flash with one request at a time, and as much elsewhere.
const BYTES_MAX: u32 = 512 << 10;

/// Requests coalesced so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoalescedRun {
    flow: u32,
    op: Op,
    /// End of the last request, in bytes.
    end: u64,
    bytes: u32,
    /// How many more may coalesce; unknown until the first.
    left: Option<u32>,
}

/// Request that continues a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Continuation {
    pub(super) index: u32,
    pub(super) charge: u64,
    /// Bytes of the run with it.
    bytes: u32,
    /// How many more may coalesce.
    left: u32,
}

impl CoalescedRun {
    /// Starts with a request of `flow`; `None` if no other may be added.
    pub(super) fn start(request: &Request, flow: u32, is_stream: bool) -> Option<CoalescedRun> {
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
    pub(super) fn flow(&self) -> u32 {
        self.flow
    }

    /// The next request of the flow, if it continues the run. `room`: how many requests the device has room for besides.
    ///
    /// No more coalesce than needed to bring all waiting requests to the device: while there is room for each, more
    /// commands at once are faster.
    pub(super) fn next(
        &self,
        data: &BfqData,
        now: Instant,
        room: u32,
        requests: &Requests,
    ) -> Option<Continuation> {
        // All requests waiting with the first, divided by the room at its dispatch.
        let shares = || (u64::from(data.waiting) + 1).div_ceil(u64::from(room) + 1) as u32 - 1;
        let left = self.left.unwrap_or_else(shares).checked_sub(1)?;
        let index = data.flows[self.flow].pick(now, requests, data.tunables())?;
        if data.is_full_for(requests, index) {
            return None;
        }
        let bytes = self.bytes_with(&requests[index].request)?;
        let entity = data.schedule.entity(self.flow);
        let charge = charge(data, requests, self.flow, index);
        let fits = entity.service + charge <= entity.budget;
        fits.then_some(Continuation { index, charge, bytes, left })
    }

    /// Bytes with `request`, if that continues the run and is not too long.
    fn bytes_with(&self, request: &Request) -> Option<u32> {
        let bytes = self.bytes.checked_add(request.extent.len)?;
        let continues = request.op == self.op
            && request.class == Class::Data
            && request.extent.offset == self.end
            && bytes <= BYTES_MAX;
        continues.then_some(bytes)
    }

    /// The run that the request of a continuation has started, as what it is.
    #[must_use]
    pub(super) fn continued(self, Continuation { bytes, left, .. }: Continuation) -> CoalescedRun {
        CoalescedRun { bytes, left: Some(left), ..self }
    }
}
