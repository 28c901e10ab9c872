//! Operations on devices, exports and the configuration's files.

use weir_config::{Difference, KeptErrorKind, KeyValue, SectionKind};

use super::api::{
    ChangeReply, ChangeRequest, DeviceEntry, DevicesReply, DifferencesReply, ExportEntry,
    ExportsReply, ReloadRequest, ResizeReply, ResizeRequest,
};
use super::caller::Change;
use super::host::Target;
use super::operations::Control;
use super::refuse::Refused;
use super::route::Call;
use crate::change::{ApplyError, Changes};
use crate::serve::Running;
use crate::tenants::{Edit, How, Tenants, TenantsError};

/// Edits that one request may make.
const EDITS_MAX: usize = 1000;

impl<T: Target> Control<T> {
    pub(super) async fn list_devices(&self) -> Result<DevicesReply, Refused> {
        let generation = self.generation_text();
        let devices = self.tenants()?.running().list_devices().await;
        Ok(DevicesReply { devices, generation })
    }

    pub(super) async fn list_exports(&self) -> Result<ExportsReply, Refused> {
        let generation = self.generation_text();
        let exports = self.tenants()?.running().list_exports().await;
        Ok(ExportsReply { exports, generation })
    }

    pub(super) async fn differences(&self) -> Result<DifferencesReply, Refused> {
        let generation = self.generation_text();
        let differences = self.tenants()?.differences().await.map_err(refused)?;
        Ok(DifferencesReply { differences, generation })
    }

    pub(super) async fn change(
        &self,
        call: &Call,
        request: &ChangeRequest,
    ) -> Result<ChangeReply, Refused> {
        let edits = request.edits.len();
        if edits == 0 || edits > EDITS_MAX {
            let message = format!("{edits} edits; 1 to {EDITS_MAX} are taken");
            return Err(Refused::bad("edits", message));
        }
        let turn = self.turn(call).await?;
        let how = How { is_runtime: request.runtime, force: request.force };
        let changes = self.tenants()?.change(&request.edits, how).await.map_err(refused)?;
        let lines: Vec<Change> = request.edits.iter().map(line).collect();
        let generation = turn.changed(&lines);
        Ok(ChangeReply { changes, generation })
    }

    pub(super) async fn reload(
        &self,
        call: &Call,
        request: &ReloadRequest,
    ) -> Result<ChangeReply, Refused> {
        let turn = self.turn(call).await?;
        let reloaded = self.tenants()?.reload(request.force).await;
        self.note_reload(reloaded.is_ok());
        let (changes, differences) = reloaded.map_err(refused)?;
        let generation = turn.changed(&reload_lines(&changes, &differences));
        Ok(ChangeReply { changes, generation })
    }

    pub(super) async fn resize(
        &self,
        call: &Call,
        request: &ResizeRequest,
    ) -> Result<ResizeReply, Refused> {
        let turn = self.turn(call).await?;
        let device = request.device.clone();
        let grown = self.tenants()?.running().grow(&device).await.map_err(by_server)?;
        let change = Change {
            operation: "resize",
            device: Some(device.clone()),
            old: Some(grown.before.to_string()),
            new: Some(grown.size.to_string()),
            ..Change::default()
        };
        let generation = turn.changed(&[change]);
        Ok(ResizeReply {
            device,
            old_size_bytes: grown.before,
            size_bytes: grown.size,
            exports: grown.exports,
            generation,
        })
    }

    /// Keeps what the devices have been told, or takes note that it is not kept.
    pub(super) async fn keep(&self, edits: &[Edit], is_runtime: bool) -> Result<(), Refused> {
        match self.host().tenants() {
            Some(tenants) => {
                let how = How { is_runtime, force: false };
                tenants.keep(edits, how).await.map_err(refused)
            }
            None => Ok(()),
        }
    }

    fn tenants(&self) -> Result<&Tenants, Refused> {
        self.host().tenants().ok_or_else(|| Refused::silent("this server has fixed devices"))
    }
}

/// Most lines of one reload in the log.
const RELOAD_LINES_MAX: usize = 1_000;

/// Log lines of a reload: one for each difference.
pub(super) fn reload_lines(changes: &Changes, differences: &[Difference]) -> Vec<Change> {
    let mut lines: Vec<Change> = differences.iter().take(RELOAD_LINES_MAX).map(reloaded).collect();
    let more = differences.len().saturating_sub(RELOAD_LINES_MAX);
    if more > 0 || lines.is_empty() && !changes.is_empty() {
        let new = match more {
            // Set at run time, where the files say what they did before.
            0 => changes.to_string(),
            more => format!("{more} differences more"),
        };
        lines.push(Change { operation: "reload", new: Some(new), ..Change::default() });
    }
    lines
}

