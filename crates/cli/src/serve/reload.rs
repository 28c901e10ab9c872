//! SIGHUP of a server: its configuration is read again.

use std::path::PathBuf;

use weir_config::{Config, ConfigErrors};
use weir_server::DeviceHandle;
use weir_server::control::{Change, Control, Identity};
use weir_server::reload::{ReloadError, needs_restart, reload};

/// The file of a configuration, and its applied state.
#[derive(Debug)]
pub(super) struct Reload {
    path: PathBuf,
    /// As the file had it when the server was started.
    started: Config,
    /// As the file had it when it was last applied.
    applied: Config,
}

/// Why nothing has changed.
enum NotApplied {
    Config(ConfigErrors),
    Reload(ReloadError),
}

impl Reload {
    pub(super) fn new(path: PathBuf, read: Config) -> Reload {
        Reload { path, applied: read.clone(), started: read }
    }

    /// Reads the file again and applies what can change while the server runs, all or nothing. The log has the result, and
    /// keys that need a restart.
    pub(super) async fn read_again(
        &mut self,
        control: &Control<DeviceHandle>,
        devices: &[DeviceHandle],
    ) {
        let path = self.path.display().to_string();
        match self.apply(devices).await {
            Ok(changed) => {
                tracing::info!(path, changed, "configuration read again");
                if changed > 0 {
                    let new = Some(format!("{changed} settings of {path}"));
                    let change = Change { operation: "reload", new, ..Change::default() };
                    control.changed_elsewhere(&Identity::Signal("SIGHUP"), &[change]).await;
                }
                for key in needs_restart(&self.started, &self.applied) {
                    tracing::warn!(key, "changed in the configuration: needs a restart");
                }
            }
            Err(NotApplied::Config(errors)) => {
                for error in errors.errors() {
                    tracing::error!("{error}");
                }
                let errors = errors.errors().len() + errors.more();
                tracing::error!(path, errors, "configuration refused: nothing has changed");
            }
            Err(NotApplied::Reload(error)) => {
                tracing::error!(path, %error, "configuration refused: nothing has changed");
            }
        }
    }

    async fn apply(&mut self, devices: &[DeviceHandle]) -> Result<usize, NotApplied> {
        let read = Config::from_file(&self.path).map_err(NotApplied::Config)?;
        let changed = reload(devices, &self.applied, &read).await;
        let changed = changed.map_err(NotApplied::Reload)?;
        self.applied = read;
        Ok(changed)
    }
}
