//! Search for the control socket of the server that a command is for.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use weir_config::{Config, ServerConfig};

use crate::failure::Failure;
use crate::runtime_dir::{self, CONTROL, CONTROL_READ};

/// Environment variable with the path of a control socket.
const VARIABLE: &str = "WEIR_CONTROL";
/// Configuration of the system's server.
const SYSTEM_CONFIG: &str = "/etc/weir/weir.toml";

/// What a command wants of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Answers: the reading socket will do.
    Read,
    /// A change.
    Change,
}

/// What the command line says of the server.
#[derive(Debug, Default)]
pub(crate) struct Server {
    /// `--control`.
    pub(crate) control: Option<PathBuf>,
    /// `--config`.
    pub(crate) config: Option<PathBuf>,
}

impl Server {
    /// The control socket: the one that is named; that of the configuration; that in `WEIR_CONTROL`; that of the one server
    /// that runs in the run-time directory, of the user or of the system; that of `/etc/weir/weir.toml`.
    ///
    /// # Errors
    ///
    /// When none runs, or several do, or the configuration cannot be read.
    pub(crate) fn find(&self, purpose: Purpose) -> Result<PathBuf, Failure> {
        if let Some(control) = &self.control {
            return Ok(control.clone());
        }
        if let Some(path) = &self.config {
            let config = Config::plan_from_file(path).map_err(Failure::Config)?;
            if let Some(named) = named(&config.server, purpose) {
                return Ok(named);
            }
        } else if let Some(path) = from_environment() {
            return Ok(path);
        }
        let mut directories = vec![runtime_dir::path(), ServerConfig::RUNTIME_DIR.into()];
        directories.dedup();
        // One's own servers are meant before the system's: those of weir.service and of each weir@NAME.service.
        let mut groups: Vec<Vec<PathBuf>> =
            directories.iter().map(|directory| vec![directory.clone()]).collect();
        groups.last_mut().expect("there is the system's").extend(services());
        if let Some(one) = running(&groups, purpose)? {
            return Ok(one);
        }
        // It may not be for this user to read; then it names nothing.
        let system = Config::plan_from_file(Path::new(SYSTEM_CONFIG)).ok();
        if let Some(named) = system.and_then(|config| named(&config.server, purpose)) {
            return Ok(named);
        }
        let places: Vec<String> =
            directories.iter().map(|directory| directory.display().to_string()).collect();
        let governor = match crate::govern::is_running() {
            true => "`weir govern status` is for the governor that runs; ",
            false => "",
        };
        let hint = format!(
            "{governor}`weir serve` starts one; --control, --config or {VARIABLE} names its socket if it is elsewhere"
        );
        Err(Failure::failed(format!("no server answers in {}", places.join(" or "))).hint(hint))
    }
}

/// What `WEIR_CONTROL` names.
pub(crate) fn from_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The socket that the configuration names: of two, the first that answers.
fn named(server: &ServerConfig, purpose: Purpose) -> Option<PathBuf> {
    let read = server.control_read.as_ref().filter(|_| purpose == Purpose::Read);
    let all = || server.control.iter().chain(read);
    all().find(|path| answers(path)).or(all().next()).cloned()
}

/// Directories of the instances of weir@.service: `/run/weir-NAME`.
fn services() -> Vec<PathBuf> {
    let system = Path::new(ServerConfig::RUNTIME_DIR);
    let prefix = format!("{}-", system.display());
    let entries = system.parent().and_then(|parent| parent.read_dir().ok());
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.to_string_lossy().starts_with(&prefix)).collect();
    paths.sort();
    paths
}

/// The socket of the one server that runs in the first group of directories where any does.
fn running(groups: &[Vec<PathBuf>], purpose: Purpose) -> Result<Option<PathBuf>, Failure> {
    let endings: &[&str] = match purpose {
        Purpose::Change => &[CONTROL],
        Purpose::Read => &[CONTROL, CONTROL_READ],
    };
    // A socket that takes changes is meant before one that does not.
    let of_group = |group: &Vec<PathBuf>, ending: &str| -> Vec<PathBuf> {
        group.iter().flat_map(|directory| living(directory, ending)).collect()
    };
    let found = groups
        .iter()
        .flat_map(|group| endings.iter().map(move |ending| of_group(group, ending)))
        .find(|sockets| !sockets.is_empty());
    match found.as_deref() {
        None => Ok(None),
        Some([one]) => Ok(Some(one.clone())),
        Some(several) => {
            let sockets: Vec<String> =
                several.iter().map(|socket| format!("  --control {}", socket.display())).collect();
            Err(Failure::wrong("several servers run, which one is meant?")
                .hint(format!("choose with\n{}", sockets.join("\n"))))
        }
    }
}

/// The sockets in `directory` with a listener whose names end so, by name.
fn living(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = directory.read_dir() else { return Vec::new() };
    let mut sockets: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .filter(|path| answers(path))
        .collect();
    sockets.sort();
    sockets
}

fn answers(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}
