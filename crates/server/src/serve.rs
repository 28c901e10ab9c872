//! A server: its sockets bound, its devices' threads started, and changed while it runs.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Semaphore;
use tracing::{error, warn};
use weir_config::{Config, DeviceConfig, Difference, ListenAddress, TlsMode};
use weir_nbd::ExportId;

use crate::change::{self, ApplyError, Changes, Grown, OnFailure, ReadAgain};
use crate::command::Command;
use crate::control::{ExportMetrics, Tokens};
use crate::device::{DeviceError, DeviceHandle, Greeting, Heartbeat};
use crate::exports::DeviceId;
use crate::front::{Accepts, Front, Listener};
use crate::presence::Presence;
use crate::recording::{RecordingError, Recordings};
use crate::registry::{Registry, Tables};
use crate::sandbox::{Allowed, Sandbox, SandboxError};
use crate::seats::Seats;
use crate::status::{ExportStatus, ListenersStatus};
use crate::tls::{CertificateError, CertificateFiles, CurrentCertificates, Tls};
use crate::unix_socket::{BindError, BoundSocket, SocketFile, bind_unix};
use crate::vsock;

/// A server at work: its device threads, and the sockets that are taken away when it ends.
#[derive(Debug)]
pub struct Running {
    /// What the threads share.
    pub(crate) shared: Shared,
    pub(crate) threads: Mutex<Vec<Thread>>,
    pub(crate) ids: AtomicU32,
    /// The configuration that runs. Held by a change for as long as it takes: one after another.
    pub(crate) config: tokio::sync::Mutex<Config>,
    /// Devices that could not be opened at the start.
    pub(crate) left_out: Mutex<Vec<DeviceConfig>>,
    pub(crate) sandbox: Sandbox,
    /// Where the configuration has `[record]`.
    pub(crate) recordings: Option<Recordings>,
    /// Of the configuration that runs; looked at for each request to the control API over TCP.
    pub(crate) tokens: Mutex<Arc<Tokens>>,
    is_ending: AtomicBool,
    front: Mutex<Option<Front>>,
    accepts: Arc<Accepts>,
    /// Where the configuration has `[tls]`.
    pub(crate) certificates: Option<Arc<CurrentCertificates>>,
    /// The threads that encrypt NBD, where `[server]` has `tls`.
    tls: Option<Tls>,
    mode: TlsMode,
    socket: Option<PathBuf>,
    addresses: Vec<ListenAddress>,
    sockets: Mutex<Vec<BoundSocket>>,
}

/// What the threads of a server share. None of it is touched for a request.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) registry: Arc<Registry>,
    pub(crate) presence: Arc<Presence>,
    pub(crate) seats: Arc<Seats>,
}

/// A device's thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) device: DeviceId,
    pub(crate) name: String,
    pub(crate) handle: JoinHandle<Result<(), DeviceError>>,
}

