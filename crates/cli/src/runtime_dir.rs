//! Default directory of sockets: a service's own, else with the user's other sockets, or with the system's for root.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use weir_config::ServerConfig;

use crate::failure::Failure;

/// How the names of control sockets end.
pub(crate) const CONTROL: &str = "control.sock";
/// How the names of those end that only read.
pub(crate) const CONTROL_READ: &str = "control-read.sock";

/// How the names of those end that are for metrics.
pub(crate) const METRICS: &str = "metrics.sock";

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
