//! By how much a sum has grown within a sliding window.

use crate::types::Instant;

/// A part of a time, kept as the two numbers it is made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Share {
    /// The part, in nanoseconds. More than the whole where several things happen at once.
    pub part_ns: u64,
    /// The whole, in nanoseconds; 0 before any time has passed.
    pub whole_ns: u64,
}

impl Share {
    /// In millionths, rounded down; 0 of nothing.
    pub fn millionths(self) -> u64 {
        let part = u128::from(self.part_ns) * 1_000_000;
        part.checked_div(self.whole_ns.into()).map_or(0, |share| share as u64)
    }

    /// Whether it is at least `percent` of a whole that is not empty. Exact.
    pub fn reaches_percent(self, percent: u8) -> bool {
        self.whole_ns > 0
            && u128::from(self.part_ns) * 100 >= u128::from(self.whole_ns) * u128::from(percent)
    }
}

/// Marks in a window, and the time from one to the next.
const MARKS: u64 = 16;
const STEP_NS: u64 = 31_250_000;

/// The growth of a sum over the last half second, to a sixteenth of it: twice as fast as a controller has to be that
/// settles within one, and long against what is measured, a disk's 10 to 50 ms a request.
///
/// The sum may wrap. O(1) a step: a mark is set when its boundary is passed, and after a long silence all of them at once.
#[derive(Clone, Debug)]
pub(crate) struct Sliding {
    /// The sum at the last sixteen boundaries, by boundary number.
    marks: [u64; MARKS as usize],
    /// Boundaries passed since the origin of time.
    passed: u64,
    /// When it began, and the sum then: the window is shorter at first.
    began: Instant,
    began_with: u64,
}

impl Sliding {
    pub(crate) fn new(now: Instant, sum: u64) -> Sliding {
        let passed = now.as_nanos() / STEP_NS;
        Sliding { marks: [sum; MARKS as usize], passed, began: now, began_with: sum }
    }

    /// Time goes on to `now`; `sum_at` tells the sum at a boundary in between.
    pub(crate) fn advance(&mut self, now: Instant, sum_at: impl Fn(Instant) -> u64) {
        let passed = now.as_nanos() / STEP_NS;
        let missed = (passed - self.passed.min(passed)).min(MARKS);
        for boundary in passed - missed + 1..=passed {
            self.marks[(boundary % MARKS) as usize] =
                sum_at(Instant::from_nanos(boundary * STEP_NS));
        }
        self.passed = self.passed.max(passed);
    }

    /// The growth up to `now`, when the sum is `sum`, and the time in which it grew.
    pub(crate) fn grown(&self, now: Instant, sum: u64) -> Share {
        // The oldest mark that is still there.
        let oldest = (self.passed + 1).saturating_sub(MARKS);
        let at = Instant::from_nanos(oldest * STEP_NS);
        if at <= self.began {
            let whole_ns = now.nanos_since(self.began);
            return Share { part_ns: sum.wrapping_sub(self.began_with), whole_ns };
        }
        let then = self.marks[(oldest % MARKS) as usize];
        Share { part_ns: sum.wrapping_sub(then), whole_ns: now.nanos_since(at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_steady_sum_grows_by_its_slope() {
        let mut sliding = Sliding::new(at(1003), 7);
        for ms in (1003..5000).step_by(13) {
            let sum = |now: Instant| 7 + now.nanos_since(at(1003)) / 4;
            sliding.advance(at(ms), sum);
            let share = sliding.grown(at(ms), sum(at(ms)));
            assert_eq!(share.part_ns, share.whole_ns / 4, "at {ms}");
            let full = (MARKS - 1) * STEP_NS..=MARKS * STEP_NS;
            assert!(ms < 1550 || full.contains(&share.whole_ns), "at {ms}");
        }
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let mut sliding = Sliding::new(at(0), 0);
        sliding.advance(at(100), |_| 0);
        // Everything happens at 100 ms.
        sliding.advance(at(590), |_| 50);
        assert_eq!(sliding.grown(at(590), 50).part_ns, 50);
        sliding.advance(at(600), |_| 50);
        assert_eq!(sliding.grown(at(600), 50).part_ns, 0);
        sliding.advance(at(900_000), |_| 50);
        assert_eq!(sliding.grown(at(900_000), 80).part_ns, 30);
    }

    #[test]
    fn shares_are_exact() {
        let share = Share { part_ns: 90, whole_ns: 100 };
        assert!(share.reaches_percent(90) && !share.reaches_percent(91));
        assert_eq!(share.millionths(), 900_000);
        assert_eq!(Share::default().millionths(), 0);
        assert!(!Share::default().reaches_percent(0));
        let all = Share { part_ns: u64::MAX, whole_ns: u64::MAX };
        assert!(all.reaches_percent(100) && all.millionths() == 1_000_000);
    }
}
