//! Slots and the destage of what they write: a slot ends, and the next one waits (docs/decisions/017).

use crate::bfq::Bfq;
use crate::bfq::budget::time_price;
use crate::bfq::counters::IdlingCause;
use crate::bfq::destage::EndedWait;
use crate::merge::split::Raising;
use crate::requests::Requests;
use crate::tree::Tree;
use crate::types::{Instant, Op, Request};

impl Bfq {
    /// A request is dispatched.
    pub(in crate::bfq) fn note_destage(&mut self, at: u32, index: u32, request: &Request) {
        if request.op != Op::Write {
            let cgroup = self.data.schedule.cgroup(at);
            self.destage.dispatched(self.data.now, request.op, cgroup, index);
        }
        if request.op == Op::Write && self.data.device.has_platters() {
            let cgroup = self.data.schedule.cgroup(at);
            let takes_ns = self.data.device.destage_ns(request.extent.len);
            let goes_on = self
                .in_service
                .as_ref()
                .is_some_and(|in_service| in_service.flow() == at && in_service.sent() > 0);
            self.destage.wrote(self.data.now, cgroup, self.seek_ns(), takes_ns, !goes_on);
        }
    }

    /// Whether the slot of the flow in service is over because of the destage that it leaves. O(1).
    pub(in crate::bfq) fn leaves_long_destage(&self) -> bool {
        self.destage.is_long(self.data.now)
            && self.data.tunables().slice_idle_ns > 0
            && self.data.schedule.flows() > 1
            && self.in_service.as_ref().is_some_and(|in_service| in_service.sent() > 0)
    }

    /// Whether no flow is selected because of a pending destage. O(depth).
    ///
    /// A following writer may proceed while the pending destage is at most two seeks; otherwise it waits until a
    /// quarter of a seek is left. A sole flow never waits. A soft real-time flow wants little, and one seek delays it
    /// less than the destage.
    pub(in crate::bfq) fn waits_for_destage(&mut self, tree: &Tree, requests: &Requests) -> bool {
        let until = self.destaged_at(requests).filter(|&until| self.data.now < until);
        if let Some(until) = until {
            self.destage.wait(self.data.now, until);
            return true;
        }
        if let Some(EndedWait { ns, cgroup, has_reader }) = self.destage.end_wait(self.data.now) {
            self.data.counters.idled(cgroup, IdlingCause::Destage, ns);
            // If another cgroup reads, the writers' cgroup pays for the wait. Cgroups that all write wait for each other.
            if has_reader {
                let bytes = time_price(ns, self.data.tunables());
                self.data.schedule.charge_cgroup(self.data.now, tree, cgroup, bytes);
            }
        }
        false
    }

    /// When the next flow may be selected, if it has to wait.
    fn destaged_at(&mut self, requests: &Requests) -> Option<Instant> {
        let until = self.destage.until();
        if self.data.now >= until
            || self.data.tunables().slice_idle_ns == 0
            || self.data.schedule.flows() == 1
        {
            return None;
        }
        let at = self.data.schedule.upcoming()?;
        if self.data.schedule.wr_coeff(at) == Raising::SOFT_REAL_TIME {
            return None;
        }
        match requests[self.data.flows[at].next()?].request.op {
            Op::Write => {}
            // A flush is what destages.
            Op::Flush => return None,
            _ => return Some(until),
        }
        let is_little = until.nanos_since(self.data.now) <= 2 * self.seek_ns();
        let goes_on = !self.destage.is_waited_for() && is_little;
        (!goes_on).then(|| until.minus_nanos(self.seek_ns() / 4))
    }

    /// Time of a seek and a rotation, as in the price of a slot.
    fn seek_ns(&self) -> u64 {
        2 * self.data.tunables().slice_idle_ns
    }
}
