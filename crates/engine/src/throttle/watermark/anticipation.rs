//! Anticipation of the next request of a closed-loop client, before a clock is set forward.
//!
//! A client that sends its next request after the answer to the last one is away for a moment. Without anticipation the
//! waiting client takes its turn, and two such clients share equally whatever their limits. So the clock waits while the
//! limit of the absent client allows its request earlier than that of the waiting one.
//!
//! Waiting costs device time, and work pays for it: [`WORK_PER_WAIT`] parts of work allow one part of waiting, over all
//! clients. A client that is late twice is not anticipated until it is observed to return in time. A clock with
//! [`Headroom::Strict`](crate::types::Headroom::Strict) never waits.

use crate::types::Instant;

/// Parts of work for one part of waiting. Waiting then costs at most 2 %, the tolerance of the promised shares; and with
/// the hundredth that stays idle in any case, a return 0.5 ms late on a disk of 50 ms a request costs nothing more.
const WORK_PER_WAIT: u64 = 50;

/// Longest wait for one client, in nanoseconds: a scheduling hiccup. Think time is longer.
const WAIT_NS_MAX: u64 = 10_000_000;

/// Confidence that a cgroup's next request follows at once, 0 to [`Confidence::MOST`]. New cgroups have the most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Confidence(u8);

impl Confidence {
    const MOST: u8 = 3;

    fn is_enough(self) -> bool {
        self.0 >= Self::MOST - 1
    }

    /// It came back in time, or not.
    pub(super) fn learn(&mut self, in_time: bool) {
        self.0 = if in_time { Self::MOST.min(self.0 + 1) } else { self.0.saturating_sub(1) };
    }
}

impl Default for Confidence {
    fn default() -> Confidence {
        Confidence(Self::MOST)
    }
}

/// The awaited client, and the budget of waiting.
#[derive(Clone, Debug)]
pub(crate) struct Anticipation {
    awaited: Option<Awaited>,
    /// Work that has not been spent on waiting, in nanoseconds.
    earned_ns: u64,
    now: Instant,
    is_waiting: bool,
}

#[derive(Clone, Copy, Debug)]
struct Awaited {
    cgroup: u32,
    /// When its limits let it go, if no clock is set forward.
    due: Instant,
    /// By when it would have had to be back for its turn, once that was asked.
    until: Option<Instant>,
}

impl Anticipation {
    pub(super) fn new(now: Instant) -> Anticipation {
        Anticipation { awaited: None, earned_ns: 0, now, is_waiting: false }
    }

    /// Time goes on to `now`, with or without a request at the device all the while. O(1).
    pub(super) fn advance(&mut self, now: Instant, busy: bool) {
        let elapsed = now.nanos_since(self.now);
        self.now = now;
        if busy {
            let most = WAIT_NS_MAX * WORK_PER_WAIT;
            self.earned_ns = self.earned_ns.saturating_add(elapsed).min(most);
        } else if self.is_waiting {
            let price = elapsed.saturating_mul(WORK_PER_WAIT);
            self.earned_ns = self.earned_ns.saturating_sub(price);
        }
    }

    /// The device has nothing more to do; the last that it did was of `cgroup`, whose limits let the next such request go
    /// at `due` if no clock is set forward before. `None`: no client is expected.
    pub(super) fn leave(&mut self, cgroup_due: Option<(u32, Instant)>) {
        self.awaited = cgroup_due.map(|(cgroup, due)| Awaited { cgroup, due, until: None });
        self.is_waiting = false;
    }

    /// The awaited cgroup, if it was not back for its turn.
    pub(super) fn overdue(&self) -> Option<u32> {
        let late =
            self.awaited.filter(|awaited| awaited.until.is_some_and(|until| until < self.now));
        late.map(|awaited| awaited.cgroup)
    }

    /// A request of `cgroup` has come; if it was away and another wanted its turn, whether it is in time.
    pub(super) fn returns(&mut self, cgroup: u32) -> Option<bool> {
        let awaited = self.awaited.take_if(|awaited| awaited.cgroup == cgroup)?;
        self.is_waiting = false;
        awaited.until.map(|until| self.now <= until)
    }

    /// No other client wants its turn any more.
    pub(super) fn stop_waiting(&mut self) {
        self.is_waiting = false;
    }

