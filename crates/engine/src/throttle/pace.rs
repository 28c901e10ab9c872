//! The default limiter: even spacing after a burst, by one theoretical arrival time per kind and rate.

mod gcra;
mod peak;
#[cfg(test)]
pub(crate) mod properties;

pub(crate) use gcra::Gcra;
pub(crate) use peak::Peak;

use crate::limits::Resource;
use crate::throttle::limiter::{Arrival, Cost, Limiter, Rate, Rates, Verdict};
use crate::time::Instant;

/// GCRA on bytes and on I/Os; a request goes when both allow it.
///
/// What it answers does not depend on the size of the head, nor on when or how often it is asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    main: Pair,
    peak: Peak,
}

/// One GCRA for each kind that is limited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pair {
    bytes: Option<Gcra>,
    ios: Option<Gcra>,
}

impl Pace {
    /// A limiter with its full burst.
    pub(crate) fn new(now: Instant, rates: Rates) -> Pace {
        let mut pace = Pace::default();
        pace.set_rates(now, rates, false);
        pace
    }

    /// What [`Limiter::check`] answers about every head, if it is the same for all: only a remainder, which has paid
    /// its bytes, waits for I/Os alone, and that makes no difference where I/Os have to wait longer.
    pub(crate) fn check_any(&self, now: Instant) -> Option<Verdict> {
        let [main_bytes, main_ios] = self.main.both_ready_at();
        let [peak_bytes, peak_ios] = self.peak.both_ready_at();
        let (bytes, ios) = (main_bytes.max(peak_bytes), main_ios.max(peak_ios));
        if now >= bytes.max(ios) {
            Some(Verdict::Go)
        } else if ios > bytes {
            Some(Verdict::Wait { until: ios, because: Resource::Ios })
        } else {
            None
        }
    }

    /// What is left of the burst counted as `resource`; `None` where there is no such limit.
    pub(crate) fn credit(&self, now: Instant, resource: Resource) -> Option<u64> {
        let gcra = match resource {
            Resource::Bytes => &self.main.bytes,
            Resource::Ios => &self.main.ios,
        };
        gcra.as_ref().map(|gcra| gcra.credit(now))
    }
}

impl Pair {
    /// When a head conforms whatever it costs, bytes and I/Os apart.
    pub(super) fn both_ready_at(&self) -> [Instant; 2] {
        [&self.bytes, &self.ios].map(|gcra| gcra.as_ref().map_or(Instant::ZERO, Gcra::ready_at))
    }

    /// When a head of `cost` conforms and what it waits for. A cost of 0 waits for nothing: it is paid already.
    pub(super) fn ready_at(&self, cost: Cost) -> (Instant, Resource) {
        let of = |gcra: &Option<Gcra>, amount: u64| match gcra {
            Some(gcra) if amount > 0 => gcra.ready_at(),
            _ => Instant::ZERO,
        };
        let bytes = of(&self.bytes, cost.bytes);
        let ios = of(&self.ios, cost.ios);
        if ios > bytes { (ios, Resource::Ios) } else { (bytes, Resource::Bytes) }
    }

    pub(super) fn charge(&mut self, now: Instant, cost: Cost) {
        if let Some(gcra) = &mut self.bytes {
            gcra.charge(now, cost.bytes);
        }
        if let Some(gcra) = &mut self.ios {
            gcra.charge(now, cost.ios);
        }
    }

    pub(super) fn forgive(&mut self, now: Instant) {
        self.both().for_each(|gcra| gcra.forgive(now));
    }

    pub(super) fn shift(&mut self, before: Instant, after: Instant) {
        self.both().for_each(|gcra| gcra.shift(before, after));
    }

    fn both(&mut self) -> impl Iterator<Item = &mut Gcra> {
        self.bytes.iter_mut().chain(&mut self.ios)
    }

    pub(super) fn set_rates(&mut self, now: Instant, rates: &Rates) {
        set_rate(&mut self.bytes, now, rates.bps.as_ref(), Resource::Bytes);
        set_rate(&mut self.ios, now, rates.iops.as_ref(), Resource::Ios);
    }
}

fn set_rate(gcra: &mut Option<Gcra>, now: Instant, rate: Option<&Rate>, resource: Resource) {
    match (gcra.as_mut(), rate) {
        (Some(gcra), Some(rate)) => gcra.set_rate(now, rate, resource),
        (None, Some(rate)) => *gcra = Some(Gcra::new(now, rate, resource)),
        (_, None) => *gcra = None,
    }
}

impl Limiter for Pace {
    fn check(&mut self, now: Instant, cost: Cost, _arrival: Arrival) -> Verdict {
        let (until, because) = self.peak.later_of(self.main.ready_at(cost), cost);
        if now >= until { Verdict::Go } else { Verdict::Wait { until, because } }
    }

    fn charge(&mut self, now: Instant, cost: Cost) {
        self.main.charge(now, cost);
        self.peak.charge(now, cost);
    }

    /// Keeps what is owed and what is left of the burst, in bytes or I/Os; a limit that was not there before
    /// starts with its full burst.
    fn set_rates(&mut self, now: Instant, rates: Rates, _queued: bool) {
        self.main.set_rates(now, &rates);
        self.peak.set_rates(now, &rates);
    }

    fn forgive(&mut self, now: Instant) {
        self.main.forgive(now);
        self.peak.forgive(now);
    }

