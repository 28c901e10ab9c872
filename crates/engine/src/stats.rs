//! Statistics: per cgroup, per device, and the audit that nothing passed unpaid.

use alloc::string::String;

pub use crate::bfq::{BfqCgroupStats, BfqStats, Expiration, IdlingCause, Injection, Raising};
pub use crate::blame::{Blame, LimitBlame};
pub use crate::latencies::{DirectionLatencies, Latencies, WaitCause};
pub use crate::merge::Counters as MergeCounters;
pub use crate::merge::Refusal;
pub use crate::shared_counters::SharedCounters;
pub use crate::throttle::WatermarkStats;
use crate::types::{CgroupId, Cost, Dimension, Direction, SchedulerKind};
use crate::utilisation::Share;

/// Bytes and operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Moved {
    /// Bytes.
    pub bytes: u64,
    /// Operations.
    pub ios: u64,
}

impl Moved {
    pub(crate) fn add(&mut self, other: Moved) {
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.ios += other.ios;
    }
}

/// Counters of one cgroup. As in the kernel's `io.stat`, a request counts once it is past the limits; split pieces
/// count their operations, their bytes once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Counters {
    /// `rbytes`, `rios`.
    pub read: Moved,
    /// `wbytes`, `wios`: writes and write-zeroes.
    pub write: Moved,
    /// Requests completed; what `blame` is spread over.
    pub completed: u64,
    /// What they waited for.
    pub blame: Blame,
    /// Requests that had to wait for a limit, by the dimension that stopped them first; see [`Dimension::ALL`].
    pub throttled: [u64; Dimension::COUNT],
    /// `dbytes`, `dios`.
    pub discard: Moved,
    /// Flushes, cache and status requests.
    pub other_ios: u64,
    /// Requests the device failed.
    pub failed: u64,
    /// Time that a device of the model ([`crate::Config::capacity`]) works for what went to the device, in nanoseconds; 0
    /// without a model.
    pub modelled_ns: u64,
}

/// What limits did to one task since it was opened, by dimension in the order of [`Dimension::ALL`].
///
/// Source: io-throttle's statistics of a task (spec/throttle 2.5): how often each limit was hit, and the delay in all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TaskStats {
    /// Requests that had to wait, by the limit that stopped them first.
    pub throttled: [u64; Dimension::COUNT],
    /// How long requests that have gone since had waited, in nanoseconds, by the limit that they waited for, its turns given
    /// to others included.
    pub wait_ns: [u64; Dimension::COUNT],
}

impl Counters {
    /// Adds another cgroup's counters to these. O(limits that these waited for × that the others did).
    pub fn absorb(&mut self, other: &Counters) {
        self.add_all_but_blame(other);
        self.blame.absorb(&other.blame);
    }

    /// The same for those of many cgroups: O(limits that the others waited for). After the last, [`Counters::tidy`].
    pub fn gather(&mut self, other: &Counters) {
        self.add_all_but_blame(other);
        self.blame.gather(&other.blame);
    }

    /// Adds up what was waited for the limits of one cgroup, after [`Counters::gather`]. O(n log n).
    pub fn tidy(&mut self) {
        self.blame.tidy();
    }

    /// Adds up what was waited for the limits of cgroups that are not there any more, as one of them, so that there are not
    /// ever more where cgroups come and go. O(n²) of those that are left.
    pub fn forget_limits(&mut self, is_there: impl Fn(CgroupId) -> bool) {
        self.blame.forget(is_there);
    }

    fn add_all_but_blame(&mut self, other: &Counters) {
        for (mine, theirs) in [
            (&mut self.read, other.read),
            (&mut self.write, other.write),
            (&mut self.discard, other.discard),
        ] {
            mine.add(theirs);
        }
        self.other_ios += other.other_ios;
        self.failed += other.failed;
        self.modelled_ns = self.modelled_ns.saturating_add(other.modelled_ns);
        for (mine, theirs) in self.throttled.iter_mut().zip(other.throttled) {
            *mine += theirs;
        }
        self.completed += other.completed;
    }
}

/// One cgroup of [`crate::Engine::tree_stats`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CgroupStats {
    /// Which.
    pub cgroup: CgroupId,
    /// Where it is.
    pub path: String,
    /// Its counters and those of everything below it.
    pub counters: Counters,
    /// What BFQ has done for it and for everything below it; zeroes where it never was the scheduler.
    pub bfq: BfqCgroupStats,
}

/// The proof that there is no free path: what left the throttle was charged, and is what went to the device.
///
/// At every moment `charged = dispatched + ready + withdrawn + part_paid` in each direction. `charged` is added up where a
/// request pays the limits, `dispatched` where it is handed to the device and priced anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Audit {
    /// Charged so far, per [`Direction`].
    pub charged: [Charge; 2],
    /// Handed to the device so far.
    pub dispatched: [Charge; 2],
    /// Charged, and waiting for room at the device.
    pub ready: [Charge; 2],
    /// Charged, then withdrawn before the device saw it. Not given back.
    pub withdrawn: [Charge; 2],
    /// Charged in instalments to requests that still wait for the next one.
    pub part_paid: [Charge; 2],
}

/// An amount charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Charge {
    /// Bytes, at the device's prices.
    pub bytes: u128,
    /// I/O units, 1/`iops_size` of an I/O where that is set, else whole I/Os.
    pub io_units: u128,
}

impl Charge {
    pub(crate) fn add(&mut self, cost: Cost) {
        self.bytes += u128::from(cost.bytes);
        self.io_units += u128::from(cost.ios);
    }

    pub(crate) fn subtract(&mut self, cost: Cost) {
        self.bytes -= u128::from(cost.bytes);
        self.io_units -= u128::from(cost.ios);
    }
}

impl Audit {
    /// Whether the books balance.
    pub fn balances(&self) -> bool {
        Direction::BOTH.map(Direction::index).iter().all(|&d| {
            let parts = [self.dispatched[d], self.ready[d], self.withdrawn[d], self.part_paid[d]];
            self.charged[d].bytes == parts.iter().map(|part| part.bytes).sum::<u128>()
                && self.charged[d].io_units == parts.iter().map(|part| part.io_units).sum::<u128>()
        })
    }
}

/// The device as the engine sees it now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DeviceStats {
    /// Requests at the device.
    pub in_flight: u32,
    /// Most requests that may be there at once; those that went there as one count as one.
    pub depth: u32,
    /// The scheduler in use.
    pub scheduler: SchedulerKind,
    /// Requests past the limits, waiting for room at the device.
    pub ready: u32,
    /// Requests waiting for a limit.
    pub throttled: u32,
    /// Time with at least one request at the device, up to the last call, in nanoseconds.
    pub busy_ns: u64,
    /// The share of the last half second with at least one request at the device, up to the last call, or of its
    /// [`Capacity`](crate::utilisation::Capacity) where that is known; only where a watermark asks for it.
    pub utilisation: Option<Share>,
}
