//! The status for programs.

use serde_json::{Value, json};
use weir_server::status::{DeviceStatus, Status};

use super::exports::ExportRates;
use super::rates::{Interval, seconds, utilisation_percent};
use super::selection::Selection;
use crate::failure::Failure;

/// The second reading, with the differences to the first added to each device, cgroup and export.
pub(crate) fn document(
    before: &Status,
    after: &Status,
    selection: &Selection,
) -> Result<Value, Failure> {
    let fail = |error| Failure::failed(format!("cannot write JSON: {error}"));
    let mut devices = Vec::new();
    for device in &after.devices {
        let old = earlier(before, device);
        let mut value = serde_json::to_value(device).map_err(fail)?;
        value["interval_ns"] = json!((seconds(old, device) * 1e9).round() as u64);
        value["utilisation_percent"] = json!(utilisation_percent(old, device));
        let interval = Interval::new(old, device);
        let mut cgroups = Vec::new();
        for shown in selection.of(&interval) {
            let mut cgroup = value["cgroups"][shown.place].take();
            cgroup["rates"] = serde_json::to_value(shown.rates).map_err(fail)?;
            cgroups.push(cgroup);
        }
        value["cgroups"] = Value::Array(cgroups);
        devices.push(value);
    }
    let mut exports = Vec::new();
    for (export, rates) in after.exports.iter().zip(ExportRates::all(before, after)) {
        let mut value = serde_json::to_value(export).map_err(fail)?;
        value["rates"] = serde_json::to_value(rates).map_err(fail)?;
        exports.push(value);
    }
    Ok(json!({
        "version": after.version,
        "uptime_secs": after.uptime_secs,
        "generation": after.generation,
        "listeners": after.listeners,
        "sandbox": after.sandbox,
        "recording": after.recording,
        "devices": devices,
        "exports": exports,
    }))
}

/// The earlier reading of `device`; itself for a new one, so that all differences are zero.
pub(crate) fn earlier<'s>(before: &'s Status, device: &'s DeviceStatus) -> &'s DeviceStatus {
    before.devices.iter().find(|old| old.device == device.device).unwrap_or(device)
}
