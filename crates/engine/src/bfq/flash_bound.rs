//! Bound of the bytes at a flash device that several cgroups, weights or classes share.
//!
//! Flash that queues need not idle for a flow that comes now and then: other flows go meanwhile. But the flow waits
//! for what is at the device when it comes, and 32 requests of 128 KiB take 8 ms of a disk of 550 MB/s. Three
//! quarters of a millisecond of work keep the device as busy.

use crate::types::Instant;

/// Length from which a request is not injected beside others on flash, since it would delay them (spec/bfq 7.9).
pub(crate) const LONG_ON_FLASH: u32 = 32 << 10;

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

    /// Bounds the bytes for a while from `now` on.
    #[inline]
    pub(crate) fn extend(&mut self, now: Instant) {
        self.until = now.plus_nanos(COUNTED_ON_NS);
    }

    /// Whether more than a quarter of the bound is at the device.
    pub(crate) fn is_quarter_full(&self) -> bool {
        self.bytes * 4 > self.most
    }
}