impl Thread {
    /// Waits for its end, at most for `within`.
    ///
    /// # Errors
    /// How it failed, or that it still runs. The log has it, too.
    pub(crate) async fn ended(self, within: Duration) -> Result<(), String> {
        let Thread { name, handle, .. } = self;
        let joined = tokio::task::spawn_blocking(move || handle.join());
        let ended = match tokio::time::timeout(within, joined).await {
            Ok(Ok(Ok(result))) => result.map_err(|error| error.to_string()),
            Ok(_) => Err("its thread has panicked".to_owned()),
            Err(_) => Err("it has not ended yet: it may hang in its storage".to_owned()),
        };
        if let Err(error) = &ended {
            error!(device = name, error, "device removed, and its end has failed");
        }
        ended
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A device or an export cannot be served.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A Unix socket cannot be bound.
    #[error("cannot listen on {0}")]
    Bind(#[from] BindError),
    /// A socket of TCP or vsock cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The system has no thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The machine lacks something of the sandbox.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A recording cannot begin.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A certificate, or what belongs to it, cannot be used.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
}

impl Running {
    /// Binds the sockets, opens the devices and starts a thread for each. Connections are served when it returns. Of
    /// several devices those that cannot be opened are left out, with their exports, and the log says so.
    ///
    /// # Errors
    /// The first thing that is in the way. Nothing runs then, and no socket is left behind.
    pub async fn start(config: &Config) -> Result<Running, StartError> {
        Running::start_with(config, Vec::new(), None).await
    }

    /// As [`Running::start`], with further listeners, which the starter of this process has bound. One that is where the
    /// configuration would have it takes that place. With `allowed`, the calling thread and all that it starts from then on
    /// are in the sandbox of the configuration when this returns, also with an error.
    ///
    /// # Errors
    /// As [`Running::start`].
    pub async fn start_with(
        config: &Config,
        given: Vec<Listener>,
        allowed: Option<Allowed>,
    ) -> Result<Running, StartError> {
        let socket = config.server.socket.clone();
        Running::start_on(config, listen(config, given)?, socket, allowed).await
    }

    /// Serves one client, which has connected already, and listens nowhere, whatever the configuration says. See
    /// [`Running::client_left`].
    ///
    /// # Errors
    /// As [`Running::start`].
    pub async fn start_single(
        config: &Config,
        client: OwnedFd,
        allowed: Allowed,
    ) -> Result<Running, StartError> {
        let listening = Listening::default();
        let running = Running::start_on(config, listening, None, Some(allowed)).await?;
        let turn = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("it is the only one");
        let device = running.devices().swap_remove(0);
        if device.send(Command::Greet(Greeting { fd: client, turn })).is_err() {
            running.drain();
            return Err(ApplyError::Gone(device.name).into());
        }
        Ok(running)
    }

    async fn start_on(
        config: &Config,
        (listeners, sockets, addresses): Listening,
        socket: Option<PathBuf>,
        allowed: Option<Allowed>,
    ) -> Result<Running, StartError> {
        raise_open_files();
        // Devices are opened inside, as those that are added later.
        let sandbox = match allowed {
            Some(allowed) => Sandbox::enter(config.server.sandbox, &allowed)?,
            None => Sandbox::default(),
        };
        let server = &config.server;
        let shared = Shared {
            registry: Arc::default(),
            presence: Arc::default(),
            seats: Arc::new(Seats::new(server.max_connections, server.max_connections_per_client)),
        };
        let nothing = Config {
            server: server.clone(),
            tls: config.tls.clone(),
            record: config.record.clone(),
            devices: Vec::new(),
            cgroups: Vec::new(),
            exports: Vec::new(),
            peers: Vec::new(),
            tokens: Vec::new(),
        };
        let recordings = config.record.as_ref().map(Recordings::start).transpose()?;
        let certificates = certificates(config)?;
        let tls = match &certificates {
            Some(certificates) => tls(config, certificates, &shared)?,
            None => None,
        };
        let running = Running {
            shared,
            threads: Mutex::default(),
            ids: AtomicU32::default(),
            config: tokio::sync::Mutex::new(nothing),
            left_out: Mutex::default(),
            sandbox,
            tokens: Mutex::default(),
            recordings,
            is_ending: AtomicBool::default(),
            front: Mutex::default(),
            accepts: Arc::default(),
            certificates,
            tls,
            mode: server.tls,
            socket,
            addresses,
            sockets: Mutex::new(sockets),
        };
        let on_failure = match config.devices.len() {
            1 => OnFailure::Refuse,
            _ => OnFailure::LeaveOut,
        };
        if let Err(error) =
            change::apply(&running, config, on_failure, false, ReadAgain::Changed).await
        {
            running.drain();
            return Err(error.into());
        }
        let registry = Arc::clone(&running.shared.registry);
        match Front::start(listeners, registry, Arc::clone(&running.accepts), running.tls.as_ref())
        {
            Ok(front) => *lock(&running.front) = Some(front),
            Err(error) => {
                running.drain();
                return Err(StartError::Thread(error));
            }
        }
        Ok(running)
    }

    /// Makes the server what `new` says: devices, exports and cgroups are added, changed and removed, all or none. What
    /// only a restart changes is named in the answer and stays as it is. O(cgroups) for each device. With `force` exports
    /// that have connections are removed, too.
    ///
    /// # Errors
    /// The first thing that is in the way; then everything is as before.
    pub async fn apply(&self, new: &Config, force: bool) -> Result<Changes, ApplyError> {
        let applied = change::apply(self, new, OnFailure::Refuse, force, ReadAgain::Changed).await;
        applied.map(|(changes, _)| changes)
    }

    /// As [`Running::apply`], and files that it names are read anew also where their names are as before. Answers the
    /// differences themselves, too, for the log.
    ///
    /// # Errors
    /// As [`Running::apply`].
    pub async fn reload(
        &self,
        new: &Config,
        force: bool,
    ) -> Result<(Changes, Vec<Difference>), ApplyError> {
        change::apply(self, new, OnFailure::Refuse, force, ReadAgain::All).await
    }

    /// Sees that a device has grown: new connections to exports that reach to its end find it so.
    ///
    /// # Errors
    /// There is no such device, or it has not grown.
    pub async fn grow(&self, device: &str) -> Result<Grown, ApplyError> {
        change::grow(self, device).await
    }

    /// The certificates of the configuration that runs, where it has any.
    pub fn certificates(&self) -> Option<Arc<CurrentCertificates>> {
        self.certificates.clone()
    }

    /// The tokens of the configuration that runs.
    pub(crate) fn tokens(&self) -> Arc<Tokens> {
        Arc::clone(&lock(&self.tokens))
    }

    /// The configuration that runs: as last applied, without what only a restart changes.
    pub async fn config(&self) -> Config {
        self.config.lock().await.clone()
    }

    /// What would run if `new` were applied over `old`: without what only a restart changes, and without devices that
    /// could not be opened.
    pub(crate) fn would_run(&self, old: &Config, new: &Config) -> Config {
        change::would_run(self, old, new)
    }

    /// Takes note that the devices have been set as `new` says.
    pub(crate) async fn note(&self, new: &Config) {
        let mut config = self.config.lock().await;
        *config = change::would_run(self, &config, new);
    }

    /// Connections to an export.
    pub(crate) fn connections(&self, export: ExportId) -> u32 {
        self.shared.seats.taken_of(export)
    }

    /// Devices and exports as they are now.
    pub(crate) fn tables(&self) -> Arc<Tables> {
        self.shared.registry.tables()
    }

    /// The device threads, in the order of the configuration.
    pub fn devices(&self) -> Vec<DeviceHandle> {
        self.shared.registry.tables().devices.clone()
    }

    /// Asks the thread that lets connections in to answer `within` a time.
    pub async fn front_heartbeat(&self, within: Duration) -> Heartbeat {
        let Some(answer) = lock(&self.front).as_ref().map(Front::ping) else {
            return Heartbeat::Ended;
        };
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(())) => Heartbeat::Turns,
            Ok(Err(_)) => Heartbeat::Ended,
            Err(_) => Heartbeat::Silent,
        }
    }

