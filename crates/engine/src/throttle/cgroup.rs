//! Throttle state of one cgroup: its limits, their limiters, and what waits at them.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::offset_of;

use crate::throttle::account::WaitAccount;
use crate::throttle::deadlines::Timer;
use crate::throttle::fair_queue::{FairQueue, SourceState};
use crate::throttle::limiter::{Arrival, Rates, Verdict};
use crate::throttle::rate_limiter::RateLimiter;
use crate::throttle::rw_limit::RwLimit;
use crate::throttle::watermark::LimitTime;
use crate::tree::NO_CGROUP;
use crate::types::{Cost, Dimension, Direction, Instant, LimiterKind, Limits, Resource};

/// Limits of a cgroup and what waits at them.
///
/// Small, for 100,000 cgroups: rare parts are boxed.
#[repr(C, align(64))]
pub(super) struct CgroupThrottle {
    directions: [PerDirection; 2],
    /// Waits of its requests, once one has waited.
    account: Option<Arc<WaitAccount>>,
    /// Whether what throttled requests need has been allocated.
    is_materialised: bool,
    /// The limiter of both directions together, where there is one; each direction has a limiter of its own then.
    pub(super) rw_limit: Option<Box<RwLimit>>,
    /// None without limits.
    limits: Option<Box<Limits>>,
}

// All of one direction is in one line of cache.
const _: () = assert!(size_of::<PerDirection>() <= 64);

/// State of one direction. Kept together, because a request needs all of one and nothing of the other.
pub(super) struct PerDirection {
    /// Nearest cgroup strictly above with a limit.
    pub(super) parent_limit: u32,
    /// Dimension that throttles the head.
    pub(super) throttled_by: Dimension,
    /// Whether the cgroup has a limit on both directions. Here, because every throttled request reads it.
    pub(super) has_rw_limit: bool,
    /// Whether a request that waits here or above may have paid some instalments. It may then owe bytes only. Cleared
    /// when nothing waits.
    pub(super) has_part_paid: bool,
    /// The limiter, where there is a limit.
    pub(super) limiter: Option<Box<RateLimiter>>,
    /// Queue, once something has waited here.
    pub(super) queue: Option<Box<Queue>>,
    /// Timer of the waiting head. Under a limit of slices, that of reads serves both directions.
    pub(super) timer: Timer,
}

/// Queue of one cgroup and direction.
///
/// Without a limit above, only its first line of cache is used.
#[repr(C, align(64))]
pub(super) struct Queue {
    /// Order of children and own clients.
    pub(super) fair_queue: FairQueue,
    /// As a source of the parent.
    pub(super) source_state: SourceState,
    /// Since when it has been an active source of the parent.
    pub(super) active_since: Instant,
}

const _: () = assert!(offset_of!(Queue, fair_queue) + FairQueue::BUSY_BYTES <= 64);

impl CgroupThrottle {
    pub(super) fn new() -> CgroupThrottle {
        let dir = |direction| PerDirection {
            parent_limit: NO_CGROUP,
            throttled_by: Dimension::of(direction, Resource::Ios),
            has_rw_limit: false,
            has_part_paid: false,
            limiter: None,
            queue: None,
            timer: Timer::default(),
        };
        CgroupThrottle {
            directions: Direction::BOTH.map(dir),
            account: None,
            is_materialised: false,
            rw_limit: None,
            limits: None,
        }
    }

    pub(super) fn dir(&self, direction: Direction) -> &PerDirection {
        &self.directions[direction.index()]
    }

