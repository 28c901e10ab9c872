//! Time of a demo: pictures are drawn until it is over or a signal ends it.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, interval_at, sleep_until};

use super::screen::Screen;
use crate::clock;
use crate::failure::Failure;

/// The screen, and the signals that end a demo early.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) screen: Screen,
    interrupt: Signal,
    terminate: Signal,
}

impl Watch {
    pub(super) fn new(silent: bool) -> Result<Watch, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))
        };
        Ok(Watch {
            screen: Screen::new(silent),
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Draws `picture`, a function of the time and the seconds passed, for `seconds`.
    pub(super) async fn run(
        &mut self,
        seconds: u64,
        mut picture: impl FnMut(&Screen, u64, f64) -> Result<Vec<String>, Failure>,
    ) -> Result<(), Failure> {
        let (began, began_ns) = (Instant::now(), clock::now_ns());
        // The first would come at once, when there is nothing to see yet.
        let mut ticks = interval_at(began + self.screen.every(), self.screen.every());
        let end = sleep_until(began + Duration::from_secs(seconds));
        tokio::pin!(end);
        loop {
            let over = tokio::select! {
                // At the end one picture is enough.
                biased;
                _ = self.interrupt.recv() => return Err(Failure::Signal(2)),
                _ = self.terminate.recv() => return Err(Failure::Signal(15)),
                () = &mut end => true,
                _ = ticks.tick() => false,
            };
            let now = clock::now_ns();
            let elapsed = (now - began_ns) as f64 / 1e9;
            let picture = picture(&self.screen, now, elapsed)?;
            self.screen.draw(&picture)?;
            if over {
                self.screen.keep();
                return Ok(());
            }
        }
    }
}
