//! From what a server serves to what a configuration says: devices, exports and cgroups added, changed and removed while
//! the others go on.
//!
//! ```text
//!  open new devices, start their threads ─► settings of those that stay ─► new tables ─► exports closed, devices drained
//!  └──────────── a failure takes all of it back ───────────────────────┘   └──────────── cannot fail ──────────────────┘
//! ```

mod changes;
mod open;
mod settings;

pub use self::changes::Changes;
pub(crate) use self::open::source_name;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::error;
use weir_config::{Config, DeviceConfig, Difference, ExportConfig, difference};
use weir_disk::DiskModel;
use weir_engine::Path;
use weir_nbd::ExportId;
use weir_uring::{Backend, OpenError};

use crate::access::Peers;
use crate::command::{Applied, Command, SetError, Setting};
use crate::control::Tokens;
use crate::device::{self, DeviceError, DeviceHandle, Gone, Setup};
use crate::exports::{DeviceId, ExportTable, Served};
use crate::registry::Tables;
use crate::serve::{Running, Thread, lock};
use crate::tls::{CertificateError, CertificateFiles, Certificates};

/// How much longer than its drain time a removed device may take.
const DRAIN_EXTRA: Duration = Duration::from_secs(5);

/// Why nothing of a configuration was applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A device cannot be opened.
    #[error("device `{device}`: {source}")]
    Open {
        /// Its name.
        device: String,
        /// Why.
        source: OpenError,
    },
    /// The sandbox does not let a device be where it is.
    #[error(
        "device `{device}`: {path} is outside the sandbox: add its directory to `sandbox_paths` under [server], and \
         restart the server"
    )]
    Sandboxed {
        /// Its name.
        device: String,
        /// Where it is.
        path: PathBuf,
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
    /// An export is not a whole number of its blocks.
    #[error(
        "export `{export}`: its size of {size} bytes is no multiple of its least block size, {min}: \
         clients could not reach its end"
    )]
    BlockSize {
        /// Its name.
        export: String,
        /// How long it is.
        size: u64,
        /// The least block size of the configuration.
        min: u32,
    },
    /// A certificate, or what belongs to it, cannot be used.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// A device's thread did not start.
    #[error("device `{device}`: {source}")]
    Device {
        /// Its name.
        device: String,
        /// Why.
        source: DeviceError,
    },
    /// The system has no thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// A device refused a setting.
    #[error("device `{device}`: cgroup {cgroup}: {error}")]
    Refused {
        /// The device.
        device: String,
        /// The cgroup.
        cgroup: Path,
        /// Why.
        error: Box<SetError>,
    },
    /// A device is not served any more.
    #[error("device `{0}`: {Gone}")]
    Gone(String),
    /// An export that is to be removed has clients.
    #[error("export `{export}` has {connections} connections")]
    Connected {
        /// Its name.
        export: String,
        /// How many.
        connections: u32,
    },
    /// There is no such device.
    #[error("there is no device `{0}`")]
    UnknownDevice(String),
    /// A device has not grown.
    #[error("device `{device}`: {reason}")]
    NotGrown {
        /// Its name.
        device: String,
        /// Why not.
        reason: String,
    },
    /// The server has been told to end.
    #[error("the server is ending")]
    Ending,
    /// None of several devices can be opened.
    #[error("no device can be opened")]
    NoDevice,
}

/// A device or an export that cannot be served: is all of the change refused?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnFailure {
    Refuse,
    /// The others are served; the log says what is left out.
    LeaveOut,
}

/// Files that a configuration names, such as certificates: which of them are read?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadAgain {
    /// Those whose names have changed.
    Changed,
    All,
}

/// A device whose thread runs and that is in no table yet.
struct Started {
    handle: DeviceHandle,
    thread: Thread,
}

