//! The numbers that BFQ decides by.

use core::num::NonZeroU32;

use super::peak_rate::PeakRate;
use super::settings::BfqSettings;

/// What can be set, as [`BfqSettings`] has it, and what cannot, after spec/bfq 0.2, which has its origins; in bytes
/// and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tunables {
    /// Age from which a request need not wait for its position, where somebody waits for it.
    pub(crate) fifo_expire_sync_ns: u64,
    /// The same, where nobody does.
    pub(crate) fifo_expire_async_ns: u64,
    /// Requests by position after each that went because of its age; what mq-deadline calls a batch. With fewer, a flow
    /// that is always behind would seek for each request, and be behind for that.
    pub(crate) fifo_batch: u8,
    /// Longest way back that is not a new sweep.
    pub(crate) back_seek_max: u64,
    /// How much longer a way back counts than the same way forward.
    pub(crate) back_seek_penalty: u64,
    /// Longest slot.
    pub(crate) timeout_ns: u64,
    /// Most service of a slot: what was chosen, else what the device does in the longest slot, [`BUDGET_MAX`] at most.
    pub(crate) max_budget: u32,
    /// What the device does in the longest slot: the price of its time.
    pub(crate) time_budget: u32,
    /// How long the device waits for a flow that has nothing left; a flow may stay away three times as long and go on
    /// where it was. 0: never, and not at all.
    pub(crate) slice_idle_ns: u64,
    /// Whether the weight of flows that begin, or want little, is raised (spec/bfq 6).
    pub(crate) low_latency: bool,
    /// Whether the device waits for everybody, and has one request at a time (spec/bfq 5.7).
    pub(crate) strict_guarantees: bool,
    /// How many times its bytes an asynchronous request is charged, where nobody needs exact shares.
    pub(crate) async_charge: u32,
    /// What a seek takes, where the device is flash.
    pub(crate) seek_flash_ns: u64,
    /// Whether the device's time goes into seeks.
    pub(crate) rotational: bool,
    /// Whether the device takes more than a few requests at a time, and orders them itself (spec/bfq D-15: known, not
    /// guessed).
    pub(crate) queueing: bool,
    /// Requests that the device takes at a time.
    pub(crate) depth: u32,
}

/// A read of 4 KiB from flash.
const SMALL_READ_NS: u64 = 100_000;

/// Requests at the device from which on it queues (spec/bfq 0.2).
const QUEUEING_ABOVE: u32 = 3;

const MS: u64 = 1_000_000;
const SECTOR: u32 = 512;

/// With `strict_guarantees` a flow is waited for so long at least: no share is kept by a device that waits for nobody
/// (spec/bfq 5.7).
const STRICT_IDLE_NS: u64 = 8 * MS;

/// The largest budget unless another is chosen: 8 MiB. The kernel's grows with the device, to 13 MiB on a disk of
/// 110 MB/s and 31 MiB on flash of 258 MB/s, and with it the time in which shares are not yet what they are to be.
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

    /// Takes over what is known of the device's speed, where no budget was chosen.
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

    /// The device takes `depth` requests at a time from now on.
    pub(crate) fn set_depth(&mut self, depth: NonZeroU32) {
        self.queueing = depth.get() > QUEUEING_ABOVE;
        self.depth = depth.get();
    }

    /// Whether order hardly matters to the device, which queues and does not seek.
    pub(crate) const fn queueing_flash(&self) -> bool {
        self.queueing && !self.rotational
    }

    /// What a slot of less than a millisecond counts for, of a flow that jumps about: a seek. On flash that queues, requests
    /// of others are served beside it, and it is what a small read takes there.
    pub(crate) const fn short_seek_ns(&self) -> u64 {
        match (self.rotational, self.queueing) {
            (true, _) => self.slice_idle_ns,
            (false, false) => self.seek_flash_ns,
            (false, true) => SMALL_READ_NS,
        }
    }

    /// Longest slot of a flow that jumps about, where that makes shares more exact: time for a request or two.
    pub(crate) const fn short_slot_ns(&self) -> u64 {
        self.timeout_ns / 8
    }

    /// The least that a flow's budget falls to.
    pub(crate) const fn min_budget(&self) -> u32 {
        self.max_budget / 32
    }

    /// What a raised flow gets: little, so that others who are raised, or urgent, wait for little.
    pub(crate) const fn raised_budget(&self) -> u32 {
        2 * self.min_budget()
    }

    /// What somebody else gets in one go beside a raised flow that is due.
    pub(crate) const fn min_slot_budget(&self) -> u32 {
        2 * self.raised_budget()
    }

    /// What a flow begins with.
    pub(crate) const fn first_budget(&self) -> u32 {
        // In whole sectors, as the kernel counts.
        2 * (self.max_budget / SECTOR) / 3 * SECTOR
    }
}
