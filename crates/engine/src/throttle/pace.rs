//! The default limiter: even spacing after a burst, by one theoretical arrival time per kind and rate.

mod gcra;
#[cfg(test)]
pub(crate) mod properties;

pub(crate) use gcra::Gcra;

use alloc::boxed::Box;
use core::mem::offset_of;
use core::num::NonZeroU64;

use crate::throttle::limiter::{Arrival, Limiter, Rate, Rates, Verdict};
use crate::types::{Cost, Instant, Limits, Resource, earned_in};

/// GCRA on bytes and on I/Os; a request goes when both allow it.
///
/// What it answers does not depend on the size of the head, nor on when or how often it is asked.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Pace {
    peak: Peak,
    main: Pair,
}

/// One GCRA for each kind that is limited.
///
/// In this order, because with many limits the time goes into fetching them from memory: that of the only kind that is
/// limited, or of I/Os where both are, is all that a request needs of most.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Pair {
    one: Gcra,
    limited: Limited,
    /// That of bytes where both are limited.
    other: Gcra,
    /// Of bytes and of I/Os.
    bursts: [u64; 2],
}

/// What is limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Limited {
    Nothing,
    Bytes,
    Ios,
    Both,
}

impl Pace {
    /// So many bytes from its beginning on are all that a request needs of a limit on one kind without a peak.
    pub(crate) const HOT: usize = offset_of!(Pace, main) + offset_of!(Pair, other);
}

impl Pace {
    /// A limiter with its full burst.
    pub(crate) fn new(now: Instant, rates: Rates) -> Pace {
        let mut pace = Pace::default();
        pace.set_rates(now, rates, false);
        pace
    }

    /// When any head conforms that pays I/Os, where these alone are limited, and have no peak.
    #[inline]
    pub(crate) fn sole_ready_at(&self) -> Option<Instant> {
        let is_sole = self.main.limited == Limited::Ios && self.peak.is_none();
        is_sole.then(|| self.main.one.ready_at())
    }

    /// What [`Limiter::check`] answers about every head that pays I/Os, if it is the same for all: only a remainder, which
    /// has paid its bytes, waits for I/Os alone, and that makes no difference where I/Os have to wait longer.
    pub(crate) fn check_any(&self, now: Instant) -> Option<Verdict> {
        let [main_bytes, main_ios] = self.main.both_ready_at();
        let [peak_bytes, peak_ios] = self.peak.both_ready_at();
        let (bytes, ios) = (main_bytes.max(peak_bytes), main_ios.max(peak_ios));
        if now >= bytes.max(ios) {
            Some(Verdict::Go)
        } else if ios > bytes {
            Some(Verdict::Wait { until: ios, throttled_by: Resource::Ios })
        } else {
            None
        }
    }

    /// Whether a peak spaces what is in a burst.
    pub(crate) fn has_peak(&self) -> bool {
        !self.peak.is_none()
    }

    /// The bursts of bytes and of I/Os; 0 where there is no such limit.
    pub(crate) fn bursts(&self) -> [u64; 2] {
        self.main.bursts
    }

    /// What is left of the burst counted as `resource`; `None` where there is no such limit.
    pub(crate) fn credit(&self, now: Instant, resource: Resource) -> Option<u64> {
        let [bytes, ios] = self.main.both();
        let (gcra, burst) = match resource {
            Resource::Bytes => (bytes, self.main.bursts[0]),
            Resource::Ios => (ios, self.main.bursts[1]),
        };
        gcra.map(|gcra| gcra.credit(now, burst))
    }
}

impl Default for Pair {
    fn default() -> Pair {
        Pair { one: Gcra::NONE, limited: Limited::Nothing, other: Gcra::NONE, bursts: [0; 2] }
    }
}

impl Pair {
    /// Those of bytes and of I/Os.
    fn both(&self) -> [Option<&Gcra>; 2] {
        match self.limited {
            Limited::Nothing => [None, None],
            Limited::Bytes => [Some(&self.one), None],
            Limited::Ios => [None, Some(&self.one)],
            Limited::Both => [Some(&self.other), Some(&self.one)],
        }
    }