/// As [`Running::apply`]; and the differences that the answer has as lines.
pub(crate) async fn apply(
    running: &Running,
    new: &Config,
    on_failure: OnFailure,
    force: bool,
    again: ReadAgain,
) -> Result<(Changes, Vec<Difference>), ApplyError> {
    let mut config = running.config.lock().await;
    let old = running.shared.registry.tables();
    let certificates = certificates(&config, new, again)?;
    let (opened, left_out) = open_devices(running, new, &old, on_failure)?;
    let new = &without(new, |name| {
        old.device_named(name).is_some() || opened.iter().any(|opened| opened.name == name)
    });
    // Numbers of those that are added come first, so that exports can name them.
    let added: Vec<(DeviceHandle, Receiver<Command>, Opened)> = opened
        .into_iter()
        .map(|opened| {
            let device = new.devices.iter().find(|device| device.name == opened.name);
            let device = device.expect("of this configuration");
            let facts = Arc::new(open::facts(device, &opened.backend));
            let (handle, commands) = device::prepare(DeviceId(running.next_id()), device, facts);
            (handle, commands, opened)
        })
        .collect();
    let tables = tables(running, (&config, new), &old, &added, on_failure)?;
    let gone: Vec<Arc<Served>> = changes::removed_exports(&old, &tables).cloned().collect();
    if !force {
        check_clients(running, &gone)?;
    }
    let started = start_all(running, new, &tables, added).await?;
    let set = match set_all(&old, &tables, &config, new).await {
        Ok(set) if !running.is_ending() => set,
        // A device that comes now would not be told to end.
        Ok(_) => {
            give_up(started).await;
            return Err(ApplyError::Ending);
        }
        Err(error) => {
            give_up(started).await;
            return Err(error);
        }
    };
    let mut changes = Changes::between(&old, &tables);
    changes.settings += set.iter().map(Applied::changed).sum::<usize>();
    let applied = effective(&config, new);
    changes.needs_restart = settings::needs_restart(&applied, new);
    let differences = difference(&config, &applied);
    changes.differences = differences.iter().map(ToString::to_string).collect();
    // Nothing fails from here on.
    if let Some(certificates) = certificates {
        changes.warnings.extend(certificates.warnings);
        if let Some(current) = &running.certificates {
            current.replace(certificates.configs);
        }
    }
    // Before devices are waited for: a token that is taken away is not taken any more.
    *lock(&running.tokens) = Arc::new(Tokens::new(&applied.tokens));
    *lock(&running.left_out) = left_out;
    let ended = old.devices.iter().filter(|device| tables.device(device.id).is_none());
    // All at once: one that ends while another is waited for has not ended unasked.
    let ended: Vec<(DeviceHandle, Option<Thread>)> =
        ended.map(|device| (device.clone(), running.take_thread(device.id))).collect();
    for Started { thread, .. } in started {
        lock(&running.threads).push(thread);
    }
    for export in tables.exports.iter() {
        let is_as_it_was = old.exports.get(export.nbd.id).is_some_and(|old| {
            (old.device, &old.cgroup, old.client_max)
                == (export.device, &export.cgroup, export.client_max)
        });
        if let (false, Some(device)) = (is_as_it_was, tables.device(export.device)) {
            // One that has ended is known elsewhere.
            let _ = device.send(Command::ServeExport(export.place()));
        }
    }
    let devices = tables.devices.clone();
    running.shared.registry.replace(tables);
    for export in &gone {
        for device in &old.devices {
            let _ = device.send(Command::CloseExport(export.nbd.id));
        }
    }
    remove_unlisted(&devices, &config, new).await;
    ended.iter().for_each(|(device, _)| device.drain());
    let within = config.server.drain_time + DRAIN_EXTRA;
    for thread in ended.into_iter().filter_map(|(_, thread)| thread) {
        let name = thread.name.clone();
        if let Err(error) = thread.ended(within).await {
            changes.warnings.push(format!("device `{name}`: {error}"));
        }
    }
    *config = applied;
    Ok((changes, differences))
}

