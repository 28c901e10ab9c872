//! Default directory of sockets: a service's own, else with the user's other sockets, or with the system's for root.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use weir_config::ServerConfig;

use crate::failure::Failure;

/// How the names of control sockets end.
pub(crate) const CONTROL: &str = "control.sock";
/// How the names of those end that only read.
pub(crate) const CONTROL_READ: &str = "control-read.sock";

/// The first of `$RUNTIME_DIRECTORY`, which systemd sets for a service; else `$XDG_RUNTIME_DIR/weir`; else for root `/run/weir`,
/// for others `/tmp/weir-UID`.
pub(crate) fn path() -> PathBuf {
    let user = rustix::process::getuid();
    let service = std::env::var_os("RUNTIME_DIRECTORY").unwrap_or_default();
    let service = service.to_str().and_then(|paths| paths.split(':').next()).map(Path::new);
    if let Some(directory) = service.filter(|directory| directory.is_absolute()) {
        return directory.into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(directory) if directory.is_absolute() => directory.join("weir"),
        _ if user.is_root() => ServerConfig::RUNTIME_DIR.into(),
        _ => format!("/tmp/weir-{}", user.as_raw()).into(),
    }
}

/// [`path`], made if it is not there.
///
/// # Errors
///
/// When it cannot be made, or, in `/tmp` where anyone can make one, is another user's.
pub(crate) fn make() -> Result<PathBuf, Failure> {
    let path = path();
    let fail = |error: io::Error| {
        Failure::failed(format!("{}: {error}", path.display()))
            .hint("name the sockets with --socket and --control".to_owned())
    };
    // The system's is for everyone to look into, so that a group gets to the reading socket: each socket has a mode.
    let mode = if path == Path::new(ServerConfig::RUNTIME_DIR) { 0o755 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(&path).map_err(fail)?;
    let found = path.symlink_metadata().map_err(fail)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(fail(io::Error::other("not a directory of this user")));
    }
    Ok(path)
}

/// The control socket of the server to talk to: `given`, or that of the one server that runs.
///
/// # Errors
///
/// When none runs, or several do.
pub(crate) fn find_control(given: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        return Ok(given.into());
    }
    let mut directories = vec![path(), ServerConfig::RUNTIME_DIR.into()];
    directories.dedup();
    // One's own servers are meant before the system's: those of weir.service and of each weir@NAME.service.
    let system = directories.len() - 1;
    let mut found: Vec<PathBuf> =
        directories[..system].iter().flat_map(|own| living(own)).collect();
    if found.is_empty() {
        let services = directories[system..].iter().cloned().chain(services());
        found = services.flat_map(|directory| living(&directory)).collect();
    }
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => {
            let places: Vec<String> =
                directories.iter().map(|directory| directory.display().to_string()).collect();
            Err(Failure::failed(format!("no server answers in {}", places.join(" or "))).hint(
                "`weir serve` starts one; --control names its socket if it is elsewhere".to_owned(),
            ))
        }
        (Some(one), false) => {
            found.push(one);
            let sockets: Vec<String> =
                found.iter().map(|socket| format!("  --control {}", socket.display())).collect();
            Err(Failure::wrong("several servers run, which one is meant?")
                .hint(format!("choose with\n{}", sockets.join("\n"))))
        }
    }
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

/// The control sockets in `directory` with a listener, by name.
fn living(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = directory.read_dir() else { return Vec::new() };
    let mut sockets: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(CONTROL))
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect();
    sockets.sort();
    sockets
}