    fn both_mut(&mut self) -> [Option<&mut Gcra>; 2] {
        match self.limited {
            Limited::Nothing => [None, None],
            Limited::Bytes => [Some(&mut self.one), None],
            Limited::Ios => [None, Some(&mut self.one)],
            Limited::Both => [Some(&mut self.other), Some(&mut self.one)],
        }
    }

    /// When a head conforms whatever it costs, bytes and I/Os apart.
    pub(super) fn both_ready_at(&self) -> [Instant; 2] {
        self.both().map(|gcra| gcra.map_or(Instant::ZERO, Gcra::ready_at))
    }

    /// When a head of `cost` conforms and what it waits for. A cost of 0 waits for nothing: it is paid already.
    pub(super) fn ready_at(&self, cost: Cost) -> (Instant, Resource) {
        let of = |gcra: Option<&Gcra>, amount: u64| match gcra {
            Some(gcra) if amount > 0 => gcra.ready_at(),
            _ => Instant::ZERO,
        };
        let [bytes, ios] = self.both();
        let (bytes, ios) = (of(bytes, cost.bytes), of(ios, cost.ios));
        if ios > bytes { (ios, Resource::Ios) } else { (bytes, Resource::Bytes) }
    }

    #[inline]
    pub(super) fn charge(&mut self, now: Instant, cost: Cost) {
        match self.limited {
            Limited::Nothing => {}
            Limited::Bytes => self.one.charge(now, cost.bytes),
            Limited::Ios => self.one.charge(now, cost.ios),
            Limited::Both => {
                self.one.charge(now, cost.ios);
                self.other.charge(now, cost.bytes);
            }
        }
    }

    /// Books an instalment of what was `owed`, which may use what was not used before.
    fn charge_instalment(&mut self, now: Instant, cost: Cost, owed: Cost) {
        let bursts = self.bursts;
        let parts = [(cost.bytes, owed.bytes), (cost.ios, owed.ios)];
        for ((gcra, burst), (amount, owed)) in self.both_mut().into_iter().zip(bursts).zip(parts) {
            if let Some(gcra) = gcra.filter(|_| amount > 0) {
                let savings_ns = Limits::INSTALMENT_SAVINGS_NANOS;
                gcra.charge_instalment(now, amount, owed, savings_ns, burst);
            }
        }
    }

    pub(super) fn forgive(&mut self, now: Instant) {
        let bursts = self.bursts;
        for (gcra, burst) in self.both_mut().into_iter().zip(bursts) {
            if let Some(gcra) = gcra {
                gcra.forgive(now, burst);
            }
        }
    }

    pub(super) fn shift(&mut self, before: Instant, after: Instant) {
        self.both_mut().into_iter().flatten().for_each(|gcra| gcra.shift(before, after));
    }

