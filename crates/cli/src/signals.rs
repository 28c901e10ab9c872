//! SIGINT and SIGTERM: the first asks for the end, the second does not ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals that end a command. Inside a tokio runtime.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on: none is lost that comes before [`Signals::next`].
    pub(crate) fn new() -> Result<Signals, Failure> {
        let listen = |kind| signal(kind).map_err(cannot_wait);
        let (terminate, interrupt) =
            (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Signals { terminate, interrupt })
    }

    /// The next one's number.
    pub(crate) async fn next(&mut self) -> u8 {
        let kind = tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        };
        // SIGTERM is 15, SIGINT 2.
        kind.as_raw_value() as u8
    }
}

/// For commands without a runtime: listens on a thread of its own. The first signal's number goes to `first`; a second
/// one, or a first that `first` cannot take, ends the program at once with 128 and its number.
pub(crate) fn on_thread(first: impl FnOnce(u8) -> bool + Send + 'static) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot_wait)?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::new()?
    };
    let wait = move || {
        runtime.block_on(async move {
            let mut number = signals.next().await;
            if first(number) {
                number = signals.next().await;
            }
            std::process::exit(128 + i32::from(number));
        });
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(cannot_wait)?;
    Ok(())
}

/// SIGINT and SIGTERM, noticed: the first asks for the end, and whoever works looks here now and then.
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<AtomicU8>);

impl Stop {
    /// Listens from now on, on a thread of its own. A second signal ends the program at once.
    pub(crate) fn listen() -> Result<Stop, Failure> {
        let stop = Stop(Arc::new(AtomicU8::new(0)));
        let told = stop.clone();
        on_thread(move |number| {
            told.0.store(number, Ordering::Relaxed);
            true
        })?;
        Ok(stop)
    }

    /// The signal, if there was one.
    pub(crate) fn signal(&self) -> Option<u8> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&number| number != 0)
    }
}

fn cannot_wait(error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot wait for signals: {error}"))
}
