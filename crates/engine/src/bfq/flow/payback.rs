//! Balance of waiting for a flow: what it cost others, and what it brought.
//!
//! The device is kept free for a flow because its next request is near, or because its share would go to others. Neither
//! holds if the request does not come, or is over in less time than the wait for it took. So waiting is paid for: each
//! wait takes its length from the flow's balance if others had requests meanwhile, and each return adds what it brought.
//! Not in docs/spec/bfq.md: see docs/decisions/033.

use crate::time::Instant;

const MS: u64 = 1_000_000;

/// What a new flow may cost before it has brought anything: three times `slice_idle` as it is by default.
const FIRST_NS: u64 = 24 * MS;
/// The most that is kept. An application that starts pauses now and then for longer than it is waited for.
const MOST_NS: u64 = 200 * MS;
/// Pause after which a flow that does not pay is waited for once more; twice as long each time, up to the next.
const PAUSE_NS: u64 = 1_000 * MS;
const PAUSE_MAX_NS: u64 = 16_000 * MS;

/// A flow's account. Sixteen bytes, of those flows only that have been waited for while others had requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Payback {
    /// While the balance is overdrawn: the flow is not waited for before this.
    again: Instant,
    balance_ns: i32,
    /// How often in a row it was given up, for the next pause.
    given_up: u32,
}

impl Payback {
    pub(crate) const NEW: Payback =
        Payback { again: Instant::ZERO, balance_ns: FIRST_NS as i32, given_up: 0 };

    /// Whether the flow is to be waited for.
    #[inline]
    pub(crate) fn pays(&self, now: Instant) -> bool {
        self.balance_ns >= 0 || now >= self.again
    }

    /// A wait has ended that lasted `ns`, while others had requests.
    pub(crate) fn cost(&mut self, now: Instant, ns: u64) {
        // Once more after a pause, it is judged by that wait alone.
        let before = self.balance_ns.max(if now >= self.again { 0 } else { i32::MIN });
        self.balance_ns = before.saturating_sub(i32::try_from(ns).unwrap_or(i32::MAX));
        if self.balance_ns < 0 && before >= 0 {
            let pause_ns = (PAUSE_NS << self.given_up.min(4)).min(PAUSE_MAX_NS);
            self.again = now.plus_nanos(pause_ns);
            self.given_up += 1;
        }
    }

    /// A flow that was waited for has returned, and has used the device for `ns`, or saved it as much.
    pub(crate) fn brought(&mut self, ns: u64) {
        let (ns, before) = (i32::try_from(ns).unwrap_or(i32::MAX), self.balance_ns);
        self.balance_ns = before.saturating_add(ns).min(MOST_NS as i32);
        if self.balance_ns == MOST_NS as i32 {
            self.given_up = 0;
        } else if before < 0 && self.balance_ns >= 0 {
            // It was worth it after all.
            self.given_up -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits that take `wait_us` and bring `use_us`, 10 ms apart for ten seconds. How often the flow is waited for in the
    /// first second, and in the others.
    fn waits(wait_us: u64, use_us: u64) -> [u32; 2] {
        let (mut payback, mut waits) = (Payback::NEW, [0; 2]);
        for ms in (0..10_000).step_by(10) {
            let now = Instant::from_millis(ms);
            if payback.pays(now) {
                payback.cost(now, wait_us * 1_000);
                payback.brought(use_us * 1_000);
                waits[usize::from(ms >= 1_000)] += 1;
            }
        }
        waits
    }

    #[test]
    fn waiting_that_brings_less_than_it_costs_is_given_up_within_a_second() {
        for (wait_us, use_us, is_kept) in [
            (100, 100, true),
            (100, 90, true),
            (8_000, 12_000, true),
            (8_000, 0, false),
            (900, 100, false),
        ] {
            let [first, others] = waits(wait_us, use_us);
            if is_kept {
                assert_eq!([first, others], [100, 900], "{wait_us} us for {use_us} us");
            } else {
                assert!(
                    first <= 40 && others <= 10,
                    "{wait_us} us for {use_us} us: {first}, {others}"
                );
            }
        }
    }

    #[test]
    fn a_flow_that_begins_to_return_is_waited_for_again() {
        let mut payback = Payback::NEW;
        (0..4).for_each(|_| payback.cost(Instant::ZERO, 8 * MS));
        assert!(!payback.pays(Instant::from_millis(999)));
        assert!(payback.pays(Instant::from_millis(1_000)));
        payback.cost(Instant::from_millis(1_008), 8 * MS);
        payback.brought(12 * MS);
        assert!(payback.pays(Instant::from_millis(1_009)));
        // In vain again: two seconds, then four, and sixteen at most.
        let mut ms = 2_000;
        for pause_ms in [2_000, 4_000, 8_000, 16_000, 16_000] {
            payback.cost(Instant::from_millis(ms), 20 * MS);
            assert!(!payback.pays(Instant::from_millis(ms + pause_ms - 1)), "{pause_ms} ms");
            ms += pause_ms;
            assert!(payback.pays(Instant::from_millis(ms)), "{pause_ms} ms");
        }
    }
}
