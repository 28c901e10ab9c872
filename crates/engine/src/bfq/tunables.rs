//! Tunables: the settings of BFQ with the constants of spec/bfq 0.2, in bytes and nanoseconds.

use core::num::NonZeroU32;

use super::peak_rate::PeakRate;
use super::settings::BfqSettings;

/// Values that BFQ decides by, from [`BfqSettings`] and spec/bfq 0.2, in bytes and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tunables {
    /// FIFO expiry of synchronous requests.
    pub(crate) fifo_expire_sync_ns: u64,
    /// FIFO expiry of asynchronous requests.
    pub(crate) fifo_expire_async_ns: u64,
    /// Requests by position after each that went by age (mq-deadline's `fifo_batch`). With fewer, a flow that is
    /// behind would seek for each request, and stay behind.
    pub(crate) fifo_batch: u8,
    /// Longest way back that does not start a new sweep.
    pub(crate) back_seek_max: u64,
    /// Factor of a way back against the same way forward.
    pub(crate) back_seek_penalty: u64,
    /// Budget timeout: longest slot.
    pub(crate) timeout_ns: u64,
    /// Largest budget: configured, or what the device does in the longest slot, at most [`BUDGET_MAX`].
    pub(crate) max_budget: u32,
    /// What the device does in the longest slot: the price of its time.
    pub(crate) time_budget: u32,
    /// Length of idling; 0 for none. A flow that returns within three times as long resumes its budget.
    pub(crate) slice_idle_ns: u64,
    /// Whether weights are raised (spec/bfq 6).
    pub(crate) low_latency: bool,
    /// Whether the device idles for each flow and has one request at a time (spec/bfq 5.7).
    pub(crate) strict_guarantees: bool,
    /// Factor of an asynchronous request's charge in symmetric scenarios.
    pub(crate) async_charge: u32,
    /// Time of a seek on flash.
    pub(crate) seek_flash_ns: u64,
    /// Whether the device seeks.
    pub(crate) rotational: bool,
    /// Whether the device queues and orders requests itself (spec/bfq D-15: known, not guessed).
    pub(crate) queueing: bool,
    /// Requests that the device takes at once.
    pub(crate) depth: u32,
}

/// A read of 4 KiB from flash.
const SMALL_READ_NS: u64 = 100_000;

/// Depth above which a device queues (spec/bfq 0.2).
const QUEUEING_ABOVE: u32 = 3;

const MS: u64 = 1_000_000;
const SECTOR: u32 = 512;

/// Least idling with `strict_guarantees`, which no share is exact without (spec/bfq 5.7).
const STRICT_IDLE_NS: u64 = 8 * MS;

/// Largest budget unless configured: 8 MiB. The kernel's grows with the device, to 13 MiB at 110 MB/s and 31 MiB at
/// 258 MB/s, and with it the time until shares are exact.
const BUDGET_MAX: u32 = 16_384 * SECTOR;

impl Tunables {
    pub(crate) fn from(settings: &BfqSettings, rotational: bool, depth: NonZeroU32) -> Tunables {
        // Settings are at most an hour.
        let nanos = |time: core::time::Duration| time.as_nanos() as u64;
        let least_idle_ns = if settings.strict_guarantees() { STRICT_IDLE_NS } else { 0 };
        Tunables {
            fifo_expire_sync_ns: nanos(settings.fifo_expire_sync()),
            fifo_expire_async_ns: nanos(settings.fifo_expire_async()),
            fifo_batch: 16,
            back_seek_max: settings.back_seek_max(),
            back_seek_penalty: settings.back_seek_penalty().into(),
            timeout_ns: nanos(settings.timeout_sync()),
            max_budget: settings.max_budget().unwrap_or(BUDGET_MAX),
            time_budget: settings.max_budget().unwrap_or(BUDGET_MAX),
            slice_idle_ns: nanos(settings.slice_idle()).max(least_idle_ns),
            strict_guarantees: settings.strict_guarantees(),
            low_latency: settings.low_latency(),
            async_charge: 3,
            seek_flash_ns: 2 * MS,
            rotational,
            queueing: depth.get() > QUEUEING_ABOVE,
            depth: depth.get(),
        }
    }

    /// Follows the estimate of the device's speed, unless a budget is configured.
    pub(crate) fn follow(&mut self, peak: &PeakRate, settings: &BfqSettings) {
        if settings.max_budget().is_none() {
            self.max_budget = peak.max_budget().min(BUDGET_MAX);
            self.time_budget = peak.cap();
        }
    }

    /// Other settings for the same device.
    pub(crate) fn with(&self, settings: &BfqSettings) -> Tunables {
        Tunables {
            queueing: self.queueing,
            depth: self.depth,
            ..Tunables::from(settings, self.rotational, NonZeroU32::MIN)
        }
    }

    /// The defaults.
    #[cfg(test)]
    pub(crate) fn new(rotational: bool, depth: NonZeroU32) -> Tunables {
        Tunables::from(&BfqSettings::DEFAULT, rotational, depth)
    }

    /// Changes the queue depth.
    pub(crate) fn set_depth(&mut self, depth: NonZeroU32) {
        self.queueing = depth.get() > QUEUEING_ABOVE;
        self.depth = depth.get();
    }

    /// Whether the device is flash with a queue, which does not care about order.
    pub(crate) const fn queueing_flash(&self) -> bool {
        self.queueing && !self.rotational
    }

    /// Time that a seeky flow's slot of less than a millisecond counts for: a seek. Queueing flash serves other flows
    /// beside it, so there it is a small read.
    pub(crate) const fn short_seek_ns(&self) -> u64 {
        match (self.rotational, self.queueing) {
            (true, _) => self.slice_idle_ns,
            (false, false) => self.seek_flash_ns,
            (false, true) => SMALL_READ_NS,
        }
    }

    /// Longest slot of a seeky flow where shares depend on slots: a request or two.
    pub(crate) const fn short_slot_ns(&self) -> u64 {
        self.timeout_ns / 8
    }

    /// Smallest budget.
    pub(crate) const fn min_budget(&self) -> u32 {
        self.max_budget / 32
    }

    /// Budget of a raised flow: small, so that other raised or urgent flows wait little.
    pub(crate) const fn raised_budget(&self) -> u32 {
        2 * self.min_budget()
    }

    /// Budget of a least slot beside a raised flow.
    pub(crate) const fn min_slot_budget(&self) -> u32 {
        2 * self.raised_budget()
    }

    /// Budget of a new flow.
    pub(crate) const fn first_budget(&self) -> u32 {
        // In whole sectors, as in the kernel.
        2 * (self.max_budget / SECTOR) / 3 * SECTOR
    }
}
