//! `latency_target`: search for the largest depth at which latencies stay within a target.

use weir_fio::{Job, LatencyTarget};

use super::nanos;
use crate::results::LatencyTargetResult;

/// Windows that must be kept at one depth before the next is tried (`latency_run`).
const ENOUGH: u32 = 3;

/// The search of one process, in fio's windows: a depth that is kept is doubled, or moved half-way to what was too
/// deep. After one that is too deep, all requests must end first.
#[derive(Debug)]
pub(super) struct Search {
    target: LatencyTarget,
    target_ns: u64,
    window_ns: u64,
    most: u32,
    depth: u32,
    /// The last depth that was kept; 0 before.
    kept: u32,
    /// The least that was too deep.
    too_deep: Option<u32>,
    /// Windows in a row in which this depth was kept.
    kept_for: u32,
    /// No deeper one is left to try: what follows is reported.
    is_last: bool,
    is_draining: bool,
    /// Start of the window, requests that ended in it, and those of them that took too long.
    from_ns: u64,
    ended: u64,
    late: u64,
    /// Requests that are reported.
    counted: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Go,
    /// The depth is found: requests before do not count.
    Count,
    /// It was kept for a whole window.
    Over,
    /// Even one at a time takes too long.
    Fail,
}

impl Search {
    /// None without a `latency_target`.
    pub(super) fn of(target: LatencyTarget, most: u32, now_ns: u64) -> Option<Box<Search>> {
        (!target.time.is_zero()).then(|| {
            Box::new(Search {
                target,
                target_ns: nanos(target.time),
                window_ns: nanos(target.window),
                most,
                depth: 1,
                kept: 0,
                too_deep: None,
                kept_for: 0,
                is_last: false,
                is_draining: false,
                from_ns: now_ns,
                ended: 0,
                late: 0,
                counted: 0,
            })
        })
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether all requests in flight must end before the next one.
    pub(super) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// All have ended: a window begins.
    pub(super) fn drained(&mut self, now_ns: u64) {
        self.is_draining = false;
        self.begin(now_ns);
    }

    fn begin(&mut self, now_ns: u64) {
        (self.from_ns, self.ended, self.late) = (now_ns, 0, 0);
    }

    /// A request has ended that took so long. O(1).
    pub(super) fn ended(&mut self, now_ns: u64, took_ns: u64) -> Verdict {
        let is_late = took_ns > self.target_ns;
        self.counted += u64::from(self.is_last);
        // If none may be late, requests that are still in flight count for the next depth, as in fio.
        if is_late && self.target.is_for_all() {
            if self.depth == 1 {
                return Verdict::Fail;
            }
            self.shallower();
            return Verdict::Go;
        }
        if self.is_draining {
            return Verdict::Go;
        }
        self.ended += 1;
        self.late += u64::from(is_late);
        if now_ns < self.from_ns.saturating_add(self.window_ns) {
            return Verdict::Go;
        }
        let is_kept =
            self.late as f64 <= self.ended as f64 * (1.0 - self.target.percentile / 100.0);
        self.begin(now_ns);
        if is_kept {
            return self.deeper();
        }
        if self.depth > 1 {
            self.shallower();
        }
        Verdict::Go
    }

    fn shallower(&mut self) {
        self.too_deep = Some(self.depth);
        self.kept = self.kept.min(self.depth - 1);
        self.depth = self.depth.midpoint(self.kept).max(1);
        self.kept_for = 0;
        self.is_draining = true;
    }

    fn deeper(&mut self) -> Verdict {
        self.kept = self.depth;
        self.kept_for += 1;
        if self.target.runs_on && self.kept_for >= ENOUGH && self.too_deep == Some(self.depth + 1) {
            self.too_deep = Some(self.depth + 2);
        }
        let next = match self.too_deep {
            None => self.depth.saturating_mul(2),
            Some(too_deep) => self.depth.midpoint(too_deep),
        };
        let next = next.min(self.most);
        if next != self.depth {
            (self.depth, self.kept_for) = (next, 0);
            return Verdict::Go;
        }
        match (self.target.runs_on, self.is_last) {
            (true, _) => Verdict::Go,
            (false, true) => Verdict::Over,
            (false, false) => {
                self.is_last = true;
                Verdict::Count
            }
        }
    }

    /// Whether it ended before anything counted.
    pub(super) fn has_nothing(&self) -> bool {
        self.is_last && self.counted == 0
    }

    pub(super) fn result(&self) -> LatencyTargetResult {
        LatencyTargetResult {
            target: self.target,
            depth: self.depth,
            is_sure: self.target.runs_on || self.is_last && self.kept_for > 0,
        }
    }
}

/// Why a job's `latency_target` is refused, if it is.
pub(super) fn refusal(job: &Job) -> Option<&'static str> {
    let LatencyTarget { time, window, .. } = job.options.latency_target;
    (!time.is_zero() && window.is_zero()).then_some(
        "latency_target needs a latency_window, such as latency_window=5s: how long each depth is tried",
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: u64 = 1_000_000;

    fn target(percentile: f64, runs_on: bool) -> LatencyTarget {
        let time = Duration::from_millis(100);
        LatencyTarget { time, window: Duration::from_secs(2), percentile, runs_on }
    }

    /// Depths tried, one a window, on a disk where so many requests keep the target, until the end of the search or a
    /// number of windows.
    fn depths(
        target: LatencyTarget,
        most: u32,
        windows: usize,
        fits: impl Fn(usize) -> u32,
    ) -> Vec<u32> {
        let mut search = Search::of(target, most, 0).unwrap();
        let mut tried = Vec::new();
        let mut now_ns = 0;
        while tried.len() < windows {
            tried.push(search.depth());
            let took_ns = if search.depth() <= fits(tried.len()) { 99 * MS } else { 101 * MS };
            now_ns += 2000 * MS;
            match search.ended(now_ns, took_ns) {
                Verdict::Go | Verdict::Count => {}
                Verdict::Over => break,
                Verdict::Fail => panic!("one may be late"),
            }
            if search.is_draining() {
                assert_eq!(
                    search.ended(now_ns, u64::MAX),
                    Verdict::Go,
                    "what comes back says nothing"
                );
                search.drained(now_ns);
            }
        }
        tried
    }

    /// fio 3.33 on a disk of 200 requests a second: 19 take 95 ms.
    #[test]
    fn depths_are_tried_as_in_fio() {
        let once = |most, fits| depths(target(90.0, false), most, 100, move |_| fits);
        assert_eq!(once(64, 19), [1, 2, 4, 8, 16, 32, 24, 20, 18, 19, 19]);
        assert_eq!(once(10, 19), [1, 2, 4, 8, 10, 10]);
        assert_eq!(once(1, 19), [1, 1]);
        assert_eq!(once(64, 1), [1, 2, 1, 1]);
        // Not even one: as in fio it goes on for as long as the job does.
        assert_eq!(once(64, 0), [1; 100]);
        let on = depths(target(90.0, true), 64, 22, |_| 19);
        assert_eq!(on[..10], [1, 2, 4, 8, 16, 32, 24, 20, 18, 19]);
        assert_eq!(on[10..], [19, 19, 20, 19, 19, 19, 20, 19, 19, 19, 20, 19]);
    }

    /// As in fio: one step a window after a disk that becomes slower, one in three after a faster one.
    #[test]
    fn a_search_that_runs_on_follows_the_disk() {
        let tried = depths(target(90.0, true), 64, 40, |window| match window {
            ..=10 => 19,
            11..=25 => 9,
            _ => 40,
        });
        assert_eq!(tried[10..20], [19, 18, 17, 16, 15, 14, 13, 12, 11, 10]);
        assert_eq!(tried[20..26], [9, 9, 9, 10, 9, 9]);
        assert_eq!(tried[26..34], [9, 10, 10, 10, 11, 11, 11, 12]);
    }

    #[test]
    fn one_late_request_at_depth_one_fails_a_target_for_all() {
        let mut search = Search::of(target(100.0, false), 64, 0).unwrap();
        assert_eq!(search.ended(2000 * MS, 100 * MS), Verdict::Go);
        assert_eq!(search.ended(4000 * MS, 100 * MS), Verdict::Go);
        assert_eq!(search.depth(), 4);
        // It waits neither for the end of the window nor for requests in flight.
        assert_eq!((search.ended(4001 * MS, 101 * MS), search.depth()), (Verdict::Go, 3));
        assert!(search.is_draining());
        assert_eq!((search.ended(4002 * MS, 101 * MS), search.depth()), (Verdict::Go, 2));
        assert_eq!((search.ended(4003 * MS, 101 * MS), search.depth()), (Verdict::Go, 1));
        assert_eq!(search.ended(4004 * MS, 101 * MS), Verdict::Fail);
    }
}
