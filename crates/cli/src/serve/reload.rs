//! SIGHUP of a server: its configuration is read again.

use weir_server::control::{Control, Identity};
use weir_server::tenants::{Tenants, TenantsError};
use weir_server::{ApplyError, Changes, DeviceHandle};

/// Has the server be what its configuration says, all or nothing. The log has the result, and keys that need a restart.
pub(super) async fn reload(control: &Control<DeviceHandle>, tenants: &Tenants) {
    match control.reload_for(&Identity::Signal("SIGHUP"), tenants).await {
        Ok(changes) => tell(&changes),
        Err(TenantsError::NoFiles) => {
            tracing::info!("SIGHUP: there is no configuration to be read again");
        }
        Err(TenantsError::Config(errors)) => {
            for error in errors.errors() {
                tracing::error!("{error}");
            }
            let errors = errors.errors().len() + errors.more();
            tracing::error!(errors, "configuration refused: nothing has changed");
        }
        Err(TenantsError::Apply(ApplyError::Certificates(error))) => {
            let hint = error.hint();
            tracing::error!(%error, hint, "configuration refused: nothing has changed");
        }
        Err(error) => tracing::error!(%error, "configuration refused: nothing has changed"),
    }
}

fn tell(changes: &Changes) {
    tracing::info!(changed = changes.settings, "configuration read again");
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
    for warning in &changes.warnings {
        tracing::warn!("{warning}");
    }
    for key in &changes.needs_restart {
        tracing::warn!(key, "changed in the configuration: needs a restart");
    }
}
