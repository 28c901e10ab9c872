//! Changes that a new configuration has made, as clients and the log are told of them.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::DeviceHandle;
use crate::exports::Served;
use crate::registry::Tables;

/// What a change has done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// Settings of cgroups and devices, and limits of an export's clients, that have changed.
    pub settings: usize,
    /// Devices that are served now.
    pub devices_added: Vec<String>,
    /// Devices that are not served any more.
    pub devices_removed: Vec<String>,
    /// Exports that are served now.
    pub exports_added: Vec<String>,
    /// Exports that new connections find changed; connections that were there go on as they were.
    pub exports_changed: Vec<String>,
    /// Exports that are not served any more.
    pub exports_removed: Vec<String>,
    /// Each difference of what runs now from what ran before, as a line of `weir config diff`.
    pub differences: Vec<String>,
    /// Keys that differ and that only a restart changes.
    pub needs_restart: Vec<String>,
    /// What has not gone well and does not take the change back: a removed device that could not be flushed.
    pub warnings: Vec<String>,
}

impl Changes {
    /// Whether all is as it was.
    pub fn is_empty(&self) -> bool {
        self.settings == 0 && self.differences.is_empty()
    }

    /// What is served otherwise by the `new` tables than by the `old` ones; of settings, limits of an export's clients.
    pub(super) fn between(old: &Tables, new: &Tables) -> Changes {
        let name = |device: &DeviceHandle| device.name.clone();
        let mut changes = Changes::default();
        let added = new.devices.iter().filter(|device| old.device(device.id).is_none());
        changes.devices_added.extend(added.map(name));
        let gone = old.devices.iter().filter(|device| new.device(device.id).is_none());
        changes.devices_removed.extend(gone.map(name));
        for export in new.exports.iter() {
            let name = export.nbd.name.clone();
            let before = old.exports.get(export.nbd.id);
            let is_limit_new = before.is_some_and(|before| before.client_max != export.client_max);
            changes.settings += usize::from(is_limit_new);
            match before {
                None => changes.exports_added.push(name),
                Some(before) if !before.is_like(export) => changes.exports_changed.push(name),
                Some(_) => {}
            }
        }
        let gone = removed_exports(old, new);
        changes.exports_removed.extend(gone.map(|export| export.nbd.name.clone()));
        changes
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} settings", self.settings)?;
        let lists = [
            ("devices added", &self.devices_added),
            ("devices removed", &self.devices_removed),
            ("exports added", &self.exports_added),
            ("exports changed", &self.exports_changed),
            ("exports removed", &self.exports_removed),
        ];
        for (done, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            write!(f, ", {done}: {}", names.join(" "))?;
        }
        Ok(())
    }
}

/// Exports that are not served any more.
pub(super) fn removed_exports<'t>(
    old: &'t Tables,
    new: &'t Tables,
) -> impl Iterator<Item = &'t Arc<Served>> {
    old.exports.iter().filter(|export| new.exports.get(export.nbd.id).is_none())
}

#[cfg(test)]
mod tests {
    use weir_config::Config;
    use weir_engine::{Dimension, Path, PerDimension};
    use weir_nbd::{BlockSizes, Export, ExportId, Features};

    use super::*;
    use crate::access::Peers;
    use crate::device::{self, DeviceFacts};
    use crate::exports::DeviceId;

    fn device(id: u32, name: &str) -> DeviceHandle {
        let text = format!(
            "[device.{name}]\npath = \"memory:1M\"\n[export.e]\ndevice = \"{name}\"\ncgroup = \"/\""
        );
        let config = Config::from_str("a test", &text).expect("a configuration");
        let facts =
            DeviceFacts { size: 1 << 20, read_only: false, block_bytes: 512, is_rotational: false };
        device::prepare(DeviceId(id), &config.devices[0], Arc::new(facts)).0
    }

    fn export(id: u32, size: u64, client_max: PerDimension) -> Arc<Served> {
        let nbd = Export {
            id: ExportId(id),
            name: format!("vm{id}"),
            description: String::new(),
            size,
            features: Features::default(),
            block_sizes: BlockSizes::DEFAULT,
        };
        let (device, cgroup) = (DeviceId(1), Path::parse("/").expect("a path"));
        let counters = Arc::default();
        Arc::new(Served { nbd, device, cgroup, start: 0, connections_max: 9, client_max, counters })
    }

    fn tables(
        devices: Vec<DeviceHandle>,
        exports: impl IntoIterator<Item = Arc<Served>>,
    ) -> Tables {
        Tables { devices, exports: exports.into_iter().collect(), peers: Peers::default() }
    }

    #[test]
    fn what_is_served_otherwise_is_told_by_kind() {
        let none = PerDimension::NONE;
        let limited = none.with(Dimension::Riops, 100);
        let more = Served { connections_max: 10, ..Served::clone(&export(5, 512, none)) };
        let old = tables(
            vec![device(1, "disk"), device(2, "old")],
            [1, 2, 3, 5].map(|id| export(id, 512, none)),
        );
        let new = tables(
            vec![device(1, "disk"), device(3, "new")],
            [
                export(2, 1024, none),
                export(3, 512, limited),
                export(4, 512, limited),
                Arc::new(more),
            ],
        );
        let changes = Changes::between(&old, &new);
        assert_eq!(
            changes.to_string(),
            "1 settings, devices added: new, devices removed: old, exports added: vm4, exports changed: vm2, \
             exports removed: vm1"
        );
        assert_eq!(Changes::between(&new, &new).to_string(), "0 settings");
    }

    #[test]
    fn keys_that_wait_for_a_restart_have_changed_nothing() {
        let needs_restart = vec!["server.listen".into()];
        assert!(Changes { needs_restart, ..Changes::default() }.is_empty());
        assert!(!Changes { settings: 1, ..Changes::default() }.is_empty());
        let differences = vec!["- peer db".into()];
        assert!(!Changes { differences, ..Changes::default() }.is_empty());
    }
}
