//! Meter of a load's settled rate.

/// Least number of windows of a step; half of them are counted.
const WINDOWS_MIN: usize = 8;

/// Longest step, in multiples of the shortest one; it ends then even if it has not settled.
const PATIENCE: u64 = 16;

/// Least number of requests of a window.
const WINDOW_REQUESTS: u64 = 4;

/// Longest step in requests, for models that take no time.
const REQUESTS_MAX: u64 = 1 << 24;

/// Largest difference between the counted halves, and largest error of their mean.
#[derive(Clone, Copy)]
struct Bounds {
    /// As parts of the mean.
    drift: f64,
    error: f64,
}

/// Ends a step early.
const EVEN: Bounds = Bounds { drift: 0.02, error: 0.01 };

/// Counts as settled at the end of the longest step: seeks differ, and a disk with arms has few of them in a second.
const SETTLED: Bounds = Bounds { drift: 0.1, error: 0.03 };

/// Completions within a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Window {
    requests: u64,
    elapsed_ns: u64,
}

/// Counts completions in windows. Only the last half counts, since a write cache and a queue fill up before it. The rate has
/// settled when the two halves of that agree, and its windows differ so little that the mean is known.
///
/// Windows end with a completion, so that no part of a slow request is lost.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Requests of the warm-up, not counted.
    warm: u64,
    began_ns: u64,
    shortest_ns: u64,
    windows: Vec<Window>,
    /// The current window and its begin.
    open: Window,
    opened_ns: u64,
    requests: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    pub(crate) requests: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) is_steady: bool,
}

impl Meter {
    /// A step that begins now: its warm-up in requests, and its shortest length after that.
    pub(crate) fn new(now_ns: u64, shortest_ns: u64, warm: u64) -> Meter {
        Meter {
            warm,
            began_ns: now_ns,
            shortest_ns: shortest_ns.max(1),
            windows: Vec::new(),
            open: Window::default(),
            opened_ns: now_ns,
            requests: 0,
        }
    }

    /// Counts a completion; returns the verdict at the end of the step.
    pub(crate) fn note(&mut self, now_ns: u64) -> Option<Verdict> {
        if self.warm > 0 {
            self.warm -= 1;
            (self.began_ns, self.opened_ns) = (now_ns, now_ns);
            return None;
        }
        self.requests += 1;
        self.open.requests += 1;
        self.open.elapsed_ns = now_ns.saturating_sub(self.opened_ns);
        let is_last = self.requests >= REQUESTS_MAX;
        let is_full = self.open.requests >= WINDOW_REQUESTS
            && self.open.elapsed_ns >= self.shortest_ns / WINDOWS_MIN as u64;
        if !is_full && !is_last {
            return None;
        }
        self.windows.push(self.open);
        (self.open, self.opened_ns) = (Window::default(), now_ns);
        let elapsed_ns = now_ns.saturating_sub(self.began_ns);
        let is_last = is_last || elapsed_ns / PATIENCE >= self.shortest_ns;
        self.verdict(is_last)
    }

    fn verdict(&self, is_last: bool) -> Option<Verdict> {
        let count = self.windows.len();
        let half = &self.windows[count / 2..];
        let is = |bounds| count >= WINDOWS_MIN && is_even(half, bounds);
        (is_last || is(EVEN)).then(|| {
            let Window { requests, elapsed_ns } = sum(half);
            Verdict { requests, elapsed_ns: elapsed_ns.max(1), is_steady: is(SETTLED) }
        })
    }
}

fn sum(windows: &[Window]) -> Window {
    windows.iter().fold(Window::default(), |sum, window| Window {
        requests: sum.requests + window.requests,
        elapsed_ns: sum.elapsed_ns + window.elapsed_ns,
    })
}

fn rate(window: Window) -> f64 {
    window.requests as f64 / window.elapsed_ns.max(1) as f64
}

fn is_even(windows: &[Window], bounds: Bounds) -> bool {
    let (first, second) = windows.split_at(windows.len() / 2);
    let mean = rate(sum(windows));
    let drift = (rate(sum(first)) - rate(sum(second))).abs();
    let count = windows.len() as f64;
    let spread = windows.iter().map(|window| (rate(*window) - mean).powi(2)).sum::<f64>();
    // Standard error of the mean.
    let error = (spread / (count - 1.0) / count).sqrt();
    drift <= bounds.drift * mean && error <= bounds.error * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Completions at these distances until the step of 80 ms ends; its verdict and length.
    fn measure(gap: impl FnMut(u64) -> u64) -> (Verdict, u64) {
        measure_warm(0, gap)
    }

    fn measure_warm(warm: u64, mut gap: impl FnMut(u64) -> u64) -> (Verdict, u64) {
        let (mut meter, mut now) = (Meter::new(0, 80 * MS, warm), 0);
        loop {
            now += gap(now);
            if let Some(verdict) = meter.note(now) {
                return (verdict, now / MS);
            }
        }
    }

    fn per_sec(verdict: Verdict) -> u64 {
        verdict.requests * 1_000_000_000 / verdict.elapsed_ns
    }

    #[test]
    fn an_even_load_takes_the_shortest_time() {
        let (verdict, ms) = measure(|_| MS);
        assert_eq!((per_sec(verdict), verdict.is_steady, ms), (1000, true, 80));
        // Four requests of 30 ms are longer than a window, and count whole.
        let (verdict, ms) = measure(|_| 30 * MS);
        assert_eq!((verdict.requests, verdict.elapsed_ns, ms), (16, 480 * MS, 960));
    }

    #[test]
    fn the_fill_of_a_write_cache_is_not_measured() {
        let (verdict, ms) = measure(|now| if now < 50 * MS { MS / 10 } else { MS });
        assert!(verdict.is_steady && per_sec(verdict) == 1000, "{verdict:?}");
        assert!((100..200).contains(&ms), "{ms}");
    }

    #[test]
    fn the_first_requests_are_not_counted() {
        // Forty seeks of 20 ms would be a steady step of their own.
        let gap = |now| if now < 800 * MS { 20 * MS } else { MS };
        let (verdict, ms) = measure_warm(40, gap);
        assert_eq!((per_sec(verdict), ms), (1000, 880));
        assert_eq!(per_sec(measure(gap).0), 50);
    }

    #[test]
    fn a_device_that_never_settles_is_given_up() {
        let (verdict, ms) = measure(|now| MS + now / 200);
        assert!(!verdict.is_steady && (16 * 80..16 * 80 + 100).contains(&ms), "{ms} {verdict:?}");
        // Irregular, but even over a long time.
        let mut turn = 0u64;
        let (verdict, _) = measure(|_| {
            turn += 1;
            if (turn / 40).is_multiple_of(2) { MS / 4 } else { MS }
        });
        assert!(!verdict.is_steady, "{verdict:?}");
    }

    #[test]
    fn a_device_that_takes_no_time_ends() {
        let (verdict, _) = measure(|_| 0);
        assert_eq!((verdict.requests, verdict.elapsed_ns), (REQUESTS_MAX, 1));
    }
}
