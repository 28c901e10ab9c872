//! Think time of a flow, and whether it is I/O-bound (`bfq_ttime`; spec/bfq 5.4, 5.6).

use crate::types::Instant;

const MS: u64 = 1_000_000;

/// A sample moves the mean by an eighth. Sums are scaled by this to keep small samples.
const SCALE: u64 = 256;
/// Weight above which the mean is valid: from the third sample on.
const SAMPLES_VALID: u8 = 80;
/// Longest window for the idle part.
const WINDOW_NS: u64 = 200 * MS;
/// A flow with a flush among so many requests waits for its writes.
const FLUSHES_WITHIN: u8 = 64;
/// A flow that is idle for more than one part of so many is not I/O-bound.
const IDLE_PARTS: u64 = 5;

/// Think time, idle part and flushes of one flow: 28 bytes, since there may be a million. A step is O(1).
///
/// Think time is the time from the last completion to the next request of an empty flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, packed(4))]
pub(crate) struct ThinkTime {
    /// Weighted sum of think times in nanoseconds, times [`SCALE`].
    think_sum: u64,
    /// Begin of the window of `idle_ns`.
    window_since: Instant,
    /// Time without requests in the window.
    idle_ns: u64,
    /// Weighted number of think times, times [`SCALE`]; at most 249.
    think_samples: u8,
    is_short: bool,
    is_io_bound: bool,
    /// Requests since the last flush, at most [`FLUSHES_WITHIN`].
    since_flush: u8,
}

impl ThinkTime {
    /// For a flow created at `now`: taken to think briefly and to be I/O-bound.
    pub(crate) const fn new(now: Instant) -> ThinkTime {
        ThinkTime {
            think_sum: 0,
            window_since: now,
            idle_ns: 0,
            think_samples: 0,
            is_short: true,
            is_io_bound: true,
            since_flush: FLUSHES_WITHIN,
        }
    }

    /// Notes a request, which may be a flush.
    #[inline]
    pub(crate) fn note_request(&mut self, is_flush: bool) {
        let since = if is_flush { 0 } else { self.since_flush + 1 };
        self.since_flush = since.min(FLUSHES_WITHIN);
    }

    /// Whether a recent request was a flush.
    pub(crate) fn flushes(&self) -> bool {
        self.since_flush < FLUSHES_WITHIN
    }

    /// Whether mean think time is short enough for idling.
    pub(crate) fn thinks_briefly(&self) -> bool {
        self.is_short
    }

    /// Whether it is idle for at most a fifth of the time.
    pub(crate) fn is_io_bound(&self) -> bool {
        self.is_io_bound
    }

    /// Another flow merges into this one, which is I/O-bound if one of them is; the other starts anew (spec/bfq 7.6).
    pub(crate) fn inherit(&mut self, from: &mut ThinkTime) {
        self.is_io_bound |= core::mem::take(&mut from.is_io_bound);
    }

    /// Mean think time in nanoseconds, from the third sample on.
    #[cfg(test)]
    fn think_ns(&self) -> Option<u64> {
        let samples = u64::from(self.think_samples);
        (self.think_samples > SAMPLES_VALID).then(|| (self.think_sum + SCALE / 2) / samples)
    }

    /// Whether the mean is valid and longer than `ns`. Without a division, since each request asks.
    fn thinks_longer_than(&self, ns: u64) -> bool {
        let samples = u128::from(self.think_samples);
        self.think_samples > SAMPLES_VALID
            && u128::from(self.think_sum + SCALE / 2) >= (u128::from(ns) + 1) * samples
    }

    /// Adds the time since `last_end`, the last completion or the creation, when a request comes to an empty flow
    /// that is not in service. At most two idlings.
    pub(crate) fn add_sample(&mut self, now: Instant, last_end: Instant, slice_idle_ns: u64) {
        let longest_ns = slice_idle_ns.saturating_mul(2).min(u64::MAX / (8 * SCALE));
        let think_ns = now.nanos_since(last_end).min(longest_ns);
        // The sum is at most SCALE times the longest sample. A longer setting of before fades out.
        self.think_sum = self.think_sum.saturating_mul(7).saturating_add(SCALE * think_ns) / 8;
        // At most 249, where 7/8 of it and 32 are 249 again.
        self.think_samples = ((u64::from(self.think_samples) * 7 + SCALE) / 8) as u8;
    }

    /// Updates whether the flow thinks briefly; not if `has_process` is false. Returns a changed answer.
    ///
    /// Not for asynchronous flows, those of the idle class, without idling, nor for 2 s after a split.
    pub(crate) fn update_is_short(
        &mut self,
        slice_idle_ns: u64,
        has_process: bool,
    ) -> Option<bool> {
        let is_long = self.thinks_longer_than(slice_idle_ns / 2);
        let is_short = has_process && !is_long;
        let flips = is_short != self.is_short;
        self.is_short = is_short;
        flips.then_some(is_short)
    }

