//! Configuration of an engine, and its changes at run time.

use core::num::NonZeroU32;

use crate::bfq::BfqSettings;
use crate::price::Prices;
use crate::types::{
    CgroupId, ClientId, Instant, Limits, LowLatency, Op, PrioClass, Priority, SchedulerKind,
    Watermark, Weight,
};
use crate::utilisation::Capacity;

/// What an engine is made with. Every value that exists is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Requests that may be at the device at once: the device window. 32 by default, what a SATA disk's own
    /// queue holds.
    pub depth: NonZeroU32,
    /// The scheduler of the device. None by default.
    pub scheduler: SchedulerKind,
    /// How BFQ decides, where it is the scheduler or becomes it.
    pub bfq: BfqSettings,
    /// Whether the device has to move somewhere to reach data, so that the order of requests is worth time. True by
    /// default: on a device of another kind that costs a scheduler little.
    pub rotational: bool,
    /// Requests that may be inside the engine at once, the device's included. 65,536 by default.
    pub requests_max: NonZeroU32,
    /// Of these, as many as one task may have. 1,024 by default.
    pub requests_per_task_max: NonZeroU32,
    /// Bytes of the largest command for the device. A longer request goes there in pieces of this size, one after the
    /// other, so that another flow's request may go in between; see [`crate::Engine::complete`]. Discards and zeroes, of
    /// which most devices do many at once, have pieces of 16 times that; flushes and status calls are never cut. None by
    /// default: each request is one command.
    pub piece_bytes_max: Option<NonZeroU32>,
    /// What each operation costs.
    pub prices: Prices,
    /// What the device can do, where that was measured: then its utilisation is the share of that, and otherwise the
    /// share of time with a request at it. None by default.
    pub capacity: Option<Capacity>,
}

impl Config {
    /// Bytes of the largest command of `op` for the device.
    #[inline]
    pub(crate) fn longest_piece(&self, op: Op) -> u32 {
        let bytes = self.piece_bytes_max.map_or(u32::MAX, NonZeroU32::get);
        match op {
            Op::Read | Op::Write | Op::Cache => bytes,
            Op::Discard | Op::WriteZeroes => bytes.saturating_mul(16),
            Op::Flush | Op::Status => u32::MAX,
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            depth: const { NonZeroU32::new(32).unwrap() },
            scheduler: SchedulerKind::None,
            bfq: BfqSettings::DEFAULT,
            rotational: true,
            requests_max: const { NonZeroU32::new(65_536).unwrap() },
            requests_per_task_max: const { NonZeroU32::new(1_024).unwrap() },
            piece_bytes_max: None,
            prices: Prices::default(),
            capacity: None,
        }
    }
}

/// A change while requests may be queued. None of them loses, duplicates or reorders a flow's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change {
    /// Replaces a cgroup's limits. O(cgroups below it) when a direction becomes limited or unlimited.
    SetLimits {
        /// Whose.
        cgroup: CgroupId,
        /// The new limits.
        limits: Limits,
    },
    /// Replaces a cgroup's limits for a time: at `until` the engine itself replaces them by `then`, whatever has become of
    /// the caller meanwhile. A call that comes later than that finds what it would have found in time. The next
    /// `LeaseLimits` or `SetLimits` of the cgroup takes the place of this one; where `until` has come already, `then` counts
    /// at once. Costs what two `SetLimits` cost, and nothing for a request.
    LeaseLimits {
        /// Whose.
        cgroup: CgroupId,
        /// The limits until then.
        limits: Limits,
        /// The first instant at which they do not count any more.
        until: Instant,
        /// The limits from then on.
        then: Limits,
    },
    /// Sets a cgroup's share relative to its siblings.
    SetWeight {
        /// Whose.
        cgroup: CgroupId,
        /// The new weight.
        weight: Weight,
    },
    /// Hangs a cgroup, with everything below it, under another parent; its name stays. O(cgroups below it); with BFQ, which
    /// looks whose weight may still be raised there, O(flows of the device) besides.
    Move {
        /// Which.
        cgroup: CgroupId,
        /// The new parent.
        parent: CgroupId,
    },
    /// Removes a cgroup that has no children. Its name is free at once. If it has clients it goes on, with its limits
    /// as they are, until the last of them is closed; [`crate::Event::CgroupReleased`] tells when.
    Remove {
        /// Which.
        cgroup: CgroupId,
    },
    /// Sets a client's priority among those of its cgroup. Counts for a scheduler with priorities, from the client's
    /// next turn on.
    SetPriority {
        /// Which.
        client: ClientId,
        /// The new priority.
        priority: Priority,
    },
    /// Sets what becomes of the classes of a cgroup's clients, and its own: `io.prio.class`. O(clients).
    SetPrioClass {
        /// Which.
        cgroup: CgroupId,
        /// The new setting.
        prio_class: PrioClass,
    },
    /// Says whether a scheduler with low latency may raise the weights of a cgroup's clients, all below it included that
    /// have no setting nearer. O(flows).
    SetLowLatency {
        /// Which.
        cgroup: CgroupId,
        /// The setting; none to go by what is set above, and by [`LowLatency::Auto`] at last.
        low_latency: Option<LowLatency>,
    },
    /// The same for a client. O(flows).
    SetClientLowLatency {
        /// Which.
        client: ClientId,
        /// The setting; none to go by its cgroup's.
        low_latency: Option<LowLatency>,
    },
    /// Sets the utilisation of the device from which on limits bind, for the limits of a cgroup and of all below it that
    /// have no setting nearer; for the device, that of the root. O(cgroups below it).
    SetWatermark {
        /// Which.
        cgroup: CgroupId,
        /// The setting; none to go by what is set above, and by [`Watermark::HARD`] at last.
        watermark: Option<Watermark>,
    },
    /// Sets the device window.
    SetDepth(NonZeroU32),
    /// Lets another scheduler choose. What waits for the device goes over as it came: in the order of arrival, within a
    /// task and among tasks. What is at the device stays there, and counts for the new one. It begins
    /// without history: shares that the old one owed are forgotten. O(requests inside × log of them).
    SetScheduler(SchedulerKind),
    /// Sets how BFQ decides, now or when it becomes the scheduler. Slots under way keep what they were given.
    SetBfq(BfqSettings),
}

impl Change {
    /// The cgroup that it changes.
    pub(crate) fn cgroup(&self) -> Option<CgroupId> {
        match *self {
            Change::SetLimits { cgroup, .. }
            | Change::LeaseLimits { cgroup, .. }
            | Change::SetWeight { cgroup, .. }
            | Change::Move { cgroup, .. }
            | Change::Remove { cgroup }
            | Change::SetLowLatency { cgroup, .. }
            | Change::SetWatermark { cgroup, .. }
            | Change::SetPrioClass { cgroup, .. } => Some(cgroup),
            Change::SetScheduler(_)
            | Change::SetBfq(_)
            | Change::SetDepth(_)
            | Change::SetPriority { .. }
            | Change::SetClientLowLatency { .. } => None,
        }
    }
}