    /// What clients of each export have had, by the names of these. O(exports).
    pub fn exports(&self) -> Vec<ExportStatus> {
        let tables = self.shared.registry.tables();
        let exports = tables.exports.iter().map(|served| ExportStatus {
            export: served.nbd.name.clone(),
            device: tables
                .device(served.device)
                .map(|device| device.name.clone())
                .unwrap_or_default(),
            cgroup: served.cgroup.to_string(),
            ..served.counters.status()
        });
        let mut exports: Vec<ExportStatus> = exports.collect();
        exports.sort_by(|one, other| one.export.cmp(&other.export));
        exports
    }

    /// What clients of each export have had, with all times, by the names of these. O(exports).
    pub(crate) fn export_metrics(&self) -> Vec<ExportMetrics> {
        let tables = self.shared.registry.tables();
        let served = |status: &ExportStatus| tables.exports.named(&status.export);
        let exports = self.exports().into_iter().filter_map(|status| {
            let times = served(&status)?.counters.times();
            Some(ExportMetrics { status, times })
        });
        exports.collect()
    }

    /// Remembers latencies of exports as they are now, from which those of the last seconds are counted.
    pub fn sample_exports(&self) {
        let tables = self.shared.registry.tables();
        tables.exports.iter().for_each(|served| served.counters.sample());
    }

