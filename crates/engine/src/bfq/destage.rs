//! Destage: time that a disk needs to write its cache to the platters.
//!
//! A disk answers a write from its cache and destages when it is idle. For a reader that is two seeks between two
//! reads of a stream: on `hdd7200` 25 ms for a read that takes 0.03, once for each 256 KiB of cache. So a slot with
//! writes lasts until the destage may be done, and the next slot finds the heads in place. See docs/decisions/017;
//! not in docs/spec/bfq.md.

use super::budget::time_price;
use super::counters::IdlingCause;
use super::data::BfqData;
use super::in_service::InService;
use crate::merge::split::Raising;
use crate::requests::Requests;
use crate::tree::{NO_INDEX, ROOT, Tree};
use crate::types::{Instant, Op, Request};

/// Longest wait for the destage after the last write: a default slot. A cache that takes more at once empties itself
/// in its own way.
const DESTAGE_MAX_NS: u64 = 125_000_000;

/// Longest destage that a slot may leave to the next.
const DESTAGE_LEFT_MAX_NS: u64 = 50_000_000;

/// Time for which a cgroup that has read counts as a reader.
const READS_FOR_NS: u64 = 1_000_000_000;

/// Written data that may not be on the platters. One a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destage {
    /// End of the destage if the device does nothing else.
    until: Instant,
    /// Time for what was written since the last counted seek.
    run_ns: u64,
    /// Present while no flow is selected because of the destage.
    wait: Option<Wait>,
    /// Cgroup of the last writes.
    cgroup: u32,
    /// Index of the flush dispatched after all writes, or [`NO_INDEX`].
    flush: u32,
    /// Until when another cgroup counts as a reader.
    read_until: Instant,
}

/// Wait for the destage, without a flow in service.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Instant,
    until: Instant,
}

impl Destage {
    /// Nothing to destage.
    pub(super) const NEW: Destage = Destage {
        until: Instant::ZERO,
        run_ns: 0,
        wait: None,
        cgroup: ROOT,
        flush: NO_INDEX,
        read_until: Instant::ZERO,
    };

    /// The request at `index` of flow `at` is dispatched.
    pub(super) fn dispatched(
        &mut self,
        data: &BfqData,
        in_service: Option<&InService>,
        at: u32,
        index: u32,
        request: &Request,
    ) {
        let cgroup = data.schedule.cgroup(at);
        match request.op {
            Op::Write if data.device.has_platters() => {
                let takes_ns = data.device.destage_ns(request.extent.len);
                let goes_on =
                    in_service.is_some_and(|served| served.flow() == at && served.sent() > 0);
                self.wrote(data.now, cgroup, seek_ns(data), takes_ns, !goes_on);
            }
            Op::Flush => self.flush = index,
            Op::Read if cgroup != self.cgroup => {
                self.read_until = data.now.plus_nanos(READS_FOR_NS);
            }
            _ => {}
        }
    }

    /// A client of `cgroup` writes for `takes_ns`, after a seek of `seek_ns` unless the disk is writing already. A
    /// slot that `begins` costs a seek too, unless little was written since the last: the cache takes many small ones
    /// in one sweep.
    fn wrote(&mut self, now: Instant, cgroup: u32, seek_ns: u64, takes_ns: u64, begins: bool) {
        let mut until = self.until.max(now).plus_nanos(takes_ns);
        if self.until <= now || (begins && self.run_ns >= seek_ns) {
            until = until.plus_nanos(seek_ns);
            self.run_ns = 0;
        }
        self.run_ns = self.run_ns.saturating_add(takes_ns);
        self.until = until.min(now.plus_nanos(DESTAGE_MAX_NS));
        self.cgroup = cgroup;
        self.flush = NO_INDEX;
    }

    /// Whether a destage may be pending.
    pub(super) fn is_pending(&self, now: Instant) -> bool {
        now < self.until
    }

