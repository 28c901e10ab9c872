//! Waits of a cgroup's requests for limits, by cause.

use crate::blame::Blame;
use crate::stats::Counters;
use crate::types::{CgroupId, Dimension, Direction};

/// Of one cgroup; in a box of its own: where nothing waits, none of it is touched.
#[derive(Default)]
#[repr(C)]
pub(super) struct WaitAccount {
    directions: [PerDirection; 2],
    /// By dimension; those of I/Os of one direction are in its state.
    limited: [Limited; Dimension::COUNT],
    /// Waits for limits of cgroups above, and nothing else.
    above: Blame,
}

#[derive(Default)]
struct PerDirection {
    others_ns: u64,
    /// What a limit on its I/Os did.
    ios: Limited,
}

/// What the limits of one dimension did.
#[derive(Clone, Copy, Default)]
struct Limited {
    /// Requests that had to wait, for whichever cgroup's limit.
    throttled: u64,
    /// Waits for the cgroup's own limit.
    wait_ns: u64,
}

impl WaitAccount {
    fn limited(&mut self, dimension: Dimension) -> &mut Limited {
        match dimension {
            Dimension::Riops => &mut self.directions[Direction::Read.index()].ios,
            Dimension::Wiops => &mut self.directions[Direction::Write.index()].ios,
            other => &mut self.limited[other as usize],
        }
    }

    /// A request has to wait for a limit of `dimension`.
    #[inline]
    pub(super) fn throttled(&mut self, dimension: Dimension) {
        self.limited(dimension).throttled += 1;
    }

    /// A request has waited for the cgroup's own limit, without the time in which that served others.
    #[inline]
    pub(super) fn waited(&mut self, dimension: Dimension, wait_ns: u64) {
        self.limited(dimension).wait_ns += wait_ns;
    }

    /// A request has waited for the limit of `cgroup`, which is above.
    pub(super) fn waited_above(&mut self, cgroup: CgroupId, dimension: Dimension, wait_ns: u64) {
        self.above.add_limit(cgroup, dimension, wait_ns);
    }

    /// A request has waited while the nearest limit's rate went to those of other clients.
    #[inline]
    pub(super) fn waited_for_others(&mut self, direction: Direction, wait_ns: u64) {
        self.directions[direction.index()].others_ns += wait_ns;
    }

    /// Adds it to `counters`, as that of the cgroup `own`; blame is to be tidied after the last one. O(limits that were
    /// waited for).
    pub(super) fn add_to(&self, own: CgroupId, counters: &mut Counters) {
        let [read, write] = &self.directions;
        let blame = &mut counters.blame;
        blame.others_ns += read.others_ns + write.others_ns;
        let limited = Dimension::ALL.map(|dimension| match dimension {
            Dimension::Riops => read.ios,
            Dimension::Wiops => write.ios,
            other => self.limited[other as usize],
        });
        counters.throttled.iter_mut().zip(limited).for_each(|(sum, of)| *sum += of.throttled);
        blame.gather_limit(own, limited.map(|of| of.wait_ns));
        blame.gather(&self.above);
    }
}
