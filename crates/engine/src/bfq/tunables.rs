//! The numbers that BFQ decides by.

use super::settings::BfqSettings;

/// What can be set, as [`BfqSettings`] has it, and what cannot, after specification 0.2, which has its origins; in bytes
/// and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tunables {
    /// Age from which a request need not wait for its position.
    pub(crate) fifo_expire_ns: u64,
    /// Requests by position after each that went because of its age; what mq-deadline calls a batch. With fewer, a flow
    /// that is always behind would seek for each request, and be behind for that.
    pub(crate) fifo_batch: u32,
    /// Longest way back that is not a new sweep.
    pub(crate) back_seek_max: u64,
    /// How much longer a way back counts than the same way forward.
    pub(crate) back_seek_penalty: u64,
    /// Longest slot.
    pub(crate) timeout_ns: u64,
    /// Most service of a slot.
    pub(crate) max_budget: u32,
    /// How long a flow may stay away and go on where it was: three times this. Nobody idles for it yet.
    pub(crate) slice_idle_ns: u64,
    /// What a seek takes, where the device is flash.
    pub(crate) seek_flash_ns: u64,
    /// Whether the device's time goes into seeks.
    pub(crate) rotational: bool,
}

const MS: u64 = 1_000_000;
const SECTOR: u32 = 512;

impl Tunables {
    pub(crate) fn from(settings: &BfqSettings, rotational: bool) -> Tunables {
        // Settings are at most an hour.
        let nanos = |time: core::time::Duration| time.as_nanos() as u64;
        Tunables {
            fifo_expire_ns: nanos(settings.fifo_expire_sync()),
            fifo_batch: 16,
            back_seek_max: settings.back_seek_max(),
            back_seek_penalty: settings.back_seek_penalty().into(),
            timeout_ns: nanos(settings.timeout_sync()),
            max_budget: settings.max_budget().unwrap_or(16_384 * SECTOR),
            slice_idle_ns: nanos(settings.slice_idle()),
            seek_flash_ns: 2 * MS,
            rotational,
        }
    }

    /// The defaults.
    #[cfg(test)]
    pub(crate) fn new(rotational: bool) -> Tunables {
        Tunables::from(&BfqSettings::DEFAULT, rotational)
    }

    /// The least that a flow's budget falls to.
    pub(crate) const fn min_budget(&self) -> u32 {
        self.max_budget / 32
    }

    /// What a flow begins with.
    pub(crate) const fn first_budget(&self) -> u32 {
        // In whole sectors, as the kernel counts.
        2 * (self.max_budget / SECTOR) / 3 * SECTOR
    }
}
