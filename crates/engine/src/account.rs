//! Counters of a cgroup's requests on the hot path: a line of cache for each direction, which is all that most
//! requests touch, and behind them what few do. [`Counters`] are made of it on request.

use crate::blame::Blame;
use crate::limits::Dimension;
use crate::request::{Direction, Op, Part, Request};
use crate::stats::{Counters, Moved};
use crate::tree::CgroupId;

/// Of one cgroup; in its own box: an idle cgroup touches none of it.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Account {
    directions: [PerDirection; 2],
    /// By dimension; those of I/Os of one direction are in its state.
    limited: [Limited; Dimension::COUNT],
    discard: Moved,
    other_ios: u64,
    failed: u64,
    window_ns: u64,
    /// Prices of what went to the device, by its model; only where it has one.
    modelled_ns: u64,
    /// Waits for limits of cgroups above, and nothing else.
    above: Blame,
}

/// One direction.
#[derive(Default)]
#[repr(align(64))]
struct PerDirection {
    moved: Moved,
    completed: u64,
    device_ns: u64,
    lifted_ns: u64,
    others_ns: u64,
    /// What a limit on its I/Os did.
    ios: Limited,
}

const _: () = assert!(size_of::<PerDirection>() == 64);

/// What the limits of one dimension did.
#[derive(Clone, Copy, Default)]
struct Limited {
    /// Requests that had to wait, for whichever cgroup's limit.
    throttled: u64,
    /// Waits for the cgroup's own limit.
    wait_ns: u64,
}

impl Account {
    fn dir(&mut self, direction: Direction) -> &mut PerDirection {
        &mut self.directions[direction.index()]
    }

    fn limited(&mut self, dimension: Dimension) -> &mut Limited {
        match dimension {
            Dimension::Riops => &mut self.dir(Direction::Read).ios,
            Dimension::Wiops => &mut self.dir(Direction::Write).ios,
            other => &mut self.limited[other as usize],
        }
    }

    /// A request has to wait for a limit of `dimension`.
    #[inline]
    pub(crate) fn throttled(&mut self, dimension: Dimension) {
        self.limited(dimension).throttled += 1;
    }

    /// A request has waited for the cgroup's own limit, and while that served others.
    #[inline]
    pub(crate) fn waited(&mut self, dimension: Dimension, wait_ns: u64) {
        self.limited(dimension).wait_ns += wait_ns;
    }

    /// A request has waited for the limit of `cgroup`, which is above.
    pub(crate) fn waited_above(&mut self, cgroup: CgroupId, dimension: Dimension, wait_ns: u64) {
        self.above.add_limit(cgroup, dimension, wait_ns);
    }

    /// A request has waited while the nearest limit's rate went to those of other clients.
    #[inline]
    pub(crate) fn waited_for_others(&mut self, direction: Direction, wait_ns: u64) {
        self.dir(direction).others_ns += wait_ns;
    }

    /// A request has waited for room at the device.
    pub(crate) fn waited_for_room(&mut self, wait_ns: u64) {
        self.window_ns += wait_ns;
    }

    /// A request that a device of the model takes so long for goes to the device.
    pub(crate) fn took_of_device(&mut self, price_ns: u64) {
        self.modelled_ns = self.modelled_ns.saturating_add(price_ns);
    }

    /// A request is past the limits, of which some that it waited for are no more.
    #[inline]
    pub(crate) fn passed(&mut self, request: &Request, lifted_ns: u64) {
        let direction = request.op.direction();
        let dir = &mut self.directions[direction.index()];
        dir.lifted_ns += lifted_ns;
        let moved = match request.op {
            Op::Read | Op::Write | Op::WriteZeroes => &mut dir.moved,
            Op::Discard => &mut self.discard,
            Op::Flush | Op::Cache | Op::Status => {
                self.other_ios += 1;
                return;
            }
        };
        let bytes = match request.part {
            Part::Whole => u64::from(request.extent.len),
            Part::Remainder => 0,
        };
        moved.bytes = moved.bytes.wrapping_add(bytes);
        moved.ios += 1;
    }

    /// The device has finished a request.
    #[inline]
    pub(crate) fn completed(&mut self, direction: Direction, device_ns: u64) {
        let dir = self.dir(direction);
        dir.device_ns += device_ns;
        dir.completed += 1;
    }

    /// The device has finished a piece of a request, and more of it is to come.
    pub(crate) fn piece_completed(&mut self, direction: Direction, device_ns: u64) {
        self.dir(direction).device_ns += device_ns;
    }

    /// It had failed it.
    pub(crate) fn failed(&mut self) {
        self.failed += 1;
    }

    /// Adds it to `counters`, as that of the cgroup `own`; blame is to be tidied after the last one. O(limits that were
    /// waited for).
    pub(crate) fn add_to(&self, own: CgroupId, counters: &mut Counters) {
        let [read, write] = &self.directions;
        counters.read.add(read.moved);
        counters.write.add(write.moved);
        counters.discard.add(self.discard);
        counters.other_ios += self.other_ios;
        counters.failed += self.failed;
        counters.modelled_ns = counters.modelled_ns.saturating_add(self.modelled_ns);
        let blame = &mut counters.blame;
        blame.window_ns += self.window_ns;
        for dir in [read, write] {
            counters.completed += dir.completed;
            blame.device_ns += dir.device_ns;
            blame.lifted_ns += dir.lifted_ns;
            blame.others_ns += dir.others_ns;
        }
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
