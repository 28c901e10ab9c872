//! Coalescing: adjacent requests of one flow are dispatched as one command (spec/bfq 4.3).
//!
//! Requests coalesce at dispatch, not on arrival: until then each waits, ages and is withdrawn by itself. The sort
//! list finds neighbours on both sides.

use super::Bfq;
use crate::request::{Class, Op, Request};
use crate::requests::Requests;
use crate::time::Instant;
use crate::tree::Tree;

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

impl Bfq {
    /// Starts a command with a request of flow `at`, to which others may be added.
    pub(super) fn begin_coalescing(&mut self, request: &Request, at: u32, is_stream: bool) {
        // Neighbours of a seeky flow's request are chance. Coalesced, they would give its time more bytes than that
        // of other flows.
        let is_data = matches!(request.op, Op::Read | Op::Write) && request.class == Class::Data;
        let end = request.extent.offset.checked_add(request.extent.len.into());
        let (op, bytes) = (request.op, request.extent.len);
        self.run = end.filter(|_| is_data && is_stream).map(|end| CoalescedRun {
            flow: at,
            op,
            end,
            bytes,
            left: None,
        });
    }

    /// The next request of the flow in service, if it continues the last one. `room`: how many requests the device
    /// has room for besides.
    ///
    /// No more coalesce than needed to bring all waiting requests to the device: while there is room for each, more
    /// commands at once are faster.
    pub(crate) fn next_coalesced(
        &mut self,
        now: Instant,
        room: u32,
        tree: &mut Tree,
        requests: &mut Requests,
    ) -> Option<u32> {
        let run = self.run.take()?;
        let in_service = self.in_service.filter(|in_service| in_service.flow == run.flow)?;
        // All requests waiting with the first, divided by the room at its dispatch.
        let shares = || (u64::from(self.len) + 1).div_ceil(u64::from(room) + 1) as u32 - 1;
        let left = run.left.unwrap_or_else(shares).checked_sub(1)?;
        let index = self.flows[in_service.flow].pick(now, requests, &self.tunables)?;
        if self.is_full_for(requests, index) {
            return None;
        }
        let request = &requests[index].request;
        let bytes = run.bytes.checked_add(request.extent.len)?;
        let continues = request.op == run.op
            && request.class == Class::Data
            && request.extent.offset == run.end
            && bytes <= BYTES_MAX;
        let entity = self.hierarchy.entities.flow(in_service.flow);
        let charge = self.charge(requests, in_service.flow, index);
        let fits = entity.service + charge <= entity.budget;
        if !continues || !fits || self.has_timed_out() {
            return None;
        }
        self.dispatch(tree, requests, in_service.flow, index, charge);
        self.counters.coalesced();
        self.run = self.run.map(|run| CoalescedRun { bytes, left: Some(left), ..run });
        Some(index)
    }
}
