//! A cgroup: its place, its limits, and what waits below it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::offset_of;

use super::CgroupId;
use super::children::Children;
use super::list::List;
use crate::account::Account;
use crate::deadlines::Timer;
use crate::limits::{Dimension, Limits, Resource};
use crate::low_latency::LowLatency;
use crate::priority::PrioClass;
use crate::request::Direction;
use crate::stats::Counters;
use crate::throttle::{Clock, Confidence, FairQueue, GateEpoch, RateLimiter, RwLimit, SourceState};
use crate::time::Instant;
use crate::weight::Weight;

/// The parent of the root, and the "nearest limit" of a cgroup under none.
pub(crate) const NO_CGROUP: u32 = u32::MAX;

/// One node of the hierarchy.
///
/// Small, for there may be 100,000: what most of them do not have is in a box.
#[repr(C)]
pub(crate) struct Cgroup {
    /// What was counted, once there was something to count.
    account: Option<Box<Account>>,
    pub(crate) depth: u32,
    pub(crate) weight: Weight,
    /// The clock that its limits go by, and so its watermark; set by [`Cgroup::go_by`].
    pub(crate) clock: u16,
    directions: [PerDirection; 2],
    /// The limiter of both directions together, where there is one; each direction has a limiter of its own then.
    pub(crate) rw_limit: Option<Box<RwLimit>>,
    /// The last opening of its clock's gate that its limits know of.
    gate_epoch: u32,
    pub(crate) parent: u32,
    pub(crate) prio_class: PrioClass,
    /// What is set here rather than above.
    pub(crate) low_latency: Option<LowLatency>,
    /// Whether its watermark was set here rather than above.
    pub(crate) has_watermark: bool,
    /// Removed by name: takes no new client, goes with its last one.
    pub(crate) dying: bool,
    /// Under a watermark: how sure it is that its next request follows the answer to the last one.
    pub(crate) confidence: Confidence,
    /// Clients that have not been closed.
    pub(crate) clients: u32,
    /// Under hierarchical dispatch: the instant at which a head may go, which a timer may precede.
    pub(crate) disptime: Instant,
    pub(crate) name: Arc<str>,
    /// None where nothing was ever set.
    limits: Option<Box<Limits>>,
    /// What removed children did.
    pub(crate) folded: Option<Box<Counters>>,
    pub(crate) children: Option<Box<Children>>,
}

// The state of reads ends with the first line of cache, of which the slot has eight bytes.
const _: () = assert!(offset_of!(Cgroup, directions) + size_of::<PerDirection>() <= 64 - 8);

/// What a cgroup has in one direction; together, because a request needs all of one and nothing of the other.
pub(crate) struct PerDirection {
    /// Nearest cgroup strictly above with a limit.
    pub(crate) parent_limit: u32,
    /// What the head last had to wait for here.
    pub(crate) throttled_by: Dimension,
    /// Whether the cgroup has a limit on both directions; beside what every request needs that waits.
    pub(crate) has_rw_limit: bool,
    /// Whether a request that waits here, for this limit or one above, may have paid some of its instalments: it may have
    /// paid its I/Os, and then waits for bytes only. Cleared when nothing waits at the limit.
    pub(crate) has_part_paid: bool,
    /// The limiter, where there is a limit.
    pub(crate) limiter: Option<Box<RateLimiter>>,
    /// What waits, once something has waited here.
    pub(crate) queue: Option<Box<Queue>>,
    /// When a waiting head may go. Under hierarchical dispatch, that of reads serves both directions.
    pub(crate) timer: Timer,
}

/// What waits at or below one cgroup in one direction.
///
/// Where no limit is above, the first line of cache is all that is needed of it.
#[repr(C, align(64))]
pub(crate) struct Queue {
    /// Requests past this cgroup's own limit that wait further up: only where the limiter dispatches
    /// level by level, as the kernel does.
    pub(crate) to_parent: List,
    /// Who among children and own clients is next.
    pub(crate) fair_queue: FairQueue,
    /// As a source of the parent.
    pub(crate) source_state: SourceState,
    /// Since when it has been an active source of the parent.
    pub(crate) active_since: Instant,
}

const _: () = assert!(offset_of!(Queue, fair_queue) + FairQueue::BUSY_BYTES <= 64);

impl Cgroup {
    pub(crate) fn root() -> Cgroup {
        Cgroup::new(NO_CGROUP, 0, "".into())
    }

    pub(crate) fn new(parent: u32, depth: u32, name: Arc<str>) -> Cgroup {
        let dir = |direction| PerDirection {
            parent_limit: NO_CGROUP,
            throttled_by: Dimension::of(direction, Resource::Ios),
            has_rw_limit: false,
            has_part_paid: false,
            limiter: None,
            queue: None,
            timer: Timer::default(),
        };
        Cgroup {
            parent,
            depth,
            weight: Weight::DEFAULT,
            prio_class: PrioClass::NoChange,
            low_latency: None,
            has_watermark: false,
            clock: 0,
            dying: false,
            confidence: Confidence::default(),
            directions: Direction::BOTH.map(dir),
            account: None,
            rw_limit: None,
            gate_epoch: 0,
            disptime: Instant::ZERO,
            name,
            limits: None,
            folded: None,
            children: None,
            clients: 0,
        }
    }

