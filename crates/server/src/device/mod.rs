//! Device thread: one ring, one engine, the connections of one device. No locks, no hop to another thread on the
//! path of a request.
//!
//! ```text
//!  connections ─► rx ─► engine ─► dispatch ─► device
//!       ▲                                       │
//!       └────────────────── tx ◄────────────────┘        all of it on one ring
//! ```
//!
//! | module | job |
//! |---|---|
//! | `reactor` | the loop: completions in, engine, operations out |
//! | `greet` | new connections, their seats, hand-over to the thread of their device |
//! | `rx` | bytes to requests, with back-pressure |
//! | `dispatch` | requests that the engine lets go, to the device |
//! | `clients`, `client_limits` | whose connections they are, and the limits of one client |
//! | `backpressure`, `quota` | connections that are not read from, and what each client may hold |
//! | `tx`, `close` | replies; the end of a connection |
//! | `cached` | the write-back cache, where there is one |
//! | `commands` | commands of the control thread |
//! | `heartbeat` | whether the loop turns |
//! | `shutdown` | the drain |

mod backpressure;
mod cached;
mod client_limits;
mod clients;
mod close;
mod commands;
mod connection;
mod connections;
mod dispatch;
mod export_paths;
mod failures;
mod greet;
mod health;
mod heartbeat;
mod lateness;
mod published;
mod quota;
mod reactor;
mod report;
mod request;
mod ring;
mod rx;
mod shutdown;
#[cfg(test)]
mod simulation;
mod storage;
mod token;
mod tx;
mod waits;
mod zero_runs;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use weir_config::DeviceConfig;
use weir_disk::DiskModel;
use weir_engine::{Config, Engine, Instant, Path};
use weir_nbd::Session;
use weir_recording::{RecordedEngine, Recorder};
use weir_uring::{Backend, Ring, RingError, Waker, monotonic_ns};

pub use self::clients::Peer;
pub use self::heartbeat::Heartbeat;
use self::reactor::Reactor;
pub use self::report::DeviceReport;
pub(crate) use self::request::PART_BYTES_MAX;
pub(crate) use self::rx::other_protocol;
pub use self::shutdown::Cut;
pub(crate) use self::waits::{SharedWaits, StallReason, Waits};
use crate::access::Access;
use crate::command::{Command, Setting};
use crate::exports::{DeviceId, ExportPlace};
use crate::presence::Presence;
use crate::registry::Registry;
use crate::seats::{Seat, Seats};
use crate::view::Board;

/// What a device thread is made of.
pub(crate) struct Setup {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) backend: Backend,
    pub(crate) model: Option<Box<dyn DiskModel>>,
    pub(crate) engine: Config,
    /// See [`PART_BYTES_MAX`].
    pub(crate) part_bytes_max: u32,
    pub(crate) cache: Option<weir_cache::Settings>,
    /// Where the engine's inputs are recorded, if they are.
    pub(crate) recorder: Option<Recorder>,
    /// Settings of cgroups, parents first.
    pub(crate) settings: Vec<(Path, Setting)>,
    /// What else there is in the server.
    pub(crate) registry: Arc<Registry>,
    /// Exports of this device.
    pub(crate) exports: Vec<ExportPlace>,
    /// The control thread's end of this thread.
    pub(crate) handle: DeviceHandle,
    pub(crate) presence: Arc<Presence>,
    /// How long requests inside are waited for at the end.
    pub(crate) drain_ns: u64,
    pub(crate) seats: Arc<Seats>,
    /// Cgroups that there may be, the root included.
    pub(crate) cgroups_max: usize,
}

/// A connection that has been accepted.
#[derive(Debug)]
pub struct Greeting {
    pub(crate) fd: OwnedFd,
    /// Given back when it has been greeted, or closed: so many are under way at once.
    pub(crate) turn: OwnedSemaphorePermit,
}

/// A connection that has been shaken hands with and is to be served by another thread.
#[derive(Debug)]
pub struct Arrived {
    pub(crate) fd: OwnedFd,
    pub(crate) session: Session,
    pub(crate) peer: Peer,
    pub(crate) seat: Seat,
    pub(crate) access: Access,
    /// Bytes that have arrived after the handshake.
    pub(crate) input: Vec<u8>,
}

/// The control thread's end of a device thread.
#[derive(Clone, Debug)]
pub struct DeviceHandle {
    pub(crate) id: DeviceId,
    /// The device's name in the configuration.
    pub name: String,
    /// Major and minor number, if it is a block device.
    pub number: Option<(u32, u32)>,
    facts: Arc<DeviceFacts>,
    /// Where its thread leaves what changes in its tree of cgroups.
    pub(crate) board: Arc<Board>,
    commands: Sender<Command>,
    waker: Arc<std::sync::OnceLock<Waker>>,
    /// The kernel's number of the thread.
    thread: Arc<std::sync::OnceLock<i32>>,
}

/// An opened device, as others than its thread know it.
#[derive(Clone, Debug)]
pub(crate) struct DeviceFacts {
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) read_only: bool,
    /// Requests that are multiples of this go to it as they are.
    pub(crate) block_bytes: u32,
    /// Whether seeks take time.
    pub(crate) is_rotational: bool,
}

/// The device thread has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the device's thread has ended")]
pub struct Gone;

