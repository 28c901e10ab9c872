//! Control thread: signals, the control API, and the end of the device threads.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use weir_config::{Config, ServerConfig};
use weir_server::control::{self, Access, ControlSocket, Guard, RemoteSocket};
use weir_server::tenants::{Files, Reload, Tenants};
use weir_server::{Allowed, ApplyError, BindError, Running, SocketFile, StartError, group_id};
use weir_uring::OpenError;

use super::inherited::Inherited;
use super::{Control, manager, reload};
use crate::failure::Failure;
use crate::output;
use crate::runtime_dir::{CONTROL, CONTROL_READ, METRICS};
use crate::signals::{self, Signals, Terminal};

/// How often to look whether a device thread has failed. Only a broken server waits for this.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time for device threads to report cut requests, after a second signal.
const AT_ONCE_MAX: Duration = Duration::from_secs(1);
/// Additional paths to try for a default control socket.
const ASIDE_MAX: u32 = 9;

/// Serves until a signal or a failure ends it.
pub(super) fn serve(
    config: &Config,
    control: Option<&Control>,
    files: Option<Files>,
    inherited: Inherited,
    client: Option<OwnedFd>,
) -> Result<(), Failure> {
    let runtime = signals::runtime()?;
    runtime.block_on(async {
        // First of all, so that a signal during the start is not lost.
        let mut signals = Signals::with_hangup()?;
        let terminal = Terminal::of_this_process();
        let Inherited { nbd, control: changing, control_read, metrics, metrics_listen } = inherited;
        let given = Given { changing, reading: control_read, metrics };
        let sockets = bind(control, &config.server, given)?;
        let listeners = listen(&config.server.control_listen, "control_listen")?;
        let mut metrics_listeners = listen(&config.server.metrics_listen, "metrics_listen")?;
        metrics_listeners.extend(metrics_listen);
        let mut allowed = Allowed::new(config);
        if let Some(files) = &files {
            allowed = allowed.with_files(files.main(), config);
        }
        for file in sockets.iter().filter_map(ControlSocket::file) {
            allowed = allowed.with_socket(file.path());
        }
        let is_single = client.is_some();
        let started = match client {
            Some(client) => Running::start_single(config, client, allowed).await,
            None => Running::start_with(config, nbd, Some(allowed)).await,
        };
        let running = started.map_err(|error| Failure::failed(&error).hint(start_hint(&error)))?;
        let running = Arc::new(running);
        let tenants = Tenants::new(Arc::clone(&running), files).telling(tell_manager);
        let tenants = Arc::new(tenants);
        let mut files = running.socket_files();
        files.extend(sockets.iter().filter_map(ControlSocket::file).cloned());
        let place = |socket: &ControlSocket| match socket.file() {
            Some(file) => file.path().display().to_string(),
            None => "given".to_owned(),
        };
        let (metrics, controls): (Vec<_>, Vec<_>) =
            sockets.iter().partition(|socket| socket.is_of_metrics());
        let [control, control_read, metrics] = [controls.first(), controls.get(1), metrics.first()]
            .map(|socket| socket.map(|s| place(s)));
        let control = control.map(tracing::field::display);
        let (control_listen, metrics_listen) =
            (addresses(&listeners), addresses(&metrics_listeners));
        tracing::info!(control, control_read, control_listen, metrics, metrics_listen, "serving");
        let remote = running.certificates().map(|certificates| {
            let remote = |listener| RemoteSocket::new(listener, Arc::clone(&certificates));
            listeners.into_iter().map(remote).collect()
        });
        let uris: String = running.uris().iter().map(|(_, uri)| format!("{uri}\n")).collect();
        output::print(&uris).map_err(|failure| match failure {
            // Its starter does not know where it is: not the end that a reader asks for after enough output.
            Failure::Output(error) => Failure::failed(format!("standard output: {error}")),
            other => other,
        })?;
        let control = Arc::new(control::Control::new(Arc::clone(&tenants)));
        let guard = Guard {
            hosts: config.server.control_hosts.clone(),
            origins: config.server.control_origins.clone(),
        };
        let api = tokio::spawn(control::serve(
            sockets,
            remote.unwrap_or_default(),
            metrics_listeners,
            Arc::clone(&control),
            guard,
        ));
        let sampled = Arc::clone(&control);
        let sampler = tokio::spawn(async move { sampled.keep_sampling().await });
        manager::ready(&serving(&running.config().await));
        let watch = tokio::spawn(manager::watch(Arc::clone(&running)));
        let why = loop {
            let why = tokio::select! {
                number = signals.next() => Why::Signal(number),
                () = running.all_left(), if config.server.exit_last => Why::LastLeft,
                () = running.client_left(), if is_single => Why::LastLeft,
                () = failed(&running) => Why::Failed,
            };
            match why {
                Why::Signal(signals::HANGUP) if !terminal.has_closed() => signals.was_no_end(),
                why => break why,
            }
            reload::reload(&control, &tenants).await;
        };
        let within = config.server.drain_time;
        match why {
            Why::Signal(number) => {
                let signal = signals::name(number);
                tracing::info!(signal, ?within, "ending: requests under way are finished");
            }
            Why::LastLeft => tracing::info!(?within, "ending: the last client has left"),
            Why::Failed => tracing::error!("a device thread has ended: ending"),
        }
        control.set_ending();
        manager::stopping(&format!("ending: requests under way have {within:?}"));
        let extend = tokio::spawn(manager::extend(running.devices(), within));
        running.drain();
        let joining = Arc::clone(&running);
        let mut join = tokio::task::spawn_blocking(move || joining.join());
        let joined = tokio::select! {
            joined = &mut join => joined,
            number = next_end(&mut signals) => {
                tracing::warn!(signal = signals::name(number), "ending at once");
                running.drain();
                tokio::select! {
                    _ = join => {}
                    () = tokio::time::sleep(AT_ONCE_MAX) => {}
                    _ = next_end(&mut signals) => {}
                }
                files.iter().for_each(SocketFile::remove);
                std::process::exit(128 + i32::from(number))
            }
        };
        extend.abort();
        watch.abort();
        sampler.abort();
        // Ends it before the runtime does, so that its socket is gone when the process is.
        api.abort();
        let _ = api.await;
        match joined {
            Ok(Ok(())) if !matches!(why, Why::Failed) => {
                tracing::info!("ended: every request was finished");
                Ok(())
            }
            Ok(Ok(())) => Err(Failure::failed("a device thread ended unasked: see the log")),
            Ok(Err(error)) => Err(Failure::failed(error)),
            Err(_) => Err(Failure::failed("a device thread panicked: see above")),
        }
    })
}

