//! Paths that a process in the sandbox may still open, and ports that it may bind.

use std::path::{Path, PathBuf};

use weir_config::{Backend, Config, ListenAddress, Sandbox, TlsConfig};

/// Read wherever the configuration is: the status of threads, the properties of disks, what a panic prints.
const SYSTEM: [&str; 4] = ["/proc/self", "/sys/devices", "/dev/tty", "/dev/urandom"];

/// Purpose of a file or directory, which says what may be done there and below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// It is read.
    Read,
    /// Files are opened as devices: read and written, not created and not removed.
    Devices,
    /// Sockets are bound and removed.
    Sockets,
    /// Changes are kept: files are created, written and removed.
    Kept,
    /// The same, of recordings.
    Recordings,
}

/// Paths that a process in the sandbox may still open, and TCP ports that it may bind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allowed {
    paths: Vec<(PathBuf, Purpose)>,
    ports: Vec<u16>,
}

impl Allowed {
    /// What `config` names: its devices, its models, its sockets, and the directories of certificates, which are renewed; and
    /// the service's own directory.
    pub fn new(config: &Config) -> Allowed {
        let mut allowed = Allowed::default();
        for path in SYSTEM {
            allowed.add(Path::new(path), Purpose::Read);
        }
        if let Ok(program) = std::env::current_exe() {
            allowed.add(&program, Purpose::Read);
        }
        let server = &config.server;
        for device in &config.devices {
            if let Backend::File { path, .. } = &device.backend {
                allowed.add(path, Purpose::Devices);
            }
            if let Some(model) = &device.model {
                allowed.add_directory(model, Purpose::Read);
            }
        }
        if let Some(tls) = &config.tls {
            let TlsConfig { certificate, key, client_ca, crl, .. } = tls;
            let files = [Some(certificate), Some(key), client_ca.as_ref(), crl.as_ref()];
            for file in files.into_iter().flatten() {
                allowed.add_directory(file, Purpose::Read);
            }
        }
        if let Some(record) = &config.record {
            // A rule needs it to be there; where it cannot be made, the recording says so.
            let _ = std::fs::create_dir(&record.directory);
            allowed.add(&record.directory, Purpose::Recordings);
        }
        for path in &server.sandbox_paths {
            allowed.add(path, Purpose::Devices);
        }
        // What systemd calls StateDirectory= of a unit; several are divided by colons.
        if let Some(state) = std::env::var_os("STATE_DIRECTORY") {
            std::env::split_paths(&state).for_each(|path| allowed.add(&path, Purpose::Devices));
        }
        let sockets = [&server.socket, &server.control, &server.control_read, &server.metrics];
        for socket in sockets.into_iter().flatten() {
            allowed.add_directory(socket, Purpose::Sockets);
        }
        let tcp = server.listen.iter().filter_map(|address| match address {
            ListenAddress::Tcp(address) => Some(address.port()),
            ListenAddress::Vsock { .. } => None,
        });
        allowed.ports = tcp.collect();
        allowed
    }

    /// With the configuration at `main`, which is read again, and beside which changes are kept; devices may be added then
    /// wherever there is one now. The directory of kept changes is made: a rule needs it to be there.
    #[must_use]
    pub fn with_files(mut self, main: &Path, config: &Config) -> Allowed {
        self.add_directory(main, Purpose::Read);
        if let Some(kept) = Config::directory(main) {
            // Where it cannot be made, no change can be kept either, which is told when there is one.
            let is_needed = config.server.sandbox != Sandbox::Off;
            if is_needed && std::fs::create_dir(&kept).is_ok() {
                let _ = std::fs::File::open(directory(main)).and_then(|above| above.sync_all());
            }
            self.add(&kept, Purpose::Kept);
        }
        for device in &config.devices {
            if let Backend::File { path, .. } = &device.backend {
                self.add_directory(path, Purpose::Devices);
            }
        }
        self
    }

    /// With a socket that the configuration does not name.
    #[must_use]
    pub fn with_socket(mut self, socket: &Path) -> Allowed {
        self.add_directory(socket, Purpose::Sockets);
        self
    }

    /// The paths with their purposes; some may not exist.
    pub(super) fn paths(&self) -> &[(PathBuf, Purpose)] {
        &self.paths
    }

    /// TCP ports that may be bound.
    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Where devices may be; symbolic links are resolved.
    pub(super) fn device_paths(&self) -> Vec<PathBuf> {
        let devices = self.paths.iter().filter(|(_, purpose)| *purpose == Purpose::Devices);
        let mut paths: Vec<PathBuf> =
            devices.filter_map(|(path, _)| path.canonicalize().ok()).collect();
        paths.sort();
        paths.dedup();
        paths
    }

    fn add(&mut self, path: &Path, purpose: Purpose) {
        self.paths.push((path.to_owned(), purpose));
    }

    /// Adds the directory of `path`, and that of what it leads to. The root directory is left out: that would be all.
    fn add_directory(&mut self, path: &Path, purpose: Purpose) {
        let real = path.canonicalize().ok();
        for path in [Some(path), real.as_deref()].into_iter().flatten() {
            let directory = directory(path);
            if directory != Path::new("/") {
                self.add(directory, purpose);
            }
        }
    }
}

/// The directory that `path` is in.
fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}
