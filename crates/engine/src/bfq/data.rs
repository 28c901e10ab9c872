//! Data of a device that all decisions of BFQ look at: time, speed, flows and their order, counters (`bfq_data`).

use core::num::NonZeroU32;

use super::counters::Counters;
use super::device::Device;
use super::flow::{Flow, Flows, Kind, Owner};
use super::schedule::Schedule;
use super::settings::BfqSettings;
use super::tunables::Tunables;
use super::wf2q::Prio;
use crate::requests::{Record, Requests};
use crate::tree::Tree;
use crate::types::{Instant, LowLatency, Priority};

/// Least charge of a request, in bytes: a sector.
const CHARGE_MIN: u64 = 512;

/// State of one device that no single decision owns.
pub(super) struct BfqData {
    /// Latest instant passed in.
    pub(super) now: Instant,
    /// Requests waiting.
    pub(super) waiting: u32,
    pub(super) device: Device,
    pub(super) schedule: Schedule,
    pub(super) flows: Flows,
    pub(super) counters: Counters,
}

impl BfqData {
    /// Starts without flows.
    pub(super) fn new(
        settings: &BfqSettings,
        rotational: bool,
        depth: NonZeroU32,
        counters: Counters,
    ) -> BfqData {
        BfqData {
            now: Instant::ZERO,
            waiting: 0,
            device: Device::new(settings, rotational, depth),
            schedule: Schedule::default(),
            flows: Flows::default(),
            counters,
        }
    }

    #[inline]
    pub(super) fn tunables(&self) -> &Tunables {
        self.device.tunables()
    }

    /// The nearest setting of low latency for the owner of a flow.
    pub(super) fn low_latency_of(&self, tree: &Tree, at: u32) -> LowLatency {
        let Some(client) = self.schedule.owner(at).as_client() else { return LowLatency::Never };
        tree.low_latency_of(client, self.schedule.cgroup(at))
    }

    /// Whether an injected request costs the flow part of its share: a seeky flow in an asymmetric scenario, on a
    /// rotational device. One injected request after each of its own would leave it half of the device.
    pub(super) fn costs_shares(&self, at: u32) -> bool {
        self.tunables().rotational && self.flows[at].is_seeky() && self.schedule.is_asymmetric(at)
    }
}

/// Room at the device.
impl BfqData {
    /// A flow becomes busy: others may share the device with it.
    #[inline]
    pub(super) fn extend_flash_bound(&mut self, at: u32) {
        if self.tunables().queueing_flash()
            && self.tunables().slice_idle_ns > 0
            && self.schedule.is_asymmetric(at)
        {
            self.device.extend_flash_bound(self.now);
        }
    }

    /// Whether the request at `index` waits for room.
    #[inline]
    pub(super) fn is_full_for(&self, requests: &Requests, index: u32) -> bool {
        self.device.is_full(self.now, requests[index].request.data_len())
    }
}

/// Charge of a request, and budgets that cover it.
impl BfqData {
    /// Enlarges the budget of a waiting flow to cover its next request, which may have changed (spec/bfq 3.5).
    pub(super) fn refresh_budget(&mut self, tree: &Tree, requests: &Requests, at: u32) {
        let charge = self.next_charge(requests, at);
        let entity = self.schedule.entity(at);
        if charge > entity.budget {
            let budget = u64::from(self.flows[at].max_budget).max(charge).max(entity.service);
            self.schedule.reposition(self.now, tree, at, budget);
        }
    }

    /// Charge of a flow's next request; 0 without one.
    #[inline]
    pub(super) fn next_charge(&self, requests: &Requests, at: u32) -> u64 {
        self.flows[at].next().map_or(0, |next| self.charge(requests, at, next))
    }

    /// Charge of a request of flow `at`, in bytes: those of its price where that is fixed, at least a sector. An
    /// instalment moves its bytes too, although the throttle has charged them. Writeback is charged more in symmetric
    /// scenarios (spec/bfq 3.4).
    #[inline]
    pub(super) fn charge(&self, requests: &Requests, at: u32, index: u32) -> u64 {
        self.charge_of(&self.flows[at], at, &requests[index])
    }

    /// As [`BfqData::charge`], for a flow and record at hand.
    #[inline]
    pub(super) fn charge_of(&self, flow: &Flow, at: u32, record: &Record) -> u64 {
        let bytes = match record.cost.is_remainder {
            true => u64::from(record.request.extent.len),
            false => record.cost.bytes,
        };
        let bytes = bytes.max(CHARGE_MIN);
        if flow.sync { bytes } else { self.async_charge(at, bytes) }
    }

    #[inline(never)]
    fn async_charge(&self, at: u32, bytes: u64) -> u64 {
        if self.schedule.is_asymmetric(at) {
            return bytes;
        }
        bytes.saturating_mul(u64::from(self.tunables().async_charge))
    }
}

/// Class and weight of `owner`'s flow in `cgroup`.
pub(super) fn prio_of(tree: &Tree, owner: Owner, cgroup: u32) -> Prio {
    let priority = match owner.kind() {
        Kind::Client(client) => tree.clients[client].priority,
        Kind::Writeback(_) => Priority::default(),
    };
    let priority = tree.cgroups[cgroup].prio_class.apply(priority);
    Prio { class: priority.class(), weight: priority.weight().get() }
}