/// Tells the service manager of a reload.
fn tell_manager(reload: Reload<'_>) {
    match reload {
        Reload::Begins => manager::reloading(),
        Reload::Ends(config) => manager::ready(&serving(config)),
    }
}

/// What the server does, for its service manager.
fn serving(config: &Config) -> String {
    let exports = counted(config.exports.len(), "export");
    format!("serving {exports} of {}", counted(config.devices.len(), "device"))
}

/// `1 export`, `2 exports`.
fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Why a server ends.
#[derive(Clone, Copy, Debug)]
enum Why {
    Signal(u8),
    /// The last client has left, and that was to be the end.
    LastLeft,
    /// A device thread has ended by itself.
    Failed,
}

/// The next signal to end, in a server that is ending.
async fn next_end(signals: &mut Signals) -> u8 {
    loop {
        match signals.next().await {
            // Nothing is read again any more.
            signals::HANGUP => signals.was_no_end(),
            number => return number,
        }
    }
}

/// Ready when a device thread has ended by itself.
async fn failed(running: &Running) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    while !running.has_ended() {
        look.tick().await;
    }
}

/// Control sockets that the starter of this process has bound.
struct Given {
    changing: Option<UnixListener>,
    reading: Option<UnixListener>,
    metrics: Option<UnixListener>,
}

/// The control sockets: the one that takes changes, one that only reads if there is to be one, and one for metrics; none
/// without `control`. Those that are `given` are not bound.
fn bind(
    control: Option<&Control>,
    server: &ServerConfig,
    given: Given,
) -> Result<Vec<ControlSocket>, Failure> {
    let group = |name: &Option<String>, key: &str| -> Result<Option<u32>, Failure> {
        let id = name.as_deref().map(group_id).transpose();
        id.map_err(|error| Failure::failed(format!("`{key}` of [server]: {error}")))
    };
    let group_of_changing = group(&server.control_group, "control_group")?;
    let group_of_reading = group(&server.control_read_group, "control_read_group")?;
    let changing = |path: &Path| {
        ControlSocket::bind(path, Access::Change, server.control_mode, group_of_changing)
    };
    let fail = |error: BindError, key: &str| {
        let hint = match &error {
            BindError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                "this user may not make that file, or not give it to that group".to_owned()
            }
            _ => format!("choose another path with `{key}` under [server]"),
        };
        Failure::failed(format!("control socket: {error}")).hint(hint)
    };
    let Some(control) = control else { return Ok(Vec::new()) };
    let first = match given.changing {
        Some(listener) => ControlSocket::given(listener, Access::Change),
        None => {
            let mut bound = changing(&control.path);
            for number in 2..=ASIDE_MAX {
                if !(control.may_move && matches!(bound, Err(BindError::Live { .. }))) {
                    break;
                }
                bound = changing(&aside(&control.path, number));
            }
            bound.map_err(|error| fail(error, "control"))?
        }
    };
    let read = match (&control.read, first.file()) {
        (Some(path), _) => Some(path.clone()),
        (None, Some(file)) if control.may_move => Some(beside(file.path(), CONTROL_READ)),
        _ => None,
    };
    let metrics = match (&control.metrics, first.file()) {
        (Some(path), _) => Some(path.clone()),
        // A collector finds it, whatever the control socket is called.
        (None, file) => file.map(|file| beside(file.path(), METRICS)),
    };
    let mut sockets = vec![first];
    if let Some(listener) = given.reading {
        sockets.push(ControlSocket::given(listener, Access::Read));
    } else if let Some(path) = read {
        let mode = server.control_read_mode;
        let reading = ControlSocket::bind(&path, Access::Read, mode, group_of_reading);
        sockets.push(reading.map_err(|error| fail(error, "control_read"))?);
    }
    if let Some(listener) = given.metrics {
        sockets.push(ControlSocket::given(listener, Access::Read).of_metrics());
    } else if let Some(path) = metrics {
        let mode = server.metrics_mode;
        let group = group(&server.metrics_group, "metrics_group")?;
        let socket = ControlSocket::bind(&path, Access::Read, mode, group);
        sockets.push(socket.map_err(|error| fail(error, "metrics"))?.of_metrics());
    }
    Ok(sockets)
}

