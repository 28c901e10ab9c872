//! Mode `gate`: limits bind for a period if the device was used enough in the one before (spec/throttle 2.6).

use core::num::NonZeroU64;

use crate::types::Instant;

/// The switch, and the samples it goes by.
#[derive(Clone, Debug)]
pub(super) struct UtilisationSampler {
    percent: u8,
    period_ns: NonZeroU64,
    /// Where the sample began that is being taken.
    began: Instant,
    /// Time in it with a request at the device.
    busy_ns: u64,
    now: Instant,
    /// Whether limits do not bind in this period.
    open: bool,
    gate_epoch: GateEpoch,
}

/// A time at which limits ceased to bind: which one of the gate, and when. The first is 1; 0 is none yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct GateEpoch {
    pub(crate) number: u32,
    pub(crate) at: Instant,
}

impl UtilisationSampler {
    /// Nothing has been measured yet: the utilisation is 0, and limits do not bind.
    pub(super) fn new(now: Instant, percent: u8, period_ns: NonZeroU64) -> UtilisationSampler {
        let gate_epoch = GateEpoch::default();
        UtilisationSampler {
            percent,
            period_ns,
            began: now,
            busy_ns: 0,
            now,
            open: true,
            gate_epoch,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// When limits last ceased to bind.
    pub(super) fn gate_epoch(&self) -> GateEpoch {
        self.gate_epoch
    }

    /// When this sample ends.
    pub(super) fn ends(&self) -> Instant {
        self.began.plus_nanos(self.period_ns.get())
    }

    /// Time goes on to `now`, with or without a request at the device all the while. O(1).
    pub(super) fn advance(&mut self, now: Instant, busy: bool) {
        let period = self.period_ns.get();
        let whole = now.nanos_since(self.began) / period;
        if whole == 0 {
            self.busy_ns += if busy { now.nanos_since(self.now) } else { 0 };
            self.now = now;
            return;
        }
        let rest = if busy { self.ends().nanos_since(self.now) } else { 0 };
        self.decide(self.ends(), self.busy_ns + rest);
        if whole > 1 {
            // Whatever number of samples have passed since, they are alike.
            self.decide(self.ends().plus_nanos(period), if busy { period } else { 0 });
        }
        self.began = self.began.plus_nanos(whole * period);
        self.busy_ns = if busy { now.nanos_since(self.began) } else { 0 };
        self.now = now;
    }

    /// What a sample that ended at `at` says.
    fn decide(&mut self, at: Instant, busy_ns: u64) {
        let used = u128::from(busy_ns) * 100;
        let open = used < u128::from(self.period_ns.get()) * u128::from(self.percent);
        if open && !self.open {
            // After four billion it begins anew, at the number after none.
            let number = self.gate_epoch.number.checked_add(1).unwrap_or(1);
            self.gate_epoch = GateEpoch { number, at };
        }
        self.open = open;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn sampler() -> UtilisationSampler {
        let period = NonZeroU64::new(100_000_000).expect("not 0");
        UtilisationSampler::new(at(0), 90, period)
    }

    #[test]
    fn a_sample_decides_for_the_next_one() {
        let mut sampler = sampler();
        assert!(sampler.is_open());
        sampler.advance(at(10), false);
        sampler.advance(at(99), true);
        assert!(sampler.is_open(), "89 ms so far, and not over");
        sampler.advance(at(101), true);
        assert!(!sampler.is_open(), "90 of 100 ms");
        sampler.advance(at(190), true);
        sampler.advance(at(200), false);
        assert!(!sampler.is_open(), "again");
        sampler.advance(at(289), true);
        sampler.advance(at(300), false);
        assert!(sampler.is_open(), "89 of 100 ms");
        assert_eq!(sampler.gate_epoch(), GateEpoch { number: 1, at: at(300) });
        assert_eq!(sampler.ends(), at(400));
    }

    #[test]
    fn after_a_long_time_the_last_sample_counts() {
        for busy in [false, true] {
            let mut sampler = sampler();
            sampler.advance(at(950), busy);
            assert_eq!(sampler.is_open(), !busy);
            assert_eq!(sampler.gate_epoch().number, 0, "it never ceased to be open, or is shut");
            assert_eq!(sampler.ends(), at(1000));
            sampler.advance(Instant::FAR_FUTURE, !busy);
            assert_eq!(sampler.is_open(), busy);
        }
    }
}
