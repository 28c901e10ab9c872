//! Waits of a cgroup's requests for limits, by cause.

use alloc::boxed::Box;

use once_cell::race::OnceBox;
use weir_counters::Counters as Shared;

use crate::latencies::{DirectionLatencies, WaitCause};
use crate::latency::Times;
use crate::stats::Counters;
use crate::types::{CgroupId, Dimension, Direction};

/// Of one cgroup; apart: where nothing waits, none of it is touched. Other threads read it.
#[derive(Default)]
#[repr(C)]
pub(crate) struct WaitAccount {
    directions: [PerDirection; 2],
    /// Two counters for each dimension, as in [`PerDirection`]; those of I/Os of one direction are there.
    limited: [Shared<2>; Dimension::COUNT],
    /// Waits for limits of cgroups above.
    above: OnceBox<Above>,
}

#[derive(Default)]
struct PerDirection {
    /// What a limit on its I/Os did, and last the turns of others.
    counts: Shared<3>,
    own: Times,
    above: Times,
    others: Times,
}

/// Requests that had to wait, for whichever cgroup's limit.
const THROTTLED: usize = 0;
/// Waits for the cgroup's own limit.
const WAIT_NS: usize = 1;
/// Waits for the turns of others at the nearest limit.
const OTHERS_NS: usize = 2;

/// Waits for the limits of one cgroup above, and the next such cgroup.
struct Above {
    cgroup: CgroupId,
    wait_ns: Shared<{ Dimension::COUNT }>,
    next: OnceBox<Above>,
}

impl WaitAccount {
    /// Counts `by` for a dimension at `index`.
    #[inline]
    fn count(&self, dimension: Dimension, index: usize, by: u64) {
        match dimension {
            Dimension::Riops => self.dir(Direction::Read).counts.add(index, by),
            Dimension::Wiops => self.dir(Direction::Write).counts.add(index, by),
            other => self.limited[other as usize].add(index, by),
        }
    }

    fn dir(&self, direction: Direction) -> &PerDirection {
        &self.directions[direction.index()]
    }

    /// A request has to wait for a limit of `dimension`.
    #[inline]
    pub(super) fn throttled(&self, dimension: Dimension) {
        self.count(dimension, THROTTLED, 1);
    }

    /// A request has waited for the cgroup's own limit, without the time in which that served others.
    #[inline]
    pub(super) fn waited(&self, dimension: Dimension, wait_ns: u64) {
        self.count(dimension, WAIT_NS, wait_ns);
    }

    /// A request has waited for the limit of `cgroup`, which is above. O(cgroups above with limits).
    pub(super) fn waited_above(&self, cgroup: CgroupId, dimension: Dimension, wait_ns: u64) {
        if wait_ns == 0 {
            return;
        }
        let mut place = &self.above;
        loop {
            let above = place.get_or_init(|| Box::new(Above::new(cgroup)));
            if above.cgroup == cgroup {
                above.wait_ns.add(dimension as usize, wait_ns);
                return;
            }
            place = &above.next;
        }
    }

    /// A request has waited while the nearest limit's rate went to those of other clients.
    #[inline]
    pub(super) fn waited_for_others(&self, direction: Direction, wait_ns: u64) {
        if wait_ns > 0 {
            self.dir(direction).counts.add(OTHERS_NS, wait_ns);
        }
    }

    /// A request passes a limit, its own cgroup's or one above, for which it has waited in all `limit_ns`, and `others_ns`
    /// for the turns of others.
    #[inline]
    pub(super) fn passed(&self, direction: Direction, is_own: bool, limit_ns: u64, others_ns: u64) {
        let dir = self.dir(direction);
        if limit_ns > 0 {
            let times = if is_own { &dir.own } else { &dir.above };
            times.record(limit_ns);
        }
        if others_ns > 0 {
            dir.others.record(others_ns);
        }
    }

    /// Adds it to `counters`, as that of the cgroup `own`; blame is to be tidied after the last one. O(limits that were
    /// waited for).
    pub(crate) fn add_to(&self, own: CgroupId, counters: &mut Counters) {
        let [read, write] = Direction::BOTH.map(|direction| self.dir(direction).counts.read());
        let blame = &mut counters.blame;
        blame.others_ns += read[OTHERS_NS] + write[OTHERS_NS];
        let limited = Dimension::ALL.map(|dimension| match dimension {
            Dimension::Riops => [read[THROTTLED], read[WAIT_NS]],
            Dimension::Wiops => [write[THROTTLED], write[WAIT_NS]],
            other => self.limited[other as usize].read(),
        });
        let sums = counters.throttled.iter_mut().zip(limited);
        sums.for_each(|(sum, [throttled, _])| *sum += throttled);
        blame.gather_limit(own, limited.map(|[_, wait_ns]| wait_ns));
        let mut place = &self.above;
        while let Some(above) = place.get() {
            blame.gather_limit(above.cgroup, above.wait_ns.read());
            place = &above.next;
        }
    }

    /// Adds how long requests waited to `sums`.
    pub(crate) fn add_latency_to(&self, direction: Direction, sums: &mut DirectionLatencies) {
        let dir = self.dir(direction);
        dir.own.add_to(sums.cause_mut(WaitCause::OwnLimit));
        dir.above.add_to(sums.cause_mut(WaitCause::OtherLimit));
        dir.others.add_to(sums.cause_mut(WaitCause::OtherClients));
    }
}

impl Above {
    fn new(cgroup: CgroupId) -> Above {
        Above { cgroup, wait_ns: Shared::default(), next: OnceBox::new() }
    }
}