/// As [`Running::grow`].
pub(crate) async fn grow(running: &Running, name: &str) -> Result<Grown, ApplyError> {
    // One change after another.
    let config = running.config.lock().await;
    let old = running.shared.registry.tables();
    let device = old.device_named(name).ok_or_else(|| ApplyError::UnknownDevice(name.into()))?;
    let gone = || ApplyError::Gone(name.into());
    let (reply, answer) = oneshot::channel();
    device.send(Command::Grow { reply }).map_err(|Gone| gone())?;
    let not = |reason: String| ApplyError::NotGrown { device: name.into(), reason };
    let size = answer.await.map_err(|_| gone())?.map_err(|reason| not(reason.into()))?;
    let before = device.facts().size;
    if size == before {
        return Err(not(format!("it has {size} bytes, as before")));
    }
    let mut tables = Tables::clone(&old);
    for handle in &mut tables.devices {
        if handle.id == device.id {
            *handle = handle.resized(size);
        }
    }
    let mut exports = Vec::new();
    let served: Result<ExportTable, ApplyError> = old
        .exports
        .iter()
        .map(|export| {
            let of = |config: &&ExportConfig| config.name == export.nbd.name;
            match config.exports.iter().find(of) {
                Some(found) if export.device == device.id && found.range.end.is_none() => {
                    exports.push(export.nbd.name.clone());
                    let facts = device.resized(size);
                    let place = (device.id, facts.facts());
                    open::serve(&config, found, export.nbd.id, place).map(Arc::new)
                }
                _ => Ok(Arc::clone(export)),
            }
        })
        .collect();
    tables.exports = served?;
    running.shared.registry.replace(tables);
    Ok(Grown { before, size, exports })
}

/// The certificates that `new` names, where they are to be read.
///
/// # Errors
/// The first that cannot be used.
fn certificates(
    old: &Config,
    new: &Config,
    again: ReadAgain,
) -> Result<Option<Certificates>, CertificateError> {
    match &new.tls {
        Some(tls) if again == ReadAgain::All || old.tls != new.tls => {
            CertificateFiles::from(tls).read().map(Some)
        }
        _ => Ok(None),
    }
}

/// A device that has grown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grown {
    /// Bytes that it had.
    pub before: u64,
    /// Bytes that it has.
    pub size: u64,
    /// Exports that have grown with it, for new connections.
    pub exports: Vec<String>,
}

/// A device that has been opened.
struct Opened {
    name: String,
    backend: Backend,
    model: Option<Box<dyn DiskModel>>,
}

/// Opens the devices of `new` that are not served yet; those, and those that are left out.
///
/// # Errors
/// The first one that cannot be opened, unless it is left out already and is as it was.
fn open_devices(
    running: &Running,
    new: &Config,
    old: &Tables,
    on_failure: OnFailure,
) -> Result<(Vec<Opened>, Vec<DeviceConfig>), ApplyError> {
    let mut opened = Vec::new();
    let added = new.devices.iter().filter(|device| old.device_named(&device.name).is_none());
    let before = lock(&running.left_out).clone();
    let mut left_out = Vec::new();
    for device in added {
        let name = device.name.clone();
        match open::open(device) {
            Ok((backend, model)) => opened.push(Opened { name, backend, model }),
            Err(source) if on_failure == OnFailure::LeaveOut || before.contains(device) => {
                error!(device = name, error = %source, "device left out, and its exports");
                left_out.push(device.clone());
            }
            Err(source) => return Err(cannot_open(running, name, source)),
        }
    }
    if left_out.len() == new.devices.len() {
        return Err(ApplyError::NoDevice);
    }
    Ok((opened, left_out))
}

fn cannot_open(running: &Running, device: String, source: OpenError) -> ApplyError {
    match source {
        OpenError::Open { path, source }
            if source.kind() == ErrorKind::PermissionDenied && running.sandbox.excludes(&path) =>
        {
            ApplyError::Sandboxed { device, path }
        }
        source => ApplyError::Open { device, source },
    }
}

/// `config` with those devices only that `is_there` knows, and their exports.
fn without(config: &Config, is_there: impl Fn(&str) -> bool) -> Config {
    let mut config = config.clone();
    let mut places = Vec::new();
    let mut kept = 0;
    for device in &config.devices {
        let is_kept = is_there(&device.name);
        places.push(is_kept.then_some(kept));
        kept += usize::from(is_kept);
    }
    config.devices.retain(|device| is_there(&device.name));
    config
        .exports
        .retain_mut(|export| places[export.device].map(|at| export.device = at).is_some());
    for cgroup in &mut config.cgroups {
        cgroup
            .limits
            .retain_mut(|limits| places[limits.device].map(|at| limits.device = at).is_some());
        cgroup
            .device_weights
            .retain_mut(|(device, _)| places[*device].map(|at| *device = at).is_some());
    }
    config
}

