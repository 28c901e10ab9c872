//! Destage: time that a disk needs to write its cache to the platters.
//!
//! A disk answers a write from its cache and destages when it is idle. For a reader that is two seeks between two
//! reads of a stream: on `hdd7200` 25 ms for a read that takes 0.03, once for each 256 KiB of cache. So a slot with
//! writes lasts until the destage may be done, and the next slot finds the heads in place. See docs/decisions/017;
//! not in docs/spec/bfq.md.

use crate::tree::{NO_INDEX, ROOT};
use crate::types::{Instant, Op};

/// Longest wait for the destage after the last write: a default slot. A cache that takes more at once empties itself
/// in its own way.
const DESTAGE_MAX_NS: u64 = 125_000_000;

/// Longest destage that a slot may leave to the next.
const DESTAGE_LEFT_MAX_NS: u64 = 50_000_000;

/// Time for which a cgroup that has read counts as a reader.
const READS_FOR_NS: u64 = 1_000_000_000;

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

/// Wait for the destage that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedWait {
    pub(crate) ns: u64,
    /// Cgroup of the last writes.
    pub(crate) cgroup: u32,
    /// Whether another cgroup reads.
    pub(crate) has_reader: bool,
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
    pub(crate) fn wrote(
        &mut self,
        now: Instant,
        cgroup: u32,
        seek_ns: u64,
        takes_ns: u64,
        begins: bool,
    ) {
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

    /// A request that writes nothing is dispatched for a client of `cgroup`.
    pub(crate) fn dispatched(&mut self, now: Instant, op: Op, cgroup: u32, index: u32) {
        match op {
            Op::Flush => self.flush = index,
            Op::Read if cgroup != self.cgroup => self.read_until = now.plus_nanos(READS_FOR_NS),
            _ => {}
        }
    }

    /// The parent takes over the writes of a cgroup that is removed.
    pub(crate) fn cgroup_removed(&mut self, cgroup: u32, parent: u32) {
        if self.cgroup == cgroup {
            self.cgroup = parent;
        }
    }

    /// End of the destage if the device does nothing else.
    #[inline]
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Whether a slot leaves a longer destage than it may.
    #[inline]
    pub(crate) fn is_long(&self, now: Instant) -> bool {
        self.until.nanos_since(now) >= DESTAGE_LEFT_MAX_NS
    }

    /// Whether no flow is selected because of the destage.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.wait.is_some()
    }

    /// Waits until `until`, or extends the wait.
    pub(crate) fn wait(&mut self, now: Instant, until: Instant) {
        let since = self.wait.map_or(now, |wait| wait.since);
        self.wait = Some(Wait { since, until });
    }

    /// Ends the wait, if there is one.
    pub(crate) fn end_wait(&mut self, now: Instant) -> Option<EndedWait> {
        let Wait { since, .. } = self.wait.take()?;
        let (ns, cgroup) = (now.nanos_since(since), self.cgroup);
        Some(EndedWait { ns, cgroup, has_reader: now < self.read_until })
    }
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
