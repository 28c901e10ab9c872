//! Time that a disk still needs for what was written.
//!
//! A disk with platters answers a write from its cache, and takes it to the platters when nobody asks for anything. To
//! whoever reads next that is a seek there and one back between two reads of a stream: on `hdd7200` 25 ms for a read
//! that takes 0.03, and that again for each 256 KiB the cache holds. So a slot in which was written lasts until that may
//! be on the platters, and the next one finds the heads where it leaves them. Not in docs/spec/bfq.md: see
//! docs/decisions/017.

use super::Bfq;
use super::budget::time_price;
use super::counters::IdlingCause;
use super::wf2q::EntityId;
use crate::merge::split::Raising;
use crate::request::{Op, Request};
use crate::requests::Requests;
use crate::time::Instant;
use crate::tree::{NO_INDEX, ROOT, Tree};

/// Longest time that the device is kept free for what was written, from the last of it on: a slot, as it is by default.
/// A cache that takes more in one go than the platters in that time has its own way of emptying itself.
const DESTAGE_MAX_NS: u64 = 125_000_000;

/// How much of that a slot may leave behind, if somebody waits: whoever comes then waits for it, too.
const DESTAGE_LEFT_MAX_NS: u64 = 50_000_000;

/// How long a cgroup that has read counts as one that reads.
const READS_FOR_NS: u64 = 1_000_000_000;

/// A device that is faster at its best, 300 MB/s in sectors per microsecond with 16 bits after the point, has no platters,
/// whatever it is taken for (the fastest do 285 at their outer edge), or many disks behind a cache of its own.
const FASTEST_PLATTERS: u32 = 38_400;

/// What was written and may not be on the platters. One a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destage {
    /// When all of it is there, if the device does nothing else.
    until: Instant,
    /// How long what was written since the last way that was counted takes.
    run_ns: u64,
    /// While nobody has the device, for that.
    wait: Option<Wait>,
    /// Of whose clients the last of it is.
    cgroup: u32,
    /// The flush that went to the device after all of it, if one did: its request's index.
    flush: u32,
    /// Until when another cgroup than that one counts as one that reads.
    read_until: Instant,
}

/// Nobody has the device.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Instant,
    until: Instant,
}

impl Destage {
    /// Nothing was written.
    pub(crate) const NEW: Destage = Destage {
        until: Instant::ZERO,
        run_ns: 0,
        wait: None,
        cgroup: ROOT,
        flush: NO_INDEX,
        read_until: Instant::ZERO,
    };

    /// A client of `cgroup` writes what takes the device `takes_ns`, and `seek_ns` to get there if it is not writing. It is
    /// a way, too, to where another slot `begins`, unless there is little between the two: of many small ones a cache makes
    /// one round.
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

    /// Whether something that was written may not be on the platters.
    pub(crate) fn is_pending(&self, now: Instant) -> bool {
        now < self.until
    }

    /// The request at `index` is back. If it is a flush that came after all that was written, that is on the platters.
    #[inline]
    pub(crate) fn completed(&mut self, now: Instant, index: u32) {
        if index == self.flush {
            (self.until, self.run_ns, self.flush) = (now, 0, NO_INDEX);
        }
    }

    /// When the device is free again that is kept free now.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.wait.map(|wait| wait.until).filter(|&until| until > now)
    }
}

impl Bfq {
    /// A request goes to the device.
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
            // A disk is at its best at its outer edge, and has three quarters of that on average.
            let takes_ns = self.peak.nanos_for(request.extent.len) / 3 * 4;
            let goes_on = self
                .in_service
                .is_some_and(|in_service| in_service.flow == at && in_service.sent > 0);
            self.destage.wrote(self.now, cgroup, self.seek_ns(), takes_ns, !goes_on);
        }
    }

    /// A cgroup is going away: what its clients wrote is its parent's.
    pub(super) fn inherit_destage(&mut self, cgroup: u32, parent: u32) {
        if self.destage.cgroup == cgroup {
            self.destage.cgroup = parent;
        }
    }

    /// Whether the slot of the flow in service, which has written, is over for what it leaves to the platters. O(1).
    pub(super) fn leaves_long_destage(&self) -> bool {
        self.destage.until.nanos_since(self.now) >= DESTAGE_LEFT_MAX_NS
            && self.tunables.slice_idle_ns > 0
            && self.scenario.flows() > 1
            && self.in_service.is_some_and(|in_service| in_service.sent > 0)
    }

    /// Whether nobody gets the device yet, although somebody waits: what was written is on its way to the platters.
    /// O(depth).
    ///
    /// Whoever writes next goes on as long as that is little more than ways, which a cache makes shorter by taking many
    /// at once; if it is more, once nearly all is there. Who is the only one goes on too: nobody would be kept from
    /// anything. A soft real-time flow wants little, and is better served late by a seek than by all of this.
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
                // Where another cgroup reads, it waits for that: it is time of the device that the writers had. Cgroups that all
                // write wait for each other.
                if self.now < self.destage.read_until {
                    let bytes = time_price(ns, &self.tunables);
                    self.hierarchy.charge_cgroup(self.now, tree, cgroup, bytes);
                }
            }
            (None, None) => {}
        }
        until.is_some()
    }

    /// From when on whoever is next may have the device, if it is to wait.
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
            // It is what brings it there.
            Op::Flush => return None,
            _ => return Some(until),
        }
        let is_little = until.nanos_since(self.now) <= 2 * self.seek_ns();
        let goes_on = self.destage.wait.is_none() && is_little;
        (!goes_on).then(|| until.minus_nanos(self.seek_ns() / 4))
    }

    /// A seek, as it counts in the price of a slot, and a turn.
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
