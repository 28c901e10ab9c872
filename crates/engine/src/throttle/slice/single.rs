//! One queue under one limiter, with exact or late timers: the smallest thing in which a limiter can be watched.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::throttle::limiter::{Arrival, Cost, Limiter, Rates, Verdict};
use crate::time::Instant;

/// First in, first out, as in the specification's section 1.4 with a single group and one direction.
pub(crate) struct Single<L> {
    pub(crate) limiter: L,
    /// How much after the instant that was asked for a timer goes off.
    pub(crate) late_nanos: u64,
    /// What went, in order: when, and at what cost.
    pub(crate) went: Vec<(Instant, Cost)>,
    queue: VecDeque<Cost>,
    due: Instant,
}

impl<L: Limiter> Single<L> {
    pub(crate) fn new(limiter: L) -> Single<L> {
        Single {
            limiter,
            late_nanos: 0,
            went: Vec::new(),
            queue: VecDeque::new(),
            due: Instant::FAR_FUTURE,
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// When the timer will go off; nothing happens before, unless something arrives.
    pub(crate) fn timer(&self) -> Option<Instant> {
        self.is_waiting().then(|| self.due.plus_nanos(self.late_nanos))
    }

    /// A request arrives. Timers that are due go off first.
    pub(crate) fn submit(&mut self, now: Instant, cost: Cost) {
        self.run_until(now);
        let arrival = if self.is_waiting() { Arrival::Queued } else { Arrival::Fresh };
        self.queue.push_back(cost);
        if arrival == Arrival::Fresh {
            self.dispatch(now, arrival);
        }
    }

    /// A request of metadata arrives, and overtakes.
    pub(crate) fn overtake(&mut self, now: Instant, cost: Cost) {
        self.run_until(now);
        self.limiter.charge(now, cost);
        self.went.push((now, cost));
    }

    pub(crate) fn set_rates(&mut self, now: Instant, rates: Rates) {
        self.run_until(now);
        self.limiter.set_rates(now, rates, self.is_waiting());
        if let Some(&head) = self.queue.front() {
            self.due = match self.limiter.check(now, head, Arrival::Queued) {
                Verdict::Go => now,
                Verdict::Wait { until, .. } => until,
            };
        }
    }

    /// Asks about the head without need; a late or repeated question must not change anything.
    pub(crate) fn ask(&mut self, now: Instant) {
        self.run_until(now);
        if let Some(&head) = self.queue.front() {
            let verdict = self.limiter.check(now, head, Arrival::Queued);
            assert!(matches!(verdict, Verdict::Wait { until, .. } if until > now));
        }
    }

    /// Lets all timers up to and including `end` go off.
    pub(crate) fn run_until(&mut self, end: Instant) {
        while let Some(now) = self.timer().filter(|&now| now <= end) {
            self.dispatch(now, Arrival::Queued);
        }
    }

    /// Lets timers go off until nothing waits.
    pub(crate) fn drain(&mut self) {
        self.run_until(Instant::FAR_FUTURE);
    }

    fn dispatch(&mut self, now: Instant, mut arrival: Arrival) {
        while let Some(&head) = self.queue.front() {
            match self.limiter.check(now, head, arrival) {
                Verdict::Go => {
                    self.limiter.charge(now, head);
                    self.went.push((now, head));
                    self.queue.pop_front();
                }
                Verdict::Wait { until, .. } => {
                    assert!(until > now, "a wait that is none at {now:?}");
                    self.due = until;
                    break;
                }
            }
            arrival = Arrival::Queued;
        }
    }
}
