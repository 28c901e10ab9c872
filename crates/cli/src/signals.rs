//! SIGINT and SIGTERM: the first asks for the end, the second does not ask, unless it comes at once. For a server SIGHUP,
//! too, which asks for the end where its terminal has closed, and to read its configuration again otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::failure::Failure;

/// Signals so soon after one that was told of are the same wish: `timeout` sends one to its child and one to the group that
/// both are in, and a terminal and the starter of the command may send one each. No user presses Ctrl-C twice as fast.
const SAME_WISH: Duration = Duration::from_millis(100);

/// Files that any command opens that listens for signals: standard ones, its runtime's, and one to work on.
const FILES_MIN: u64 = 16;

/// The number of SIGHUP.
pub(crate) const HANGUP: u8 = 1;

/// The signals that end a command. Inside a tokio runtime.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
    /// When the last one was told of.
    told: Option<Instant>,
}

impl Signals {
    /// Listens from now on: none is lost that comes before [`Signals::next`].
    pub(crate) fn new() -> Result<Signals, Failure> {
        let listen = |kind| signal(kind).map_err(cannot_wait);
        let (terminate, interrupt) =
            (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Signals { terminate, interrupt, hangup: None, told: None })
    }

    /// Also for SIGHUP, unless `nohup` has set it to be ignored.
    pub(crate) fn with_hangup() -> Result<Signals, Failure> {
        let hangup = SignalKind::hangup();
        let heard =
            if is_ignored(hangup) { None } else { Some(signal(hangup).map_err(cannot_wait)?) };
        Ok(Signals { hangup: heard, ..Signals::new()? })
    }

    /// Number of the next signal, without repetitions.
    pub(crate) async fn next(&mut self) -> u8 {
        if let Some(told) = self.told {
            // Includes signals that came between two calls.
            let is_over = tokio::time::sleep_until((told + SAME_WISH).max(Instant::now()));
            tokio::pin!(is_over);
            loop {
                tokio::select! {
                    biased;
                    _ = self.any() => {}
                    () = &mut is_over => break,
                }
            }
        }
        let number = self.any().await;
        self.told = Some(Instant::now());
        number
    }

    /// The last signal did not ask for the end: another one counts at once.
    pub(crate) fn was_no_end(&mut self) {
        self.told = None;
    }

    async fn any(&mut self) -> u8 {
        let Signals { terminate, interrupt, hangup, .. } = self;
        let hangup = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        let kind = tokio::select! {
            _ = terminate.recv() => SignalKind::terminate(),
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = hangup => SignalKind::hangup(),
        };
        // SIGTERM is 15, SIGINT 2, SIGHUP 1.
        kind.as_raw_value() as u8
    }
}

/// The terminal that controls this process, from which the kernel sends SIGHUP when it closes.
#[derive(Debug)]
pub(crate) struct Terminal {
    was_there: bool,
}

impl Terminal {
    /// The current terminal.
    pub(crate) fn of_this_process() -> Terminal {
        Terminal { was_there: Terminal::is_there() }
    }

    /// Whether the terminal has closed. The kernel detaches it before it sends SIGHUP.
    pub(crate) fn has_closed(&self) -> bool {
        self.was_there && !Terminal::is_there()
    }

    fn is_there() -> bool {
        std::fs::File::open("/dev/tty").is_ok()
    }
}

/// Name of a signal of [`Signals`].
pub(crate) fn name(number: u8) -> &'static str {
    match SignalKind::from_raw(number.into()) {
        kind if kind == SignalKind::terminate() => "SIGTERM",
        kind if kind == SignalKind::interrupt() => "SIGINT",
        _ => "SIGHUP",
    }
}

/// Whether this process was started with the signal ignored; the kernel lists those as bits, from signal 1 on.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    ignored.is_some_and(|bits| (bits >> (kind.as_raw_value() - 1)) & 1 == 1)
}

/// A runtime of the calling thread for [`Signals`].
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if most < FILES_MIN {
        // tokio panics where it gets no descriptors for its signals.
        let message = format!("only {most} files may be open, and at least {FILES_MIN} are needed");
        return Err(Failure::failed(message).hint("raise it: ulimit -n 1024".to_owned()));
    }
    Builder::new_current_thread().enable_all().build().map_err(cannot_wait)
}

/// For commands without a runtime: listens on a thread of its own. The first signal's number goes to `first`; a second
/// one, or a first that `first` cannot take, ends the program at once with 128 and its number.
pub(crate) fn on_thread(first: impl FnOnce(u8) -> bool + Send + 'static) -> Result<(), Failure> {
    let runtime = runtime()?;
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

/// SIGINT and SIGTERM as a flag that long work polls.
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