    /// The awaited cgroup.
    pub(super) fn awaited_cgroup(&self) -> Option<u32> {
        self.awaited.map(|awaited| awaited.cgroup)
    }

    /// Whether to wait before a clock is set forward to what is due at `due` if it is not. `confidence` is that of the
    /// awaited cgroup.
    pub(super) fn is_worth_waiting_for(&mut self, due: Instant, confidence: Confidence) -> bool {
        let patience = self.earned_ns / WORK_PER_WAIT;
        let now = self.now;
        self.is_waiting = self.awaited.as_mut().is_some_and(|awaited| {
            let until = *awaited.until.get_or_insert(now.plus_nanos(patience));
            awaited.due < due && confidence.is_enough() && now < until
        });
        self.is_waiting
    }

    /// End of the wait if no request comes; the past if there is no wait.
    pub(super) fn until(&self) -> Instant {
        let until = self.awaited.filter(|_| self.is_waiting).and_then(|awaited| awaited.until);
        until.unwrap_or(Instant::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_us(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    /// After 50 ms of work, which allow for 1 ms, cgroup 7 is away.
    fn awaited() -> Anticipation {
        let mut anticipation = Anticipation::new(at_us(0));
        anticipation.advance(at_us(50_000), true);
        anticipation.leave(Some((7, at_us(60_000))));
        anticipation
    }

    #[test]
    fn who_is_due_first_is_waited_for_as_long_as_work_allows() {
        let mut anticipation = awaited();
        let confidence = Confidence::default();
        assert!(
            !anticipation.is_worth_waiting_for(at_us(60_000), confidence),
            "due at the same time"
        );
        assert!(anticipation.is_worth_waiting_for(at_us(60_001), confidence));
        assert_eq!(anticipation.until(), at_us(51_000));
        anticipation.advance(at_us(50_600), false);
        assert!(anticipation.is_worth_waiting_for(at_us(60_001), confidence));
        assert_eq!((anticipation.returns(3), anticipation.returns(7)), (None, Some(true)));
        assert_eq!(anticipation.awaited_cgroup(), None);
        // 0.4 ms are left, and it is late the next time.
        anticipation.leave(Some((7, at_us(60_000))));
        assert!(anticipation.is_worth_waiting_for(at_us(60_001), confidence));
        assert_eq!(anticipation.until(), at_us(51_000));
        anticipation.advance(at_us(51_000), false);
        assert!(!anticipation.is_worth_waiting_for(at_us(60_001), confidence));
        assert_eq!(anticipation.overdue(), None);
        anticipation.advance(at_us(51_001), false);
        assert_eq!((anticipation.overdue(), anticipation.returns(7)), (Some(7), Some(false)));
    }

    #[test]
    fn hours_of_work_allow_for_ten_milliseconds() {
        let mut anticipation = Anticipation::new(at_us(0));
        anticipation.advance(Instant::from_millis(10_000_000), true);
        anticipation.leave(Some((7, Instant::ZERO)));
        assert!(anticipation.is_worth_waiting_for(Instant::FAR_FUTURE, Confidence::default()));
        assert_eq!(anticipation.until(), Instant::from_millis(10_000_010));
    }

    #[test]
    fn who_is_late_twice_is_waited_for_again_when_it_was_in_time() {
        let mut confidence = Confidence::default();
        confidence.learn(false);
        assert!(
            awaited().is_worth_waiting_for(Instant::FAR_FUTURE, confidence),
            "once is an accident"
        );
        confidence.learn(false);
        let mut anticipation = awaited();
        assert!(!anticipation.is_worth_waiting_for(Instant::FAR_FUTURE, confidence));
        assert_eq!(anticipation.until(), Instant::ZERO);
        // Another client goes. It would have been in time.
        anticipation.advance(at_us(50_900), true);
        assert_eq!(anticipation.returns(7), Some(true));
        confidence.learn(true);
        assert!(awaited().is_worth_waiting_for(Instant::FAR_FUTURE, confidence));
        for _ in 0..5 {
            confidence.learn(false);
        }
        confidence.learn(true);
        assert!(!confidence.is_enough());
    }

    #[test]
    fn who_comes_when_nobody_wants_its_turn_teaches_nothing() {
        assert_eq!(awaited().returns(7), None);
        let mut anticipation = awaited();
        anticipation.leave(None);
        assert_eq!((anticipation.awaited_cgroup(), anticipation.returns(7)), (None, None));
    }
}
