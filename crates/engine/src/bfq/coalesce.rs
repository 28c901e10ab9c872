//! Requests of one flow that lie side by side go to the device as one (spec/bfq 4.3).
//!
//! They are joined where they leave, not where they come in: until then each waits, is found by its position, grows old
//! and is withdrawn by itself, and what lies in front, behind or between is joined all the same, for the flow has its
//! requests in order of position.

use super::Bfq;
use crate::request::{Class, Op, Request};
use crate::requests::Requests;
use crate::time::Instant;
use crate::tree::Tree;

/// Most bytes that go to the device as one: 4 ms of a disk of 125 MB/s, which is all that the first of them waits for the
/// last. In the lab 128 KiB do half of what these do on NVMe flash with one request at a time, and as much elsewhere.
const BYTES_MAX: u32 = 512 << 10;

/// What goes to the device as one, as far as it has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoalescedRun {
    flow: u32,
    op: Op,
    /// Where its last request ends.
    end: u64,
    bytes: u32,
    /// How many may still be joined; unknown until the first asks.
    left: Option<u32>,
}

impl Bfq {
    /// A request of flow `at` goes to the device, and others may go on from it.
    pub(super) fn begin_coalescing(&mut self, request: &Request, at: u32, is_stream: bool) {
        // Neighbours of somebody who jumps about are chance, and what is joined by chance makes its time worth more
        // bytes than that of others.
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

    /// The next request of the flow in service, if it goes on where the one before it ends. `room`: how many requests
    /// the device has room for besides.
    ///
    /// No more are joined than is needed to bring all that waits to the device: as long as there is room for each by
    /// itself, the device does better with more of them at once.
    pub(crate) fn next_coalesced(
        &mut self,
        now: Instant,
        room: u32,
        tree: &mut Tree,
        requests: &mut Requests,
    ) -> Option<u32> {
        let run = self.run.take()?;
        let in_service = self.in_service.filter(|in_service| in_service.flow == run.flow)?;
        // All that waited with the first, over all the room there was with its own.
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