    /// Notes a request. `idle_since`: since when the flow has been empty. `is_new`: the flow is not judged yet.
    pub(crate) fn arrived(&mut self, now: Instant, idle_since: Option<Instant>, is_new: bool) {
        if let Some(since) = idle_since {
            self.idle_ns = self.idle_ns.saturating_add(now.nanos_since(since));
        }
        if is_new {
            return;
        }
        let window_ns = now.nanos_since(self.window_since);
        self.is_io_bound = self.idle_ns.saturating_mul(IDLE_PARTS) <= window_ns;
        if window_ns > WINDOW_NS {
            self.window_since = now.minus_nanos(window_ns / 2);
            self.idle_ns /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLICE_IDLE_NS: u64 = 8 * MS;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn think_time_takes_28_bytes() {
        assert_eq!(size_of::<ThinkTime>(), 28);
    }

    #[test]
    fn ex_14_three_samples_make_a_mean() {
        let mut think_time = ThinkTime::new(at(0));
        for samples in [32, 60, 84] {
            assert_eq!(think_time.think_ns(), None);
            think_time.add_sample(at(1), at(0), SLICE_IDLE_NS);
            assert_eq!(think_time.think_samples, samples);
            assert_eq!(think_time.update_is_short(SLICE_IDLE_NS, true), None, "short, as it was");
        }
        let mean = think_time.think_ns().expect("three samples");
        assert_eq!(mean / 1000, 1005, "1.006 ms, about");
        // One of 16 ms or more.
        think_time.add_sample(at(1000), at(0), SLICE_IDLE_NS);
        let mean = think_time.think_ns().expect("four samples");
        assert_eq!(mean / 10_000, 558, "5.58 ms");
        assert_eq!(think_time.update_is_short(SLICE_IDLE_NS, true), Some(false));
        assert_eq!(think_time.update_is_short(SLICE_IDLE_NS, true), None, "it is known by now");
        assert!(!think_time.thinks_briefly());
    }

    #[test]
    fn a_flow_without_process_thinks_long() {
        let mut think_time = ThinkTime::new(at(0));
        assert_eq!(think_time.update_is_short(SLICE_IDLE_NS, false), Some(false));
        assert_eq!(think_time.update_is_short(SLICE_IDLE_NS, true), Some(true));
    }

    #[test]
    fn four_milliseconds_are_still_brief() {
        // The number of samples ends at 249 of 256, so that a mean is up to 2.9 % too long, as in the kernel.
        for (think_ns, is_short) in [(3_880_000, true), (3_900_000, false)] {
            let mut think_time = ThinkTime::new(at(0));
            for _ in 0..100 {
                think_time.add_sample(at(100).plus_nanos(think_ns), at(100), SLICE_IDLE_NS);
                think_time.update_is_short(SLICE_IDLE_NS, true);
            }
            assert_eq!(think_time.thinks_briefly(), is_short, "{think_ns} ns");
        }
    }

    #[test]
    fn a_fifth_of_the_time_may_be_idle() {
        // Each request is 8 ms in the device, and comes that long after the last was back.
        for (think_us, is_bound) in [(0, true), (2000, true), (2100, false), (20_000, false)] {
            let (mut think_time, mut now) = (ThinkTime::new(at(0)), at(0));
            think_time.arrived(now, Some(now), true);
            for _ in 0..200 {
                let last_end = now.plus_nanos(8 * MS);
                now = last_end.plus_nanos(think_us * 1000);
                think_time.arrived(now, Some(last_end), false);
            }
            assert_eq!(think_time.is_io_bound(), is_bound, "{think_us} us");
        }
    }

    #[test]
    fn a_window_forgets_half_of_itself() {
        let mut think_time = ThinkTime::new(at(0));
        // 100 ms without a request are half of 200 ms, and of 201 ms.
        think_time.arrived(at(200), Some(at(100)), false);
        assert!(!think_time.is_io_bound());
        assert_eq!((think_time.window_since, think_time.idle_ns), (at(0), 100 * MS));
        think_time.arrived(at(202), None, false);
        assert_eq!((think_time.window_since, think_time.idle_ns), (at(101), 50 * MS));
        // Without another break: 50 ms are a fifth of 250 ms.
        think_time.arrived(at(301), None, false);
        assert_eq!((think_time.window_since, think_time.idle_ns), (at(101), 50 * MS));
        assert!(!think_time.is_io_bound());
        think_time.arrived(at(351), None, false);
        assert!(think_time.is_io_bound());
    }

    #[test]
    fn a_new_flow_is_not_judged() {
        let mut think_time = ThinkTime::new(at(0));
        think_time.arrived(at(1000), Some(at(0)), true);
        assert!(think_time.is_io_bound());
        think_time.arrived(at(1001), None, false);
        assert!(!think_time.is_io_bound());
    }

    proptest! {
        /// The mean is one of what was seen, whatever the setting and the instants, and nothing overflows.
        #[test]
        fn a_mean_is_within_its_samples(
            times in prop::collection::vec((any::<u64>(), any::<u64>()), 3..60),
            shift in 0..64_u32,
            slice_idle_ns in prop_oneof![Just(SLICE_IDLE_NS), any::<u64>()],
        ) {
            let mut think_time = ThinkTime::new(at(0));
            let longest = slice_idle_ns.saturating_mul(2);
            let (mut least, mut most) = (u64::MAX, 0);
            for (now, last_end) in times {
                let [now, last_end] = [now, last_end].map(|at| Instant::from_nanos(at >> shift));
                let think_ns = now.nanos_since(last_end).min(longest);
                (least, most) = (least.min(think_ns), most.max(think_ns));
                think_time.add_sample(now, last_end, slice_idle_ns);
                think_time.update_is_short(slice_idle_ns, true);
                think_time.arrived(now, Some(last_end), false);
                if let Some(mean) = think_time.think_ns() {
                    let around = [mean.saturating_sub(1), mean, mean + 1];
                    let is_longer = around.map(|ns| think_time.thinks_longer_than(ns));
                    prop_assert_eq!(is_longer, [mean > 0, false, false]);
                }
            }
            let mean = u128::from(think_time.think_ns().expect("three samples"));
            // The number of samples is rounded down, by less than one part in 32; the sum by less than one in 80.
            let (least, most) = (u128::from(least.min(u64::MAX / 2048)), u128::from(most));
            prop_assert!(mean + 1 >= least - least / 80 && mean <= most + most / 32 + 2, "{mean}");
        }
    }
}
