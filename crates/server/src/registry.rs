//! Devices and exports of a server, and which clients may use them, as they are now.
//!
//! The tables are replaced as a whole: a reader goes on with those that it has. They are read when connections come, and
//! by the control API, never for a request.

use std::sync::{Arc, PoisonError, RwLock};

use crate::access::Peers;
use crate::device::DeviceHandle;
use crate::exports::{DeviceId, ExportTable};

/// The tables of a server.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    tables: RwLock<Arc<Tables>>,
}

/// Devices and exports at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    /// In the order of the configuration.
    pub(crate) devices: Vec<DeviceHandle>,
    pub(crate) exports: ExportTable,
    pub(crate) peers: Peers,
}

impl Registry {
    /// The tables as they are now.
    pub(crate) fn tables(&self) -> Arc<Tables> {
        Arc::clone(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts `tables` in their place.
    pub(crate) fn replace(&self, tables: Tables) {
        *self.tables.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tables);
    }
}

impl Tables {
    /// A device; `None` once it has been removed. O(devices).
    pub(crate) fn device(&self, id: DeviceId) -> Option<&DeviceHandle> {
        self.devices.iter().find(|device| device.id == id)
    }

    /// Likewise, by its name.
    pub(crate) fn device_named(&self, name: &str) -> Option<&DeviceHandle> {
        self.devices.iter().find(|device| device.name == name)
    }
}
