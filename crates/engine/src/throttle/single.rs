//! One queue under one limiter, with exact or late timers: the smallest thing in which a limiter can be watched.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof};

use crate::throttle::limiter::{Arrival, Limiter, Rates, Verdict};
use crate::types::{Cost, Instant, Resource};

/// First in, first out, as in spec/throttle 1.4 with a single group and one direction.
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
        self.set_rates_at_once(now, rates);
    }

    /// Sets the rates before a timer of this instant goes off.
    pub(crate) fn set_rates_at_once(&mut self, now: Instant, rates: Rates) {
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

/// The most that went in any window beyond what `per_second` earns in it, in 1e-9 units: the left side of
/// spec/throttle P1.
pub(crate) fn excess(went: &[(Instant, Cost)], resource: Resource, per_second: u64) -> i128 {
    let (mut before, mut most, mut best_start) = (0i128, 0i128, i128::MIN);
    for &(at, cost) in went {
        let earned = i128::from(at.as_nanos()) * i128::from(per_second);
        best_start = best_start.max(earned - before);
        let amount = match resource {
            Resource::Bytes => cost.bytes,
            Resource::Ios => cost.ios,
        };
        before += i128::from(amount) * 1_000_000_000;
        most = most.max(before - earned + best_start);
    }
    most
}

/// A thousand cases a property, or as many more as `PROPTEST_CASES` says.
pub(crate) fn cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(1000), ..config }
}

/// Arrivals: nanoseconds since the last one, often 0, and bytes.
pub(crate) fn arrivals() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![3 => Just(0), 2 => 0..20_000_000u64, 1 => 0..400_000_000u64];
    vec((gap, 1..200_000u64), 1..60)
}

impl<L: Limiter> Single<L> {
    /// Submits `arrivals` from `start` on, and lets everything go.
    pub(crate) fn run(mut self, start: Instant, arrivals: &[(u64, u64)]) -> Vec<(Instant, Cost)> {
        let mut now = start;
        for &(gap, bytes) in arrivals {
            now = now.plus_nanos(gap);
            self.submit(now, Cost::whole(bytes, 1));
        }
        self.drain();
        assert_eq!(self.went.len(), arrivals.len());
        self.went
    }
}