    pub(super) fn dir_mut(&mut self, direction: Direction) -> &mut PerDirection {
        &mut self.directions[direction.index()]
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits.as_deref().copied().unwrap_or_default()
    }

    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = (limits != Limits::default()).then(|| Box::new(limits));
    }

    /// Where waits are counted, of a request that waits or has waited.
    #[inline]
    pub(super) fn account(&mut self) -> &WaitAccount {
        if !self.is_materialised {
            self.materialise();
        }
        self.account.get_or_insert_default()
    }

    /// The same, for other threads to read.
    pub(super) fn share_account(&mut self) -> Arc<WaitAccount> {
        Arc::clone(self.account.get_or_insert_default())
    }

    /// Allocates the state of throttled requests in one go, with the limiters beside it. The hot state then lies
    /// within one or two pages, which limits TLB misses with many cgroups.
    #[cold]
    #[inline(never)]
    pub(super) fn materialise(&mut self) {
        for direction in Direction::BOTH {
            if let Some(limiter) = self.dir_mut(direction).limiter.take() {
                self.dir_mut(direction).limiter = Some(Box::new(*limiter));
                self.queue_mut(direction).fair_queue.make_room();
            }
        }
        self.account.get_or_insert_default();
        self.is_materialised = true;
    }

    /// Queue of `direction`, allocated on first use.
    pub(super) fn queue_mut(&mut self, direction: Direction) -> &mut Queue {
        let PerDirection { limiter, queue, .. } = self.dir_mut(direction);
        queue.get_or_insert_with(|| {
            let order = limiter.as_deref().map(RateLimiter::order).unwrap_or_default();
            Box::new(Queue {
                fair_queue: FairQueue::new(order),
                source_state: SourceState::new(),
                active_since: Instant::ZERO,
            })
        })
    }

    /// Queue of `direction`, if it was ever used.
    pub(super) fn queue(&self, direction: Direction) -> Option<&Queue> {
        self.dir(direction).queue.as_deref()
    }

    /// Whether nothing waits for this cgroup's own limit in `direction`: no source is active here.
    pub(super) fn is_clear(&self, direction: Direction) -> bool {
        self.queue(direction).is_none_or(|queue| queue.fair_queue.is_empty())
    }

    pub(super) fn limiter(&self, direction: Direction) -> Option<&RateLimiter> {
        self.dir(direction).limiter.as_deref()
    }

    pub(super) fn limiter_mut(&mut self, direction: Direction) -> Option<&mut RateLimiter> {
        self.dir_mut(direction).limiter.as_deref_mut()
    }

    /// Rebases all times: the new clock shows `after` when the old one shows `before`.
    pub(super) fn shift(&mut self, before: Instant, after: Instant) {
        self.limiters_mut().for_each(|limiter| limiter.shift(before, after));
    }

    /// Reduces the debt of all its limits to a burst: they ceased to bind at `at`.
    pub(super) fn forgive(&mut self, at: Instant) {
        self.limiters_mut().for_each(|limiter| limiter.forgive(at));
    }

    /// All its limiters.
    fn limiters_mut(&mut self) -> impl Iterator<Item = &mut RateLimiter> {
        let apart = self.directions.iter_mut().filter_map(|dir| dir.limiter.as_deref_mut());
        apart.chain(self.rw_limit.iter_mut().map(|rw_limit| rw_limit.limiter_mut()))
    }

    /// The limiter of a cgroup that has a limit in `direction`.
    pub(super) fn limit(&self, direction: Direction) -> &RateLimiter {
        self.limiter(direction).expect("a limited cgroup has a limiter")
    }

    /// The limiter of a cgroup that has a limit in `direction`.
    pub(super) fn limit_mut(&mut self, direction: Direction) -> &mut RateLimiter {
        self.limiter_mut(direction).expect("a limited cgroup has a limiter")
    }
}

/// Checks and charges, with the limit on both directions.
impl CgroupThrottle {
    /// Sets, replaces or removes the limit on both directions.
    pub(crate) fn set_rw_limit(&mut self, now: Instant, kind: LimiterKind, rates: Rates) {
        let queued = !Direction::BOTH.iter().all(|&direction| self.is_clear(direction));
        match (&mut self.rw_limit, rates.is_unlimited()) {
            (rw_limit, true) => *rw_limit = None,
            (Some(rw_limit), false) => rw_limit.limiter_mut().set(now, kind, rates, queued),
            (rw_limit @ None, false) => *rw_limit = Some(Box::new(RwLimit::new(now, kind, rates))),
        }
        Direction::BOTH.iter().for_each(|&direction| {
            self.dir_mut(direction).has_rw_limit = !rates.is_unlimited();
        });
    }