    fn shift(&mut self, before: Instant, after: Instant) {
        self.main.shift(before, after);
        self.peak.shift(before, after);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn ios(per_second: u64, burst: u64, peak: Option<u64>) -> Rates {
        let rate = Rate { per_second, burst, peak, quantum: 1 };
        Rates { bps: None, iops: Some(rate) }
    }

    const READ: Cost = Cost::whole(4096, 1);

    /// One client that waits for its request, thinks, and sends the next: when each was submitted and went, in ms.
    fn closed_loop(pace: &mut Pace, think_ms: u64, count: usize) -> Vec<(u64, u64)> {
        let mut now = Instant::ZERO;
        (0..count)
            .map(|_| {
                let submitted = now;
                if let Verdict::Wait { until, .. } = pace.check(now, READ, Arrival::Fresh) {
                    assert!(until > now);
                    now = until;
                    assert_eq!(pace.check(now, READ, Arrival::Queued), Verdict::Go);
                }
                pace.charge(now, READ);
                let went = (submitted.as_nanos() / 1_000_000, now.as_nanos() / 1_000_000);
                now = now.plus_nanos(think_ms * 1_000_000);
                went
            })
            .collect()
    }

    #[test]
    fn the_job_of_the_slice_fix_waits_six_milliseconds_each_time() {
        let mut pace = Pace::new(Instant::ZERO, ios(100, 1, None));
        assert_eq!(closed_loop(&mut pace, 4, 5), [(0, 0), (4, 10), (14, 20), (24, 30), (34, 40)]);
    }

    #[test]
    fn inside_a_burst_the_peak_rate_holds() {
        // Ten at once by the burst, but 200 a second by the peak, whose own burst is 4.
        let mut pace = Pace::new(Instant::ZERO, ios(10, 10, Some(200)));
        let went: Vec<u64> = closed_loop(&mut pace, 0, 12).iter().map(|pair| pair.1).collect();
        // From the eleventh on the rate alone counts: one in 100 ms.
        assert_eq!(went, [0, 0, 0, 0, 5, 10, 15, 20, 25, 30, 100, 200]);
    }

    #[test]
    fn the_longer_wait_wins_and_is_named() {
        let bps = Rate { per_second: 4096, burst: 4096, peak: None, quantum: 1 };
        let iops = Rate { per_second: 100, burst: 1, peak: None, quantum: 1 };
        let mut pace = Pace::new(Instant::ZERO, Rates { bps: Some(bps), iops: Some(iops) });
        pace.charge(Instant::ZERO, READ);
        assert_eq!(
            pace.check(Instant::ZERO, READ, Arrival::Queued),
            Verdict::Wait { until: Instant::from_millis(10), because: Resource::Ios }
        );
        pace.charge(Instant::ZERO, READ);
        assert_eq!(
            pace.check(Instant::ZERO, READ, Arrival::Queued),
            Verdict::Wait { until: Instant::from_millis(1000), because: Resource::Bytes }
        );
        // A remainder has paid its bytes.
        assert_eq!(
            pace.check(Instant::ZERO, Cost::whole(0, 1), Arrival::Queued),
            Verdict::Wait { until: Instant::from_millis(20), because: Resource::Ios }
        );
    }

    #[test]
    fn an_answer_about_every_head_is_the_answer_about_each() {
        let rate = |per_second, peak| Some(Rate { per_second, burst: 2, peak, quantum: 1 });
        let bps = [None, rate(4096, None), rate(4096, Some(8192)), rate(40_960, None)];
        let iops = [None, rate(1, None), rate(1, Some(3)), rate(10, Some(11))];
        let mut answers = [0; 2];
        for rates in bps.iter().flat_map(|&bps| iops.map(|iops| Rates { bps, iops })) {
            let mut pace = Pace::new(Instant::ZERO, rates);
            for ms in (0..4000).step_by(125) {
                let now = Instant::from_millis(ms);
                let any = pace.check_any(now);
                answers[usize::from(any.is_some())] += 1;
                for cost in [Cost::whole(4096, 1), Cost::whole(1, 1), Cost::whole(0, 1)] {
                    let verdict = pace.check(now, cost, Arrival::Queued);
                    assert!(any.is_none_or(|any| any == verdict), "{any:?} {verdict:?} {rates:?}");
                }
                if ms % 500 == 0 {
                    pace.charge(now, Cost::whole(4096, 1));
                }
            }
        }
        assert!(answers[0] > 50 && answers[1] > 200, "none and some: {answers:?}");
    }

    #[test]
    fn a_limit_taken_away_and_set_again_starts_afresh() {
        let mut pace = Pace::new(Instant::ZERO, ios(1, 1, Some(2)));
        pace.charge(Instant::ZERO, READ);
        assert_eq!(pace.credit(Instant::ZERO, Resource::Ios), Some(0));
        assert_eq!(pace.credit(Instant::ZERO, Resource::Bytes), None);
        pace.set_rates(Instant::ZERO, Rates::default(), true);
        assert_eq!(pace.check(Instant::ZERO, READ, Arrival::Queued), Verdict::Go);
        pace.set_rates(Instant::ZERO, ios(1, 1, None), true);
        assert_eq!(pace.check(Instant::ZERO, READ, Arrival::Queued), Verdict::Go);
    }
}
