//! Progress of a lab run, and its early end.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use weir_lab::sim::Progress;
use weir_units::Ios;

use crate::clock;
use crate::signals::Stop;

/// Time before progress is shown.
const QUIET_NS: u64 = 2_000_000_000;
/// Between two pictures.
const EVERY_NS: u64 = 100_000_000;

/// A line on the terminal's standard error, once a run has taken a while.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Stop,
    began_ns: u64,
    drawn_ns: u64,
    bar: Option<ProgressBar>,
    on_terminal: bool,
}

impl Watch {
    pub(super) fn new(stop: &Stop) -> Watch {
        let (now_ns, on_terminal) = (clock::now_ns(), std::io::stderr().is_terminal());
        Watch { stop: stop.clone(), began_ns: now_ns, drawn_ns: now_ns, bar: None, on_terminal }
    }

    /// Draws progress, if due; returns whether to continue.
    pub(super) fn look(&mut self, progress: Progress) -> ControlFlow<()> {
        if self.stop.signal().is_some() {
            return ControlFlow::Break(());
        }
        let now_ns = clock::now_ns();
        let took_ns = now_ns - self.began_ns;
        if self.on_terminal && took_ns > QUIET_NS && now_ns - self.drawn_ns > EVERY_NS {
            self.drawn_ns = now_ns;
            let bar = self.bar.get_or_insert_with(|| {
                // It began before there was anything to show.
                let bar = ProgressBar::new_spinner().with_elapsed(Duration::from_nanos(took_ns));
                let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
                bar.set_style(style.expect("a template that is right"));
                bar
            });
            bar.set_message(words(progress, took_ns));
            bar.tick();
        }
        ControlFlow::Continue(())
    }

    /// Wipes the line away.
    pub(super) fn over(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn words(progress: Progress, took_ns: u64) -> String {
    let seconds = progress.now_ns as f64 / 1e9;
    let rate = progress.requests as f64 * 1e3 / took_ns as f64;
    let time = match progress.ends_ns {
        Some(ends_ns) if ends_ns > 0 => {
            let (whole, percent) = (ends_ns as f64 / 1e9, seconds * 1e11 / ends_ns as f64);
            format!("{seconds:.1} of {whole:.0} s of virtual time ({percent:.0} %)")
        }
        _ => {
            let Progress { ended, processes, .. } = progress;
            format!("{seconds:.1} s of virtual time, {ended} of {processes} jobs have ended")
        }
    };
    let requests = Ios(progress.requests).rounded();
    format!("{time}, {requests} requests, {rate:.1} million a second")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_shown_as_far_as_it_is_known() {
        let mut progress = Progress {
            now_ns: 3_200_000_000,
            requests: 852_000,
            ended: 1,
            processes: 4,
            ends_ns: None,
        };
        let text = words(progress, 1_000_000_000);
        assert_eq!(
            text,
            "3.2 s of virtual time, 1 of 4 jobs have ended, 852k requests, 0.9 million a second"
        );
        progress.ends_ns = Some(60_000_000_000);
        let text = words(progress, 1_000_000_000);
        assert!(text.starts_with("3.2 of 60 s of virtual time (5 %), 852k requests"), "{text}");
    }
}