    /// How the listeners are.
    pub fn listeners(&self) -> ListenersStatus {
        self.accepts.status()
    }

    /// Exports and the NBD URIs that lead to them; several for one export where the server listens in several places.
    pub fn uris(&self) -> Vec<(String, String)> {
        let tables = self.shared.registry.tables();
        let names = tables.exports.iter().map(|export| export.nbd.name.as_str());
        let scheme = if self.mode == TlsMode::Required { "nbds" } else { "nbd" };
        uris(names, self.socket.as_deref(), scheme, &self.addresses)
    }

    /// The files of its Unix sockets, for a caller that ends the process without [`Running::join`].
    pub fn socket_files(&self) -> Vec<SocketFile> {
        lock(&self.sockets).iter().map(|socket| socket.file().clone()).collect()
    }

    /// Starts [`DeviceHandle::drain`] of every device, and closes the listeners.
    pub fn drain(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        self.devices().iter().for_each(DeviceHandle::drain);
        if let Some(front) = lock(&self.front).take() {
            front.stop();
        }
    }

    /// Waits until the last connection that has chosen an export is over; not before there was one.
    pub async fn all_left(&self) {
        self.shared.presence.all_left().await;
    }

    /// Waits until no connection is left, also of those that have not chosen an export; not before there was one.
    pub async fn client_left(&self) {
        self.shared.seats.all_left().await;
    }

    /// Whether a device thread has ended: all of them, after a drain, or one that failed.
    pub fn has_ended(&self) -> bool {
        lock(&self.threads).iter().any(|thread| thread.handle.is_finished())
    }

