//! Settings of BFQ, valid by construction.

use core::ops::RangeInclusive;
use core::time::Duration;

use crate::merge;

/// All settings of BFQ on one device, under the names that the kernel gives them (spec/bfq 8.1).
///
/// Every value is in its range, and a time within an hour, so that sums do not overflow. The kernel moves a value that is out
/// of range to the nearest allowed one; here the `with_` functions refuse it.
///
/// ```
/// use core::time::Duration;
/// use weir_engine::settings::BfqSettings;
///
/// let settings = BfqSettings::DEFAULT.with_slice_idle(Duration::ZERO).unwrap().with_low_latency(false);
/// assert_eq!(settings.timeout_sync(), Duration::from_millis(125));
/// assert_eq!(settings.with_timeout_sync(Duration::ZERO), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BfqSettings {
    slice_idle_ns: u64,
    strict_guarantees: bool,
    low_latency: bool,
    timeout_sync_ns: u64,
    /// 0: follows the device.
    max_budget_bytes: u32,
    fifo_expire_sync_ns: u64,
    fifo_expire_async_ns: u64,
    back_seek_max_bytes: u64,
    back_seek_penalty: u32,
    merging: merge::Settings,
}

const MS: u64 = 1_000_000;
const HOUR: u64 = 3_600_000 * MS;

/// From 32 sectors, since budgets fall to 1/32 of it.
const MAX_BUDGET_BYTES: RangeInclusive<u32> = 32 * 512..=1 << 30;

fn nanos_within(time: Duration, range: RangeInclusive<u64>) -> Option<u64> {
    u64::try_from(time.as_nanos()).ok().filter(|nanos| range.contains(nanos))
}

impl BfqSettings {
    /// The kernel's defaults; of merging, Weir's, without stable merging: docs/decisions/013.
    pub const DEFAULT: BfqSettings = BfqSettings {
        slice_idle_ns: 8 * MS,
        strict_guarantees: false,
        low_latency: true,
        timeout_sync_ns: 125 * MS,
        max_budget_bytes: 0,
        fifo_expire_sync_ns: 125 * MS,
        fifo_expire_async_ns: 250 * MS,
        back_seek_max_bytes: 16 << 20,
        back_seek_penalty: 2,
        merging: merge::Settings { stable: None, ..merge::Settings::WEIR },
    };

    /// `slice_idle`: length of idling; zero turns it off.
    pub const fn slice_idle(&self) -> Duration {
        Duration::from_nanos(self.slice_idle_ns)
    }

    /// `strict_guarantees`: idle for every flow in service, for 8 ms at least, and dispatch one request at a time.
    pub const fn strict_guarantees(&self) -> bool {
        self.strict_guarantees
    }

    /// `low_latency`: raise the weight of interactive and soft real-time flows.
    pub const fn low_latency(&self) -> bool {
        self.low_latency
    }

    /// `timeout_sync`: longest slot, also of asynchronous flows.
    pub const fn timeout_sync(&self) -> Duration {
        Duration::from_nanos(self.timeout_sync_ns)
    }

    /// `max_budget`: largest budget in bytes; `None`, written 0, follows the device.
    pub const fn max_budget(&self) -> Option<u32> {
        match self.max_budget_bytes {
            0 => None,
            bytes => Some(bytes),
        }
    }

    /// `fifo_expire_sync`: age from which a synchronous request goes before its position.
    pub const fn fifo_expire_sync(&self) -> Duration {
        Duration::from_nanos(self.fifo_expire_sync_ns)
    }

    /// `fifo_expire_async`: the same for an asynchronous request.
    pub const fn fifo_expire_async(&self) -> Duration {
        Duration::from_nanos(self.fifo_expire_async_ns)
    }

    /// `back_seek_max`: longest way back, in bytes, that does not start a new sweep.
    pub const fn back_seek_max(&self) -> u64 {
        self.back_seek_max_bytes
    }

    /// `back_seek_penalty`: factor of a way back against the same way forward.
    pub const fn back_seek_penalty(&self) -> u32 {
        self.back_seek_penalty
    }

    /// Settings of merging: `merge_window`, `close_bytes`, `stable` and what belongs to it.
    pub const fn merging(&self) -> merge::Settings {
        self.merging
    }

    /// Sets `slice_idle`; `None` above 10 s.
    pub fn with_slice_idle(self, time: Duration) -> Option<BfqSettings> {
        let slice_idle_ns = nanos_within(time, 0..=10_000 * MS)?;
        Some(BfqSettings { slice_idle_ns, ..self })
    }

    /// Sets `strict_guarantees`.
    #[must_use]
    pub const fn with_strict_guarantees(self, strict_guarantees: bool) -> BfqSettings {
        BfqSettings { strict_guarantees, ..self }
    }

    /// Sets `low_latency`.
    #[must_use]
    pub const fn with_low_latency(self, low_latency: bool) -> BfqSettings {
        BfqSettings { low_latency, ..self }
    }

    /// Sets `timeout_sync`; `None` outside 1 ms to 60 s.
    pub fn with_timeout_sync(self, time: Duration) -> Option<BfqSettings> {
        let timeout_sync_ns = nanos_within(time, MS..=60_000 * MS)?;
        Some(BfqSettings { timeout_sync_ns, ..self })
    }

    /// Sets `max_budget` in bytes, where `None` follows the device; `None` is returned outside 16 KiB to 1 GiB.
    pub fn with_max_budget(self, bytes: Option<u32>) -> Option<BfqSettings> {
        let max_budget_bytes = bytes.unwrap_or(0);
        let is_allowed = bytes.is_none_or(|bytes| MAX_BUDGET_BYTES.contains(&bytes));
        is_allowed.then_some(BfqSettings { max_budget_bytes, ..self })
    }

    /// Sets `fifo_expire_sync`; `None` outside 1 ms to 1 h.
    pub fn with_fifo_expire_sync(self, time: Duration) -> Option<BfqSettings> {
        let fifo_expire_sync_ns = nanos_within(time, MS..=HOUR)?;
        Some(BfqSettings { fifo_expire_sync_ns, ..self })
    }

    /// Sets `fifo_expire_async`; `None` outside 1 ms to 1 h.
    pub fn with_fifo_expire_async(self, time: Duration) -> Option<BfqSettings> {
        let fifo_expire_async_ns = nanos_within(time, MS..=HOUR)?;
        Some(BfqSettings { fifo_expire_async_ns, ..self })
    }

    /// Sets `back_seek_max` in bytes; `None` above 1 TiB.
    pub fn with_back_seek_max(self, bytes: u64) -> Option<BfqSettings> {
        (bytes <= 1 << 40).then_some(BfqSettings { back_seek_max_bytes: bytes, ..self })
    }

    /// Sets `back_seek_penalty`; `None` outside 1 to 1000.
    pub fn with_back_seek_penalty(self, penalty: u32) -> Option<BfqSettings> {
        let is_allowed = (1..=1_000).contains(&penalty);
        is_allowed.then_some(BfqSettings { back_seek_penalty: penalty, ..self })
    }

    /// These settings with other settings of merging.
    #[must_use]
    pub const fn with_merging(self, merging: merge::Settings) -> BfqSettings {
        BfqSettings { merging, ..self }
    }
}

impl Default for BfqSettings {
    fn default() -> BfqSettings {
        BfqSettings::DEFAULT
    }
}