    pub(super) fn set_rates(&mut self, now: Instant, rates: &Rates) {
        let [mut bytes, mut ios] = self.both().map(Option::<&Gcra>::copied);
        set_rate(&mut bytes, now, rates.bps.as_ref(), Resource::Bytes);
        set_rate(&mut ios, now, rates.iops.as_ref(), Resource::Ios);
        let limited = match (bytes, ios) {
            (None, None) => Limited::Nothing,
            (Some(_), None) => Limited::Bytes,
            (None, Some(_)) => Limited::Ios,
            (Some(_), Some(_)) => Limited::Both,
        };
        *self = Pair {
            one: ios.or(bytes).unwrap_or(Gcra::NONE),
            limited,
            other: bytes.unwrap_or(Gcra::NONE),
            bursts: [rates.bps, rates.iops].map(|rate| rate.map_or(0, |rate| rate.burst)),
        };
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
    #[inline]
    fn per_second(&self) -> [Option<NonZeroU64>; 2] {
        self.main.both().map(|gcra| gcra.map(Gcra::per_second))
    }

    fn check(&mut self, now: Instant, cost: Cost, _arrival: Arrival) -> Verdict {
        let (until, throttled_by) = self.peak.later_of(self.main.ready_at(cost), cost);
        if now >= until { Verdict::Go } else { Verdict::Wait { until, throttled_by } }
    }

    fn charge(&mut self, now: Instant, cost: Cost) {
        self.main.charge(now, cost);
        self.peak.charge(now, cost);
    }

    fn charge_instalment(&mut self, now: Instant, cost: Cost, owed: Cost) {
        self.main.charge_instalment(now, cost, owed);
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

/// Spaces the requests of a burst evenly, after the one instalment that goes at once at any rate.
///
/// Empty for most cgroups, and small then: an idle cgroup should cost little.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peak(Option<Box<Pair>>);

impl Peak {
    /// Whether there is none.
    pub(in crate::throttle) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// When a head conforms whatever it costs, bytes and I/Os apart; the past without a peak.
    pub(super) fn both_ready_at(&self) -> [Instant; 2] {
        self.0.as_ref().map_or([Instant::ZERO; 2], |pair| pair.both_ready_at())
    }

    /// `other`, or when a head of `cost` conforms to the peak if that is later.
    pub(crate) fn later_of(&self, other: (Instant, Resource), cost: Cost) -> (Instant, Resource) {
        match &self.0 {
            Some(pair) => {
                let own = pair.ready_at(cost);
                if own.0 > other.0 { own } else { other }
            }
            None => other,
        }
    }

    /// Books `cost` as gone at `now`.
    pub(crate) fn charge(&mut self, now: Instant, cost: Cost) {
        if let Some(pair) = &mut self.0 {
            pair.charge(now, cost);
        }
    }

    /// Forgives what is owed beyond one burst.
    pub(crate) fn forgive(&mut self, now: Instant) {
        if let Some(pair) = &mut self.0 {
            pair.forgive(now);
        }
    }

    /// Goes by another clock, which shows `after` when the old one shows `before`.
    pub(crate) fn shift(&mut self, before: Instant, after: Instant) {
        if let Some(pair) = &mut self.0 {
            pair.shift(before, after);
        }
    }

    /// Takes the peaks out of `rates`, keeping what is owed.
    pub(crate) fn set_rates(&mut self, now: Instant, rates: &Rates) {
        let peaks = Rates {
            bps: peak_of(rates.bps, Resource::Bytes),
            iops: peak_of(rates.iops, Resource::Ios),
        };
        if peaks.is_unlimited() {
            self.0 = None;
        } else {
            self.0.get_or_insert_default().set_rates(now, &peaks);
        }
    }
}

/// The peak rate with a burst of one instalment, and of what makes good for timers that come late.
fn peak_of(rate: Option<Rate>, resource: Resource) -> Option<Rate> {
    let rate = rate?;
    let per_second = rate.peak?;
    let instalment = Limits::instalment(resource, per_second, u64::MAX, rate.quantum);
    let lateness = earned_in(per_second, Limits::INSTALMENT_NANOS);
    let burst = instalment.saturating_add(lateness);
    Some(Rate { per_second, burst, peak: None, quantum: rate.quantum })
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
        // Ten at once by the burst, but 200 a second by the peak, which lets one go 5 ms early.
        let mut pace = Pace::new(Instant::ZERO, ios(10, 10, Some(200)));
        let went: Vec<u64> = closed_loop(&mut pace, 0, 12).iter().map(|pair| pair.1).collect();
        // From the eleventh on the rate alone counts: one in 100 ms.
        assert_eq!(went, [0, 0, 5, 10, 15, 20, 25, 30, 35, 40, 100, 200]);
    }

    #[test]
    fn the_longer_wait_wins_and_is_named() {
        let bps = Rate { per_second: 4096, burst: 8192, peak: None, quantum: 1 };
        let iops = Rate { per_second: 100, burst: 1, peak: None, quantum: 1 };
        let mut pace = Pace::new(Instant::ZERO, Rates { bps: Some(bps), iops: Some(iops) });
        pace.charge(Instant::ZERO, READ);
        assert_eq!(
            pace.check(Instant::ZERO, READ, Arrival::Queued),
            Verdict::Wait { until: Instant::from_millis(10), throttled_by: Resource::Ios }
        );
        pace.charge(Instant::ZERO, READ);
        assert_eq!(
            pace.check(Instant::ZERO, READ, Arrival::Queued),
            Verdict::Wait { until: Instant::from_millis(1000), throttled_by: Resource::Bytes }
        );
        // A remainder has paid its bytes.
        assert_eq!(
            pace.check(Instant::ZERO, Cost::whole(0, 1), Arrival::Queued),
            Verdict::Wait { until: Instant::from_millis(20), throttled_by: Resource::Ios }
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
