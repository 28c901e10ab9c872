//! Rates of an export between two readings.

use std::collections::HashMap;

use weir_server::status::{ExportStatus, Status};

/// What the clients of an export had meanwhile; all zero for a new one. The names are those of the JSON.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub(crate) struct ExportRates {
    pub(crate) read_bytes_per_sec: u64,
    pub(crate) write_bytes_per_sec: u64,
    /// Requests of all kinds that were answered.
    pub(crate) answered_ios_per_sec: f64,
    /// Requests inside at once, on average: by Little's law, their summed times over the interval.
    pub(crate) inside_mean: f64,
}

impl ExportRates {
    /// Of each export of `after`, in its order. O(devices + exports).
    pub(crate) fn all(before: &Status, after: &Status) -> Vec<ExportRates> {
        let at_ns = |status: &Status| -> HashMap<String, u64> {
            let devices = status.devices.iter();
            devices.map(|device| (device.device.clone(), device.at_ns)).collect()
        };
        let (from_ns, to_ns) = (at_ns(before), at_ns(after));
        let old: HashMap<&str, &ExportStatus> =
            before.exports.iter().map(|export| (export.export.as_str(), export)).collect();
        let rates = after.exports.iter().map(|export| {
            let old = old.get(export.export.as_str())?;
            let (from_ns, to_ns) = (from_ns.get(&export.device)?, to_ns.get(&export.device)?);
            Some(ExportRates::between(old, export, to_ns.saturating_sub(*from_ns)))
        });
        rates.map(Option::unwrap_or_default).collect()
    }

    fn between(old: &ExportStatus, new: &ExportStatus, interval_ns: u64) -> ExportRates {
        let seconds = interval_ns.max(1) as f64 / 1e9;
        let per_sec =
            |of: fn(&ExportStatus) -> u64| of(new).saturating_sub(of(old)) as f64 / seconds;
        ExportRates {
            read_bytes_per_sec: per_sec(|export| export.read_bytes).round() as u64,
            write_bytes_per_sec: per_sec(|export| export.write_bytes).round() as u64,
            answered_ios_per_sec: per_sec(|export| {
                export.read_ios + export.write_ios + export.discard_ios + export.other_ios
            }),
            inside_mean: per_sec(|export| export.inside_ns) / 1e9,
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_server::status::DeviceStatus;

    use super::*;

    #[test]
    fn two_seconds_of_an_export() {
        let status = |seconds: u64| Status {
            version: String::new(),
            uptime_secs: seconds,
            generation: String::new(),
            listeners: Default::default(),
            sandbox: Default::default(),
            recording: None,
            devices: vec![DeviceStatus {
                device: "disk".into(),
                at_ns: seconds * 1_000_000_000,
                ..DeviceStatus::default()
            }],
            exports: vec![ExportStatus {
                export: "db".into(),
                device: "disk".into(),
                read_ios: 100 * seconds,
                read_bytes: 409_600 * seconds,
                other_ios: seconds,
                inside_ns: 8_000_000_000 * seconds,
                ..ExportStatus::default()
            }],
        };
        let (before, mut after) = (status(1), status(3));
        let expected = ExportRates {
            read_bytes_per_sec: 409_600,
            write_bytes_per_sec: 0,
            answered_ios_per_sec: 101.0,
            inside_mean: 8.0,
        };
        assert_eq!(ExportRates::all(&before, &after), [expected]);
        after.exports[0].export = "new".into();
        assert_eq!(ExportRates::all(&before, &after), [ExportRates::default()]);
    }
}