/// The tables that `new` makes: devices that stay keep their threads, exports that stay their numbers.
fn tables(
    running: &Running,
    (old_config, new): (&Config, &Config),
    old: &Tables,
    added: &[(DeviceHandle, Receiver<Command>, Opened)],
    on_failure: OnFailure,
) -> Result<Tables, ApplyError> {
    let device = |name: &str| {
        let added = added.iter().map(|(handle, ..)| handle);
        let found = old.devices.iter().chain(added).find(|device| device.name == name);
        found.expect("it stays or is added").clone()
    };
    let devices: Vec<DeviceHandle> =
        new.devices.iter().map(|config| device(&config.name)).collect();
    let before: BTreeMap<&str, &ExportConfig> =
        old_config.exports.iter().map(|export| (export.name.as_str(), export)).collect();
    let exports: Result<ExportTable, ApplyError> = new
        .exports
        .iter()
        .map(|export| -> Result<Arc<Served>, ApplyError> {
            let handle = &devices[export.device];
            let known = old.exports.named(&export.name);
            let is_as_it_was = before.get(export.name.as_str()).is_some_and(|&before| {
                old_config.devices[before.device].name == handle.name
                    && ExportConfig { device: export.device, ..before.clone() } == *export
            });
            match known {
                Some(served) if is_as_it_was && served.device == handle.id => {
                    let of_export = new.server.max_connections_per_export(new.exports.len());
                    let connections_max = export.max_connections.unwrap_or(of_export);
                    Ok(Arc::new(Served { connections_max, ..Served::clone(served) }))
                }
                _ => {
                    let id = known.map(|served| served.nbd.id);
                    let id = id.unwrap_or_else(|| ExportId(running.next_id()));
                    let mut served = open::serve(new, export, id, (handle.id, handle.facts()))?;
                    // Another device's thread counts for itself.
                    if let Some(known) = known.filter(|known| known.device == served.device) {
                        served.counters = Arc::clone(&known.counters);
                    }
                    Ok(Arc::new(served))
                }
            }
        })
        .filter(|export| match export {
            Err(error) if on_failure == OnFailure::LeaveOut => {
                error!(%error, "export left out");
                false
            }
            _ => true,
        })
        .collect();
    Ok(Tables { exports: exports?, devices, peers: Peers::new(&new.peers) })
}

/// # Errors
/// One of `exports` has connections.
fn check_clients(running: &Running, exports: &[Arc<Served>]) -> Result<(), ApplyError> {
    for export in exports {
        let connections = running.shared.seats.taken_of(export.nbd.id);
        if connections > 0 {
            return Err(ApplyError::Connected { export: export.nbd.name.clone(), connections });
        }
    }
    Ok(())
}

/// Starts the threads of added devices; all of them, or none.
async fn start_all(
    running: &Running,
    new: &Config,
    tables: &Tables,
    added: Vec<(DeviceHandle, Receiver<Command>, Opened)>,
) -> Result<Vec<Started>, ApplyError> {
    let mut started = Vec::new();
    for (handle, commands, opened) in added {
        match start(running, new, tables, handle, commands, opened).await {
            Ok(device) => started.push(device),
            Err(error) => {
                give_up(started).await;
                return Err(error);
            }
        }
    }
    Ok(started)
}

