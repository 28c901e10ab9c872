//! Weight raising across merge and split.
//!
//! A shared queue's behaviour says nothing about any one member. So a queue's own state is saved at its first merge
//! and restored at its split (spec/bfq 7.6 and 7.7); the scheduler chooses what it is. Raising is the part of it that
//! may have ended meanwhile. Budget, timestamps, seek history and waker are not saved: they start anew.

use crate::types::Instant;

/// Factor, begin and duration of a queue's raised weight (spec/bfq 6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Raising {
    /// Factor of the weight: 1 for not raised, [`Raising::INTERACTIVE`] or [`Raising::SOFT_REAL_TIME`].
    pub wr_coeff: u16,
    /// Begin of the present period.
    pub since: Instant,
    /// Its duration, in nanoseconds.
    pub duration_ns: u64,
    /// Begin of the interactive period that a soft real-time one interrupted.
    pub interactive_since: Option<Instant>,
    /// Bytes served while raised.
    pub served_bytes: u64,
}

/// Parameters of weight raising at a split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resume {
    /// The setting `low_latency`.
    pub low_latency: bool,
    /// Duration of an interactive period on this device, in nanoseconds.
    pub interactive_ns: u64,
}

impl Raising {
    /// Factor of interactive queues, 30 in the kernel. Ten other queues have a quarter of the disk beside one of 30
    /// and half of that beside one of 60, which is what the kernel's get beside the start of several processes:
    /// docs/decisions/018.
    pub const INTERACTIVE: u16 = 60;
    /// Factor of soft real-time queues.
    pub const SOFT_REAL_TIME: u16 = 3000;

    /// Not raised, since `now`.
    pub const fn none(now: Instant) -> Raising {
        Raising {
            wr_coeff: 1,
            since: now,
            duration_ns: 0,
            interactive_since: None,
            served_bytes: 0,
        }
    }

    /// Raising of a queue that merges before its first request: interactive from `now` on.
    ///
    /// Without service yet; the kernel leaves that field unset (spec/bfq D-10).
    pub const fn newborn(now: Instant, interactive_ns: u64) -> Raising {
        Raising {
            wr_coeff: Raising::INTERACTIVE,
            duration_ns: interactive_ns,
            ..Raising::none(now)
        }
    }

    /// Whether the weight is raised.
    pub const fn is_raised(&self) -> bool {
        self.wr_coeff > 1
    }

    /// Moves raising from a queue that merges, unless `self` is raised.
    ///
    /// `from` is not raised afterwards. Bytes served are those of `self`'s own period.
    pub fn inherit(&mut self, from: &mut Raising) {
        if from.is_raised() && !self.is_raised() {
            *self = Raising { served_bytes: self.served_bytes, ..*from };
        }
        from.wr_coeff = 1;
    }

    /// What is left of raising at a split at `now`.
    ///
    /// A period that is over ends; a soft real-time one falls back to the interactive one it interrupted, if that
    /// goes on. In a large burst all raising ends.
    #[must_use]
    pub fn resume(self, now: Instant, in_large_burst: bool, resume: &Resume) -> Raising {
        let is_past = |since: Instant, nanos| now > since.plus_nanos(nanos);
        if !self.is_raised() {
            return self;
        }
        if !resume.low_latency {
            return Raising { wr_coeff: 1, ..self };
        }
        if !in_large_burst && !is_past(self.since, self.duration_ns) {
            return self;
        }
        match self.interactive_since {
            Some(since)
                if self.wr_coeff == Raising::SOFT_REAL_TIME
                    && !in_large_burst
                    && !is_past(since, resume.interactive_ns) =>
            {
                Raising {
                    wr_coeff: Raising::INTERACTIVE,
                    since,
                    duration_ns: resume.interactive_ns,
                    interactive_since: None,
                    ..self
                }
            }
            _ => Raising { wr_coeff: 1, ..self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const RESUME: Resume = Resume { low_latency: true, interactive_ns: 10 * SECOND };

    fn raised(wr_coeff: u16, since: u64, seconds: u64, interactive: Option<u64>) -> Raising {
        Raising {
            wr_coeff,
            since: Instant::from_millis(since * 1000),
            duration_ns: seconds * SECOND,
            interactive_since: interactive.map(|since| Instant::from_millis(since * 1000)),
            served_bytes: 4096,
        }
    }

    #[test]
    fn raising_goes_on_where_time_and_bursts_let_it() {
        let (interactive, soft) = (Raising::INTERACTIVE, Raising::SOFT_REAL_TIME);
        for (seconds, raising, burst, wr_coeff, since) in [
            (5, raised(1, 1, 0, None), false, 1, 1),
            (11, raised(interactive, 1, 10, None), false, interactive, 1),
            (12, raised(interactive, 1, 10, None), false, 1, 1),
            (5, raised(interactive, 1, 10, None), true, 1, 1),
            (4, raised(soft, 4, 1, Some(1)), false, soft, 4),
            (6, raised(soft, 4, 1, Some(1)), false, interactive, 1),
            (6, raised(soft, 4, 1, Some(1)), true, 1, 4),
            (12, raised(soft, 4, 1, Some(1)), false, 1, 4),
            (6, raised(soft, 4, 1, None), false, 1, 4),
        ] {
            let now = Instant::from_millis(seconds * 1000);
            let left = raising.resume(now, burst, &RESUME);
            let since = Instant::from_millis(since * 1000);
            assert_eq!((left.wr_coeff, left.since), (wr_coeff, since), "{seconds} s, {raising:?}");
            assert_eq!(left.served_bytes, 4096);
            let off = Resume { low_latency: false, ..RESUME };
            assert_eq!(raising.resume(now, burst, &off).wr_coeff, 1);
        }
    }

    #[test]
    fn raising_moves_to_a_target_that_has_none() {
        let mine = raised(Raising::INTERACTIVE, 1, 10, None);
        let mut target = Raising::none(Instant::ZERO);
        let mut from = mine;
        target.inherit(&mut from);
        assert_eq!(target, Raising { served_bytes: 0, ..mine });
        assert!(!from.is_raised());

        let own = raised(Raising::SOFT_REAL_TIME, 2, 1, Some(1));
        let (mut target, mut from) = (own, mine);
        target.inherit(&mut from);
        assert_eq!((target, from.is_raised()), (own, false));
    }

    #[test]
    fn a_newborn_has_been_served_nothing() {
        let raising = Raising::newborn(Instant::from_millis(3), 7 * SECOND);
        assert_eq!(
            (raising.wr_coeff, raising.served_bytes),
            (Raising::INTERACTIVE, 0),
            "spec/bfq D-10"
        );
        assert_eq!(raising.resume(Instant::from_millis(7003), false, &RESUME), raising);
    }
}
