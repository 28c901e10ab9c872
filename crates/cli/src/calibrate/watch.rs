//! Progress of a calibration on the terminal, and its early end.

use std::io;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use weir_calibrate::{Calibration, Progress};
use weir_units::IosPerSec;

use crate::signals::Stop;
use crate::{clock, output};

/// Shorter calibrations need no line.
const AFTER_NS: u64 = 1_000_000_000;
/// Between two looks at the clock's face.
const EVERY_NS: u64 = 100_000_000;

/// The line, once there is one.
pub(super) struct Watch {
    stop: Stop,
    began_ns: u64,
    next_ns: u64,
    on_screen: bool,
    bar: Option<ProgressBar>,
}

impl Watch {
    pub(super) fn new(stop: &Stop) -> Watch {
        let began_ns = clock::now_ns();
        let (next_ns, on_screen) = (began_ns + AFTER_NS, output::is_screen(&io::stderr()));
        Watch { stop: stop.clone(), began_ns, next_ns, on_screen, bar: None }
    }

    /// How long one may sleep before looking again.
    pub(super) fn next_look_ns(now_ns: u64) -> u64 {
        now_ns + EVERY_NS
    }

    /// Draws progress, if due; returns whether to continue.
    pub(super) fn look(&mut self, now_ns: u64, calibration: &Calibration) -> bool {
        if self.stop.signal().is_some() {
            return false;
        }
        if self.on_screen && now_ns >= self.next_ns {
            self.next_ns = now_ns + EVERY_NS;
            let elapsed = Duration::from_nanos(now_ns - self.began_ns);
            let bar = self.bar.get_or_insert_with(|| {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
                bar.set_style(style.expect("a template that is right"));
                bar.with_elapsed(elapsed)
            });
            bar.set_message(words(&calibration.progress()));
            bar.tick();
        }
        true
    }

    /// Takes the line away; answers how long it all took.
    pub(super) fn over(self) -> u64 {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        clock::now_ns() - self.began_ns
    }
}

fn words(progress: &Progress) -> String {
    let Progress { load, steps, steps_max, last } = progress;
    let now =
        load.map_or_else(|| "done".to_owned(), |load| format!("{load}, {} at once", load.depth));
    let last = last.map_or_else(String::new, |step| {
        format!("; the last did {}", IosPerSec(step.per_sec() as u64).rounded())
    });
    format!("step {} of at most {steps_max}: {now}{last}", steps + 1)
}

#[cfg(test)]
mod tests {
    use weir_calibrate::{Load, Order, Step};
    use weir_engine::Direction;

    use super::*;

    #[test]
    fn it_says_what_is_measured_and_what_was() {
        let load = Load { direction: Direction::Read, order: Order::Random, len: 4096, depth: 4 };
        let step = Step { load, requests: 118, elapsed_ns: 1_000_000_000, is_steady: true };
        let mut progress = Progress { load: Some(load), steps: 0, steps_max: 21, last: None };
        assert_eq!(words(&progress), "step 1 of at most 21: random reads of 4 KiB, 4 at once");
        (progress.steps, progress.last) = (1, Some(step));
        assert_eq!(
            words(&progress),
            "step 2 of at most 21: random reads of 4 KiB, 4 at once; the last did 118/s"
        );
    }
}
