//! Front of a server: the thread on which its listeners are, and each new connection's way to the thread of a device.
//!
//! A listener that cannot accept, without file descriptors say, rests for [`REST`]; its backlog keeps what comes meanwhile.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, Semaphore};
use tracing::{debug, warn};
use weir_config::ListenAddress;
use weir_engine::Instant;
use weir_uring::monotonic_ns;

use crate::command::Command;
use crate::device::Greeting;
use crate::log_limit::{LogLimit, LogLine, LogPermit};
use crate::registry::Registry;
use crate::status::ListenersStatus;
use crate::tls::{Tls, TlsEntry};
use crate::vsock;

/// How long a listener rests after it failed.
const REST: Duration = Duration::from_millis(10);

/// Connections that have been accepted and not greeted yet, of one listener: further ones wait in its backlog.
const GREETINGS_MAX: usize = 64;

/// A socket that is bound and listens.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket.
    Unix(UnixListener),
    /// A TCP socket.
    Tcp(std::net::TcpListener),
    /// A socket of vsock(7).
    Vsock(socket2::Socket),
}

impl Listener {
    /// Where a Unix socket is, if it has a file.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Listener::Unix(listener) => {
                listener.local_addr().ok()?.as_pathname().map(PathBuf::from)
            }
            Listener::Tcp(_) | Listener::Vsock(_) => None,
        }
    }

    /// Where another one is.
    pub fn address(&self) -> Option<ListenAddress> {
        match self {
            Listener::Unix(_) => None,
            Listener::Tcp(listener) => listener.local_addr().ok().map(ListenAddress::Tcp),
            Listener::Vsock(listener) => {
                vsock::address(listener).map(|(cid, port)| ListenAddress::Vsock { cid, port })
            }
        }
    }
}

/// Counters of the front, for a status.
#[derive(Debug, Default)]
pub(crate) struct Accepts {
    failed: AtomicU64,
    rest_ns: AtomicU64,
    lines_left_out: AtomicU64,
}

impl Accepts {
    pub(crate) fn status(&self) -> ListenersStatus {
        ListenersStatus {
            accepts_failed: self.failed.load(Ordering::Relaxed),
            rest_ns: self.rest_ns.load(Ordering::Relaxed),
            log_lines_left_out: self.lines_left_out.load(Ordering::Relaxed),
        }
    }
}

/// The front's thread at work.
#[derive(Debug)]
pub(crate) struct Front {
    thread: JoinHandle<()>,
    runtime: tokio::runtime::Handle,
    stop: Arc<Notify>,
}

impl Front {
    /// Starts to let connections in.
    ///
    /// # Errors
    /// The system has no thread, or does not take a listener.
    pub(crate) fn start(
        listeners: Vec<Listener>,
        registry: Arc<Registry>,
        accepts: Arc<Accepts>,
        tls: Option<&Tls>,
    ) -> io::Result<Front> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().build()?;
        let listeners = {
            let _guard = runtime.enter();
            let accepting = |listener: Listener| {
                let entry = tls.and_then(|tls| tls.entry(!matches!(listener, Listener::Unix(_))));
                Ok((Accepting::new(listener)?, entry))
            };
            listeners.into_iter().map(accepting).collect::<io::Result<Vec<_>>>()?
        };
        let handle = runtime.handle().clone();
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("weir-front".into()).spawn(move || {
            runtime.block_on(async {
                for (listener, tls) in listeners {
                    let (registry, accepts) = (Arc::clone(&registry), Arc::clone(&accepts));
                    tokio::spawn(let_in(listener, tls, registry, accepts));
                }
                stopped.notified().await;
            });
        })?;
        Ok(Front { thread, runtime: handle, stop })
    }

    /// Something for its thread to do, which shows that it turns.
    pub(crate) fn ping(&self) -> tokio::task::JoinHandle<()> {
        self.runtime.spawn(async {})
    }

    /// Closes the listeners: no connection comes in from here on.
    pub(crate) fn stop(self) {
        self.stop.notify_one();
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

enum Accepting {
    Unix(tokio::net::UnixListener),
    Tcp(tokio::net::TcpListener),
    Vsock(AsyncFd<socket2::Socket>),
}

impl Accepting {
    fn new(listener: Listener) -> io::Result<Accepting> {
        Ok(match listener {
            Listener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Accepting::Unix(tokio::net::UnixListener::from_std(listener)?)
            }
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Accepting::Tcp(tokio::net::TcpListener::from_std(listener)?)
            }
            Listener::Vsock(listener) => Accepting::Vsock(vsock::accepting(listener)?),
        })
    }

    async fn accept(&self) -> io::Result<OwnedFd> {
        Ok(match self {
            Accepting::Unix(listener) => listener.accept().await?.0.into_std()?.into(),
            Accepting::Tcp(listener) => listener.accept().await?.0.into_std()?.into(),
            Accepting::Vsock(listener) => vsock::accept(listener).await?,
        })
    }
}

/// Accepts connections for ever, and gives each to the first device's thread, which shakes hands, or to those of TLS.
async fn let_in(
    listener: Accepting,
    tls: Option<TlsEntry>,
    registry: Arc<Registry>,
    accepts: Arc<Accepts>,
) {
    let mut log_limit = LogLimit::default();
    let turns = Arc::new(Semaphore::new(GREETINGS_MAX));
    loop {
        match listener.accept().await {
            Ok(fd) => {
                if let Some(tls) = &tls {
                    let turn = tls.turn().await;
                    tls.take(fd, turn);
                    continue;
                }
                let turn = Arc::clone(&turns).acquire_owned().await.expect("it is never closed");
                let tables = registry.tables();
                let Some(device) = tables.devices.first() else {
                    debug!("connection closed: there is no device");
                    continue;
                };
                if device.send(Command::Greet(Greeting { fd, turn })).is_err() {
                    debug!(
                        device = device.name,
                        "connection closed: the device's thread has ended"
                    );
                }
            }
            Err(error) => {
                let now = Instant::from_nanos(monotonic_ns());
                match log_limit.permit(now, LogLine::AcceptFailed) {
                    Some(LogPermit { left_out }) => {
                        warn!(left_out, %error, "cannot accept a connection");
                    }
                    None => drop(accepts.lines_left_out.fetch_add(1, Ordering::Relaxed)),
                }
                accepts.failed.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(REST).await;
                let rest_ns = monotonic_ns() - now.as_nanos();
                accepts.rest_ns.fetch_add(rest_ns, Ordering::Relaxed);
            }
        }
    }
}