impl DeviceHandle {
    pub(crate) fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// The same thread, of a device that has another size now.
    pub(crate) fn resized(&self, size: u64) -> DeviceHandle {
        let facts = Arc::new(DeviceFacts { size, ..DeviceFacts::clone(&self.facts) });
        DeviceHandle { facts, ..self.clone() }
    }

    /// Sends without waking.
    #[cfg(test)]
    fn sender(&self) -> Sender<Command> {
        self.commands.clone()
    }

    /// Sends a command and wakes the thread. Never blocks.
    ///
    /// # Errors
    /// The thread has ended; the command is dropped, and with it its reply.
    pub fn send(&self, command: Command) -> Result<(), Gone> {
        self.commands.send(command).map_err(|_| Gone)?;
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
        Ok(())
    }

    /// Has the device's thread take no new connections and requests, finish those inside without limits, flush, end. What
    /// is inside after the drain time is cut: the thread then fails with [`DeviceError::Cut`]. The second time that is
    /// now, and what a write-back cache has is lost.
    pub fn drain(&self) {
        // A thread that has ended needs no telling.
        let _ = self.send(Command::Drain);
    }
}

/// Makes the ends of a device's thread; [`spawn`] starts it.
pub(crate) fn prepare(
    id: DeviceId,
    device: &DeviceConfig,
    facts: Arc<DeviceFacts>,
) -> (DeviceHandle, mpsc::Receiver<Command>) {
    let (commands, receiver) = mpsc::channel();
    let (name, number) = (device.name.clone(), device.backend.number());
    let (board, waker, thread) = (Arc::default(), Arc::default(), Arc::default());
    (DeviceHandle { id, name, number, facts, board, commands, waker, thread }, receiver)
}

/// Starts a device's thread; it is ready when `ready` says so.
pub(crate) fn spawn(
    setup: Setup,
    commands: mpsc::Receiver<Command>,
    ready: oneshot::Sender<Result<(), DeviceError>>,
) -> io::Result<JoinHandle<Result<(), DeviceError>>> {
    std::thread::Builder::new().name(format!("weir-{}", setup.name)).spawn(move || {
        match start(setup) {
            Ok(mut reactor) => {
                drop(ready.send(Ok(())));
                let ended = reactor.run(&commands);
                reactor.let_go();
                ended
            }
            Err(error) => {
                drop(ready.send(Err(error)));
                Ok(())
            }
        }
    })
}

/// Sets up engine and ring in the calling thread.
fn start(mut setup: Setup) -> Result<Reactor, DeviceError> {
    let ring = Ring::new(&weir_uring::Config { pool_bytes: POOL_BYTES, ..Default::default() })?;
    let now = Instant::from_nanos(monotonic_ns());
    let piece_bytes_max = Some(weir_driver::PIECE_BYTES_MAX);
    let engine = Engine::new(Config { piece_bytes_max, ..setup.engine }, now);
    let mut engine = RecordedEngine::new(engine);
    if let Some(recorder) = setup.recorder.take() {
        engine.attach(now, recorder);
    }
    for (cgroup, setting) in &setup.settings {
        commands::set(&mut engine, now, cgroup, setting.clone())
            .map_err(|error| DeviceError::Setting { cgroup: cgroup.clone(), error })?;
    }
    drop(setup.handle.waker.set(ring.waker()));
    // Its own, which nothing else sets.
    let _ = setup.handle.thread.set(rustix::thread::gettid().as_raw_nonzero().get());
    Reactor::new(setup, engine, Box::new(ring)).map_err(DeviceError::Ring)
}

/// Memory for requests on their way between sockets and device, half for payload and half for replies; pages are taken
/// as they are first used. Reads for which it has room, but not in one piece, have memory of their own: that is at most the
/// half for replies again.
const POOL_BYTES: usize = 384 << 20;

/// Why a device thread did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// There is no ring to be had.
    #[error(transparent)]
    NoRing(#[from] RingError),
    /// The ring broke.
    #[error("the ring failed: {0}")]
    Ring(io::Error),
    /// The device refused bytes that clients were told are written, until the end.
    #[error(
        "{bytes} bytes that were acknowledged could not be written and are lost, at {ranges}: {source}"
    )]
    Lost {
        /// How many.
        bytes: u64,
        /// Where.
        ranges: String,
        /// Why.
        source: io::Error,
    },
    /// The last flush failed.
    #[error(
        "the last flush failed, so what was written since the one before may be lost: {source}"
    )]
    LastFlush {
        /// Why.
        source: io::Error,
    },
    /// A flush failed whose client had gone, and no other one has asked since.
    #[error(
        "a flush failed and no client was left to be told, so what was written before it may be lost: {source}"
    )]
    UntoldFlush {
        /// Why.
        source: io::Error,
    },
    /// The device did not answer within the drain time.
    #[error(
        "the device has not answered, so it was not flushed, and what was written since the last flush may be lost; \
         requests that it has: {requests}"
    )]
    NotFlushed {
        /// Requests at the device.
        requests: usize,
    },
    /// Requests were cut at the end.
    #[error("requests cut at the end: {}, of them at the device: {}", .0.requests, .0.at_device)]
    Cut(Cut),
    /// A setting of the configuration was refused.
    #[error("cgroup {cgroup}: {error}")]
    Setting {
        /// Whose.
        cgroup: Path,
        /// Why.
        error: crate::command::SetError,
    },
}