/// The TCP sockets of `key`.
fn listen(addresses: &[SocketAddr], key: &str) -> Result<Vec<TcpListener>, Failure> {
    let bind = |address: &SocketAddr| {
        TcpListener::bind(address).map_err(|error| {
            let message = format!("`{key}` of [server]: {address}: {error}");
            let hint = (error.kind() == ErrorKind::AddrInUse)
                .then(|| "another program listens there: choose another port".to_owned());
            Failure::failed(message).hint(hint)
        })
    };
    addresses.iter().map(bind).collect()
}

/// Where `listeners` listen, for the log.
fn addresses(listeners: &[TcpListener]) -> Option<String> {
    let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok());
    addresses.map(|address| address.to_string()).reduce(|a, b| format!("{a} {b}"))
}

/// As `disk.metrics.sock` beside `disk.control.sock`, or beside `disk.sock`.
fn beside(path: &Path, end: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match (name.strip_suffix(CONTROL), name.strip_suffix(".sock")) {
        (Some(stem), _) => path.with_file_name(format!("{stem}{end}")),
        (None, stem) => path.with_file_name(format!("{}.{end}", stem.unwrap_or(&name))),
    }
}

/// `disk.2.control.sock` beside `disk.control.sock`.
fn aside(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(CONTROL).unwrap_or(&name);
    path.with_file_name(format!("{stem}{number}.{CONTROL}"))
}

fn start_hint(error: &StartError) -> Option<String> {
    match error {
        StartError::Bind(_) => {
            Some("choose another path with --socket, or `socket` under [server]".into())
        }
        StartError::Listen { address, source } if address.starts_with("vsock:") => {
            match source.kind() {
                ErrorKind::AddrInUse => {
                    Some("somebody listens there: choose another with --listen".into())
                }
                ErrorKind::AddrNotAvailable => Some(
                    "this machine does not have that CID; 1 needs the kernel module vsock_loopback"
                        .into(),
                ),
                ErrorKind::PermissionDenied => Some("ports below 1024 are root's".into()),
                _ if source.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => Some(
                    "this kernel has no vsock: load the module vsock, and vhost_vsock to be a host of virtual machines"
                        .into(),
                ),
                _ => None,
            }
        }
        StartError::Listen { source, .. } => match source.kind() {
            ErrorKind::AddrInUse => {
                Some("somebody listens there: choose another with --listen".into())
            }
            ErrorKind::PermissionDenied => Some("ports below 1024 are root's".into()),
            ErrorKind::AddrNotAvailable => Some("choose an address that this machine has".into()),
            _ => None,
        },
        StartError::Apply(ApplyError::Open { source: OpenError::Open { path, .. }, .. }) => {
            match std::fs::File::open(path) {
                Ok(_) => Some(
                    "it can be read: serve it with --read-only, or `read_only = true` of its device"
                        .into(),
                ),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    Some("serve it as a user who may read and write it".into())
                }
                Err(_) => None,
            }
        }
        StartError::Certificates(error) => Some(error.hint()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_server_is_beside_the_first() {
        let second = |path: &str| aside(Path::new(path), 2).display().to_string();
        assert_eq!(second("/run/weir/disk.control.sock"), "/run/weir/disk.2.control.sock");
        assert_eq!(second("/run/weir/control.sock"), "/run/weir/2.control.sock");
    }

    #[test]
    fn the_reading_socket_is_beside_the_other_and_not_taken_for_one() {
        let read = |path: &str| beside(Path::new(path), CONTROL_READ).display().to_string();
        assert_eq!(read("/run/weir/disk.control.sock"), "/run/weir/disk.control-read.sock");
        assert_eq!(read("/run/weir/control.sock"), "/run/weir/control-read.sock");
        assert!(!CONTROL_READ.ends_with(CONTROL));
    }
}
