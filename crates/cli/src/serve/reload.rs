//! SIGHUP of a server: its configuration is read again.

use std::path::PathBuf;

use weir_config::{Config, ConfigErrors, ServerConfig};
use weir_server::control::{Change, Control, Identity};
use weir_server::{ApplyError, Changes, DeviceHandle, Running};

/// The file of a configuration.
#[derive(Debug)]
pub(super) struct Reload {
    path: PathBuf,
    /// As the file had it at the start, and as it was completed with flags and defaults.
    read: ServerConfig,
    completed: ServerConfig,
}

/// Why nothing has changed.
enum NotApplied {
    Config(ConfigErrors),
    Apply(ApplyError),
}

impl Reload {
    pub(super) fn new(path: PathBuf, read: ServerConfig, completed: ServerConfig) -> Reload {
        Reload { path, read, completed }
    }

    /// Reads the file again and has the server be what it says, all or nothing. The log has the result, and keys that need
    /// a restart.
    pub(super) async fn read_again(&self, control: &Control<DeviceHandle>, running: &Running) {
        let path = self.path.display().to_string();
        match self.apply(running).await {
            Ok(changes) => {
                if !changes.is_empty() {
                    let new = Some(format!("{} settings of {path}", changes.settings));
                    let change = Change { operation: "reload", new, ..Change::default() };
                    control.changed_elsewhere(&Identity::Signal("SIGHUP"), &[change]).await;
                }
                tell(&changes, &path);
            }
            Err(NotApplied::Config(errors)) => {
                for error in errors.errors() {
                    tracing::error!("{error}");
                }
                let errors = errors.errors().len() + errors.more();
                tracing::error!(path, errors, "configuration refused: nothing has changed");
            }
            Err(NotApplied::Apply(error)) => {
                tracing::error!(path, %error, "configuration refused: nothing has changed");
            }
        }
    }

    async fn apply(&self, running: &Running) -> Result<Changes, NotApplied> {
        let mut read = Config::plan_from_file(&self.path).map_err(NotApplied::Config)?;
        let server = &mut read.server;
        if server.socket == self.read.socket {
            server.socket.clone_from(&self.completed.socket);
        }
        if server.control == self.read.control {
            server.control.clone_from(&self.completed.control);
        }
        if server.exit_last == self.read.exit_last {
            server.exit_last = self.completed.exit_last;
        }
        running.apply(&read, false).await.map_err(NotApplied::Apply)
    }
}

fn tell(changes: &Changes, path: &str) {
    tracing::info!(path, changed = changes.settings, "configuration read again");
    let lists = [
        ("device added", &changes.devices_added),
        ("device removed", &changes.devices_removed),
        ("export added", &changes.exports_added),
        ("export changed: new connections find it so", &changes.exports_changed),
        ("export removed", &changes.exports_removed),
    ];
    for (done, names) in lists {
        for name in names {
            tracing::info!(name, "{done}");
        }
    }
    for key in &changes.needs_restart {
        tracing::warn!(key, "changed in the configuration: needs a restart");
    }
}