async fn start(
    running: &Running,
    new: &Config,
    tables: &Tables,
    handle: DeviceHandle,
    commands: Receiver<Command>,
    opened: Opened,
) -> Result<Started, ApplyError> {
    let index = new.devices.iter().position(|device| device.name == handle.name);
    let index = index.expect("of this configuration");
    let device = &new.devices[index];
    let exports = tables.exports.iter().filter(|export| export.device == handle.id);
    let disk = match &device.backend {
        weir_config::Backend::Emulated(spec) => Some(spec.to_string()),
        _ => None,
    };
    let recordings = running.recordings.as_ref();
    let recorder = recordings.and_then(|recordings| recordings.of_new_device(&handle, disk));
    let setup = Setup {
        name: device.name.clone(),
        path: source_name(&device.backend),
        backend: opened.backend,
        model: opened.model,
        engine: device.engine,
        part_bytes_max: device::PART_BYTES_MAX,
        cache: device.cache,
        recorder,
        settings: settings::settings(new, new, index),
        registry: Arc::clone(&running.shared.registry),
        exports: exports.map(|export| export.place()).collect(),
        handle: handle.clone(),
        presence: Arc::clone(&running.shared.presence),
        drain_ns: u64::try_from(new.server.drain_time.as_nanos()).unwrap_or(u64::MAX),
        seats: Arc::clone(&running.shared.seats),
        cgroups_max: new.server.max_cgroups as usize,
    };
    let (ready, started) = oneshot::channel();
    let thread = device::spawn(setup, commands, ready).map_err(ApplyError::Thread)?;
    if let Ok(Err(source)) = started.await {
        return Err(ApplyError::Device { device: device.name.clone(), source });
    }
    let (device, name) = (handle.id, handle.name.clone());
    Ok(Started { handle, thread: Thread { device, name, handle: thread } })
}

/// Ends threads of devices that never served.
async fn give_up(started: Vec<Started>) {
    for Started { handle, thread } in started {
        handle.drain();
        // The log has how it ended.
        let _ = thread.ended(DRAIN_EXTRA).await;
    }
}

/// Settings of the devices that stay; all of them, or none.
async fn set_all(
    old: &Tables,
    tables: &Tables,
    config: &Config,
    new: &Config,
) -> Result<Vec<Applied>, ApplyError> {
    let mut done: Vec<(&DeviceHandle, Applied)> = Vec::new();
    for (index, device) in tables.devices.iter().enumerate() {
        if old.device(device.id).is_none() {
            continue;
        }
        match set(device, settings::settings(config, new, index)).await {
            Ok(applied) => done.push((device, applied)),
            Err(error) => {
                for (device, applied) in done.into_iter().rev() {
                    take_back(device, applied).await;
                }
                return Err(error);
            }
        }
    }
    Ok(done.into_iter().map(|(_, applied)| applied).collect())
}

async fn set(device: &DeviceHandle, settings: Vec<(Path, Setting)>) -> Result<Applied, ApplyError> {
    let gone = || ApplyError::Gone(device.name.clone());
    let (reply, answer) = oneshot::channel();
    device.send(Command::Apply { settings, reply }).map_err(|Gone| gone())?;
    answer.await.map_err(|_| gone())?.map_err(|(cgroup, error)| ApplyError::Refused {
        device: device.name.clone(),
        cgroup,
        error: Box::new(error),
    })
}

/// A device that has gone meanwhile has nothing to be taken back.
async fn take_back(device: &DeviceHandle, applied: Applied) {
    let _ = set(device, applied.before).await;
    for cgroup in applied.created.into_iter().rev() {
        remove(device, cgroup).await;
    }
}

/// Removes cgroups that are not listed any more, children first. One that something else needs stays, with the defaults.
async fn remove_unlisted(devices: &[DeviceHandle], old: &Config, new: &Config) {
    for cgroup in settings::unlisted(old, new).into_iter().rev() {
        for device in devices {
            remove(device, cgroup.clone()).await;
        }
    }
}

async fn remove(device: &DeviceHandle, cgroup: Path) {
    let (reply, answer) = oneshot::channel();
    if device.send(Command::Remove { cgroup, is_trial: false, reply }).is_ok() {
        drop(answer.await);
    }
}

/// What would run if `new` were applied over `old`.
pub(crate) fn would_run(running: &Running, old: &Config, new: &Config) -> Config {
    let left_out = lock(&running.left_out).clone();
    let new = without(new, |name| !left_out.iter().any(|device| device.name == name));
    effective(old, &new)
}

/// What runs once `new` has been applied over `old`.
fn effective(old: &Config, new: &Config) -> Config {
    let kept = |device: &DeviceConfig| {
        let before = old.devices.iter().find(|before| before.name == device.name);
        before.map_or_else(|| device.clone(), |before| settings::kept(before, device))
    };
    Config {
        server: old.server.clone(),
        tls: settings::kept_tls(old, new),
        record: old.record.clone(),
        devices: new.devices.iter().map(kept).collect(),
        ..new.clone()
    }
}
