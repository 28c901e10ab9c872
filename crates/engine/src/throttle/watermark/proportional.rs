//! Mode `proportional`: integral controller of the idle time before a clock is advanced.
//!
//! After work of `b` the device owes `b * free / used` of idle time, where `used` is the target utilisation and `free`
//! the rest. Utilisation then becomes `used`, whatever requests take. The idle debt is the only state: an integral of
//! the error. It is bounded, so the error of the utilisation over a time `t` is at most the bound divided by `t`.
//! There is no gain that could oscillate, and nothing learnt that a change of the device's speed would void.

use crate::types::{Headroom, Instant};

/// Controller of idle time before a limited request may go early.
#[derive(Clone, Debug)]
pub(super) struct IdleController {
    percent: u8,
    headroom: Headroom,
    /// In nanoseconds of idle time and percent.
    idle_debt: u64,
    now: Instant,
    /// End of the time for which clients without limits count as present.
    needed_until: Instant,
}

/// Bound of the idle debt, in nanoseconds of idle time: the longest wait of limited requests after much work by
/// others.
const IDLE_DEBT_NS_MAX: u64 = 100_000_000;

/// Time for which clients without limits count as present after a request: the second in which utilisation settles.
const NEEDED_NS: u64 = 1_000_000_000;

/// Percent of the device left idle in any case. A closed-loop client is away for a moment after each answer; without a
/// pause another client takes its place, and shares follow response times, not limits.
const LEAST_FREE: u8 = 1;

impl IdleController {
    pub(super) fn new(now: Instant, percent: u8, headroom: Headroom) -> IdleController {
        IdleController { percent, headroom, idle_debt: 0, now, needed_until: now }
    }

    /// Target utilisation at `now`, in percent: 1 to 99, or the watermark where headroom is kept.
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

    /// Whether the device may idle beyond the idle debt, for an anticipated client.
    ///
    /// Not with strict headroom: its idle time serves for that, and more would miss the promised utilisation.
    pub(super) fn anticipates(&self) -> bool {
        self.headroom == Headroom::Borrowable
    }

    /// A client without limits wants the device.
    pub(super) fn note_unlimited_demand(&mut self) {
        self.needed_until = self.now.plus_nanos(NEEDED_NS);
    }

    /// As [`IdleController::until`], if the device works until `rests` and then idles. `rests` is not before the last
    /// [`IdleController::advance`].
    pub(super) fn after(&self, rests: Instant) -> Instant {
        let mut then = self.clone();
        then.advance(rests, true);
        then.until()
    }

    /// Instant from which a limited request may go early, if the device stays idle.
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
