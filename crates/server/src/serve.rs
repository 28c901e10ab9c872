//! From a configuration to a running server: devices opened, sockets bound, threads started.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use tracing::info;
use weir_config::{Backend as Source, Config, DeviceConfig, Direct};
use weir_disk::DiskModel;
use weir_nbd::{BlockSizes, Export, ExportId, Features};
use weir_uring::{Backend, DirectMode, DiskKind, OpenError, OpenOptions};

use crate::command::Setting;
use crate::device::{self, DeviceError, DeviceHandle, Setup};
use crate::exports::{ExportTable, Served};
use crate::presence::Presence;
use crate::seats::Seats;
use crate::unix_socket::{BindError, BoundSocket, SocketFile, bind_unix};

/// A server at work: its device threads, and the sockets that are taken away when it ends.
#[derive(Debug)]
pub struct Running {
    handles: Arc<Vec<DeviceHandle>>,
    /// By their device's name.
    threads: Vec<(String, JoinHandle<Result<(), DeviceError>>)>,
    uris: Vec<(String, String)>,
    sockets: Vec<BoundSocket>,
    presence: Arc<Presence>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A device cannot be opened.
    #[error("device `{device}`: {source}")]
    Open {
        /// Its name.
        device: String,
        /// Why.
        source: OpenError,
    },
    /// An export's range reaches past its device.
    #[error("export `{export}`: its range ends at byte {end}, device `{device}` has {size} bytes")]
    Range {
        /// Its name.
        export: String,
        /// Its device.
        device: String,
        /// Where the range ends.
        end: u64,
        /// How long the device is.
        size: u64,
    },
    /// A Unix socket cannot be bound.
    #[error("cannot listen on {0}")]
    Bind(#[from] BindError),
    /// A TCP socket cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// A device thread did not start.
    #[error("device `{device}`: {source}")]
    Device {
        /// Its name.
        device: String,
        /// Why.
        source: DeviceError,
    },
    /// The system has no thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl Running {
    /// Opens the devices, binds the sockets and starts a thread for each device. Connections are served when it
    /// returns.
    ///
    /// # Errors
    /// The first thing that is in the way. Nothing runs then, and no socket is left behind.
    pub fn start(config: &Config) -> Result<Running, StartError> {
        raise_open_files();
        let mut backends = Vec::new();
        for device in &config.devices {
            let opened = open(device)
                .map_err(|source| StartError::Open { device: device.name.clone(), source })?;
            backends.push(opened);
        }
        let exports = Arc::new(exports(config, &backends)?);
        let (listeners, sockets, addresses) = listen(config)?;
        let (handles, receivers): (Vec<_>, Vec<_>) =
            config.devices.iter().map(device::prepare).unzip();
        let handles = Arc::new(handles);
        let of_export = config.server.max_connections_per_export(config.exports.len());
        let per_export =
            config.exports.iter().map(|export| export.max_connections.unwrap_or(of_export));
        let seats = Arc::new(Seats::new(
            config.server.max_connections,
            config.server.max_connections_per_client,
            per_export.collect(),
        ));
        let mut running = Running {
            uris: uris(&exports, config.server.socket.as_deref(), &addresses),
            handles: Arc::clone(&handles),
            threads: Vec::new(),
            sockets,
            presence: Arc::default(),
        };
        let mut listeners = Some(listeners);
        let parts = config.devices.iter().zip(backends).zip(receivers).enumerate();
        // The first device's thread lets connections in, so it starts last, when the others can take them over.
        for (index, ((device, (backend, model)), receiver)) in parts.rev() {
            if backend.info().kind == DiskKind::Memory {
                let device = &device.name;
                info!(
                    device,
                    "memory: what is written, flushed or not, is gone when the server ends"
                );
            }
            let setup = Setup {
                name: device.name.clone(),
                path: source_name(&device.backend),
                index,
                backend,
                model,
                engine: device.engine,
                cache: device.cache,
                settings: settings(config, index),
                exports: Arc::clone(&exports),
                threads: Arc::clone(&handles),
                presence: Arc::clone(&running.presence),
                listeners: if index == 0 {
                    listeners.take().unwrap_or_default()
                } else {
                    Vec::new()
                },
                drain_ns: u64::try_from(config.server.drain_time.as_nanos()).unwrap_or(u64::MAX),
                seats: Arc::clone(&seats),
                cgroups_max: config.server.max_cgroups as usize,
            };
            let (ready, started) = sync_channel(1);
            let thread = device::spawn(setup, receiver, ready).map_err(StartError::Thread)?;
            running.threads.push((device.name.clone(), thread));
            if let Ok(Err(source)) = started.recv() {
                running.drain();
                return Err(StartError::Device { device: device.name.clone(), source });
            }
        }
        Ok(running)
    }

    /// The device threads, in the order of the configuration.
    pub fn devices(&self) -> &[DeviceHandle] {
        &self.handles
    }

    /// Exports and the NBD URIs that lead to them; several for one export where the server listens in several places.
    pub fn uris(&self) -> &[(String, String)] {
        &self.uris
    }

    /// The files of its Unix sockets, for a caller that ends the process without [`Running::join`].
    pub fn socket_files(&self) -> Vec<SocketFile> {
        self.sockets.iter().map(|socket| socket.file().clone()).collect()
    }

    /// Starts [`DeviceHandle::drain`] of every device.
    pub fn drain(&self) {
        self.handles.iter().for_each(DeviceHandle::drain);
    }

    /// Waits until the last connection that has chosen an export is over; not before there was one.
    pub async fn all_left(&self) {
        self.presence.all_left().await;
    }

    /// Whether a device thread has ended: all of them, after a drain, or one that failed.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(|(_, thread)| thread.is_finished())
    }

