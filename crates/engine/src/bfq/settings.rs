//! Settings of BFQ, as a value that makes sense once it exists.

mod text;

use core::time::Duration;

pub use self::text::{BfqEdit, BfqError, BfqKey};
use crate::merge;

/// All settings of BFQ on one device, under the names that the kernel gives them (spec/bfq 8.1).
///
/// They are written as text, `slice_idle=0 low_latency=0`: see [`BfqSettings::parse`] and [`BfqKey`], which has names,
/// units and ranges. [`core::fmt::Display`] prints all of them so that they parse back.
///
/// Every value is in its range, and a time within an hour: sums of them cannot overflow. Where the kernel moves a value
/// that is out of range to the nearest that is in it, this is an error.
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

    /// `slice_idle`: how long the device is kept free for a flow that should return soon; none turns that off.
    pub const fn slice_idle(&self) -> Duration {
        Duration::from_nanos(self.slice_idle_ns)
    }

    /// `strict_guarantees`: keep the device free for every flow in service, for 8 ms at least whatever `slice_idle` is, and
    /// give it one request at a time.
    pub const fn strict_guarantees(&self) -> bool {
        self.strict_guarantees
    }

    /// `low_latency`: raise the weight of interactive and soft real-time flows.
    pub const fn low_latency(&self) -> bool {
        self.low_latency
    }

    /// `timeout_sync`: longest slot, of asynchronous flows too.
    pub const fn timeout_sync(&self) -> Duration {
        Duration::from_nanos(self.timeout_sync_ns)
    }

    /// `max_budget`: most service of a slot in bytes; `None`, written 0, where it follows the device.
    pub const fn max_budget(&self) -> Option<u32> {
        match self.max_budget_bytes {
            0 => None,
            bytes => Some(bytes),
        }
    }

    /// `fifo_expire_sync`: age from which a synchronous request does not wait for its position.
    pub const fn fifo_expire_sync(&self) -> Duration {
        Duration::from_nanos(self.fifo_expire_sync_ns)
    }

    /// `fifo_expire_async`: the same for one that nobody waits for.
    pub const fn fifo_expire_async(&self) -> Duration {
        Duration::from_nanos(self.fifo_expire_async_ns)
    }

    /// `back_seek_max`: longest way back, in bytes, that is not a new sweep.
    pub const fn back_seek_max(&self) -> u64 {
        self.back_seek_max_bytes
    }

    /// `back_seek_penalty`: how much longer a way back counts than the same way forward.
    pub const fn back_seek_penalty(&self) -> u32 {
        self.back_seek_penalty
    }

    /// When queues merge: `merge_window`, `close_bytes`, `stable` and what belongs to it.
    pub const fn merging(&self) -> merge::Settings {
        self.merging
    }

    /// These settings with others for merging, whose type allows only what makes sense.
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
