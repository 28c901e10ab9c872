//! Charge of a request, and budgets that cover it.

use crate::bfq::Bfq;
use crate::bfq::flow::Flow;
use crate::requests::{Record, Requests};
use crate::tree::Tree;

/// Least charge of a request, in bytes: a sector.
const CHARGE_MIN: u64 = 512;

impl Bfq {
    /// Enlarges the budget of a waiting flow to cover its next request, which may have changed (spec/bfq 3.5).
    pub(in crate::bfq) fn refresh_budget(&mut self, tree: &Tree, requests: &Requests, at: u32) {
        let charge = self.next_charge(requests, at);
        let entity = self.schedule.entity(at);
        if charge > entity.budget {
            let budget = u64::from(self.flows[at].max_budget).max(charge).max(entity.service);
            self.schedule.reposition(self.now, tree, at, budget);
        }
    }

    /// Charge of a flow's next request; 0 without one.
    #[inline]
    pub(in crate::bfq) fn next_charge(&self, requests: &Requests, at: u32) -> u64 {
        self.flows[at].next().map_or(0, |next| self.charge(requests, at, next))
    }

    /// Charge of a request of flow `at`, in bytes: those of its price where that is fixed, at least a sector. An
    /// instalment moves its bytes too, although the throttle has charged them. Writeback is charged more in symmetric
    /// scenarios (spec/bfq 3.4).
    #[inline]
    pub(in crate::bfq) fn charge(&self, requests: &Requests, at: u32, index: u32) -> u64 {
        self.charge_of(&self.flows[at], at, &requests[index])
    }

    /// As [`Bfq::charge`], for a flow and record at hand.
    #[inline]
    pub(in crate::bfq) fn charge_of(&self, flow: &Flow, at: u32, record: &Record) -> u64 {
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
        bytes.saturating_mul(u64::from(self.device.tunables().async_charge))
    }
}
