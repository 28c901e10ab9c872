//! Data of a device that all decisions of BFQ look at: time, speed, flows and their order, counters (`bfq_data`).

use core::num::NonZeroU32;

use super::counters::Counters;
use super::device::Device;
use super::flow::{Flows, Kind, Owner};
use super::schedule::Schedule;
use super::settings::BfqSettings;
use super::tunables::Tunables;
use super::wf2q::Prio;
use crate::requests::Requests;
use crate::tree::Tree;
use crate::types::{Instant, Priority};

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

    /// Whether an injected request costs the flow part of its share: a seeky flow in an asymmetric scenario, on a
    /// rotational device. One injected request after each of its own would leave it half of the device.
    pub(super) fn costs_shares(&self, at: u32) -> bool {
        self.tunables().rotational && self.flows[at].is_seeky() && self.schedule.is_asymmetric(at)
    }

    /// Whether the request at `index` waits for room.
    #[inline]
    pub(super) fn is_full_for(&self, requests: &Requests, index: u32) -> bool {
        self.device.is_full(self.now, requests[index].request.data_len())
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
