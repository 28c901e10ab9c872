//! `busy`: the share of time with a request at the device.

use super::sliding::{Share, Sliding};
use crate::types::Instant;

/// Adds up the time with at least one request at the device, as io-throttle's kernel did and `iostat`'s `%util` does
/// (spec/throttle 2.6).
///
/// It tells the truth about a device that does one thing at a time. One that serves many requests at once is busy with
/// the first of them.
#[derive(Clone, Debug)]
pub(crate) struct Busy {
    now: Instant,
    busy_ns: u64,
    sliding: Sliding,
}

impl Busy {
    pub(crate) fn new(now: Instant) -> Busy {
        Busy { now, busy_ns: 0, sliding: Sliding::new(now, 0) }
    }

    /// Time goes on to `now`, with or without a request at the device all the while. O(1).
    pub(crate) fn advance(&mut self, now: Instant, busy: bool) {
        let (from, before) = (self.now, self.busy_ns);
        let sum_at = |at: Instant| before + if busy { at.nanos_since(from) } else { 0 };
        self.sliding.advance(now, sum_at);
        self.busy_ns = sum_at(now);
        self.now = now;
    }

    /// The share of the last half second, of the time since the start before that has passed.
    pub(crate) fn share(&self) -> Share {
        self.sliding.grown(self.now, self.busy_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_works_nine_of_ten_milliseconds_is_ninety_percent_busy() {
        let mut busy = Busy::new(Instant::ZERO);
        assert_eq!(busy.share(), Share::default());
        for ms in 0..2000 {
            busy.advance(Instant::from_millis(ms + 1), ms % 10 != 0);
            let share = busy.share().millionths();
            assert!(ms < 600 || (895_000..=905_000).contains(&share), "{share} at {ms}");
        }
        busy.advance(Instant::from_millis(2500), false);
        assert_eq!(busy.share().part_ns, 0);
        busy.advance(Instant::from_millis(2750), true);
        let share = busy.share();
        assert_eq!((share.part_ns, share.whole_ns), (250_000_000, 468_750_000));
    }
}
