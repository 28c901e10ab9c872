//! spec/throttle P1 and P3: in no window of time does one cgroup's subtree exceed rate x time plus an allowance.

use super::Nanos;

/// The windows of one limit since it was last changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    per_second: u64,
    /// By how much rate x time may be exceeded, besides one request of the largest size.
    allowance: u64,
    started: Nanos,
    largest: u64,
    /// The most that savings may have added.
    saved: u64,
    /// Units charged so far, times 10^9.
    sum: i128,
    /// The least of (sum before a dispatch) - rate x (its time): where the worst window begins.
    floor: i128,
    /// The worst window's excess over rate x time.
    worst: i128,
}

impl Window {
    pub(super) fn new(per_second: u64, allowance: u64, now: Nanos) -> Window {
        Window {
            per_second,
            allowance,
            started: now,
            largest: 0,
            saved: 0,
            sum: 0,
            floor: 0,
            worst: 0,
        }
    }

    /// Books a payment of `amount`, to which savings may have added `saved`; answers the excess and what was allowed, in units, if the worst window is too full.
    pub(super) fn pay(&mut self, now: Nanos, amount: u64, saved: u64) -> Option<(i128, u64)> {
        let earned = i128::from(self.per_second) * i128::from(now - self.started);
        self.floor = self.floor.min(self.sum - earned);
        self.sum += i128::from(amount) * 1_000_000_000;
        self.largest = self.largest.max(amount);
        self.worst = self.worst.max(self.sum - earned - self.floor);
        self.saved = self.saved.max(saved);
        let allowed = self.allowance.saturating_add(self.largest).saturating_add(self.saved);
        // A nanosecond more: the first of a window may have gone a fraction of one late.
        let most = i128::from(allowed) * 1_000_000_000 + i128::from(self.per_second);
        let too_much = self.worst > most;
        too_much.then_some((self.worst / 1_000_000_000, allowed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_window_need_not_begin_at_the_first_dispatch() {
        // One a second, two at once allowed: three at ten seconds are too many, however long nothing went before.
        let mut window = Window::new(1, 1, 0);
        assert_eq!(window.pay(0, 1, 0), None);
        let late = 10_000_000_000;
        assert_eq!(window.pay(late, 1, 0), None);
        assert_eq!(window.pay(late, 1, 0), None);
        assert_eq!(window.pay(late, 1, 0), Some((3, 2)));
    }
}