    /// Waits until every device thread has ended, and takes the sockets away.
    ///
    /// # Errors
    /// All threads that failed.
    ///
    /// # Panics
    /// When a device thread panicked.
    pub fn join(mut self) -> Result<(), EndError> {
        let failed: Vec<(String, DeviceError)> = self
            .threads
            .drain(..)
            .filter_map(|(device, thread)| match thread.join() {
                Ok(result) => result.err().map(|error| (device, error)),
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect();
        drop(self.sockets);
        if failed.is_empty() { Ok(()) } else { Err(EndError(failed)) }
    }
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

type Opened = (Backend, Option<Box<dyn DiskModel>>);

fn open(device: &DeviceConfig) -> Result<Opened, OpenError> {
    match &device.backend {
        Source::File { path, direct } => {
            let direct = match direct {
                Direct::Auto => DirectMode::Auto,
                Direct::On => DirectMode::On,
                Direct::Off => DirectMode::Off,
            };
            let options =
                OpenOptions { read_only: device.read_only, direct, ..OpenOptions::default() };
            Ok((Backend::open(path, options)?, None))
        }
        Source::Memory { size } => Ok((Backend::memory(*size)?, None)),
        Source::Emulated(spec) => Ok((Backend::memory(spec.size())?, Some(spec.build()))),
    }
}

fn source_name(source: &Source) -> String {
    match source {
        Source::File { path, .. } => path.display().to_string(),
        Source::Memory { size } => format!("memory:{size}"),
        Source::Emulated(spec) => format!("emulated:{spec}"),
    }
}

/// What clients are told of each export.
fn exports(config: &Config, backends: &[Opened]) -> Result<ExportTable, StartError> {
    let mut table = ExportTable::default();
    for export in &config.exports {
        let device = &config.devices[export.device];
        let info = backends[export.device].0.info();
        let end = export.range.end.unwrap_or(info.size);
        if end > info.size || export.range.start >= end {
            return Err(StartError::Range {
                export: export.name.clone(),
                device: device.name.clone(),
                end: end.max(export.range.start),
                size: info.size,
            });
        }
        let features = Features {
            read_only: export.read_only || info.read_only,
            flush: true,
            fua: true,
            rotational: is_rotational(device, info.rotational),
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            // One queue of one device is behind every connection: what one has flushed, all have. A client that is told
            // so opens several, and would fail where there may be one.
            multi_conn: config.server.max_connections > 1,
            cache: true,
        };
        let preferred = info.block_bytes.clamp(4096, 1 << 20);
        let block_sizes = BlockSizes::new(1, preferred, MAX_PAYLOAD).unwrap_or(BlockSizes::DEFAULT);
        table.push(Served {
            nbd: Export {
                id: ExportId(0),
                name: export.name.clone(),
                description: export.description.clone(),
                size: end - export.range.start,
                features,
                block_sizes,
            },
            device: export.device,
            cgroup: export.cgroup.clone(),
            start: export.range.start,
        });
    }
    Ok(table)
}

/// Whether seeks take time: the model of an emulated device knows, of others the system.
fn is_rotational(device: &DeviceConfig, known: Option<bool>) -> bool {
    match &device.backend {
        Source::Emulated(spec) => spec.is_rotational(),
        Source::File { .. } | Source::Memory { .. } => known == Some(true),
    }
}

/// How long a socket may seem alive whose server was killed just now; ten times what the kernel took here.
const DYING_MAX: Duration = Duration::from_millis(500);

/// The largest read or write: what clients expect of every server.
const MAX_PAYLOAD: u32 = 32 << 20;

type Listening = (Vec<OwnedFd>, Vec<BoundSocket>, Vec<SocketAddr>);

fn listen(config: &Config) -> Result<Listening, StartError> {
    let mut listening: Listening = Default::default();
    if let Some(path) = &config.server.socket {
        let (listener, socket) = bind_unix(path, config.server.socket_mode, DYING_MAX)?;
        listening.0.push(listener.into());
        listening.1.push(socket);
    }
    for address in &config.server.listen {
        let fail = |source| StartError::Listen { address: address.to_string(), source };
        let listener = TcpListener::bind(address).map_err(fail)?;
        listening.2.push(listener.local_addr().map_err(fail)?);
        listening.0.push(listener.into());
    }
    Ok(listening)
}

/// The cgroups' settings on one device, parents first.
fn settings(config: &Config, device: usize) -> Vec<(weir_engine::Path, Setting)> {
    let watermark = Setting::Watermark(Some(config.devices[device].watermark));
    let root = weir_engine::Path::parse("/").expect("the root's path");
    let mut settings = vec![(root, watermark)];
    for cgroup in &config.cgroups {
        let mut set = |setting| settings.push((cgroup.path.clone(), setting));
        set(Setting::Weight(cgroup.weight_on(device)));
        set(Setting::PrioClass(cgroup.prio_class));
        set(Setting::LowLatency(cgroup.low_latency));
        set(Setting::Watermark(cgroup.watermark));
        set(Setting::Limiter(cgroup.limiter));
        if let Some(found) = cgroup.limits.iter().find(|limits| limits.device == device) {
            set(Setting::Limits(found.limits));
        }
    }
    settings
}

/// How clients get to each export.
fn uris(
    exports: &ExportTable,
    socket: Option<&Path>,
    addresses: &[SocketAddr],
) -> Vec<(String, String)> {
    let mut uris = Vec::new();
    for export in exports.iter() {
        let name = &export.nbd.name;
        let encoded = percent_encoded(name, "");
        if let Some(socket) = socket {
            let socket = percent_encoded(&socket.to_string_lossy(), "/");
            uris.push((name.clone(), format!("nbd+unix:///{encoded}?socket={socket}")));
        }
        for address in addresses {
            uris.push((name.clone(), format!("nbd://{address}/{encoded}")));
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