    /// Child cgroups in the order of their names, and then those that were removed but still have clients.
    pub(crate) fn children(&self) -> impl Iterator<Item = u32> {
        self.children.iter().flat_map(|children| children.iter())
    }

    pub(crate) fn dir(&self, direction: Direction) -> &PerDirection {
        &self.directions[direction.index()]
    }

    pub(crate) fn dir_mut(&mut self, direction: Direction) -> &mut PerDirection {
        &mut self.directions[direction.index()]
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits.as_deref().copied().unwrap_or_default()
    }

    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = (limits != Limits::default()).then(|| Box::new(limits));
    }

    /// What was counted here, if anything was.
    pub(crate) fn account(&self) -> Option<&Account> {
        self.account.as_deref()
    }

    pub(crate) fn account_mut(&mut self) -> &mut Account {
        if self.account.is_none() {
            self.materialise();
        }
        self.account.get_or_insert_default()
    }

    /// The first request is here: what all of them need is made, one after the other, and the limiters are put beside it. So
    /// it lies in one page of memory or two, and each page more is dear where there are many cgroups.
    #[cold]
    #[inline(never)]
    fn materialise(&mut self) {
        for direction in Direction::BOTH {
            if let Some(limiter) = self.dir_mut(direction).limiter.take() {
                self.dir_mut(direction).limiter = Some(Box::new(*limiter));
                self.queue_mut(direction).fair_queue.make_room();
            }
        }
        self.account = Some(Box::default());
    }

    /// Adds what was counted here, of which `own` is the id, and at children that were removed; blame is to be tidied after
    /// the last one.
    pub(crate) fn gather(&self, own: CgroupId, counters: &mut Counters) {
        if let Some(account) = &self.account {
            account.add_to(own, counters);
        }
        if let Some(folded) = &self.folded {
            counters.gather(folded);
        }
    }

    /// The queue of `direction`, made when something waits for the first time.
    pub(crate) fn queue_mut(&mut self, direction: Direction) -> &mut Queue {
        let PerDirection { limiter, queue, .. } = self.dir_mut(direction);
        queue.get_or_insert_with(|| {
            let order = limiter.as_deref().map(RateLimiter::order).unwrap_or_default();
            Box::new(Queue {
                fair_queue: FairQueue::new(order),
                source_state: SourceState::new(),
                active_since: Instant::ZERO,
                to_parent: List::EMPTY,
            })
        })
    }

    /// The queue of `direction`, where something has waited before.
    pub(crate) fn queue(&self, direction: Direction) -> Option<&Queue> {
        self.dir(direction).queue.as_deref()
    }

    /// Whether nothing waits for this cgroup's own limit in `direction`: no source is active here.
    pub(crate) fn is_clear(&self, direction: Direction) -> bool {
        self.queue(direction).is_none_or(|queue| queue.fair_queue.is_empty())
    }

    pub(crate) fn limiter(&self, direction: Direction) -> Option<&RateLimiter> {
        self.dir(direction).limiter.as_deref()
    }

    pub(crate) fn limiter_mut(&mut self, direction: Direction) -> Option<&mut RateLimiter> {
        self.dir_mut(direction).limiter.as_deref_mut()
    }

    /// Goes by another clock, which shows `after` when the old one shows `before`.
    pub(crate) fn shift(&mut self, before: Instant, after: Instant) {
        self.disptime = self.disptime.moved(before, after);
        self.limiters_mut().for_each(|limiter| limiter.shift(before, after));
    }

    /// All its limiters.
    fn limiters_mut(&mut self) -> impl Iterator<Item = &mut RateLimiter> {
        let apart = self.directions.iter_mut().filter_map(|dir| dir.limiter.as_deref_mut());
        apart.chain(self.rw_limit.iter_mut().map(|rw_limit| rw_limit.limiter_mut()))
    }

    /// Its limits go by the `clock` of that number from now on; they have kept up with the one before.
    pub(crate) fn go_by(&mut self, number: u16, clock: &Clock) {
        self.clock = number;
        self.gate_epoch = clock.gate_epoch().number;
    }

    /// Its limits learn when they last ceased to bind, if they have not yet.
    #[inline]
    pub(crate) fn sync_with_watermark(&mut self, gate_epoch: GateEpoch) {
        if gate_epoch.number != 0 && gate_epoch.number != self.gate_epoch {
            self.gate_epoch = gate_epoch.number;
            self.limiters_mut().for_each(|limiter| limiter.forgive(gate_epoch.at));
        }
    }

    /// The limiter of a cgroup that has a limit in `direction`.
    pub(crate) fn limit(&self, direction: Direction) -> &RateLimiter {
        self.limiter(direction).expect("a limited cgroup has a limiter")
    }

    /// The limiter of a cgroup that has a limit in `direction`.
    pub(crate) fn limit_mut(&mut self, direction: Direction) -> &mut RateLimiter {
        self.limiter_mut(direction).expect("a limited cgroup has a limiter")
    }
}
