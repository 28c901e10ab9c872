//! Charge of requests, and budgets with room for it.

use crate::bfq::Bfq;
use crate::bfq::flow::Flow;
use crate::bfq::wf2q::EntityId;
use crate::requests::{Record, Requests};
use crate::tree::Tree;

/// The least that a request is charged, whatever it is: a sector.
const CHARGE_MIN: u64 = 512;

impl Bfq {
    /// A budget has room for the flow's next request, which may be another than it was (spec/bfq 3.5).
    pub(super) fn refresh_budget(&mut self, tree: &Tree, requests: &Requests, at: u32) {
        let charge = self.next_charge(requests, at);
        let id = EntityId::flow(at);
        let entity = &self.hierarchy.entities[id];
        if charge > entity.budget {
            let budget = u64::from(self.flows[at].max_budget).max(charge).max(entity.service);
            self.hierarchy.reposition(self.now, tree, id, budget);
        }
    }

    /// What the next request of a flow is charged; 0 without one.
    #[inline]
    pub(super) fn next_charge(&self, requests: &Requests, at: u32) -> u64 {
        self.flows[at].next().map_or(0, |next| self.charge(requests, at, next))
    }

    /// What a request of flow `at` is charged: its bytes, those of its price where that is fixed, and never nothing. A
    /// piece of a request that was split moves its bytes too, although the throttle has had them. Writeback counts for
    /// more, as long as nobody needs an exact share (spec/bfq 3.4).
    #[inline]
    pub(super) fn charge(&self, requests: &Requests, at: u32, index: u32) -> u64 {
        self.charge_of(&self.flows[at], at, &requests[index])
    }

    /// The same, for who has looked them up.
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
        if self.is_asymmetric(at) {
            return bytes;
        }
        bytes.saturating_mul(u64::from(self.tunables.async_charge))
    }
}