    /// The request at `index` has completed. A flush after all writes ends the destage.
    #[inline]
    pub(super) fn completed(&mut self, now: Instant, index: u32) {
        if index == self.flush {
            (self.until, self.run_ns, self.flush) = (now, 0, NO_INDEX);
        }
    }

    /// End of the wait.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.wait.map(|wait| wait.until).filter(|&until| until > now)
    }

    /// The parent takes over the writes of a cgroup that is removed.
    pub(super) fn cgroup_removed(&mut self, cgroup: u32, parent: u32) {
        if self.cgroup == cgroup {
            self.cgroup = parent;
        }
    }

    /// Whether the slot of the flow in service is over because of the destage that it leaves. O(1).
    #[inline]
    pub(super) fn ends_slot(&self, data: &BfqData, in_service: &InService) -> bool {
        self.until.nanos_since(data.now) >= DESTAGE_LEFT_MAX_NS
            && data.tunables().slice_idle_ns > 0
            && data.schedule.flows() > 1
            && in_service.sent() > 0
    }

    /// Whether no flow is selected because of a pending destage. O(depth).
    ///
    /// A following writer may proceed while the pending destage is at most two seeks; otherwise it waits until a
    /// quarter of a seek is left. A sole flow never waits. A soft real-time flow wants little, and one seek delays it
    /// less than the destage.
    pub(super) fn waits(&mut self, data: &mut BfqData, tree: &Tree, requests: &Requests) -> bool {
        let until = self.waits_until(data, requests).filter(|&until| data.now < until);
        if let Some(until) = until {
            let since = self.wait.map_or(data.now, |wait| wait.since);
            self.wait = Some(Wait { since, until });
            return true;
        }
        if let Some(Wait { since, .. }) = self.wait.take() {
            let ns = data.now.nanos_since(since);
            data.counters.idled(self.cgroup, IdlingCause::Destage, ns);
            // If another cgroup reads, the writers' cgroup pays for the wait. Cgroups that all write wait for each other.
            if data.now < self.read_until {
                let bytes = time_price(ns, data.tunables());
                data.schedule.charge_cgroup(data.now, tree, self.cgroup, bytes);
            }
        }
        false
    }

    /// When the next flow may be selected, if it has to wait.
    fn waits_until(&self, data: &mut BfqData, requests: &Requests) -> Option<Instant> {
        if !self.is_pending(data.now)
            || data.tunables().slice_idle_ns == 0
            || data.schedule.flows() == 1
        {
            return None;
        }
        let at = data.schedule.upcoming()?;
        if data.schedule.wr_coeff(at) == Raising::SOFT_REAL_TIME {
            return None;
        }
        match requests[data.flows[at].next()?].request.op {
            Op::Write => {}
            // A flush is what destages.
            Op::Flush => return None,
            _ => return Some(self.until),
        }
        let is_little = self.until.nanos_since(data.now) <= 2 * seek_ns(data);
        let goes_on = self.wait.is_none() && is_little;
        (!goes_on).then(|| self.until.minus_nanos(seek_ns(data) / 4))
    }
}

/// Time of a seek and a rotation, as in the price of a slot.
fn seek_ns(data: &BfqData) -> u64 {
    2 * data.tunables().slice_idle_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn small_writes_cost_one_seek_and_large_ones_a_slot_at_most() {
        for (each_ns, most_ns) in [(40_000, 16 * MS), (4 * MS, DESTAGE_MAX_NS)] {
            let (mut destage, mut now) = (Destage::NEW, Instant::from_millis(1));
            let mut owed_ns = 0;
            for _ in 0..100 {
                destage.wrote(now, ROOT, 16 * MS, each_ns, true);
                owed_ns = owed_ns.max(destage.until.nanos_since(now));
                now = now.plus_nanos(100_000);
            }
            assert!(owed_ns <= most_ns + each_ns && owed_ns >= most_ns, "{owed_ns} ns");
        }
    }
}
