//! Use of the bound of a shared flash device, at activation, idling and dispatch.

use crate::bfq::Bfq;
use crate::bfq::flash_bound::LONG_ON_FLASH;
use crate::requests::Requests;

impl Bfq {
    /// A flow becomes busy: others may share the device with it.
    #[inline]
    pub(in crate::bfq) fn extend_flash_bound(&mut self, at: u32) {
        if self.device.tunables().queueing_flash()
            && self.device.tunables().slice_idle_ns > 0
            && self.schedule.is_asymmetric(at)
        {
            self.device.extend_flash_bound(self.now);
        }
    }

    /// Whether queueing flash has room for all waiting requests, few and small ones, so that their order does not
    /// matter. O(depth).
    pub(in crate::bfq) fn has_room_for_all(&mut self, requests: &Requests) -> bool {
        let here = u64::from(self.len) + u64::from(self.device.in_flight());
        if !self.device.tunables().queueing_flash()
            || here * 4 > u64::from(self.device.tunables().depth)
        {
            return false;
        }
        let next = self.in_service.and_then(|in_service| self.schedule.runner_up(in_service.flow));
        let next = next.and_then(|at| self.flows[at].next());
        let is_small = next.is_none_or(|next| requests[next].request.extent.len < LONG_ON_FLASH);
        is_small && !self.device.is_quarter_full()
    }

    /// Whether the request at `index` waits for room.
    #[inline]
    pub(in crate::bfq) fn is_full_for(&self, requests: &Requests, index: u32) -> bool {
        self.device.is_full(self.now, requests[index].request.data_len())
    }
}
