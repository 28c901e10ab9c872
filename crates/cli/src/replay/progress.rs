//! A line that shows that something happens, on a terminal, if it takes long.

use std::io;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Shorter replays need no line.
const AFTER_NS: u64 = 2_000_000_000;
const EVERY_NS: u64 = 250_000_000;

/// The line, once there is one.
pub(super) struct Progress {
    start_ns: u64,
    next_ns: u64,
    bar: Option<ProgressBar>,
    done: u64,
}

impl Progress {
    pub(super) fn new(start_ns: u64) -> Progress {
        // Never, where it could not be seen.
        let next_ns = match output::is_screen(&io::stderr()) {
            true => start_ns + AFTER_NS,
            false => u64::MAX,
        };
        Progress { start_ns, next_ns, bar: None, done: 0 }
    }

    /// How long one may wait before asking again.
    pub(super) fn patience(&self, now_ns: u64) -> Option<Duration> {
        (self.next_ns != u64::MAX)
            .then(|| Duration::from_nanos(self.next_ns.saturating_sub(now_ns)))
    }

    /// Shows that `done` requests are done, if it is time.
    pub(super) fn show(&mut self, now_ns: u64, done: u64, trace_ns: u64) {
        if now_ns < self.next_ns {
            return;
        }
        let every = if self.bar.is_some() { EVERY_NS } else { now_ns - self.start_ns };
        let rate = (done - self.done) as f64 * 1e9 / every.max(1) as f64;
        self.done = done;
        self.next_ns = now_ns + EVERY_NS;
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(
                ProgressStyle::with_template("{spinner} {msg}").expect("the template is right"),
            );
            bar
        });
        let (elapsed, trace) = ((now_ns - self.start_ns) as f64 / 1e9, trace_ns as f64 / 1e9);
        bar.set_message(format!(
            "{elapsed:.1} s: {done} requests, {rate:.0}/s; at {trace:.1} s of the trace"
        ));
        bar.tick();
    }

    /// Takes the line away.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