fn reloaded(Difference { section, name, change }: &Difference) -> Change {
    let mut line = Change { operation: "reload", ..Change::default() };
    let keys = |keys: &[KeyValue]| {
        let words = keys.iter().map(|KeyValue { key, device, value }| {
            let device = device.as_ref().map(|device| format!("{device} ")).unwrap_or_default();
            format!("{key} = {device}{value}")
        });
        Some(words.collect::<Vec<_>>().join(", "))
    };
    let of_section = match section {
        SectionKind::Cgroup => {
            line.cgroup = Some(name.clone());
            None
        }
        SectionKind::Device => {
            line.device = Some(name.clone());
            None
        }
        SectionKind::Server | SectionKind::Tls | SectionKind::Record => {
            Some(section.name().to_owned())
        }
        SectionKind::Export | SectionKind::Peer | SectionKind::Token => {
            Some(format!("{}.{name}", section.name()))
        }
    };
    let key = match change {
        weir_config::Change::Added { keys: added } => {
            line.new = keys(added);
            None
        }
        weir_config::Change::Removed { keys: removed } => {
            line.old = keys(removed);
            None
        }
        weir_config::Change::Changed { key, device, old, new } => {
            line.device = device.clone().or(line.device);
            (line.old, line.new) = (old.clone(), new.clone());
            Some(key.clone())
        }
    };
    line.key = match (of_section, key) {
        (Some(section), Some(key)) => Some(format!("{section}.{key}")),
        (section, key) => section.or(key),
    };
    line
}

fn line(edit: &Edit) -> Change {
    let mut change =
        Change { operation: "change", new: Some(edit.to_string()), ..Change::default() };
    if let Edit::Set { cgroup, device, key, value } = edit {
        change.operation = "set";
        (change.cgroup, change.device) = (Some(cgroup.clone()), device.clone());
        (change.key, change.new) = (Some(key.clone()), Some(value.clone()));
    }
    change
}

pub(super) fn refused(error: TenantsError) -> Refused {
    let message = error.to_string();
    match error {
        TenantsError::NoFiles => Refused::conflict("", message)
            .hint("start it with one: `weir serve weir.toml`".to_owned()),
        TenantsError::Config(_) => Refused::bad("", message),
        TenantsError::Kept(error) => match error.kind {
            KeptErrorKind::Missing => Refused::missing("", message),
            KeptErrorKind::Invalid => Refused::bad("", message),
            KeptErrorKind::Exists
            | KeptErrorKind::NotInAFile
            | KeptErrorKind::Overridden
            | KeptErrorKind::Changed
            | KeptErrorKind::Busy => Refused::conflict("", message),
            KeptErrorKind::Storage => Refused::silent(message),
        }
        .hint(error.hint),
        TenantsError::Apply(error) => by_server(error),
        TenantsError::Unapplied { .. } => Refused::conflict("", message).hint(
            "`weir reload --dry-run` shows all, `weir reload` applies them; or say it at run time only, with `--runtime`"
                .to_owned(),
        ),
    }
}

fn by_server(error: ApplyError) -> Refused {
    let message = error.to_string();
    match &error {
        ApplyError::Refused { error, .. } => {
            let mut refused = Refused::by_device("", error);
            refused.refusal.message = message;
            refused
        }
        ApplyError::UnknownDevice(_) => Refused::missing("device", message)
            .hint("`weir device list` shows those there are".to_owned()),
        ApplyError::NotGrown { .. } => Refused::conflict("device", message)
            .hint("let the file grow first: `truncate -s 20G disk.img`".to_owned()),
        ApplyError::Sandboxed { .. } => Refused::conflict("path", message).hint(
            "`weir status --format json` has the paths that are open to devices; `sandbox = \"off\"` opens all".to_owned(),
        ),
        ApplyError::Open { .. } | ApplyError::NoDevice => Refused::conflict("", message),
        ApplyError::Certificates(error) => Refused::conflict("tls", message).hint(error.hint()),
        ApplyError::Range { .. } => Refused::bad("range", message),
        ApplyError::BlockSize { .. } => Refused::bad("block_size", message),
        ApplyError::Connected { .. } => {
            Refused::conflict("", message).hint("`--force` closes them".to_owned())
        }
        ApplyError::Device { .. }
        | ApplyError::Thread(_)
        | ApplyError::Gone(_)
        | ApplyError::Ending => Refused::silent(message),
    }
}

impl Running {
    async fn list_devices(&self) -> Vec<DeviceEntry> {
        let config = self.config().await;
        let tables = self.tables();
        let devices = tables.devices.iter();
        devices
            .map(|device| {
                let exports = tables.exports.iter().filter(|export| export.device == device.id);
                let configured = config.devices.iter().find(|found| found.name == device.name);
                DeviceEntry {
                    device: device.name.clone(),
                    path: configured.map(source_name).unwrap_or_default(),
                    size_bytes: device.facts().size,
                    read_only: device.facts().read_only,
                    exports: exports.map(|export| export.nbd.name.clone()).collect(),
                }
            })
            .collect()
    }

    async fn list_exports(&self) -> Vec<ExportEntry> {
        let tables = self.tables();
        let uris = self.uris();
        let exports = tables.exports.iter();
        exports
            .map(|export| {
                let name = &export.nbd.name;
                let uris = uris.iter().filter(|(export, _)| export == name);
                ExportEntry {
                    export: name.clone(),
                    device: tables
                        .device(export.device)
                        .map_or_else(String::new, |device| device.name.clone()),
                    cgroup: export.cgroup.to_string(),
                    size_bytes: export.nbd.size,
                    read_only: export.nbd.features.read_only,
                    description: export.nbd.description.clone(),
                    connections: self.connections(export.nbd.id),
                    uris: uris.map(|(_, uri)| uri.clone()).collect(),
                }
            })
            .collect()
    }
}

fn source_name(device: &weir_config::DeviceConfig) -> String {
    crate::change::source_name(&device.backend)
}
