//! Traffic counters of cgroups: one line of cache for each direction has what most requests touch. [`Counters`] are
//! made of them on request.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::stats::{Counters, Moved};
use crate::types::{Direction, Op, Part, Request};

/// The counters of all cgroups, by index.
pub(crate) struct Accounts(Vec<CgroupAccount>);

/// Small, for most of 100,000 cgroups may be idle.
#[derive(Default)]
struct CgroupAccount {
    /// Traffic of its own requests, once there was one.
    own: Option<Box<Account>>,
    /// Sums of removed children.
    folded: Option<Box<Counters>>,
}

impl Accounts {
    /// Those of the root.
    pub(crate) fn new() -> Accounts {
        Accounts(alloc::vec![CgroupAccount::default()])
    }

    /// The cgroup in slot `index` is new.
    pub(crate) fn add_cgroup(&mut self, index: u32) {
        match self.0.get_mut(index as usize) {
            Some(slot) => *slot = CgroupAccount::default(),
            None => self.0.push(CgroupAccount::default()),
        }
    }

    /// Whether the first request of `cgroup` is still to come.
    pub(crate) fn is_new(&self, cgroup: u32) -> bool {
        self.0[cgroup as usize].own.is_none()
    }

    #[inline]
    pub(crate) fn of(&mut self, cgroup: u32) -> &mut Account {
        self.0[cgroup as usize].own.get_or_insert_default()
    }

    /// Adds what was counted of `cgroup` to `counters`.
    pub(crate) fn add_own(&self, cgroup: u32, counters: &mut Counters) {
        if let Some(own) = &self.0[cgroup as usize].own {
            own.add_to(counters);
        }
    }

    /// Adds what was counted of children of `cgroup` that were removed; blame is to be tidied after the last one.
    pub(crate) fn add_folded(&self, cgroup: u32, counters: &mut Counters) {
        if let Some(folded) = &self.0[cgroup as usize].folded {
            counters.gather(folded);
        }
    }

    /// Sums of removed children of `cgroup`.
    pub(crate) fn folded_mut(&mut self, cgroup: u32) -> &mut Counters {
        self.0[cgroup as usize].folded.get_or_insert_default()
    }
}

/// Traffic of one cgroup. Boxed: an idle cgroup touches none of it.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Account {
    directions: [PerDirection; 2],
    discard: Moved,
    other_ios: u64,
    failed: u64,
    window_ns: u64,
    /// Prices of what went to the device, by its model; only where it has one.
    modelled_ns: u64,
}

/// One direction.
#[derive(Default)]
#[repr(align(64))]
struct PerDirection {
    moved: Moved,
    completed: u64,
    device_ns: u64,
    lifted_ns: u64,
}

const _: () = assert!(size_of::<PerDirection>() == 64);

impl Account {
    fn dir(&mut self, direction: Direction) -> &mut PerDirection {
        &mut self.directions[direction.index()]
    }

    /// A request has waited for room at the device.
    pub(crate) fn waited_for_room(&mut self, wait_ns: u64) {
        self.window_ns += wait_ns;
    }

    /// Adds the modelled device time of a dispatched request.
    pub(crate) fn took_of_device(&mut self, price_ns: u64) {
        self.modelled_ns = self.modelled_ns.saturating_add(price_ns);
    }

    /// Counts a request that is past its limits; `lifted_ns` it waited for limits that no longer exist.
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

    /// Counts a completed request.
    #[inline]
    pub(crate) fn completed(&mut self, direction: Direction, device_ns: u64) {
        let dir = self.dir(direction);
        dir.device_ns += device_ns;
        dir.completed += 1;
    }

    /// Counts the device time of a piece that is not the last.
    pub(crate) fn piece_completed(&mut self, direction: Direction, device_ns: u64) {
        self.dir(direction).device_ns += device_ns;
    }

    /// Counts a failed request.
    pub(crate) fn failed(&mut self) {
        self.failed += 1;
    }

    /// Adds it to `counters`.
    fn add_to(&self, counters: &mut Counters) {
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
        }
    }
}
