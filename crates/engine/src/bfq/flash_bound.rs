//! Bound of the bytes at a flash device that several cgroups, weights or classes share.
//!
//! Flash that queues need not idle for a flow that comes now and then: other flows go meanwhile. But the flow waits
//! for what is at the device when it comes, and 32 requests of 128 KiB take 8 ms of a disk of 550 MB/s. Three
//! quarters of a millisecond of work keep the device as busy.

use super::Bfq;
use super::inject::LONG_ON_FLASH;
use super::wf2q::EntityId;
use crate::requests::Requests;
use crate::time::Instant;

/// How long the bound holds after the last flow became busy on a shared device.
const COUNTED_ON_NS: u64 = 1_000_000_000;

/// Work at the device under the bound.
const AT_DEVICE_NS: u64 = 750_000;

/// Bytes at the device, and until when they are bounded. One a device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlashBound {
    until: Instant,
    /// Bytes of the requests at the device.
    bytes: u64,
    /// What the device does in [`AT_DEVICE_NS`] at its best, in bytes.
    most: u64,
}

impl FlashBound {
    /// Follows the estimate of the device's speed.
    pub(crate) fn follow(&mut self, ns_for_mib: u64) {
        self.most = (1 << 20) * AT_DEVICE_NS / ns_for_mib.max(1);
    }

    /// A request of `bytes` is dispatched.
    #[inline]
    pub(crate) fn dispatched(&mut self, bytes: u32) {
        self.bytes += u64::from(bytes);
    }

    /// A request of `bytes` has completed.
    #[inline]
    pub(crate) fn completed(&mut self, bytes: u32) {
        self.bytes -= u64::from(bytes);
    }

    /// Bytes of the requests at the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A budget under the bound: another flow may have to wait for what is left of it.
    #[inline]
    pub(crate) fn bound(&self, now: Instant, budget: u32) -> u64 {
        let budget = u64::from(budget);
        if now < self.until { budget.min(self.most) } else { budget }
    }

    /// Whether a request of `bytes` has to wait. Small ones never do, since the device's depth bounds them.
    #[inline]
    pub(crate) fn is_full(&self, now: Instant, bytes: u32) -> bool {
        let is_much = self.bytes > 0 && self.bytes >= self.most;
        is_much && now < self.until && bytes >= LONG_ON_FLASH
    }
}

impl Bfq {
    /// A flow becomes busy: others may share the device with it.
    #[inline]
    pub(super) fn extend_flash_bound(&mut self, at: u32) {
        if self.tunables.queueing_flash()
            && self.tunables.slice_idle_ns > 0
            && self.is_asymmetric(at)
        {
            self.flash_bound.until = self.now.plus_nanos(COUNTED_ON_NS);
        }
    }

    /// Whether queueing flash has room for all waiting requests, few and small ones, so that their order does not
    /// matter. O(depth).
    pub(super) fn has_room_for_all(&mut self, requests: &Requests) -> bool {
        let here = u64::from(self.len) + u64::from(self.in_device);
        if !self.tunables.queueing_flash() || here * 4 > u64::from(self.tunables.depth) {
            return false;
        }
        let next = self
            .in_service
            .and_then(|in_service| self.hierarchy.runner_up(EntityId::flow(in_service.flow)));
        let next = next.and_then(|at| self.flows[at].next());
        let is_small = next.is_none_or(|next| requests[next].request.extent.len < LONG_ON_FLASH);
        is_small && self.flash_bound.bytes * 4 <= self.flash_bound.most
    }

    /// Whether the request at `index` waits for room.
    #[inline]
    pub(super) fn is_full_for(&self, requests: &Requests, index: u32) -> bool {
        self.flash_bound.is_full(self.now, requests[index].request.data_len())
    }
}