    /// Whether `direction` waits for nothing but the limit on both.
    pub(super) fn waits_for_rw_limit(&self, direction: Direction) -> bool {
        let dir = self.dir(direction);
        dir.throttled_by.is_rw()
            && !self.is_clear(direction)
            && self.queue(direction).is_some_and(|queue| !queue.source_state.is_active())
    }

    /// Whether a new request in `direction` queues behind the other direction, which waits for the limit on both.
    pub(crate) fn waits_behind_other_direction(&self, direction: Direction) -> bool {
        self.dir(direction).has_rw_limit && self.waits_for_rw_limit(direction.other())
    }

    /// Whether the limits of `direction` let a head of `cost` go at `time`, in which a wait is too.
    #[inline]
    pub(super) fn check(
        &mut self,
        time: LimitTime,
        direction: Direction,
        cost: Cost,
        arrival: Arrival,
    ) -> Verdict<Dimension> {
        if time.is_lifted {
            return Verdict::Go;
        }
        let time = time.at;
        let own = self.limit_mut(direction).check(time, cost, arrival);
        let own = by(own, |resource| Dimension::of(direction, resource));
        let is_other_clear = self.rw_limit.is_none() || self.is_clear(direction.other());
        match &mut self.rw_limit {
            None => own,
            Some(rw_limit) => {
                let arrival = if is_other_clear { arrival } else { Arrival::Queued };
                let both = by(rw_limit.limiter_mut().check(time, cost, arrival), Dimension::rw);
                both.later_of(own).later_of(self.turn(time, direction))
            }
        }
    }

    /// The same for any head, where the answer is the same for all.
    pub(super) fn check_any(
        &self,
        time: LimitTime,
        direction: Direction,
    ) -> Option<Verdict<Dimension>> {
        if time.is_lifted {
            return Some(Verdict::Go);
        }
        let time = time.at;
        let own = self.limit(direction).check_any(time)?;
        let own = by(own, |resource| Dimension::of(direction, resource));
        let Some(rw_limit) = &self.rw_limit else { return Some(own) };
        let both = by(rw_limit.limiter().check_any(time)?, Dimension::rw);
        Some(both.later_of(own).later_of(self.turn(time, direction)))
    }

    /// Charges `cost` to the limits of `direction`: of a request that they let go at `time`, or an instalment of what was
    /// `owed`.
    #[inline]
    pub(super) fn charge(
        &mut self,
        time: LimitTime,
        direction: Direction,
        cost: Cost,
        owed: Option<Cost>,
    ) {
        self.limit_mut(direction).charge(time, cost, owed);
        if let Some(rw_limit) = &mut self.rw_limit {
            rw_limit.limiter_mut().charge(time, cost, owed);
        }
    }

    /// Whether it is the turn of `direction`: not while the other one is first and waits. Otherwise small requests,
    /// which conform earlier, would starve large ones.
    fn turn(&self, now: Instant, direction: Direction) -> Verdict<Dimension> {
        let other = direction.other();
        let is_others = self.rw_limit.as_ref().is_some_and(|rw_limit| rw_limit.first() == other);
        if !is_others || !self.waits_for_rw_limit(other) {
            return Verdict::Go;
        }
        let dir = self.dir(other);
        match dir.timer.fires_at().filter(|&until| until > now) {
            Some(until) => Verdict::Wait { until, throttled_by: dir.throttled_by },
            None => Verdict::Go,
        }
    }

    /// Time of `cost` at the limits of `direction`, in nanoseconds: the longest of them.
    pub(crate) fn time_of(&self, direction: Direction, cost: Cost) -> u64 {
        let own = self.limit(direction).time_of(cost);
        match &self.rw_limit {
            None => own,
            Some(rw_limit) => own.max(rw_limit.limiter().time_of(cost)),
        }
    }
}

/// The same verdict, with the dimension of its cause.
#[inline]
fn by(verdict: Verdict, dimension: impl Fn(Resource) -> Dimension) -> Verdict<Dimension> {
    match verdict {
        Verdict::Go => Verdict::Go,
        Verdict::Wait { until, throttled_by } => {
            Verdict::Wait { until, throttled_by: dimension(throttled_by) }
        }
    }
}
