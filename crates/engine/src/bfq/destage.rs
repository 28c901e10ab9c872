//! Destage: time that a disk needs to write its cache to the platters.
//!
//! A disk answers a write from its cache and destages when it is idle. For a reader that is two seeks between two
//! reads of a stream: on `hdd7200` 25 ms for a read that takes 0.03, once for each 256 KiB of cache. So a slot with
//! writes lasts until the destage may be done, and the next slot finds the heads in place. See docs/decisions/017;
//! not in docs/spec/bfq.md.

use super::Bfq;
use super::budget::time_price;
use super::counters::IdlingCause;
use super::wf2q::EntityId;
use crate::merge::split::Raising;
use crate::request::{Op, Request};
use crate::requests::Requests;
use crate::time::Instant;
use crate::tree::{NO_INDEX, ROOT, Tree};

/// Longest wait for the destage after the last write: a default slot. A cache that takes more at once empties itself
/// in its own way.
const DESTAGE_MAX_NS: u64 = 125_000_000;

/// Longest destage that a slot may leave to the next.
const DESTAGE_LEFT_MAX_NS: u64 = 50_000_000;

/// Time for which a cgroup that has read counts as a reader.
const READS_FOR_NS: u64 = 1_000_000_000;

/// Peak rate above which a device has no platters, or has a cache in front of many disks: 300 MB/s in sectors a
/// microsecond with 16 fractional bits. The fastest disks do 285 MB/s at their outer edge.
const FASTEST_PLATTERS: u32 = 38_400;

/// Written data that may not be on the platters. One a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destage {
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
    pub(crate) const NEW: Destage = Destage {
        until: Instant::ZERO,
        run_ns: 0,
        wait: None,
        cgroup: ROOT,
        flush: NO_INDEX,
        read_until: Instant::ZERO,
    };

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
    pub(crate) fn is_pending(&self, now: Instant) -> bool {
        now < self.until
    }

    /// The request at `index` has completed. A flush after all writes ends the destage.
    #[inline]
    pub(crate) fn completed(&mut self, now: Instant, index: u32) {
        if index == self.flush {
            (self.until, self.run_ns, self.flush) = (now, 0, NO_INDEX);
        }
    }

    /// End of the wait.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.wait.map(|wait| wait.until).filter(|&until| until > now)
    }
}

impl Bfq {
    /// A request is dispatched.
    pub(super) fn note_destage(&mut self, at: u32, index: u32, request: &Request) {
        match request.op {
            Op::Flush => self.destage.flush = index,
            Op::Read if self.hierarchy.cgroup(EntityId::flow(at)) != self.destage.cgroup => {
                self.destage.read_until = self.now.plus_nanos(READS_FOR_NS);
            }
            _ => {}
        }
        if request.op == Op::Write
            && self.tunables.rotational
            && self.peak.rate() <= FASTEST_PLATTERS
        {
            let cgroup = self.hierarchy.cgroup(EntityId::flow(at));
            // A disk's mean rate is three quarters of its peak at the outer edge.
            let takes_ns = self.peak.nanos_for(request.extent.len) / 3 * 4;
            let goes_on = self
                .in_service
                .is_some_and(|in_service| in_service.flow == at && in_service.sent > 0);
            self.destage.wrote(self.now, cgroup, self.seek_ns(), takes_ns, !goes_on);
        }
    }

    /// The parent takes over the writes of a cgroup that is removed.
    pub(super) fn inherit_destage(&mut self, cgroup: u32, parent: u32) {
        if self.destage.cgroup == cgroup {
            self.destage.cgroup = parent;
        }
    }

    /// Whether the slot of the flow in service is over because of the destage that it leaves. O(1).
    pub(super) fn leaves_long_destage(&self) -> bool {
        self.destage.until.nanos_since(self.now) >= DESTAGE_LEFT_MAX_NS
            && self.tunables.slice_idle_ns > 0
            && self.scenario.flows() > 1
            && self.in_service.is_some_and(|in_service| in_service.sent > 0)
    }

    /// Whether no flow is selected because of a pending destage. O(depth).
    ///
    /// A following writer may proceed while the pending destage is at most two seeks; otherwise it waits until a
    /// quarter of a seek is left. A sole flow never waits. A soft real-time flow wants little, and one seek delays it
    /// less than the destage.
    pub(super) fn waits_for_destage(&mut self, tree: &Tree, requests: &Requests) -> bool {
        let until = self.destaged_at(requests).filter(|&until| self.now < until);
        match (until, self.destage.wait) {
            (Some(until), wait) => {
                let since = wait.map_or(self.now, |wait| wait.since);
                self.destage.wait = Some(Wait { since, until });
            }
            (None, Some(Wait { since, .. })) => {
                let (ns, cgroup) = (self.now.nanos_since(since), self.destage.cgroup);
                self.counters.idled(cgroup, IdlingCause::Destage, ns);
                self.destage.wait = None;
                // If another cgroup reads, the writers' cgroup pays for the wait. Cgroups that all write wait for
                // each other.
                if self.now < self.destage.read_until {
                    let bytes = time_price(ns, &self.tunables);
                    self.hierarchy.charge_cgroup(self.now, tree, cgroup, bytes);
                }
            }
            (None, None) => {}
        }
        until.is_some()
    }

    /// When the next flow may be selected, if it has to wait.
    fn destaged_at(&mut self, requests: &Requests) -> Option<Instant> {
        let until = self.destage.until;
        if self.now >= until || self.tunables.slice_idle_ns == 0 || self.scenario.flows() == 1 {
            return None;
        }
        let at = self.hierarchy.upcoming()?;
        if self.wr_coeff(at) == Raising::SOFT_REAL_TIME {
            return None;
        }
        match requests[self.flows[at].next()?].request.op {
            Op::Write => {}
            // A flush is what destages.
            Op::Flush => return None,
            _ => return Some(until),
        }
        let is_little = until.nanos_since(self.now) <= 2 * self.seek_ns();
        let goes_on = self.destage.wait.is_none() && is_little;
        (!goes_on).then(|| until.minus_nanos(self.seek_ns() / 4))
    }

    /// Time of a seek and a rotation, as in the price of a slot.
    fn seek_ns(&self) -> u64 {
        2 * self.tunables.slice_idle_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn many_small_writes_are_one_way_and_large_ones_a_slot_at_most() {
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