    /// Waits until every device thread has ended, and takes the sockets away.
    ///
    /// # Errors
    /// All threads that failed.
    ///
    /// # Panics
    /// When a device thread panicked.
    pub fn join(&self) -> Result<(), EndError> {
        let threads = std::mem::take(&mut *lock(&self.threads));
        let failed: Vec<(String, DeviceError)> = threads
            .into_iter()
            .filter_map(|thread| match thread.handle.join() {
                Ok(result) => result.err().map(|error| (thread.name, error)),
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect();
        if let Some(tls) = &self.tls {
            tls.finish();
        }
        if let Some(recordings) = &self.recordings {
            recordings.finish();
        }
        lock(&self.sockets).clear();
        if failed.is_empty() { Ok(()) } else { Err(EndError(failed)) }
    }

    /// Takes the thread of a device that is removed out of those that are to run.
    pub(crate) fn take_thread(&self, device: DeviceId) -> Option<Thread> {
        let mut threads = lock(&self.threads);
        let found = threads.iter().position(|thread| thread.device == device)?;
        Some(threads.swap_remove(found))
    }

    /// Whether [`Running::drain`] has been called.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// A number that no other device and no other export has.
    pub(crate) fn next_id(&self) -> u32 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

/// Locks what stays whole whatever panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What device threads failed with, by the device's name; at least one.
#[derive(Debug)]
pub struct EndError(pub Vec<(String, DeviceError)>);

impl fmt::Display for EndError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (device, error)) in self.0.iter().enumerate() {
            let separator = if number > 0 { "; " } else { "" };
            write!(f, "{separator}device `{device}`: {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for EndError {}

/// How long a socket may seem alive whose server was killed just now; ten times what the kernel took here.
const DYING_MAX: Duration = Duration::from_millis(500);

type Listening = (Vec<Listener>, Vec<BoundSocket>, Vec<ListenAddress>);

fn listen(config: &Config, given: Vec<Listener>) -> Result<Listening, StartError> {
    let mut listening: Listening = (given, Vec::new(), Vec::new());
    if let Some(path) = &config.server.socket
        && !listening.0.iter().any(|given| given.path().as_ref() == Some(path))
    {
        let (listener, socket) = bind_unix(path, config.server.socket_mode, DYING_MAX)?;
        listening.0.push(Listener::Unix(listener));
        listening.1.push(socket);
    }
    for &address in &config.server.listen {
        if listening.0.iter().any(|given| given.address() == Some(address)) {
            listening.2.push(address);
            continue;
        }
        let fail = |source| StartError::Listen { address: address.to_string(), source };
        let listener = match address {
            ListenAddress::Tcp(address) => TcpListener::bind(address).map(Listener::Tcp),
            ListenAddress::Vsock { cid, port } => vsock::bind(cid, port).map(Listener::Vsock),
        };
        let listener = listener.map_err(fail)?;
        // It has been given a port where that was 0.
        listening.2.push(listener.address().unwrap_or(address));
        listening.0.push(listener);
    }
    Ok(listening)
}

/// What the files under `[tls]` say.
fn certificates(config: &Config) -> Result<Option<Arc<CurrentCertificates>>, CertificateError> {
    let Some(tls) = &config.tls else { return Ok(None) };
    let certificates = CertificateFiles::from(tls).read()?;
    certificates.warnings.iter().for_each(|warning| warn!("{warning}"));
    Ok(Some(Arc::new(CurrentCertificates::new(certificates.configs))))
}

/// The threads that encrypt NBD, if there are to be any.
fn tls(
    config: &Config,
    certificates: &Arc<CurrentCertificates>,
    shared: &Shared,
) -> Result<Option<Tls>, StartError> {
    let Some(tls) = config.tls.as_ref().filter(|_| config.server.tls != TlsMode::Off) else {
        return Ok(None);
    };
    let Shared { registry, seats, .. } = shared;
    let shared = (Arc::clone(registry), Arc::clone(seats), config.server.max_connections);
    let started = Tls::start(tls, config.server.tls, Arc::clone(certificates), shared);
    started.map(Some).map_err(StartError::Thread)
}

/// How clients get to each export.
fn uris<'a>(
    exports: impl Iterator<Item = &'a str>,
    socket: Option<&Path>,
    scheme: &str,
    addresses: &[ListenAddress],
) -> Vec<(String, String)> {
    let mut uris = Vec::new();
    for name in exports {
        let encoded = percent_encoded(name, "");
        if let Some(socket) = socket {
            let socket = percent_encoded(&socket.to_string_lossy(), "/");
            uris.push((name.to_owned(), format!("nbd+unix:///{encoded}?socket={socket}")));
        }
        for address in addresses {
            let uri = match address {
                ListenAddress::Tcp(address) => format!("{scheme}://{address}/{encoded}"),
                ListenAddress::Vsock { cid, port } => {
                    let cid = cid.unwrap_or(vsock::CID_HOST);
                    format!("{scheme}+vsock://{cid}:{port}/{encoded}")
                }
            };
            uris.push((name.to_owned(), uri));
        }
    }
    uris
}

/// `text` as part of a URI (RFC 3986): letters, digits, `-._~` and `safe` as they are.
fn percent_encoded(text: &str, safe: &str) -> String {
    text.bytes()
        .map(|byte| match char::from(byte) {
            c if c.is_ascii_alphanumeric() || "-._~".contains(c) || safe.contains(c) => {
                c.to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// As many descriptors as the system lets us have: each connection takes one.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it fewer connections are accepted, which the log then says.
    let _ = setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use super::percent_encoded;

    #[test]
    fn names_in_uris_survive() {
        assert_eq!(percent_encoded("vm1", ""), "vm1");
        assert_eq!(percent_encoded("a b/ü", ""), "a%20b%2F%C3%BC");
        assert_eq!(percent_encoded("/run/x y.sock", "/"), "/run/x%20y.sock");
    }
}
