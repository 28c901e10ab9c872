//! Mode `proportional`: when the clock of a watermark may be set forward.
//!
//! The device works, then it is left idle for a while, then the next limited request is let go early. How long it is
//! left idle is what steers: a device that worked for `b` owes `b * free / used` of idle time, where `free` is what is to
//! stay free of it and `used` the rest, so that its utilisation becomes `used`, whatever its requests take. The debt is
//! the only state of the controller; it is an integral of the error, and as it is bounded, so is the error of the
//! utilisation: over a time `t` at most the bound divided by `t`. There is no gain to choose, hence nothing that could
//! oscillate, and nothing to learn, hence nothing to unlearn when the device changes its speed.

use crate::time::Instant;
use crate::types::Headroom;

/// What the device still has to be left alone before a limited request may go early.
#[derive(Clone, Debug)]
pub(super) struct IdleController {
    percent: u8,
    headroom: Headroom,
    /// In nanoseconds of idle time and percent.
    idle_debt: u64,
    now: Instant,
    /// Until when those without limits count as being there.
    needed_until: Instant,
}

/// The most that is owed, in nanoseconds of idle time: after a long time of work by others, the limited wait no longer
/// than this.
const IDLE_DEBT_NS_MAX: u64 = 100_000_000;

/// How long those without limits count as being there after they sent something: a client that comes back within the
/// second in which utilisation has to settle finds the reserve as it left it.
const NEEDED_NS: u64 = 1_000_000_000;

/// Percent of the device left idle in any case. A closed-loop client is away for a moment after each answer; without a
/// pause another client takes its place, and shares follow response times, not limits.
const LEAST_FREE: u8 = 1;

impl IdleController {
    pub(super) fn new(now: Instant, percent: u8, headroom: Headroom) -> IdleController {
        IdleController { percent, headroom, idle_debt: 0, now, needed_until: now }
    }

    /// How much of the device may be used at `now`, in percent: 1 to 99, or the watermark where that is kept.
    pub(super) fn target_util(&self, now: Instant) -> u8 {
        let most = 100 - LEAST_FREE;
        match self.headroom {
            Headroom::Borrowable if now >= self.needed_until => most,
            _ => self.percent.min(most),
        }
    }

    /// Time goes on to `now`, with or without a request at the device all the while. O(1).
    pub(super) fn advance(&mut self, now: Instant, busy: bool) {
        let used = self.target_util(self.now);
        let elapsed = now.nanos_since(self.now);
        self.now = now;
        if busy {
            let most = IDLE_DEBT_NS_MAX * u64::from(used);
            let more = elapsed.saturating_mul(u64::from(100 - used));
            self.idle_debt = self.idle_debt.saturating_add(more).min(most);
        } else {
            self.idle_debt = self.idle_debt.saturating_sub(elapsed.saturating_mul(u64::from(used)));
        }
    }

    /// Whether the device may be left idle beyond the idle debt, for an anticipated client.
    ///
    /// Not where a reserve is kept: its rest is the time to come back in, and with any other the device would be used less
    /// than is promised.
    pub(super) fn anticipates(&self) -> bool {
        self.headroom == Headroom::Borrowable
    }

    /// A client without limits wants the device.
    pub(super) fn note_unlimited_demand(&mut self) {
        self.needed_until = self.now.plus_nanos(NEEDED_NS);
    }

    /// The same if the device works until `rests`, which is not before the last [`IdleController::advance`], and then stays idle.
    pub(super) fn after(&self, rests: Instant) -> Instant {
        let mut then = self.clone();
        then.advance(rests, true);
        then.until()
    }

    /// From when on a limited request may go early, if the device stays idle.
    pub(super) fn until(&self) -> Instant {
        self.now.plus_nanos(self.idle_debt.div_ceil(u64::from(self.target_util(self.now))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_us(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    #[test]
    fn nine_milliseconds_of_work_owe_one_of_rest_at_ninety_percent() {
        let mut controller = IdleController::new(at_us(0), 90, Headroom::Strict);
        controller.advance(at_us(9_000), true);
        assert_eq!(controller.until(), at_us(10_000));
        controller.advance(at_us(9_500), false);
        assert_eq!(controller.until(), at_us(10_000), "half of it is over");
        controller.advance(at_us(10_000), false);
        assert_eq!(controller.until(), at_us(10_000));
        controller.advance(at_us(500_000), false);
        assert_eq!(controller.until(), at_us(500_000), "rest is not saved up");
    }

    #[test]
    fn the_reserve_is_lent_a_second_after_it_was_needed() {
        let mut controller = IdleController::new(at_us(0), 90, Headroom::Borrowable);
        controller.advance(at_us(99_000), true);
        assert_eq!(controller.until(), at_us(100_000), "a hundredth stays free");
        controller.note_unlimited_demand();
        assert_eq!(controller.target_util(at_us(99_000)), 90);
        assert_eq!(controller.target_util(at_us(1_098_999)), 90);
        assert_eq!(controller.target_util(at_us(1_099_000)), 99);
        let full = IdleController::new(at_us(0), 100, Headroom::Strict);
        assert_eq!(full.target_util(at_us(0)), 99);
    }

    #[test]
    fn hours_of_work_by_others_owe_a_tenth_of_a_second() {
        for percent in [1, 50, 99] {
            let mut controller = IdleController::new(at_us(0), percent, Headroom::Strict);
            let late = Instant::from_millis(10_000_000);
            controller.advance(late, true);
            assert_eq!(controller.until(), late.plus_nanos(IDLE_DEBT_NS_MAX));
            controller.advance(Instant::FAR_FUTURE, true);
            controller.advance(Instant::FAR_FUTURE, false);
            assert_eq!(controller.until(), Instant::FAR_FUTURE);
        }
    }
}
