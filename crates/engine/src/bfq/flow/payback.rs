//! Balance of idling for a flow: what it cost other flows, and what it gained.
//!
//! Idling is worth its time if the next request is near, or if the flow's share depends on it. It is not if the
//! request does not come, or takes less time than the idling. So idling is paid for: its length is taken from the
//! flow's balance if other flows had requests meanwhile, and what the flow does after its return is added. See
//! docs/decisions/033; not in docs/spec/bfq.md.

use crate::types::Instant;

const MS: u64 = 1_000_000;

/// Balance of a new flow: three times the default `slice_idle`.
const FIRST_NS: u64 = 24 * MS;
/// Largest balance. A starting application sometimes pauses for longer than the idling.
const MOST_NS: u64 = 200 * MS;
/// Pause before a flow with a negative balance is idled for once more; doubled each time, up to the next.
const PAUSE_NS: u64 = 1_000 * MS;
const PAUSE_MAX_NS: u64 = 16_000 * MS;

/// Account of a flow. Sixteen bytes, for flows that the device idled for while others had requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Payback {
    /// While the balance is negative: no idling for the flow before this.
    again: Instant,
    balance_ns: i32,
    /// Pauses in a row, for the length of the next.
    given_up: u32,
}

impl Payback {
    pub(crate) const NEW: Payback =
        Payback { again: Instant::ZERO, balance_ns: FIRST_NS as i32, given_up: 0 };

    /// Whether idling for the flow is worth its cost.
    #[inline]
    pub(crate) fn pays(&self, now: Instant) -> bool {
        self.balance_ns >= 0 || now >= self.again
    }

    /// Idling of `ns` has ended, while other flows had requests.
    pub(crate) fn cost(&mut self, now: Instant, ns: u64) {
        // After a pause, this idling alone decides.
        let before = self.balance_ns.max(if now >= self.again { 0 } else { i32::MIN });
        self.balance_ns = before.saturating_sub(i32::try_from(ns).unwrap_or(i32::MAX));
        if self.balance_ns < 0 && before >= 0 {
            let pause_ns = (PAUSE_NS << self.given_up.min(4)).min(PAUSE_MAX_NS);
            self.again = now.plus_nanos(pause_ns);
            self.given_up += 1;
        }
    }

    /// The flow has returned, and used the device for `ns` or saved as much.
    pub(crate) fn brought(&mut self, ns: u64) {
        let (ns, before) = (i32::try_from(ns).unwrap_or(i32::MAX), self.balance_ns);
        self.balance_ns = before.saturating_add(ns).min(MOST_NS as i32);
        if self.balance_ns == MOST_NS as i32 {
            self.given_up = 0;
        } else if before < 0 && self.balance_ns >= 0 {
            // That idling was worth it.
            self.given_up -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Idling of `wait_us` with a gain of `use_us`, each 10 ms for ten seconds. Returns how often the device idles in
    /// the first second, and after it.
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
    fn idling_that_gains_less_than_it_costs_ends_within_a_second() {
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
    fn a_flow_that_returns_is_idled_for_again() {
        let mut payback = Payback::NEW;
        (0..4).for_each(|_| payback.cost(Instant::ZERO, 8 * MS));
        assert!(!payback.pays(Instant::from_millis(999)));
        assert!(payback.pays(Instant::from_millis(1_000)));
        payback.cost(Instant::from_millis(1_008), 8 * MS);
        payback.brought(12 * MS);
        assert!(payback.pays(Instant::from_millis(1_009)));
        // In vain again: the pause is two seconds, then four, and sixteen at most.
        let mut ms = 2_000;
        for pause_ms in [2_000, 4_000, 8_000, 16_000, 16_000] {
            payback.cost(Instant::from_millis(ms), 20 * MS);
            assert!(!payback.pays(Instant::from_millis(ms + pause_ms - 1)), "{pause_ms} ms");
            ms += pause_ms;
            assert!(payback.pays(Instant::from_millis(ms)), "{pause_ms} ms");
        }
    }
}
